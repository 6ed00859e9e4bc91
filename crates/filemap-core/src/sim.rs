//! The engine on a simulated disk: over any directory, without threads, with tiny limits and
//! failpoints. For tests; not part of the stable API.
//!
//! A store opened here does nothing in the background. The test calls [`work`], so one thread
//! decides the order of everything and a seed repeats it. [`at_steps`] runs other calls, such as
//! puts, between the steps of an operation.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use filemap_io::Dir;

use crate::error::Result;
use crate::index::address::fill::Filling;
use crate::options::Options;
use crate::store::{Store, Threads, repair_in};
use crate::upkeep::backup::{self, BackedUp, Order};
use crate::upkeep::compact;
use crate::upkeep::repair::RepairReport;
use crate::upkeep::worker;

pub use crate::failpoint::{Fault, as_another_thread, at_steps, plant};
pub use crate::limits::Limits;

/// Options with engine limits, which may then exceed the bounds of [`Options::validate`]. The
/// segment size must be a multiple of 64, at least 4096.
pub fn with_limits(mut options: Options, limits: Limits) -> Options {
    options.limits = limits;
    options
}

/// Options without an automatic value cache, whose size would depend on the machine.
fn repeatable(mut options: Options) -> Options {
    options.value_cache_bytes = options.value_cache_bytes.or(Some(0));
    options
}

/// [`Store::create`] in any directory, without threads.
///
/// # Errors
/// Those of [`Store::create`].
pub fn create(dir: Arc<dyn Dir>, options: Options) -> Result<Store> {
    Store::create_in(dir, repeatable(options), Threads::None)
}

/// [`Store::open`] over any directory, without threads.
///
/// # Errors
/// Those of [`Store::open`].
pub fn open(dir: Arc<dyn Dir>, options: Options) -> Result<Store> {
    Store::open_in(dir, repeatable(options), Threads::None)
}

/// [`Store::open_read_only`] over any directory.
///
/// # Errors
/// Those of [`Store::open_read_only`].
pub fn open_read_only(dir: Arc<dyn Dir>, options: Options) -> Result<Store> {
    Store::open_read_only_in(dir, repeatable(options), Threads::None)
}

/// [`Store::repair`] over any directories: into another one, or in place.
///
/// # Errors
/// Those of [`Store::repair`].
pub fn repair(source: Arc<dyn Dir>, target: Option<Arc<dyn Dir>>, options: &Options) -> Result<RepairReport> {
    let mut go_on = |_| ControlFlow::Continue(());
    match target {
        Some(dir) => repair_in(source, Some(&|| Ok(Arc::clone(&dir))), options, Threads::None, &mut go_on),
        None => repair_in(source, None, options, Threads::None, &mut go_on),
    }
}

/// Runs the due work of a store's threads: writes back, prepares a segment, runs a checkpoint,
/// makes dictionaries, joins ordered runs, runs compaction once. Errors are dropped: they have
/// poisoned the store, or came from compaction and are harmless.
pub fn work(store: &Store) {
    let Ok(upkeep) = store.upkeep() else { return };
    worker::write_back(upkeep, false);
    worker::checkpoint_if_due(upkeep);
    while worker::train_next(upkeep) {}
    worker::join_next(upkeep);
    if upkeep.writing().poisoned().cause().is_none() {
        let _ = worker::compact_if_due(upkeep);
    }
}

/// Fills the index's filter from its file, as a thread of the store does after opening. Errors are
/// dropped: they leave the filter as it was.
pub fn fill_filter(store: &Store) {
    let mut filling = Filling::default();
    while store.reading.index().fill_filter(&mut filling, &mut |_| {}) {}
}

/// Compacts one segment of the key log, if worth it. Returns true if it compacted one.
///
/// # Errors
/// Those of [`Store::checkpoint`].
pub fn compact_keys(store: &Store) -> Result<bool> {
    store.reading.check_open()?;
    compact::keys::compact_keys(store.upkeep()?)
}

/// Empties one segment of the key log, selected by `pick`, even if not worth it.
///
/// # Errors
/// Those of [`Store::checkpoint`].
pub fn empty_keys(store: &Store, pick: usize) -> Result<()> {
    store.reading.check_open()?;
    compact::keys::empty_any(store.upkeep()?, pick)
}

/// Releases the free pages of the index, even if not worth it.
///
/// # Errors
/// Those of [`Store::checkpoint`].
pub fn shrink_index(store: &Store) -> Result<()> {
    store.reading.check_open()?;
    compact::index::sweep(store.upkeep()?)
}

/// Returns true if no checkpoint and no compaction is running, on any thread.
pub fn is_idle(store: &Store) -> bool {
    store.upkeep().is_ok_and(|upkeep| !upkeep.is_compacting() && !upkeep.is_in_checkpoint())
}

/// Returns true if the current thread, in the middle of an operation, may close a clone of the
/// handle: no checkpoint is running.
pub fn may_close(store: &Store) -> bool {
    store.upkeep().is_ok_and(|upkeep| !upkeep.is_in_checkpoint())
}

/// Returns true if a write has failed, perhaps in the middle of a checkpoint.
pub fn is_poisoned(store: &Store) -> bool {
    store.upkeep().is_ok_and(|upkeep| upkeep.writing().poisoned().cause().is_some())
}

/// [`Store::backup`] into any empty directory, without hard links.
///
/// # Errors
/// Those of [`Store::backup`].
pub fn back_up(store: &Store, to: &dyn Dir) -> Result<BackedUp> {
    let progress = &mut |_| ControlFlow::Continue(());
    let order = &mut Order { to, base: None, links: false, progress };
    backup::back_up(&store.reading, store.upkeep().ok(), order)
}

/// Drops a store without closing it, as if its process ended: nothing more is written, and the
/// lock is released.
pub fn abandon(store: Store) {
    store.reading.closed().store(true, Ordering::Release);
    if let Ok(writing) = store.writing() {
        writing.gate().shut();
    }
}

/// Returns true if the file is a value segment known to the store, not one given up by a
/// compaction.
pub fn has_segment(store: &Store, file: &str) -> bool {
    store.reading.values().segments.all().iter().any(|segment| segment.name() == file)
}

/// Hash by which the index finds a key: lets a test choose keys that share a leaf.
pub fn hash(store: &Store, key: &[u8]) -> u64 {
    store.reading.hash(key)
}
