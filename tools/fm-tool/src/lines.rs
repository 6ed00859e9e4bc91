//! Lines of any input, in blocks: for verbs that are given millions of them and look at each for less than a microsecond.
//!
//! Invariants: what was read is given out before more is waited for, so that whoever writes a line and waits for the answer gets it; memory is
//! bounded whatever comes; of input that was interrupted the last line is not taken for a whole one.

use std::io::{self, Read};

use crate::interrupt;

/// The longest line that can be a URL of a seen set. Of a longer one only the beginning is kept.
pub const LINE_BYTES_MAX: usize = u16::MAX as usize;

const BLOCK_BYTES: usize = 256 << 10;
const _: () = assert!(BLOCK_BYTES > LINE_BYTES_MAX + 1);

/// The blocks of an input.
pub struct Blocks<R> {
    input: R,
    buffer: Vec<u8>,
    /// What was given out last, and is to be overwritten.
    given: usize,
    filled: usize,
    /// Whether the rest of a line that is too long is passed over.
    is_skipping: bool,
    is_over: bool,
}

impl<R: Read> Blocks<R> {
    /// Of this input.
    pub fn new(input: R) -> Self {
        Self { input, buffer: vec![0; BLOCK_BYTES], given: 0, filled: 0, is_skipping: false, is_over: false }
    }

    /// Some whole lines, with their ends; `None` at the end of the input. A line that is longer than [`LINE_BYTES_MAX`] may come as one of
    /// which more than that is left.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.copy_within(self.given..self.filled, 0);
        (self.filled, self.given) = (self.filled - self.given, 0);
        while !self.is_over {
            let read = match self.input.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                self.is_over = true;
                if interrupt::asked() {
                    break;
                }
                return Ok((self.filled > 0).then(|| &self.buffer[..self.filled]));
            }
            let is_new = self.filled;
            self.filled += read;
            let Some(end) = self.last_end(is_new) else { continue };
            self.given = end;
            return Ok(Some(&self.buffer[..end]));
        }
        Ok(None)
    }

    /// Where the whole lines end, if there are any; what is new begins at `is_new`.
    fn last_end(&mut self, is_new: usize) -> Option<usize> {
        if self.is_skipping {
            let end = memchr::memchr(b'\n', &self.buffer[..self.filled]);
            let Some(end) = end else {
                self.filled = 0;
                return None;
            };
            self.is_skipping = false;
            self.buffer.copy_within(end + 1..self.filled, 0);
            self.filled -= end + 1;
            return memchr::memrchr(b'\n', &self.buffer[..self.filled]).map(|at| at + 1);
        }
        if let Some(at) = memchr::memrchr(b'\n', &self.buffer[is_new..self.filled]) {
            return Some(is_new + at + 1);
        }
        if self.filled > LINE_BYTES_MAX {
            self.is_skipping = true;
            self.filled = LINE_BYTES_MAX + 1;
            return Some(self.filled);
        }
        None
    }
}

/// The lines of a block, without their ends: `\n` or `\r\n`.
pub fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = block.get(at..).filter(|rest| !rest.is_empty())?;
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        at += line.len() + 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives `step` bytes a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn read(text: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut blocks = Blocks::new(Slow(text, step));
        let mut all = Vec::new();
        while let Some(block) = blocks.next().unwrap() {
            all.extend(lines(block).map(<[u8]>::to_vec));
        }
        all
    }

    #[test]
    fn lines_come_whole_however_the_input_is_cut() {
        let text = b"a\r\nbc\n\n\xff\x00 d\r\r\nlast";
        let expected = [&b"a"[..], b"bc", b"", b"\xff\x00 d\r", b"last"];
        for step in 1..30 {
            assert_eq!(read(text, step), expected, "{step}");
        }
        assert!(read(b"", 1).is_empty());
        assert_eq!(read(b"\n", 1), [b""]);
    }

    #[test]
    fn of_a_line_without_end_only_the_beginning_comes_and_the_next_is_whole() {
        for len in [LINE_BYTES_MAX - 1, LINE_BYTES_MAX, LINE_BYTES_MAX + 1, 300_000, 3_000_000] {
            for step in [999, 70_000, usize::MAX] {
                let mut text = b"first\n".to_vec();
                text.extend(vec![b'x'; len]);
                text.extend(b"\nnext\nlast");
                let lines = read(&text, step);
                assert_eq!(lines.len(), 4, "{len} by {step}");
                assert_eq!((&lines[0][..], &lines[2][..], &lines[3][..]), (&b"first"[..], &b"next"[..], &b"last"[..]));
                let is_whole = lines[1].len() == len;
                assert!(is_whole || (len > LINE_BYTES_MAX && lines[1].len() > LINE_BYTES_MAX));
            }
        }
    }
}
