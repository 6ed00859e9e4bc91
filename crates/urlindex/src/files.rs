//! What the sets do with files alike: locks, whole files replaced at once, headers read, and the latch after a failure.
//!
//! Invariants: a file replaced by [`replace`] is the old one or the new one after any crash; no set writes anything
//! after its [`Poison`] is set.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use filemap_io::{Access, Dir, File, Lock, Locking};

use crate::error::{Error, Result};

/// Takes a lock. A thread that panicked while holding it was our bug, and has been reported as such.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The latch after the first failed write or sync: the set takes no more URLs from then on.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    cause: OnceLock<String>,
}

impl Poison {
    /// # Errors
    /// `Poisoned` once something has failed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Does what may fail, and remembers the first failure.
    ///
    /// # Errors
    /// `Poisoned`, or what `work` returns.
    pub(crate) fn guard<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        work().inspect_err(|error| {
            let _ = self.cause.set(error.to_string());
        })
    }
}

/// The writer's lock of the set `name`.
///
/// # Errors
/// `Locked` if another handle has it.
pub(crate) fn lock(dir: &dyn Dir, name: &str) -> Result<Box<dyn Lock>> {
    let file = format!("{name}.lock");
    match dir.lock(&file).map_err(Error::io("lock", &file))? {
        Locking::Acquired(lock) => Ok(lock),
        Locking::HeldBy(pid) => Err(Error::Locked { file: name.to_owned(), pid }),
    }
}

/// Writes a whole file and gives it its name when it is durable. Until then it is `NAME.DIGITS.new`, of 32 random hexadecimal digits: a name
/// that nobody else's file has. What a crash left under such names is removed.
///
/// # Errors
/// `Io`, of the call that failed: the old file is still there then.
pub(crate) fn replace(dir: &dyn Dir, name: &str, write: impl FnOnce(&dyn File, &str) -> Result<()>) -> Result<()> {
    remove_unfinished(dir, name);
    let new = format!("{name}.{:032x}.new", u128::from_be_bytes(new_id(dir)?));
    let file = dir.open(&new, Access::Create).map_err(Error::io("create", &new))?;
    let replaced = write(&*file, &new).and_then(|()| {
        file.sync().map_err(Error::io("sync", &new))?;
        dir.rename(&new, name).map_err(Error::io("rename", &new))
    });
    if replaced.is_err() {
        let _ = dir.remove(&new);
    }
    replaced?;
    dir.sync().map_err(Error::io("sync of the directory", name))
}

/// Removes what a crash left of the file `name` being replaced, if it can: the next one tries again.
fn remove_unfinished(dir: &dyn Dir, name: &str) {
    for file in dir.list().unwrap_or_default() {
        let digits = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".new"));
        if digits
            .is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
        {
            let _ = dir.remove(&file);
        }
    }
}

/// Refuses a file that the disk has no room for, before anything is written or the memory for it is taken.
///
/// # Errors
/// `Io`, of the kind [`io::ErrorKind::StorageFull`].
pub(crate) fn check_space(dir: &dyn Dir, name: &str, bytes: u64) -> Result<()> {
    let free = dir.free_bytes().map_err(Error::io("free space", name))?;
    if free >= bytes {
        return Ok(());
    }
    let why = format!("it would take {bytes} bytes, {free} are free");
    Err(Error::io("create", name)(io::Error::new(io::ErrorKind::StorageFull, why)))
}

/// Removes a file that may not be there.
///
/// # Errors
/// `Io`.
pub(crate) fn remove(dir: &dyn Dir, name: &str) -> Result<()> {
    match dir.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", name)(error)),
        _ => Ok(()),
    }
}

/// Whether there is a file of this name.
///
/// # Errors
/// `Io`.
pub(crate) fn exists(dir: &dyn Dir, name: &str) -> Result<bool> {
    match dir.open(name, Access::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("open", name)(error)),
    }
}

/// Fills `buf` from `offset`.
///
/// # Errors
/// `Corrupt` if the file ends before; `Io`.
pub(crate) fn read_exact(file: &dyn File, name: &str, buf: &mut [u8], offset: u64) -> Result<()> {
    let read = file.read_at(buf, offset).map_err(Error::io("read", name))?;
    if read < buf.len() {
        let what = format!("the file ends {} bytes too early", buf.len() - read);
        return Err(Error::corrupt(name, offset + read as u64, what));
    }
    Ok(())
}

