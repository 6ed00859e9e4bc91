//! An append-only log in several files: readable from any place, dropped from the front.
//!
//! A place is an offset in the whole log, so it does not change when files are removed. Each file
//! `NAME.PLACE.mail` begins with a group that holds the state before it: of older files only
//! waiting links are read. A group is one write; it is durable after [`Log::sync`]. No sector is
//! written twice, so a durable group never changes. Opening reads the newest file up to the first
//! incomplete group. What follows was never synced; if a later group says that the incomplete one
//! was durable, the file is damaged.

use std::sync::Arc;

use filemap_io::files::{self, Replacement, read_exact, sync_folder};
use filemap_io::header::crc32;
use filemap_io::{Access, Advice, Dir, File, Latch};

use crate::error::{Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::format::{GROUP_MAGIC, GroupHeader, SECTOR_BYTES, log_header, read_log_header};
use crate::names::{log_file, new_log_file, parse_log_file};

const HEAD_BYTES: u64 = GroupHeader::BYTES as u64;
/// Size from which a file is full.
const FULL_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 64 << 20 };

/// A group, and the place after it.
pub(crate) struct Group {
    pub(crate) record: Vec<u8>,
    pub(crate) next: u64,
    durable: u64,
}

/// An open log.
#[derive(Debug)]
pub(crate) struct Log {
    dir: Arc<dyn Dir>,
    name: String,
    id: [u8; 16],
    /// The place at which each file begins; groups are appended to the last one.
    bases: Vec<u64>,
    newest: Arc<dyn File>,
    end: u64,
    durable: u64,
    poison: Latch,
}

/// Lists the places at which the files of a log begin.
fn bases(dir: &dyn Dir, name: &str) -> Result<Vec<u64>> {
    let files = dir.list().map_err(Error::io("list", name))?;
    let mut bases: Vec<u64> = files.iter().filter_map(|file| parse_log_file(name, file)).collect();
    bases.sort_unstable();
    Ok(bases)
}

