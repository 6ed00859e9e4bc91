//! A run: an immutable file of entries in order, in blocks of 4096 bytes, and the index of its blocks.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 8 | magic `FMDRUN01` |
//! | 8 | 2, 2 | the version that a reader, and a writer, must know |
//! | 12 | 4 | bits of a fingerprint |
//! | 16 | 16, 8 | the set's id; the run's number: together the salt of its checksums |
//! | 40 | 8, 8, 8 | blocks; URLs; graves |
//! | 64 | 4 | CRC-32 of the index |
//! | 68 | 4024 | 0 |
//! | 4092 | 4 | CRC-32 of the 4092 bytes before |
//! | 4096 | 4096 each | blocks ([`super::block`]) |
//! | then | 8 each | the index: of each block the highest 64 bits of its first entry |
//!
//! The index is kept in memory (13 MB for a billion URLs), so that a look-up reads the one block that can have the URL. (Two, when that
//! entry's first 64 bits are those of the next block's first: never, but for chance.) All numbers are little-endian.
//!
//! A file begins with a header that counts no block, durably: from then on it can be told whose it is ([`super::strangers`]). It is written
//! whole, synced, and only then named by the manifest; it is never changed and is removed when no manifest names it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use filemap_io::{Access, Advice, Dir, File};

use super::block::{self, BLOCK_BYTES, Block, PADDING_BYTES, Salt, VALUES_MAX};
use super::failpoint::{Mistake, planted};
use super::key::{DECIDED, FingerprintBits, SEEN, class};
use super::traffic::Traffic;
use crate::error::{Error, Result};
use crate::files::{self, array};

const MAGIC: [u8; 8] = *b"FMDRUN01";
const VERSION: u16 = 1;
const CRC_AT: usize = BLOCK_BYTES - 4;
/// The bytes of a header, of a run or a log, that say whose it is. They lie in one sector, so that they are there or not.
pub(super) const OWNER_BYTES: usize = 40;
/// Blocks that are read or written at once by whoever goes through them all.
pub(super) const CHUNK_BLOCKS: usize = 128;
/// What the system is told to read while what came before is looked at.
const READ_AHEAD_BYTES: u64 = 2 << 20;
/// A block that has at most so many values for each record is decoded and gone through; in others records are looked for.
const VALUES_PER_RECORD: usize = 5;

/// What the manifest says of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RunInfo {
    /// Names the file.
    pub(super) number: u64,
    /// When its entries came (see [`super::options`]).
    pub(super) generation: u64,
    pub(super) blocks: u64,
    pub(super) urls: u64,
    pub(super) graves: u64,
    /// The sum of the squares of the numbers of URLs in each class: what collisions follow from.
    pub(super) squares: f64,
}

impl RunInfo {
    pub(super) fn entries(&self) -> u64 {
        self.urls + self.graves
    }

    /// Whether a run can be like this: a block has 1 to 1024 entries.
    pub(super) fn is_possible(&self) -> bool {
        let most = self.blocks.saturating_mul(VALUES_MAX as u64);
        let entries = self.urls.saturating_add(self.graves);
        (1..1 << 41).contains(&self.blocks)
            && (self.blocks..=most).contains(&entries)
            && self.squares >= 0.0
            && self.squares.is_finite()
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        (1 + self.blocks) * BLOCK_BYTES as u64 + 8 * self.blocks
    }

    fn salt(&self, set: [u8; 16]) -> Salt {
        let mut salt = [0; 24];
        salt[..16].copy_from_slice(&set);
        salt[16..].copy_from_slice(&self.number.to_le_bytes());
        salt
    }
}

/// What all runs of a set share.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) dir: Arc<dyn Dir>,
    /// The set's name.
    pub(super) name: String,
    pub(super) id: [u8; 16],
    pub(super) bits: FingerprintBits,
    pub(super) traffic: Arc<Traffic>,
}

impl Home {
    pub(super) fn run_name(&self, number: u64) -> String {
        format!("{}.{number:06}.run", self.name)
    }

    pub(super) fn log_name(&self, number: u64) -> String {
        format!("{}.{number:06}.log", self.name)
    }

    /// Opens a file that the manifest names.
    pub(super) fn open(&self, name: &str, access: Access) -> Result<Arc<dyn File>> {
        match self.dir.open(name, access) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::corrupt(name, 0, "the file is gone, and its set names it"))
            }
            opened => opened.map_err(Error::io("open", name)),
        }
    }

    /// Makes the first file from this number on whose name is not taken; its number, its name.
    pub(super) fn create(&self, mut number: u64, name: impl Fn(u64) -> String) -> Result<(u64, String, Arc<dyn File>)> {
        loop {
            let name = name(number);
            match self.dir.open(&name, Access::Create) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                created => return Ok((number, name.clone(), created.map_err(Error::io("create", &name))?)),
            }
        }
    }
}

