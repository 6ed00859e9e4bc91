//! Lines in blocks, for verbs that process millions of lines at less than a microsecond each.
//!
//! Larger batches make sets on disk faster. *Gathered* input therefore becomes one large block
//! while lines arrive quickly; a writer that waits for each answer still gets it.
//!
//! Invariants: lines are returned before waiting longer than [`LULL`] for more; memory is bounded;
//! the last, partial line of interrupted input is not returned as a whole one.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use fm_cli::interrupt;

use crate::input::Input;

/// Longest URL of a seen set, in bytes. Of a longer line only the beginning is kept.
pub const LINE_BYTES_MAX: usize = u16::MAX as usize;

const BLOCK_BYTES: usize = 256 << 10;
/// Size of a gathered block, in bytes: about 300,000 URLs.
const GATHERED_BYTES: usize = 32 << 20;
/// Space for the longest kept line, one byte more, and a line end.
const LINE_ROOM: usize = LINE_BYTES_MAX + 2;
const _: () = assert!(BLOCK_BYTES > LINE_ROOM);
/// Longest pause while gathering: longer than a writer needs to refill a pipe.
const LULL: Duration = Duration::from_millis(5);
/// A read of fewer bytes is not from a stream of many lines: it is returned at once.
const THICK_BYTES: usize = 4 << 10;
/// Longest time of gathering.
const GATHERING: Duration = Duration::from_millis(250);

/// An input of lines.
pub trait Source: Read {
    /// Returns whether a read would return within this time.
    fn is_ready(&mut self, within: Duration) -> bool;
}

impl Source for Input {
    fn is_ready(&mut self, within: Duration) -> bool {
        Input::is_ready(self, within)
    }
}

/// The blocks of an input.
pub struct Blocks<R> {
    input: R,
    gathers: bool,
    buffer: Vec<u8>,
    /// Bytes that the last call returned, to be overwritten.
    given: usize,
    filled: usize,
    /// True while the rest of a line that is too long is skipped.
    is_skipping: bool,
    is_over: bool,
}

impl<R: Source> Blocks<R> {
    /// Blocks of the input as it arrives.
    pub fn new(input: R) -> Self {
        Self {
            input,
            gathers: false,
            buffer: vec![0; BLOCK_BYTES],
            given: 0,
            filled: 0,
            is_skipping: false,
            is_over: false,
        }
    }

    /// Gathered blocks of the input.
    pub fn gathered(input: R) -> Self {
        Self { gathers: true, buffer: vec![0; GATHERED_BYTES], ..Blocks::new(input) }
    }

    /// The next whole lines, with their ends; `None` at the end of the input. A line longer than
    /// [`LINE_BYTES_MAX`] is cut, but stays longer than that.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.copy_within(self.given..self.filled, 0);
        (self.filled, self.given) = (self.filled - self.given, 0);
        let began = Instant::now();
        while !self.is_over && (self.given == 0 || self.goes_on(began)) {
            let read = match self.input.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                self.is_over = true;
                if !interrupt::asked() {
                    self.given = self.filled;
                }
                break;
            }
            let is_new = self.filled;
            self.filled += read;
            if let Some(end) = self.last_end(is_new) {
                self.given = end;
            }
        }
        Ok((self.given > 0).then(|| &self.buffer[..self.given]))
    }

    /// Returns whether to read more before returning lines.
    fn goes_on(&mut self, began: Instant) -> bool {
        let has_room = self.filled - self.given <= LINE_BYTES_MAX && self.buffer.len() - self.filled >= LINE_ROOM;
        let lull = if self.given < THICK_BYTES { Duration::ZERO } else { LULL };
        self.gathers && has_room && !self.is_skipping && began.elapsed() < GATHERING && self.input.is_ready(lull)
    }

    /// The end of the last whole line, if there is one; new bytes begin at `is_new`.
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
        // The unfinished line begins at `given`.
        if self.filled - self.given > LINE_BYTES_MAX {
            self.is_skipping = true;
            self.filled = self.given + LINE_BYTES_MAX + 1;
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

    /// Returns `step` bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    impl Source for Slow<'_> {
        fn is_ready(&mut self, _: Duration) -> bool {
            // Simulates a lull now and then.
            !self.0.len().is_multiple_of(3)
        }
    }

    fn all(mut blocks: Blocks<Slow<'_>>) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(block) = blocks.next().unwrap() {
            all.extend(lines(block).map(<[u8]>::to_vec));
        }
        all
    }

    fn read(text: &[u8], step: usize) -> Vec<Vec<u8>> {
        let as_they_come = all(Blocks::new(Slow(text, step)));
        let gathered = all(Blocks::gathered(Slow(text, step)));
        // Lines that are too long may be cut at different lengths.
        let kept = |line: &Vec<u8>| line[..line.len().min(LINE_BYTES_MAX + 1)].to_vec();
        assert!(gathered.iter().map(kept).eq(as_they_come.iter().map(kept)), "{} by {step}", text.len());
        as_they_come
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
    fn lines_that_come_thick_and_fast_are_gathered_and_others_are_given_out_at_once() {
        /// Returns one line at a time, and several at once for a while.
        struct Lines {
            left: usize,
            ready: usize,
        }
        impl Read for Lines {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let line = b"http://a.example/\n";
                let Some(left) = self.left.checked_sub(1) else { return Ok(0) };
                self.left = left;
                out[..line.len()].copy_from_slice(line);
                Ok(line.len())
            }
        }
        impl Source for Lines {
            fn is_ready(&mut self, _: Duration) -> bool {
                self.ready = self.ready.saturating_sub(1);
                self.ready > 0
            }
        }
        let sizes = |mut blocks: Blocks<Lines>| {
            let mut sizes = Vec::new();
            while let Some(block) = blocks.next().unwrap() {
                sizes.push(lines(block).count());
            }
            sizes
        };
        assert_eq!(sizes(Blocks::gathered(Lines { left: 103, ready: 100 })), [100, 1, 1, 1]);
        assert_eq!(sizes(Blocks::new(Lines { left: 3, ready: 100 })), [1, 1, 1]);
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
