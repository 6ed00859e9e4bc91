//! The traits of the seam, which the crate's root names: directory, file, lock and map.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// What a file is opened for.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::{Access, Dir, OsDir};
/// let dir = OsDir::open(temp.path())?;
/// dir.open("f", Access::Create)?.write_at(b"bytes", 0)?;
/// let again = dir.open("f", Access::Create).expect_err("it is there");
/// assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
/// assert_eq!(dir.open("f", Access::Read)?.len()?, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; the file must exist.
    Read,
    /// Reading and writing; the file must exist.
    Write,
    /// Reading and writing a new file; [`io::ErrorKind::AlreadyExists`] when there is one of that
    /// name.
    Create,
}

/// A hint about a range of a file. Hints never fail: where the system has no such thing they do
/// nothing.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::{Access, Advice, Dir, OsDir};
/// let file = OsDir::open(temp.path())?.open("f", Access::Create)?;
/// file.advise(Advice::Random, 0, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Reads will be scattered: no read-ahead.
    Random,
    /// The range is wanted soon: start reading it, without waiting.
    WillNeed,
    /// Forget cached pages that are clean, the page included in which the range begins, so that
    /// the next read comes from the device. Pages that are dirty or mapped stay.
    DropCache,
}

/// The result of [`Dir::lock`].
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::{Dir, Locking, OsDir};
/// let dir = OsDir::open(temp.path())?;
/// let Locking::Acquired(held) = dir.lock("LOCK")? else { panic!("another handle has it") };
/// assert!(matches!(dir.lock("LOCK")?, Locking::HeldBy(_)));
/// drop(held);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub enum Locking {
    /// The lock is held until the value is dropped, or the process ends.
    Acquired(Box<dyn Lock>),
    /// Another handle holds it; its process id, when it could be read.
    HeldBy(Option<u32>),
}

/// Device and inode of an open file, or what stands for them.
pub type Identity = (u64, u64);

/// A held advisory lock, given up on drop.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::{Dir, Lock, Locking, OsDir};
/// let dir = OsDir::open(temp.path())?;
/// let Locking::Acquired(held) = dir.lock("LOCK")? else { panic!("another handle has it") };
/// assert_eq!(held.identity(), dir.identity_of("LOCK")?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Lock: Send + Sync + Debug {
    /// As [`File::identity`], of the lock file.
    fn identity(&self) -> Option<Identity> {
        None
    }
}

/// A directory that holds the files of one store.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::{Access, Dir, OsDir};
/// let dir = OsDir::open(temp.path())?;
/// let file = dir.open("f.new", Access::Create)?;
/// file.sync()?;
/// dir.rename("f.new", "f")?;
/// dir.sync()?;
/// assert_eq!(dir.list()?, ["f"]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Dir: Send + Sync + Debug {
    /// The directory's path, for messages only.
    fn path(&self) -> &Path;

    /// Names of all entries, in no order. Names that are not UTF-8 are left out: no file of a
    /// store has one.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens or creates a regular file. Refused with [`io::ErrorKind::InvalidInput`] is anything
    /// else under the name, and a file that somebody else can change: one with several hard links,
    /// of another owner than the directory, writable by everyone. So is writing by another user
    /// than the owner. A file that is created is readable and writable by its owner only.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;

    /// Renames a file over another, atomically; durable after [`Dir::sync`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file's name; durable after [`Dir::sync`]. Open handles and maps stay usable.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file of another directory the same name here too: a hard link, durable after
    /// [`Dir::sync`]. A file with several names is not opened for writing any more.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where there are no links at all;
    /// [`io::ErrorKind::CrossesDevices`] and others of the system, when a copy is needed instead.
    fn link_from(&self, from: &dyn Dir, name: &str) -> io::Result<()> {
        let _ = (from, name);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// How many names a file has, this one included.
    fn links(&self, _name: &str) -> io::Result<u64> {
        Ok(1)
    }

    /// The file's identity: device and inode. It is read without opening the file where possible,
    /// so it works without free descriptors. Refuses, as [`Dir::open`], what is no regular file.
    fn identity_of(&self, name: &str) -> io::Result<Option<Identity>> {
        self.open(name, Access::Read).map(|file| file.identity())
    }

    /// The operating system's descriptor, of a directory that has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes all creations, renames and removals so far durable.
    fn sync(&self) -> io::Result<()>;

    /// Takes the exclusive lock of a lock file at once, creating the file when it is absent, and
    /// writes the process id into it. Never waits.
    fn lock(&self, name: &str) -> io::Result<Locking>;

    /// Bytes that an unprivileged user may still write to the file system.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Fills a buffer with unpredictable random bytes.
    fn random(&self, buf: &mut [u8]) -> io::Result<()>;
}

