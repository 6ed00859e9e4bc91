//! Sources of a merge: runs and entries in memory, each with its next entry in one direction.

use std::ops::Bound;
use std::sync::Arc;

use filemap_io::StorageError;

use super::change::{Change, Entry};
use super::cursor::Cursor;
use super::run::Run;

/// Direction of a list.
///
/// ```
/// use filemap_runs::ordered::Direction;
/// assert_ne!(Direction::Forward, Direction::Back);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Back,
}

/// A source of a merge.
///
/// ```
/// use filemap_runs::ordered::{Change, Source};
/// let source = Source::Memory(&[(b"com,example)/", Change::Added)]);
/// assert!(matches!(source, Source::Memory([_])));
/// ```
#[derive(Debug)]
pub enum Source<'a> {
    /// A run.
    Run(Arc<Run>),
    /// Entries in memory, in ascending order of keys.
    Memory(&'a [Entry<'a>]),
    /// The same, owned.
    Owned(Vec<(Vec<u8>, Change)>),
}

/// A source and its next entry.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    source: Source<'a>,
    /// Index of the next entry, for a source in memory.
    at: usize,
    /// For a run: a cursor just past the next entry, which it holds.
    cursor: Option<Box<Cursor>>,
    /// True if there is a next entry.
    is_there: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: Source<'a>) -> Reader<'a> {
        Reader { source, at: 0, cursor: None, is_there: false }
    }

    /// The next entry.
    #[inline]
    pub(super) fn entry(&self) -> Option<Entry<'_>> {
        if !self.is_there {
            return None;
        }
        match &self.source {
            Source::Run(_) => self.cursor.as_ref()?.held(),
            Source::Memory(entries) => entries.get(self.at).map(|(key, change)| (*key, *change)),
            Source::Owned(entries) => entries.get(self.at).map(|(key, change)| (&key[..], *change)),
        }
    }

    /// The key of the next entry.
    #[inline]
    pub(super) fn key(&self) -> Option<&[u8]> {
        if !self.is_there {
            return None;
        }
        match &self.source {
            Source::Run(_) => self.cursor.as_ref()?.held_key(),
            Source::Memory(entries) => entries.get(self.at).map(|(key, _)| *key),
            Source::Owned(entries) => entries.get(self.at).map(|(key, _)| &key[..]),
        }
    }

    /// Sum of the changes of all keys below `key`, or of all keys.
    pub(super) fn sum_below(&self, key: Option<&[u8]>) -> Result<i64, StorageError> {
        let is_below = |entry: &[u8]| key.is_none_or(|key| entry < key);
        match (&self.source, key) {
            (Source::Run(run), Some(key)) => run.sum_below(key),
            (Source::Run(run), None) => Ok(run.info().tally().sum()),
            (Source::Memory(entries), _) => Ok(entries.iter().filter(|e| is_below(e.0)).map(|e| e.1.sum()).sum()),
            (Source::Owned(entries), _) => Ok(entries.iter().filter(|e| is_below(&e.0)).map(|e| e.1.sum()).sum()),
        }
    }

    /// Advances to the next entry. After an error the position is unchanged.
    #[inline]
    pub(super) fn step(&mut self, direction: Direction) -> Result<(), StorageError> {
        let len = match &self.source {
            Source::Run(_) => {
                if let Some(cursor) = &mut self.cursor {
                    self.is_there = pass(cursor, direction)?;
                }
                return Ok(());
            }
            Source::Memory(entries) => entries.len(),
            Source::Owned(entries) => entries.len(),
        };
        self.is_there = match direction {
            Direction::Forward => self.at + 1 < len,
            Direction::Back => self.at > 0,
        };
        match direction {
            _ if !self.is_there => {}
            Direction::Forward => self.at += 1,
            Direction::Back => self.at -= 1,
        }
        Ok(())
    }

    /// Moves to the first entry from a bound on. After an error the reader has no entry.
    pub(super) fn seek(&mut self, direction: Direction, from: Bound<&[u8]>) -> Result<(), StorageError> {
        self.is_there = false;
        let (after, len) = match &self.source {
            Source::Run(run) => {
                let mut cursor = place(run, direction, from)?;
                self.is_there = pass(&mut cursor, direction)?;
                self.cursor = Some(Box::new(cursor));
                return Ok(());
            }
            Source::Memory(entries) => (split(entries, direction, from), entries.len()),
            Source::Owned(entries) => (split(entries, direction, from), entries.len()),
        };
        (self.is_there, self.at) = match direction {
            Direction::Forward => (after < len, after),
            Direction::Back => (after > 0, after.saturating_sub(1)),
        };
        Ok(())
    }
}

/// Moves a cursor past its next entry; false if there is none.
#[inline]
fn pass(cursor: &mut Cursor, direction: Direction) -> Result<bool, StorageError> {
    let entry = match direction {
        Direction::Forward => cursor.forward()?,
        Direction::Back => cursor.back()?,
    };
    Ok(entry.is_some())
}

/// A cursor at the start of a list from a bound.
fn place(run: &Arc<Run>, direction: Direction, from: Bound<&[u8]>) -> Result<Cursor, StorageError> {
    let run = Arc::clone(run);
    let (key, is_before) = match (direction, from) {
        (Direction::Forward, Bound::Unbounded) => return Cursor::first(run),
        (Direction::Back, Bound::Unbounded) => return Cursor::last(run),
        (Direction::Forward, Bound::Included(key)) | (Direction::Back, Bound::Excluded(key)) => (key, true),
        (Direction::Forward, Bound::Excluded(key)) | (Direction::Back, Bound::Included(key)) => (key, false),
    };
    let mut cursor = Cursor::before(run, key)?;
    // Past the key, if it is present.
    if !is_before && cursor.forward()?.is_some_and(|(next, _)| next != key) {
        cursor.back()?;
    }
    Ok(cursor)
}

/// Number of entries before the start of a list from a bound.
fn split<K: AsRef<[u8]>>(entries: &[(K, Change)], direction: Direction, from: Bound<&[u8]>) -> usize {
    match (direction, from) {
        (Direction::Forward, Bound::Unbounded) => 0,
        (Direction::Back, Bound::Unbounded) => entries.len(),
        (Direction::Forward, Bound::Included(key)) | (Direction::Back, Bound::Excluded(key)) => {
            entries.partition_point(|entry| entry.0.as_ref() < key)
        }
        (Direction::Forward, Bound::Excluded(key)) | (Direction::Back, Bound::Included(key)) => {
            entries.partition_point(|entry| entry.0.as_ref() <= key)
        }
    }
}
