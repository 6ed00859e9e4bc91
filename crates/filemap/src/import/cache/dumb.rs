//! Examines the part of a `dbm.dumb` values file (`.dat`) that its directory does not name.
//!
//! The directory is a separate file, which a crash can leave empty or cut short beside whole
//! values. A value begins at a block boundary and fills blocks. Scrapy never removes an entry: a
//! response that outgrows its blocks is written after all others and leaves the old one unnamed,
//! but a time always fits its block. So an unnamed time is a lost entry, and so is an unnamed
//! response after all named ones.
//!
//! Invariant: the file is read at most once, in pieces.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::dbm::DbmIndex;

const BLOCK_BYTES: u64 = 512;
/// Number of bytes read at once: whole blocks.
const PIECE_BYTES: usize = 128 << 9;

/// The part of the values file that no key names.
///
/// ```
/// use filemap::import::cache::{dumb_index, dumb_rest};
/// let mut values = vec![0; 512];
/// values.extend(b"1700000000.25");
/// let index = dumb_index(b"'0a_data', (0, 512)\n").unwrap();
/// let rest = dumb_rest(&index, &mut std::io::Cursor::new(values)).unwrap();
/// assert_eq!((rest.bytes, rest.times, rest.is_loss), (13, 1, true));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumbRest {
    /// Number of bytes in unnamed blocks.
    pub bytes: u64,
    /// Number of responses that begin in them.
    pub responses: u64,
    /// Number of times in them.
    pub times: u64,
    /// True if the directory lacks entries. Otherwise these are older responses of known entries.
    pub is_loss: bool,
}

/// Examines the parts of `values` that the directory does not name.
///
/// # Errors
///
/// Those of `values`.
pub fn dumb_rest(index: &DbmIndex, values: &mut (impl Read + Seek)) -> io::Result<DumbRest> {
    let length = values.seek(SeekFrom::End(0))?;
    let mut named: Vec<&Range<u64>> = index.named.iter().filter(|place| place.start < length).collect();
    named.sort_unstable_by_key(|place| place.start);
    let (mut rest, mut free_from) = (DumbRest::default(), 0);
    for place in named {
        rest.take(values, free_from..place.start)?;
        free_from = place.end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX).max(free_from);
    }
    let before = rest.responses;
    rest.take(values, free_from..length)?;
    let has_none = index.named.is_empty() && rest.bytes > 0;
    rest.is_loss = rest.times > 0 || rest.responses > before || has_none;
    Ok(rest)
}

impl DumbRest {
    /// Examines a part of the file that begins at a block boundary.
    fn take(&mut self, values: &mut (impl Read + Seek), part: Range<u64>) -> io::Result<()> {
        let mut left = part.end.saturating_sub(part.start);
        if left == 0 {
            return Ok(());
        }
        values.seek(SeekFrom::Start(part.start))?;
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        while left > 0 {
            piece.clear();
            let bytes = values.by_ref().take(left.min(PIECE_BYTES as u64)).read_to_end(&mut piece)? as u64;
            if bytes == 0 {
                break;
            }
            self.bytes += bytes;
            left -= bytes;
            for block in piece.chunks(BLOCK_BYTES as usize) {
                self.responses += u64::from(begins_response(block));
                self.times += u64::from(is_time(block));
            }
        }
        Ok(())
    }
}

/// Returns whether a pickled mapping begins here, of protocol 2 or 3, or in a frame of a later
/// one.
fn begins_response(block: &[u8]) -> bool {
    matches!(block, [0x80, 2 | 3, b'}', ..] | [0x80, 4 | 5, 0x95 | b'}', ..])
}

/// Returns whether a block holds only the text of a number of seconds.
fn is_time(block: &[u8]) -> bool {
    let text = &block[..block.iter().position(|byte| *byte == 0).unwrap_or(block.len())];
    let is_padded = block[text.len()..].iter().all(|byte| *byte == 0);
    let has_point = text.iter().filter(|byte| **byte == b'.').count() == 1;
    // The last byte of a pickle is a dot.
    let begins = text.first().is_some_and(u8::is_ascii_digit);
    is_padded && begins && has_point && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::dumb_index;
    use super::*;

    /// Blocks of a file of values: a response of two blocks, its time, an older response that was
    /// replaced, the newer one, its time.
    fn values() -> Vec<u8> {
        let mut out = Vec::new();
        for value in [&b"\x80\x04\x95a"[..], b"more", b"1.5", b"\x80\x04\x95b", b"\x80\x02}c", b"1700000000.25"] {
            out.resize(out.len().next_multiple_of(512), 0);
            out.extend(value);
        }
        out
    }

    fn rest(directory: &str) -> (u64, u64, u64, bool) {
        let index = dumb_index(directory.as_bytes()).expect("a directory");
        let rest = dumb_rest(&index, &mut Cursor::new(values())).expect("read");
        (rest.bytes, rest.responses, rest.times, rest.is_loss)
    }

    #[test]
    fn what_a_directory_lost_is_told_from_what_was_replaced() {
        let lines =
            ["'0a_data', (0, 516)\n", "'0a_time', (1024, 3)\n", "'0b_data', (2048, 4)\n", "'0b_time', (2560, 13)\n"];
        assert_eq!(rest(&lines.concat()), (512, 1, 0, false), "an older response");
        assert_eq!(rest(&lines[..3].concat()), (512 + 13, 1, 1, true), "a time");
        assert_eq!(rest(&lines[..2].concat()), (1024 + 13, 2, 1, true), "an entry");
        assert_eq!(rest(&[lines[0], lines[1], lines[3]].concat()), (1024, 2, 0, false), "as if it was replaced");
        assert_eq!(rest(""), (values().len() as u64, 3, 2, true), "all");
        assert_eq!(rest("'other', (0, 9999)\n"), (0, 0, 0, false), "foreign keys name something, too");
        assert_eq!(rest("'0a_data', (9223372036854775807, 0)\n'0b_data', (1, 9223372036854775000)\n").0, 1);
        let mut point = Cursor::new([vec![0; 512], b".".to_vec()].concat());
        let index = dumb_index(b"'0a_data', (0, 512)\n").expect("a directory");
        assert_eq!(dumb_rest(&index, &mut point).expect("read").times, 0, "the end of a response that was replaced");
        let none = dumb_rest(&DbmIndex::default(), &mut Cursor::new([])).expect("read");
        assert_eq!(none, DumbRest::default());
    }
}
