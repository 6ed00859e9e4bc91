//! Web pages by URL: pages over the FileMap engine, for crawlers.
//!
//! * [`PageStore`] puts and gets [`Page`]s by URL: the newest version, the version at a time, or
//!   all versions, with or without the body.
//! * [`PageRead`] and [`PageWrite`] are the interface of every store: local, over HTTP, in object
//!   storage.
//! * [`sharded`] makes one store of several folders, on several disks.
//! * A [`Variant`] separates the responses of one URL: the response to a `POST` never replaces the
//!   page.
//! * [`import`] puts WARC, ARC and WACZ files, whole or damaged, into a store; [`warc`] reads
//!   their records. Bodies can stay in the files ([`archives`]).
//! * [`dump`] writes pages as WARC files with an index, as JSON Lines and as plain files.
//! * [`copy`] copies pages between stores of any kind, with all their versions.
//! * `table` reads a store as Arrow record batches and writes Parquet files.
//! * [`acl`] decides which captures are shown, by the rules of pywb.
//! * [`erase`] removes pages permanently, and refuses them in later puts.
//! * [`coding`] decodes content codings (gzip, deflate, br, zstd) within bounds.
//! * [`page::meta`] encodes a page's headers and the rest of its description;
//!   [`page::encoding`] finds a document's character set and decodes it.
//! * [`canonical`] makes keys from URLs.
//!
//! Keys are made by a canonicaliser of `urlindex`; the URL as fetched is stored beside the key.
//! Bodies are bytes and are never re-coded: interpreting character sets is left to the reader.
//!
//! Times are `i64` milliseconds since 1970 UTC, in fields and parameters called `*_ms`. Long calls
//! take a callback `progress`, which cancels them by returning `ControlFlow::Break`.
//!
//! Features, both on by default: `warc` (modules `warc`, `dump`, `acl`, `coding`) and `import`.
//! Without them a store can put, get, list and erase. `async` adds module `async_store`, for
//! callers on tokio; `arrow` adds module `table`; `parquet` adds Parquet files to it.

// Without `import`, some helpers are unused.
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

/// Conversion of URLs to keys and back: the types of crate `urlindex` that a store takes or
/// returns.
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
