//! What a backup does with one file: opens it, compares it with another, copies a part of it.

use std::io::ErrorKind;
use std::sync::Arc;

use filemap_io::{Access, Dir, File};

use crate::error::{Error, Result};
use crate::format::{all_zero, header};

/// So much is copied at once.
const PIECE_BYTES: usize = 1 << 20;
/// A file is told from another of the same header and length by so many of its last bytes.
const LAST_BYTES: u64 = 4096;

pub(super) fn missing(name: &str) -> Error {
    Error::corrupt(name, 0, "the file is missing")
}

pub(super) fn open(dir: &dyn Dir, name: &str) -> Result<Arc<dyn File>> {
    dir.open(name, Access::Read).map_err(|e| match e.kind() {
        ErrorKind::NotFound => missing(name),
        _ => Error::io("open", name, e),
    })
}

pub(super) fn length(file: &dyn File, name: &str) -> Result<u64> {
    file.len().map_err(|e| Error::io("measure", name, e))
}

/// Whether two files that nothing is appended to are the same: their headers say whose they are and when they were begun, and
/// what was appended to one only ends in other records.
pub(super) fn is_same(a: &dyn File, b: &dyn File) -> Result<bool> {
    let len = length(a, "a file of the store")?;
    if len != length(b, "a file of the backup")? {
        return Ok(false);
    }
    let last = len.saturating_sub(LAST_BYTES);
    Ok(read(a, 0, header::BYTES)? == read(b, 0, header::BYTES)?
        && read(a, last, LAST_BYTES as usize)? == read(b, last, LAST_BYTES as usize)?)
}

/// Some bytes of a file, fewer where it ends.
pub(super) fn read(file: &dyn File, offset: u64, bytes: usize) -> Result<Vec<u8>> {
    let mut b = vec![0; bytes];
    let n = file.read_at(&mut b, offset).map_err(|e| Error::io("read", "a file to compare", e))?;
    b.truncate(n);
    Ok(b)
}

/// Copies a range of a file to the same place in another, which is as long as the range's end then. Zeros take no space.
pub(super) fn copy_range(
    from: &dyn File,
    to: &dyn File,
    name: &str,
    range: std::ops::Range<u64>,
    tell: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = range.start;
    to.set_len(range.start).map_err(|e| Error::io("truncate", name, e))?;
    while at < range.end {
        let want = (range.end - at).min(PIECE_BYTES as u64) as usize;
        let n = from.read_once_at(&mut piece[..want], at).map_err(|e| Error::io("read", name, e))?;
        if n < want {
            return Err(Error::corrupt(name, at + n as u64, "the file is shorter than it was"));
        }
        if !all_zero(&piece[..n]) {
            to.write_at(&piece[..n], at).map_err(|e| Error::io("write", name, e))?;
        }
        at += n as u64;
        tell(at)?;
    }
    to.set_len(range.end).map_err(|e| Error::io("extend", name, e))
}
