//! Merging: sorted sources become one, in which the newest entry of a key wins.
//!
//! Sources merge two at a time, the newest first. Sizes of runs are about geometric, so most
//! entries, those of the largest run, take one comparison. Entries pass in hundreds, and the merge
//! loop has no unpredictable branch.

use std::sync::Arc;

use filemap_io::StorageError;

use crate::format::{CHUNK_BLOCKS, Format};
use crate::run::Run;

type Result<T> = std::result::Result<T, StorageError>;

/// Approximate number of entries passed at once.
const AT_ONCE: usize = 4096;

/// A source of entries in key order.
///
/// ```
/// use filemap_runs::Source;
/// use filemap_runs::fixed::Fixed;
///
/// let (newer, older) = ([2 << 64], [1 << 64, 2 << 64]);
/// let mut merged = Source::merged(vec![Source::Memory(&newer), Source::Memory(&older)], &Fixed::new(80));
/// let mut entries = Vec::new();
/// merged.fill(&mut entries).unwrap();
/// assert_eq!(entries, [1 << 64, 2 << 64]);
/// ```
#[derive(Debug)]
pub enum Source<'a, F: Format> {
    /// Borrowed entries in memory.
    Memory(&'a [F::Entry]),
    /// Owned entries in memory.
    Owned(std::vec::IntoIter<F::Entry>),
    /// Entries of a run.
    Run(RunReader<F>),
    /// Two sources, the newer first.
    Both(Box<Both<'a, F>>),
}

/// Two merged sources.
#[derive(Debug)]
pub struct Both<'a, F: Format> {
    newer: Side<'a, F>,
    older: Side<'a, F>,
    format: F,
}

/// A source and its next entries.
#[derive(Debug)]
struct Side<'a, F: Format> {
    source: Source<'a, F>,
    entries: Vec<F::Entry>,
    at: usize,
}

impl<F: Format> Side<'_, F> {
    /// Fetches entries if none are left.
    fn refill(&mut self) -> Result<()> {
        if self.at == self.entries.len() {
            self.entries.clear();
            self.at = 0;
            self.source.fill(&mut self.entries)?;
        }
        Ok(())
    }

    fn rest(&self) -> &[F::Entry] {
        &self.entries[self.at..]
    }

    fn pour(&mut self, into: &mut Vec<F::Entry>) {
        into.extend_from_slice(self.rest());
        self.at = self.entries.len();
    }
}

impl<'a, F: Format> Source<'a, F> {
    /// Merges sources, given newest first.
    pub fn merged(sources: Vec<Source<'a, F>>, format: &F) -> Source<'a, F> {
        let side = |source| Side { source, entries: Vec::new(), at: 0 };
        let both = |newer, older| {
            Source::Both(Box::new(Both { newer: side(newer), older: side(older), format: format.clone() }))
        };
        sources.into_iter().reduce(both).unwrap_or(Source::Memory(&[]))
    }

    /// Appends the next entries, some hundreds; none only at the end.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn fill(&mut self, entries: &mut Vec<F::Entry>) -> Result<()> {
        match self {
            Source::Memory(rest) => {
                let (now, later) = rest.split_at(rest.len().min(AT_ONCE));
                entries.extend_from_slice(now);
                *rest = later;
                Ok(())
            }
            Source::Owned(rest) => {
                entries.extend(rest.take(AT_ONCE));
                Ok(())
            }
            Source::Run(reader) => reader.fill(entries),
            Source::Both(both) => both.fill(entries),
        }
    }
}

impl<F: Format> Both<'_, F> {
    fn fill(&mut self, entries: &mut Vec<F::Entry>) -> Result<()> {
        self.newer.refill()?;
        self.older.refill()?;
        let (a, b) = (self.newer.rest(), self.older.rest());
        if b.is_empty() {
            self.newer.pour(entries);
            return Ok(());
        }
        if a.is_empty() {
            self.older.pour(entries);
            return Ok(());
        }
        let (mut i, mut j) = (0, 0);
        entries.reserve(a.len() + b.len());
        while i < a.len() && j < b.len() {
            let (newer, older) = (self.format.key(&a[i]), self.format.key(&b[j]));
            entries.push(if newer <= older { a[i].clone() } else { b[j].clone() });
            i += usize::from(newer <= older);
            j += usize::from(older <= newer);
        }
        self.newer.at += i;
        self.older.at += j;
        Ok(())
    }
}

/// Reads a run from front to end.
///
/// ```
/// use std::sync::Arc;
/// use filemap_runs::{RunReader, Source};
///
/// # use filemap_runs::{Home, Run, RunWriter, fixed::Fixed};
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// # let mut writer = RunWriter::create(&home, 1).unwrap();
/// # (1..=1000u128).for_each(|i| writer.push(i << 64).unwrap());
/// # let written = writer.end().unwrap().expect("not empty");
/// # written.sync().unwrap();
/// let run = Arc::new(Run::open(&home, written.info()).unwrap());
/// let mut entries = Vec::new();
/// Source::Run(RunReader::new(run)).fill(&mut entries).unwrap();
/// assert_eq!(entries[0], 1 << 64);
/// ```
#[derive(Debug)]
pub struct RunReader<F: Format> {
    run: Arc<Run<F>>,
    next_block: u64,
    buffer: Vec<u8>,
    /// The last entry returned.
    last: Option<F::Entry>,
}

impl<F: Format> RunReader<F> {
    /// Starts at the first block.
    pub fn new(run: Arc<Run<F>>) -> RunReader<F> {
        RunReader { run, next_block: 0, buffer: Vec::new(), last: None }
    }

    fn fill(&mut self, entries: &mut Vec<F::Entry>) -> Result<()> {
        let blocks = self.run.info().blocks;
        if self.next_block < blocks {
            let end = (self.next_block + CHUNK_BLOCKS as u64 / 4).min(blocks);
            self.run.entries(self.next_block..end, &mut self.buffer, &mut self.last, entries)?;
            self.next_block = end;
        }
        Ok(())
    }
}
