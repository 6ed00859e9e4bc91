//! key.dat: the log of key records, appended by checkpoints, read for chains and lists.
//!
//! Invariants: a record is appended after the file's physical end as it was found on open, so that an address once given
//! out is never given out again; records become readable with [`KeyLog::flush`] and durable with [`KeyLog::sync`].

use std::sync::Arc;

use filemap_io::{Access, Advice, Dir, File};

use crate::buggify::{Fault, planted};
use crate::error::{Error, Result};
use crate::files::{check_header, drop_failed_writes};
use crate::format::header::{self, FileHeader, Kind};
use crate::format::key::{KeyRecord, PEEK_BYTES, UNIT_BYTES};
use crate::format::superblock::Superblock;
use crate::format::{Flaw, names, seed};
use crate::log::scan::{Extent, Framing, Scan};
use crate::primitive::{AtomicU64, Ordering};

/// How many bytes a read of a record asks for before its key's length is known.
const GUESS_BYTES: usize = 256;

/// The readable side.
#[derive(Debug)]
pub(crate) struct KeyLog {
    file: Arc<dyn File>,
    seed: u32,
    /// Bytes that count: for the writer those in the file, for a follower those that the superblock vouches for. What lies
    /// further may be being written.
    end: AtomicU64,
}

/// The appending side: one, owned by checkpoints.
pub(crate) struct KeyAppender {
    log: Arc<KeyLog>,
    /// So much is written at once.
    flush_bytes: usize,
    buffer: Vec<u8>,
    appended_bytes: u64,
}

/// The framing of key.dat.
pub(crate) struct KeyFraming {
    seed: u32,
}

impl KeyFraming {
    pub(crate) fn new(seed: u32) -> KeyFraming {
        KeyFraming { seed }
    }
}

impl Framing for KeyFraming {
    const UNIT_BYTES: u64 = UNIT_BYTES;
    const PEEK_BYTES: usize = PEEK_BYTES;

    fn peek(&self, b: &[u8]) -> std::result::Result<usize, Flaw> {
        KeyRecord::peek(b).map(|r| r.total_bytes() as usize)
    }

    fn head(&self, b: &[u8], offset: u64) -> std::result::Result<Extent, Flaw> {
        KeyRecord::decode(b, self.seed, offset).map(|(r, _)| Extent::Record(r.total_bytes()))
    }

    fn check(&self, _: &[u8]) -> std::result::Result<(), Flaw> {
        Ok(())
    }
}

impl KeyLog {
    /// Creates key.dat with its header, and syncs it.
    pub(crate) fn create(dir: &dyn Dir, store_id: [u8; 16], created_ms: i64) -> Result<()> {
        let file = dir.open(names::KEYS, Access::Create).map_err(|e| Error::io("create", names::KEYS, e))?;
        let header = FileHeader::new(Kind::Keys, store_id, 0, created_ms).encode();
        file.write_at(&header, 0).map_err(|e| Error::io("write", names::KEYS, e))?;
        file.sync().map_err(|e| Error::io("sync", names::KEYS, e))
    }

