//! The raw bytes of a WARC file, with a window back over the latest ones.
//!
//! Recovery must reread the bytes that a damaged member consumed, and the source may be a pipe. So
//! the last mebibyte stays in memory: decoders notice damage much earlier.
//!
//! Invariants: memory is bounded by twice the window plus the bytes that a caller asks for at
//! once. Rereads are bounded by a multiple of the file, so time is linear.

use std::io::{self, Read};

use crate::error::Error;

/// Size of the window, by which the input can go back.
const WINDOW_BYTES: usize = 1 << 20;
/// Bytes of one read.
const READ_BYTES: usize = 128 << 10;
/// Bytes that may be reread: this number, plus [`REWIND_FACTOR`] times the file.
const REWIND_BASE_BYTES: u64 = 64 << 20;
const REWIND_FACTOR: u64 = 16;

/// A failure to read, as opposed to damage inside a WARC file.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    /// The file's reader failed.
    Source(io::Error),
    /// Bytes set aside could not be written or read back.
    Spool(Error),
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> ReadFailure {
        ReadFailure::Source(error)
    }
}

impl From<Error> for ReadFailure {
    fn from(error: Error) -> ReadFailure {
        ReadFailure::Spool(error)
    }
}

pub(crate) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    /// The file offset of `buffer[0]`.
    base: u64,
    /// Index of the next byte in `buffer`.
    at: usize,
    ended: bool,
    /// The source's error, returned after all its bytes.
    failure: Option<io::Error>,
    rewound_bytes: u64,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R) -> Input<R> {
        Input { source, buffer: Vec::new(), base: 0, at: 0, ended: false, failure: None, rewound_bytes: 0 }
    }

    /// The file offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Number of bytes taken from the source.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    /// Number of bytes reread.
    #[cfg(test)]
    pub(crate) fn rewound_bytes(&self) -> u64 {
        self.rewound_bytes
    }

    /// The next bytes: at least `count`, unless the source has fewer left.
    ///
    /// # Errors
    ///
    /// The source's error, after all bytes that it returned before.
    pub(crate) fn ensure(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.at < count && !self.ended {
            self.read_more();
        }
        if self.buffer.len() == self.at {
            self.failure.take().map_or(Ok(()), Err)?;
        }
        Ok(&self.buffer[self.at..])
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.at = (self.at + count).min(self.buffer.len());
    }

    /// Goes back to `offset`, or as near to it as the window allows. Returns false if the bound on
    /// repeated work is reached.
    pub(crate) fn rewind(&mut self, offset: u64) -> bool {
        let allowed = REWIND_BASE_BYTES + REWIND_FACTOR * self.bytes_read();
        let back = self.offset().saturating_sub(offset).min(self.at as u64);
        if self.rewound_bytes + back > allowed {
            return false;
        }
        self.rewound_bytes += back;
        self.at -= back as usize;
        true
    }

    fn read_more(&mut self) {
        if self.at > 2 * WINDOW_BYTES {
            let gone = self.at - WINDOW_BYTES;
            self.buffer.drain(..gone);
            self.base += gone as u64;
            self.at -= gone;
        }
        let filled = self.buffer.len();
        self.buffer.resize(filled + READ_BYTES, 0);
        let read = loop {
            match self.source.read(&mut self.buffer[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
        self.ended = !matches!(read, Ok(1..));
        self.failure = read.err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skips `count` bytes. Returns false if the input has fewer.
    fn skip(input: &mut Input<&[u8]>, mut count: usize) -> bool {
        while count > 0 {
            let step = input.ensure(1).expect("memory").len().min(count);
            if step == 0 {
                return false;
            }
            input.consume(step);
            count -= step;
        }
        true
    }

    #[test]
    fn the_last_mebibyte_can_be_read_again() {
        let all: Vec<u8> = (0..5_000_000u32).map(|at| (at / 251) as u8).collect();
        let mut input = Input::new(&all[..]);
        assert!(skip(&mut input, 4_000_000));
        assert_eq!(input.offset(), 4_000_000);
        input.rewind(4_000_000 - WINDOW_BYTES as u64);
        let from = input.offset() as usize;
        assert_eq!(from, 4_000_000 - WINDOW_BYTES);
        assert_eq!(input.ensure(10).expect("memory")[..10], all[from..from + 10]);
        input.rewind(0);
        assert!(input.offset() > 0, "the window is bounded");
        assert!(!skip(&mut input, 5_000_000));
        assert_eq!(input.offset(), 5_000_000);
    }

    #[test]
    fn going_back_is_bounded_over_the_whole_file() {
        let all = vec![0; 1 << 20];
        let mut input = Input::new(&all[..]);
        let mut times = 0;
        while times < 1000 {
            skip(&mut input, 1 << 20);
            input.rewind(0);
            if input.offset() > 0 {
                break;
            }
            times += 1;
        }
        assert_eq!(times, 64 + 16);
    }

    #[test]
    fn a_failing_source_is_an_error_and_keeps_its_bytes() {
        struct Failing(usize);
        impl Read for Failing {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 == 2 {
                    return Err(io::Error::other("no"));
                }
                out[..3].fill(7);
                Ok(3)
            }
        }
        let mut input = Input::new(Failing(0));
        assert_eq!(input.ensure(4).expect("three bytes"), [7; 3]);
        input.consume(3);
        assert!(input.ensure(1).is_err());
        assert_eq!(input.bytes_read(), 3);
    }
}
