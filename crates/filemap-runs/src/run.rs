//! A run: a header, blocks of 4096 bytes, and the index (first 64 bits of each block's first key).
//!
//! The index is in memory, so a look-up reads the one block that can hold the key, and more only
//! where several blocks begin with the same 64 bits.
//!
//! A file begins with a durable header that counts no block and names the owner. The run is
//! written whole and synced before its owner names it; then it never changes.

use std::ops::Range;
use std::sync::Arc;

use filemap_io::files::{read_exact, write};
use filemap_io::header::{crc32, seal};
use filemap_io::layout::{Field, Zeros};
use filemap_io::{Access, Advice, File, StorageError, layout};

use crate::format::{BLOCK_BYTES, Format, Found, PADDING_BYTES, READ_AHEAD_BYTES};
use crate::home::{Home, file_name};
use crate::traffic::Traffic;

layout! {
    /// `NAME.NUMBER.run`: header. Blocks follow, then the first 64 bits of each block's first key.
    pub(crate) struct RunHeader {
        0 MAGIC: [u8; 8] = "magic `FMDRUN01`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 PARAMETER: u32 = "bits of a fingerprint";
        16 ID: [u8; 16] = "the set's id";
        32 NUMBER: u64 = "the run's number; with the id the salt of its checksums";
        40 BLOCKS: u64 = "blocks; 0 until it is whole";
        48 LIVE: u64 = "entries that are no tombstones";
        56 TOMBSTONES: u64 = "tombstones";
        64 INDEX_CRC: u32 = "CRC-32 of the index";
        68 RESERVED: Zeros<4024> = "reserved, zero";
        4092 CRC: u32 = "CRC-32 of the bytes before";
    }
}

/// Checksum of a block.
pub(crate) const CRC: Field<u32> = Field::new(0);

/// Bytes of a header that name the owner. They lie in one sector, so they are there or not.
pub const OWNER_BYTES: usize = RunHeader::BLOCKS.at;
/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Seed of a run's checksums: owner's id, run's number.
pub(crate) type Salt = [u8; 24];

/// What the owner records of a run.
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
    /// All entries.
    pub fn entries(&self) -> u64 {
        self.live.saturating_add(self.tombstones)
    }

    /// Whether these numbers are possible.
    pub fn is_possible<F: Format>(&self) -> bool {
        let most = self.blocks.saturating_mul(F::ENTRIES_MAX as u64);
        (1..1 << 41).contains(&self.blocks) && (self.blocks..=most).contains(&self.entries())
    }

    /// Length of the file.
    pub fn disk_bytes(&self) -> u64 {
        let blocks = self.blocks.saturating_mul(8 + BLOCK_BYTES as u64);
        blocks.saturating_add(BLOCK_BYTES as u64)
    }

    pub(crate) fn salt(&self, id: [u8; 16]) -> Salt {
        let mut salt = [0; 24];
        salt[..16].copy_from_slice(&id);
        salt[16..].copy_from_slice(&self.number.to_le_bytes());
        salt
    }
}

/// The header of a run's file while it is being written.
pub fn first_header<F: Format>(home: &Home<F>, number: u64) -> Vec<u8> {
    header(home, &RunInfo { number, ..RunInfo::default() }, 0)
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
    seal(&mut bytes);
    bytes
}

/// Checksum of a block.
pub(crate) fn checksum(salt: &Salt, number: u64, bytes: &[u8]) -> u32 {
    crc32(&[salt, &number.to_le_bytes(), &bytes[4..BLOCK_BYTES]])
}

/// Offset of a block.
pub(crate) fn offset(block: u64) -> u64 {
    (1 + block) * BLOCK_BYTES as u64
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
    salt: Salt,
    format: F,
    traffic: Arc<Traffic>,
    index: Vec<u64>,
}

