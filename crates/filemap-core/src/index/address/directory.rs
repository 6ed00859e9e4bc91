//! The directory of an extendible hash table: 2^depth entries, indexed by the first bits of the
//! hash. A leaf of lesser depth is named by a run of entries. (R. Fagin et al., Extendible Hashing,
//! ACM TODS 4(3), 1979.)

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::filter::{self, Filter};
use super::runs::Runs;
use crate::failpoint::{Fault, planted};
use crate::format::leaf::{MAX_DEPTH, MIN_DEPTH};
use crate::format::node::Entry;
use crate::sync::primitive::{ArcSwap, AtomicU64, Ordering};

/// Mark in memory only: the entry's page was checked since opening, or written by this handle, and
/// its keys are in the filter.
const VERIFIED: u64 = 1 << 56;

#[derive(Debug)]
pub(super) struct Directory {
    depth: u8,
    epoch: u64,
    entries: Box<[AtomicU64]>,
    filter: Option<Filter>,
    /// Changes that are not in the leaves. Here, so that a follower takes over both in one step.
    runs: ArcSwap<Runs>,
    /// No filter is made if it would be longer.
    filter_bytes_max: u64,
}

impl Directory {
    /// The directory of an empty index.
    pub(super) fn empty(epoch: u64, runs: Runs, filter_bytes_max: u64) -> Directory {
        let entry = Entry { page: 0, count: 0, depth: MIN_DEPTH }.pack();
        let entries = vec![entry; 1 << MIN_DEPTH].into_iter();
        Directory::new(MIN_DEPTH, epoch, entries, runs, filter_bytes_max)
    }

    /// Builds a directory from 2^depth packed entries, with a filter if that fits its memory bound.
    /// With a filter no entry counts as checked: its words are still empty.
    pub(super) fn new(
        depth: u8,
        epoch: u64,
        entries: impl Iterator<Item = u64>,
        runs: Runs,
        filter_bytes_max: u64,
    ) -> Directory {
        let filter = Filter::new(1 << depth, filter_bytes_max);
        let marks = if filter.is_some() { VERIFIED } else { 0 };
        let entries: Box<[AtomicU64]> = entries.map(|e| AtomicU64::new(e & !marks)).collect();
        assert_eq!(entries.len(), 1 << depth);
        let runs = ArcSwap::from_pointee(runs);
        Directory { depth, epoch, entries, filter, runs, filter_bytes_max }
    }

    /// The same directory with twice the entries.
    pub(super) fn doubled(&self) -> Directory {
        let twice = self.entries.iter().flat_map(|e| [e.load(Ordering::Relaxed); 2]);
        Directory::new(self.depth + 1, self.epoch, twice, Runs::clone(&self.runs()), self.filter_bytes_max)
    }

    /// The same directory with half the entries, or `None` if a leaf needs the full depth.
    pub(super) fn halved(&self) -> Option<Directory> {
        if self.depth == MIN_DEPTH || self.leaves().any(|(_, entry)| entry.depth == self.depth) {
            return None;
        }
        let half = self.entries.iter().step_by(2).map(|e| e.load(Ordering::Relaxed));
        Some(Directory::new(self.depth - 1, self.epoch, half, Runs::clone(&self.runs()), self.filter_bytes_max))
    }

    /// The runs.
    pub(super) fn runs(&self) -> impl Deref<Target = Arc<Runs>> + '_ {
        self.runs.load()
    }

    /// Replaces the runs.
    pub(super) fn set_runs(&self, runs: Arc<Runs>) {
        self.runs.store(runs);
    }

    pub(super) fn depth(&self) -> u8 {
        self.depth
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Packed entries of a range, without the marks that exist in memory only.
    pub(super) fn packed(&self, range: Range<usize>) -> Vec<u64> {
        self.entries[range].iter().map(|e| Entry::unpack(e.load(Ordering::Relaxed)).pack()).collect()
    }

    /// Returns the index and the entry of a hash.
    pub(super) fn find(&self, hash: u64) -> (usize, Entry) {
        let at = (hash >> (64 - self.depth)) as usize;
        (at, Entry::unpack(self.entries[at].load(Ordering::Acquire)))
    }

    /// Points all entries of a leaf's run at it and returns the run. `prefix` is the first
    /// `entry.depth` bits of the leaf's hashes; `slots` are the kept bits of all of them.
    pub(super) fn set(&self, prefix: u64, entry: Entry, slots: impl Iterator<Item = u64>) -> Range<usize> {
        let shift = self.depth - entry.depth;
        let start = (prefix << shift) as usize;
        let run = start..start + (1 << shift);
        if let Some(filter) = self.filter.as_ref().filter(|_| !planted(Fault::FilterNotFilled)) {
            filter.set(self.placed(&run, slots));
        }
        for e in &self.entries[run.clone()] {
            e.store(entry.pack() | VERIFIED, Ordering::Release);
        }
        run
    }

    /// Returns true if the entry's page was checked.
    pub(super) fn is_verified(&self, at: usize) -> bool {
        self.entries[at].load(Ordering::Acquire) & VERIFIED != 0
    }

    /// Marks the page of an entry as checked; `slots` are the kept bits of its slots.
    pub(super) fn set_verified(&self, at: usize, slots: impl Iterator<Item = u64>) {
        if let Some(filter) = &self.filter {
            filter.add(self.placed(&(at..at + 1), slots));
        }
        // The entry may have changed since the check. That is harmless: a retired page is not
        // reused before `reuse` is raised, and the caller then starts over. At worst the mark lands
        // on a page that this handle has just written, whose slots are in the filter too.
        self.entries[at].fetch_or(VERIFIED, Ordering::Release);
    }

    /// Returns true if the filter proves that the entry's page lacks the hash.
    pub(super) fn lacks(&self, at: usize, hash: u64) -> bool {
        self.is_verified(at) && self.filter.as_ref().is_some_and(|filter| !filter.may_have(at, filter::bits(hash)))
    }

    /// Pairs the slots that belong to a run of entries with their entry, as the filter expects.
    fn placed(&self, run: &Range<usize>, slots: impl Iterator<Item = u64>) -> impl Iterator<Item = (usize, u64)> {
        // The first bits of a hash, which slots do not keep.
        let (first, kept) = ((run.start as u64) << (MAX_DEPTH - self.depth), MAX_DEPTH - MIN_DEPTH);
        let placed = slots.map(move |slot| first >> kept << kept | slot);
        let (shift, run) = (MAX_DEPTH - self.depth, run.clone());
        placed.map(move |bits| ((bits >> shift) as usize, bits)).filter(move |(at, _)| run.contains(at))
    }

    /// Memory of the filter, in bytes.
    pub(super) fn filter_bytes(&self) -> u64 {
        self.filter.as_ref().map_or(0, Filter::bytes)
    }

    /// Iterates over the leaves once each, in order of prefix.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (u64, Entry)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let entry = Entry::unpack(self.entries.get(at)?.load(Ordering::Relaxed));
            let shift = self.depth - entry.depth;
            let prefix = (at >> shift) as u64;
            at += 1 << shift;
            Some((prefix, entry))
        })
    }
}
