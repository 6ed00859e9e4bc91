//! The write gate of a handle: every call that changes a store's directory or files passes it. It
//! is shut before the lock is released. It is part of the I/O seam: the directory that [`guard`]
//! returns, and files opened through it, cannot bypass it.
//!
//! Invariants:
//! - A changing call runs only while the lock is held, the handle is not poisoned and the gate is
//!   not shut.
//! - When [`Gate::shut`] returns no such call is running, and none starts later: the next writer
//!   may open the store.
//! - A refusal is [`Error::Closed`] or `Poisoned`, inside the `io::Error` that [`Error::io`]
//!   unwraps.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use filemap_io::{Access, Advice, Dir, File, Identity, Lock, Locking, Map};

use crate::error::Error;
use crate::failpoint::{Fault, planted};
use crate::sync::primitive::{AtomicU64, Condvar, Ordering};
use crate::sync::{Poison, Ranked, lock, rank};

/// Bit of [`Gate::word`]: the gate is shut.
const SHUT: u64 = 1 << 63;

/// Counts changing calls, and refuses them once shut or poisoned.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Number of running calls, and [`SHUT`].
    word: AtomicU64,
    left: Ranked<{ rank::GATE }, ()>,
    changed: Condvar,
    pub(crate) poison: Arc<Poison>,
    /// The store's lock; `None` once released.
    held: Ranked<{ rank::LOCK_FILE }, Option<Box<dyn Lock>>>,
}

/// A changing call in progress.
#[derive(Debug)]
struct Passing<'a>(&'a Gate);

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Gate {
    /// An open gate.
    fn new(held: Box<dyn Lock>) -> Gate {
        Gate {
            word: AtomicU64::new(0),
            left: Ranked::default(),
            changed: Condvar::default(),
            poison: Arc::default(),
            held: Ranked::new(Some(held)),
        }
    }

    fn pass(&self) -> io::Result<Passing<'_>> {
        let before = self.word.fetch_add(1, Ordering::SeqCst);
        let passing = Passing(self);
        if before & SHUT != 0 && !planted(Fault::GateNotShut) {
            return Err(io::Error::other(Error::Closed));
        }
        self.poison.check().map_err(io::Error::other)?;
        Ok(passing)
    }

    fn leave(&self) {
        if self.word.fetch_sub(1, Ordering::SeqCst) == SHUT | 1 {
            // `shut` reads the word under this lock.
            drop(lock(&self.left));
            self.changed.notify_all();
        }
    }

    /// Refuses new calls, waits for running ones, then releases the lock.
    pub(crate) fn shut(&self) {
        self.word.fetch_or(SHUT, Ordering::SeqCst);
        let mut left = lock(&self.left);
        while self.word.load(Ordering::SeqCst) != SHUT {
            left = left.wait(&self.changed);
        }
        drop(left);
        *lock(&self.held) = None;
    }

    /// Identity of the lock file; `None` once the lock is released.
    pub(crate) fn identity(&self) -> Option<Identity> {
        lock(&self.held).as_ref().and_then(|held| held.identity())
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.word.load(Ordering::SeqCst) & SHUT != 0
    }
}

/// A directory whose changes all pass a gate.
#[derive(Debug)]
struct Gated {
    dir: Arc<dyn Dir>,
    gate: Arc<Gate>,
}

impl Dir for Gated {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.dir.list()
    }

    fn identity_of(&self, name: &str) -> io::Result<Option<Identity>> {
        self.dir.identity_of(name)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        if access == Access::Read {
            return self.dir.open(name, access);
        }
        let _passing = self.gate.pass()?;
        let file = self.dir.open(name, access)?;
        Ok(Arc::new(GatedFile { file, gate: Arc::clone(&self.gate) }))
    }

    fn will_open(&self, names: &[String]) {
        self.dir.will_open(names);
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.dir.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.dir.remove(name)
    }

    fn link_from(&self, from: &dyn Dir, name: &str) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.dir.link_from(from, name)
    }

    fn links(&self, name: &str) -> io::Result<u64> {
        self.dir.links(name)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.dir.descriptor()
    }

    fn sync(&self) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.dir.sync()
    }

    fn lock(&self, name: &str) -> io::Result<Locking> {
        self.dir.lock(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.dir.free_bytes()
    }

    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.dir.random(buf)
    }
}

/// A file of a gated directory, opened for writing.
#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl File for GatedFile {
    fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_once_at(buf, offset)
    }

    fn read_now_at(&self, buf: &mut [u8], offset: u64) -> Option<usize> {
        self.file.read_now_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.file.write_at(data, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.file.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        let _passing = self.gate.pass()?;
        self.file.punch(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        let _passing = self.gate.pass()?;
        self.file.sync()
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.file.advise(advice, offset, len);
    }

    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        self.file.map(offset, len)
    }

    fn map_writable(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        let _passing = self.gate.pass()?;
        self.file.map_writable(offset, len)
    }
}

/// A directory behind a gate, with the gate.
pub(crate) type Guarded = (Arc<dyn Dir>, Arc<Gate>);

/// Puts a directory behind a gate that owns its lock.
pub(crate) fn guard(dir: Arc<dyn Dir>, held: Box<dyn Lock>) -> Guarded {
    let gate = Arc::new(Gate::new(held));
    (Arc::new(Gated { dir, gate: Arc::clone(&gate) }), gate)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_call_of_the_seam_falls_back_to_its_default_behind_the_gate() {
        let seam = include_str!("../../../filemap-io/src/seam.rs");
        let gated = include_str!("gate.rs");
        let part = |name: &str| {
            let from = seam.find(&format!("pub trait {name}:")).expect("the trait");
            let text = &seam[from..];
            text[..text.find("\n}").expect("its end")].to_owned()
        };
        for (name, of) in [("Dir", "Gated"), ("File", "GatedFile")] {
            let from = gated.find(&format!("impl {name} for {of} {{")).expect("the gate's");
            let gated = &gated[from..][..gated[from..].find("\n}").expect("its end")];
            let text = part(name);
            let calls = text.lines().filter_map(|l| l.strip_prefix("    fn ")?.split_once('(')).map(|(call, _)| call);
            for call in calls.filter(|call| *call != "is_empty") {
                assert!(gated.contains(&format!("    fn {call}(")), "{call} of {name}");
            }
        }
    }
}
