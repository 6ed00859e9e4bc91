//! The storage engine of FileMap: bytes by key, for crawlers.
//!
//! A [`Store`] is a directory. Values lie compressed and checksummed in a log of rolled segments, which is the truth; a
//! hash index of 4 KiB pages, read through a map, leads from a key to its newest value with one page and one read; a log of
//! key records chains the earlier versions. docs/ARCHITECTURE.md explains how it works, docs/FORMAT.md what lies on disk.
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

mod accounts;
mod backup;
mod bloom;
mod buggify;
mod cache;
mod check;
mod checkpoint;
mod compact;
mod dictionaries;
mod error;
mod event;
mod files;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod index;
mod inspect;
mod keys;
mod limits;
mod log;
mod options;
mod primitive;
mod prune;
mod recent;
mod record;
mod recover;
mod repair;
mod rules;
mod segments;
#[cfg(feature = "sim")]
pub mod sim;
mod state;
mod stats;
mod store;
mod superblock;
mod sync;
mod values;
mod worker;

pub use backup::{BackedUp, BackupProgress};
pub use check::{Problem, VerifyOptions, VerifyProgress, VerifyReport};
pub use dictionaries::DictionaryFacts;
pub use error::{Error, Result};
pub use event::{Compacted, DictionaryMade, Event, Reason, RecoveryReport};
pub use format::rules::{Rule, RuleState};
pub use inspect::{Inspected, inspect};
pub use options::{Canonicalizer, Dictionaries, Durability, Options};
pub use record::{Head, MAX_KEY_BYTES, MAX_META_BYTES, MAX_VALUE_BYTES, Place, Put, Record, Value, Version};
pub use recover::Absent;
pub use repair::{Ignored, Loss, RepairProgress, RepairReport, RepairTo};
pub use state::{Admission, KeyFilter, Needed, RecompressionEstimate};
pub use stats::{StatValue, Stats};
pub use store::{
    BackupOptions, CompactionPlan, Copied, CopyEvent, CopyOptions, Erased, Erasure, ErasureStep, FoundText, GetAhead,
    Heads, History, Keys, Listed, Pages, PruneProgress, PruneRule, Pruned, Search, Searched, SegmentInfo, Store,
    VersionFilter, Writer,
};
pub use values::read::Reader;
