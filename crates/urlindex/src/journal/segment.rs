//! One file of the journal: written group by group, read from front to end.
//!
//! A group is what one write appends. Its header says how many bytes of the file were durable
//! before it, and the file's header notes that after each sync: a damaged or missing group that
//! was durable is damage, and any other is what a crash left of a write that nobody was told of.
//! A note is durable with the next sync.
//!
//! Invariants: a file under its name has a whole header; checksums cover the journal's id, the
//! file's number and the place in it, so that bytes of another file, or an older one, are never
//! taken for a group.

use std::sync::Arc;

use filemap_io::files::sync_folder;
use filemap_io::header::{crc32, is_sealed, seal};
use filemap_io::{Access, Advice, Dir, File};

use super::failpoint::{Failpoint, planted};
use crate::error::{Error, Result};
use crate::files::{self, beside, parse_requests};
use crate::format::{REQUESTS, RequestRecord, RequestsGroup, RequestsHeader, RequestsNote};

const HEADER_BYTES: usize = RequestsHeader::BYTES;
const GROUP_BYTES: usize = RequestsGroup::BYTES;
const RECORD_BYTES: usize = RequestRecord::BYTES;
/// Groups begin at multiples of this.
const ALIGNMENT: usize = 8;
const NOTES_AT: [usize; 2] = [RequestsHeader::NOTE_0.at, RequestsHeader::NOTE_1.at];
const NOTE_BYTES: usize = RequestsNote::BYTES;
/// Most bytes of a file: places in it have 32 bits.
const BYTES_MAX: u64 = 1 << 31;

/// What the files of a journal share.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) dir: Arc<dyn Dir>,
    /// Name of the set.
    pub(crate) name: String,
    /// Random.
    pub(crate) id: [u8; 16],
    /// What keys the set has: those of another set mean nothing in it.
    pub(crate) keys_of: u64,
}

/// A request, what was answered, and the keys that it brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// 0: it has none, and cannot be asked again.
    pub(crate) id: u128,
    /// Of all that was asked for.
    pub(crate) digest: u128,
    pub(crate) at_ms: u64,
    pub(crate) urls: u32,
    /// An answer in two bits each.
    pub(crate) verdicts: Vec<u8>,
    /// As the set writes them.
    pub(crate) keys: Vec<u8>,
}

/// What the header of a file says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) has_keys: bool,
    /// Ids up to this time that the journal does not have were forgotten.
    pub(crate) floor_ms: u64,
}

/// The header of a file: what it says, the id of its journal, which sets have such keys, durable
/// bytes at least.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) head: Head,
    pub(crate) id: [u8; 16],
    pub(crate) keys_of: u64,
    pub(crate) durable: u64,
}

/// Numbers of the set's files in order.
pub(crate) fn numbers(dir: &dyn Dir, name: &str) -> Result<Vec<u64>> {
    let names = dir.list().map_err(Error::io("list", name))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|file| parse_requests(name, file)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Writes a new file, or one in place of the old, durable with its name.
pub(crate) fn write(home: &Home, number: u64, head: Head, groups: &[Vec<Record>]) -> Result<Vec<Vec<u32>>> {
    let name = beside::requests(&home.name, number);
    let mut bytes = header(home, number, head);
    let mut places = Vec::with_capacity(groups.len());
    for group in groups {
        let durable = bytes.len() as u64;
        places.push(encode(home, number, durable, durable, group, &mut bytes)?);
    }
    let end = bytes.len() as u64;
    for (which, at) in NOTES_AT.into_iter().enumerate() {
        bytes[at..at + NOTE_BYTES].copy_from_slice(&note(home.id, number, which, end));
    }
    files::replace_by(&*home.dir, &name, &bytes)?;
    sync_folder(&*home.dir)?;
    Ok(places)
}

fn header(home: &Home, number: u64, head: Head) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    REQUESTS.begin(&mut bytes);
    RequestsHeader::KEYS.put(&mut bytes, u8::from(head.has_keys));
    RequestsHeader::ID.put(&mut bytes, home.id);
    RequestsHeader::NUMBER.put(&mut bytes, number);
    RequestsHeader::FLOOR_MS.put(&mut bytes, head.floor_ms);
    RequestsHeader::KEYS_OF.put(&mut bytes, home.keys_of);
    seal(&mut bytes);
    for (which, at) in NOTES_AT.into_iter().enumerate() {
        bytes[at..at + NOTE_BYTES].copy_from_slice(&note(home.id, number, which, 0));
    }
    bytes
}

