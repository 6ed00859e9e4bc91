//! The simulated disk: a directory in memory that models what a power loss may do to it.
//!
//! For each file it keeps the bytes that programs see (the page cache) and those on the device;
//! for each sector of 512 bytes every content since the last sync; file lengths and names with
//! their own durability. From that it draws *crash images*: disks as they may be found after a
//! power loss at this moment. A mapped page is read from the live bytes, as in the kernel's page
//! cache. Stores through a writable map are copied into the live bytes at the next call of any
//! kind, as a write of the sectors that differ; a crash may keep any of them, or none.
//!
//! What may survive, and the assumptions behind it:
//! - a sector is atomic, and holds any one of its contents since the last sync of the file,
//!   independently of the other sectors;
//! - a length is any one of those since the last sync; bytes beyond the durable length that were
//!   never written read as zeros or, at [`Level::Adversarial`], as garbage, partly pieces of other
//!   files;
//! - a directory entry survives independently at `Adversarial`; at [`Level::Ordered`], as on ext4,
//!   name changes survive in order, a sync of any file makes all earlier ones durable, and a
//!   length implies the bytes under it;
//! - a failed sync leaves the cache as it is and marks it clean: some of the dirty sectors are on
//!   the device, the others never will be, and the next sync succeeds ([`Failure`]).
//!   `Advice::DropCache` then shows what the device has.
//!
//! The disk is deterministic: the same calls with the same seed give the same images.

mod dir;
mod image;
mod interrupt;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Dir;

pub use image::{Level, Loss};
pub use interrupt::{Calls, Interrupt};
pub use state::Snapshot;
use state::State;

/// Bytes that reach the device atomically.
pub const SECTOR_BYTES: usize = 512;

/// A call that the disk refuses, by its number among all calls ([`SimDisk::calls`]).
///
/// ```
/// use filemap_io::Access;
/// use filemap_io::sim::{Failure, Fault, SimDisk};
/// let disk = SimDisk::new(1);
/// disk.fail(Some(Failure { at: 1, fault: Fault::Eio, only_syncs: true, forever: false }));
/// let file = disk.dir().open("f", Access::Create)?;
/// assert!(file.sync().is_err() && file.sync().is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of the failing call; the first call on a disk is 1.
    pub at: u64,
    /// The kind of failure.
    pub fault: Fault,
    /// If true, the first sync from call `at` on fails.
    pub only_syncs: bool,
    /// True if all later calls that write or sync fail too.
    pub forever: bool,
}

/// The kind of failure of a call.
///
/// ```
/// use filemap_io::Access;
/// use filemap_io::sim::{Failure, Fault, SimDisk};
/// let disk = SimDisk::new(1);
/// let file = disk.dir().open("f", Access::Create)?;
/// let (at, fault) = (disk.calls() + 1, Fault::ShortWrite);
/// disk.fail(Some(Failure { at, fault, only_syncs: false, forever: false }));
/// assert!(file.write_at(b"abcd", 0).is_err());
/// assert_eq!(disk.bytes("f"), Some(b"ab".to_vec()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device reports an error. After a failed sync some sectors are on the device and the
    /// others are forgotten.
    Eio,
    /// No space left. A write writes nothing; calls that need no space succeed.
    Enospc,
    /// A signal interrupts the call before it did anything.
    Eintr,
    /// Half of a write is done, then no space is left. Other calls succeed.
    ShortWrite,
}

/// Callback that sees the disk after each call that changed it: see [`SimDisk::observe`].
pub type Observer = Box<dyn FnMut(&Snapshot<'_>) + Send>;

/// A simulated disk with one directory. Clones share the disk.
///
/// ```
/// use filemap_io::Access;
/// use filemap_io::sim::{Failure, Fault, Level, Loss, SimDisk};
/// let disk = SimDisk::new(1);
/// let file = disk.dir().open("f", Access::Create)?;
/// disk.dir().sync()?;
/// file.write_at(b"bytes", 0)?;
/// let crashed = disk.crash(Level::Adversarial, Loss::Everything, 7);
/// assert_eq!(crashed.bytes("f"), Some(Vec::new()));
/// let at = disk.calls() + 1;
/// disk.fail(Some(Failure { at, fault: Fault::Enospc, only_syncs: false, forever: false }));
/// assert!(file.write_at(b"more", 5).is_err() && disk.failed() == 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// Creates an empty disk. The seed decides the bytes of [`Dir::random`] and what a failed sync
    /// leaves.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::from_state(State::new(seed))
    }

    fn from_state(state: State) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.take_stores();
        state
    }

    /// The disk's directory.
    pub fn dir(&self) -> Arc<dyn Dir> {
        Arc::new(dir::SimDir::new(self.clone()))
    }

    /// Number of calls so far that could have failed.
    pub fn calls(&self) -> u64 {
        self.lock().calls.len() as u64
    }

    /// Numbers of the calls so far that `fault` would have refused, in order.
    pub fn refusable(&self, fault: Fault) -> Vec<u64> {
        let state = self.lock();
        (1..).zip(&state.calls).filter(|&(_, &call)| fault.refusal(call).is_some()).map(|(number, _)| number).collect()
    }

    /// Sets or clears the failing call.
    pub fn fail(&self, failure: Option<Failure>) {
        let mut state = self.lock();
        state.failure = failure;
        state.failed = 0;
    }

    /// Stops failing calls; [`SimDisk::failed`] keeps its count.
    pub fn heal(&self) {
        self.lock().failure = None;
    }

    /// Number of calls refused since [`SimDisk::fail`].
    pub fn failed(&self) -> u64 {
        self.lock().failed
    }

    /// Calls `observer` after each call that changed anything: a write, a length, a sync, a name.
    /// It may draw images from its snapshot, but must not use this disk.
    pub fn observe(&self, observer: Option<Observer>) {
        self.lock().observer = observer;
    }

    /// A disk as it may be found after a power loss now.
    pub fn crash(&self, level: Level, loss: Loss, seed: u64) -> SimDisk {
        Snapshot::of(&self.lock()).crash(level, loss, seed)
    }

    /// The disk as the next process finds it after this one is killed now: nothing is lost, and
    /// nothing more is durable.
    pub fn kill(&self) -> SimDisk {
        Snapshot::of(&self.lock()).kill()
    }

    /// The live bytes of a file; `None` if it does not exist.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().named(name).map(|f| f.live.clone())
    }

    /// Replaces or creates a file, durably: for tests that damage files.
    pub fn set_bytes(&self, name: &str, bytes: &[u8]) {
        self.lock().set_bytes(name, bytes);
    }

    /// Removes a file, durably.
    pub fn remove(&self, name: &str) {
        let mut state = self.lock();
        state.live.remove(name);
        state.durable.remove(name);
    }

    /// The names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        self.lock().live.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
