//! Streaming puts: a body of any length in bounded memory.

use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result};
use crate::format::value::ChunkEntry;
use crate::logs::values::append::Draft;
use crate::logs::values::draft::{check_limits, digest};
use crate::record::{MAX_VALUE_BYTES, Record, Version};
use crate::stats::Counters;
use crate::store::Store;
use crate::sync::lock;

/// Takes a body piece by piece; see [`Store::put_stream`]. Nothing is visible before
/// [`Writer::finish`]; a dropped writer stores nothing (its chunks become garbage).
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// let mut writer = store.put_stream(b"http://a.example/", b"", 7)?;
/// std::io::Write::write_all(&mut writer, b"A page.")?;
/// writer.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Writer {
    store: Store,
    key: Vec<u8>,
    meta: Vec<u8>,
    time_ms: i64,
    piece: Vec<u8>,
    chunks: Vec<ChunkEntry>,
    /// Its pin in the log, from the first chunk on.
    stream: Option<u64>,
    hasher: Box<Xxh3>,
    body_bytes: u64,
    /// A write failed: the body is incomplete.
    failed: bool,
}

filemap_io::debug_fields!(Writer: body_bytes);

impl Store {
    /// Begins a version whose body comes piece by piece through [`std::io::Write`]. Takes memory
    /// for one chunk (1 MiB by default) and 16 bytes for each chunk written.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn put_stream(&self, key: &[u8], meta: &[u8], time_ms: i64) -> Result<Writer> {
        self.writing()?.check_put(key, meta, 0)?;
        check_limits(key, meta)?;
        if let Some(rule) = self.writing()?.admission().and_then(|a| a.refuses(key, time_ms)) {
            return Err(Error::Refused { rule });
        }
        Ok(Writer {
            store: self.clone(),
            key: key.to_vec(),
            meta: meta.to_vec(),
            time_ms,
            piece: Vec::new(),
            chunks: Vec::new(),
            stream: None,
            hasher: Box::new(Xxh3::new()),
            body_bytes: 0,
            failed: false,
        })
    }

    /// Stores a version whose body is read from `source` to its end, in bounded memory.
    ///
    /// # Errors
    /// As [`Store::put`]; [`Error::Source`] if the source fails; then nothing is stored.
    pub fn put_reader(&self, key: &[u8], meta: &[u8], time_ms: i64, source: &mut dyn std::io::Read) -> Result<Version> {
        let mut writer = self.put_stream(key, meta, time_ms)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match source.read(&mut buffer) {
                Ok(0) => return writer.finish(),
                Ok(n) => writer.push(&buffer[..n])?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::Source(Arc::new(e))),
            }
        }
    }
}

impl Writer {
    /// Adds bytes to the body.
    ///
    /// # Errors
    /// [`Error::ValueTooLarge`] beyond 4 GiB; those of [`Store::put`].
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_whole()?;
        let result = self.push_whole(bytes);
        self.failed = result.is_err();
        result
    }

    fn check_whole(&self) -> Result<()> {
        let failed = || std::io::Error::other("an earlier write of this body failed; begin again");
        if self.failed { Err(Error::Source(Arc::new(failed()))) } else { Ok(()) }
    }

    fn push_whole(&mut self, mut bytes: &[u8]) -> Result<()> {
        let bound = self.store.reading.options().large_value_bytes as usize;
        self.body_bytes += bytes.len() as u64;
        if self.body_bytes > MAX_VALUE_BYTES {
            return Err(Error::ValueTooLarge { len: self.body_bytes });
        }
        while !bytes.is_empty() {
            // Write a full piece only when more follows: a body of one piece is an ordinary page.
            if self.piece.len() == bound {
                self.write_chunk()?;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(bound - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = rest;
        }
        Ok(())
    }

    fn write_chunk(&mut self) -> Result<()> {
        self.hasher.update(&self.piece);
        let reading = &*self.store.reading;
        let draft = Draft::chunk(&self.key, self.time_ms, &self.piece, &reading.packing(&self.key));
        self.chunks.push(self.store.writing()?.append_chunk(draft, &mut self.stream)?);
        self.piece.clear();
        Ok(())
    }

    /// Stores the version with the body written so far.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn finish(mut self) -> Result<Version> {
        self.check_whole()?;
        let store = self.store.clone();
        let _inside = store.writing()?.enter();
        let draft = self.draft()?;
        self.append(draft)
    }

    /// Writes the last chunk. Returns the record that makes the version visible once appended.
    pub(super) fn draft(&mut self) -> Result<Draft> {
        let packing = self.store.reading.packing(&self.key);
        if self.chunks.is_empty() {
            let record = Record { key: &self.key, meta: &self.meta, body: &self.piece, time_ms: self.time_ms };
            return Ok(Draft::page(&record, digest(&self.piece), &packing));
        }
        self.write_chunk()?;
        let digest = self.hasher.digest128().to_be_bytes();
        Ok(Draft::chunked(&self.key, &self.meta, self.time_ms, self.body_bytes, digest, &self.chunks, &packing))
    }

    fn append(&self, draft: Draft) -> Result<Version> {
        let reading = &*self.store.reading;
        let version = self.store.writing()?.append_if(draft, &self.key, 0, |_| true)?;
        Counters::add(&reading.counters().puts, 1);
        Counters::add(&reading.counters().raw_bytes, self.body_bytes);
        version.ok_or(Error::Closed)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let (Some(stream), Ok(writing)) = (self.stream, self.store.writing()) {
            lock(writing.log()).pins.end(stream);
        }
    }
}

impl std::io::Write for Writer {
    /// Errors of the store come as [`std::io::Error`] with the [`Error`] inside.
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.push(buf).map_err(std::io::Error::other)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
