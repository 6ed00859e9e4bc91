//! One file of the journal: written group by group, read from front to end.
//!
//! A group is what one write appends. Its header says how many bytes of the file were durable
//! before it, so that a damaged group with such a later one behind it is damage, and any other is
//! what a crash left of a write that nobody was told of.
//!
//! Invariants: a file under its name has a whole header; checksums cover the journal's id, the
//! file's number and the place in it, so that bytes of another file, or an older one, are never
//! taken for a group.

use std::sync::Arc;

use filemap_io::files::sync_folder;
use filemap_io::header::{crc32, seal};
use filemap_io::{Access, Dir, File};

use super::failpoint::{Failpoint, planted};
use crate::error::{Error, Result};
use crate::files::{self, beside, parse_requests};
use crate::format::{REQUESTS, RequestRecord, RequestsGroup, RequestsHeader};

const HEADER_BYTES: usize = RequestsHeader::BYTES;
const GROUP_BYTES: usize = RequestsGroup::BYTES;
const RECORD_BYTES: usize = RequestRecord::BYTES;
/// Groups begin at multiples of this.
const ALIGNMENT: usize = 8;
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
        let crc = record_crc(home, number, place, &head, &[&record.verdicts, &record.keys]);
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

fn record_crc(home: &Home, number: u64, at: u64, head: &[u8], rest: &[&[u8]]) -> u32 {
    let (number, at) = (number.to_le_bytes(), at.to_le_bytes());
    let mut parts: Vec<&[u8]> = vec![&home.id, &number, &at, &head[..RequestRecord::CRC.at]];
    parts.extend(rest);
    crc32(&parts)
}

/// Bytes of the answers to so many URLs.
pub(crate) fn verdict_bytes(urls: u32) -> usize {
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
}

impl Writer {
    /// Makes an empty file for records with keys.
    pub(crate) fn create(home: &Home, number: u64, floor_ms: u64) -> Result<Writer> {
        write(home, number, Head { has_keys: true, floor_ms }, &[])?;
        let name = beside::requests(&home.name, number);
        let file = home.dir.open(&name, Access::Write).map_err(Error::io("open", &name))?;
        let len = HEADER_BYTES as u64;
        Ok(Writer { home: home.clone(), number, name, file, len, durable: len })
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
    /// `Io`, or `Full`; nothing was appended then, if the file could be cut back.
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

    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.durable < self.len && !planted(Failpoint::AnswersNotSynced) {
            self.file.sync().map_err(Error::io("sync", &self.name))?;
        }
        self.durable = self.len;
        Ok(())
    }

    /// A record that was appended.
    pub(crate) fn read(&self, at: u32) -> Result<Record> {
        read_one(&self.home, self.number, &*self.file, &self.name, at)
    }
}

/// The record at this place of the file of this number.
pub(crate) fn read_at(home: &Home, number: u64, at: u32) -> Result<Record> {
    let name = beside::requests(&home.name, number);
    let file = home.dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
    read_one(home, number, &*file, &name, at)
}

fn read_one(home: &Home, number: u64, file: &dyn File, name: &str, at: u32) -> Result<Record> {
    let mut head = [0; RECORD_BYTES];
    files::read_exact(file, name, &mut head, u64::from(at))?;
    let rest = rest_bytes(&head);
    let len = file.len().map_err(Error::io("length", name))?;
    let corrupt = || Error::corrupt(name, u64::from(at), "checksum of a request's answers does not match");
    if rest > len {
        return Err(corrupt());
    }
    let mut bytes = head.to_vec();
    bytes.resize(RECORD_BYTES + rest as usize, 0);
    files::read_exact(file, name, &mut bytes[RECORD_BYTES..], u64::from(at) + RECORD_BYTES as u64)?;
    decode(home, number, u64::from(at), &bytes).map(|(record, _)| record).ok_or_else(corrupt)
}

/// Bytes behind the head of a record.
fn rest_bytes(head: &[u8]) -> u64 {
    verdict_bytes(RequestRecord::URLS.get(head)) as u64 + u64::from(RequestRecord::KEY_BYTES.get(head))
}

/// The record at the front of `bytes`, and what follows.
fn decode<'a>(home: &Home, number: u64, at: u64, bytes: &'a [u8]) -> Option<(Record, &'a [u8])> {
    let (head, rest) = bytes.split_at_checked(RECORD_BYTES)?;
    let (rest, behind) = rest.split_at_checked(usize::try_from(rest_bytes(head)).ok()?)?;
    if record_crc(home, number, at, head, &[rest]) != RequestRecord::CRC.get(head) {
        return None;
    }
    let urls = RequestRecord::URLS.get(head);
    let (verdicts, keys) = rest.split_at(verdict_bytes(urls));
    let record = Record {
        id: RequestRecord::ID.get(head),
        digest: RequestRecord::DIGEST.get(head),
        at_ms: RequestRecord::AT_MS.get(head),
        urls,
        verdicts: verdicts.to_vec(),
        keys: keys.to_vec(),
    };
    Some((record, behind))
}

/// The head of a file, and the id of its journal.
///
/// # Errors
/// `Corrupt`, also if its keys are of another set; `NewerFormat`; `Io`.
pub(crate) fn head(dir: &dyn Dir, name: &str, number: u64, keys_of: u64) -> Result<(Head, [u8; 16])> {
    let name = beside::requests(name, number);
    let file = dir.open(&name, Access::Read).map_err(Error::io("open", &name))?;
    let mut bytes = [0; HEADER_BYTES];
    files::read_exact(&*file, &name, &mut bytes, 0)?;
    REQUESTS.check(&name, &bytes)?;
    if RequestsHeader::NUMBER.get(&bytes) != number {
        return Err(Error::corrupt(&name, RequestsHeader::NUMBER.at as u64, "the number of another file"));
    }
    if RequestsHeader::KEYS_OF.get(&bytes) != keys_of {
        return Err(Error::corrupt(&name, RequestsHeader::KEYS_OF.at as u64, "requests to another set"));
    }
    let has_keys = RequestsHeader::KEYS.get(&bytes) != 0;
    Ok((Head { has_keys, floor_ms: RequestsHeader::FLOOR_MS.get(&bytes) }, RequestsHeader::ID.get(&bytes)))
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
    let bytes = files::read_whole(&*file, &name, BYTES_MAX)?;
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let Some(records) = group(home, number, &bytes, at) else {
            if !is_last || is_followed(home, number, &bytes, at) {
                return Err(Error::corrupt(&name, at as u64, "checksum of requests does not match"));
            }
            return Ok(());
        };
        let behind = at + GROUP_BYTES + records.iter().map(|(_, record)| record_bytes(record)).sum::<usize>();
        records.into_iter().try_for_each(|(place, record)| each(place, record))?;
        at = behind.next_multiple_of(ALIGNMENT);
    }
    Ok(())
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