    /// Removes all files of a key log, if there are any.
    pub(crate) fn remove(dir: &dyn Dir) -> Result<()> {
        match dir.remove(names::KEYS) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", names::KEYS, e)),
            _ => Ok(()),
        }
    }

    /// Opens key.dat.
    ///
    /// # Errors
    /// `Corrupt` when it is missing, not this store's, or shorter than the superblock says it was.
    pub(crate) fn open(dir: &dyn Dir, access: Access, current: &Superblock) -> Result<Arc<KeyLog>> {
        let file = dir.open(names::KEYS, access).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(names::KEYS, 0, "the file is missing"),
            _ => Error::io("open", names::KEYS, e),
        })?;
        check_header(&*file, names::KEYS, Kind::Keys, &current.store_id, access)?;
        file.advise(Advice::Random, 0, 0);
        let len = file.len().map_err(|e| Error::io("measure", names::KEYS, e))?;
        if len < current.key_bytes {
            return Err(Error::corrupt(names::KEYS, len, "the file is shorter than the superblock says"));
        }
        if access == Access::Write {
            drop_failed_writes(&*file, current.key_bytes);
        }
        let end = if access == Access::Read { current.key_bytes } else { len };
        Ok(Arc::new(KeyLog { file, seed: seed(&current.store_id, u64::MAX), end: AtomicU64::new(end) }))
    }

    /// Bytes that count, the header included.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Takes over what a newer superblock vouches for, for handles that follow another process.
    pub(crate) fn follow(&self, newer: &Superblock) {
        self.end.store(newer.key_bytes, Ordering::Release);
    }

    /// The record at an address, and its key. One read, two for keys over 200 bytes.
    ///
    /// # Errors
    /// `Corrupt` when there is no whole record.
    pub(crate) fn read(&self, address: u64) -> Result<(KeyRecord, Vec<u8>)> {
        let offset = address * UNIT_BYTES;
        let mut b = vec![0; GUESS_BYTES];
        let corrupt = |what: &str| Error::corrupt(names::KEYS, offset, what);
        let n = self.file.read_at(&mut b, offset).map_err(|e| Error::io("read", names::KEYS, e))?;
        b.truncate(n);
        let total = KeyRecord::peek(&b).map_err(corrupt)?.total_bytes() as usize;
        if total > GUESS_BYTES {
            b.resize(total, 0);
            let n = self.file.read_at(&mut b, offset).map_err(|e| Error::io("read", names::KEYS, e))?;
            b.truncate(n);
        }
        let (record, key) = KeyRecord::decode(&b, self.seed, offset).map_err(corrupt)?;
        Ok((record, key.to_vec()))
    }

    /// A scan of all records in the file now.
    pub(crate) fn scan(&self) -> Result<Scan<'_, KeyFraming>> {
        self.scan_from(header::BYTES as u64)
    }

    /// A scan from a byte offset that an earlier scan has reached.
    pub(crate) fn scan_from(&self, offset: u64) -> Result<Scan<'_, KeyFraming>> {
        Scan::new(&*self.file, names::KEYS.into(), KeyFraming { seed: self.seed }, offset, self.bytes())
    }

    /// Decodes a record that a scan has checked.
    pub(crate) fn decode<'b>(&self, bytes: &'b [u8], offset: u64) -> Result<(KeyRecord, &'b [u8])> {
        KeyRecord::decode(bytes, self.seed, offset).map_err(|what| Error::corrupt(names::KEYS, offset, what))
    }

    /// What the file takes on the device.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.file.allocated_bytes().unwrap_or(0)
    }
}

impl KeyAppender {
    /// Appends after the file's physical end.
    pub(crate) fn new(log: Arc<KeyLog>, flush_bytes: usize) -> KeyAppender {
        KeyAppender { log, flush_bytes, buffer: Vec::new(), appended_bytes: 0 }
    }

    fn next_offset(&self) -> u64 {
        self.log.bytes().next_multiple_of(UNIT_BYTES) + self.buffer.len() as u64
    }

    /// Appends a record to the buffer; its address.
    pub(crate) fn append(&mut self, record: &KeyRecord, key: &[u8]) -> Result<u64> {
        let offset = self.next_offset();
        if offset / UNIT_BYTES >= 1 << 40 {
            return Err(Error::full(names::KEYS, "it has reached 16 TiB"));
        }
        record.encode(key, self.log.seed, offset, &mut self.buffer);
        self.appended_bytes += record.total_bytes();
        Ok(offset / UNIT_BYTES)
    }

    /// The record at an address, wherever it is by now.
    pub(crate) fn read(&self, address: u64) -> Result<(KeyRecord, Vec<u8>)> {
        let base = self.log.bytes().next_multiple_of(UNIT_BYTES);
        let offset = address * UNIT_BYTES;
        if offset < base {
            return self.log.read(address);
        }
        let at = (offset - base) as usize;
        let bytes = self.buffer.get(at..).unwrap_or_default();
        let (record, key) = self.log.decode(bytes, offset)?;
        Ok((record, key.to_vec()))
    }

    /// Starts reading a record, without waiting.
    pub(crate) fn will_need(&self, address: u64) {
        self.log.file.advise(Advice::WillNeed, address * UNIT_BYTES, GUESS_BYTES as u64);
    }

    /// Whether enough is buffered to be worth a write.
    pub(crate) fn wants_flush(&self) -> bool {
        self.buffer.len() >= self.flush_bytes
    }

    /// Writes the buffer: readers may be led to its records now.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let offset = self.log.bytes().next_multiple_of(UNIT_BYTES);
        if let Err(e) = self.log.file.write_at(&self.buffer, offset) {
            // What fitted on a full disk gives its space back, or each new try would take more of what was freed for it. No
            // reader knows of these bytes.
            let _ = self.log.file.set_len(offset);
            return Err(Error::io("write", names::KEYS, e));
        }
        self.log.end.store(offset + self.buffer.len() as u64, Ordering::Release);
        self.buffer.clear();
        Ok(())
    }

    /// Makes all that was flushed durable.
    pub(crate) fn sync(&self) -> Result<()> {
        if planted(Fault::KeysNotSynced) {
            return Ok(());
        }
        self.log.file.sync().map_err(|e| Error::io("sync", names::KEYS, e))
    }

    /// Bytes appended since the appender was made.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }
}
