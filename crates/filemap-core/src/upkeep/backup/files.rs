//! File operations of a backup: open, compare, copy a range.

use std::io::ErrorKind;
use std::sync::Arc;

use filemap_io::{Access, Dir, File, files};

use crate::error::{Error, Result};
use crate::format::{all_zero, header, names};

/// Bytes copied at once.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes compared at the end of two files with equal header and length.
const LAST_BYTES: u64 = 4096;

pub(super) fn missing(name: &str) -> Error {
    Error::corrupt(name, 0, "the file is missing")
}

pub(super) fn open(dir: &dyn Dir, name: &str) -> Result<Arc<dyn File>> {
    dir.open(name, Access::Read).map_err(|e| match e.kind() {
        ErrorKind::NotFound => missing(name),
        _ => Error::io("open", name)(e),
    })
}

pub(super) fn length(file: &dyn File, name: &str) -> Result<u64> {
    file.len().map_err(Error::io("measure", name))
}

/// Returns true if two files that are no longer appended to are the same. The headers identify
/// store, segment and creation time; different appends to one file end in different records.
pub(super) fn is_same(name: &str, a: &dyn File, b: &dyn File) -> Result<bool> {
    let is_run = names::parse_key_run(name).is_some();
    let len = length(a, "a file of the store")?;
    if len != length(b, "a file of the backup")? {
        return Ok(false);
    }
    let last = len.saturating_sub(LAST_BYTES);
    // Two stores made from one backup number their runs alike, and the headers of runs do not tell
    // them apart.
    if is_run {
        return is_equal(a, b, len);
    }
    Ok(read(a, 0, header::BYTES)? == read(b, 0, header::BYTES)?
        && read(a, last, LAST_BYTES as usize)? == read(b, last, LAST_BYTES as usize)?)
}

/// Compares every byte.
fn is_equal(a: &dyn File, b: &dyn File, len: u64) -> Result<bool> {
    for at in (0..len).step_by(PIECE_BYTES) {
        if read(a, at, PIECE_BYTES)? != read(b, at, PIECE_BYTES)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads up to `bytes` of a file, fewer at its end.
pub(super) fn read(file: &dyn File, offset: u64, bytes: usize) -> Result<Vec<u8>> {
    Ok(files::read(file, "a file to compare", offset, bytes)?)
}

/// Copies a range of a file to the same place in another, and sets the other's length to the
/// range's end. Zeros become holes.
pub(super) fn copy_range(
    from: &dyn File,
    to: &dyn File,
    name: &str,
    range: std::ops::Range<u64>,
    tell: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = range.start;
    to.set_len(range.start).map_err(Error::io("truncate", name))?;
    while at < range.end {
        let want = (range.end - at).min(PIECE_BYTES as u64) as usize;
        let n = from.read_once_at(&mut piece[..want], at).map_err(Error::io("read", name))?;
        if n < want {
            return Err(Error::corrupt(name, at + n as u64, "the file is shorter than it was"));
        }
        if !all_zero(&piece[..n]) {
            to.write_at(&piece[..n], at).map_err(Error::io("write", name))?;
        }
        at += n as u64;
        tell(at)?;
    }
    to.set_len(range.end).map_err(Error::io("extend", name))
}
