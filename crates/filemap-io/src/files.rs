//! Shared file operations: lock, atomic replace, remove, copy, exact reads, random ids.
//!
//! Invariant: after a crash a file replaced by [`replace`] is the old one or the new one.

use std::io;
use std::sync::Arc;

use crate::{Access, Dir, File, Lock, Locking, StorageError};

/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Takes the lock file `name`; messages call the locked thing `of`.
///
/// # Errors
/// [`StorageError::Locked`] if another handle holds it.
pub fn lock(dir: &dyn Dir, name: &str, of: &str) -> Result<Box<dyn Lock>, StorageError> {
    match dir.lock(name).map_err(StorageError::io("lock", name))? {
        Locking::Acquired(lock) => Ok(lock),
        Locking::HeldBy(pid) => Err(StorageError::Locked { file: of.to_owned(), pid }),
    }
}

/// A new file that will replace another atomically: [`Replacement::begin`], write,
/// [`Replacement::sync`], [`Replacement::commit`]. Dropped before the rename, the new file is
/// removed.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// use filemap_io::{Dir, OsDir, files::Replacement};
/// let dir = OsDir::open(temp.path())?;
/// let new = Replacement::begin(&dir, "f", "f.new")?;
/// new.file().write_at(b"bytes", 0)?;
/// new.sync()?;
/// new.commit()?;
/// assert_eq!(dir.list()?, ["f"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replacement<'a> {
    dir: &'a dyn Dir,
    name: &'a str,
    new: &'a str,
    file: Arc<dyn File>,
    is_named: bool,
}

impl<'a> Replacement<'a> {
    /// Creates the file `new`, which must not exist.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn begin(dir: &'a dyn Dir, name: &'a str, new: &'a str) -> Result<Self, StorageError> {
        let file = dir.open(new, Access::Create).map_err(StorageError::io("create", new))?;
        Ok(Replacement { dir, name, new, file, is_named: false })
    }

    /// The new file, for writing.
    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    /// Makes the written bytes durable.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn sync(&self) -> Result<(), StorageError> {
        self.file.sync().map_err(StorageError::io("sync", self.new))
    }

    /// Renames the new file over the old one, durably.
    ///
    /// # Errors
    /// [`StorageError::Io`]: if the rename failed, the old file is in place; if the directory's
    /// sync failed, a crash may leave either.
    pub fn commit(self) -> Result<(), StorageError> {
        let dir = self.dir;
        self.rename()?;
        sync_folder(dir)
    }

    /// Renames the new file over the old one; durable after [`sync_folder`].
    ///
    /// # Errors
    /// [`StorageError::Io`]; the old file is in place.
    pub fn rename(mut self) -> Result<(), StorageError> {
        self.dir.rename(self.new, self.name).map_err(StorageError::io("rename", self.new))?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            // If it cannot be removed now, the next replacement removes it.
            let _ = self.dir.remove(self.new);
        }
    }
}

/// Replaces the file `name`: writes `new`, syncs it and renames it.
///
/// # Errors
/// That of `write`; [`StorageError::Io`]. The old file is then in place, unless only the last sync
/// failed.
pub fn replace<E: From<StorageError>>(
    dir: &dyn Dir,
    name: &str,
    new: &str,
    write: impl FnOnce(&dyn File) -> Result<(), E>,
) -> Result<(), E> {
    let replacement = Replacement::begin(dir, name, new)?;
    write(replacement.file())?;
    replacement.sync()?;
    Ok(replacement.commit()?)
}

/// Removes a file, if it exists.
///
/// # Errors
/// [`StorageError::Io`].
pub fn remove(dir: &dyn Dir, name: &str) -> Result<(), StorageError> {
    match dir.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StorageError::io("remove", name)(error)),
        _ => Ok(()),
    }
}

/// Returns whether a file of this name exists.
///
/// # Errors
/// [`StorageError::Io`].
pub fn exists(dir: &dyn Dir, name: &str) -> Result<bool, StorageError> {
    match dir.open(name, Access::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StorageError::io("open", name)(error)),
    }
}

/// Makes the names in a directory durable.
///
/// # Errors
/// [`StorageError::Io`].
pub fn sync_folder(dir: &dyn Dir) -> Result<(), StorageError> {
    dir.sync().map_err(StorageError::io("sync", &dir.path().display().to_string()))
}

/// Creates a file, which must not exist, and syncs its bytes but not its name.
///
/// # Errors
/// [`StorageError::Io`].
pub fn create(dir: &dyn Dir, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
    let file = dir.open(name, Access::Create).map_err(StorageError::io("create", name))?;
    write(&*file, name, bytes, 0)?;
    file.sync().map_err(StorageError::io("sync", name))
}

