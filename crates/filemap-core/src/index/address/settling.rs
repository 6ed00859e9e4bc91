//! The index writer's state of runs: changes to be written as a run, and the progress of the part
//! that is settling. [`settle`](super::settle) has the operations.

use std::sync::Arc;

use super::run_cursor::Cursor;
use super::runs::{Run, Runs};
use crate::format::run::Change;

/// The writer's state of runs.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Changes of this stage in hash order, each with its part.
    pub(super) changes: Vec<(u8, Change)>,
    /// Bytes of leaves that may still be rewritten.
    pub(super) credit_bytes: u64,
    /// The part that is settling.
    pub(super) current: Option<Current>,
    /// Runs whose changes are all in leaves; the next commit drops them.
    pub(super) settled: Vec<Arc<Run>>,
    /// Pages of the list of runs, its root last, and its number of words.
    pub(super) list: (Vec<u32>, u32),
    /// Page at which the search for free pages continues.
    pub(super) searched: u32,
    /// The next part whose runs may be joined.
    pub(super) joining: usize,
    /// A bit for each part with damage in a leaf or run: it does not settle.
    pub(super) unsettled: u128,
    /// A bit for each part with damage in a run: its runs are not joined.
    pub(super) unjoined: u128,
}

/// The part that is settling.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) part: usize,
    /// The least hash not settled yet.
    pub(super) next: u64,
    pub(super) runs: Vec<Arc<Run>>,
    /// Cursors over the changes of the runs from `next` on; none before the first is needed.
    pub(super) cursors: Vec<Cursor>,
}

impl Settling {
    /// A state without changes, with the pages of the list of runs; settling continues where the
    /// list says.
    pub(super) fn new(list: (Vec<u32>, u32), runs: &Runs) -> Settling {
        let current = runs.settling.map(|at| Current {
            part: at.part,
            next: at.next,
            runs: runs.parts[at.part][..at.runs].to_vec(),
            cursors: Vec::new(),
        });
        Settling { list, current, ..Settling::default() }
    }

    /// Returns true if changes wait to be written.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Returns true if enough changes wait that the caller should commit.
    pub(super) fn is_full(&self, most: usize) -> bool {
        self.changes.len() >= most
    }
}
