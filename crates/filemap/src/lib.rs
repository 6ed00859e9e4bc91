//! Web pages by URL: pages over the FileMap engine, for crawlers.
//!
//! * [`PageStore`] puts and gets [`Page`]s by URL: the newest, that of a time, all versions, with or without the body.
//! * [`warc`] reads WARC files, whole or damaged, into a store.
//! * [`dump`] writes pages out as WARC files, their index, JSON Lines and plain files.
//! * [`meta`] is how a page's headers and the rest of its description are kept.
//!
//! Keys are made by a canonicaliser of `urlindex`; the URL as fetched is kept beside it. Bodies are bytes and are never
//! re-coded: character sets are the reader's matter.

pub mod date;
pub mod dump;
mod error;
mod headers;
mod http;
mod key;
pub mod meta;
mod page;
mod spool;
mod store;
pub mod warc;

pub use error::{Error, Result};
pub use filemap_core::{Durability, Event, Options, Put, Stats, Version};
pub use headers::{Header, Headers};
pub use page::{HttpVersion, Original, Page, RecordKind, Revisit, RevisitProfile};
pub use spool::Spool;
pub use store::{
    Heads, PageHead, PageReader, PageStore, Pages, Removed, Sizes, StoredVersion, StoredVersions, Urls, VersionSize,
    Versions,
};
pub use urlindex::{Canonicalizer, Exact, UrlError, Whatwg};
