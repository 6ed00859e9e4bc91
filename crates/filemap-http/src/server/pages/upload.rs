//! An uploaded body: in memory while it is small, then in an unnamed file. The store is called
//! once, after the whole body has arrived: a slow client occupies no thread and no lock of the
//! store.

use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom, Write};

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use filemap_core::Record;
use http_body_util::BodyExt;
use tempfile::SpooledTempFile;
use tokio::task::spawn_blocking;

use super::super::patient::TooSlow;
use super::super::refusal::{Refusal, is_full};

/// Maximum number of bytes of a body in memory, and buffer size once it is in a file.
const IN_MEMORY: usize = 256 << 10;
/// Memory reserved for a body that is only announced, at most.
const RESERVED: usize = 16 << 10;

/// A complete body, read from its current position.
pub(crate) struct Upload {
    source: Source,
    /// Length of the whole body.
    pub(crate) bytes: u64,
}

enum Source {
    Memory(Cursor<Vec<u8>>),
    File(SpooledTempFile),
}

impl Upload {
    /// Returns whether it is in a file, being too large for memory.
    pub(super) fn is_large(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// The first bytes, which stay unread. Blocks.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub(crate) fn begin(&mut self, bytes: u64) -> io::Result<Vec<u8>> {
        let mut begin = Vec::new();
        self.by_ref().take(bytes).read_to_end(&mut begin)?;
        self.seek(SeekFrom::Start(0))?;
        Ok(begin)
    }

    /// The number of lines. Blocks if it is large.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub(crate) fn count_lines(&mut self) -> io::Result<u64> {
        let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let is_cut = |last: Option<&u8>| u64::from(last.is_some_and(|last| *last != b'\n'));
        let file = match &mut self.source {
            Source::Memory(bytes) => return Ok(count(bytes.get_ref()) + is_cut(bytes.get_ref().last())),
            Source::File(file) => file,
        };
        let (mut lines, mut last, mut buffer) = (0, None, vec![0; 64 << 10]);
        loop {
            let read = file.read(&mut buffer)?;
            let Some(end) = buffer[..read].last() else { break };
            last = Some(*end);
            lines += count(&buffer[..read]);
        }
        file.seek(SeekFrom::Start(0))?;
        Ok(lines + is_cut(last.as_ref()))
    }

    /// Takes the unread part, without a copy if it is in memory. Blocks if it is large.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        match &mut self.source {
            Source::Memory(bytes) => {
                let bytes = std::mem::take(bytes);
                let read = usize::try_from(bytes.position()).unwrap_or(usize::MAX);
                let mut rest = bytes.into_inner();
                rest.drain(..read.min(rest.len()));
                Ok(rest)
            }
            Source::File(file) => {
                let mut rest = Vec::with_capacity(self.bytes as usize);
                file.read_to_end(&mut rest)?;
                Ok(rest)
            }
        }
    }

    /// Takes the first line, without its line end. Blocks.
    ///
    /// # Errors
    ///
    /// If there is no line of at most `most` bytes; those of the file.
    pub(super) fn take_line(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        BufReader::new(self.by_ref()).take(most + 1).read_until(b'\n', &mut line)?;
        self.seek(SeekFrom::Start(line.len() as u64))?;
        match line.pop() {
            Some(b'\n') => Ok(line),
            _ => Err(io::Error::other(format!("there is no line of at most {most} bytes"))),
        }
    }
}

/// Blocks if it is large.
impl Read for Upload {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Memory(bytes) => bytes.read(out),
            Source::File(file) => file.read(out),
        }
    }
}

/// Blocks if it is large.
impl Seek for Upload {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.source {
            Source::Memory(bytes) => bytes.seek(to),
            Source::File(file) => file.seek(to),
        }
    }
}

/// Receives the body of a page, or of a file.
///
/// # Errors
///
/// 408, 413, 507; 400 if it breaks off.
pub(crate) async fn take(body: Body) -> Result<Upload, Refusal> {
    take_up_to(body, Record::MAX_VALUE_BYTES).await
}

/// Receives a body of at most `most` bytes.
///
/// # Errors
///
/// As [`take`].
pub(crate) async fn take_up_to(mut body: Body, most: u64) -> Result<Upload, Refusal> {
    let too_large = |bytes: u64| {
        let words = format!("such a body has at most {most} bytes, this one has {bytes} or more");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, words)
    };
    let announced = HttpBody::size_hint(&body).lower();
    if announced > most {
        return Err(too_large(announced));
    }
    let (mut file, mut in_file) = (None, 0);
    let mut part = Vec::with_capacity((announced as usize).min(RESERVED));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken_off(&error))?.into_data() else { continue };
        part.extend_from_slice(&data);
        let bytes = in_file + part.len() as u64;
        if bytes > most {
            return Err(too_large(bytes));
        }
        if part.len() > IN_MEMORY {
            in_file = bytes;
            file = Some(appended(file, std::mem::take(&mut part)).await?);
        }
    }
    let bytes = in_file + part.len() as u64;
    let Some(file) = file else { return Ok(Upload { source: Source::Memory(Cursor::new(part)), bytes }) };
    let mut file = appended(Some(file), part).await?;
    file.seek(SeekFrom::Start(0)).map_err(|error| no_room(&error))?;
    Ok(Upload { source: Source::File(file), bytes })
}

/// Appends a part to a file, which begins with a part too large for memory.
async fn appended(file: Option<SpooledTempFile>, part: Vec<u8>) -> Result<SpooledTempFile, Refusal> {
    let mut file = file.unwrap_or_else(|| SpooledTempFile::new(IN_MEMORY));
    let write = move || file.write_all(&part).map(|()| file);
    let written = spawn_blocking(write).await.map_err(|error| io::Error::other(error.to_string()));
    written.flatten().map_err(|error| no_room(&error))
}

fn no_room(error: &io::Error) -> Refusal {
    let status = if is_full(error) { StatusCode::INSUFFICIENT_STORAGE } else { StatusCode::INTERNAL_SERVER_ERROR };
    let dir = std::env::temp_dir();
    Refusal::new(status, format!("setting the body aside in {} failed: {error}; nothing was stored", dir.display()))
}

fn broken_off(error: &axum::Error) -> Refusal {
    let source = std::error::Error::source(error);
    let is_late = source.is_some_and(|source| source.is::<TooSlow>());
    let status = if is_late { StatusCode::REQUEST_TIMEOUT } else { StatusCode::BAD_REQUEST };
    Refusal::new(status, format!("the body broke off: {error}; nothing was stored"))
}
