//! What may stand in front of the set: something that says of many fingerprints, without a read, that they are not in the set.
//!
//! The set itself keeps it right, under its own lock: whatever is added is told to the front before anything else, so that at no moment
//! anything is in the set and new to the front. What that is worth after a crash is for the owner of the front to see to: it is told what the
//! set has got since ([`DiskUrlSet::fingerprints_since`]).

use std::sync::Arc;

use super::iter::Fingerprints;
use super::merge::{RunReader, Source};
use super::state::Level;
use super::{DiskUrlSet, guard};
use crate::error::Result;

/// See the module.
pub(crate) trait Front: Send + Sync {
    /// Whether a fingerprint is certainly not in the set.
    fn is_new(&self, fingerprint: u128) -> Result<bool>;

    /// Takes a fingerprint that is about to be added.
    fn insert(&self, fingerprint: u128) -> Result<()>;
}

impl DiskUrlSet {
    /// Puts something in front of the set that holds all that the set holds.
    pub(crate) fn put_in_front(&self, front: Arc<dyn Front>) {
        guard(&self.state).front = Some(front);
    }

    /// Which set this is.
    pub(crate) fn id(&self) -> [u8; 16] {
        guard(&self.state).home.id
    }

    /// Which of the sets with this id: a snapshot is another one.
    pub(crate) fn branch(&self) -> u64 {
        guard(&self.state).manifest.branch
    }

    /// The number that the set's next file will have: all that is added from now on will be in the log or in files from that number on.
    pub(crate) fn next_number(&self) -> u64 {
        guard(&self.state).manifest.next_number
    }

    /// Bytes of the runs that have this number or a later one.
    pub(crate) fn run_bytes_since(&self, number: u64) -> u64 {
        let state = guard(&self.state);
        state.levels.iter().filter(|level| is_since(level, number)).map(|level| level.run.info.disk_bytes()).sum()
    }

    /// The fingerprints in the log and in the runs that have this number or a later one: all that were added since it was the
    /// [next](DiskUrlSet::next_number), and those that they were merged with.
    ///
    /// # Errors
    /// As [`DiskUrlSet::fingerprints`].
    pub(crate) fn fingerprints_since(&self, number: u64) -> Result<Fingerprints> {
        let state = self.state()?;
        let mut sources = vec![Source::Owned(state.table.sorted().into_iter())];
        // Merges take the youngest runs, so numbers grow with youth.
        let runs = state.levels.iter().rev().take_while(|level| is_since(level, number));
        sources.extend(runs.map(|level| Source::Run(RunReader::new(Arc::clone(&level.run)))));
        Ok(Fingerprints::of(Source::merged(sources, self.bits), self.bits))
    }
}

fn is_since(level: &Level, number: u64) -> bool {
    level.run.info.number >= number
}
