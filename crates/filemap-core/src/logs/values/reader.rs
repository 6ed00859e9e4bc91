//! [`Reader`]: the body of one version, chunk by chunk, from any offset. It holds the segments of
//! the chunks open, so that compaction may remove them meanwhile.

use std::sync::Arc;

use super::cache::SharedBody;
use super::read::{Body, read_chunk};
use crate::error::{Error, Result};
use crate::logs::segments::OpenSegment;
use crate::logs::values::ValueLog;
use crate::record::Head;

/// Reads a body in bounded memory, one chunk at a time, from any offset.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let mut reader = store.get_reader(b"http://a.example/")?.expect("it was put");
/// let mut body = String::new();
/// std::io::Read::read_to_string(&mut reader, &mut body)?;
/// assert_eq!(body, "A page.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    values: Arc<ValueLog>,
    /// The segments of its chunks, held open: compaction may remove them meanwhile.
    held: Vec<OpenSegment>,
    head: Head,
    body: Body,
    /// Offset of the piece in the body.
    piece_at: u64,
    piece: SharedBody,
    at: u64,
}

impl Reader {
    pub(crate) fn new(values: Arc<ValueLog>, head: Head, body: Body) -> Result<Reader> {
        let mut held: Vec<OpenSegment> = Vec::new();
        if let Body::Chunks(_, chunks) = &body {
            for (_, chunk) in chunks {
                if !held.iter().any(|(s, _)| s.id == chunk.location.segment) {
                    held.push(values.hold(chunk.location.segment)?);
                }
            }
        }
        let (piece, body) = match body {
            Body::Whole(piece) => (piece, Body::Chunks(Vec::new(), Vec::new())),
            chunks => (SharedBody::default(), chunks),
        };
        Ok(Reader { values, held, head, body, piece_at: 0, piece, at: 0 })
    }

    /// Everything of the version except its body.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Number of bytes of the body not read yet.
    pub fn remaining(&self) -> u64 {
        self.head.body_bytes.saturating_sub(self.at)
    }

    /// The unread part of the body if all of it is in memory, as is every body stored in one
    /// piece.
    pub fn in_memory(&self) -> Option<&[u8]> {
        let from = self.at.checked_sub(self.piece_at)?;
        let there = self.piece.get(usize::try_from(from).ok()?..)?;
        (there.len() as u64 == self.remaining()).then_some(there)
    }

    /// [`Reader::in_memory`], without a copy: the value cache's own bytes if the page is cached.
    ///
    /// # Errors
    /// The reader itself, if a part of the body is not in memory.
    pub fn into_memory(mut self: Box<Self>) -> std::result::Result<SharedBody, Box<Reader>> {
        let Some(left) = self.in_memory().map(<[u8]>::len) else { return Err(self) };
        let read = self.piece.len() - left;
        self.piece.advance(read);
        Ok(self.piece)
    }

    fn load(&mut self) -> Result<()> {
        let Body::Chunks(key, chunks) = &self.body else { return Ok(()) };
        let next = chunks.partition_point(|(at, c)| at + u64::from(c.raw_bytes) <= self.at);
        let Some((at, chunk)) = chunks.get(next) else { return Ok(()) };
        let mut piece = std::mem::take(&mut self.piece).into_vec();
        piece.clear();
        self.piece_at = *at;
        let held = self.held.iter().find(|(s, _)| s.id == chunk.location.segment);
        read_chunk(&self.values.dictionaries, held.ok_or(Error::Closed)?, key, chunk, &mut piece)?;
        self.piece = piece.into();
        Ok(())
    }
}

impl std::io::Read for Reader {
    /// Errors of the store are [`std::io::Error`]s with the [`Error`](crate::Error) inside.
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.at >= self.head.body_bytes || buf.is_empty() {
            return Ok(0);
        }
        if self.at < self.piece_at || self.at >= self.piece_at + self.piece.len() as u64 {
            self.load().map_err(std::io::Error::other)?;
        }
        let from = (self.at - self.piece_at) as usize;
        let n = self.piece.len().saturating_sub(from).min(buf.len());
        buf[..n].copy_from_slice(&self.piece[from..from + n]);
        self.at += n as u64;
        Ok(n)
    }
}

/// Chunks in between are not read. An offset beyond the end reads as the end.
impl std::io::Seek for Reader {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        use std::io::SeekFrom::{Current, End, Start};
        let place = match to {
            Start(at) => Some(at),
            Current(by) => self.at.checked_add_signed(by),
            End(by) => self.head.body_bytes.checked_add_signed(by),
        };
        self.at = place.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
