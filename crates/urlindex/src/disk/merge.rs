//! Merging: several sources of entries in order become one, in which the newest entry of a fingerprint counts.
//!
//! Sources are merged two at a time, the newest first: sizes of runs are about geometric, so that most entries, which are the largest
//! run's, pass one comparison.

use std::sync::Arc;

use super::key::FingerprintBits;
use super::run::Run;
use crate::error::Result;

/// Entries in order.
pub(super) enum Source<'a> {
    /// What is in memory.
    Memory(std::slice::Iter<'a, u128>),
    /// What is in memory, and belongs to it.
    Owned(std::vec::IntoIter<u128>),
    /// What is in a run.
    Run(RunReader),
    /// Two sources, the newer first, and their next entries.
    Both { newer: Box<Source<'a>>, older: Box<Source<'a>>, next: (Option<u128>, Option<u128>), mask: u128 },
}

impl<'a> Source<'a> {
    /// All of these as one, the newest first.
    pub(super) fn merged(sources: Vec<Source<'a>>, bits: FingerprintBits) -> Result<Source<'a>> {
        let mut merged: Option<Source<'a>> = None;
        for mut older in sources {
            merged = Some(match merged {
                None => older,
                Some(mut newer) => {
                    let next = (newer.next()?, older.next()?);
                    Source::Both { newer: Box::new(newer), older: Box::new(older), next, mask: bits.mask() }
                }
            });
        }
        Ok(merged.unwrap_or(Source::Memory([].iter())))
    }

    /// The next entry.
    pub(super) fn next(&mut self) -> Result<Option<u128>> {
        match self {
            Source::Memory(entries) => Ok(entries.next().copied()),
            Source::Owned(entries) => Ok(entries.next()),
            Source::Run(reader) => reader.next(),
            Source::Both { newer, older, next, mask } => match *next {
                (None, None) => Ok(None),
                (Some(a), None) => {
                    next.0 = newer.next()?;
                    Ok(Some(a))
                }
                (None, Some(b)) => {
                    next.1 = older.next()?;
                    Ok(Some(b))
                }
                (Some(a), Some(b)) => {
                    let (fingerprint, other) = (a & *mask, b & *mask);
                    if fingerprint > other {
                        next.1 = older.next()?;
                        return Ok(Some(b));
                    }
                    next.0 = newer.next()?;
                    if fingerprint == other {
                        next.1 = older.next()?;
                    }
                    Ok(Some(a))
                }
            },
        }
    }
}

/// Reads a run from its beginning.
pub(super) struct RunReader {
    run: Arc<Run>,
    next_block: u64,
    buffer: Vec<u8>,
    entries: Vec<u128>,
    at: usize,
}

impl RunReader {
    pub(super) fn new(run: Arc<Run>) -> RunReader {
        RunReader { run, next_block: 0, buffer: Vec::new(), entries: Vec::new(), at: 0 }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<u128>> {
        if self.at == self.entries.len() {
            if self.next_block == self.run.info.blocks {
                return Ok(None);
            }
            self.entries.clear();
            self.next_block = self.run.entries(self.next_block, &mut self.buffer, &mut self.entries)?;
            self.at = 0;
        }
        self.at += 1;
        Ok(Some(self.entries[self.at - 1]))
    }
}
