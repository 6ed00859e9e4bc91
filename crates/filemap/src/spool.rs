//! Bytes of any length in bounded memory: small payloads in memory, large ones in an unnamed
//! temporary file.
//!
//! A WARC block is known to be complete, and a body to be decodable, only at its end: both must be
//! held before anything is stored, whatever their size. The file is unlinked as soon as it is
//! created, so a crash leaves nothing behind.
//!
//! Invariant: a [`Payload`] never holds more than the spool's memory bound in memory.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::SpooledTempFile;

use crate::error::{Error, Result};
use crate::page::digest::Digest;

/// The folder for large payloads, and the size from which they are large.
///
/// ```
/// let spool = filemap::warc::Spool::default().memory_bytes(1 << 20);
/// assert_eq!(spool.dir, std::env::temp_dir());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Spool {
    /// Payloads of up to this size stay in memory.
    pub memory_bytes: usize,
    /// The folder for temporary files.
    pub dir: PathBuf,
}

impl Default for Spool {
    /// 8 MiB in memory, and the system's folder for temporary files.
    fn default() -> Spool {
        Spool { memory_bytes: 8 << 20, dir: std::env::temp_dir() }
    }
}

impl Spool {
    /// Payloads of up to this size stay in memory. Default: 8 MiB.
    pub fn memory_bytes(mut self, memory_bytes: usize) -> Spool {
        self.memory_bytes = memory_bytes;
        self
    }

    /// The folder for temporary files. Default: the system's.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Spool {
        self.dir = dir.as_ref().to_owned();
        self
    }

    /// An empty payload to write to, which keeps at most `limit` bytes.
    pub(crate) fn writer(&self, limit: u64) -> PayloadWriter {
        let file = tempfile::spooled_tempfile_in(self.memory_bytes, &self.dir);
        PayloadWriter { memory: Vec::new(), file, on_disk: false, bytes: 0, limit, spool: self.clone() }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Spool { dir: self.dir.clone(), source }
    }
}

/// A payload being written.
pub(crate) struct PayloadWriter {
    memory: Vec<u8>,
    file: SpooledTempFile,
    on_disk: bool,
    bytes: u64,
    limit: u64,
    spool: Spool,
}

impl PayloadWriter {
    /// Adds bytes. Bytes over the limit are counted and dropped: see [`PayloadWriter::is_over`].
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let room = self.limit.saturating_sub(self.bytes);
        self.bytes += bytes.len() as u64;
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if !self.on_disk && self.memory.len() + bytes.len() > self.spool.memory_bytes {
            self.roll()?;
        }
        if self.on_disk {
            self.file.write_all(bytes).map_err(|e| self.spool.failed(e))
        } else {
            self.memory.extend_from_slice(bytes);
            Ok(())
        }
    }

    /// Moves the bytes to disk.
    fn roll(&mut self) -> Result<()> {
        let memory = std::mem::take(&mut self.memory);
        self.file.roll().and_then(|()| self.file.write_all(&memory)).map_err(|e| self.spool.failed(e))?;
        self.on_disk = true;
        Ok(())
    }

    /// Number of bytes pushed, including those over the limit.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether more was pushed than is kept.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes > self.limit
    }

    pub(crate) fn finish(self) -> Payload {
        if self.on_disk {
            Payload::Disk { file: self.file, start: 0, bytes: self.bytes.min(self.limit), spool: self.spool }
        } else {
            Payload::Memory(self.memory)
        }
    }
}

/// Bytes in memory or on disk.
#[derive(Debug)]
pub(crate) enum Payload {
    Memory(Vec<u8>),
    /// `bytes` bytes of the file, from `start` on.
    Disk {
        file: SpooledTempFile,
        start: u64,
        bytes: u64,
        spool: Spool,
    },
}

impl Default for Payload {
    fn default() -> Payload {
        Payload::Memory(Vec::new())
    }
}

