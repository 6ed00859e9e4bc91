//! The write-ahead log of the memtable: a sync writes its end, not a run.
//!
//! The device writes a sector of 512 bytes whole or not at all, so the last one is rewritten when
//! it gets more entries, and is an old or a new one after a crash.
//!
//! Recovery reads sectors up to the first that is damaged (or not full): what follows was never
//! synced, unless a later sector says that this one was durable; then it is an error. A closed log
//! ends with an empty sector that says that all is durable.
//!
//! A log that was cut off looks like one after a crash, so the header notes the number of durable
//! sectors after each sync; the note is durable with the next sync or the close. After a crash the
//! note is at or below the truth: a log with fewer good sectors was cut off or damaged. Of its two
//! copies one is good even if the device failed or was full while the other was written. A log of
//! version 1 has no note; the next roll replaces it.
//!
//! A follower may read a half-written last sector, whose older entries were synced long ago. So it
//! rereads a damaged sector until it is good or unchanged, and a sector that was not full if
//! others follow. It rereads a sector noted as durable for longer, since that one must become
//! good.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use filemap_io::header::{Kind, crc32, is_sealed, seal};
use filemap_io::{Access, Advice, File};
use filemap_runs::Traffic;
use filemap_runs::fixed::Fixed;

use super::failpoint::{Failpoint, planted};
use super::key::Home;
use crate::error::{Error, Result};
use crate::files::{self, beside};
use crate::format::{LOG, LogHeader, LogNote, LogSector};

/// The version without notes of durable sectors.
const UNNOTED: u16 = 1;
const NOTES_AT: [usize; 2] = [LogHeader::NOTE_0.at, LogHeader::NOTE_1.at];
const NOTE_BYTES: usize = LogNote::BYTES;
const SECTOR_BYTES: usize = LogSector::BYTES;
const ENTRIES_AT: usize = LogSector::ENTRIES.at;
const ENTRY_BYTES: usize = 11;
const ENTRIES: usize = (SECTOR_BYTES - ENTRIES_AT) / ENTRY_BYTES;
/// Buffered bytes of full sectors that are written before a sync.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes read at once by recovery.
const READ_BYTES: usize = 256 << 10;
/// Wait before a sector is read again, for a writer to finish it.
const PAUSE: Duration = Duration::from_millis(1);
/// Rereads of an unchanged damaged sector: of one that a crash may have left, and of a durable
/// one.
const PATIENCE: u32 = 1;
const PATIENCE_DURABLE: u32 = 100;

/// An open log.
#[derive(Debug)]
pub(super) struct Log {
    name: String,
    file: Arc<dyn File>,
    id: [u8; 16],
    number: u64,
    format: Fixed,
    traffic: Arc<Traffic>,
    /// Full sectors not written yet; the first has the number `written`.
    buffer: Vec<u8>,
    written: u64,
    /// Entries of the sector after those.
    last: Vec<u128>,
    /// Durable sectors at the last sync.
    durable: u64,
    /// Durable sectors noted in the header, and which copy has it; none in a log of version 1.
    noted: Option<(u64, usize)>,
    /// True if entries were added since the last sync.
    is_changed: bool,
    /// Sectors of the file when opened; a closed log has a mark after its last sector.
    opened: u64,
}

impl Log {
    /// Creates the log of this number, or of the next whose name is free; durable except for its
    /// name.
    pub(super) fn create(home: &Home, number: u64) -> Result<Log> {
        let (number, name, file) = home.create(number, beside::log)?;
        file.write_at(&header(home, number), 0).map_err(Error::io("write", &name))?;
        file.sync().map_err(Error::io("sync", &name))?;
        home.traffic.written(SECTOR_BYTES as u64);
        Ok(Log { noted: Some((0, 0)), ..Log::with(home, number, name, file) })
    }

    fn with(home: &Home, number: u64, name: String, file: Arc<dyn File>) -> Log {
        Log {
            name,
            file,
            id: home.id,
            number,
            format: home.format,
            traffic: Arc::clone(&home.traffic),
            buffer: Vec::new(),
            written: 0,
            last: Vec::new(),
            durable: 0,
            noted: None,
            is_changed: false,
            opened: 0,
        }
    }

