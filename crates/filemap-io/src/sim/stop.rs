//! A directory that stops its process at a chosen call, so that another process can kill it there:
//! on a real disk, where no clock could hit the moment.
//!
//! Invariant: only calls that change something count, and a write is stopped in its middle, when
//! its first half is there.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::{Access, Advice, Dir, File, Identity, Locking, Map};

/// When to stop. Clones are one.
#[derive(Clone, Debug)]
pub struct Stop {
    /// Calls that are left; below 0 they do not count.
    left: Arc<AtomicI64>,
    say: fn(),
}

impl Stop {
    /// Never stops, until [`Stop::after`]. Calls `say` when it has stopped, to tell the other
    /// process.
    pub fn never(say: fn()) -> Stop {
        Stop { left: Arc::new(AtomicI64::new(-1)), say }
    }

    /// Stops in the call after `calls` more.
    pub fn after(&self, calls: u64) {
        self.left.store(i64::try_from(calls).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Never stops from now on.
    pub fn disarm(&self) {
        self.left.store(-1, Ordering::SeqCst);
    }

    /// A directory whose calls count.
    pub fn over(&self, inner: Arc<dyn Dir>) -> Arc<dyn Dir> {
        Arc::new(Stopping { stop: self.clone(), inner })
    }

    fn count(&self) {
        if self.left.load(Ordering::SeqCst) >= 0 && self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            (self.say)();
            loop {
                std::thread::park();
            }
        }
    }
}

#[derive(Debug)]
struct Stopping<T: ?Sized> {
    stop: Stop,
    inner: Arc<T>,
}

impl Dir for Stopping<dyn Dir> {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.stop.count();
        let inner = self.inner.open(name, access)?;
        Ok(Arc::new(Stopping { stop: self.stop.clone(), inner }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.stop.count();
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.stop.count();
        self.inner.remove(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.stop.count();
        self.inner.sync()
    }
    fn lock(&self, name: &str) -> io::Result<Locking> {
        self.inner.lock(name)
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }
    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        self.inner.random(buf)
    }
}

impl File for Stopping<dyn File> {
    fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    /// A write is stopped in its middle: its first half is there.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let half = data.len() / 2;
        self.inner.write_at(&data[..half], offset)?;
        self.stop.count();
        self.inner.write_at(&data[half..], offset + half as u64)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.inner.allocated_bytes()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.stop.count();
        self.inner.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.stop.count();
        self.inner.sync()
    }
    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.inner.advise(advice, offset, len);
    }
    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        self.inner.map(offset, len)
    }
}