/// An open file. All offsets and lengths are in bytes. Any number of threads may call any method
/// at once.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::{Access, Dir, File, OsDir};
/// let file = OsDir::open(temp.path())?.open("f", Access::Create)?;
/// file.write_at(b"bytes", 4)?;
/// let mut buf = [0; 16];
/// assert_eq!((file.read_at(&mut buf, 4)?, file.len()?), (5, 9));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait File: Send + Sync + Debug {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file. Returns the
    /// count.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Sequential [`read_at`](File::read_at) that leaves nothing in the page cache where possible;
    /// what was cached before stays.
    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }

    /// [`read_at`](File::read_at) that waits for no device: `None` if not all of it is in memory,
    /// or nobody can tell.
    fn read_now_at(&self, _buf: &mut [u8], _offset: u64) -> Option<usize> {
        None
    }

    /// Writes all of `data` at `offset`, extending the file as needed.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// The length now.
    fn len(&self) -> io::Result<u64>;

    /// Whether the length is 0 now.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Bytes that the file takes on the device now (holes take none).
    fn allocated_bytes(&self) -> io::Result<u64>;

    /// Cuts the file or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Punches a hole: the range reads as zeros, the length stays. Returns false if unsupported;
    /// nothing is changed then. Durable as a write of zeros is.
    fn punch(&self, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes the bytes and the length durable. After an error nothing is known of any write since
    /// the last success, and trying again may wrongly succeed.
    fn sync(&self) -> io::Result<()>;

    /// A hint about `len` bytes at `offset` (`len` 0: to the end).
    fn advise(&self, advice: Advice, offset: u64, len: u64);

    /// The file's identity: device and inode; `None` where the system has none.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Maps `len` bytes (a multiple of 8) at `offset` (a multiple of 4096) for reading. The range
    /// may reach past the end of the file. Reading past the end raises SIGBUS.
    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>>;

    /// Maps a range for storing too: what is stored is in the file at once, may reach the device
    /// at any time and in any order, and is durable after [`File::sync`]. The range must lie
    /// within the file, but for the rest of its last word (which stays out of the file), and the
    /// file must have its space (written, not sparse): a store that finds the device full ends the
    /// process.
    fn map_writable(&self, _offset: u64, _len: usize) -> io::Result<Arc<dyn Map>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A word of a mapped file; in a build for the model checker `loom`, one whose loads and stores
/// the checker sees.
#[cfg(not(filemap_loom))]
pub type Word = std::sync::atomic::AtomicU64;
/// A word of a mapped file; in a build for the model checker `loom`, one whose loads and stores
/// the checker sees.
#[cfg(filemap_loom)]
pub type Word = loom::sync::atomic::AtomicU64;

/// A range of a file, mapped for reading; for storing too only if [`File::map_writable`] made it.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use std::sync::atomic::Ordering;
/// use filemap_io::{Access, Dir, Map, OsDir};
/// let file = OsDir::open(temp.path())?.open("f", Access::Create)?;
/// file.write_at(&[7; 4096], 0)?;
/// let map = file.map(0, 4096)?;
/// assert_eq!(map.words()[0].load(Ordering::Relaxed), 0x0707_0707_0707_0707);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Map: Send + Sync + Debug {
    /// The mapped words, in the machine's byte order of the file's little-endian bytes: word `i`
    /// is bytes `8 * i .. 8 * i + 8`. A word may change between two loads while the file is
    /// written.
    fn words(&self) -> &[Word];
}
