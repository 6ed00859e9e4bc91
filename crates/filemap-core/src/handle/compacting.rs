//! The turn to compact: one compaction runs at a time, of values, of keys or of the index. And what it leaves behind for an erasure.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::handle::{Compactor, KeyFilter, Shared, WriteSide};
use crate::sync::{Ranked, Turn, lock, rank};

/// The turn to compact.
pub(crate) struct Compacting<'w> {
    writer: &'w WriteSide,
    _turn: Turn<'w>,
}

impl Compacting<'_> {
    /// What compactions know. Not locked while one runs: who is told how far it is may want to see a plan.
    pub(crate) fn known(&self) -> Compactor {
        Compactor::clone(&lock(&self.writer.compactor))
    }

    /// Takes over what one has learnt.
    pub(crate) fn learn(&self, learnt: Compactor) {
        let mut known = lock(&self.writer.compactor);
        (known.stuck, known.emptied) = (learnt.stuck, learnt.emptied);
    }
}

impl Shared {
    /// Waits until no other compaction runs.
    ///
    /// # Errors
    /// `Closed`, also when the handle is closed meanwhile; `Poisoned`.
    pub(crate) fn turn_to_compact<'w>(&self, writer: &'w WriteSide) -> Result<Compacting<'w>> {
        let go_on = || {
            self.check_open()?;
            writer.poison.check()
        };
        writer.compacting.take(go_on).map(|turn| Compacting { writer, _turn: turn })
    }
}

/// What compaction leaves behind while something is being erased.
pub(crate) struct Cleaning {
    /// Records that name these dictionaries are compressed anew.
    pub(crate) retired: BTreeSet<u32>,
    /// Removals of such keys go if their sequence is below this: nothing that they hide is left.
    pub(crate) removals: Option<(KeyFilter, u64)>,
    /// Those of the retired that records still name, which cannot be expanded and move as they are.
    pub(crate) needed: Ranked<{ rank::NEEDED }, BTreeSet<u32>>,
}

impl Cleaning {
    /// Whether a removal is to go.
    pub(crate) fn drops(&self, key: &[u8], sequence: u64) -> bool {
        self.removals.as_ref().is_some_and(|(is_meant, below)| sequence < *below && is_meant(key))
    }
}
