//! The journal: records since the last snapshot, in batches.
//!
//! A commit is a batch and a sync. No sector is written twice, so a durable batch never changes.
//! Records that exceed the buffer before a commit are written early, in batches marked as parts:
//! they count only with the batch that ends them, since data that they refer to may not be durable
//! yet. Recovery reads batches up to the first incomplete one. What follows was never synced; if a
//! later batch says that the incomplete one was durable, the file is damaged. A closed journal
//! ends with an empty batch that says that all is durable.

use std::sync::Arc;

use filemap_io::files::read_exact;
use filemap_io::header::crc32;
use filemap_io::{Dir, File};

use crate::error::{Applied, Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::files;
use crate::format::{BatchHeader, HEADER_BYTES, JOURNAL, version};
use crate::record::Record;

/// Magic of a batch that ends a commit, and of a part that further batches follow.
const BATCH_MAGIC: [u8; 4] = *b"FMFB";
const PART_MAGIC: [u8; 4] = *b"FMFP";
const BATCH_HEAD_BYTES: u64 = BatchHeader::BYTES as u64;
const SECTOR_BYTES: u64 = 512;
/// Buffered bytes of records at which the buffer is written before a commit.
const BUFFER_BYTES: usize = if cfg!(test) { 512 } else { 4 << 20 };

/// A batch as read from the file.
struct Batch {
    /// Its records.
    payload: Vec<u8>,
    /// The durable length of the file before it.
    durable: u64,
    /// True for a part: further batches of the commit follow.
    is_part: bool,
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    name: String,
    file: Arc<dyn File>,
    id: [u8; 16],
    number: u64,
    /// Offset of the next batch.
    end: u64,
    /// Durable length of the file.
    durable: u64,
    /// True if it was closed, and no record was made durable since.
    is_closed: bool,
    /// True if parts of the next commit have been written.
    has_parts: bool,
    /// True if an earlier format version began it.
    is_old: bool,
    /// Records not written yet, after space for the batch's header.
    buffer: Vec<u8>,
}

impl Journal {
    /// Creates a journal; its contents are durable, its name is not yet.
    pub(crate) fn create(dir: &dyn Dir, id: [u8; 16], number: u64) -> Result<Journal> {
        let name = files::journal(number);
        let file = files::create(dir, &name, JOURNAL, id, number)?;
        Ok(Journal::with(file, name, id, number))
    }

    fn with(file: Arc<dyn File>, name: String, id: [u8; 16], number: u64) -> Journal {
        let start = HEADER_BYTES as u64;
        Journal {
            name,
            file,
            id,
            number,
            end: start,
            durable: start,
            is_closed: false,
            has_parts: false,
            is_old: false,
            buffer: empty_buffer(),
        }
    }

    /// Opens a journal and passes its records to `replay` in order. What a crash left after them
    /// is cut off.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, `Io`, and what `replay` returns.
    pub(crate) fn open(
        dir: &dyn Dir,
        id: [u8; 16],
        number: u64,
        mut replay: impl FnMut(Record<'_>) -> Applied,
    ) -> Result<Journal> {
        let name = files::journal(number);
        let file = files::open(dir, &name, JOURNAL, id, number)?;
        let mut journal = Journal::with(file, name, id, number);
        journal.is_old = version(&*journal.file, &journal.name)? < JOURNAL.version;
        let len = journal.file.len().map_err(Error::io("length", &journal.name))?;
        let (mut ends, mut records) = (true, 0);
        while let Some(batch) = journal.batch(journal.end, len)? {
            let next = journal.end + batch_bytes(batch.payload.len() as u64);
            // The first part of a commit counts only if all others are complete.
            if ends && batch.is_part && !journal.ends(next, len)? {
                break;
            }
            let mut rest = &batch.payload[..];
            while !rest.is_empty() {
                let at = journal.end + BATCH_HEAD_BYTES + (batch.payload.len() - rest.len()) as u64;
                let record = Record::decode(&mut rest);
                let record = record.ok_or_else(|| Error::corrupt(&journal.name, at, "not a record"))?;
                replay(record).map_err(|fault| fault.at(&journal.name, at))?;
            }
            records = if ends { 0 } else { records } + batch.payload.len();
            ends = !batch.is_part;
            (journal.end, journal.is_closed) = (next, ends && records == 0);
        }
        journal.check_rest(len)?;
        journal.file.set_len(journal.end).map_err(Error::io("set length", &journal.name))?;
        journal.file.sync().map_err(Error::io("sync", &journal.name))?;
        journal.durable = journal.end;
        Ok(journal)
    }

    /// Returns whether the remaining parts of a commit, from an offset on, and the batch that ends
    /// them are complete.
    fn ends(&self, mut offset: u64, len: u64) -> Result<bool> {
        while let Some(batch) = self.batch(offset, len)? {
            if !batch.is_part {
                return Ok(true);
            }
            offset += batch_bytes(batch.payload.len() as u64);
        }
        Ok(false)
    }

    /// Reads the batch at an offset; `None` if it is incomplete.
    fn batch(&self, offset: u64, len: u64) -> Result<Option<Batch>> {
        if offset + BATCH_HEAD_BYTES > len {
            return Ok(None);
        }
        let mut head = [0; BATCH_HEAD_BYTES as usize];
        read_exact(&*self.file, &self.name, &mut head, offset)?;
        let payload_bytes = BatchHeader::LEN.get(&head);
        let is_part = BatchHeader::MAGIC.get(&head) == PART_MAGIC;
        let is_batch = is_part || BatchHeader::MAGIC.get(&head) == BATCH_MAGIC;
        if !is_batch || payload_bytes > len - offset - BATCH_HEAD_BYTES {
            return Ok(None);
        }
        let mut payload = vec![0; payload_bytes as usize];
        read_exact(&*self.file, &self.name, &mut payload, offset + BATCH_HEAD_BYTES)?;
        let is_whole = BatchHeader::CRC.get(&head) == self.checksum(offset, &head[BatchHeader::CRC.end()..], &payload);
        let durable = BatchHeader::DURABLE.get(&head);
        Ok(is_whole.then_some(Batch { payload, durable, is_part }))
    }

    /// Checks that no batch after the last complete one says that more was durable.
    fn check_rest(&self, len: u64) -> Result<()> {
        let mut at = self.end + SECTOR_BYTES;
        while at < len {
            if self.batch(at, len)?.is_some_and(|batch| batch.durable > self.end) {
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

    /// Writes the buffer if it is full, as a part of the next commit.
    pub(crate) fn flush_if_full(&mut self) -> Result<()> {
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.has_parts = true;
        self.write(if planted(Failpoint::PartCounts) { BATCH_MAGIC } else { PART_MAGIC })
    }

    fn write(&mut self, magic: [u8; 4]) -> Result<()> {
        let payload_bytes = self.buffer.len() as u64 - BATCH_HEAD_BYTES;
        BatchHeader::MAGIC.put(&mut self.buffer, magic);
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
        if self.buffer.len() as u64 > BATCH_HEAD_BYTES || self.has_parts {
            self.has_parts = false;
            self.write(BATCH_MAGIC)?;
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

    /// Commits, and marks all as durable: damage to the last batch is then no torn write.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.commit()?;
        self.write(BATCH_MAGIC)?;
        self.sync()
    }

    /// Returns whether an earlier format version began it.
    pub(crate) fn is_old(&self) -> bool {
        self.is_old
    }

    /// Returns whether it was closed before this opening, and no record was made durable since.
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

/// Size of a batch in the file.
fn batch_bytes(payload_bytes: u64) -> u64 {
    (BATCH_HEAD_BYTES + payload_bytes).next_multiple_of(SECTOR_BYTES)
}