/// An open run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) info: RunInfo,
    name: String,
    file: Arc<dyn File>,
    salt: Salt,
    bits: FingerprintBits,
    traffic: Arc<Traffic>,
    index: Vec<u64>,
}

impl Run {
    /// Opens the run that the manifest describes, and reads its index.
    pub(super) fn open(home: &Home, info: RunInfo) -> Result<Run> {
        let name = home.run_name(info.number);
        let file = home.open(&name, Access::Read)?;
        let len = file.len().map_err(Error::io("length", &name))?;
        if len != info.disk_bytes() {
            let what = format!("the file has {len} bytes, its set asks for {}", info.disk_bytes());
            return Err(Error::corrupt(&name, len.min(info.disk_bytes()), what));
        }
        let mut header = vec![0; BLOCK_BYTES];
        files::read_exact(&*file, &name, &mut header, 0)?;
        let crc = check_header(&header, home, &info, &name)?;
        let index_at = (1 + info.blocks) * BLOCK_BYTES as u64;
        let mut bytes = vec![0; 8 * info.blocks as usize];
        files::read_exact(&*file, &name, &mut bytes, index_at)?;
        home.traffic.read((header.len() + bytes.len()) as u64);
        if crc32fast::hash(&bytes) != crc {
            return Err(Error::corrupt(&name, index_at, "the index's checksum is another"));
        }
        let index: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if !index.is_sorted() {
            return Err(Error::corrupt(&name, index_at, "the index is not in order"));
        }
        file.advise(Advice::Random, 0, 0);
        Ok(Run {
            info,
            salt: info.salt(home.id),
            bits: home.bits,
            traffic: Arc::clone(&home.traffic),
            name,
            file,
            index,
        })
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.index.len() * 8) as u64
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }

    /// The file's header, as it stands there.
    pub(super) fn header(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; BLOCK_BYTES];
        files::read_exact(&*self.file, &self.name, &mut bytes, 0)?;
        Ok(bytes)
    }

    /// Whether a fingerprint is here: `Some(true)` if it is a grave. Reads a block.
    pub(super) fn find(&self, fingerprint: u128) -> Result<Option<bool>> {
        let high = (fingerprint >> 64) as u64;
        let mut after = self.index.partition_point(|first| *first <= high);
        let value = fingerprint >> self.bits.shift();
        let mut bytes = [0; BLOCK_BYTES + PADDING_BYTES];
        while after > 0 {
            self.read(after as u64 - 1, &mut bytes[..BLOCK_BYTES])?;
            self.traffic.block_read(BLOCK_BYTES as u64);
            let block = self.block(&bytes, after as u64 - 1)?;
            if value >= block.base() {
                return Ok(block.cursor().find(value));
            }
            after -= 1;
        }
        Ok(None)
    }

    /// Marks those of `records` (in order, as a batch has them) that are here and not decided yet. Blocks are read one after the
    /// other, and only those that a record can be in.
    pub(super) fn find_all(&self, records: &mut [u128]) -> Result<()> {
        let mut buffer = vec![0; CHUNK_BLOCKS * BLOCK_BYTES + PADDING_BYTES];
        let (mut start, blocks) = (0, self.index.len());
        for first in (0..blocks).step_by(CHUNK_BLOCKS) {
            let end = (first + CHUNK_BLOCKS).min(blocks);
            // What is before the chunk's first block is nowhere, or was looked for already.
            start += while_below(&records[start..], self.index[first]);
            let chunk = &mut records[start..];
            let len = if end == blocks { chunk.len() } else { upto(chunk, self.index[end]) };
            if len > 0 {
                self.find_in_chunk(first..end, &mut chunk[..len], &mut buffer)?;
            }
        }
        Ok(())
    }

    fn find_in_chunk(&self, blocks: Range<usize>, records: &mut [u128], buffer: &mut [u8]) -> Result<()> {
        // Where records are few, the blocks between them are not worth reading.
        let reads_all = records.len() * 8 >= blocks.len();
        if reads_all {
            let bytes = &mut buffer[..blocks.len() * BLOCK_BYTES];
            self.read(blocks.start as u64, bytes)?;
            self.traffic.read(bytes.len() as u64);
            let next = (blocks.end as u64 + 1) * BLOCK_BYTES as u64;
            self.file.advise(Advice::WillNeed, next, READ_AHEAD_BYTES);
        }
        let (mut start, mut values) = (0, Vec::new());
        for number in blocks.clone() {
            start += while_below(&records[start..], self.index[number]);
            let rest = &mut records[start..];
            let is_last = number + 1 == blocks.end;
            let len = if is_last { rest.len() } else { upto(rest, self.index[number + 1]) };
            if len == 0 {
                continue;
            }
            let at = if reads_all { (number - blocks.start) * BLOCK_BYTES } else { 0 };
            if !reads_all {
                self.read(number as u64, &mut buffer[..BLOCK_BYTES])?;
                self.traffic.block_read(BLOCK_BYTES as u64);
            }
            let block = self.block(&buffer[at..at + BLOCK_BYTES + PADDING_BYTES], number as u64)?;
            let records = &mut rest[..len];
            if block.count() <= VALUES_PER_RECORD * len {
                values.clear();
                block.decode(&mut values);
                self.mark(records, &values);
                continue;
            }
            let mut cursor = block.cursor();
            for record in records.iter_mut().filter(|record| **record & DECIDED == 0) {
                if let Some(is_grave) = cursor.find((*record & self.bits.mask()) >> self.bits.shift()) {
                    *record |= if is_grave { DECIDED } else { DECIDED | SEEN };
                }
            }
        }
        Ok(())
    }

    /// Marks the records that are among these values: both in order, and without a branch to be mispredicted.
    fn mark(&self, records: &mut [u128], values: &[u128]) {
        let (mask, shift) = (self.bits.mask(), self.bits.shift());
        let (mut i, mut j) = (0, 0);
        while i < records.len() && j < values.len() {
            let (record, value) = ((records[i] & mask) >> shift, values[j] & !1);
            let found = if values[j] & 1 == 1 { DECIDED } else { DECIDED | SEEN };
            let is_found = record == value && records[i] & DECIDED == 0;
            records[i] |= if is_found { found } else { 0 };
            i += usize::from(record <= value);
            // The next record may be of the same URL: it is decided then.
            j += usize::from(value <= record);
        }
    }

    fn read(&self, block: u64, bytes: &mut [u8]) -> Result<()> {
        files::read_exact(&*self.file, &self.name, bytes, (1 + block) * BLOCK_BYTES as u64)
    }

    fn block<'a>(&self, bytes: &'a [u8], number: u64) -> Result<Block<'a>> {
        let at = (1 + number) * BLOCK_BYTES as u64;
        Block::of(bytes, &self.salt, number)
            .ok_or_else(|| Error::corrupt(&self.name, at, "a block's checksum is another"))
    }

    /// Appends the entries of these blocks; what follows them is read ahead. `last` is the value before them, and the last of them then: entries
    /// that are not in order would not be found, and make runs that cannot be written.
    pub(super) fn entries(
        &self,
        blocks: Range<u64>,
        buffer: &mut Vec<u8>,
        last: &mut Option<u128>,
        entries: &mut Vec<u128>,
    ) -> Result<()> {
        let bytes = (blocks.end - blocks.start) as usize * BLOCK_BYTES;
        buffer.resize(bytes + PADDING_BYTES, 0);
        self.read(blocks.start, &mut buffer[..bytes])?;
        self.traffic.read(bytes as u64);
        self.file.advise(Advice::WillNeed, (1 + blocks.end) * BLOCK_BYTES as u64, READ_AHEAD_BYTES);
        let first = entries.len();
        for number in blocks.clone() {
            let at = (number - blocks.start) as usize * BLOCK_BYTES;
            let start = entries.len();
            self.block(&buffer[at..at + BLOCK_BYTES + PADDING_BYTES], number)?.decode(entries);
            let new = &entries[start..];
            let is_behind = new.first().is_some_and(|value| last.is_none_or(|last| last < *value));
            *last = new.last().copied();
            let is_short = last.is_some_and(|last| last.leading_zeros() >= self.bits.shift());
            if !is_behind || !is_short || !new.is_sorted_by(|a, b| a < b) {
                let at = (1 + number) * BLOCK_BYTES as u64;
                return Err(Error::corrupt(&self.name, at, "the block's entries are not in order"));
            }
        }
        entries[first..].iter_mut().for_each(|value| *value <<= self.bits.shift());
        Ok(())
    }
}

