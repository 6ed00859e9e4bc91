//! The storage engine of FileMap: bytes by key, for crawlers.
//!
//! A [`Store`] is a directory:
//! - the value log: rolled segments of compressed, checksummed records. It is the truth.
//! - address.idx: a hash index of 4 KiB pages, memory-mapped. One page leads from a key to its
//!   newest value, which takes one read.
//! - the key log: key records that chain the earlier versions of each key.
//!
//! docs/ARCHITECTURE.md explains how it works, docs/FORMAT.md the bytes on disk.
//!
//! ```
//! use filemap_core::{Options, Record, Store};
//! # fn main() -> filemap_core::Result<()> {
//! let dir = tempfile::tempdir().unwrap();
//! let store = Store::create(dir.path().join("pages.fm"), Options::new())?;
//! store.put(&Record::new(b"http://example.com/", b"first").time(1_000))?;
//! store.put(&Record::new(b"http://example.com/", b"second").time(2_000))?;
//! assert_eq!(store.get(b"http://example.com/")?.unwrap().body, b"second");
//! assert_eq!(store.get_at(b"http://example.com/", 1_500)?.unwrap().body, b"first");
//! store.sync()?; // what was put is on the device now
//! store.close()
//! # }
//! ```

mod error;
mod event;
mod failpoint;
mod files;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handle;
mod index;
mod limits;
mod logs;
mod options;
mod record;
mod sequences;
#[cfg(feature = "sim")]
pub mod sim;
mod stats;
mod store;
mod sync;
mod upkeep;

pub use error::{Error, Result, StorageError};
pub use event::Event;
pub use options::{Canonicalizer, Durability, Options};
pub use record::{Head, Place, Put, Record, Value, Version};
pub use stats::{StatValue, Stats};
pub use store::{Store, Writer};

/// Backups of a store, and copies of its pages into another one.
pub mod backup {
    pub use crate::store::{BackupOptions, Copied, CopyEvent, CopyOptions};
    pub use crate::upkeep::backup::{BackedUp, BackupProgress};
}

/// Bodies: as a stream, and shared with the value cache.
pub mod body {
    pub use crate::logs::values::cache::SharedBody;
    pub use crate::logs::values::reader::Reader;
}

/// Changes of a store since a place in its history.
pub mod changes {
    pub use crate::store::{Change, ChangeCursor, Changes};
}

/// Verification of a store, and the contents of a single file.
pub mod check {
    pub use crate::upkeep::check::{Problem, VerifyOptions, VerifyProgress, VerifyReport};
    pub use crate::upkeep::inspect::{Inspected, inspect};
}

/// Compaction on demand, and the segments that it works on.
pub mod compact {
    pub use crate::event::{Compacted, Reason};
    pub use crate::store::{CompactionGoal, CompactionPlan, SegmentInfo};
}

/// Compression dictionaries: the store's own, and estimates of their gain.
pub mod dictionaries {
    pub use crate::event::DictionaryMade;
    pub use crate::handle::reading::RecompressionEstimate;
    pub use crate::logs::values::dictionaries::DictionaryFacts;
    pub use crate::logs::values::dictionaries::make::{Candidate, Samples};
    pub use crate::options::Dictionaries;
    pub use crate::store::{BodiesStored, CompressionSample};
}

/// Erasing, the rules that keep erased pages out, and the search for traces.
pub mod erase {
    pub use crate::format::rules::{Rule, RuleState};
    pub use crate::handle::retention::KeyFilter;
    pub use crate::handle::writing::Admission;
    pub use crate::store::{Erased, Erasure, ErasureStep, FoundText, Search, Searched, VersionFilter};
}

/// Iterators over keys, pages, heads and versions, of the store or of its splits; the order in
/// which keys are kept; a set of versions.
pub mod list {
    pub use crate::handle::reading::KeyRange;
    pub use crate::options::{KeyGroups, KeyOrder};
    pub use crate::sequences::Sequences;
    pub use crate::store::{GetAhead, Heads, History, Keys, KeysInOrder, Listed, Pages, Split};
    pub use filemap_runs::ordered::Direction;
}

/// Pruning by number, age or size.
pub mod prune {
    pub use crate::handle::retention::{Needed, Spared};
    pub use crate::store::{PruneRule, Pruned};
    pub use crate::upkeep::prune::PruneProgress;
}

/// Findings when a store is opened: the log's end after a crash, and missing files.
pub mod recovery {
    pub use crate::event::RecoveryReport;
    pub use crate::handle::recover::Absent;
}

/// Repair of a damaged store from its value log.
pub mod repair {
    pub use crate::upkeep::repair::{Ignored, Loss, RepairProgress, RepairReport, RepairTo};
}