/// A note of this many durable bytes.
fn note(id: [u8; 16], number: u64, which: usize, durable: u64) -> [u8; NOTE_BYTES] {
    let mut bytes = [0; NOTE_BYTES];
    RequestsNote::BYTES_OF.put(&mut bytes, durable);
    let crc = crc32(&[&id, &number.to_le_bytes(), &[which as u8], &durable.to_le_bytes()]);
    RequestsNote::CRC.put(&mut bytes, crc);
    bytes
}

/// Appends a group to `bytes`, whose first byte has the place `at - bytes.len()` in the file.
/// Returns the places of its records.
fn encode(home: &Home, number: u64, at: u64, durable: u64, group: &[Record], bytes: &mut Vec<u8>) -> Result<Vec<u32>> {
    let begin = bytes.len();
    bytes.resize(begin + GROUP_BYTES, 0);
    let mut places = Vec::with_capacity(group.len());
    for record in group {
        let place = at + (bytes.len() - begin) as u64;
        let long = |_| Error::from(filemap_io::StorageError::full(&home.name, "a request of 2 GiB and more"));
        let here = u32::try_from(place).ok().filter(|here| u64::from(*here) < BYTES_MAX);
        places.push(here.ok_or(()).map_err(long)?);
        let mut head = [0; RECORD_BYTES];
        RequestRecord::ID.put(&mut head, record.id);
        RequestRecord::DIGEST.put(&mut head, record.digest);
        RequestRecord::AT_MS.put(&mut head, record.at_ms);
        RequestRecord::URLS.put(&mut head, record.urls);
        RequestRecord::KEY_BYTES.put(&mut head, u32::try_from(record.keys.len()).map_err(|_| long(()))?);
        RequestRecord::KEYS_CRC.put(&mut head, crc32(&[&record.keys]));
        let crc = record_crc(home, number, place, &head, &record.verdicts);
        RequestRecord::CRC.put(&mut head, crc);
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&record.verdicts);
        bytes.extend_from_slice(&record.keys);
    }
    let records = (bytes.len() - begin - GROUP_BYTES) as u32;
    bytes.resize(begin + (bytes.len() - begin).next_multiple_of(ALIGNMENT), 0);
    let head = &mut bytes[begin..begin + GROUP_BYTES];
    RequestsGroup::BYTES_OF.put(head, records);
    RequestsGroup::RECORDS.put(head, group.len() as u32);
    RequestsGroup::DURABLE.put(head, durable);
    let crc = group_crc(home, number, at, head);
    RequestsGroup::CRC.put(head, crc);
    Ok(places)
}

fn group_crc(home: &Home, number: u64, at: u64, head: &[u8]) -> u32 {
    crc32(&[&home.id, &number.to_le_bytes(), &at.to_le_bytes(), &head[..RequestsGroup::CRC.at]])
}

fn record_crc(home: &Home, number: u64, at: u64, head: &[u8], verdicts: &[u8]) -> u32 {
    crc32(&[&home.id, &number.to_le_bytes(), &at.to_le_bytes(), &head[..RequestRecord::CRC.at], verdicts])
}

/// Bytes of the answers to so many URLs.
fn verdict_bytes(urls: u32) -> usize {
    (urls as usize).div_ceil(4)
}

/// A file that is appended to.
#[derive(Debug)]
pub(crate) struct Writer {
    home: Home,
    number: u64,
    name: String,
    file: Arc<dyn File>,
    len: u64,
    durable: u64,
    /// Which note is written next.
    next_note: usize,
}

