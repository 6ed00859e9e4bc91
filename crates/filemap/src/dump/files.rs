//! The WARC files of a dump: records as compressed members, in files of about a gigabyte, with
//! their index.
//!
//! Invariants: an unchanged store gives the same files, byte for byte; one file is open until the
//! dump has ended.

use std::io;

use super::cdxj::CdxjIndex;
use super::target::{OutputFile, Target};
use crate::names;
use crate::warc::write::{Compression, Draft, Entry, Packer, warcinfo};

/// Number of bytes of records that are compressed together, on one thread per core.
const BATCH_BYTES: usize = 4 << 20;
/// The same for the first batch, if it trains a dictionary.
const TRAINING_BYTES: usize = 16 << 20;

/// Writes the WARC files of a dump, and their index.
pub(crate) struct WarcFiles {
    stem: String,
    packer: Packer,
    /// Length at which a file is closed; `None`: there is only one file.
    roll_bytes: Option<u64>,
    index: Option<CdxjIndex>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    file: Option<OpenFile>,
    files: Vec<String>,
    bytes: u64,
}

/// A record to be compressed.
struct Waiting {
    record: Vec<u8>,
    entry: Option<Entry>,
    /// The time of its page.
    time_ms: i64,
}

struct OpenFile {
    name: String,
    out: Box<dyn OutputFile>,
    bytes: u64,
}

impl OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

impl WarcFiles {
    /// Files called `STEM-00000.warc.gz` and so on; without `roll_bytes`, one called
    /// `STEM.warc.gz`.
    pub(crate) fn new(
        stem: &str,
        compression: Compression,
        roll_bytes: Option<u64>,
        index: Option<CdxjIndex>,
    ) -> WarcFiles {
        WarcFiles {
            stem: stem.to_owned(),
            packer: Packer::new(compression),
            roll_bytes,
            index,
            waiting: Vec::new(),
            waiting_bytes: 0,
            file: None,
            files: Vec::new(),
            bytes: 0,
        }
    }

    /// Writes a record. `time_ms` is the time of its page.
    pub(crate) fn put(&mut self, target: &mut dyn Target, draft: Draft, body: &[u8], time_ms: i64) -> io::Result<()> {
        let record = record(&draft, body);
        self.waiting_bytes += record.len();
        self.waiting.push(Waiting { record, entry: draft.entry, time_ms });
        let trains = self.packer.compression() == Compression::Zstd && self.files.is_empty();
        let enough = if trains { TRAINING_BYTES } else { BATCH_BYTES };
        if self.waiting_bytes < enough { Ok(()) } else { self.write(target) }
    }

    /// Closes the last file and writes the index. Returns the names of the files, and their total
    /// bytes. If not `whole`, the dump was cancelled: the last file is not closed, and there is no
    /// index.
    pub(crate) fn finish(mut self, target: &mut dyn Target, whole: bool) -> io::Result<(Vec<String>, u64)> {
        self.write(target)?;
        if !whole {
            if let Some(mut file) = self.file.take() {
                file.out.flush()?;
                self.bytes += file.bytes;
                self.files.retain(|name| *name != file.name);
            }
            return Ok((self.files, self.bytes));
        }
        // The index is open before the last file is closed, so a killed dump never looks whole.
        let index = self.index.take().map(|index| index.write(target)).transpose()?;
        self.close()?;
        if let Some((name, index)) = index {
            index.close()?;
            self.files.push(name);
        }
        Ok((self.files, self.bytes))
    }

    /// Writes the waiting records.
    fn write(&mut self, target: &mut dyn Target) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if self.files.is_empty() {
            self.packer.train(waiting.iter().map(|waiting| waiting.record.as_slice()));
        }
        let members = self.packer.members(waiting.iter().map(|waiting| waiting.record.as_slice()).collect())?;
        for (waiting, member) in waiting.iter().zip(members) {
            self.put_member(target, &member, waiting.entry.as_ref(), waiting.time_ms)?;
        }
        Ok(())
    }

    fn put_member(
        &mut self,
        target: &mut dyn Target,
        member: &[u8],
        entry: Option<&Entry>,
        time_ms: i64,
    ) -> io::Result<()> {
        let is_full = |file: &OpenFile| self.roll_bytes.is_some_and(|roll| file.bytes >= roll);
        let full = self.file.as_ref().is_some_and(is_full);
        if full || self.file.is_none() {
            // The next file is open before this one is closed, so a killed dump never looks whole.
            let next = self.open(target, time_ms)?;
            self.close()?;
            self.file = Some(next);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let offset = file.bytes;
        file.write(member)?;
        if let (Some(index), Some(entry)) = (&mut self.index, entry) {
            index.add(entry, &file.name, offset, member.len() as u64)?;
        }
        Ok(())
    }

    /// Creates the next file, with its first record.
    fn open(&mut self, target: &mut dyn Target, time_ms: i64) -> io::Result<OpenFile> {
        let number = self.roll_bytes.map(|_| self.files.len());
        let name = names::warc(&self.stem, number, self.packer.compression().extension());
        let mut file = OpenFile { out: target.create(&name)?, name, bytes: 0 };
        file.write(&self.packer.begin()?)?;
        for member in self.packer.members(vec![&warcinfo(&file.name, time_ms)])? {
            file.write(&member)?;
        }
        self.files.push(file.name.clone());
        Ok(file)
    }

    fn close(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        self.bytes += file.bytes;
        file.out.close()
    }
}
/// A whole record.
pub(super) fn record(draft: &Draft, body: &[u8]) -> Vec<u8> {
    let body = if draft.has_body { body } else { b"" };
    [&draft.header[..], &draft.head, body, b"\r\n\r\n"].concat()
}
