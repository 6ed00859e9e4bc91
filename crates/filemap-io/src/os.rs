//! The operating system's directory and files. The directory is opened once and everything else is
//! relative to its descriptor, so a directory renamed or replaced under a running store does no
//! harm.
//!
//! Invariants: nothing is opened that [`guard`] refuses, and no name is followed out of the
//! directory; created files are accessible to their owner only, whatever the umask; no descriptor
//! survives an `exec`, so a child process holds no lock.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::guard;
use crate::map::OsMap;
use crate::{Access, Advice, Dir, File, Identity, Lock, Locking, Map};

/// Largest page size of any supported system.
const LARGEST_PAGE: u64 = 64 << 10;
/// Read-ahead of sequential reads, in bytes.
const AHEAD_BYTES: u64 = 16 << 20;
/// Fewer files than this are not opened ahead.
const FEWEST_AHEAD: usize = 8;
/// Threads that open files ahead, at most. They only wait for the device, which serves that many
/// reads in little more than the time of one.
const THREADS_AHEAD: usize = 16;

/// A directory of the operating system.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::{Dir, OsDir};
/// let dir = OsDir::open(temp.path())?;
/// assert!(dir.list()?.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OsDir {
    path: PathBuf,
    fd: OwnedFd,
    /// The owner of the directory, who must own its files too.
    owner: u32,
}

/// The permissions of a directory and of a file, whatever the umask.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Creates a directory that only its owner can enter, and syncs its parent. An existing directory
/// is left as it is.
///
/// # Errors
/// I/O errors, such as a missing or read-only parent.
pub fn create_dir(path: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(e) => Err(e),
        Ok(()) => {
            // The umask may have taken away the owner's bits too.
            if std::fs::symlink_metadata(path)?.mode() & DIRECTORY_MODE != DIRECTORY_MODE {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(DIRECTORY_MODE))?;
            }
            sync_parent(path)
        }
    }
}

/// Renames a directory, replacing an empty one, and syncs the parent of the new name.
///
/// # Errors
/// I/O errors, such as [`io::ErrorKind::DirectoryNotEmpty`] if the new name is a directory with
/// entries.
pub fn rename_dir(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    sync_parent(to)
}

/// Removes an empty directory.
///
/// # Errors
/// I/O errors, such as a directory that is not empty.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    std::fs::remove_dir(path)
}

/// Retries a system call interrupted by a signal.
fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(parent)?.sync_all()
}

/// Number of files that this process may have open at once.
pub fn open_file_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns whether an error is a shortage of descriptors or memory: temporary, not damage.
pub fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    error.raw_os_error().is_some_and(|code| shortages.iter().any(|s| s.raw_os_error() == code))
}

/// Opens any regular file for inspection only, wherever it lies and whoever owns it.
///
/// # Errors
/// I/O errors, such as [`io::ErrorKind::InvalidInput`] if it is not a regular file.
pub fn open_to_inspect(path: &Path) -> io::Result<Arc<dyn File>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = std::fs::File::from(again(|| rustix::fs::open(path, flags, Mode::empty()))?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(Arc::new(OsFile::new(file)))
}

impl OsDir {
    /// Opens an existing directory. Its path is not looked up again.
    ///
    /// # Errors
    /// I/O errors, such as [`io::ErrorKind::NotFound`] and [`io::ErrorKind::NotADirectory`];
    /// [`io::ErrorKind::InvalidInput`] if everyone may write to it.
    pub fn open(path: &Path) -> io::Result<OsDir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = std::fs::File::from(again(|| rustix::fs::open(path, flags, Mode::empty()))?);
        let owner = guard::directory(&dir.metadata()?)?;
        Ok(OsDir { path: path.to_owned(), fd: dir.into(), owner })
    }

    /// Opens an existing file, if [`guard`] permits it.
    fn open_existing(&self, name: &str, flags: OFlags) -> io::Result<std::fs::File> {
        guard::name(&again(|| rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW))?)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = std::fs::File::from(again(|| rustix::fs::openat(&self.fd, name, flags, Mode::empty()))?);
        guard::open_file(&file.metadata()?, self.owner, flags.contains(OFlags::RDWR))?;
        Ok(file)
    }

    fn create(&self, name: &str) -> io::Result<std::fs::File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = again(|| rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(FILE_MODE)))?;
        let file = std::fs::File::from(fd);
        if file.metadata()?.mode() & FILE_MODE != FILE_MODE {
            file.set_permissions(std::fs::Permissions::from_mode(FILE_MODE))?;
        }
        Ok(file)
    }

    /// Opens a file for writing, creating it if missing; two processes may do so at once.
    fn open_or_create(&self, name: &str) -> io::Result<std::fs::File> {
        loop {
            match self.open_existing(name, OFlags::RDWR) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
            match self.create(name) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
    }
}

