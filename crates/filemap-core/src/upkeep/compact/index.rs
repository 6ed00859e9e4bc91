//! The index's file gives its free pages back, when that is worth it. What makes them free, the merging of leaves, is part of every
//! checkpoint.

use crate::error::Result;
use crate::failpoint::step;
use crate::handle::{Shared, WriteSide};
use crate::sync::lock;
use crate::upkeep::checkpoint::Task;

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
    let _turn = shared.turn_to_compact(writer)?;
    let mut goes_on = true;
    while goes_on && !writer.checkpoint_bell.is_stopped() {
        step();
        shared.checkpoint_with(Task { sweep: true, ..Task::default() })?;
        goes_on = lock(&writer.checkpointer).index.is_sweeping();
    }
    Ok(())
}
