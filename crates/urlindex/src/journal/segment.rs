//! One file of the journal: written group by group, read from front to end.
//!
//! A group is what one write appends. Its header says how many bytes of the file were durable
//! before it, and the file's header notes that after each sync: a damaged or missing group that
//! was durable is damage; any other is what a crash left of a write that was never acknowledged. A
//! note is durable with the next sync.
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
/// Maximum length of a file: places in it have 32 bits.
const BYTES_MAX: u64 = 1 << 31;

/// Directory, name, id and kind of keys that the files of a journal share.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) dir: Arc<dyn Dir>,
    /// Name of the set.
    pub(crate) name: String,
    /// Random.
    pub(crate) id: [u8; 16],
    /// Identifies the set's kind of keys: keys of another kind mean nothing in it.
    pub(crate) keys_of: u64,
}

/// A request: its id, its answers, and the keys that it added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// 0: the request has no id, and cannot be sent again.
    pub(crate) id: u128,
    /// Digest of the whole request.
    pub(crate) digest: u128,
    pub(crate) at_ms: u64,
    pub(crate) urls: u32,
    /// Two bits for each answer.
    pub(crate) verdicts: Vec<u8>,
    /// In the set's encoding.
    pub(crate) keys: Vec<u8>,
}

/// Contents of a file's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) has_keys: bool,
    /// Ids up to this time that are not in the journal were forgotten.
    pub(crate) floor_ms: u64,
}

/// A file's header as read: contents, the journal's id, the kind of keys, and a lower bound of the
/// durable bytes.
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

/// Writes a file, new or in place of the old one, durable with its name.
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

/// Encodes a note of this many durable bytes.
fn note(id: [u8; 16], number: u64, which: usize, durable: u64) -> [u8; NOTE_BYTES] {
    let mut bytes = [0; NOTE_BYTES];
    RequestsNote::BYTES_OF.put(&mut bytes, durable);
    let crc = crc32(&[&id, &number.to_le_bytes(), &[which as u8], &durable.to_le_bytes()]);
    RequestsNote::CRC.put(&mut bytes, crc);
    bytes
}

/// Appends a group to `bytes`, whose first byte is at offset `at - bytes.len()` of the file.
/// Returns the places of its records.
fn encode(home: &Home, number: u64, at: u64, durable: u64, group: &[Record], bytes: &mut Vec<u8>) -> Result<Vec<u32>> {
    let begin = bytes.len();
    bytes.resize(begin + GROUP_BYTES, 0);
    let mut places = Vec::with_capacity(group.len());
    for record in group {
        let place = at + (bytes.len() - begin) as u64;
        let long = |_| Error::from(filemap_io::StorageError::full(&home.name, "a request takes 2 GiB or more"));
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

/// Bytes of the answers to this many URLs.
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
    /// Index of the note to write next.
    next_note: usize,
}

impl Writer {
    /// Creates an empty file for records with keys.
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
    /// `Io`, or `Full`; [`Writer::cut_back`] must follow.
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

    /// Returns whether some bytes are not durable.
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

    /// Reads an appended record, without its keys.
    pub(crate) fn read(&self, at: u32) -> Result<Record> {
        read_one(&self.home, self.number, &*self.file, &self.name, at)
    }
}

/// Reads the record at this place of file `number`, without its keys.
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
    let corrupt = || Error::corrupt(name, at, "checksum mismatch in a request's answers");
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

/// Decodes the record at the front of `bytes`; returns it and the rest.
fn decode<'a>(home: &Home, number: u64, at: u64, bytes: &'a [u8]) -> Option<(Record, &'a [u8])> {
    let (head, rest) = bytes.split_at_checked(RECORD_BYTES)?;
    let (verdicts, rest) = rest.split_at_checked(verdict_bytes(RequestRecord::URLS.get(head)))?;
    let (keys, behind) = rest.split_at_checked(RequestRecord::KEY_BYTES.get(head) as usize)?;
    let is_whole = record_crc(home, number, at, head, verdicts) == RequestRecord::CRC.get(head)
        && crc32(&[keys]) == RequestRecord::KEYS_CRC.get(head);
    is_whole.then(|| (record(head, verdicts.to_vec(), keys.to_vec()), behind))
}

