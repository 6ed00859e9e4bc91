//! A cursor over a run: from any key, forwards and backwards.

use std::sync::Arc;

use filemap_io::StorageError;

use crate::format::{BLOCK_BYTES, Format, PADDING_BYTES};
use crate::run::Run;

/// A position between two entries of a run.
///
/// ```
/// use std::sync::Arc;
/// use filemap_runs::Cursor;
///
/// # use filemap_runs::{Home, Run, RunWriter, fixed::Fixed};
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// # let mut writer = RunWriter::create(&home, 1).unwrap();
/// # (1..=1000u128).for_each(|i| writer.push(i << 64).unwrap());
/// # let written = writer.end().unwrap().expect("not empty");
/// # written.sync().unwrap();
/// let run = Arc::new(Run::open(&home, written.info()).unwrap());
/// let mut cursor = Cursor::first(run).unwrap();
/// cursor.seek(500 << 64).unwrap();
/// assert_eq!(cursor.forward().unwrap(), Some(&(500 << 64)));
/// assert_eq!(cursor.back().unwrap(), Some(&(500 << 64)));
/// ```
#[derive(Debug)]
pub struct Cursor<F: Format> {
    run: Arc<Run<F>>,
    /// The loaded block.
    block: u64,
    entries: Vec<F::Entry>,
    /// Index of the entry after the position.
    at: usize,
}

impl<F: Format> Cursor<F> {
    /// A cursor before the first entry.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn first(run: Arc<Run<F>>) -> Result<Cursor<F>, StorageError> {
        let mut cursor = Cursor { run, block: 0, entries: Vec::new(), at: 0 };
        cursor.load(0)?;
        Ok(cursor)
    }

    /// A cursor after the last entry.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn last(run: Arc<Run<F>>) -> Result<Cursor<F>, StorageError> {
        let block = run.info().blocks - 1;
        let mut cursor = Cursor { run, block, entries: Vec::new(), at: 0 };
        cursor.load(block)?;
        cursor.at = cursor.entries.len();
        Ok(cursor)
    }

    /// Moves before the first entry whose key is `key` or greater.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn seek(&mut self, key: F::Key<'_>) -> Result<(), StorageError> {
        let run = Arc::clone(&self.run);
        let (format, head) = (run.format(), run.format().head(key));
        let mut block = run.blocks_up_to(head).saturating_sub(1);
        self.load(block)?;
        // Several blocks may begin with keys of the same 64 bits.
        while block > 0 && self.entries.first().is_some_and(|entry| format.compare(entry, key).is_gt()) {
            block -= 1;
            self.load(block)?;
        }
        self.at = self.entries.partition_point(|entry| format.compare(entry, key).is_lt());
        Ok(())
    }

    /// Moves past the next entry and returns it; `None` at the end.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn forward(&mut self) -> Result<Option<&F::Entry>, StorageError> {
        if self.at == self.entries.len() {
            if self.block + 1 == self.run.info().blocks {
                return Ok(None);
            }
            self.load(self.block + 1)?;
        }
        self.at += 1;
        Ok(self.entries.get(self.at - 1))
    }

    /// Moves before the previous entry and returns it; `None` at the beginning.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn back(&mut self) -> Result<Option<&F::Entry>, StorageError> {
        if self.at == 0 {
            if self.block == 0 {
                return Ok(None);
            }
            self.load(self.block - 1)?;
            self.at = self.entries.len();
        }
        self.at -= 1;
        Ok(self.entries.get(self.at))
    }

    /// Loads a block and moves before its first entry. After an error the position is unchanged.
    fn load(&mut self, block: u64) -> Result<(), StorageError> {
        let mut bytes = [0; BLOCK_BYTES + PADDING_BYTES];
        self.run.read_block(block, &mut bytes[..BLOCK_BYTES])?;
        self.run.check(&bytes, block)?;
        let mut entries = Vec::new();
        self.run.decode(&bytes, block, &mut None, &mut entries)?;
        (self.block, self.entries, self.at) = (block, entries, 0);
        Ok(())
    }
}
