//! A directory that runs a callback in the middle of a chosen call: it acts as another process, or
//! stops so that another process can kill this one at a point that no timer could hit.
//!
//! Invariant: a write is interrupted when its first half is written.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::{Access, Advice, Dir, File, Identity, Locking, Map};

/// The calls of a directory and of its files that count.
///
/// ```
/// use filemap_io::sim::{Calls, Interrupt, SimDisk};
/// let interrupt = Interrupt::never(Calls::Changes, || panic!("a list changes nothing"));
/// let dir = interrupt.over(SimDisk::new(1).dir());
/// interrupt.after(0);
/// assert!(dir.list()?.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Calls that may change something.
    Changes,
    /// All calls, including reads and lists.
    All,
}

/// Runs a callback at a chosen call. Clones share their state.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use filemap_io::Access;
/// use filemap_io::sim::{Calls, Interrupt, SimDisk};
/// static WAS_RUN: AtomicBool = AtomicBool::new(false);
/// let interrupt = Interrupt::never(Calls::All, || WAS_RUN.store(true, Ordering::SeqCst));
/// let dir = interrupt.over(SimDisk::new(1).dir());
/// assert!(dir.list()?.is_empty() && !WAS_RUN.load(Ordering::SeqCst));
/// interrupt.after(0);
/// dir.open("f", Access::Create)?;
/// assert!(WAS_RUN.load(Ordering::SeqCst));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Interrupt {
    /// Calls left; negative while disarmed.
    left: Arc<AtomicI64>,
    calls: Calls,
    work: fn(),
}

impl Interrupt {
    /// Never runs `work`, until [`Interrupt::after`].
    pub fn never(calls: Calls, work: fn()) -> Interrupt {
        Interrupt { left: Arc::new(AtomicI64::new(-1)), calls, work }
    }

    /// Runs `work` once, in the call after the next `calls` calls.
    pub fn after(&self, calls: u64) {
        self.left.store(i64::try_from(calls).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Disarms it.
    pub fn disarm(&self) {
        self.left.store(-1, Ordering::SeqCst);
    }

    /// A directory whose calls are counted.
    pub fn over(&self, inner: Arc<dyn Dir>) -> Arc<dyn Dir> {
        Arc::new(Interrupted { by: self.clone(), inner })
    }

    fn count(&self) {
        if self.left.load(Ordering::SeqCst) >= 0 && self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            (self.work)();
        }
    }

    fn count_read(&self) {
        if self.calls == Calls::All {
            self.count();
        }
    }
}

#[derive(Debug)]
struct Interrupted<T: ?Sized> {
    by: Interrupt,
    inner: Arc<T>,
}

impl Dir for Interrupted<dyn Dir> {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.by.count_read();
        self.inner.list()
    }
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.by.count();
        let inner = self.inner.open(name, access)?;
        Ok(Arc::new(Interrupted { by: self.by.clone(), inner }))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.by.count();
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.by.count();
        self.inner.remove(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.by.count();
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

impl File for Interrupted<dyn File> {
    fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.by.count_read();
        self.inner.read_at(buf, offset)
    }
    fn read_now_at(&self, buf: &mut [u8], offset: u64) -> Option<usize> {
        self.inner.read_now_at(buf, offset)
    }
    /// Interrupted in the middle, with its first half written.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let half = data.len() / 2;
        self.inner.write_at(&data[..half], offset)?;
        self.by.count();
        self.inner.write_at(&data[half..], offset + half as u64)
    }
    fn len(&self) -> io::Result<u64> {
        self.by.count_read();
        self.inner.len()
    }
    fn allocated_bytes(&self) -> io::Result<u64> {
        self.inner.allocated_bytes()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.by.count();
        self.inner.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.by.count();
        self.inner.sync()
    }
    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        self.inner.advise(advice, offset, len);
    }
    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        self.inner.map(offset, len)
    }
}