impl Writer {
    /// Makes an empty file for records with keys.
    pub(crate) fn create(home: &Home, number: u64, floor_ms: u64) -> Result<Writer> {
        write(home, number, Head { has_keys: true, floor_ms }, &[])?;
        let name = beside::requests(&home.name, number);
        let file = home.dir.open(&name, Access::Write).map_err(Error::io("open", &name))?;
        let len = HEADER_BYTES as u64;
        Ok(Writer { home: home.clone(), number, name, file, len, durable: len, next_note: 0 })
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends a group; durable after [`Writer::sync`]. Returns the places of its records.
    ///
    /// # Errors
    /// `Io`, or `Full`; [`Writer::cut_back`] has to follow.
    pub(crate) fn append(&mut self, group: &[Record]) -> Result<Vec<u32>> {
        let mut bytes = Vec::new();
        let places = encode(&self.home, self.number, self.len, self.durable, group, &mut bytes)?;
        self.file.write_at(&bytes, self.len).map_err(Error::io("write", &self.name))?;
        self.len += bytes.len() as u64;
        Ok(places)
    }

    /// Cuts off what a failed [`Writer::append`] may have left.
    pub(crate) fn cut_back(&self) -> Result<()> {
        self.file.set_len(self.len).map_err(Error::io("set length", &self.name))
    }

    /// Whether something is not durable.
    pub(crate) fn is_changed(&self) -> bool {
        self.durable < self.len
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        if !self.is_changed() {
            return Ok(());
        }
        if !planted(Failpoint::AnswersNotSynced) {
            self.file.sync().map_err(Error::io("sync", &self.name))?;
        }
        self.durable = self.len;
        let bytes = note(self.home.id, self.number, self.next_note, self.durable);
        self.file.write_at(&bytes, NOTES_AT[self.next_note] as u64).map_err(Error::io("write", &self.name))?;
        self.next_note = 1 - self.next_note;
        Ok(())
    }

    /// A record that was appended, without its keys.
    pub(crate) fn read(&self, at: u32) -> Result<Record> {
        read_one(&self.home, self.number, &*self.file, &self.name, at)
    }
}

/// The record at this place of the file of this number, without its keys.
pub(crate) fn read_at(home: &Home, number: u64, at: u32) -> Result<Record> {
    let name = beside::requests(&home.name, number);
    let file = home.dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
    read_one(home, number, &*file, &name, at)
}

fn read_one(home: &Home, number: u64, file: &dyn File, name: &str, at: u32) -> Result<Record> {
    let at = u64::from(at);
    let mut head = [0; RECORD_BYTES];
    files::read_exact(file, name, &mut head, at)?;
    let bytes = verdict_bytes(RequestRecord::URLS.get(&head));
    let len = file.len().map_err(Error::io("length", name))?;
    let corrupt = || Error::corrupt(name, at, "checksum of a request's answers does not match");
    if bytes as u64 > len {
        return Err(corrupt());
    }
    let mut verdicts = vec![0; bytes];
    files::read_exact(file, name, &mut verdicts, at + RECORD_BYTES as u64)?;
    match record_crc(home, number, at, &head, &verdicts) == RequestRecord::CRC.get(&head) {
        true => Ok(record(&head, verdicts, Vec::new())),
        false => Err(corrupt()),
    }
}

fn record(head: &[u8], verdicts: Vec<u8>, keys: Vec<u8>) -> Record {
    Record {
        id: RequestRecord::ID.get(head),
        digest: RequestRecord::DIGEST.get(head),
        at_ms: RequestRecord::AT_MS.get(head),
        urls: RequestRecord::URLS.get(head),
        verdicts,
        keys,
    }
}

/// The record at the front of `bytes`, and what follows.
fn decode<'a>(home: &Home, number: u64, at: u64, bytes: &'a [u8]) -> Option<(Record, &'a [u8])> {
    let (head, rest) = bytes.split_at_checked(RECORD_BYTES)?;
    let (verdicts, rest) = rest.split_at_checked(verdict_bytes(RequestRecord::URLS.get(head)))?;
    let (keys, behind) = rest.split_at_checked(RequestRecord::KEY_BYTES.get(head) as usize)?;
    let is_whole = record_crc(home, number, at, head, verdicts) == RequestRecord::CRC.get(head)
        && crc32(&[keys]) == RequestRecord::KEYS_CRC.get(head);
    is_whole.then(|| (record(head, verdicts.to_vec(), keys.to_vec()), behind))
}

/// What the header of a file says.
///
/// # Errors
/// `Corrupt`, also if its keys are of another set; `NewerFormat`; `Io`.
pub(crate) fn head(dir: &dyn Dir, name: &str, number: u64, keys_of: Option<u64>) -> Result<Found> {
    let name = beside::requests(name, number);
    let file = dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
    let mut bytes = [0; HEADER_BYTES];
    files::read_exact(&*file, &name, &mut bytes, 0)?;
    found(&name, number, keys_of, bytes)
}

