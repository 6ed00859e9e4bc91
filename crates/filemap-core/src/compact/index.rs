//! The index's file gives its free pages back, when that is worth it. What makes them free, the merging of leaves, is part of every
//! checkpoint.

use crate::buggify::step;
use crate::checkpoint::Task;
use crate::error::Result;
use crate::state::{Shared, WriteSide};
use crate::sync::lock;

/// Moves leaves to the front of address.idx, a stage of a checkpoint at a time, and gives back what is free behind them, if much
/// is; whether it did something.
///
/// # Errors
/// As of a checkpoint.
pub(crate) fn shrink_index(shared: &Shared, writer: &WriteSide) -> Result<bool> {
    let is_worth_it = {
        let c = lock(&writer.checkpointer);
        // A backup keeps the pages that would be given back.
        c.holds == 0 && c.index.wants_sweep()
    };
    if is_worth_it {
        sweep(shared, writer)?;
    }
    Ok(is_worth_it)
}

/// The same, whether it is worth it or not.
///
/// # Errors
/// As of a checkpoint.
pub(crate) fn sweep(shared: &Shared, writer: &WriteSide) -> Result<()> {
    let _turn = shared.compacts_alone(writer)?;
    let mut goes_on = true;
    while goes_on && !writer.checkpoint_bell.is_stopped() {
        step();
        shared.checkpoint_with(Task { sweep: true, ..Task::default() })?;
        goes_on = lock(&writer.checkpointer).index.is_sweeping();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
