//! A run: a header, blocks of 4096 bytes with their filters after each group of 128, and the index
//! (first 64 bits of each block's first key).
//!
//! The index is in memory and the file is mapped. A look-up searches the one block that can hold
//! the key if its filter lets it pass, and more blocks only where several begin with the same 64
//! bits. Runs of version 1 have no filters: each look-up searches a block.
//!
//! A block is read by a system call and checked until a key is found in it; from then on it is
//! searched through the map, which costs a tenth. False positives of the filters map nothing: they
//! alone would make a whole set resident. A device that cannot read a block is an error at the
//! first read, and a signal only for a block that was read before and that the system has dropped.
//!
//! A file begins with a durable header that names the owner and counts no blocks. The run is
//! written whole and synced before its owner names it; then it never changes.

use std::ops::Range;
use std::sync::Arc;

use filemap_io::files::{read_exact, write};
use filemap_io::header::{crc32, seal};
use filemap_io::layout::{Field, Zeros};
use filemap_io::{Access, Advice, File, StorageError, layout};

use crate::filter::{self, FILTER_BYTES};
use crate::format::{BLOCK_BYTES, Format, Found, PADDING_BYTES, READ_AHEAD_BLOCKS};
use crate::home::{Home, file_name};
use crate::index::Index;
use crate::mapped::Mapped;
use crate::places::{Places, group_end};
use crate::traffic::Traffic;

layout! {
    /// `NAME.NUMBER.run`: header. Blocks follow, behind each 128 of them and behind the last their
    /// filters, then the first 64 bits of each block's first key.
    pub(crate) struct RunHeader {
        0 MAGIC: [u8; 8] = "magic `FMDRUN01`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 PARAMETER: u32 = "bits of a fingerprint";
        16 ID: [u8; 16] = "the set's id";
        32 NUMBER: u64 = "the run's number; with the id the salt of its checksums";
        40 BLOCKS: u64 = "blocks; 0 until it is whole";
        48 LIVE: u64 = "entries that are not tombstones";
        56 TOMBSTONES: u64 = "tombstones";
        64 INDEX_CRC: u32 = "CRC-32 of the index";
        68 FILTER_BYTES: u32 = "bytes of a block's filter: 1024; 0 in version 1, which has no filters";
        72 RESERVED: Zeros<4020> = "reserved, zero";
        4092 CRC: u32 = "CRC-32 of the bytes before";
    }
}

/// Checksum of a block.
pub(crate) const CRC: Field<u32> = Field::new(0);

/// Bytes of a header that name the owner. They lie in one sector, so they are written atomically.
pub const OWNER_BYTES: usize = RunHeader::BLOCKS.at;
/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Seed of a run's checksums: owner's id, run's number.
pub(crate) type Salt = [u8; 24];

/// The owner's record of a run.
///
/// ```
/// # use filemap_runs::{Home, Run, RunWriter, fixed::Fixed};
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// # let mut writer = RunWriter::create(&home, 1).unwrap();
/// # (1..=1000u128).for_each(|i| writer.push(i << 64).unwrap());
/// # let written = writer.end().unwrap().expect("not empty");
/// # written.sync().unwrap();
/// assert_eq!((written.info().number, written.info().entries()), (1, 1000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunInfo {
    /// Number in the file's name.
    pub number: u64,
    /// Blocks.
    pub blocks: u64,
    /// Entries that are not tombstones.
    pub live: u64,
    /// Tombstones.
    pub tombstones: u64,
}

impl RunInfo {
    /// Number of entries.
    pub fn entries(&self) -> u64 {
        self.live.saturating_add(self.tombstones)
    }

    /// Returns whether the numbers are plausible.
    pub fn is_possible<F: Format>(&self) -> bool {
        let most = self.blocks.saturating_mul(F::ENTRIES_MAX as u64);
        (1..1 << 41).contains(&self.blocks) && (self.blocks..=most).contains(&self.entries())
    }

    pub(crate) fn salt(&self, id: [u8; 16]) -> Salt {
        salt(id, self.number)
    }
}

/// Seed of the checksums of an owner's run.
pub(crate) fn salt(id: [u8; 16], number: u64) -> Salt {
    let mut salt = [0; 24];
    salt[..16].copy_from_slice(&id);
    salt[16..].copy_from_slice(&number.to_le_bytes());
    salt
}

/// The header of a run's file while the run is being written.
pub fn first_header<F: Format>(home: &Home<F>, number: u64) -> Vec<u8> {
    header(home, &RunInfo { number, ..RunInfo::default() }, 0)
}

