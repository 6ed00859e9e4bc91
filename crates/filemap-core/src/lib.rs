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
pub use event::{Compacted, DictionaryMade, Event, Reason, RecoveryReport};
pub use format::rules::{Rule, RuleState};
pub use handle::reading::RecompressionEstimate;
pub use handle::recover::Absent;
pub use handle::retention::Needed;
pub use handle::writing::Admission;
pub use logs::values::dictionaries::DictionaryFacts;
pub use logs::values::read::Reader;
pub use options::{Canonicalizer, Dictionaries, Durability, Options};
pub use record::{Head, MAX_KEY_BYTES, MAX_META_BYTES, MAX_VALUE_BYTES, Place, Put, Record, Value, Version};
pub use stats::{StatValue, Stats};
pub use store::{
    BackupOptions, CompactionGoal, CompactionPlan, Copied, CopyEvent, CopyOptions, Erased, Erasure, ErasureStep,
    FoundText, GetAhead, Heads, History, Keys, Listed, Pages, PruneRule, Pruned, Search, Searched, SegmentInfo, Store,
    VersionFilter, Writer,
};
pub use upkeep::backup::{BackedUp, BackupProgress};
pub use upkeep::check::{Problem, VerifyOptions, VerifyProgress, VerifyReport};
pub use upkeep::inspect::{Inspected, inspect};
pub use upkeep::prune::PruneProgress;
pub use upkeep::repair::{Ignored, Loss, RepairProgress, RepairReport, RepairTo};
pub use upkeep::state::KeyFilter;