/// Reads the header of a file.
///
/// # Errors
/// `Corrupt`, also if its keys are those of another set; `NewerFormat`; `Io`.
pub(crate) fn head(dir: &dyn Dir, name: &str, number: u64, keys_of: Option<u64>) -> Result<Found> {
    let name = beside::requests(name, number);
    let file = dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
    let mut bytes = [0; HEADER_BYTES];
    files::read_exact(&*file, &name, &mut bytes, 0)?;
    found(&name, number, keys_of, bytes)
}

/// Decodes a header.
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
        return Err(Error::corrupt(name, RequestsHeader::CRC.at as u64, "header checksum mismatch"));
    };
    REQUESTS.check_version(name, &bytes)?;
    if RequestsHeader::NUMBER.get(&bytes) != number {
        return Err(Error::corrupt(
            name,
            RequestsHeader::NUMBER.at as u64,
            "the header has the number of another file",
        ));
    }
    let of = RequestsHeader::KEYS_OF.get(&bytes);
    if keys_of.is_some_and(|keys_of| keys_of != of) {
        return Err(Error::corrupt(name, RequestsHeader::KEYS_OF.at as u64, "the requests are those of another set"));
    }
    let has_keys = RequestsHeader::KEYS.get(&bytes) != 0;
    Ok(Found { head: Head { has_keys, floor_ms: RequestsHeader::FLOOR_MS.get(&bytes) }, id, keys_of: of, durable })
}

/// Syncs a file, and drops it from the page cache: after a failed sync or a kill the cache may
/// hold what the device does not. What is read next is on the device.
pub(crate) fn settle(home: &Home, number: u64) -> Result<()> {
    let name = beside::requests(&home.name, number);
    let file = home.dir.open(&name, Access::Write).map_err(Error::io("open", &name))?;
    if !planted(Failpoint::RecoveredUnsynced) {
        file.sync().map_err(Error::io("sync", &name))?;
    }
    file.advise(Advice::DropCache, 0, 0);
    Ok(())
}

/// Reads a file, and passes each record with its place to `each`. Leaves out what a crash left at
/// the end of the last file.
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
    // Read from this open file, since another may have its name by now; and before the rest, to
    // which a writer may be adding.
    let mut header = [0; HEADER_BYTES];
    files::read_exact(&*file, &name, &mut header, 0)?;
    let durable = found(&name, number, Some(home.keys_of), header)?.durable as usize;
    let bytes = files::read_whole(&*file, &name, BYTES_MAX)?;
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let Some(records) = group(home, number, &bytes, at) else {
            if !is_last || at < durable || is_followed(home, number, &bytes, at) {
                return Err(Error::corrupt(&name, at as u64, "checksum mismatch in a group of requests"));
            }
            return Ok(());
        };
        let behind = at + GROUP_BYTES + records.iter().map(|(_, record)| record_bytes(record)).sum::<usize>();
        records.into_iter().try_for_each(|(place, record)| each(place, record))?;
        at = behind.next_multiple_of(ALIGNMENT);
    }
    match at < durable {
        true => {
            Err(Error::corrupt(&name, at as u64, format!("the file was cut off: {durable} bytes of it were durable")))
        }
        false => Ok(()),
    }
}

fn record_bytes(record: &Record) -> usize {
    RECORD_BYTES + record.verdicts.len() + record.keys.len()
}

/// The records of the group at this place; `None` if it is damaged or cut off.
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

/// The head of the group at this place, if there is one.
fn group_head<'a>(home: &Home, number: u64, bytes: &'a [u8], at: usize) -> Option<&'a [u8]> {
    let head = bytes.get(at..at + GROUP_BYTES)?;
    (group_crc(home, number, at as u64, head) == RequestsGroup::CRC.get(head)).then_some(head)
}

/// Returns whether a later group says that this place was durable.
fn is_followed(home: &Home, number: u64, bytes: &[u8], at: usize) -> bool {
    let mut later = (at + ALIGNMENT..bytes.len()).step_by(ALIGNMENT);
    later.any(|later| {
        group_head(home, number, bytes, later).is_some_and(|head| RequestsGroup::DURABLE.get(head) > at as u64)
    })
}
