//! The dictionaries of a store under repair: copied, and restored if one of a file's two copies is
//! intact.
//!
//! Invariant: every file with a dictionary's name in a repaired store is usable. An unusable one
//! is set aside in place, and not copied elsewhere. If its file is restored later, it is found
//! again, since its id is not reused.

use filemap_io::{Access, Dir, files};

use crate::error::{Error, Result};
use crate::files::check_versions;
use crate::format::dictionary::{self, CONTENT_AT, LONGEST_FILE};
use crate::format::{Flaw, names};

/// Copies a dictionary's file to `to`, or restores it in place. Returns true if it is intact
/// there.
///
/// # Errors
/// `NewerFormat`; `Io`. In a copy, unreadable bytes count as damage.
pub(crate) fn carry(from: &dyn Dir, to: Option<&dyn Dir>, id: u32, store_id: &[u8; 16]) -> Result<bool> {
    let name = names::dictionary(id);
    let found = read(from, &name, to.is_none())?;
    let (first, second) = found.split_at(found.len() / 2);
    // The first copy states its length, even if the file's end is lost.
    let whole = match judge(&name, id, store_id, &found)? {
        Some(whole) => Some(whole),
        None => judge(&name, id, store_id, second)?,
    };
    let Some(copy) = whole else {
        if to.is_none() {
            set_aside(from, &name)?;
        }
        return Ok(false);
    };
    if to.is_some() || first != copy || second != copy {
        write(to.unwrap_or(from), id, &copy.repeat(2))?;
    }
    Ok(true)
}

/// Renames a file that is not a dictionary, durably.
fn set_aside(dir: &dyn Dir, name: &str) -> Result<()> {
    let listed = dir.list().map_err(Error::io("list", dir.path().display()))?;
    dir.rename(name, &names::next_set_aside(name, &listed)).map_err(Error::io("rename", name))?;
    Ok(files::sync_folder(dir)?)
}

/// Returns the copy at the front of `bytes`, if it is intact.
fn judge<'b>(name: &str, id: u32, store_id: &[u8; 16], bytes: &'b [u8]) -> Result<Option<&'b [u8]>> {
    let whole = || -> std::result::Result<_, Flaw> {
        let (header, facts) = dictionary::decode_facts(&bytes[..bytes.len().min(CONTENT_AT)], store_id)?;
        let copy = bytes.get(..facts.copy_bytes()).ok_or("shorter than its content")?;
        dictionary::decode_content(&facts, copy)?;
        Ok((header, facts, copy))
    };
    let Ok((header, facts, copy)) = whole() else { return Ok(None) };
    check_versions(name, header.read_version, header.write_version, Access::Write)?;
    Ok((facts.id == id).then_some(copy))
}

/// Reads a whole file. Unreadable bytes become zeros, or an error if `is_strict`.
fn read(dir: &dyn Dir, name: &str, is_strict: bool) -> Result<Vec<u8>> {
    let file = match dir.open(name, Access::Read) {
        Err(_) if !is_strict => return Ok(Vec::new()),
        opened => opened.map_err(Error::io("open", name))?,
    };
    let len = file.len().map_err(Error::io("measure", name))?.min(LONGEST_FILE) as usize;
    let mut bytes = vec![0; len];
    let (first, second) = bytes.split_at_mut(len / 2);
    for (part, offset) in [(first, 0), (second, len / 2)] {
        match file.read_at(part, offset as u64) {
            Err(e) if is_strict => return Err(Error::io("read", name)(e)),
            Err(_) => part.fill(0),
            Ok(_) => {}
        }
    }
    Ok(bytes)
}

/// Writes a dictionary's file, replacing any other, durably.
fn write(dir: &dyn Dir, id: u32, bytes: &[u8]) -> Result<()> {
    let (new, name) = (names::new_dictionary(id), names::dictionary(id));
    files::remove(dir, &new)?;
    files::replace(dir, &name, &new, |file| Ok(files::write(file, &new, bytes, 0)?))
}