/// Adapts a header to the version of `found`, which may be older.
fn as_version_of(found: &[u8], mut header: Vec<u8>) -> Vec<u8> {
    let versions = RunHeader::READ_VERSION.at..RunHeader::WRITE_VERSION.end();
    for part in [versions, RunHeader::FILTER_BYTES.at..RunHeader::FILTER_BYTES.end()] {
        header[part.clone()].copy_from_slice(&found[part]);
    }
    seal(&mut header);
    header
}

pub(crate) fn header<F: Format>(home: &Home<F>, info: &RunInfo, index_crc: u32) -> Vec<u8> {
    let mut bytes = vec![0; RunHeader::BYTES];
    F::KIND.begin(&mut bytes);
    RunHeader::PARAMETER.put(&mut bytes, home.format.parameter());
    RunHeader::ID.put(&mut bytes, home.id);
    RunHeader::NUMBER.put(&mut bytes, info.number);
    RunHeader::BLOCKS.put(&mut bytes, info.blocks);
    RunHeader::LIVE.put(&mut bytes, info.live);
    RunHeader::TOMBSTONES.put(&mut bytes, info.tombstones);
    RunHeader::INDEX_CRC.put(&mut bytes, index_crc);
    RunHeader::FILTER_BYTES.put(&mut bytes, FILTER_BYTES as u32);
    seal(&mut bytes);
    bytes
}

/// Checksum of a block or a filter, stored in its first bytes.
pub(crate) fn checksum(salt: &Salt, number: u64, bytes: &[u8]) -> u32 {
    crc32(&[salt, &number.to_le_bytes(), &bytes[4..]])
}

/// Copies a run's file of this length, durable except for its name, to the home of an owner with
/// the same id.
pub(crate) fn copy<F>(from: &dyn File, name: &str, len: u64, to: &Home<F>) -> Result<(), StorageError> {
    let file = to.dir.open(name, Access::Create).map_err(StorageError::io("create", name))?;
    let mut buffer = vec![0; COPY_BYTES as usize];
    let mut at = 0;
    while at < len {
        // The header first and durable: the file names its owner before it holds anything else.
        let most = if at == 0 { BLOCK_BYTES as u64 } else { COPY_BYTES };
        let bytes = &mut buffer[..(len - at).min(most) as usize];
        read_exact(from, name, bytes, at)?;
        write(&*file, name, bytes, at)?;
        if at == 0 {
            file.sync().map_err(StorageError::io("sync", name))?;
        }
        to.traffic.read(bytes.len() as u64);
        to.traffic.written(bytes.len() as u64);
        at += bytes.len() as u64;
    }
    file.sync().map_err(StorageError::io("sync", name))
}

/// An open run.
///
/// ```
/// # use filemap_runs::{Home, Run, RunWriter, fixed::Fixed};
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// # let mut writer = RunWriter::create(&home, 1).unwrap();
/// # (1..=1000u128).for_each(|i| writer.push(i << 64).unwrap());
/// # let written = writer.end().unwrap().expect("not empty");
/// # written.sync().unwrap();
/// let run = Run::open(&home, written.info()).unwrap();
/// assert_eq!(run.find(7 << 64).unwrap(), Some(7 << 64));
/// assert_eq!(run.find(7).unwrap(), None);
/// ```
#[derive(Debug)]
pub struct Run<F> {
    info: RunInfo,
    name: String,
    file: Arc<dyn File>,
    places: Places,
    mapped: Mapped,
    salt: Salt,
    format: F,
    traffic: Arc<Traffic>,
    index: Index,
}

