//! The engine for a simulated disk: opened over any directory, without threads of its own, with tiny limits, with mistakes
//! planted in it. For tests; not a part of the stable face.
//!
//! A store that was opened here does nothing in the background: whoever drives it calls [`work`] when it likes, so that one
//! thread decides the order of everything and a seed repeats it. [`at_steps`] puts other calls, puts for instance, between the
//! steps of a checkpoint.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use filemap_io::Dir;

use crate::error::Result;
use crate::options::Options;
use crate::store::{Store, Threads, repair_in};
use crate::upkeep::backup::{self, BackedUp, Order};
use crate::upkeep::compact;
use crate::upkeep::repair::RepairReport;
use crate::upkeep::worker;

pub use crate::failpoint::{Fault, at_steps, plant};
pub use crate::limits::Limits;

/// Options with limits of the engine, which may then be out of all bounds that [`Options::validate`] sets. The segment size
/// must be a multiple of 64 from 4096 on.
pub fn with_limits(mut options: Options, limits: Limits) -> Options {
    options.limits = limits;
    options
}

/// As [`Store::create`], in any directory, without threads.
///
/// # Errors
/// As there.
pub fn create(dir: Arc<dyn Dir>, options: Options) -> Result<Store> {
    Store::create_in(dir, options, Threads::None)
}

/// As [`Store::open`], over any directory, without threads.
///
/// # Errors
/// As there.
pub fn open(dir: Arc<dyn Dir>, options: Options) -> Result<Store> {
    Store::open_in(dir, options, Threads::None)
}

/// As [`Store::open_read_only`], over any directory.
///
/// # Errors
/// As there.
pub fn open_read_only(dir: Arc<dyn Dir>, options: Options) -> Result<Store> {
    Store::open_read_only_in(dir, options, Threads::None)
}

/// As [`Store::repair`], over any directories: into another one, or in place.
///
/// # Errors
/// As there.
pub fn repair(source: Arc<dyn Dir>, target: Option<Arc<dyn Dir>>, options: &Options) -> Result<RepairReport> {
    let mut go_on = |_| ControlFlow::Continue(());
    match target {
        Some(dir) => repair_in(source, Some(&|| Ok(Arc::clone(&dir))), options, Threads::None, &mut go_on),
        None => repair_in(source, None, options, Threads::None, &mut go_on),
    }
}

/// Does what the threads of a store would do now: writes back, prepares a segment, runs a checkpoint that is due, makes
/// dictionaries that are, and runs compaction once. An error has poisoned the store, or is one of compaction, and harmless.
pub fn work(store: &Store) {
    let Ok(upkeep) = store.upkeep() else { return };
    worker::write_back(upkeep, false);
    worker::checkpoint_if_due(upkeep);
    while worker::train_next(upkeep) {}
    if upkeep.writing().poisoned().cause().is_none() {
        let _ = worker::compact_if_due(upkeep);
    }
}

/// Compacts one segment of the key log, if that is worth it; whether it did something.
///
/// # Errors
/// As of [`Store::checkpoint`].
pub fn compact_keys(store: &Store) -> Result<bool> {
    store.reading.check_open()?;
    compact::keys::compact_keys(store.upkeep()?)
}

/// Empties one segment of the key log, whether that is worth it or not: `pick` says which.
///
/// # Errors
/// As of [`Store::checkpoint`].
pub fn empty_keys(store: &Store, pick: usize) -> Result<()> {
    store.reading.check_open()?;
    compact::keys::empty_any(store.upkeep()?, pick)
}

/// Gives back free pages of the index, whether that is worth it or not.
///
/// # Errors
/// As of [`Store::checkpoint`].
pub fn shrink_index(store: &Store) -> Result<()> {
    store.reading.check_open()?;
    compact::index::sweep(store.upkeep()?)
}

/// Whether neither a checkpoint nor a compaction of a store is under way, on whatever thread.
pub fn is_idle(store: &Store) -> bool {
    store.upkeep().is_ok_and(|upkeep| !upkeep.is_compacting() && !upkeep.is_in_checkpoint())
}

/// Whether a clone of a handle may be closed now by the thread that is in the middle of something: no checkpoint is under way.
pub fn may_close(store: &Store) -> bool {
    store.upkeep().is_ok_and(|upkeep| !upkeep.is_in_checkpoint())
}

/// As [`Store::backup`], into any empty directory; nothing is shared.
///
/// # Errors
/// As there.
pub fn back_up(store: &Store, to: &dyn Dir) -> Result<BackedUp> {
    let watch = &mut |_: &_| std::ops::ControlFlow::Continue(());
    let order = &mut Order { to, base: None, links: false, watch };
    backup::back_up(&store.reading, store.upkeep().ok(), order)
}

/// Lets go of a store without closing it, as when its process ends: nothing more is written. Its lock is given up.
pub fn abandon(store: Store) {
    store.reading.closed().store(true, Ordering::Release);
    if let Ok(writing) = store.writing() {
        writing.gate().shut();
    }
}

/// Whether a file is a segment of values that a store knows. The log's own are; what a compaction has given up is not.
pub fn has_segment(store: &Store, file: &str) -> bool {
    store.reading.values().segments.all().iter().any(|segment| segment.name() == file)
}

/// The hash by which the store's index finds a key: lets a test choose keys that share a leaf.
pub fn hash(store: &Store, key: &[u8]) -> u64 {
    store.reading.hash(key)
}
