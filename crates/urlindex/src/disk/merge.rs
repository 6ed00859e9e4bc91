//! Merging: several sources of entries in order become one, in which the newest entry of a fingerprint counts.
//!
//! Sources are merged two at a time, the newest first: sizes of runs are about geometric, so that most entries, which are the largest
//! run's, pass one comparison. Entries go from one to the next by the hundred, and the loop that compares them has no branch to be
//! mispredicted.

use std::sync::Arc;

use super::key::FingerprintBits;
use super::run::{CHUNK_BLOCKS, Run};
use crate::error::Result;

/// Entries that pass at once, about.
const AT_ONCE: usize = 4096;

/// Entries in order.
pub(super) enum Source<'a> {
    /// What is in memory.
    Memory(&'a [u128]),
    /// What is in memory, and belongs to it.
    Owned(std::vec::IntoIter<u128>),
    /// What is in a run.
    Run(RunReader),
    /// Two sources, the newer first.
    Both(Box<Both<'a>>),
}

/// Two sources that become one.
pub(super) struct Both<'a> {
    newer: Side<'a>,
    older: Side<'a>,
    mask: u128,
}

/// A source and those of its entries that come next.
struct Side<'a> {
    source: Source<'a>,
    entries: Vec<u128>,
    at: usize,
}

impl Side<'_> {
    /// Gets more entries, if there is none left.
    fn refill(&mut self) -> Result<()> {
        if self.at == self.entries.len() {
            self.entries.clear();
            self.at = 0;
            self.source.fill(&mut self.entries)?;
        }
        Ok(())
    }

    fn rest(&self) -> &[u128] {
        &self.entries[self.at..]
    }

    fn pour(&mut self, into: &mut Vec<u128>) {
        into.extend_from_slice(self.rest());
        self.at = self.entries.len();
    }
}

impl<'a> Source<'a> {
    /// All of these as one, the newest first.
    pub(super) fn merged(sources: Vec<Source<'a>>, bits: FingerprintBits) -> Source<'a> {
        let side = |source| Side { source, entries: Vec::new(), at: 0 };
        let both =
            |newer, older| Source::Both(Box::new(Both { newer: side(newer), older: side(older), mask: bits.mask() }));
        sources.into_iter().reduce(both).unwrap_or(Source::Memory(&[]))
    }

    /// Appends the next entries, some hundreds of them; none only at the end.
    pub(super) fn fill(&mut self, entries: &mut Vec<u128>) -> Result<()> {
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

impl Both<'_> {
    fn fill(&mut self, entries: &mut Vec<u128>) -> Result<()> {
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
            let (newer, older) = (a[i] & self.mask, b[j] & self.mask);
            entries.push(if newer <= older { a[i] } else { b[j] });
            i += usize::from(newer <= older);
            j += usize::from(older <= newer);
        }
        self.newer.at += i;
        self.older.at += j;
        Ok(())
    }
}

/// Reads a run from its beginning.
pub(super) struct RunReader {
    run: Arc<Run>,
    next_block: u64,
    buffer: Vec<u8>,
    /// The last value that it gave.
    last: Option<u128>,
}

impl RunReader {
    pub(super) fn new(run: Arc<Run>) -> RunReader {
        RunReader { run, next_block: 0, buffer: Vec::new(), last: None }
    }

    fn fill(&mut self, entries: &mut Vec<u128>) -> Result<()> {
        if self.next_block < self.run.info.blocks {
            let end = (self.next_block + CHUNK_BLOCKS as u64 / 4).min(self.run.info.blocks);
            self.run.entries(self.next_block..end, &mut self.buffer, &mut self.last, entries)?;
            self.next_block = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_newest_entry_of_a_fingerprint_counts() {
        let bits = FingerprintBits::Bits80;
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20 {
            let mut model = BTreeMap::new();
            let mut sources: Vec<Vec<u128>> = Vec::new();
            for _ in 0..rng.usize(0..6) {
                let mut source = BTreeMap::new();
                for _ in 0..rng.usize(0..20_000) {
                    source.insert(rng.u128(0..30_000) << 60, rng.bool());
                }
                let entries = source.iter().map(|(key, is_grave)| key | if *is_grave { bits.grave() } else { 0 });
                sources.insert(0, entries.collect());
                model.extend(source);
            }
            let expected: Vec<u128> =
                model.iter().map(|(key, is_grave)| key | if *is_grave { bits.grave() } else { 0 }).collect();
            let mut merged = Source::merged(sources.iter().map(|source| Source::Memory(source)).collect(), bits);
            let mut found = Vec::new();
            loop {
                let before = found.len();
                merged.fill(&mut found).expect("in memory");
                if found.len() == before {
                    break;
                }
            }
            assert!(found == expected);
        }
    }
}