impl<F: Format> Run<F> {
    /// Opens a run that the owner records, and reads its index.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::NewerFormat`]; [`StorageError::Io`].
    pub fn open(home: &Home<F>, info: RunInfo) -> Result<Run<F>, StorageError> {
        let name = file_name(&home.name, info.number);
        if !info.is_possible::<F>() {
            return Err(StorageError::corrupt(&name, 0, format_args!("no run has {} blocks", info.blocks)));
        }
        let file = home.open(&name, Access::Read)?;
        let len = file.len().map_err(StorageError::io("length", &name))?;
        if len != info.disk_bytes() {
            let what = format!("the file has {len} bytes, its set says {}", info.disk_bytes());
            return Err(StorageError::corrupt(&name, len.min(info.disk_bytes()), what));
        }
        let mut first = vec![0; RunHeader::BYTES];
        read_exact(&*file, &name, &mut first, 0)?;
        F::KIND.check(&name, &first)?;
        let crc = RunHeader::INDEX_CRC.get(&first);
        if first != header(home, &info, crc) {
            let at = RunHeader::PARAMETER.at as u64;
            return Err(StorageError::corrupt(&name, at, "another run than the set names"));
        }
        let index_at = offset(info.blocks);
        let mut bytes = vec![0; 8 * info.blocks as usize];
        read_exact(&*file, &name, &mut bytes, index_at)?;
        home.traffic.read((first.len() + bytes.len()) as u64);
        if crc32(&[&bytes]) != crc {
            return Err(StorageError::corrupt(&name, index_at, "index checksum does not match"));
        }
        let index: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if !index.is_sorted() {
            return Err(StorageError::corrupt(&name, index_at, "the index is not in order"));
        }
        file.advise(Advice::Random, 0, 0);
        let (salt, traffic) = (info.salt(home.id), Arc::clone(&home.traffic));
        Ok(Run { info, salt, format: home.format.clone(), traffic, name, file, index })
    }

    /// What the owner records of it.
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
        &self.index
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        (self.index.len() * 8) as u64
    }

    /// The header as it is in the file.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn header(&self) -> Result<Vec<u8>, StorageError> {
        let mut bytes = vec![0; RunHeader::BYTES];
        read_exact(&*self.file, &self.name, &mut bytes, 0)?;
        Ok(bytes)
    }

    /// Copies the file, durably but for its name, to the home of an owner with the same id.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] if the file is shorter than it was; [`StorageError::Io`].
    pub fn copy_to(&self, to: &Home<F>) -> Result<(), StorageError> {
        let name = &self.name;
        let file = to.dir.open(name, Access::Create).map_err(StorageError::io("create", name))?;
        let (len, mut buffer) = (self.info.disk_bytes(), vec![0; COPY_BYTES as usize]);
        let mut at = 0;
        while at < len {
            // The header alone first: whose file it is, is durable before anything else is there.
            let most = if at == 0 { BLOCK_BYTES as u64 } else { COPY_BYTES };
            let bytes = &mut buffer[..(len - at).min(most) as usize];
            read_exact(&*self.file, name, bytes, at)?;
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

    /// Finds a key's entry, tombstones included. Reads one block.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn find(&self, key: F::Key<'_>) -> Result<Option<F::Entry>, StorageError> {
        let head = self.format.head(key);
        let mut after = self.index.partition_point(|first| *first <= head) as u64;
        let mut bytes = [0; BLOCK_BYTES + PADDING_BYTES];
        while after > 0 {
            self.read_block(after - 1, &mut bytes[..BLOCK_BYTES])?;
            self.check(&bytes, after - 1)?;
            match self.format.find(&bytes, key).ok_or_else(|| self.no_block(after - 1))? {
                Found::Entry(entry) => return Ok(Some(entry)),
                Found::Absent => return Ok(None),
                Found::Before => after -= 1,
            }
        }
        Ok(None)
    }

    /// Reads one block for a look-up.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn read_block(&self, block: u64, bytes: &mut [u8]) -> Result<(), StorageError> {
        read_exact(&*self.file, &self.name, bytes, offset(block))?;
        self.traffic.block_read(bytes.len() as u64);
        Ok(())
    }

    /// Reads consecutive blocks, and what follows them ahead.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn read_blocks(&self, blocks: Range<u64>, bytes: &mut [u8]) -> Result<(), StorageError> {
        read_exact(&*self.file, &self.name, bytes, offset(blocks.start))?;
        self.traffic.read(bytes.len() as u64);
        self.file.advise(Advice::WillNeed, offset(blocks.end), READ_AHEAD_BYTES);
        Ok(())
    }

    /// Checks the checksum of a block.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`].
    #[inline]
    pub fn check(&self, bytes: &[u8], number: u64) -> Result<(), StorageError> {
        match CRC.get(bytes) == checksum(&self.salt, number, bytes) {
            true => Ok(()),
            false => Err(StorageError::corrupt(&self.name, offset(number), "block checksum does not match")),
        }
    }

    /// The error of a block with a right checksum that cannot be decoded.
    #[cold]
    pub(crate) fn no_block(&self, number: u64) -> StorageError {
        StorageError::corrupt(&self.name, offset(number), "not a block of entries")
    }

    /// Appends the entries of these blocks and reads ahead what follows. `last` is the entry
    /// before them, and then their last one: unsorted entries would not be found, and could not be
    /// written to a run.
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

    /// Appends the entries of a block, which come after `last`.
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
            return Err(StorageError::corrupt(&self.name, offset(number), "the block's entries are not in order"));
        }
        *last = new.last().cloned();
        Ok(())
    }
}