/// How many of these records are below this entry of the index.
fn while_below(records: &[u128], first: u64) -> usize {
    partition(records, |high| high < first)
}

/// How many of these records are not above this entry of the index.
fn upto(records: &[u128], first: u64) -> usize {
    partition(records, |high| high <= first)
}

/// As `partition_point`, on the highest 64 bits; where it is, is often near.
fn partition(records: &[u128], is_before: impl Fn(u64) -> bool) -> usize {
    let is_before = |record: &u128| is_before((record >> 64) as u64);
    let mut step = 1;
    while step < records.len() && is_before(&records[step]) {
        step *= 2;
    }
    let from = (step / 2).min(records.len());
    let to = (step + 1).min(records.len());
    from + records[from..to].partition_point(is_before)
}

fn check_header(bytes: &[u8], home: &Home, info: &RunInfo, name: &str) -> Result<u32> {
    if bytes[..8] != MAGIC {
        return Err(Error::corrupt(name, 0, "this is no run of a set"));
    }
    if u32::from_le_bytes(array(bytes, CRC_AT)) != crc32fast::hash(&bytes[..CRC_AT]) {
        return Err(Error::corrupt(name, CRC_AT as u64, "the header's checksum is another"));
    }
    files::check_version(name, bytes, VERSION)?;
    let crc = u32::from_le_bytes(array(bytes, 64));
    if bytes[..CRC_AT] != header(home, info, crc)[..CRC_AT] {
        return Err(Error::corrupt(name, 12, "this is another run than its set names"));
    }
    Ok(crc)
}

