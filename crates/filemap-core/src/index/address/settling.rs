//! What the index writer remembers of runs: changes that are to be written as one, and how far the
//! part that is settling has come. [`settle`](super::settle) says what becomes of it.

use std::sync::Arc;

use super::run_cursor::Cursor;
use super::runs::{Run, Runs};
use crate::format::run::Change;

/// What the writer knows of runs.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Changes of this stage, in the order of hashes, each with its part.
    pub(super) changes: Vec<(u8, Change)>,
    /// Bytes of leaves that may still be rewritten.
    pub(super) credit_bytes: u64,
    /// The part that is settling.
    pub(super) current: Option<Current>,
    /// Runs whose changes are all in leaves, to be dropped by the next commit.
    pub(super) settled: Vec<Arc<Run>>,
    /// Pages of the list of runs, its root last, and its number of words.
    pub(super) list: (Vec<u32>, u32),
    /// Where the search for free pages goes on.
    pub(super) searched: u32,
    /// The part whose runs are looked at next for a join.
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
    /// The least hash that has not settled.
    pub(super) next: u64,
    pub(super) runs: Vec<Arc<Run>>,
    /// The changes of the runs from `next` on; none before the first is asked for.
    pub(super) cursors: Vec<Cursor>,
}

impl Settling {
    /// Without changes, but with the pages of the list of runs; goes on where that says.
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