impl<F: Format> Run<F> {
    /// Opens a run that its owner has recorded, and reads its index.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::NewerFormat`]; [`StorageError::Io`].
    pub fn open(home: &Home<F>, info: RunInfo) -> Result<Run<F>, StorageError> {
        let name = file_name(&home.name, info.number);
        if !info.is_possible::<F>() {
            return Err(StorageError::corrupt(&name, 0, format_args!("impossible number of blocks: {}", info.blocks)));
        }
        let file = home.open(&name, Access::Read)?;
        let mut first = vec![0; RunHeader::BYTES];
        read_exact(&*file, &name, &mut first, 0)?;
        F::KIND.check(&name, &first)?;
        let (crc, filter_bytes) = (RunHeader::INDEX_CRC.get(&first), RunHeader::FILTER_BYTES.get(&first));
        let filter_bytes_wanted = if RunHeader::READ_VERSION.get(&first) == 1 { 0 } else { FILTER_BYTES as u32 };
        if filter_bytes != filter_bytes_wanted {
            let what = format!("a filter has {filter_bytes_wanted} bytes, not {filter_bytes}");
            return Err(StorageError::corrupt(&name, RunHeader::FILTER_BYTES.at as u64, what));
        }
        if first != as_version_of(&first, header(home, &info, crc)) {
            let at = RunHeader::PARAMETER.at as u64;
            return Err(StorageError::corrupt(&name, at, "not the run that its owner names"));
        }
        let places = Places { blocks: info.blocks, filter_bytes: u64::from(filter_bytes) };
        let len = file.len().map_err(StorageError::io("length", &name))?;
        if len != places.len() {
            let what = format!("the file has {len} bytes, its owner recorded {}", places.len());
            return Err(StorageError::corrupt(&name, len.min(places.len()), what));
        }
        let index_at = places.index();
        let mut bytes = vec![0; 8 * info.blocks as usize];
        read_exact(&*file, &name, &mut bytes, index_at)?;
        home.traffic.read((first.len() + bytes.len()) as u64);
        let index = Index::decode(&bytes, crc, &name, index_at)?;
        file.advise(Advice::Random, 0, 0);
        let map = file.map(0, index_at as usize).map_err(StorageError::io("map", &name))?;
        let mapped = Mapped::new(map, index.heads().len());
        let (salt, traffic) = (info.salt(home.id), Arc::clone(&home.traffic));
        Ok(Run { info, places, mapped, salt, format: home.format.clone(), traffic, name, file, index })
    }

    /// The owner's record of the run.
    pub fn info(&self) -> RunInfo {
        self.info
    }

    /// Name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Format of its entries.
    pub fn format(&self) -> &F {
        &self.format
    }

    /// First 64 bits of each block's first key.
    pub fn index(&self) -> &[u64] {
        self.index.heads()
    }

    /// Number of blocks whose first 64 bits are not above `head`.
    pub(crate) fn blocks_up_to(&self, head: u64) -> u64 {
        self.index.up_to(head) as u64
    }

