//! Searches for the beginning of a record, in garbage and inside a block.

use std::io::Read;

use memchr::memmem;

use crate::error::{Error, Result};
use crate::spool::Payload;
use crate::warc::arc;
use crate::warc::header::{RECORD_MAGIC, VERSION_LINE_BYTES, record_begins};

/// Offset of the first record in these bytes; in an ARC file, a record of either kind.
pub(super) fn find_start(bytes: &[u8], is_arc: bool) -> Option<usize> {
    let warc = memmem::find_iter(bytes, RECORD_MAGIC).find(|&at| record_begins(&bytes[at..]));
    let arc = if is_arc { arc::find(&bytes[..warc.unwrap_or(bytes.len())]) } else { None };
    arc.or(warc)
}

/// Number of bytes at the end that may be the start of a record.
pub(super) fn kept(bytes: &[u8], is_arc: bool) -> usize {
    let line = memchr::memrchr(b'\n', bytes).map_or(0, |end| bytes.len() - end - 1);
    let kept = if is_arc { line.max(VERSION_LINE_BYTES) } else { VERSION_LINE_BYTES };
    kept.min(bytes.len())
}

/// Offset of the first record inside a block.
pub(super) fn find_record(block: &mut Payload, is_arc: bool) -> Result<Option<u64>> {
    let step = if is_arc { arc::LINE_BYTES as u64 } else { 64 << 10 };
    let mut window: Vec<u8> = Vec::new();
    let mut base = 0;
    let bytes = block.len();
    let mut reader = block.reader()?;
    loop {
        let before = window.len();
        let read = Read::by_ref(&mut reader).take(step).read_to_end(&mut window);
        read.map_err(|source| Error::Read { what: "a block set aside".to_owned(), offset: base, source })?;
        if window.len() == before {
            return Ok(None);
        }
        if let Some(at) = find_start(&window, is_arc) {
            return Ok(Some(base + at as u64).filter(|&at| at < bytes));
        }
        let keep = kept(&window, is_arc).min(arc::LINE_BYTES);
        base += (window.len() - keep) as u64;
        window.drain(..window.len() - keep);
    }
}
