//! Going through all fingerprints of a set in order, while it goes on changing.

use super::DiskUrlSet;
use super::batch::UrlBatch;
use super::key::{Fingerprint, FingerprintBits};
use super::merge::Source;
use crate::error::{Error, Result};

/// URLs of another set that are merged at once. They come in order, so that each batch meets its own part of the runs.
const MERGED_AT_ONCE: usize = 1 << 20;

/// The fingerprints that a set held at one moment, in order: see [`DiskUrlSet::fingerprints`].
pub struct Fingerprints {
    source: Source<'static>,
    bits: FingerprintBits,
    /// What the source gave last, and how much of it was taken.
    entries: Vec<u128>,
    at: usize,
    is_done: bool,
}

impl Fingerprints {
    pub(super) fn of(source: Source<'static>, bits: FingerprintBits) -> Fingerprints {
        Fingerprints { source, bits, entries: Vec::new(), at: 0, is_done: false }
    }
}

impl std::fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fingerprints").field("bits", &self.bits).finish_non_exhaustive()
    }
}

impl Iterator for Fingerprints {
    type Item = Result<Fingerprint>;

    fn next(&mut self) -> Option<Result<Fingerprint>> {
        while !self.is_done {
            if let Some(entry) = self.entries.get(self.at) {
                self.at += 1;
                if entry & self.bits.grave() == 0 {
                    return Some(Ok(Fingerprint(*entry)));
                }
                continue;
            }
            self.entries.clear();
            self.at = 0;
            let filled = self.source.fill(&mut self.entries);
            self.is_done = filled.is_err() || self.entries.is_empty();
            if let Err(error) = filled {
                return Some(Err(error));
            }
        }
        None
    }
}

impl DiskUrlSet {
    /// All fingerprints that the set holds now, in order. Inserts may go on meanwhile and do not show. Reads all runs; takes a
    /// megabyte of memory for each, and a copy of the table. After an error it ends.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; [`Error::Io`].
    pub fn fingerprints(&self) -> Result<Fingerprints> {
        self.fingerprints_since(0)
    }

    /// Whether a URL has the same fingerprint in another set.
    pub(crate) fn is_alike(&self, other: &DiskUrlSet) -> bool {
        (self.bits, self.seed) == (other.bits, other.seed)
    }

    /// Inserts all that another set holds; how many of them were new here. Reads both sets once.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the other's fingerprints are others: another length, another seed. Otherwise as
    /// [`DiskUrlSet::check_and_insert_all`], and those of reading the other; what was inserted before stays.
    pub fn merge_from(&self, other: &DiskUrlSet) -> Result<u64> {
        if !self.is_alike(other) {
            return Err(Error::option("other", "its fingerprints have another length, or another seed"));
        }
        let mut batch: UrlBatch = self.batch();
        let mut new = 0;
        for fingerprint in other.fingerprints()? {
            batch.push_fingerprint(fingerprint?.0)?;
            if batch.len() == MERGED_AT_ONCE {
                new += self.check_and_insert_all(&mut batch)?.new_count();
            }
        }
        Ok(new + self.check_and_insert_all(&mut batch)?.new_count())
    }
}
