//! Repair: rebuilds the store from the value log alone. Every intact record of every segment that
//! can be found enters a new index. Tombstones hide earlier puts wherever these lie. Damaged bytes
//! are covered, so that they are not taken for records later.
//!
//! Invariants: a source that is not repaired in place is only read. The target is not a store
//! until all of it is durable: its superblock gets its name last. No intact data is overwritten.

pub(crate) mod dictionaries;
pub(crate) mod files;
pub(crate) mod found;
mod known;
pub(crate) mod rebuild;
pub(crate) mod survey;

use std::path::Path;

use crate::options::Canonicalizer;
use crate::record::Version;

/// Target of a repair.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # use std::ops::ControlFlow;
/// # store.close()?;
/// # let (damaged, new) = (temp.path().join("a"), temp.path().join("b"));
/// use filemap_core::repair::RepairTo;
/// use filemap_core::{Options, Store};
/// let report = Store::repair(damaged, RepairTo::New(&new), &Options::new(), &mut |_| ControlFlow::Continue(()))?;
/// assert!(report.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairTo<'a> {
    /// A new or empty directory. The source is only read.
    New(&'a Path),
    /// The store's own directory. Index, key log and superblock are removed and rebuilt, and
    /// damaged bytes of the segments are covered. Ask the user first, and keep a copy if space
    /// allows.
    InPlace,
}

/// Progress of a repair.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use std::ops::ControlFlow;
/// use filemap_core::repair::RepairTo;
/// use filemap_core::{Options, Store};
/// store.close()?;
/// let (damaged, new) = (temp.path().join("a"), temp.path().join("b"));
/// Store::repair(damaged, RepairTo::New(&new), &Options::new(), &mut |now| {
///     println!("{} of {} bytes of {}", now.done_bytes, now.total_bytes, now.file);
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RepairProgress {
    /// The file being read.
    pub file: String,
    /// Bytes read so far in all segments.
    pub done_bytes: u64,
    /// Total bytes to read.
    pub total_bytes: u64,
    /// Losses found so far.
    pub losses: u64,
}

/// A loss: something that was not recovered.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use std::ops::ControlFlow;
/// use filemap_core::repair::RepairTo;
/// use filemap_core::{Options, Store};
/// store.close()?;
/// let (damaged, new) = (temp.path().join("a"), temp.path().join("b"));
/// let go_on = &mut |_| ControlFlow::Continue(());
/// for loss in Store::repair(damaged, RepairTo::New(&new), &Options::new(), go_on)?.losses {
///     println!("{} bytes at {} of {}: {}", loss.bytes, loss.offset, loss.file, loss.what);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The file's name in the source.
    pub file: String,
    /// Byte offset of the loss.
    pub offset: u64,
    /// Number of lost bytes.
    pub bytes: u64,
    /// Key of the lost record, if its head is intact.
    pub key: Option<Vec<u8>>,
    /// Version of that record, likewise.
    pub version: Option<Version>,
    /// Description of the damage.
    pub what: String,
}

/// A file that was not used.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// use std::ops::ControlFlow;
/// use filemap_core::repair::RepairTo;
/// use filemap_core::{Options, Store};
/// store.close()?;
/// let (damaged, new) = (temp.path().join("a"), temp.path().join("b"));
/// let go_on = &mut |_| ControlFlow::Continue(());
/// for ignored in Store::repair(damaged, RepairTo::New(&new), &Options::new(), go_on)?.ignored {
///     println!("{}: {}", ignored.file, ignored.why);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Its name in the source.
    pub file: String,
    /// The reason.
    pub why: String,
}

/// Result of a repair.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let (damaged, new) = (temp.path().join("a"), temp.path().join("b"));
/// # let store = filemap_core::Store::create(&damaged, filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// # store.close()?;
/// # use std::ops::ControlFlow;
/// use filemap_core::repair::RepairTo;
/// use filemap_core::{Options, Store};
///
/// let go_on = &mut |_| ControlFlow::Continue(());
/// let report = Store::repair(damaged, RepairTo::New(&new), &Options::new(), go_on)?;
/// assert_eq!((report.keys, report.lost_bytes()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RepairReport {
    /// Segments read.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Intact records in them.
    pub records: u64,
    /// Intact tombstones among them.
    pub tombstones: u64,
    /// Keys in the repaired store.
    pub keys: u64,
    /// Losses, in the order found. Includes damaged records that may have been replaced or removed
    /// long ago, which can no longer be known.
    pub losses: Vec<Loss>,
    /// Versions without their chunks or body whose keys have later versions or tombstones: nearly
    /// always remains of versions that compaction dropped. Not losses.
    pub outdated: u64,
    /// Bytes of an interrupted write: they lie beyond the part that the last superblock covers,
    /// and are not intact records. Not a loss.
    pub unfinished_bytes: u64,
    /// Files not used although they look like a store's.
    pub ignored: Vec<Ignored>,
    /// Facts that cannot be known, in words: which segments existed, whether missing ones were
    /// removed by compaction or are lost, whether all tombstones are known. Neither known losses
    /// nor proof of none.
    pub unwitnessed: Vec<String>,
    /// The canonicaliser of the keys, from the superblock or the caller.
    pub canonicalizer: Canonicalizer,
    /// True if the canonicaliser is from the superblock.
    pub is_rule_known: bool,
}

impl RepairReport {
    /// Total lost bytes.
    pub fn lost_bytes(&self) -> u64 {
        self.losses.iter().map(|l| l.bytes).sum()
    }

    /// Returns true if there were no losses and no ignored files.
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty() && self.ignored.is_empty()
    }
}
