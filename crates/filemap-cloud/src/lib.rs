//! FileMap on object storage: a store of web pages in a bucket, written by one machine, read by
//! many.
//!
//! [`open`] accepts any location and returns a store behind [`filemap::PageRead`] and
//! [`filemap::PageWrite`]:
//!
//! | location | store |
//! |---|---|
//! | a path | a folder here |
//! | `http://`, `https://` | behind `fm-serve` |
//! | `s3://bucket/prefix` | in S3 or a compatible service: R2, Ceph |
//! | `mem://name/prefix` | in the memory of this process, for tests |
//!
//! In a bucket, pages are in immutable *segments*: self-contained objects of a few mebibytes.
//! SlateDB keeps an index of them. A put goes into a segment in memory; `sync` uploads it, commits
//! its rows to the index in one batch, and returns when that is durable. A writer that opens the
//! store fences the previous one, on whatever machine: everything that one had synced is kept, and
//! it can write nothing more.
//!
//! docs/CLOUD.md has the layout, the promises, the limits, and the effects of each failure.
//!
//! Work runs on the crate's own threads; every call blocks, and may be made from any thread.

mod body;
mod bucket;
mod cache;
mod collect;
mod commit;
mod compact;
mod core;
mod deletion;
mod dictionaries;
mod dictionary;
mod draft;
mod due;
mod erase;
mod error;
mod every;
mod failpoint;
mod format;
mod hold;
mod index;
mod keeping;
mod kept;
mod location;
mod opening;
mod options;
mod parts;
mod pending;
mod pins;
mod plan;
mod probe;
mod progress;
mod prune;
mod read;
mod repack;
mod repair;
mod rows;
mod runtime;
mod shard;
mod sizes;
mod snapshot;
mod stats;
mod store;
mod train;
mod unused;
mod upkeep;
mod verify;
mod walk;
mod write;
mod writer;

use std::sync::Arc;

use filemap::sharded::{self, ShardedStore};
use filemap::{Options, PageStore, PageWrite};
use filemap_http::{Client, ClientOptions};

pub use crate::body::CloudBody;
pub use crate::cache::CacheCounts;
pub use crate::collect::CollectReport;
pub use crate::compact::{CompactPlan, CompactReport};
pub use crate::erase::EraseReport;
pub use crate::error::{Error, Result};
#[cfg(feature = "sim")]
pub use crate::failpoint::Fault;
pub use crate::location::is_location;
pub use crate::opening::{open_bucket, open_on};
pub use crate::options::{CloudOptions, Mode};
pub use crate::repair::{RepairReport, repair, repair_on};
pub use crate::snapshot::CloudCheckpoint;
pub use crate::stats::{CloudSegment, CloudStats};
pub use crate::store::CloudStore;
pub use crate::train::CloudDictionary;
pub use crate::verify::VerifyReport;
/// Files kept with a shard: [`CloudStore::sync_with`].
pub use filemap::access::kept::{Change, KeptFile};
/// The crate whose object stores [`open_on`] accepts.
pub use object_store;

/// Opens the store at any location: a path, `shards:` with several ([`filemap::sharded`]),
/// `http(s)://`, `s3://` or `mem://`. With [`Mode::Read`] every write fails. `options` apply to
/// `s3://` and `mem://`; their canonicaliser to every store that is made. No token is sent to a
/// server: open one that requires it with [`filemap_http::Client`].
///
/// # Errors
///
/// Errors of [`open_bucket`]; [`Error::Other`] with those of the other stores.
///
/// ```
/// use filemap_cloud::{CloudOptions, Mode, open};
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("pages.fm");
/// let several = format!("shards:{0}.1,{0}.2", path.display());
/// for location in [path.to_str().expect("a path of text"), several.as_str(), "mem://any"] {
///     let store = open(location, Mode::Fill, &CloudOptions::new())?;
///     assert!(store.capabilities().has_history);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(location: &str, mode: Mode, options: &CloudOptions) -> Result<Box<dyn PageWrite>> {
    if is_location(location) {
        return Ok(Box::new(open_bucket(location, mode, options)?));
    }
    if Client::is_location(location) {
        return Ok(Box::new(Client::open(location, &ClientOptions::new())?));
    }
    let (canonicalizer, local) = (Arc::clone(&options.canonicalizer), Options::new());
    if let Some(paths) = sharded::paths(location) {
        let paths = paths?;
        return Ok(Box::new(match mode {
            Mode::Read => ShardedStore::open_read_only(&paths, local)?,
            Mode::Write => ShardedStore::open(&paths, local)?,
            Mode::Fill => ShardedStore::open_or_create(&paths, canonicalizer, local)?,
        }));
    }
    let is_absent =
        |error: &filemap::Error| matches!(error, filemap::Error::Engine(filemap_core::Error::NotAStore { .. }));
    Ok(Box::new(match mode {
        Mode::Read => PageStore::open_read_only(location, local)?,
        Mode::Write => PageStore::open(location, local)?,
        Mode::Fill => match PageStore::open(location, local.clone()) {
            Err(error) if is_absent(&error) => PageStore::create_with(location, canonicalizer, local)?,
            opened => opened?,
        },
    }))
}
