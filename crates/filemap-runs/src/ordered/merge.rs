//! Merges runs and memory into one order: each key once, with the sum of its changes; keys whose
//! sum is 0 are left out. A key whose sum is above 1 is listed once, though range sums count it
//! twice: an owner that cannot read its own record of a key, because of damage, may add it again.
//!
//! A loser tree finds the next key: a source that advances is compared with log2(sources) others.
//! Every source has one leaf in memory.

use std::ops::Bound;

use filemap_io::StorageError;

use super::change::{Change, Entry};
use super::source::{Direction, Reader, Source};

/// A merged list of sources, each key once. See [the module](super).
///
/// ```
/// use std::ops::Bound;
/// use filemap_runs::ordered::{Change, Direction, Merge, Source};
///
/// let old: [(&[u8], Change); 2] = [(b"a", Change::Added), (b"b", Change::Added)];
/// let new: [(&[u8], Change); 2] = [(b"b", Change::Removed), (b"c", Change::Added)];
/// let sources = vec![Source::Memory(&old), Source::Memory(&new)];
/// let mut list = Merge::new(sources, Direction::Back, Bound::Unbounded).unwrap();
/// assert_eq!(list.next_entry().unwrap(), Some((&b"c"[..], Change::Added)));
/// assert_eq!(list.next_entry().unwrap(), Some((&b"a"[..], Change::Added)));
/// assert_eq!(list.next_entry().unwrap(), None);
/// assert_eq!(list.sum_in(b"b", None).unwrap(), 1);
/// list.seek(Direction::Forward, Bound::Excluded(b"a")).unwrap();
/// assert_eq!(list.next_entry().unwrap(), Some((&b"c"[..], Change::Added)));
/// ```
#[derive(Debug)]
pub struct Merge<'a> {
    readers: Vec<Reader<'a>>,
    direction: Direction,
    /// The reader with the next key, then the losers of a tournament: those of node n played the
    /// winners of nodes 2 n and 2 n + 1.
    tree: Vec<usize>,
    /// The key whose changes are being summed, or were last.
    key: Vec<u8>,
    sum: i64,
    /// True if an error interrupted the sum of `key`.
    is_begun: bool,
    /// True if the last seek failed.
    is_lost: bool,
}

impl<'a> Merge<'a> {
    /// Starts a list at a bound. A new list begins at `Included` of its first key or at
    /// `Unbounded`; a resumed one at `Excluded` of the last key seen, in either direction.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn new(sources: Vec<Source<'a>>, direction: Direction, from: Bound<&[u8]>) -> Result<Merge<'a>, StorageError> {
        let readers: Vec<Reader<'a>> = sources.into_iter().map(Reader::new).collect();
        let (tree, key) = (Vec::new(), Vec::new());
        let mut merge = Merge { readers, direction, tree, key, sum: 0, is_begun: false, is_lost: false };
        merge.seek(direction, from)?;
        Ok(merge)
    }

    /// Continues in this direction from a bound.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`]. After an error, seek again.
    pub fn seek(&mut self, direction: Direction, from: Bound<&[u8]>) -> Result<(), StorageError> {
        (self.direction, self.is_begun, self.is_lost) = (direction, false, true);
        self.readers.iter_mut().try_for_each(|reader| reader.seek(direction, from))?;
        self.is_lost = false;
        self.play();
        Ok(())
    }

    /// The next key whose changes do not cancel out, and their sum; `None` at the end.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`]. The call may be repeated.
    #[inline]
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, StorageError> {
        if self.is_lost {
            return Err(StorageError::option("list", "its last seek failed; seek again"));
        }
        loop {
            let Some(&winner) = self.tree.first() else { return Ok(None) };
            let is_its_first = !self.is_begun;
            if is_its_first {
                let Some(key) = self.readers[winner].key() else { return Ok(None) };
                self.key.clear();
                self.key.extend_from_slice(key);
                (self.sum, self.is_begun) = (0, true);
            }
            self.add_up(is_its_first)?;
            self.is_begun = false;
            if self.sum != 0 {
                return Ok(Some((&self.key, Change::of(self.sum < 0))));
            }
        }
    }

    /// Sums the changes of `key` and moves their sources past it. `is_equal` if the next source is
    /// known to have it.
    #[inline]
    fn add_up(&mut self, mut is_equal: bool) -> Result<(), StorageError> {
        loop {
            let winner = self.tree[0];
            let is_same = |(key, _): &Entry<'_>| is_equal || *key == self.key;
            let Some((_, change)) = self.readers[winner].entry().filter(is_same) else {
                return Ok(());
            };
            self.readers[winner].step(self.direction)?;
            self.sum += change.sum();
            self.replay(winner);
            is_equal = false;
        }
    }

    /// Sum of the changes of all keys from `from` on and, if given, below `until`. Reads some
    /// blocks of each run; the position of the list does not matter.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`]; [`StorageError::Io`].
    pub fn sum_in(&self, from: &[u8], until: Option<&[u8]>) -> Result<i64, StorageError> {
        self.readers.iter().map(|reader| Ok(reader.sum_below(until)? - reader.sum_below(Some(from))?)).sum()
    }

    /// Returns whether reader `a` comes before reader `b`.
    #[inline]
    fn is_next(&self, a: usize, b: usize) -> bool {
        match (self.readers[a].key(), self.readers[b].key()) {
            (Some(a), Some(b)) => match self.direction {
                Direction::Forward => a < b,
                Direction::Back => a > b,
            },
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Plays the whole tournament.
    fn play(&mut self) {
        let count = self.readers.len();
        // The winner of each node; the readers are the last nodes.
        let mut winners: Vec<usize> = (0..2 * count).map(|node| node.saturating_sub(count)).collect();
        self.tree = vec![0; count];
        for node in (1..count).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], self.tree[node]) = if self.is_next(b, a) { (b, a) } else { (a, b) };
        }
        if let Some(first) = self.tree.first_mut() {
            *first = winners[1];
        }
    }

    /// Replays the games of a reader that has advanced.
    #[inline]
    fn replay(&mut self, reader: usize) {
        let (mut winner, mut node) = (reader, (self.readers.len() + reader) / 2);
        while node > 0 {
            if self.is_next(self.tree[node], winner) {
                std::mem::swap(&mut self.tree[node], &mut winner);
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }
}
