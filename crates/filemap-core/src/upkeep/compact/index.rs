//! Returns free pages of the index file to the file system, when that pays. The merging of leaves,
//! which frees pages, is part of every checkpoint.

use crate::error::Result;
use crate::failpoint::step;
use crate::sync::lock;
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoint::Task;

/// Moves leaves to the front of address.idx, one stage per checkpoint, and punches out the free
/// space behind them, if that is large enough. Returns true if it did.
///
/// # Errors
/// As of a checkpoint.
pub(crate) fn shrink_index(upkeep: &Upkeep) -> Result<bool> {
    let is_worth_it = {
        let c = lock(&upkeep.checkpointer);
        // A backup holds the pages that would be punched out.
        c.holds == 0 && c.index.wants_sweep()
    };
    if is_worth_it {
        sweep(upkeep)?;
    }
    Ok(is_worth_it)
}

/// [`shrink_index`] without that condition.
///
/// # Errors
/// As of a checkpoint.
pub(crate) fn sweep(upkeep: &Upkeep) -> Result<()> {
    let _turn = upkeep.turn_to_compact()?;
    let mut goes_on = true;
    while goes_on && !upkeep.writing.bells().checkpoint.is_stopped() {
        step();
        upkeep.checkpoint_with(Task { sweep: true, ..Task::default() })?;
        goes_on = lock(&upkeep.checkpointer).index.is_sweeping();
    }
    Ok(())
}

impl Upkeep {
    /// Lets all changes settle that wait now, so that no old slot is left in a leaf or a run, and
    /// punches out all free pages of the index. Returns false if damage keeps some from settling.
    ///
    /// # Errors
    /// As of a checkpoint.
    pub(crate) fn punch_index(&self) -> Result<bool> {
        let before = lock(&self.checkpointer).index.epoch();
        let left = || lock(&self.checkpointer).index.has_runs_before(before);
        while left().0 {
            step();
            self.checkpoint_with(Task { settles: true, ..Task::default() })?;
        }
        lock(&self.checkpointer).index.punch_all().inspect_err(|e| self.writing.poison(e))?;
        Ok(!left().1)
    }
}