/// Refuses a file of a newer format. Call it once the checksum over the version is known to be right: a flipped bit of the version is
/// damage. Magic (bytes 0 to 7), version (8, 9) and the header's checksum keep their places in all versions.
///
/// # Errors
/// `NewerFormat`.
pub(crate) fn check_version(name: &str, header: &[u8], supported: u16) -> Result<()> {
    let found = u16::from_le_bytes(array(header, 8));
    if found > supported {
        return Err(Error::NewerFormat { file: name.to_owned(), found, supported });
    }
    Ok(())
}

/// Sixteen random bytes: which set a file belongs to.
///
/// # Errors
/// `Io`.
pub(crate) fn new_id(dir: &dyn Dir) -> Result<[u8; 16]> {
    let mut id = [0; 16];
    dir.random(&mut id).map_err(Error::io("random bytes", "the system"))?;
    Ok(id)
}

/// A random number that is not 0.
///
/// # Errors
/// `Io`.
pub(crate) fn new_number(dir: &dyn Dir) -> Result<u64> {
    Ok(u64::from_le_bytes(array(&new_id(dir)?, 0)).max(1))
}

/// `N` bytes at `offset`, which lie within `bytes`.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use filemap_io::sim::{Level, Loss, SimDisk};
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_file_that_is_replaced_is_the_old_or_the_new_one_after_any_crash() {
        let disk = SimDisk::new(1);
        let dir = disk.dir();
        let put = |bytes: &[u8]| {
            replace(&*dir, "f", |file, name| file.write_at(bytes, 0).map_err(Error::io("write", name)))
                .expect("written")
        };
        put(&[1; 3000]);
        let found = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&found);
        disk.observe(Some(Box::new(move |snapshot| {
            for seed in 0..50 {
                let crashed = snapshot.crash(Level::Adversarial, Loss::ALL[seed as usize % 4], seed);
                seen.lock().unwrap().push(crashed.bytes("f"));
            }
        })));
        put(&[2; 2000]);
        disk.observe(None);
        let found = found.lock().unwrap();
        assert!(found.iter().all(|f| f.as_deref() == Some(&[1; 3000]) || f.as_deref() == Some(&[2; 2000])));
        assert!(found.iter().any(|f| f.as_deref() == Some(&[2; 2000])));
    }

    /// What `fm-tool seen add links --new-only < list > links.new` writes must not be taken for what a crash left.
    #[test]
    fn only_what_was_left_of_replacing_that_file_is_removed() {
        let disk = SimDisk::new(1);
        let left = format!("f.{:032x}.new", 7);
        let others =
            [format!("g.{:032x}.new", 7), format!("f.{:032X}.new", 255), "f.new".to_owned(), "f.7.new".to_owned()];
        others.iter().chain([&left]).for_each(|name| disk.set_bytes(name, b"links"));
        let put = |file: &dyn File, name: &str| file.write_at(b"set", 0).map_err(Error::io("write", name));
        replace(&*disk.dir(), "f", put).expect("written");
        assert!(others.iter().all(|name| disk.bytes(name).as_deref() == Some(b"links")) && disk.bytes(&left).is_none());
        assert_eq!(disk.bytes("f").as_deref(), Some(&b"set"[..]));
        let failed = replace(&*disk.dir(), "f", |_, name| Err(Error::corrupt(name, 0, "x")));
        assert!(failed.is_err() && disk.names().len() == others.len() + 1, "{:?}", disk.names());
    }

    #[test]
    fn a_file_that_the_disk_has_no_room_for_is_refused() {
        let dir = SimDisk::new(1).dir();
        let full = check_space(&*dir, "f", u64::MAX);
        assert!(matches!(full, Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::StorageFull));
        assert!(check_space(&*dir, "f", 1 << 40).is_ok());
    }

    #[test]
    fn after_a_failure_nothing_more_is_done() {
        let poison = Poison::default();
        assert!(poison.guard(|| Ok(1)).is_ok());
        let failed: Result<()> = poison.guard(|| Err(Error::corrupt("f", 1, "x")));
        assert!(matches!(failed, Err(Error::Corrupt { .. })));
        let later: Result<()> = poison.guard(|| unreachable!("the latch is set"));
        assert!(matches!(later, Err(Error::Poisoned { cause }) if cause.contains('x')));
    }
}
