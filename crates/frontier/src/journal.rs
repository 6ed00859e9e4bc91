//! The journal: records since the last snapshot, in batches.
//!
//! A commit is a batch and a sync. No sector is written twice, so a durable batch stays as it is.
//! Recovery reads batches up to the first incomplete one: what follows was never synced, unless a
//! later batch says that this one was durable; then it is damage. A closed journal ends with an
//! empty batch that says that all is durable.

use std::sync::Arc;

use filemap_io::files::read_exact;
use filemap_io::header::crc32;
use filemap_io::{Dir, File};

use crate::error::{Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::files;
use crate::format::{BatchHeader, HEADER_BYTES, JOURNAL};
use crate::record::Record;

const BATCH_MAGIC: [u8; 4] = *b"FMFB";
const BATCH_HEAD_BYTES: u64 = BatchHeader::BYTES as u64;
const SECTOR_BYTES: u64 = 512;
/// Buffered bytes of records that are written before a commit.
const BUFFER_BYTES: usize = 4 << 20;

/// Why a record cannot be applied.
pub(crate) type Applied = std::result::Result<(), String>;

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    name: String,
    file: Arc<dyn File>,
    id: [u8; 16],
    number: u64,
    /// Offset of the next batch.
    end: u64,
    /// Durable length.
    durable: u64,
    /// Whether it was closed and has no durable record since.
    is_closed: bool,
    /// Records not written yet, behind room for the batch's header.
    buffer: Vec<u8>,
}

impl Journal {
    /// Creates a journal, durable but for its name.
    pub(crate) fn create(dir: &dyn Dir, id: [u8; 16], number: u64) -> Result<Journal> {
        let name = files::journal(number);
        let file = files::create(dir, &name, JOURNAL, id, number)?;
        Ok(Journal::with(file, name, id, number))
    }

    fn with(file: Arc<dyn File>, name: String, id: [u8; 16], number: u64) -> Journal {
        let start = HEADER_BYTES as u64;
        Journal { name, file, id, number, end: start, durable: start, is_closed: false, buffer: empty_buffer() }
    }

