//! The turn to compact: one compaction runs at a time, of values, of keys or of the index.

use crate::error::Result;
use crate::state::{Compactor, Shared, WriteSide};
use crate::sync::{Alone, lock};

/// The turn to compact.
pub(crate) struct Compacting<'w> {
    writer: &'w WriteSide,
    _alone: Alone<'w>,
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
    pub(crate) fn compacts_alone<'w>(&self, writer: &'w WriteSide) -> Result<Compacting<'w>> {
        let go_on = || {
            self.check_open()?;
            writer.poison.check()
        };
        writer.compacting.take(go_on).map(|alone| Compacting { writer, _alone: alone })
    }
}
