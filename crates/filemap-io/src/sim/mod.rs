//! The simulated disk: a directory in memory that knows what a power loss may do to it.
//!
//! It keeps, for each file, the bytes that programs see (the page cache) and those that the device
//! has; for each sector of 512 bytes all the contents that it had since the last sync; file
//! lengths and names with their own durability. From that it draws *crash images*: disks as a
//! machine could find them after the power was lost at this moment. A mapped page is read from the
//! live bytes, as in the kernel's page cache. What is stored through a writable map is taken into
//! them at the next call of any kind, as a write of the sectors that differ; a crash may keep any
//! of them, or none.
//!
//! What may survive, and the assumptions behind it:
//! - a sector is atomic, and holds any one of its contents since the last sync of the file,
//!   whatever the others hold;
//! - a length is any one of those since the last sync; bytes between the durable length and that
//!   one that were never written read as zeros or, at [`Level::Adversarial`], as garbage, some of
//!   it pieces of other files;
//! - an entry of the directory survives by itself at `Adversarial`; at [`Level::Ordered`], as on
//!   ext4, changes of names survive in order, a sync of any file takes all earlier ones with it,
//!   and a length implies the bytes under it;
//! - a failed sync leaves the cache as it is and marks it clean: some of what was to be written is
//!   on the device, the rest never will be, and the next sync succeeds ([`Failure`]).
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

/// Bytes that reach the device whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// A call that the disk is to refuse, counted in calls of any kind ([`SimDisk::calls`]).
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
    /// The number of the call that fails; the first call on a disk has number 1.
    pub at: u64,
    /// How it fails.
    pub fault: Fault,
    /// If true, the first sync from `at` on fails.
    pub only_syncs: bool,
    /// Whether all later calls that write or sync fail too, or only this one.
    pub forever: bool,
}

/// How a call fails.
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
    /// The device reports an error. Of a sync, some sectors are on the device, and the others are
    /// forgotten.
    Eio,
    /// No space is left. Of a write nothing is written; calls that need no space are not refused.
    Enospc,
    /// A signal came before anything was done.
    Eintr,
    /// A part of a write is done, then no space is left. Other calls are not refused.
    ShortWrite,
}

/// What sees the disk after each call that changed it: see [`SimDisk::observe`].
pub type Observer = Box<dyn FnMut(&Snapshot<'_>) + Send>;

/// A simulated disk with one directory. Clones are the same disk.
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
    /// An empty disk. The seed decides what [`Dir::random`] gives and what a failed sync leaves.
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

    /// The directory.
    pub fn dir(&self) -> Arc<dyn Dir> {
        Arc::new(dir::SimDir::new(self.clone()))
    }

    /// Calls so far that could have failed.
    pub fn calls(&self) -> u64 {
        self.lock().calls.len() as u64
    }

    /// The numbers of the calls so far that `fault` would have refused, in order.
    pub fn refusable(&self, fault: Fault) -> Vec<u64> {
        let state = self.lock();
        (1..).zip(&state.calls).filter(|&(_, &call)| fault.refusal(call).is_some()).map(|(number, _)| number).collect()
    }

    /// Sets or clears the call that is to fail.
    pub fn fail(&self, failure: Option<Failure>) {
        let mut state = self.lock();
        state.failure = failure;
        state.failed = 0;
    }

    /// No more calls fail; [`SimDisk::failed`] still counts those that did.
    pub fn heal(&self) {
        self.lock().failure = None;
    }

    /// How many calls were refused since [`SimDisk::fail`].
    pub fn failed(&self) -> u64 {
        self.lock().failed
    }

    /// Calls `observer` after each call that changed anything: a write, a length, a sync, a name.
    /// It may draw images from what it is shown; it must not use this disk.
    pub fn observe(&self, observer: Option<Observer>) {
        self.lock().observer = observer;
    }

    /// The disk as a machine could find it if the power were lost now.
    pub fn crash(&self, level: Level, loss: Loss, seed: u64) -> SimDisk {
        Snapshot::of(&self.lock()).crash(level, loss, seed)
    }

    /// The disk as the next process finds it if this one is killed now: nothing is lost, nothing
    /// more is durable.
    pub fn kill(&self) -> SimDisk {
        Snapshot::of(&self.lock()).kill()
    }

    /// The live bytes of a file, to look at or to damage: `None` when there is none of that name.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().named(name).map(|f| f.live.clone())
    }

    /// Replaces a file's bytes, durably, or creates it: damage, as a test wants it.
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
