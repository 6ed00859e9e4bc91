//! Chooses the order of a store's keys, from the options and the store's own record.

use crate::error::{Error, Result};
use crate::format::key_runs::KeyRuns;
use crate::index::segment_table::SegmentTable;
use crate::options::Options;

/// Ends the order of a store, or begins one if the index is empty, as the options say. `next` is
/// the first number of a run. Returns true if it changed the order, which a superblock must
/// record.
///
/// # Errors
/// `InvalidOption` if the store has an order that the options do not name.
pub(crate) fn order(segment_table: &mut SegmentTable, options: &Options, keys: u64, next: u64) -> Result<bool> {
    match (&segment_table.order, options.key_order) {
        (Some(_), None) if options.end_key_order => {
            segment_table.order = None;
            Ok(true)
        }
        (Some(named), Some(order)) if named.order == KeyRuns::order_of(order.name) => Ok(false),
        (Some(_), given) => {
            let given = given.map_or_else(|| "none".to_owned(), |order| format!("{:?}", order.name));
            let why = format!(
                "the store keeps its keys in another order than the one given ({given}): give that order, or end it"
            );
            Err(Error::option("key_order", why))
        }
        (None, Some(order)) if keys == 0 => {
            segment_table.order = Some(KeyRuns::none(order.name, next));
            Ok(true)
        }
        (None, _) => Ok(false),
    }
}

/// First run number in a store without an order: greater than the numbers of an earlier order,
/// which backups may still have, since no superblock names that many new runs.
pub(crate) fn first_run(epoch: u64) -> u64 {
    const RUNS_A_SUPERBLOCK: u64 = 256;
    if epoch <= 1 { 1 } else { epoch * RUNS_A_SUPERBLOCK }
}