    /// Opens a journal and passes its records to `replay` in order. What a crash left behind them
    /// is cut off.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, `Io`, and what `replay` returns.
    pub(crate) fn open(
        dir: &dyn Dir,
        id: [u8; 16],
        number: u64,
        mut replay: impl FnMut(Record<'_>) -> Result<Applied>,
    ) -> Result<Journal> {
        let name = files::journal(number);
        let file = files::open(dir, &name, JOURNAL, id, number)?;
        let mut journal = Journal::with(file, name, id, number);
        let len = journal.file.len().map_err(Error::io("length", &journal.name))?;
        while let Some((payload, _)) = journal.batch(journal.end, len)? {
            journal.is_closed = payload.is_empty();
            let mut rest = &payload[..];
            while !rest.is_empty() {
                let at = journal.end + BATCH_HEAD_BYTES + (payload.len() - rest.len()) as u64;
                let bad = |what: &str| Error::corrupt(&journal.name, at, what);
                let record = Record::decode(&mut rest).ok_or_else(|| bad("not a record"))?;
                replay(record)?.map_err(|what| bad(&what))?;
            }
            journal.end += batch_bytes(payload.len() as u64);
        }
        journal.check_rest(len)?;
        journal.file.set_len(journal.end).map_err(Error::io("set length", &journal.name))?;
        journal.file.sync().map_err(Error::io("sync", &journal.name))?;
        journal.durable = journal.end;
        Ok(journal)
    }

    /// Records of the batch at an offset, and the length durable before it; `None` if it is
    /// incomplete.
    fn batch(&self, offset: u64, len: u64) -> Result<Option<(Vec<u8>, u64)>> {
        if offset + BATCH_HEAD_BYTES > len {
            return Ok(None);
        }
        let mut head = [0; BATCH_HEAD_BYTES as usize];
        read_exact(&*self.file, &self.name, &mut head, offset)?;
        let payload_bytes = BatchHeader::LEN.get(&head);
        if BatchHeader::MAGIC.get(&head) != BATCH_MAGIC || payload_bytes > len - offset - BATCH_HEAD_BYTES {
            return Ok(None);
        }
        let mut payload = vec![0; payload_bytes as usize];
        read_exact(&*self.file, &self.name, &mut payload, offset + BATCH_HEAD_BYTES)?;
        let is_whole = BatchHeader::CRC.get(&head) == self.checksum(offset, &head[BatchHeader::CRC.end()..], &payload);
        Ok(is_whole.then(|| (payload, BatchHeader::DURABLE.get(&head))))
    }

    /// Searches what follows the last complete batch for a batch that says that more was durable.
    fn check_rest(&self, len: u64) -> Result<()> {
        let mut at = self.end + SECTOR_BYTES;
        while at < len {
            if let Some((_, durable)) = self.batch(at, len)?
                && durable > self.end
            {
                return Err(Error::corrupt(&self.name, self.end, "checksum mismatch in a durable batch"));
            }
            at += SECTOR_BYTES;
        }
        Ok(())
    }

    /// Adds a record, durable after the next commit.
    pub(crate) fn append(&mut self, record: &Record<'_>) {
        record.encode(&mut self.buffer);
    }

    /// Writes the buffer if it is full.
    pub(crate) fn flush_if_full(&mut self) -> Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let payload_bytes = self.buffer.len() as u64 - BATCH_HEAD_BYTES;
        BatchHeader::MAGIC.put(&mut self.buffer, BATCH_MAGIC);
        BatchHeader::LEN.put(&mut self.buffer, payload_bytes);
        BatchHeader::DURABLE.put(&mut self.buffer, self.durable);
        let (head, payload) = self.buffer.split_at(BATCH_HEAD_BYTES as usize);
        let crc = self.checksum(self.end, &head[BatchHeader::CRC.end()..], payload);
        BatchHeader::CRC.put(&mut self.buffer, crc);
        self.buffer.resize(batch_bytes(payload_bytes) as usize, 0);
        self.file.write_at(&self.buffer, self.end).map_err(Error::io("write", &self.name))?;
        self.end += self.buffer.len() as u64;
        self.buffer = empty_buffer();
        Ok(())
    }

    /// Makes all records durable.
    pub(crate) fn commit(&mut self) -> Result<()> {
        if self.buffer.len() as u64 > BATCH_HEAD_BYTES {
            self.write()?;
        }
        self.sync()
    }

    fn sync(&mut self) -> Result<()> {
        if self.durable == self.end {
            return Ok(());
        }
        if !planted(Failpoint::JournalNotSynced) {
            self.file.sync().map_err(Error::io("sync", &self.name))?;
        }
        (self.durable, self.is_closed) = (self.end, false);
        Ok(())
    }

    /// Commits, and marks all as durable, so that damage to the last batch is told from a crash.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.commit()?;
        self.write()?;
        self.sync()
    }

    /// Whether it was closed before this opening and has no durable record since.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of the file, buffer included.
    pub(crate) fn bytes(&self) -> u64 {
        self.end + self.buffer.len() as u64 - BATCH_HEAD_BYTES
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.buffer.capacity() as u64
    }

    fn checksum(&self, offset: u64, head: &[u8], payload: &[u8]) -> u32 {
        crc32(&[&self.id, &self.number.to_le_bytes(), &offset.to_le_bytes(), head, payload])
    }
}

fn empty_buffer() -> Vec<u8> {
    vec![0; BATCH_HEAD_BYTES as usize]
}

/// Bytes of a batch in the file.
fn batch_bytes(payload_bytes: u64) -> u64 {
    (BATCH_HEAD_BYTES + payload_bytes).next_multiple_of(SECTOR_BYTES)
}
