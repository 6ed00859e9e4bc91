//! The task of a checkpoint beside the memtable: move versions to the places where compaction
//! copied them, drop versions from chains, rewrite chains.

use std::collections::{HashMap, HashSet};

use crate::format::key;
use crate::format::leaf::{MAX_DEPTH, kept_bits};
use crate::format::location::{Extent, Location};
use crate::handle::retention::{Retention, Spared};
use crate::handle::spot::Spot;

/// A move of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    /// Hash of the version's key.
    pub(crate) hash: u64,
    pub(crate) sequence: u64,
    /// Location in the index when the version was copied. If the index names another by now, the
    /// version was removed or moved meanwhile.
    pub(crate) from: Location,
    pub(crate) to: Extent,
}

impl Op {
    fn is_of(&self, spot: &Spot) -> bool {
        self.sequence == spot.version.sequence && self.from == spot.extent.location
    }
}

/// Work of a checkpoint beside merging the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    pub(crate) ops: Vec<Op>,
    /// Hashes of keys whose chains are examined.
    pub(crate) chains: Vec<u64>,
    /// Chains with a record in this key-log segment are rewritten.
    pub(crate) evacuated: Option<u16>,
    /// Moves some leaves to the front of the index file, and punches out free space behind them.
    pub(crate) sweep: bool,
    /// Lets more changes settle than the rest pays for.
    pub(crate) settles: bool,
    /// Writes a superblock even if the index is unchanged, to name segments without a version, for
    /// example.
    pub(crate) is_due: bool,
    /// Ordinals of value segments that may be removed if they hold no live bytes at the end.
    pub(crate) leaving: Vec<u64>,
    /// No tombstone with this sequence or a later one is dropped with those segments.
    pub(crate) removals_from: u64,
    /// Retention by which versions are dropped from the examined chains.
    pub(crate) retention: Retention,
    /// Versions exempt from that retention.
    pub(crate) spared: Spared,
    /// Sequences of versions to drop, unless a kept version refers to their body. Each maps to a
    /// sequence: versions below that sequence which refer to it are dropped, too.
    pub(crate) erased: HashMap<u64, u64>,
    /// The task is completed even when the handle is closed.
    pub(crate) must_end: bool,
}

impl Task {
    pub(crate) fn is_empty(&self) -> bool {
        let has_work = self.evacuated.is_some() || self.sweep || self.settles || self.is_due;
        self.ops.is_empty() && self.chains.is_empty() && !has_work
    }

    /// Returns whether a version is dropped because it refers to an erased one.
    fn is_parted(&self, spot: &Spot) -> bool {
        self.erased.get(&spot.refers_to).is_some_and(|below| spot.version.sequence < *below)
    }

    /// Removes the erased versions.
    pub(crate) fn without_erased(&self, mut kept: Vec<Spot>) -> Vec<Spot> {
        if !self.erased.is_empty() {
            let is_erased = |s: &Spot| self.erased.contains_key(&s.version.sequence) || self.is_parted(s);
            let staying = kept.iter().filter(|s| !is_erased(s) && s.refers_to != 0);
            let holders: HashSet<u64> = staying.map(|s| s.refers_to).collect();
            kept.retain(|s| !is_erased(s) || holders.contains(&s.version.sequence));
        }
        kept
    }

    /// Sorts everything by hash, the order in which it is used.
    pub(crate) fn sort(&mut self) {
        self.ops.sort_unstable_by_key(|op| (told(op.hash), op.sequence));
        self.chains.sort_unstable();
        self.chains.dedup();
    }

    /// All touched hashes, with those of the keys to merge, sorted, each once.
    pub(crate) fn hashes(&self, keys: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut hashes: Vec<u64> =
            keys.chain(self.ops.iter().map(|op| op.hash)).chain(self.chains.iter().copied()).collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    /// Returns true if an address lies in the segment to be emptied.
    pub(crate) fn evacuates(&self, address: u64) -> bool {
        address != 0 && self.evacuated == Some(key::segment_of(address))
    }
}

/// Versions of a key that the handle keeps.
#[derive(Clone, Copy)]
pub(super) struct Keeping {
    pub(super) own: Retention,
    /// Hash of the key whose single versions are being removed. Some are in its chain twice for a
    /// while, and must not hide others.
    pub(super) parting: u64,
}

impl Keeping {
    /// Retention for a key whose versions are entered, given the bits of its hash that slots keep.
    pub(super) fn of(self, hash: u64) -> Retention {
        if hash == kept_bits(self.parting) { Retention::default() } else { self.own }
    }

    /// The kept versions of a key whose chain is examined. Of versions that exist twice, one
    /// counts.
    pub(super) fn kept(self, hash: u64, mut all: Vec<Spot>, task: &Task) -> Vec<Spot> {
        if hash != kept_bits(self.parting) || task.erased.is_empty() {
            return self.of(hash).kept(all);
        }
        all.retain(|spot| !task.is_parted(spot));
        self.own.kept(all)
    }
}

/// Work of a task on keys, taken in the order of their hashes.
pub(super) struct Ordered<'t> {
    ops: &'t [Op],
    chains: &'t [u64],
}

impl<'t> Ordered<'t> {
    /// Everything in a sorted task.
    pub(super) fn new(task: &'t Task) -> Ordered<'t> {
        Ordered { ops: &task.ops, chains: &task.chains }
    }

    /// The moves of keys that share this hash's bits in slots. Hashes must be passed in ascending
    /// order. `None` if the task has no work for these keys.
    pub(super) fn take(&mut self, hash: u64) -> Option<&'t [Op]> {
        let kept = told(hash);
        self.ops = skip(self.ops, |op| told(op.hash) < kept);
        self.chains = skip(self.chains, |chain| told(*chain) < kept);
        let (near, later) = (self.ops, skip(self.ops, |op| told(op.hash) == kept));
        self.ops = later;
        let near = &near[..near.len() - later.len()];
        (!near.is_empty() || self.chains.first().is_some_and(|chain| told(*chain) == kept)).then_some(near)
    }
}

/// The rest of a slice after its first items that match, which are few.
fn skip<T>(items: &[T], matches: impl Fn(&T) -> bool) -> &[T] {
    &items[items.iter().take_while(|item| matches(item)).count()..]
}

/// The bits of a hash that directory and slots keep.
pub(super) fn told(hash: u64) -> u64 {
    hash >> (64 - MAX_DEPTH)
}

/// Returns the location of a version after moves, which are sorted by sequence.
pub(crate) fn moved(ops: &[Op], spot: &Spot) -> Extent {
    let sequence = spot.version.sequence;
    let first = ops.partition_point(|op| op.sequence < sequence);
    let mut mine = ops[first..].iter().take_while(|op| op.sequence == sequence);
    mine.find(|op| op.is_of(spot)).map_or(spot.extent, |op| op.to)
}