/// What these bytes of a header say.
fn found(name: &str, number: u64, keys_of: Option<u64>, mut bytes: [u8; HEADER_BYTES]) -> Result<Found> {
    REQUESTS.check_magic(name, &bytes)?;
    let id = RequestsHeader::ID.get(&bytes);
    let mut durable = None;
    for (which, at) in NOTES_AT.into_iter().enumerate() {
        let noted = RequestsNote::BYTES_OF.get(&bytes[at..]);
        let is_whole = bytes[at..at + NOTE_BYTES] == note(id, number, which, noted);
        durable = durable.max(is_whole.then_some(noted));
        bytes[at..at + NOTE_BYTES].fill(0);
    }
    let Some(durable) = durable.filter(|_| is_sealed(&bytes)) else {
        return Err(Error::corrupt(name, RequestsHeader::CRC.at as u64, "header checksum does not match"));
    };
    REQUESTS.check_version(name, &bytes)?;
    if RequestsHeader::NUMBER.get(&bytes) != number {
        return Err(Error::corrupt(name, RequestsHeader::NUMBER.at as u64, "the number of another file"));
    }
    let of = RequestsHeader::KEYS_OF.get(&bytes);
    if keys_of.is_some_and(|keys_of| keys_of != of) {
        return Err(Error::corrupt(name, RequestsHeader::KEYS_OF.at as u64, "requests to another set"));
    }
    let has_keys = RequestsHeader::KEYS.get(&bytes) != 0;
    Ok(Found { head: Head { has_keys, floor_ms: RequestsHeader::FLOOR_MS.get(&bytes) }, id, keys_of: of, durable })
}

/// After a failed sync the page cache may hold what the device does not, and after a kill too:
/// what is read next is on the device.
pub(crate) fn settle(home: &Home, number: u64) -> Result<()> {
    let name = beside::requests(&home.name, number);
    let file = home.dir.open(&name, Access::Write).map_err(Error::io("open", &name))?;
    if !planted(Failpoint::RecoveredUnsynced) {
        file.sync().map_err(Error::io("sync", &name))?;
    }
    file.advise(Advice::DropCache, 0, 0);
    Ok(())
}

/// Reads a file, and passes each record with its place to `each`. Of the last file what a crash
/// left at the end is left out.
///
/// # Errors
/// `Corrupt`; `Io`; those of `each`.
pub(crate) fn read(
    home: &Home,
    number: u64,
    is_last: bool,
    mut each: impl FnMut(u32, Record) -> Result<()>,
) -> Result<()> {
    let name = beside::requests(&home.name, number);
    let file = home.dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
    // Of this very file, since another may have its name by now; and before the rest is read, to
    // which a writer may be adding.
    let mut header = [0; HEADER_BYTES];
    files::read_exact(&*file, &name, &mut header, 0)?;
    let durable = found(&name, number, Some(home.keys_of), header)?.durable as usize;
    let bytes = files::read_whole(&*file, &name, BYTES_MAX)?;
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let Some(records) = group(home, number, &bytes, at) else {
            if !is_last || at < durable || is_followed(home, number, &bytes, at) {
                return Err(Error::corrupt(&name, at as u64, "checksum of requests does not match"));
            }
            return Ok(());
        };
        let behind = at + GROUP_BYTES + records.iter().map(|(_, record)| record_bytes(record)).sum::<usize>();
        records.into_iter().try_for_each(|(place, record)| each(place, record))?;
        at = behind.next_multiple_of(ALIGNMENT);
    }
    match at < durable {
        true => Err(Error::corrupt(&name, at as u64, format!("it was cut off: {durable} bytes of it were durable"))),
        false => Ok(()),
    }
}

fn record_bytes(record: &Record) -> usize {
    RECORD_BYTES + record.verdicts.len() + record.keys.len()
}

/// The records of the group at this place; `None` if it is not whole.
fn group(home: &Home, number: u64, bytes: &[u8], at: usize) -> Option<Vec<(u32, Record)>> {
    let head = group_head(home, number, bytes, at)?;
    let begin = at + GROUP_BYTES;
    let mut rest = bytes.get(begin..begin + RequestsGroup::BYTES_OF.get(head) as usize)?;
    let end = begin + rest.len();
    let mut records = Vec::new();
    for _ in 0..RequestsGroup::RECORDS.get(head) {
        let place = end - rest.len();
        let (record, behind) = decode(home, number, place as u64, rest)?;
        records.push((place as u32, record));
        rest = behind;
    }
    rest.is_empty().then_some(records)
}

/// The head of a group, if there is one at this place.
fn group_head<'a>(home: &Home, number: u64, bytes: &'a [u8], at: usize) -> Option<&'a [u8]> {
    let head = bytes.get(at..at + GROUP_BYTES)?;
    (group_crc(home, number, at as u64, head) == RequestsGroup::CRC.get(head)).then_some(head)
}

/// Whether a later group says that this place was durable.
fn is_followed(home: &Home, number: u64, bytes: &[u8], at: usize) -> bool {
    let mut later = (at + ALIGNMENT..bytes.len()).step_by(ALIGNMENT);
    later.any(|later| {
        group_head(home, number, bytes, later).is_some_and(|head| RequestsGroup::DURABLE.get(head) > at as u64)
    })
}
