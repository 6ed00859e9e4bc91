//! The traits of the seam, re-exported by the crate's root: directory, file, lock and map.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// The mode in which a file is opened.
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
    /// Reading and writing a new file; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    Create,
}

/// A hint about a range of a file. Hints never fail; an unsupported one does nothing.
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
    /// Reads will be random: no read-ahead.
    Random,
    /// The range is needed soon: start reading it, without waiting.
    WillNeed,
    /// Drop clean cached pages, including the one in which the range begins, so that the next read
    /// comes from the device. Dirty and mapped pages stay.
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
    /// The lock is held until this value is dropped or the process ends.
    Acquired(Box<dyn Lock>),
    /// Another handle holds the lock; its process id, if it could be read.
    HeldBy(Option<u32>),
}

/// Device and inode of an open file, or a substitute for them.
pub type Identity = (u64, u64);

/// A held advisory lock, released on drop.
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
    /// The lock file's identity, as [`File::identity`].
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

    /// Names of all entries, in no particular order. Names that are not UTF-8 are left out: no
    /// file of a store has one.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens or creates a regular file; a new file is readable and writable by its owner only.
    /// Fails with [`io::ErrorKind::InvalidInput`] if the name is not a regular file, or if
    /// somebody else can change the file: it has several hard links and is opened for writing, has
    /// another owner than the directory, or is writable by everyone. Only the directory's owner
    /// may write.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;

    /// Hint: these files are about to be opened, one after the other, and their first bytes read.
    /// An implementation may fetch what that takes of many files at once. Never fails.
    fn will_open(&self, _names: &[String]) {}

    /// Renames a file, atomically replacing another; durable after [`Dir::sync`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file's name; durable after [`Dir::sync`]. Open handles and maps stay usable.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Hard-links a file of another directory under the same name; durable after [`Dir::sync`]. A
    /// file with several names is no longer opened for writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if hard links do not exist;
    /// [`io::ErrorKind::CrossesDevices`] and other errors of the system, if a copy is needed
    /// instead.
    fn link_from(&self, from: &dyn Dir, name: &str) -> io::Result<()> {
        let _ = (from, name);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Number of names (hard links) of a file, this one included.
    fn links(&self, _name: &str) -> io::Result<u64> {
        Ok(1)
    }

    /// The file's identity: device and inode. Read without opening the file where possible, so it
    /// works without free descriptors. Refuses what is not a regular file, as [`Dir::open`] does.
    fn identity_of(&self, name: &str) -> io::Result<Option<Identity>> {
        self.open(name, Access::Read).map(|file| file.identity())
    }

    /// The operating system's descriptor of the directory, if it has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Makes all creations, renames and removals so far durable.
    fn sync(&self) -> io::Result<()>;

    /// Tries to take the exclusive lock of a lock file, without waiting. Creates the file if
    /// missing, and writes the process id into it.
    fn lock(&self, name: &str) -> io::Result<Locking>;

    /// Bytes free for an unprivileged user.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Fills a buffer with unpredictable random bytes.
    fn random(&self, buf: &mut [u8]) -> io::Result<()>;
}

/// An open file. Offsets and lengths are in bytes. Any number of threads may call any method at
/// once.
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

    /// Sequential [`read_at`](File::read_at) that does not fill the page cache, where possible;
    /// pages cached before stay.
    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }

    /// [`read_at`](File::read_at) that never waits for the device: `None` unless the whole range
    /// is known to be in memory.
    fn read_now_at(&self, _buf: &mut [u8], _offset: u64) -> Option<usize> {
        None
    }

    /// Writes all of `data` at `offset`, extending the file as needed.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Current length.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the current length is 0.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Bytes allocated on the device; holes take none.
    fn allocated_bytes(&self) -> io::Result<u64>;

    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Punches a hole: the range reads as zeros, the length stays. Returns false, and changes
    /// nothing, if unsupported. As durable as a write of zeros.
    fn punch(&self, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes the bytes and the length durable. After an error the state of all writes since the
    /// last success is unknown, and a retry may wrongly succeed.
    fn sync(&self) -> io::Result<()>;

    /// Gives a hint about `len` bytes at `offset` (`len` 0: to the end).
    fn advise(&self, advice: Advice, offset: u64, len: u64);

    /// The file's identity: device and inode; `None` if the system has none.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Maps `len` bytes (a multiple of 8) at `offset` (a multiple of 4096) for reading. The range
    /// may reach past the end of the file. Reading past the end raises SIGBUS.
    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>>;

    /// Maps a range for stores too. A store is in the file at once, may reach the device at any
    /// time and in any order, and is durable after [`File::sync`]. The range must lie within the
    /// file, except for the rest of its last word (which stays out of the file). The file must be
    /// fully allocated (written, not sparse): a store that finds the device full kills the
    /// process.
    fn map_writable(&self, _offset: u64, _len: usize) -> io::Result<Arc<dyn Map>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A word of a mapped file; for the model checker `loom`, one whose loads and stores it sees.
#[cfg(not(filemap_loom))]
pub type Word = std::sync::atomic::AtomicU64;
/// A word of a mapped file; for the model checker `loom`, one whose loads and stores it sees.
#[cfg(filemap_loom)]
pub type Word = loom::sync::atomic::AtomicU64;

/// A mapped range of a file; writable only if [`File::map_writable`] made it.
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
    /// The mapped words, as the machine reads the file's little-endian bytes: word `i` is bytes
    /// `8 * i .. 8 * i + 8`. A word may change between two loads while the file is written.
    fn words(&self) -> &[Word];
}
