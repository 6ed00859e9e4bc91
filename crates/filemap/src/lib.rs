//! Web pages by URL: pages over the FileMap engine, for crawlers.
//!
//! * [`PageStore`] puts and gets [`Page`]s by URL: the newest version, the one of a time, all
//!   versions, with or without the body.
//! * [`PageRead`] and [`PageWrite`] are the interface of every store: local, over HTTP, in object
//!   storage.
//! * [`sharded`] makes one store of several folders, on several disks.
//! * A [`Variant`] separates the answers of one URL: the answer to a `POST` never takes the place
//!   of the page.
//! * [`import`] puts WARC, ARC and WACZ files, whole or damaged, into a store; [`warc`] reads
//!   their records. Bodies can stay where they are ([`archives`]).
//! * [`dump`] writes pages as WARC files with an index, as JSON Lines and as plain files.
//! * [`copy`] copies pages between stores of any kind, with all their versions.
//! * `table` reads a store as Arrow record batches and writes Parquet files.
//! * [`acl`] decides which captures are shown, by the rules of pywb.
//! * [`erase`] removes pages for good, and keeps them from coming back.
//! * [`coding`] undoes content codings (gzip, deflate, br, zstd) within bounds.
//! * [`page::meta`] encodes a page's headers and the rest of its description;
//!   [`page::encoding`] finds a document's character set and decodes it.
//! * [`canonical`] makes keys of URLs.
//!
//! Keys are made by a canonicaliser of `urlindex`; the URL as fetched is kept beside it. Bodies
//! are bytes and are never re-coded: character sets are left to the reader.
//!
//! Times are `i64` milliseconds since 1970 UTC, in fields and parameters called `*_ms`. Long calls
//! take a callback `progress`, which cancels them by returning `ControlFlow::Break`.
//!
//! Features, both on by default: `warc` (modules `warc`, `dump`, `acl`, `coding`) and `import`.
//! Without them a store puts, gets, lists and erases. `async` adds module `async_store`, for
//! callers on tokio; `arrow` adds module `table`, `parquet` its files.

// Without `import`, some helpers have no user.
#![cfg_attr(not(feature = "import"), allow(dead_code, unused_imports))]

pub mod access;
#[cfg(feature = "warc")]
pub mod acl;
pub mod archives;
#[cfg(feature = "async")]
pub mod async_store;
pub mod copy;
pub mod date;
#[cfg(feature = "warc")]
pub mod dump;
pub mod erase;
mod error;
#[cfg(feature = "warc")]
mod http;
#[cfg(feature = "import")]
pub mod import;
mod limits;
mod names;
mod packing;
pub mod page;
pub mod replica;
pub mod sharded;
#[cfg(feature = "warc")]
mod spool;
pub mod store;
#[cfg(feature = "arrow")]
pub mod table;
#[cfg(feature = "warc")]
pub mod warc;

/// How URLs become keys, and back: the part of crate `urlindex` that a store takes or returns.
pub mod canonical {
    pub use crate::page::key::url as url_of_key;
    pub use urlindex::{Canonicalizer, Exact, UrlError, Whatwg};
}

pub use access::interface::{Lookup, PageRead, PageWrite};
pub use error::{Error, Result};
pub use filemap_core::{Durability, Options, Put, Version};
#[cfg(feature = "warc")]
pub use http::coding;
pub use page::variant::Variant;
pub use page::version::PageHead;
pub use page::visit::Page;
pub use store::handle::PageStore;
