//! Writes a run from front to end: blocks and filters as they fill, then the index, then the final
//! header.

use std::sync::Arc;

use filemap_io::files::{remove, write};
use filemap_io::header::crc32;
use filemap_io::{File, StorageError};

use crate::filter::{self, FILTER_BYTES};
use crate::format::{BLOCK_BYTES, CHUNK_BLOCKS, Format};
use crate::home::{Home, file_name};
use crate::places::Places;
use crate::run::{CRC, RunInfo, Salt, checksum, header};

/// Writer of a run. After an error it is unusable.
///
/// ```
/// use filemap_runs::fixed::Fixed;
/// use filemap_runs::{Home, RunWriter};
///
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// let mut writer = RunWriter::create(&home, 1).unwrap();
/// (1..=1000u128).for_each(|i| writer.push(i << 64).unwrap());
/// let written = writer.end().unwrap().expect("not empty");
/// written.sync().unwrap();
/// ```
#[derive(Debug)]
pub struct RunWriter<'a, F: Format> {
    home: &'a Home<F>,
    name: String,
    file: Arc<dyn File>,
    info: RunInfo,
    salt: Salt,
    /// Entries not encoded yet.
    entries: Vec<F::Entry>,
    /// Blocks not written yet.
    buffer: Vec<u8>,
    /// Filters of the blocks in `buffer`.
    filters: Vec<u8>,
    index: Vec<u8>,
}

impl<'a, F: Format> RunWriter<'a, F> {
    /// Creates the file of run `number`, or of the next number whose name is free.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn create(home: &'a Home<F>, number: u64) -> Result<RunWriter<'a, F>, StorageError> {
        let (number, name, file) = home.create(number, file_name)?;
        let info = RunInfo { number, ..RunInfo::default() };
        let (entries, salt) = (Vec::with_capacity(F::ENTRIES_MAX), info.salt(home.id));
        let buffer = Vec::with_capacity(CHUNK_BLOCKS * (BLOCK_BYTES + FILTER_BYTES));
        let (filters, index) = (Vec::with_capacity(CHUNK_BLOCKS * FILTER_BYTES), Vec::new());
        let writer = RunWriter { home, name, file, info, salt, entries, buffer, filters, index };
        writer.write(&header(home, &info, 0), 0)?;
        writer.file.sync().map_err(StorageError::io("sync", &writer.name))?;
        Ok(writer)
    }

    /// Appends an entry; keys must rise.
    ///
    /// # Errors
    /// [`StorageError::Full`] if an entry does not fit a block; [`StorageError::Io`].
    #[inline]
    pub fn push(&mut self, entry: F::Entry) -> Result<(), StorageError> {
        let count = if self.home.format.is_tombstone(&entry) { &mut self.info.tombstones } else { &mut self.info.live };
        *count += 1;
        debug_assert!(self.entries.last().is_none_or(|last| {
            let format = &self.home.format;
            format.key(last) < format.key(&entry)
        }));
        self.entries.push(entry);
        if self.entries.len() >= F::ENTRIES_MAX { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> Result<(), StorageError> {
        let format = &self.home.format;
        self.index.extend_from_slice(&format.head(format.key(&self.entries[0])).to_le_bytes());
        let at = self.buffer.len();
        self.buffer.resize(at + BLOCK_BYTES, 0);
        let bytes = &mut self.buffer[at..];
        let taken = format.encode(&self.entries, bytes);
        if taken == 0 {
            return Err(StorageError::full(&self.name, format!("an entry does not fit {BLOCK_BYTES} bytes")));
        }
        CRC.put(bytes, checksum(&self.salt, self.info.blocks, bytes));
        let at = self.filters.len();
        self.filters.resize(at + FILTER_BYTES, 0);
        let bytes = &mut self.filters[at..];
        filter::encode(self.entries[..taken].iter().map(|entry| format.hash(format.key(entry))), bytes);
        filter::CRC.put(bytes, checksum(&self.salt, self.info.blocks, bytes));
        self.entries.drain(..taken);
        self.info.blocks += 1;
        if self.buffer.len() == CHUNK_BLOCKS * BLOCK_BYTES { self.write_buffer() } else { Ok(()) }
    }

    fn places(&self) -> Places {
        Places { blocks: self.info.blocks, filter_bytes: FILTER_BYTES as u64 }
    }

    fn write_buffer(&mut self) -> Result<(), StorageError> {
        let blocks = (self.buffer.len() / BLOCK_BYTES) as u64;
        self.buffer.append(&mut self.filters);
        self.write(&self.buffer, self.places().block(self.info.blocks - blocks))?;
        self.buffer.clear();
        Ok(())
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), StorageError> {
        self.home.traffic.written(bytes.len() as u64);
        write(&*self.file, &self.name, bytes, at)
    }

    /// Completes the file; `None`, and no file, if nothing was pushed.
    ///
    /// # Errors
    /// [`StorageError::Full`] if an entry does not fit a block; [`StorageError::Io`].
    pub fn end(mut self) -> Result<Option<Written>, StorageError> {
        while !self.entries.is_empty() {
            self.write_block()?;
        }
        self.write_buffer()?;
        if self.info.blocks == 0 {
            remove(&*self.home.dir, &self.name)?;
            return Ok(None);
        }
        self.write(&self.index, self.places().index())?;
        self.write(&header(self.home, &self.info, crc32(&[&self.index])), 0)?;
        Ok(Some(Written { info: self.info, name: self.name, file: self.file }))
    }
}

/// A written run, not synced yet: its owner must not name it before.
///
/// ```
/// # use filemap_runs::{Home, Run, RunWriter, fixed::Fixed};
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// # let mut writer = RunWriter::create(&home, 1).unwrap();
/// # (1..=1000u128).for_each(|i| writer.push(i << 64).unwrap());
/// let written = writer.end().unwrap().expect("not empty");
/// written.sync().unwrap();
/// assert_eq!(written.info().live, 1000);
/// ```
#[derive(Debug)]
#[must_use = "a run that is not synced must not be named"]
pub struct Written<I = RunInfo> {
    pub(crate) info: I,
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
}

impl<I: Copy> Written<I> {
    /// The record for the owner.
    pub fn info(&self) -> I {
        self.info
    }

    /// Makes the file durable, except for its name.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn sync(&self) -> Result<(), StorageError> {
        self.file.sync().map_err(StorageError::io("sync", &self.name))
    }
}