impl Payload {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Payload::Memory(bytes) => bytes.len() as u64,
            Payload::Disk { bytes, .. } => *bytes,
        }
    }

    /// Drops the first `count` bytes.
    pub(crate) fn skip(&mut self, count: u64) {
        match self {
            Payload::Memory(bytes) => drop(bytes.drain(..(count as usize).min(bytes.len()))),
            Payload::Disk { start, bytes, .. } => {
                *start += count;
                *bytes = bytes.saturating_sub(count);
            }
        }
    }

    /// Keeps the first `count` bytes.
    pub(crate) fn truncate(&mut self, count: u64) {
        match self {
            Payload::Memory(all) => all.truncate(usize::try_from(count).unwrap_or(usize::MAX)),
            Payload::Disk { bytes, .. } => *bytes = count.min(*bytes),
        }
    }

    /// Adds bytes at the end.
    pub(crate) fn append(&mut self, more: &[u8]) -> Result<()> {
        match self {
            Payload::Memory(bytes) => bytes.extend_from_slice(more),
            Payload::Disk { file, start, bytes, spool } => {
                let written = file.seek(SeekFrom::Start(*start + *bytes)).and_then(|_| file.write_all(more));
                written.map_err(|e| spool.failed(e))?;
                *bytes += more.len() as u64;
            }
        }
        Ok(())
    }

    /// Moves the payload to disk, until [`Payload::take_back`].
    pub(crate) fn set_aside(&mut self, spool: &Spool) -> Result<()> {
        let Payload::Memory(bytes) = self else { return Ok(()) };
        let mut writer = spool.writer(u64::MAX);
        writer.roll()?;
        writer.push(bytes)?;
        *self = writer.finish();
        Ok(())
    }

    /// Moves the payload back into memory, unless it is large.
    pub(crate) fn take_back(&mut self) -> Result<()> {
        if let Payload::Disk { bytes, spool, .. } = self
            && *bytes <= spool.memory_bytes as u64
        {
            *self = Payload::Memory(self.prefix(usize::MAX)?);
        }
        Ok(())
    }

    /// All bytes.
    pub(crate) fn into_bytes(mut self) -> Result<Vec<u8>> {
        if let Payload::Memory(bytes) = self { Ok(bytes) } else { self.prefix(usize::MAX) }
    }

    /// Up to the first `count` bytes.
    pub(crate) fn prefix(&mut self, count: usize) -> Result<Vec<u8>> {
        self.piece(0, count)
    }

    /// Up to the last `count` bytes.
    pub(crate) fn suffix(&mut self, count: usize) -> Result<Vec<u8>> {
        self.piece(self.len().saturating_sub(count as u64), count)
    }

    /// Up to `count` bytes from `from` on.
    pub(crate) fn piece(&mut self, from: u64, count: usize) -> Result<Vec<u8>> {
        let from = from.min(self.len());
        match self {
            Payload::Memory(bytes) => {
                let rest = &bytes[usize::try_from(from).unwrap_or(bytes.len())..];
                Ok(rest[..rest.len().min(count)].to_vec())
            }
            Payload::Disk { file, start, bytes, spool } => {
                let mut out = Vec::new();
                let sought = file.seek(SeekFrom::Start(*start + from));
                let read = sought.and_then(|_| file.take((*bytes - from).min(count as u64)).read_to_end(&mut out));
                read.map_err(|e| spool.failed(e)).map(|_| out)
            }
        }
    }

    /// A reader over all bytes that can seek.
    pub(crate) fn into_reader(self) -> PayloadReader {
        PayloadReader { payload: self, at: 0 }
    }

    /// A reader from the start.
    pub(crate) fn reader(&mut self) -> Result<Box<dyn Read + '_>> {
        match self {
            Payload::Memory(bytes) => Ok(Box::new(bytes.as_slice())),
            Payload::Disk { file, start, bytes, spool } => {
                file.seek(SeekFrom::Start(*start)).map_err(|e| spool.failed(e))?;
                Ok(Box::new(file.take(*bytes)))
            }
        }
    }

    /// Calls `each` with all bytes, in order, in pieces.
    pub(crate) fn chunks(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let spool = match self {
            Payload::Memory(bytes) => return each(bytes),
            Payload::Disk { spool, .. } => spool.clone(),
        };
        let mut reader = self.reader()?;
        let mut piece = vec![0; 64 << 10];
        loop {
            match reader.read(&mut piece).map_err(|e| spool.failed(e))? {
                0 => return Ok(()),
                count => each(&piece[..count])?,
            }
        }
    }

    /// Returns whether the bytes have this digest; `None` if this crate does not compute its
    /// algorithm.
    pub(crate) fn has_digest(&mut self, digest: &Digest) -> Result<Option<bool>> {
        let Some(mut hasher) = digest.hasher() else { return Ok(None) };
        self.chunks(|bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(Some(digest.is(&hasher.finalize())))
    }
}