    /// Opens a log and passes its entries to `replay` in order. Opened for writing, a log is cut
    /// after them, where a crash may have left more.
    pub(super) fn open(home: &Home, number: u64, access: Access, mut replay: impl FnMut(u128)) -> Result<Log> {
        let name = beside::log(&home.name, number);
        let file = home.open(&name, access)?;
        if access != Access::Read {
            // After a failed sync the page cache may hold what the device does not: reread from
            // the device.
            file.sync().map_err(Error::io("sync", &name))?;
            file.advise(Advice::DropCache, 0, 0);
        }
        let mut log = Log::with(home, number, name, file);
        log.noted = log.check_header(home)?;
        let len = log.file.len().map_err(Error::io("length", &log.name))?;
        let whole = len / SECTOR_BYTES as u64 - 1;
        // The first sector that is damaged, or follows one that is not full.
        let mut end = None;
        log.sectors(whole, |log, number, sector| {
            let mut decoded = log.decode(number, sector);
            if access == Access::Read && end.is_none() {
                if number > 0 && log.last.len() < ENTRIES {
                    log.take_up(number - 1, &mut replay)?;
                }
                if decoded.is_none() {
                    decoded = log.settled(number, sector)?;
                }
            }
            let Some((durable, entries)) = decoded else {
                end.get_or_insert(number);
                return Ok(());
            };
            if let Some(bad) = end.filter(|bad| *bad < durable) {
                return Err(Error::corrupt(&log.name, (1 + bad) * SECTOR_BYTES as u64, "sector checksum mismatch"));
            }
            if end.is_some() || log.last.len() < ENTRIES && number > 0 {
                end.get_or_insert(number);
                return Ok(());
            }
            log.last = entries;
            log.last.iter().for_each(|entry| replay(*entry));
            Ok(())
        })?;
        let sectors = end.unwrap_or(whole);
        if let Some((noted, _)) = log.noted.filter(|(noted, _)| sectors < *noted) {
            let what = format!("the log was cut off or damaged here: {noted} sectors of it were durable");
            return Err(Error::corrupt(&log.name, (1 + sectors) * SECTOR_BYTES as u64, what));
        }
        log.opened = whole;
        if access != Access::Read {
            log.opened = sectors;
            log.file.set_len((1 + sectors) * SECTOR_BYTES as u64).map_err(Error::io("set length", &log.name))?;
            log.file.sync().map_err(Error::io("sync", &log.name))?;
        }
        log.durable = sectors;
        log.written = sectors.saturating_sub(u64::from(log.last.len() < ENTRIES));
        if log.last.len() == ENTRIES {
            log.last.clear();
        }
        Ok(log)
    }

    /// Rereads a damaged sector until it is good, or unchanged often enough.
    fn settled(&self, number: u64, before: &[u8]) -> Result<Option<(u64, Vec<u128>)>> {
        let mut before = before.to_vec();
        let is_durable = self.noted.is_some_and(|(noted, _)| number < noted);
        let mut patience = if is_durable { PATIENCE_DURABLE } else { PATIENCE };
        loop {
            sleep(PAUSE);
            let mut sector = [0; SECTOR_BYTES];
            files::read_exact(&*self.file, &self.name, &mut sector, (1 + number) * SECTOR_BYTES as u64)?;
            self.traffic.read(SECTOR_BYTES as u64);
            let decoded = self.decode(number, &sector);
            patience -= u32::from(sector[..] == before[..]);
            if decoded.is_some() || patience == 0 {
                return Ok(decoded);
            }
            before = sector.to_vec();
        }
    }

    /// Replays entries added meanwhile to the previous sector, which was not full though others
    /// follow.
    fn take_up(&mut self, number: u64, replay: &mut impl FnMut(u128)) -> Result<()> {
        let Some((_, entries)) = self.settled(number, &[])? else { return Ok(()) };
        if let Some(new) = entries.strip_prefix(&self.last[..]) {
            new.iter().for_each(|entry| replay(*entry));
            self.last = entries;
        }
        Ok(())
    }

