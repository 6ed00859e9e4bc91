//! What the frontier does with files whatever they hold: the lock, a whole file replaced at once, the latch after a failure.
//!
//! Invariants: a file replaced by [`replace`] is the old one or the new one after any crash; nothing is written after [`Poison`] is set.

use std::io;
use std::sync::{Arc, OnceLock};

use filemap_io::{Access, Dir, File, Lock, Locking};

use crate::error::{Error, Result};
use crate::failpoint::{Mistake, planted};

/// The latch after the first failed write or sync: the frontier takes nothing more from then on.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    cause: OnceLock<String>,
}

impl Poison {
    /// # Errors
    /// `Poisoned` once something has failed.
    pub(crate) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Remembers a failure, if there is one and it is the first.
    ///
    /// # Errors
    /// What was given.
    pub(crate) fn note<T>(&self, done: Result<T>) -> Result<T> {
        done.inspect_err(|error| {
            let _ = self.cause.set(error.to_string());
        })
    }
}

/// The lock that keeps a second handle out.
///
/// # Errors
/// `Locked` if another handle has it.
pub(crate) fn lock(dir: &dyn Dir, name: &str) -> Result<Box<dyn Lock>> {
    match dir.lock(name).map_err(Error::io("lock", name))? {
        Locking::Acquired(lock) => Ok(lock),
        Locking::HeldBy(pid) => Err(Error::Locked { file: name.to_owned(), pid }),
    }
}

/// Writes a whole file and gives it its name when it is durable. Until then it is `NAME.new`; what a crash left under that name is removed.
///
/// # Errors
/// `Io`, of the call that failed: the old file is still there then.
pub(crate) fn replace(dir: &dyn Dir, name: &str, write: impl FnOnce(&dyn File, &str) -> Result<()>) -> Result<()> {
    remove_unfinished(dir, name)?;
    let new = unfinished(name);
    let file = dir.open(&new, Access::Create).map_err(Error::io("create", &new))?;
    write(&*file, &new)?;
    if !planted(Mistake::SnapshotNotSynced) {
        file.sync().map_err(Error::io("sync", &new))?;
    }
    dir.rename(&new, name).map_err(Error::io("rename", &new))?;
    dir.sync().map_err(Error::io("sync of the directory", name))
}

/// Removes what a crash left of the file being replaced.
///
/// # Errors
/// `Io`.
pub(crate) fn remove_unfinished(dir: &dyn Dir, name: &str) -> Result<()> {
    remove(dir, &unfinished(name))
}

fn unfinished(name: &str) -> String {
    format!("{name}.new")
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

/// Removes all journals and files of links but those that are named.
///
/// # Errors
/// `Io`.
pub(crate) fn remove_others(dir: &dyn Dir, kept: &[Option<&str>]) -> Result<()> {
    for name in dir.list().map_err(Error::io("list", "the directory"))? {
        if (is_numbered(&name, "journal") || is_numbered(&name, "links")) && !kept.contains(&Some(&name[..])) {
            remove(dir, &name)?;
        }
    }
    Ok(())
}

/// Whether a file's name is `frontier.N.kind`.
fn is_numbered(file: &str, kind: &str) -> bool {
    let number = file.strip_prefix("frontier.").and_then(|rest| rest.strip_suffix(kind)?.strip_suffix('.'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Fills `buf` from `offset`.
///
/// # Errors
/// `Corrupt` if the file ends before; `Io`.
pub(crate) fn read_exact(file: &dyn File, name: &str, buf: &mut [u8], offset: u64) -> Result<()> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(&mut buf[filled..], offset + filled as u64).map_err(Error::io("read", name))? {
            0 => {
                let what = format!("the file ends {} bytes too early", buf.len() - filled);
                return Err(Error::corrupt(name, offset + filled as u64, what));
            }
            read => filled += read,
        }
    }
    Ok(())
}

/// Sixteen random bytes: which frontier a file belongs to.
///
/// # Errors
/// `Io`.
pub(crate) fn new_id(dir: &dyn Dir) -> Result<[u8; 16]> {
    let mut id = [0; 16];
    dir.random(&mut id).map_err(Error::io("random bytes", "the system"))?;
    Ok(id)
}

/// `N` bytes at `offset`, which lie within `bytes`.
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}

/// Bytes of a header, whatever the file.
pub(crate) const HEADER_BYTES: usize = 512;
const VERSION: u16 = 1;

/// The header of a file: magic, versions, the frontier's id, a number, zeros, and a CRC-32 of all before it.
pub(crate) fn header(magic: [u8; 8], id: &[u8; 16], number: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&magic);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..32].copy_from_slice(id);
    bytes[32..40].copy_from_slice(&number.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A new file with its header, durable but for its name; one of that name is removed.
///
/// # Errors
/// `Io`.
pub(crate) fn create(dir: &dyn Dir, name: &str, magic: [u8; 8], id: &[u8; 16], number: u64) -> Result<Arc<dyn File>> {
    remove(dir, name)?;
    let file = dir.open(name, Access::Create).map_err(Error::io("create", name))?;
    file.write_at(&header(magic, id, number), 0).map_err(Error::io("write", name))?;
    file.sync().map_err(Error::io("sync", name))?;
    Ok(file)
}

/// The id and the number in a file's header.
///
/// # Errors
/// `Corrupt`, `NewerFormat`, `Io`.
pub(crate) fn read_header(file: &dyn File, name: &str, magic: [u8; 8]) -> Result<([u8; 16], u64)> {
    let mut bytes = [0; HEADER_BYTES];
    read_exact(file, name, &mut bytes, 0)?;
    if bytes[..8] != magic {
        return Err(Error::corrupt(name, 0, "this is no such file of a frontier"));
    }
    let crc = crc32fast::hash(&bytes[..HEADER_BYTES - 4]);
    let found = u16::from_le_bytes(array(&bytes, 8));
    // A flipped bit of the version is damage.
    if found > VERSION && u32::from_le_bytes(array(&bytes, HEADER_BYTES - 4)) == crc {
        return Err(Error::NewerFormat { file: name.to_owned(), found, supported: VERSION });
    }
    let (id, number) = (array(&bytes, 16), u64::from_le_bytes(array(&bytes, 32)));
    if bytes != header(magic, &id, number) {
        return Err(Error::corrupt(name, 8, "the header's checksum is another"));
    }
    Ok((id, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_files_are_known_by_their_names() {
        assert!(is_numbered("frontier.1.links", "links") && is_numbered("frontier.120.journal", "journal"));
        let others = ["frontier..links", "frontier.links", "frontier.1.journal", "frontier.x.links", "other.1.links"];
        assert!(others.iter().all(|name| !is_numbered(name, "links")));
    }
}