/// Reads and seeks over a payload.
#[derive(Debug)]
pub(crate) struct PayloadReader {
    payload: Payload,
    at: u64,
}

impl PayloadReader {
    /// Number of bytes not yet read.
    pub(crate) fn remaining(&self) -> u64 {
        self.payload.len().saturating_sub(self.at)
    }
}

impl Read for PayloadReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let rest = self.remaining();
        let count = match &mut self.payload {
            Payload::Memory(bytes) => (&bytes[bytes.len() - rest as usize..]).read(out)?,
            Payload::Disk { file, start, .. } => {
                file.seek(SeekFrom::Start(*start + self.at))?;
                file.take(rest).read(out)?
            }
        };
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for PayloadReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.payload.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(payload: &mut Payload) -> Vec<u8> {
        let mut out = Vec::new();
        payload.reader().expect("readable").read_to_end(&mut out).expect("readable");
        out
    }

    #[test]
    fn bytes_come_back_from_memory_and_from_disk() {
        let all: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        for memory_bytes in [0, 10, 99_999, 100_000] {
            let spool = Spool { memory_bytes, ..Spool::default() };
            let mut writer = spool.writer(u64::MAX);
            for part in all.chunks(777) {
                writer.push(part).expect("room");
            }
            let mut payload = writer.finish();
            assert_eq!(matches!(payload, Payload::Memory(_)), memory_bytes == 100_000);
            assert_eq!(payload.len(), 100_000);
            assert_eq!(read(&mut payload), all);
            assert_eq!(payload.prefix(5).expect("readable"), all[..5]);
            payload.skip(99_990);
            assert_eq!(read(&mut payload), all[99_990..]);
            assert_eq!(read(&mut payload), all[99_990..]);
        }
    }

    #[test]
    fn pieces_and_ends_are_the_same_in_memory_and_on_disk() {
        for memory_bytes in [0, 100] {
            let mut writer = Spool { memory_bytes, ..Spool::default() }.writer(u64::MAX);
            writer.push(b"xhello").expect("room");
            let mut payload = writer.finish();
            payload.skip(1);
            payload.append(b" world").expect("room");
            assert_eq!(read(&mut payload), b"hello world");
            assert_eq!(
                (payload.suffix(5).expect("readable"), payload.suffix(50).expect("readable").len()),
                (b"world".to_vec(), 11)
            );
            assert_eq!(
                (payload.piece(4, 3).expect("readable"), payload.piece(99, 3).expect("readable")),
                (b"o w".to_vec(), vec![])
            );
            payload.truncate(5);
            payload.truncate(9);
            assert_eq!(read(&mut payload), b"hello");
            assert_eq!(payload.suffix(1).expect("readable"), b"o");
        }
    }

    #[test]
    fn what_was_set_aside_comes_back_unless_it_is_large() {
        for (memory_bytes, comes_back) in [(5, true), (3, false)] {
            let mut payload = Payload::Memory(b"ahello".to_vec());
            payload.skip(1);
            payload.set_aside(&Spool { memory_bytes, ..Spool::default() }).expect("room");
            assert!(matches!(payload, Payload::Disk { .. }) && payload.len() == 5);
            assert_eq!(read(&mut payload), b"hello");
            payload.skip(1);
            payload.take_back().expect("readable");
            assert_eq!(matches!(payload, Payload::Memory(_)), comes_back);
            assert_eq!(read(&mut payload), b"ello");
        }
    }

    #[test]
    fn what_exceeds_the_limit_is_counted_and_dropped() {
        let mut writer = Spool::default().writer(3);
        writer.push(b"ab").expect("room");
        assert!(!writer.is_over());
        writer.push(b"cde").expect("room");
        assert!(writer.is_over());
        assert_eq!(writer.bytes(), 5);
        assert_eq!(read(&mut writer.finish()), b"abc");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let spool = Spool { memory_bytes: 0, dir: "/no/such/folder".into() };
        let error = spool.writer(9).push(b"x").expect_err("no folder");
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }
}
