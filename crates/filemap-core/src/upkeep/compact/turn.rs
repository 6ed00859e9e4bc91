//! The turn to compact: one compaction runs at a time, of values, of keys or of the index.

use crate::error::Result;
use crate::sync::{Ranked, Turn, lock, rank};
use crate::upkeep::Upkeep;
use crate::upkeep::state::Compactor;

/// The turn to compact.
pub(crate) struct Compacting<'w> {
    compactor: &'w Ranked<{ rank::COMPACTOR }, Compactor>,
    _turn: Turn<'w>,
}

impl Compacting<'_> {
    /// Returns the state that compactions keep. It is not locked during a run, since a progress
    /// callback may request a plan.
    pub(crate) fn known(&self) -> Compactor {
        Compactor::clone(&lock(self.compactor))
    }

    /// Stores the state that a run has updated.
    pub(crate) fn learn(&self, learnt: Compactor) {
        let mut known = lock(self.compactor);
        (known.stuck, known.cut, known.emptied) = (learnt.stuck, learnt.cut, learnt.emptied);
    }
}

impl Upkeep {
    /// Waits until no other compaction runs.
    ///
    /// # Errors
    /// `Closed`, also when the handle is closed meanwhile; `Poisoned`.
    pub(crate) fn turn_to_compact(&self) -> Result<Compacting<'_>> {
        let go_on = || {
            self.reading.check_open()?;
            self.writing.poisoned().check()
        };
        self.compacting.take(go_on).map(|turn| Compacting { compactor: &self.compactor, _turn: turn })
    }
}