impl Log {
    /// Returns whether there is a log of this name.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn exists(dir: &dyn Dir, name: &str) -> Result<bool> {
        Ok(!bases(dir, name)?.is_empty())
    }

    /// Creates a log whose first group is `state`, durable with its name. Replaces any older one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(dir: Arc<dyn Dir>, name: &str, state: &[u8]) -> Result<Log> {
        for base in bases(&*dir, name)? {
            files::remove(&*dir, &log_file(name, base))?;
        }
        let id = files::new_id(&*dir)?;
        let (newest, end) = create_file(&*dir, name, id, 0, 0, state)?;
        Ok(Log { dir, name: name.to_owned(), id, bases: vec![0], newest, end, durable: end, poison: Latch::default() })
    }

    /// Opens a log. What a crash left after its last complete group is cut off.
    ///
    /// # Errors
    /// `Corrupt`, also if there is none; `NewerFormat`; `Io`.
    pub(crate) fn open(dir: Arc<dyn Dir>, name: &str) -> Result<Log> {
        // An earlier handle may have failed to sync the folder, so that a rename is not durable.
        sync_folder(&*dir)?;
        let bases = bases(&*dir, name)?;
        let Some(&base) = bases.last() else { return Err(Error::corrupt(name, 0, "its files are missing")) };
        files::remove(&*dir, &new_log_file(name, base))?;
        let file = log_file(name, base);
        let newest = dir.open(&file, Access::Write).map_err(Error::io("open", &file))?;
        // After a failed sync the page cache may hold what the device does not.
        newest.sync().map_err(Error::io("sync", &file))?;
        newest.advise(Advice::DropCache, 0, 0);
        let id = read_log_header(&*newest, &file, base)?;
        let mut log =
            Log { dir, name: name.to_owned(), id, bases, newest, end: base, durable: base, poison: Latch::default() };
        let len = log.newest.len().map_err(Error::io("length", &file))?;
        let end = base + len.saturating_sub(SECTOR_BYTES);
        while let Some(group) = log.group(&*Arc::clone(&log.newest), &file, base, log.end, end)? {
            log.end = group.next;
        }
        log.check_rest(&file, base, end)?;
        if log.end == base {
            return Err(Error::corrupt(&file, SECTOR_BYTES, "the first group is damaged"));
        }
        log.newest.set_len(SECTOR_BYTES + (log.end - base)).map_err(Error::io("set length", &file))?;
        log.newest.sync().map_err(Error::io("sync", &file))?;
        log.durable = log.end;
        Ok(log)
    }

    /// Checks that no group after the last complete one says that more was durable.
    fn check_rest(&self, file: &str, base: u64, end: u64) -> Result<()> {
        let mut at = self.end + SECTOR_BYTES;
        while at < end {
            if self.group(&*self.newest, file, base, at, end)?.is_some_and(|group| group.durable > self.end) {
                let offset = SECTOR_BYTES + (self.end - base);
                return Err(Error::corrupt(file, offset, "checksum mismatch in a durable group"));
            }
            at += SECTOR_BYTES;
        }
        Ok(())
    }

    /// Reads the group at `at` of the file that begins at `base` and ends at `end`; `None` if it
    /// is incomplete.
    fn group(&self, file: &dyn File, name: &str, base: u64, at: u64, end: u64) -> Result<Option<Group>> {
        if at < base || at + HEAD_BYTES > end {
            return Ok(None);
        }
        let offset = SECTOR_BYTES + (at - base);
        let mut head = [0; GroupHeader::BYTES];
        read_exact(file, name, &mut head, offset)?;
        let len = GroupHeader::LEN.get(&head);
        if GroupHeader::MAGIC.get(&head) != GROUP_MAGIC || len > end - at - HEAD_BYTES {
            return Ok(None);
        }
        let mut record = vec![0; len as usize];
        read_exact(file, name, &mut record, offset + HEAD_BYTES)?;
        let is_whole = GroupHeader::CRC.get(&head) == checksum(self.id, at, &head[GroupHeader::CRC.end()..], &record);
        let (next, durable) = (at + group_bytes(len), GroupHeader::DURABLE.get(&head));
        Ok(is_whole.then_some(Group { record, next, durable }))
    }

    /// Reads the group at a place; `None` at the end.
    ///
    /// # Errors
    /// `Corrupt`: it is damaged, or no group begins there; `Io`.
    pub(crate) fn read(&self, at: u64) -> Result<Option<Group>> {
        if at >= self.end {
            return Ok(None);
        }
        let nth = self.bases.partition_point(|base| *base <= at);
        let Some(&base) = nth.checked_sub(1).and_then(|nth| self.bases.get(nth)) else {
            return Err(Error::corrupt(&self.name, at, "the file that has this place is missing"));
        };
        let (name, end) = (log_file(&self.name, base), self.bases.get(nth).copied().unwrap_or(self.end));
        let group = match nth == self.bases.len() {
            true => self.group(&*self.newest, &name, base, at, end)?,
            false => {
                let file = self.dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
                if at == base && read_log_header(&*file, &name, base)? != self.id {
                    return Err(Error::corrupt(&name, 16, "the file belongs to another log"));
                }
                self.group(&*file, &name, base, at, end)?
            }
        };
        let damaged =
            || Error::corrupt(&name, SECTOR_BYTES + (at - base), "checksum mismatch, or no group begins there");
        group.map(Some).ok_or_else(damaged)
    }

    /// Appends a group, durable after [`Log::sync`]. Returns its place.
    ///
    /// # Errors
    /// `Io`: nothing is appended, and if the disk was full, the call may be repeated; `Poisoned`.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<u64> {
        self.poison.check()?;
        let bytes = group(self.id, self.end, self.durable, record);
        let (file, base) = self.newest_name();
        let offset = SECTOR_BYTES + (self.end - base);
        if let Err(error) = self.newest.write_at(&bytes, offset).map_err(Error::io("write", &file)) {
            let cut = self.newest.set_len(offset).map_err(Error::io("set length", &file));
            self.poison.note(cut)?;
            return if error.is_no_space() { Err(error) } else { self.poison.note(Err(error)) };
        }
        let at = self.end;
        self.end += bytes.len() as u64;
        Ok(at)
    }

    /// Makes all groups durable.
    ///
    /// # Errors
    /// `Io`, and from then on `Poisoned`.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.poison.check()?;
        if self.durable == self.end {
            return Ok(());
        }
        if !planted(Failpoint::NotSynced) {
            let (file, _) = self.newest_name();
            let synced = self.newest.sync().map_err(Error::io("sync", &file));
            self.poison.note(synced)?;
        }
        self.durable = self.end;
        Ok(())
    }

    /// Returns whether [`Log::begin_file`] is due.
    pub(crate) fn is_full(&self) -> bool {
        self.end - self.newest_name().1 >= FULL_BYTES
    }

    /// Begins a file with `state`, which holds all that is needed of the groups before. Makes all
    /// groups durable first.
    ///
    /// # Errors
    /// `Io`: if the disk was full, the call may be repeated; `Poisoned`.
    pub(crate) fn begin_file(&mut self, state: &[u8]) -> Result<()> {
        self.sync()?;
        let made = create_file(&*self.dir, &self.name, self.id, self.end, self.durable, state);
        let (newest, end) = match made {
            // A file that already has its name would hide groups appended to the file before it.
            Err(error) if error.is_no_space() && !files::exists(&*self.dir, &log_file(&self.name, self.end))? => {
                return Err(error);
            }
            made => self.poison.note(made)?,
        };
        self.bases.push(self.end);
        (self.newest, self.end, self.durable) = (newest, end, end);
        Ok(())
    }

    /// Removes files that end at or before a place; never the newest.
    ///
    /// # Errors
    /// `Io`: those left are removed the next time.
    pub(crate) fn remove_before(&mut self, place: u64) -> Result<()> {
        while let [first, second, ..] = self.bases[..] {
            if second > place && !planted(Failpoint::RemovedEarly) {
                break;
            }
            files::remove(&*self.dir, &log_file(&self.name, first))?;
            self.bases.remove(0);
        }
        Ok(())
    }

    /// The first place that can be read.
    pub(crate) fn begin(&self) -> u64 {
        self.bases.first().copied().unwrap_or(self.end)
    }

    /// The place at which the newest file begins.
    pub(crate) fn newest_base(&self) -> u64 {
        self.newest_name().1
    }

    /// The place after the last group.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The place up to which groups are durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Name and beginning of the newest file.
    fn newest_name(&self) -> (String, u64) {
        let base = self.bases.last().copied().unwrap_or(0);
        (log_file(&self.name, base), base)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Creates a file with its first group, durable with its name. Returns it and the place after it.
fn create_file(
    dir: &dyn Dir,
    name: &str,
    id: [u8; 16],
    base: u64,
    durable: u64,
    state: &[u8],
) -> Result<(Arc<dyn File>, u64)> {
    let (file, new) = (log_file(name, base), new_log_file(name, base));
    files::remove(dir, &new)?;
    let bytes = [&log_header(id, base)[..], &group(id, base, durable, state)].concat();
    let replacement = Replacement::begin(dir, &file, &new)?;
    files::write(replacement.file(), &new, &bytes, 0)?;
    if !planted(Failpoint::FileNotSynced) {
        replacement.sync()?;
    }
    replacement.commit()?;
    let newest = dir.open(&file, Access::Write).map_err(Error::io("open", &file))?;
    Ok((newest, base + bytes.len() as u64 - SECTOR_BYTES))
}

/// Encodes a group at a place.
fn group(id: [u8; 16], at: u64, durable: u64, record: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; GroupHeader::BYTES];
    GroupHeader::MAGIC.put(&mut bytes, GROUP_MAGIC);
    GroupHeader::LEN.put(&mut bytes, record.len() as u64);
    GroupHeader::DURABLE.put(&mut bytes, durable);
    let crc = checksum(id, at, &bytes[GroupHeader::CRC.end()..], record);
    GroupHeader::CRC.put(&mut bytes, crc);
    bytes.extend_from_slice(record);
    bytes.resize(group_bytes(record.len() as u64) as usize, 0);
    bytes
}

/// Size of a group in the file.
fn group_bytes(record_bytes: u64) -> u64 {
    (HEAD_BYTES + record_bytes).next_multiple_of(SECTOR_BYTES)
}

fn checksum(id: [u8; 16], at: u64, head: &[u8], record: &[u8]) -> u32 {
    crc32(&[&id, &at.to_le_bytes(), head, record])
}
