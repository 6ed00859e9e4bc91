//! The traits of the seam, which the crate's root names: directory, file, lock and map.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// What a file is opened for.
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
#[derive(Debug)]
pub enum Locking {
    /// The lock is held until the value is dropped, or the process ends.
    Acquired(Box<dyn Lock>),
    /// Another handle holds it; its process id, when it could be read.
    HeldBy(Option<u32>),
}

/// Device and inode of an open file, or what stands for them.
pub type Identity = (u64, u64);

/// A held advisory lock.
pub trait Lock: Send + Sync + Debug {
    /// As [`File::identity`], of the lock file.
    fn identity(&self) -> Option<Identity> {
        None
    }
}

/// A directory that holds the files of one store.
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

    /// What tells the file under a name from every other one: [`File::identity`] without opening
    /// it, where that can be, so that it can be asked though no more files can be opened. Refused
    /// as by [`Dir::open`] is what is no regular file.
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

    /// Fills a buffer with random bytes that nobody can foretell.
    fn random(&self, buf: &mut [u8]) -> io::Result<()>;
}

/// An open file. All offsets and lengths are in bytes. Any number of threads may call any method
/// at once.
pub trait File: Send + Sync + Debug {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file. Returns the
    /// count.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// [`read_at`](File::read_at) for what nobody is going to want again soon, from front to end:
    /// where the system can, the bytes leave its cache once they were read, unless they were in it
    /// before.
    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
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

    /// Gives the space of a range back, which reads as zeros then; the length stays. Durable, or
    /// not, as a write of zeros is. Whether the system has such a thing: if not, nothing is
    /// changed.
    fn punch(&self, _offset: u64, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes the bytes and the length durable. After an error nothing is known of any write since
    /// the last success, and trying again may wrongly succeed.
    fn sync(&self) -> io::Result<()>;

    /// A hint about `len` bytes at `offset` (`len` 0: to the end).
    fn advise(&self, advice: Advice, offset: u64, len: u64);

    /// What tells this file from every other that is there at the same time, whatever they are
    /// called; `None` where the system does not say.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Maps `len` bytes at `offset` (both multiples of 4096) for reading. The range may reach past
    /// the end of the file: the caller must not read words past the end, as that ends the process.
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
pub trait Map: Send + Sync + Debug {
    /// The mapped words, in the machine's byte order of the file's little-endian bytes: word `i`
    /// is bytes `8 * i .. 8 * i + 8`. A word may change between two loads while the file is
    /// written.
    fn words(&self) -> &[Word];
}
