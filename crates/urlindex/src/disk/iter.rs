//! Iterates over all fingerprints of a set in order, beside inserts.

use std::sync::Arc;

use filemap_runs::fixed::Fixed;
use filemap_runs::{RunReader, Source};

use super::DiskUrlSet;
use super::batch::UrlBatch;
use super::key::{Fingerprint, FingerprintBits};
use crate::error::{Error, Result};

/// URLs of another set merged in one batch. They are sorted, so each batch reads another part of
/// the runs.
const MERGED_AT_ONCE: usize = 1 << 20;

/// All fingerprints of a set at one moment, in order: see [`DiskUrlSet::fingerprints`].
///
/// ```
/// use urlindex::{DiskOptions, DiskUrlSet, SeenSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = DiskUrlSet::create(&path, DiskOptions::new()).unwrap();
/// set.insert(b"http://example.com/").unwrap();
/// let all: Vec<_> = set.fingerprints().unwrap().collect::<Result<_, _>>().unwrap();
/// assert_eq!(all, [set.fingerprint("http://example.com/")]);
/// ```
pub struct Fingerprints {
    source: Source<'static, Fixed>,
    bits: FingerprintBits,
    /// Last entries of the source, and how many of them were taken.
    entries: Vec<u128>,
    at: usize,
    is_done: bool,
}

filemap_io::debug_fields!(Fingerprints: bits);

impl Iterator for Fingerprints {
    type Item = Result<Fingerprint>;

    fn next(&mut self) -> Option<Result<Fingerprint>> {
        while !self.is_done {
            if let Some(entry) = self.entries.get(self.at) {
                self.at += 1;
                if entry & self.bits.tombstone() == 0 {
                    return Some(Ok(Fingerprint(*entry)));
                }
                continue;
            }
            self.entries.clear();
            self.at = 0;
            let filled = self.source.fill(&mut self.entries);
            self.is_done = filled.is_err() || self.entries.is_empty();
            if let Err(error) = filled {
                return Some(Err(error.into()));
            }
        }
        None
    }
}

impl DiskUrlSet {
    /// All fingerprints at this moment, in order, without concurrent inserts. Reads all runs;
    /// takes a megabyte of memory for each, and a copy of the table. Ends after an error.
    ///
    /// # Errors
    /// [`crate::StorageError::Corrupt`]; [`crate::StorageError::Io`].
    pub fn fingerprints(&self) -> Result<Fingerprints> {
        let state = self.state()?;
        let mut sources = vec![Source::Owned(state.table.sorted().into_iter())];
        sources.extend(state.levels.iter().rev().map(|level| Source::Run(RunReader::new(Arc::clone(&level.run)))));
        let source = Source::merged(sources, &self.bits.format());
        Ok(Fingerprints { source, bits: self.bits, entries: Vec::new(), at: 0, is_done: false })
    }

    /// Returns whether URLs have the same fingerprints in another set.
    pub(crate) fn is_alike(&self, other: &DiskUrlSet) -> bool {
        (self.bits, self.seed) == (other.bits, other.seed)
    }

    /// Inserts all of another set; returns how many were new. Reads both sets once.
    ///
    /// # Errors
    /// [`crate::StorageError::InvalidOption`] if the other's fingerprints have another length or
    /// seed. Otherwise as [`DiskUrlSet::check_and_insert_all`], and those of reading the other;
    /// what was inserted before stays.
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