/// Copies a file byte for byte to another name or directory, which must be free, and syncs the
/// copy but not its name.
///
/// # Errors
/// [`StorageError::Io`].
pub fn copy(from: &dyn Dir, name: &str, to: &dyn Dir, as_name: &str) -> Result<(), StorageError> {
    let source = from.open(name, Access::Read).map_err(StorageError::io("open", name))?;
    let copy = to.open(as_name, Access::Create).map_err(StorageError::io("create", as_name))?;
    let (mut buffer, mut at) = (vec![0; COPY_BYTES], 0);
    loop {
        let n = source.read_once_at(&mut buffer, at).map_err(StorageError::io("read", name))?;
        if n == 0 {
            return copy.sync().map_err(StorageError::io("sync", as_name));
        }
        copy.write_at(&buffer[..n], at).map_err(StorageError::io("write", as_name))?;
        at += n as u64;
    }
}

/// Reads up to `bytes` bytes at `offset`; fewer at the end of the file.
///
/// # Errors
/// [`StorageError::Io`].
pub fn read(file: &dyn File, name: &str, offset: u64, bytes: usize) -> Result<Vec<u8>, StorageError> {
    let mut read = vec![0; bytes];
    let there = file.read_at(&mut read, offset).map_err(StorageError::io("read", name))?;
    read.truncate(there);
    Ok(read)
}

/// Reads at `offset` until `buf` is full.
///
/// # Errors
/// [`StorageError::Corrupt`] if the file is too short; [`StorageError::Io`].
pub fn read_exact(file: &dyn File, name: &str, buf: &mut [u8], offset: u64) -> Result<(), StorageError> {
    let read = file.read_at(buf, offset).map_err(StorageError::io("read", name))?;
    if read < buf.len() {
        let what = format!("the file ends {} bytes too early", buf.len() - read);
        return Err(StorageError::corrupt(name, offset + read as u64, what));
    }
    Ok(())
}

/// Writes `bytes` at `offset`.
///
/// # Errors
/// [`StorageError::Io`].
pub fn write(file: &dyn File, name: &str, bytes: &[u8], offset: u64) -> Result<(), StorageError> {
    file.write_at(bytes, offset).map_err(StorageError::io("write", name))
}

/// Refuses a file that does not fit the free space of the disk, before anything is written or
/// memory for it is allocated.
///
/// # Errors
/// [`StorageError::Io`], of the kind [`io::ErrorKind::StorageFull`].
pub fn check_space(dir: &dyn Dir, name: &str, bytes: u64) -> Result<(), StorageError> {
    let free = dir.free_bytes().map_err(StorageError::io("free space", name))?;
    if free >= bytes {
        return Ok(());
    }
    let why = format!("it would take {bytes} bytes, {free} are free");
    Err(StorageError::io("create", name)(io::Error::new(io::ErrorKind::StorageFull, why)))
}

/// Sixteen random bytes: the id of the store, set or frontier that a file belongs to.
///
/// # Errors
/// [`StorageError::Io`].
pub fn new_id(dir: &dyn Dir) -> Result<[u8; 16], StorageError> {
    random(dir)
}

/// Unpredictable random bytes.
///
/// # Errors
/// [`StorageError::Io`].
pub fn random<const BYTES: usize>(dir: &dyn Dir) -> Result<[u8; BYTES], StorageError> {
    let mut bytes = [0; BYTES];
    dir.random(&mut bytes).map_err(StorageError::io("random bytes", "the system"))?;
    Ok(bytes)
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sim::{Level, Loss, SimDisk};

    fn put(dir: &dyn Dir, bytes: &[u8]) -> Result<(), StorageError> {
        replace(dir, "f", "f.new", |file| write(file, "f.new", bytes, 0))
    }

    #[test]
    fn a_file_that_is_replaced_is_the_old_or_the_new_one_after_any_crash() {
        let disk = SimDisk::new(1);
        put(&*disk.dir(), &[1; 3000]).expect("written");
        let found = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&found);
        disk.observe(Some(Box::new(move |snapshot| {
            for seed in 0..50 {
                let crashed = snapshot.crash(Level::Adversarial, Loss::ALL[seed as usize % 4], seed);
                seen.lock().unwrap().push(crashed.bytes("f"));
            }
        })));
        put(&*disk.dir(), &[2; 2000]).expect("written");
        disk.observe(None);
        let found = found.lock().unwrap();
        assert!(found.iter().all(|f| f.as_deref() == Some(&[1; 3000]) || f.as_deref() == Some(&[2; 2000])));
        assert!(found.iter().any(|f| f.as_deref() == Some(&[2; 2000])));
    }

    #[test]
    fn a_replacement_that_fails_leaves_the_old_file_alone() {
        let disk = SimDisk::new(1);
        put(&*disk.dir(), b"old").expect("written");
        let failed = replace(&*disk.dir(), "f", "f.new", |_| Err(StorageError::corrupt("f", 0, "x")));
        assert!(failed.is_err() && disk.names() == ["f"] && disk.bytes("f").as_deref() == Some(&b"old"[..]));
    }

    #[test]
    fn a_file_that_the_disk_has_no_room_for_is_refused() {
        let dir = SimDisk::new(1).dir();
        let full = check_space(&*dir, "f", u64::MAX);
        assert!(matches!(full, Err(StorageError::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull));
        assert!(check_space(&*dir, "f", 1 << 40).is_ok());
    }
}