impl Dir for OsDir {
    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        if access != Access::Read {
            guard::writer(self.owner)?;
        }
        let file = match access {
            Access::Read => self.open_existing(name, OFlags::RDONLY)?,
            Access::Write => self.open_existing(name, OFlags::RDWR)?,
            Access::Create => self.create(name)?,
        };
        Ok(Arc::new(OsFile::new(file)))
    }

    /// With nothing cached a file takes a few reads, each of which waits for the last: its inode,
    /// the map of its blocks, its first block. So some threads open and read the files at once;
    /// the caller then finds everything in the kernel's caches.
    fn will_open(&self, names: &[String]) {
        if names.len() < FEWEST_AHEAD {
            return;
        }
        let next = AtomicUsize::new(0);
        let open_some = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                // The caller's own opening reports what is wrong with a file.
                if let Ok(file) = self.open_existing(name, OFlags::RDONLY) {
                    let _ = file.read_at(&mut [0; 64], 0);
                }
            }
        };
        thread::scope(|scope| {
            let threads = THREADS_AHEAD.min(names.len() / 2);
            let start = |_| thread::Builder::new().name("filemap-open".into()).spawn_scoped(scope, open_some).ok();
            let started: Vec<_> = (1..threads).map_while(start).collect();
            open_some();
            for opening in started {
                // The scope would wait too, but by a counter that ThreadSanitizer does not see.
                let _ = opening.join();
            }
        });
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    fn links(&self, name: &str) -> io::Result<u64> {
        let about = again(|| rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW))?;
        // The type differs between systems.
        #[allow(clippy::useless_conversion, reason = "it is u64 here, and u32 elsewhere")]
        Ok(about.st_nlink.into())
    }

    fn identity_of(&self, name: &str) -> io::Result<Option<Identity>> {
        let about = again(|| rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW))?;
        guard::name(&about)?;
        // The type differs between systems.
        #[allow(clippy::useless_conversion, reason = "they are u64 here, and narrower elsewhere")]
        Ok(Some((about.st_dev.into(), about.st_ino.into())))
    }

    fn link_from(&self, from: &dyn Dir, name: &str) -> io::Result<()> {
        guard::writer(self.owner)?;
        let from = from.descriptor().ok_or(io::ErrorKind::Unsupported)?;
        // Opening would refuse a link to something that is not a regular file, or to another
        // owner's file.
        let found = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        guard::name(&found)?;
        if found.st_uid != self.owner {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(rustix::fs::linkat(from, name, &self.fd, name, AtFlags::empty())?)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn sync(&self) -> io::Result<()> {
        again(|| rustix::fs::fsync(&self.fd))
    }

    fn lock(&self, name: &str) -> io::Result<Locking> {
        guard::writer(self.owner)?;
        let file = self.open_or_create(name)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                let mut text = [0; 16];
                let n = file.read_at(&mut text, 0).unwrap_or(0);
                let pid = std::str::from_utf8(&text[..n]).ok().and_then(|t| t.trim().parse().ok());
                return Ok(Locking::HeldBy(pid));
            }
            Err(std::fs::TryLockError::Error(e)) => return Err(e),
        }
        let held = OsLock { file, process: std::process::id() };
        let text = format!("{}\n", held.process);
        held.file.write_all_at(text.as_bytes(), 0)?;
        held.file.set_len(text.len() as u64)?;
        Ok(Locking::Acquired(Box::new(held)))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let vfs = again(|| rustix::fs::fstatvfs(self.fd.as_fd()))?;
        Ok(vfs.f_bavail.saturating_mul(vfs.f_frsize))
    }

    fn random(&self, buf: &mut [u8]) -> io::Result<()> {
        getrandom::fill(buf).map_err(io::Error::other)
    }
}

