//! Web pages by URL: pages over the FileMap engine, for crawlers.
//!
//! * [`PageStore`] puts and gets [`Page`]s by URL: the newest, that of a time, all versions, with or without the body.
//! * A [`Variant`] tells the answers of one URL apart: that of a `POST` never stands in the page's place.
//! * [`import`] puts WARC, ARC and WACZ files, whole or damaged, into a store; [`warc`] reads their records.
//! * [`dump`] writes pages out as WARC files, their index, JSON Lines and plain files.
//! * [`erase`] takes pages away for good, and keeps them from coming back.
//! * [`coding`] undoes content codings (gzip, deflate, br, zstd) within bounds.
//! * [`meta`] is how a page's headers and the rest of its description are kept.
//!
//! Keys are made by a canonicaliser of `urlindex`; the URL as fetched is kept beside it. Bodies are bytes and are never
//! re-coded: character sets are the reader's matter.

pub mod date;
pub mod dump;
pub mod erase;
mod error;
mod http;
pub mod import;
mod limits;
mod packing;
mod page;
mod spool;
mod store;
pub mod warc;

pub use error::{Error, Result};
pub use filemap_core::{Durability, Event, Options, Put, Stats, Version};
pub use http::coding;
pub use page::headers::{Header, Headers};
pub use page::key::url as url_of_key;
pub use page::meta;
pub use page::variant::Variant;
pub use page::version::StoredVersion;
pub use page::{HttpVersion, Original, Page, RecordKind, Revisit, RevisitProfile};
pub use spool::Spool;
pub use store::{
    Heads, Loader, PageHead, PageReader, PageStore, Pages, PruneStep, Removed, RevisitCount, Sizes, StoredVersions,
    Unresolved, Urls, VariantHeads, Variants, VersionSize, Versions,
};
pub use urlindex::{Canonicalizer, Exact, UrlError, Whatwg};
