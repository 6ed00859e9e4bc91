//! The bytes of an entry of a zip file, decompressed and checked.
//!
//! Invariants: no byte outside the entry's data is read. A failure of the file itself is an error.
//! Damage is a verdict, and the bytes before it are returned.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};
use std::sync::{Mutex, PoisonError};

use flate2::bufread::DeflateDecoder;

use crate::warc::wacz::header::{DEFLATED, STORED};
use crate::warc::wacz::layout::Entry;

const BUFFER_BYTES: usize = 64 << 10;

/// The damage of an entry, known after it was read.
#[derive(Debug, Default)]
pub(crate) struct Verdict(Mutex<Option<String>>);

impl Verdict {
    fn give(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }

    /// The damage, if any.
    pub(crate) fn damage(self) -> Option<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads an entry up to its end, or to its damage.
pub(crate) struct EntryReader<'a, R> {
    data: Data<'a, R>,
    crc: crc32fast::Hasher,
    bytes: u64,
    is_done: bool,
    entry: &'a Entry,
    verdict: &'a Verdict,
}

enum Data<'a, R> {
    Stored(Part<'a, R>),
    Deflated(Box<DeflateDecoder<BufReader<Part<'a, R>>>>),
}

/// The raw data; records whether the file itself failed.
struct Part<'a, R> {
    source: Take<&'a mut R>,
    has_failed: bool,
}

impl<R: Read> Read for Part<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(out);
        self.has_failed |= matches!(&read, Err(error) if error.kind() != io::ErrorKind::Interrupted);
        read
    }
}

impl<'a, R: Read + Seek> EntryReader<'a, R> {
    /// Opens `entry`; the inner error says why its format is not supported.
    pub(crate) fn open(
        entry: &'a Entry,
        source: &'a mut R,
        verdict: &'a Verdict,
    ) -> io::Result<Result<EntryReader<'a, R>, String>> {
        if entry.header.is_encrypted() {
            return Ok(Err("it cannot be unpacked: it is encrypted".to_owned()));
        }
        source.seek(SeekFrom::Start(entry.data.start))?;
        let part = Part { source: source.take(entry.data.end - entry.data.start), has_failed: false };
        let data = match entry.header.method {
            STORED => Data::Stored(part),
            DEFLATED => Data::Deflated(Box::new(DeflateDecoder::new(BufReader::with_capacity(BUFFER_BYTES, part)))),
            other => return Ok(Err(format!("it cannot be unpacked: zip compression method {other} is not supported"))),
        };
        Ok(Ok(EntryReader { data, crc: crc32fast::Hasher::new(), bytes: 0, is_done: false, entry, verdict }))
    }
}

impl<R: Read> EntryReader<'_, R> {
    /// Checks length and checksum at the end.
    fn check(&self) {
        let header = &self.entry.header;
        let left = match &self.data {
            Data::Stored(_) => 0,
            Data::Deflated(data) => data.get_ref().buffer().len() as u64 + data.get_ref().get_ref().source.limit(),
        };
        let crc = self.crc.clone().finalize();
        if self.bytes != header.bytes_out {
            let what = format!("zip entry: {} bytes, {} expected", self.bytes, header.bytes_out);
            self.verdict.give(what);
        } else if crc != header.crc && crc != self.entry.other_crc {
            self.verdict.give("zip entry: checksum mismatch".to_owned());
        } else if left > 0 {
            self.verdict.give(format!("zip entry: {left} bytes follow the end of its data"));
        }
    }
}

impl<R: Read> Read for EntryReader<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.is_done || out.is_empty() {
            return Ok(0);
        }
        let (read, has_failed) = match &mut self.data {
            Data::Stored(part) => (part.read(out), part.has_failed),
            Data::Deflated(data) => (data.read(out), data.get_ref().get_ref().has_failed),
        };
        match read {
            Ok(0) => {
                self.is_done = true;
                self.check();
                Ok(0)
            }
            Ok(count) => {
                self.crc.update(&out[..count]);
                self.bytes += count as u64;
                Ok(count)
            }
            Err(error) if has_failed || error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                self.is_done = true;
                self.verdict.give(format!("the zip entry is damaged, its end was not read: {error}"));
                Ok(0)
            }
        }
    }
}