pub(super) fn header(home: &Home, info: &RunInfo, index_crc: u32) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&home.bits.bits().to_le_bytes());
    bytes[16..40].copy_from_slice(&info.salt(home.id));
    for (i, number) in [info.blocks, info.urls, info.graves].into_iter().enumerate() {
        bytes[40 + 8 * i..48 + 8 * i].copy_from_slice(&number.to_le_bytes());
    }
    bytes[64..68].copy_from_slice(&index_crc.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Writes a run.
pub(super) struct RunWriter<'a> {
    home: &'a Home,
    name: String,
    file: Arc<dyn File>,
    info: RunInfo,
    salt: Salt,
    /// Values that are in no block yet.
    values: Vec<u128>,
    /// Blocks that are not written yet.
    buffer: Vec<u8>,
    index: Vec<u8>,
    /// The class of the last URL, and how many of it there are.
    class: (u32, u64),
}

impl<'a> RunWriter<'a> {
    /// Begins the file of run `number`, or of the next one whose name is free.
    pub(super) fn create(home: &'a Home, number: u64, generation: u64) -> Result<RunWriter<'a>> {
        let (number, name, file) = home.create(number, |number| home.run_name(number))?;
        let info = RunInfo { number, generation, ..RunInfo::default() };
        let values = Vec::with_capacity(VALUES_MAX);
        let salt = info.salt(home.id);
        let (buffer, index) = (Vec::with_capacity(CHUNK_BLOCKS * BLOCK_BYTES), Vec::new());
        let writer = RunWriter { home, name, file, info, salt, values, buffer, index, class: (0, 0) };
        writer.write(&header(home, &info, 0), 0)?;
        writer.file.sync().map_err(Error::io("sync", &writer.name))?;
        Ok(writer)
    }

    /// Appends an entry, which comes after all before.
    #[inline]
    pub(super) fn push(&mut self, entry: u128) -> Result<()> {
        if entry & self.home.bits.grave() != 0 {
            self.info.graves += 1;
        } else {
            self.info.urls += 1;
            if class(entry) != self.class.0 {
                self.info.squares += (self.class.1 as f64).powi(2);
                self.class = (class(entry), 0);
            }
            self.class.1 += 1;
        }
        self.values.push(entry >> self.home.bits.shift());
        if self.values.len() == VALUES_MAX { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> Result<()> {
        let first = self.values[0] << self.home.bits.shift();
        self.index.extend_from_slice(&((first >> 64) as u64).to_le_bytes());
        let at = self.buffer.len();
        self.buffer.resize(at + BLOCK_BYTES, 0);
        let taken = block::encode(&self.values, &self.salt, self.info.blocks, &mut self.buffer[at..]);
        self.values.drain(..taken);
        self.info.blocks += 1;
        if self.buffer.len() == CHUNK_BLOCKS * BLOCK_BYTES { self.write_buffer() } else { Ok(()) }
    }

    fn write_buffer(&mut self) -> Result<()> {
        let blocks = (self.buffer.len() / BLOCK_BYTES) as u64;
        self.write(&self.buffer, (1 + self.info.blocks - blocks) * BLOCK_BYTES as u64)?;
        self.buffer.clear();
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.home.traffic.written(bytes.len() as u64);
        self.file.write_at(bytes, at).map_err(Error::io("write", &self.name))
    }

    /// Ends the file, durably but for its name; `None`, and no file, if nothing was pushed.
    pub(super) fn end(mut self) -> Result<Option<RunInfo>> {
        while !self.values.is_empty() {
            self.write_block()?;
        }
        self.write_buffer()?;
        if self.info.blocks == 0 {
            files::remove(&*self.home.dir, &self.name)?;
            return Ok(None);
        }
        self.info.squares += (self.class.1 as f64).powi(2);
        self.write(&self.index, (1 + self.info.blocks) * BLOCK_BYTES as u64)?;
        self.write(&header(self.home, &self.info, crc32fast::hash(&self.index)), 0)?;
        if !planted(Mistake::RunNotSynced) {
            self.file.sync().map_err(Error::io("sync", &self.name))?;
        }
        Ok(Some(self.info))
    }
}
