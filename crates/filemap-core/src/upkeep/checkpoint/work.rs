//! What a checkpoint is asked to do beside merging the memtable: to lead versions to the places that compaction has
//! copied them to, to look through chains for versions that are not kept, to write chains anew.

use std::collections::HashSet;
use std::sync::Arc;

use crate::format::key;
use crate::format::leaf::MAX_DEPTH;
use crate::format::location::{Extent, Location};
use crate::handle::retention::Needed;
use crate::handle::retention::Retention;
use crate::handle::spot::Spot;

/// A version that has another place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    /// Of its key.
    pub(crate) hash: u64,
    pub(crate) sequence: u64,
    /// Where the index had it when it was looked up. If it is there no more, it was removed or moved meanwhile.
    pub(crate) from: Location,
    pub(crate) to: Extent,
}

impl Op {
    fn is_of(&self, spot: &Spot) -> bool {
        self.sequence == spot.version.sequence && self.from == spot.extent.location
    }
}

/// The work beside the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) ops: Vec<Op>,
    /// Hashes of keys whose chains are to be looked through.
    pub(crate) chains: Vec<u64>,
    /// Chains that have a record in this segment of the key log are written anew.
    pub(crate) evacuated: Option<u16>,
    /// Leaves of the index are moved to the front of its file, some of them, and what is free behind them is given back.
    pub(crate) sweep: bool,
    /// A superblock is to be written though nothing may have changed in the index: segments without a version are to be named.
    pub(crate) is_due: bool,
    /// Ordinals of value segments that may go, if nothing lives in them at the end.
    pub(crate) leaving: Vec<u64>,
    /// Versions that this does not keep are dropped from the chains that are looked through.
    pub(crate) retention: Retention,
    /// What is kept all the same, since others need it.
    pub(crate) needed: Arc<Needed>,
    /// Versions with these sequences are dropped too, unless a version that is kept has its body from one.
    pub(crate) erased: HashSet<u64>,
}

impl Task {
    pub(crate) fn is_empty(&self) -> bool {
        let has_work = self.evacuated.is_some() || self.sweep || self.is_due;
        self.ops.is_empty() && self.chains.is_empty() && !has_work
    }

    /// Leaves out what is erased.
    pub(crate) fn without_erased(&self, mut kept: Vec<Spot>) -> Vec<Spot> {
        if !self.erased.is_empty() {
            let is_erased = |s: &Spot| self.erased.contains(&s.version.sequence);
            let staying = kept.iter().filter(|s| !is_erased(s) && s.refers_to != 0);
            let holders: HashSet<u64> = staying.map(|s| s.refers_to).collect();
            kept.retain(|s| !is_erased(s) || holders.contains(&s.version.sequence));
        }
        kept
    }

    /// Puts everything in the order of hashes, in which it is asked for.
    pub(crate) fn sort(&mut self) {
        self.ops.sort_unstable_by_key(|op| (told(op.hash), op.sequence));
        self.chains.sort_unstable();
        self.chains.dedup();
    }

    /// All hashes that are touched, with those of keys to merge, sorted, each once.
    pub(crate) fn hashes(&self, keys: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut hashes: Vec<u64> =
            keys.chain(self.ops.iter().map(|op| op.hash)).chain(self.chains.iter().copied()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    /// Whether there is something to do for keys of a hash.
    pub(crate) fn touches(&self, hash: u64) -> bool {
        !self.ops_near(hash).is_empty() || self.chains.binary_search(&hash).is_ok()
    }

    /// The moves of keys that slots cannot tell from one with this hash.
    pub(crate) fn ops_near(&self, hash: u64) -> &[Op] {
        let start = self.ops.partition_point(|op| told(op.hash) < told(hash));
        let end = start + self.ops[start..].partition_point(|op| told(op.hash) == told(hash));
        &self.ops[start..end]
    }

    /// Whether an address lies in the segment that is to be emptied.
    pub(crate) fn evacuates(&self, address: u64) -> bool {
        address != 0 && self.evacuated == Some(key::segment_of(address))
    }
}

/// What slots can tell of a hash.
fn told(hash: u64) -> u64 {
    hash >> (64 - MAX_DEPTH)
}

/// Where a version lies after moves, which are in the order of their sequences.
pub(crate) fn moved(ops: &[Op], spot: &Spot) -> Extent {
    let sequence = spot.version.sequence;
    let first = ops.partition_point(|op| op.sequence < sequence);
    let mut mine = ops[first..].iter().take_while(|op| op.sequence == sequence);
    mine.find(|op| op.is_of(spot)).map_or(spot.extent, |op| op.to)
}