/// The kernel drops the lock when the process ends. A forked child shares the lock, so its owner
/// unlocks it explicitly.
#[derive(Debug)]
struct OsLock {
    file: std::fs::File,
    process: u32,
}

impl Lock for OsLock {
    fn identity(&self) -> Option<Identity> {
        identity(&self.file)
    }
}

/// Device and inode of an open file.
fn identity(file: &std::fs::File) -> Option<Identity> {
    file.metadata().ok().map(|m| (m.dev(), m.ino()))
}

impl Drop for OsLock {
    fn drop(&mut self) {
        if std::process::id() == self.process {
            // If this fails, closing the descriptor unlocks.
            let _ = self.file.unlock();
        }
    }
}

#[derive(Debug)]
struct OsFile {
    file: std::fs::File,
    /// True if uncached reads are unsupported.
    keeps_reads: AtomicBool,
    /// True if the file system cannot tell what is in the page cache.
    tells_nothing: AtomicBool,
}

impl OsFile {
    fn new(file: std::fs::File) -> OsFile {
        OsFile {
            file,
            keeps_reads: AtomicBool::new(cfg!(not(target_os = "linux"))),
            tells_nothing: AtomicBool::new(false),
        }
    }

    /// Reads without filling the page cache; `Unsupported` if that is impossible.
    #[cfg(target_os = "linux")]
    fn read_uncached_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        /// Linux 6.14 and later, some file systems.
        const RWF_DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
        match preadv2(&self.file, &mut [io::IoSliceMut::new(buf)], offset, RWF_DONTCACHE) {
            Ok(n) => Ok(n),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Err(io::ErrorKind::Unsupported.into()),
            Err(e) => Err(e.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read_uncached_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Calls `read` for the unread rest of `buf` until it is full or the file ends.
fn read_all_at(
    buf: &mut [u8],
    offset: u64,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match read(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

impl File for OsFile {
    fn identity(&self) -> Option<Identity> {
        identity(&self.file)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        read_all_at(buf, offset, |buf, offset| self.file.read_at(buf, offset))
    }

    #[cfg(target_os = "linux")]
    fn read_now_at(&self, buf: &mut [u8], offset: u64) -> Option<usize> {
        use rustix::io::{Errno, ReadWriteFlags, preadv2};
        if self.tells_nothing.load(Ordering::Relaxed) {
            return None;
        }
        match preadv2(&self.file, &mut [io::IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
            // A short read may also mean the end of the file: the call does not tell.
            Ok(read) => (read == buf.len()).then_some(read),
            Err(e) => {
                let is_unknown = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL].contains(&e);
                self.tells_nothing.fetch_or(is_unknown, Ordering::Relaxed);
                None
            }
        }
    }

    fn read_once_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if !self.keeps_reads.load(Ordering::Relaxed) {
            match read_all_at(buf, offset, |buf, offset| self.read_uncached_at(buf, offset)) {
                Err(e) if e.kind() == io::ErrorKind::Unsupported => self.keeps_reads.store(true, Ordering::Relaxed),
                read => return read,
            }
        }
        // Prefetches the next bytes while these are checked.
        self.advise(Advice::WillNeed, offset + buf.len() as u64, AHEAD_BYTES);
        self.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    #[cfg(target_os = "linux")]
    fn punch(&self, offset: u64, len: u64) -> io::Result<bool> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match again(|| fallocate(&self.file, hole, offset, len)) {
            Ok(()) => Ok(true),
            // The file system does not support it.
            Err(e)
                if [Errno::OPNOTSUPP, Errno::NOSYS]
                    .map(Errno::raw_os_error)
                    .contains(&e.raw_os_error().unwrap_or(0)) =>
            {
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn advise(&self, advice: Advice, mut offset: u64, mut len: u64) {
        if advice == Advice::DropCache {
            // The system drops whole pages only, so include the page in which the range begins.
            let before = offset % LARGEST_PAGE;
            offset -= before;
            len += if len == 0 { 0 } else { before };
        }
        let advice = match advice {
            Advice::Random => rustix::fs::Advice::Random,
            Advice::WillNeed => rustix::fs::Advice::WillNeed,
            Advice::DropCache => rustix::fs::Advice::DontNeed,
        };
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), advice);
    }

    fn map(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        Ok(Arc::new(OsMap::new(&self.file, offset, len)?))
    }

    fn map_writable(&self, offset: u64, len: usize) -> io::Result<Arc<dyn Map>> {
        Ok(Arc::new(OsMap::writable(&self.file, offset, len)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    fn dir() -> (tempfile::TempDir, OsDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = OsDir::open(temp.path()).unwrap();
        (temp, dir)
    }

    #[test]
    fn a_call_that_a_signal_interrupts_is_made_again() {
        let mut interruptions = 3;
        let call = || match interruptions {
            0 => Ok(7),
            _ => {
                interruptions -= 1;
                Err(rustix::io::Errno::INTR)
            }
        };
        assert_eq!(again(call).unwrap(), 7);
        assert_eq!(interruptions, 0);
        assert_eq!(again(|| Err::<(), _>(rustix::io::Errno::IO)).unwrap_err().raw_os_error(), Some(5));
        // Every such call in this file.
        let source = include_str!("os.rs");
        let product = source.split("mod tests {").next().unwrap_or_default();
        for call in ["open(", "openat(", "statat(&self.fd", "fsync(", "fallocate(&", "fstatvfs("] {
            let lines: Vec<&str> = product.lines().filter(|l| l.contains(call) && !l.contains("fn ")).collect();
            let rustix = lines.iter().filter(|l| l.contains("rustix::fs::") || l.contains(" fallocate("));
            rustix.for_each(|l| assert!(l.contains("again(|| "), "{l}"));
        }
    }

    #[test]
    fn opening_ahead_changes_nothing_and_is_silent_about_what_cannot_be_opened() {
        let (temp, dir) = dir();
        let mut names: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
        for (n, name) in names.iter().enumerate() {
            dir.open(name, Access::Create).unwrap().write_at(&[n as u8; 100], 0).unwrap();
        }
        std::fs::create_dir(temp.path().join("d")).unwrap();
        std::os::unix::fs::symlink(temp.path().join("f1"), temp.path().join("l")).unwrap();
        names.extend(["d", "l", "none"].map(str::to_owned));
        for some in [0, FEWEST_AHEAD - 1, FEWEST_AHEAD, names.len()] {
            dir.will_open(&names[names.len() - some..]);
        }
        for (n, name) in names[..40].iter().enumerate() {
            let mut bytes = [0; 101];
            assert_eq!(dir.open(name, Access::Read).unwrap().read_at(&mut bytes, 0).unwrap(), 100);
            assert!(bytes[..100].iter().all(|b| *b == n as u8), "{name}");
        }
        assert_eq!(dir.list().unwrap().len(), 42);
    }

    #[test]
    fn what_is_read_once_is_what_is_read_and_ends_with_the_file() {
        let (temp, dir) = dir();
        let file = dir.open("f", Access::Create).unwrap();
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
        file.write_at(&bytes, 0).unwrap();
        let mut once = vec![0; 70_001];
        for (offset, len) in [(0, 70_001), (299_000, 1000), (250_001, 49_999), (300_000, 0), (400_000, 0)] {
            assert_eq!(file.read_once_at(&mut once, offset).unwrap(), len, "{offset}");
            assert_eq!(once[..len], bytes[bytes.len().min(offset as usize)..][..len], "{offset}");
            // Just written, so it is in memory; but not every file system tells.
            once.fill(0);
            if let Some(read) = file.read_now_at(&mut once, offset) {
                assert_eq!((read, &once[..]), (once.len(), &bytes[offset as usize..][..read]), "{offset}");
            }
        }
        // As on a system without uncached reads.
        let file = OsFile::new(std::fs::File::open(temp.path().join("f")).unwrap());
        file.keeps_reads.store(true, Ordering::Relaxed);
        assert_eq!(file.read_once_at(&mut once, 250_001).unwrap(), 49_999);
        assert_eq!(once[..49_999], bytes[250_001..]);
    }

    #[test]
    fn a_map_shows_what_is_written_to_the_file_afterwards() {
        let (_temp, dir) = dir();
        let file = dir.open("f", Access::Create).unwrap();
        file.write_at(&[0; 4096], 0).unwrap();
        let map = file.map(0, 8192).unwrap(); // reaches past the end on purpose
        assert_eq!(map.words()[3].load(Ordering::Relaxed), 0);
        file.write_at(&7u64.to_le_bytes(), 24).unwrap();
        assert_eq!(map.words()[3].load(Ordering::Relaxed), 7);
        file.write_at(&[1; 4096], 4096).unwrap();
        assert_eq!(map.words()[512].load(Ordering::Relaxed), 0x0101_0101_0101_0101);
    }

    #[test]
    fn what_is_stored_through_a_writable_map_is_in_the_file() {
        let (_temp, dir) = dir();
        let file = dir.open("f", Access::Create).unwrap();
        file.write_at(&[0; 4096], 0).unwrap();
        let map = file.map_writable(0, 4096).unwrap();
        map.words()[2].fetch_or(9, Ordering::Relaxed);
        let mut word = [0; 8];
        file.read_at(&mut word, 16).unwrap();
        assert_eq!(u64::from_le_bytes(word), 9);
    }

    #[test]
    fn a_second_lock_is_refused_and_names_the_process() {
        let (_temp, dir) = dir();
        let Locking::Acquired(first) = dir.lock("LOCK").unwrap() else { panic!("the first lock is free") };
        match dir.lock("LOCK").unwrap() {
            Locking::HeldBy(pid) => assert_eq!(pid, Some(std::process::id())),
            Locking::Acquired(_) => panic!("two locks at once"),
        }
        drop(first);
        assert!(matches!(dir.lock("LOCK").unwrap(), Locking::Acquired(_)));
    }

    #[test]
    fn a_lock_that_is_given_up_is_free_though_a_forked_process_has_the_file_open() {
        let (_temp, dir) = dir();
        let held = |process| OsLock { file: dir.open_or_create("LOCK").unwrap(), process };
        let ours = held(std::process::id());
        ours.file.try_lock().unwrap();
        // As after a fork: another descriptor of the same open file.
        let forked = ours.file.try_clone().unwrap();
        drop(ours);
        let taken = dir.lock("LOCK").unwrap();
        assert!(matches!(taken, Locking::Acquired(_)));
        drop((taken, forked));
        // A forked process that drops the inherited lock must not unlock it for the holder.
        let theirs = held(0);
        theirs.file.try_lock().unwrap();
        let kept = theirs.file.try_clone().unwrap();
        drop(theirs);
        assert!(matches!(dir.lock("LOCK").unwrap(), Locking::HeldBy(_)));
        drop(kept);
    }

    #[test]
    fn links_directories_and_existing_names_are_refused() {
        let (temp, dir) = dir();
        dir.open("f", Access::Create).unwrap();
        assert_eq!(dir.open("f", Access::Create).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        std::os::unix::fs::symlink(temp.path().join("f"), temp.path().join("l")).unwrap();
        assert!(dir.open("l", Access::Read).is_err());
        std::fs::create_dir(temp.path().join("d")).unwrap();
        assert!(dir.open("d", Access::Read).is_err());
        assert_eq!(dir.open("none", Access::Read).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_punched_range_reads_as_zeros_takes_no_space_and_can_be_written_again() {
        let (_temp, dir) = dir();
        let file = dir.open("f", Access::Create).unwrap();
        file.write_at(&[7; 1 << 20], 0).unwrap();
        file.sync().unwrap();
        let before = file.allocated_bytes().unwrap();
        if !file.punch(4096, 1 << 19).unwrap() {
            return; // a file system without holes
        }
        assert_eq!(file.len().unwrap(), 1 << 20);
        assert!(file.allocated_bytes().unwrap() <= before - (1 << 19));
        let mut page = [1; 4096];
        file.read_at(&mut page, 8192).unwrap();
        assert_eq!(page, [0; 4096]);
        file.read_at(&mut page, 0).unwrap();
        assert_eq!(page, [7; 4096]);
        file.write_at(&[9; 4096], 8192).unwrap();
        file.read_at(&mut page, 8192).unwrap();
        assert_eq!(page, [9; 4096]);
    }

    #[test]
    fn a_read_past_the_end_is_short_and_a_write_past_the_end_extends() {
        let (_temp, dir) = dir();
        let file = dir.open("f", Access::Create).unwrap();
        file.write_at(b"abc", 10).unwrap();
        assert_eq!(file.len().unwrap(), 13);
        let mut buf = [9; 8];
        assert_eq!(file.read_at(&mut buf, 9).unwrap(), 4);
        assert_eq!(&buf[..4], b"\0abc");
        assert_eq!(file.read_at(&mut buf, 100).unwrap(), 0);
    }
}
