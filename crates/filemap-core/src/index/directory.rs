//! The directory of an extendible hash table: 2^depth entries, indexed by the hash's first bits; a leaf of lesser depth
//! is named by a run of entries. (R. Fagin et al., Extendible Hashing, ACM TODS 4(3), 1979.)

use crate::format::leaf::MIN_DEPTH;
use crate::format::node::Entry;
use crate::primitive::{AtomicU64, Ordering};

/// In memory only: the entry's page was checked since it was opened, or was written by this handle.
const VERIFIED: u64 = 1 << 56;

#[derive(Debug)]
pub(super) struct Directory {
    depth: u8,
    epoch: u64,
    entries: Box<[AtomicU64]>,
}

impl Directory {
    /// The directory of an empty index.
    pub(super) fn empty(epoch: u64) -> Directory {
        let entry = Entry { page: 0, count: 0, depth: MIN_DEPTH }.pack();
        Directory::new(MIN_DEPTH, epoch, vec![entry; 1 << MIN_DEPTH])
    }

    /// From packed entries, 2^depth of them.
    pub(super) fn new(depth: u8, epoch: u64, entries: Vec<u64>) -> Directory {
        assert_eq!(entries.len(), 1 << depth);
        Directory { depth, epoch, entries: entries.into_iter().map(AtomicU64::new).collect() }
    }

    /// The same directory with twice the entries.
    pub(super) fn doubled(&self) -> Directory {
        let twice = self.entries.iter().flat_map(|e| [e.load(Ordering::Relaxed); 2]);
        Directory { depth: self.depth + 1, epoch: self.epoch, entries: twice.map(AtomicU64::new).collect() }
    }

    /// The same directory with half the entries, if no leaf needs them all.
    pub(super) fn halved(&self) -> Option<Directory> {
        if self.depth == MIN_DEPTH || self.leaves().any(|(_, entry)| entry.depth == self.depth) {
            return None;
        }
        let half = self.entries.iter().step_by(2).map(|e| AtomicU64::new(e.load(Ordering::Relaxed)));
        Some(Directory { depth: self.depth - 1, epoch: self.epoch, entries: half.collect() })
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

    /// Packed entries of a stretch, without the marks that live in memory only.
    pub(super) fn packed(&self, range: std::ops::Range<usize>) -> Vec<u64> {
        self.entries[range].iter().map(|e| Entry::unpack(e.load(Ordering::Relaxed)).pack()).collect()
    }

    /// The entry of a hash, and its index.
    pub(super) fn find(&self, hash: u64) -> (usize, Entry) {
        let at = (hash >> (64 - self.depth)) as usize;
        (at, Entry::unpack(self.entries[at].load(Ordering::Acquire)))
    }

    /// Names a leaf in all entries of its run: `prefix` is the first `entry.depth` bits of its hashes. Returns the run.
    pub(super) fn set(&self, prefix: u64, entry: Entry) -> std::ops::Range<usize> {
        let shift = self.depth - entry.depth;
        let start = (prefix << shift) as usize;
        let run = start..start + (1 << shift);
        for e in &self.entries[run.clone()] {
            e.store(entry.pack() | VERIFIED, Ordering::Release);
        }
        run
    }

    pub(super) fn is_verified(&self, at: usize) -> bool {
        self.entries[at].load(Ordering::Relaxed) & VERIFIED != 0
    }

    pub(super) fn set_verified(&self, at: usize) {
        // Only if the entry is still the one that was checked would this be right; since a retired page is not reused
        // before `reuse` is raised, and the caller then starts over, at worst a mark is set on a page that this very
        // handle has just written.
        self.entries[at].fetch_or(VERIFIED, Ordering::Relaxed);
    }

    /// Each leaf once, in order of its prefix.
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
