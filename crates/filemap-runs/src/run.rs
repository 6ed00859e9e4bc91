//! A run: a header, blocks of 4096 bytes, and the index of the blocks (the first 64 bits of each
//! one's first key).
//!
//! The index is kept in memory, so that a look-up reads the one block that can have the key; more
//! only where several blocks begin with keys of the same 64 bits.
//!
//! A file begins with a header that counts no block, durably: from then on it can be told whose it
//! is. It is written whole, synced, and only then named by its owner; it is never changed.

use std::ops::Range;
use std::sync::Arc;

use crc32fast::Hasher;
use filemap_io::files::{read_exact, write};
use filemap_io::header::seal;
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

/// The checksum of a block.
pub(crate) const CRC: Field<u32> = Field::new(0);

/// The bytes of a header that say whose it is. They lie in one sector, so that they are there or
/// not.
pub const OWNER_BYTES: usize = RunHeader::BLOCKS.at;
/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// What makes a run's checksums its own: the owner's id, the run's number.
pub(crate) type Salt = [u8; 24];

/// What the owner knows of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunInfo {
    /// Names the file.
    pub number: u64,
    /// Blocks.
    pub blocks: u64,
    /// Entries that are no tombstones.
    pub live: u64,
    /// Tombstones.
    pub tombstones: u64,
}

impl RunInfo {
    /// Entries in all.
    pub fn entries(&self) -> u64 {
        self.live.saturating_add(self.tombstones)
    }

    /// Whether a run can be like this.
    pub fn is_possible<F: Format>(&self) -> bool {
        let most = self.blocks.saturating_mul(F::ENTRIES_MAX as u64);
        (1..1 << 41).contains(&self.blocks) && (self.blocks..=most).contains(&self.entries())
    }

    /// The file's length.
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

/// The header with which the file of a run begins while it is written.
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

/// A block's checksum.
pub(crate) fn checksum(salt: &Salt, number: u64, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(salt);
    hasher.update(&number.to_le_bytes());
    hasher.update(&bytes[4..BLOCK_BYTES]);
    hasher.finalize()
}

/// Where a block lies in the file.
pub(crate) fn offset(block: u64) -> u64 {
    (1 + block) * BLOCK_BYTES as u64
}

/// An open run.
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
    /// Opens the run that the owner knows, and reads its index.
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
            let what = format!("the file has {len} bytes, its set asks for {}", info.disk_bytes());
            return Err(StorageError::corrupt(&name, len.min(info.disk_bytes()), what));
        }
        let mut first = vec![0; RunHeader::BYTES];
        read_exact(&*file, &name, &mut first, 0)?;
        F::KIND.check(&name, &first)?;
        let crc = RunHeader::INDEX_CRC.get(&first);
        if first != header(home, &info, crc) {
            let at = RunHeader::PARAMETER.at as u64;
            return Err(StorageError::corrupt(&name, at, "this is another run than its set names"));
        }
        let index_at = offset(info.blocks);
        let mut bytes = vec![0; 8 * info.blocks as usize];
        read_exact(&*file, &name, &mut bytes, index_at)?;
        home.traffic.read((first.len() + bytes.len()) as u64);
        if crc32fast::hash(&bytes) != crc {
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

    /// What the owner knows of it.
    pub fn info(&self) -> RunInfo {
        self.info
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it holds.
    pub fn format(&self) -> &F {
        &self.format
    }

    /// Of each block the first 64 bits of its first key.
    pub fn index(&self) -> &[u64] {
        &self.index
    }

    /// Memory that it takes.
    pub fn memory_bytes(&self) -> u64 {
        (self.index.len() * 8) as u64
    }

    /// The file's header, as it stands there.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn header(&self) -> Result<Vec<u8>, StorageError> {
        let mut bytes = vec![0; RunHeader::BYTES];
        read_exact(&*self.file, &self.name, &mut bytes, 0)?;
        Ok(bytes)
    }

    /// Copies the file, durably but for its name, to where another owner of this id keeps its own.
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

    /// Finds a key's entry, a tombstone too. Reads a block.
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

    /// Reads one block, for one look-up.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn read_block(&self, block: u64, bytes: &mut [u8]) -> Result<(), StorageError> {
        read_exact(&*self.file, &self.name, bytes, offset(block))?;
        self.traffic.block_read(bytes.len() as u64);
        Ok(())
    }

    /// Reads blocks one behind the other; what follows them is read ahead.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn read_blocks(&self, blocks: Range<u64>, bytes: &mut [u8]) -> Result<(), StorageError> {
        read_exact(&*self.file, &self.name, bytes, offset(blocks.start))?;
        self.traffic.read(bytes.len() as u64);
        self.file.advise(Advice::WillNeed, offset(blocks.end), READ_AHEAD_BYTES);
        Ok(())
    }

    /// Checks a block that was read.
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

    /// What is wrong with a block whose checksum is right.
    #[cold]
    pub(crate) fn no_block(&self, number: u64) -> StorageError {
        StorageError::corrupt(&self.name, offset(number), "this is no block of entries")
    }

    /// Appends the entries of these blocks; what follows them is read ahead. `last` is the entry
    /// before them, and the last of them then: entries that are not in order would not be found,
    /// and make runs that cannot be written.
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
