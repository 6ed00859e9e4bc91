//! Writes an ordered run from front to end, with one open block a level.
//!
//! Invariant: blocks are contiguous, each after all blocks below it, those of a level in order;
//! the root is the last.

use std::sync::Arc;

use filemap_io::files::{remove, write};
use filemap_io::{File, StorageError};

use super::change::Change;
use super::format::{Child, Home, Info, MAX_KEY_BYTES, PAGE_BYTES, first_header, header};
use super::front;
use super::inner::FillingInner;
use super::leaf::FillingLeaf;
use crate::home::file_name;
use crate::run::{Salt, salt};
use crate::writer::Written;

/// Bytes written at once.
const BUFFER_BYTES: usize = 512 << 10;

/// Writer of an ordered run. After a failed write it is unusable.
///
/// ```
/// use filemap_runs::ordered::{Change, Home, Writer};
///
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// let home = Home::new(dir, "keys", [7; 16], ());
/// let mut writer = Writer::create(&home, 1).unwrap();
/// writer.push(b"com,example)/", Change::Added).unwrap();
/// assert!(writer.push(b"com,", Change::Added).is_err());
/// writer.push(b"org,example)/", Change::Added).unwrap();
/// let written = writer.end().unwrap().expect("not empty");
/// written.sync().unwrap();
/// ```
#[derive(Debug)]
pub struct Writer<'a> {
    home: &'a Home,
    name: String,
    file: Arc<dyn File>,
    info: Info,
    salt: Salt,
    last: Vec<u8>,
    leaf: FillingLeaf,
    /// Separator between the previous leaf and the open one.
    separator: Vec<u8>,
    /// The open inner blocks, lowest level first.
    levels: Vec<FillingInner>,
    /// Blocks not written yet; `buffer_at` is the offset of the first.
    buffer: Vec<u8>,
    buffer_at: u64,
}

impl<'a> Writer<'a> {
    /// Creates the file of run `number`, or of the next number whose name is free.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn create(home: &'a Home, number: u64) -> Result<Writer<'a>, StorageError> {
        let (number, name, file) = home.create(number, file_name)?;
        let writer = Writer {
            home,
            name,
            file,
            info: Info { number, ..Info::default() },
            salt: salt(home.id, number),
            last: Vec::new(),
            leaf: FillingLeaf::new(),
            separator: Vec::new(),
            levels: Vec::new(),
            buffer: Vec::new(),
            buffer_at: PAGE_BYTES as u64,
        };
        writer.write(&first_header(home, number), 0)?;
        writer.file.sync().map_err(StorageError::io("sync", &writer.name))?;
        Ok(writer)
    }

    /// Makes the bytes written so far durable, so that the last sync is short.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn sync_written(&self) -> Result<(), StorageError> {
        self.file.sync().map_err(StorageError::io("sync", &self.name))
    }

    /// Number of the run.
    pub fn number(&self) -> u64 {
        self.info.number
    }

    /// Appends an entry; keys must rise.
    ///
    /// # Errors
    /// [`StorageError::InvalidOption`] if the key is empty or not above the last one,
    /// [`StorageError::Full`] if it is longer than [`MAX_KEY_BYTES`]: the run continues without
    /// it. [`StorageError::Io`].
    #[inline]
    pub fn push(&mut self, key: &[u8], change: Change) -> Result<(), StorageError> {
        let shared = front::common(&self.last, key);
        if !front::rises(&self.last, shared, &key[shared..]) || key.len() > MAX_KEY_BYTES {
            return Err(self.refusal(key));
        }
        if !self.leaf.add(key, shared, change) {
            self.close_leaf()?;
            self.separator.clear();
            self.separator.extend_from_slice(&key[..=shared]);
            self.leaf.add(key, shared, change);
        }
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        Ok(())
    }

    #[cold]
    fn refusal(&self, key: &[u8]) -> StorageError {
        match key.len() {
            0 => StorageError::option("key", "a key has at least one byte"),
            len if len > MAX_KEY_BYTES => {
                StorageError::full(&self.name, format!("a key has at most {MAX_KEY_BYTES} bytes, not {len}"))
            }
            _ => StorageError::option("key", "the keys of a run rise"),
        }
    }

    /// Page of the next block.
    fn next_page(&self) -> u64 {
        (self.buffer_at + self.buffer.len() as u64) / PAGE_BYTES as u64
    }

    fn close_leaf(&mut self) -> Result<(), StorageError> {
        let tally = std::mem::take(&mut self.leaf.tally);
        let mut child = Child { page: self.next_page(), pages: self.leaf.block.pages(), tally };
        let separator = std::mem::take(&mut self.separator);
        self.announce(0, &separator, &mut child)?;
        self.separator = separator;
        self.leaf.block.finish(&self.salt, 0, child.page, &mut self.buffer);
        self.info.leaves += 1;
        self.info.added += tally.entries - tally.removed;
        self.info.removed += tally.removed;
        self.write_full_buffer()
    }

    /// Adds a block that is about to be written to the level above. If the open block there is
    /// full it is written first, and the child follows it.
    fn announce(&mut self, level: usize, separator: &[u8], child: &mut Child) -> Result<(), StorageError> {
        if self.levels.len() == level {
            self.levels.push(FillingInner::new());
        }
        if !self.levels[level].add(separator, child) {
            self.close_inner(level)?;
            child.page = self.next_page();
            self.levels[level].add(separator, child);
        }
        Ok(())
    }

    fn close_inner(&mut self, level: usize) -> Result<(), StorageError> {
        let mut inner = std::mem::replace(&mut self.levels[level], FillingInner::new());
        let mut child = Child { page: self.next_page(), pages: inner.block.pages(), tally: inner.tally };
        self.announce(level + 1, &inner.first, &mut child)?;
        inner.block.finish(&self.salt, level + 1, child.page, &mut self.buffer);
        self.write_full_buffer()
    }

    fn write_full_buffer(&mut self) -> Result<(), StorageError> {
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.write_buffer() }
    }

    fn write_buffer(&mut self) -> Result<(), StorageError> {
        self.write(&self.buffer, self.buffer_at)?;
        self.buffer_at += self.buffer.len() as u64;
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
    /// [`StorageError::Io`].
    pub fn end(mut self) -> Result<Option<Written<Info>>, StorageError> {
        if self.last.is_empty() {
            remove(&*self.home.dir, &self.name)?;
            return Ok(None);
        }
        self.close_leaf()?;
        let mut height = 0;
        // An only child of the highest level is the root.
        while height + 1 < self.levels.len() || self.levels[height].block.count > 1 {
            self.close_inner(height)?;
            height += 1;
        }
        let root = self.levels[height].child;
        self.info.pages = self.next_page();
        self.write_buffer()?;
        self.write(&header(self.home.id, &self.info, &root, height as u32), 0)?;
        Ok(Some(Written { info: self.info, name: self.name, file: self.file }))
    }
}