    fn sectors(&mut self, whole: u64, mut each: impl FnMut(&mut Log, u64, &[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut number = 0;
        while number < whole {
            let bytes = ((whole - number) as usize * SECTOR_BYTES).min(READ_BYTES);
            files::read_exact(&*self.file, &self.name, &mut buffer[..bytes], (1 + number) * SECTOR_BYTES as u64)?;
            self.traffic.read(bytes as u64);
            for sector in buffer[..bytes].chunks_exact(SECTOR_BYTES) {
                each(self, number, sector)?;
                number += 1;
            }
        }
        Ok(())
    }

    /// Checks the header; returns its note of durable sectors.
    fn check_header(&self, home: &Home) -> Result<Option<(u64, usize)>> {
        let mut bytes = [0; SECTOR_BYTES];
        files::read_exact(&*self.file, &self.name, &mut bytes, 0)?;
        LOG.check_magic(&self.name, &bytes)?;
        if bytes == unnoted_header(home, self.number, UNNOTED) {
            return Ok(None);
        }
        let mut noted: Option<(u64, usize)> = None;
        for (which, at) in NOTES_AT.into_iter().enumerate() {
            let durable = LogNote::SECTORS.get(&bytes[at..]);
            let is_whole = bytes[at..at + NOTE_BYTES] == note(&home.id, self.number, which, durable);
            noted = noted.max(is_whole.then_some((durable, which)));
            bytes[at..at + NOTE_BYTES].fill(0);
        }
        if is_sealed(&bytes) {
            LOG.check_version(&self.name, &bytes)?;
        }
        if bytes != unnoted_header(home, self.number, LOG.version) {
            return Err(Error::corrupt(&self.name, LogHeader::CRC.at as u64, "the header is not that of this log"));
        }
        let lost =
            || Error::corrupt(&self.name, NOTES_AT[0] as u64, "checksum mismatch in both notes of durable sectors");
        noted.map(Some).ok_or_else(lost)
    }

    /// Adds an entry, durable after the next sync.
    pub(super) fn append(&mut self, entry: u128) -> Result<()> {
        self.is_changed = true;
        self.last.push(entry);
        if self.last.len() == ENTRIES {
            let sector = self.encode(self.next_number());
            self.buffer.extend_from_slice(&sector);
            self.last.clear();
            if self.buffer.len() >= BUFFER_BYTES {
                self.write_buffer()?;
            }
        }
        Ok(())
    }

    /// Number of the sector that `last` will be.
    fn next_number(&self) -> u64 {
        self.written + (self.buffer.len() / SECTOR_BYTES) as u64
    }

    fn write_buffer(&mut self) -> Result<()> {
        self.write(&self.buffer, self.written)?;
        self.written = self.next_number();
        self.buffer.clear();
        Ok(())
    }

    fn write(&self, bytes: &[u8], sector: u64) -> Result<()> {
        self.traffic.written(bytes.len() as u64);
        self.file.write_at(bytes, (1 + sector) * SECTOR_BYTES as u64).map_err(Error::io("write", &self.name))
    }

    /// Makes all entries durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        self.write_buffer()?;
        let mut sectors = self.written;
        if !self.last.is_empty() {
            self.write(&self.encode(self.written), self.written)?;
            sectors += 1;
        }
        if planted(Failpoint::LogNotedFirst) {
            self.note(sectors)?;
        }
        if !planted(Failpoint::LogNotSynced) {
            self.file.sync().map_err(Error::io("sync", &self.name))?;
        }
        (self.durable, self.is_changed) = (sectors, false);
        self.note(sectors)
    }

    /// Notes durable sectors in the header. The note is durable with the next sync.
    fn note(&mut self, sectors: u64) -> Result<()> {
        let Some((_, which)) = self.noted.filter(|(noted, _)| *noted < sectors) else { return Ok(()) };
        let other = 1 - which;
        let bytes = note(&self.id, self.number, other, sectors);
        self.traffic.written(bytes.len() as u64);
        self.file.write_at(&bytes, NOTES_AT[other] as u64).map_err(Error::io("write", &self.name))?;
        self.noted = Some((sectors, other));
        Ok(())
    }

    /// Syncs, and marks all sectors as durable, so that damage to the last ones is distinguished
    /// from a crash.
    pub(super) fn close(&mut self) -> Result<()> {
        self.sync()?;
        if self.durable == 0 {
            return Ok(());
        }
        // A crash may have lost the note of an unchanged log.
        self.note(self.durable)?;
        let entries = std::mem::take(&mut self.last);
        let mark = self.encode(self.durable);
        self.last = entries;
        self.write(&mark, self.durable)?;
        self.file.sync().map_err(Error::io("sync", &self.name))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        let told = self.written + u64::from(!self.last.is_empty());
        (1 + told.max(self.opened)) * SECTOR_BYTES as u64
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.buffer.capacity() as u64
    }

    fn checksum(&self, sector: u64, bytes: &[u8]) -> u32 {
        crc32(&[&self.id, &self.number.to_le_bytes(), &sector.to_le_bytes(), &bytes[4..]])
    }

    /// Encodes the sector of the entries in `last`.
    fn encode(&self, number: u64) -> [u8; SECTOR_BYTES] {
        let mut bytes = [0; SECTOR_BYTES];
        LogSector::COUNT.put(&mut bytes, self.last.len() as u16);
        LogSector::DURABLE.put(&mut bytes, self.durable);
        for (entry, place) in self.last.iter().zip(bytes[ENTRIES_AT..].as_chunks_mut::<ENTRY_BYTES>().0) {
            place[..10].copy_from_slice(&entry.to_be_bytes()[..10]);
            // With 64 bits the tombstone mark is among those ten bytes: byte 10 records it for
            // both widths.
            place[8..10].iter_mut().for_each(|byte| *byte &= if self.format.bits() == 64 { 0 } else { 0xff });
            place[10] = u8::from(entry & self.format.mark() != 0);
        }
        let crc = self.checksum(number, &bytes);
        LogSector::CRC.put(&mut bytes, crc);
        bytes
    }

    /// Durable sectors and entries in a sector; `None` if it is damaged.
    fn decode(&self, number: u64, bytes: &[u8]) -> Option<(u64, Vec<u128>)> {
        if LogSector::CRC.get(bytes) != self.checksum(number, bytes) {
            return None;
        }
        let count = usize::from(LogSector::COUNT.get(bytes));
        if count > ENTRIES {
            return None;
        }
        let entry = |place: &[u8; ENTRY_BYTES]| {
            let mut whole = [0; 16];
            whole[..10].copy_from_slice(&place[..10]);
            let fingerprint = u128::from_be_bytes(whole) & self.format.mask();
            fingerprint | if place[10] == 1 { self.format.mark() } else { 0 }
        };
        let entries = bytes[ENTRIES_AT..].as_chunks::<ENTRY_BYTES>().0[..count].iter().map(entry).collect();
        Some((LogSector::DURABLE.get(bytes), entries))
    }
}

/// Header of an empty log.
pub(super) fn header(home: &Home, number: u64) -> [u8; SECTOR_BYTES] {
    let mut bytes = unnoted_header(home, number, LOG.version);
    for (which, at) in NOTES_AT.into_iter().enumerate() {
        bytes[at..at + NOTE_BYTES].copy_from_slice(&note(&home.id, number, which, 0));
    }
    bytes
}

fn unnoted_header(home: &Home, number: u64, version: u16) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    Kind { version, ..LOG }.begin(&mut bytes);
    LogHeader::BITS.put(&mut bytes, home.format.bits());
    LogHeader::ID.put(&mut bytes, home.id);
    LogHeader::NUMBER.put(&mut bytes, number);
    seal(&mut bytes);
    bytes
}

fn note(id: &[u8; 16], number: u64, which: usize, durable: u64) -> [u8; NOTE_BYTES] {
    let crc = crc32(&[id, &number.to_le_bytes(), &[which as u8], &durable.to_le_bytes()]);
    let mut bytes = [0; NOTE_BYTES];
    LogNote::SECTORS.put(&mut bytes, durable);
    LogNote::CRC.put(&mut bytes, crc);
    bytes
}

/// Turns a log into one of version 1, without notes.
#[cfg(test)]
pub(super) fn forget_notes(log: &mut [u8]) {
    NOTES_AT.into_iter().for_each(|at| log[at..at + NOTE_BYTES].fill(0));
    Kind { version: UNNOTED, ..LOG }.begin(log);
    seal(&mut log[..SECTOR_BYTES]);
}