    /// Bytes of memory, without the system's caches.
    pub fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes() + self.mapped.memory_bytes()
    }

    /// Length of the file, in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.places.len()
    }

    /// Reads the header from the file.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn header(&self) -> Result<Vec<u8>, StorageError> {
        let mut bytes = vec![0; RunHeader::BYTES];
        read_exact(&*self.file, &self.name, &mut bytes, 0)?;
        Ok(bytes)
    }

    /// Copies the file, durable except for its name, to the home of an owner with the same id.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] if the file is now too short; [`StorageError::Io`].
    pub fn copy_to(&self, to: &Home<F>) -> Result<(), StorageError> {
        copy(&*self.file, &self.name, self.disk_bytes(), to)
    }

    /// Finds a key's entry, tombstones included. Searches one block, and mostly none for an absent
    /// key; reads it unless a key was found in it before.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn find(&self, key: F::Key<'_>) -> Result<Option<F::Entry>, StorageError> {
        let (head, hash) = (self.format.head(key), self.format.hash(key));
        let mut after = self.blocks_up_to(head);
        while after > 0 {
            let number = after - 1;
            let is_before = if self.may_have(number, hash)? {
                match self.find_in(number, key)? {
                    Found::Entry(entry) => return Ok(Some(entry)),
                    Found::Absent => false,
                    Found::Before => true,
                }
            } else {
                // The key may lie before a block that begins with the same 64 bits.
                self.index()[number as usize] == head
            };
            if !is_before {
                return Ok(None);
            }
            after = number;
        }
        Ok(None)
    }

    /// Searches a block. Not inlined: most look-ups need no block.
    #[inline(never)]
    fn find_in(&self, number: u64, key: F::Key<'_>) -> Result<Found<F::Entry>, StorageError> {
        let Some(words) = self.mapped.block(number, self.places.block(number)) else {
            return self.read_and_find(number, key);
        };
        self.traffic.block_read(0);
        self.format.find_mapped(words, key).ok_or_else(|| self.no_block(number))
    }

    /// Reads and searches a block in which no key was found yet.
    #[inline(never)]
    fn read_and_find(&self, number: u64, key: F::Key<'_>) -> Result<Found<F::Entry>, StorageError> {
        let mut bytes = [0; BLOCK_BYTES + PADDING_BYTES];
        self.read_block(number, &mut bytes[..BLOCK_BYTES])?;
        self.check(&bytes, number)?;
        let found = self.format.find(&bytes, key).ok_or_else(|| self.no_block(number))?;
        if matches!(found, Found::Entry(_)) {
            self.mapped.keep_block(number);
        }
        Ok(found)
    }

    /// Returns whether a block may hold a key with this hash, by its filter.
    #[inline]
    fn may_have(&self, number: u64, hash: u64) -> Result<bool, StorageError> {
        if self.places.filter_bytes == 0 {
            return Ok(true);
        }
        let at = self.places.filter(number);
        let words = self.mapped.filter(number, at, |bytes| self.check_filter(number, bytes))?;
        Ok(filter::may_have(words, hash))
    }

    #[cold]
    fn check_filter(&self, number: u64, bytes: &[u8]) -> Result<(), StorageError> {
        self.traffic.read(bytes.len() as u64);
        match filter::CRC.get(bytes) == checksum(&self.salt, number, bytes) {
            true => Ok(()),
            false => {
                let at = self.places.filter(number);
                Err(StorageError::corrupt(&self.name, at, "filter checksum mismatch"))
            }
        }
    }

    /// Reads one block for a look-up.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn read_block(&self, block: u64, bytes: &mut [u8]) -> Result<(), StorageError> {
        read_exact(&*self.file, &self.name, bytes, self.places.block(block))?;
        self.traffic.block_read(bytes.len() as u64);
        Ok(())
    }

    /// Reads consecutive blocks and reads ahead the blocks that follow.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn read_blocks(&self, blocks: Range<u64>, bytes: &mut [u8]) -> Result<(), StorageError> {
        debug_assert_eq!(bytes.len() as u64, (blocks.end - blocks.start) * BLOCK_BYTES as u64);
        let (mut start, mut rest) = (blocks.start, &mut *bytes);
        while start < blocks.end {
            // Filters lie between groups of blocks.
            let end = blocks.end.min(group_end(start));
            let (now, later) = rest.split_at_mut((end - start) as usize * BLOCK_BYTES);
            read_exact(&*self.file, &self.name, now, self.places.block(start))?;
            (start, rest) = (end, later);
        }
        self.traffic.read(bytes.len() as u64);
        self.read_ahead(blocks.end);
        Ok(())
    }

    /// Requests the blocks from `start` on, without the filters between them.
    fn read_ahead(&self, mut start: u64) {
        let end = (start + READ_AHEAD_BLOCKS).min(self.info.blocks);
        while start < end {
            let end = end.min(group_end(start));
            self.file.advise(Advice::WillNeed, self.places.block(start), (end - start) * BLOCK_BYTES as u64);
            start = end;
        }
    }

    /// Verifies the checksum of a block.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`].
    #[inline]
    pub fn check(&self, bytes: &[u8], number: u64) -> Result<(), StorageError> {
        match CRC.get(bytes) == checksum(&self.salt, number, &bytes[..BLOCK_BYTES]) {
            true => Ok(()),
            false => Err(StorageError::corrupt(&self.name, self.places.block(number), "block checksum mismatch")),
        }
    }

    /// The error of a block with a valid checksum that cannot be decoded.
    #[cold]
    pub(crate) fn no_block(&self, number: u64) -> StorageError {
        StorageError::corrupt(&self.name, self.places.block(number), "not a block of entries")
    }

    /// Appends the entries of these blocks and reads ahead the following blocks. `last` is the
    /// entry before them, and afterwards their last entry: unsorted entries would not be found,
    /// and could not be written to a run.
    pub(crate) fn entries(
        &self,
        blocks: Range<u64>,
        buffer: &mut Vec<u8>,
        last: &mut Option<F::Entry>,
        entries: &mut Vec<F::Entry>,
    ) -> Result<(), StorageError> {
        let bytes = (blocks.end - blocks.start) as usize * BLOCK_BYTES;
        buffer.resize(bytes + PADDING_BYTES, 0);
        self.read_blocks(blocks.clone(), &mut buffer[..bytes])?;
        for number in blocks.clone() {
            let at = (number - blocks.start) as usize * BLOCK_BYTES;
            let block = &buffer[at..at + BLOCK_BYTES + PADDING_BYTES];
            self.check(block, number)?;
            self.decode(block, number, last, entries)?;
        }
        Ok(())
    }

    /// Appends the entries of a block, which must come after `last`.
    pub(crate) fn decode(
        &self,
        block: &[u8],
        number: u64,
        last: &mut Option<F::Entry>,
        entries: &mut Vec<F::Entry>,
    ) -> Result<(), StorageError> {
        let (format, start) = (&self.format, entries.len());
        if !format.decode(block, entries) {
            return Err(self.no_block(number));
        }
        let new = &entries[start..];
        let is_behind =
            new.first().is_some_and(|entry| last.as_ref().is_none_or(|last| format.key(last) < format.key(entry)));
        if !is_behind || !new.is_sorted_by(|a, b| format.key(a) < format.key(b)) {
            let at = self.places.block(number);
            return Err(StorageError::corrupt(&self.name, at, "the block's entries are not in order"));
        }
        *last = new.last().cloned();
        Ok(())
    }
}
