//! The directory of an extendible hash table: 2^depth entries, indexed by the first bits of the
//! hash. A leaf of lesser depth is named by a run of entries. (R. Fagin et al., Extendible
//! Hashing, ACM TODS 4(3), 1979.)
//!
//! The entries of a node page are read when one of them is first needed, so opening costs the same
//! at any size. The writer reads all of them before it changes one.

use std::ops::{Deref, Range};
use std::sync::Arc;

use super::filter::{self, Filter};
use super::nodes::{Nodes, check_entries};
use super::runs::Runs;
use super::trouble::{Damage, Trouble};
use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::leaf::{Leaf, MAX_DEPTH, MIN_DEPTH};
use crate::format::names;
use crate::format::node::{CAPACITY, Entry};
use crate::sync::make_way;
use crate::sync::primitive::{ArcSwap, AtomicBool, LargeWords, Ordering, fence};

/// In-memory mark: the entry's page was checked since opening, or written by this handle.
const VERIFIED: u64 = 1 << 56;
/// In-memory mark: the keys of the entry's page are in the filter.
const FILLED: u64 = 1 << 57;

/// An entry not read yet. No other entry is 0, since no depth is 0.
const UNREAD: u64 = 0;

#[derive(Debug)]
pub(super) struct Directory {
    depth: u8,
    epoch: u64,
    entries: LargeWords,
    /// Source of the entries.
    nodes: Option<Nodes>,
    /// True once all entries were read, and form a directory.
    is_whole: AtomicBool,
    filter: Option<Filter>,
    /// True once all leaves not marked as checked were read for the filter; some may be damaged.
    is_filter_full: AtomicBool,
    /// Changes that are not in the leaves. Kept here, so that a follower takes over both in one
    /// step.
    runs: ArcSwap<Runs>,
    /// True while there are runs.
    has_runs: AtomicBool,
    /// Memory bound of the filter; if it would be longer, none is made.
    filter_bytes_max: u64,
}

impl Directory {
    /// The directory of an empty index.
    ///
    /// # Errors
    /// `Io` if there is no memory for it.
    pub(super) fn empty(epoch: u64, runs: Runs, filter_bytes_max: u64) -> Result<Directory> {
        let entry = Entry { page: 0, count: 0, depth: MIN_DEPTH }.pack();
        let entries = vec![entry; 1 << MIN_DEPTH].into_iter();
        Directory::new(MIN_DEPTH, epoch, entries, runs, filter_bytes_max)
    }

    /// A directory whose entries are read from nodes, with a filter if that fits its memory bound.
    ///
    /// # Errors
    /// `Io` if there is no memory for it.
    pub(super) fn read_from(
        nodes: Option<Nodes>,
        depth: u8,
        epoch: u64,
        runs: Runs,
        filter_bytes_max: u64,
    ) -> Result<Directory> {
        let what = "reservation of memory for the directory";
        let entries = LargeWords::zeroed(1 << depth).map_err(Error::io(what, names::INDEX))?;
        let filter = Filter::new(1 << depth, filter_bytes_max);
        let (has_runs, runs) = (AtomicBool::new(!runs.is_empty()), ArcSwap::from_pointee(runs));
        let (is_whole, is_filter_full) = (AtomicBool::new(false), AtomicBool::new(filter.is_none()));
        Ok(Directory {
            depth,
            epoch,
            entries,
            nodes,
            is_whole,
            filter,
            is_filter_full,
            has_runs,
            runs,
            filter_bytes_max,
        })
    }

    /// Builds a directory from 2^depth packed entries, with a filter if that fits its memory
    /// bound. With a filter no entry counts as checked: its words are still empty.
    ///
    /// # Errors
    /// `Io` if there is no memory for it.
    pub(super) fn new(
        depth: u8,
        epoch: u64,
        entries: impl Iterator<Item = u64>,
        runs: Runs,
        filter_bytes_max: u64,
    ) -> Result<Directory> {
        let directory = Directory::read_from(None, depth, epoch, runs, filter_bytes_max)?;
        directory
            .entries
            .iter()
            .zip(entries)
            .for_each(|(word, e)| word.store(directory.unmarked(e), Ordering::Relaxed));
        Ok(directory)
    }

    /// An entry that counts as checked only if that needs no words of the filter.
    fn unmarked(&self, entry: u64) -> u64 {
        if self.filter.is_some() { entry & !(VERIFIED | FILLED) } else { entry }
    }

    /// Reads the unread entries, until `stops`.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(super) fn read_ahead(&self, stops: impl Fn() -> bool) -> Result<()> {
        if let Some(nodes) = &self.nodes {
            nodes.will_need();
        }
        for at in 0..self.len() {
            if at % CAPACITY == 0 {
                if stops() {
                    return Ok(());
                }
                make_way();
            }
            // Every entry: another reader may be in the middle of a node.
            self.word(at).map_err(Trouble::error)?;
        }
        Ok(())
    }

    /// Reads the unread entries, and checks that all form a directory, with this number of leaves
    /// if that is known. Does nothing once that has succeeded.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(super) fn read_all(&self, leaves: Option<u64>) -> Result<()> {
        let Some(nodes) = self.nodes.as_ref().filter(|_| !self.is_whole.load(Ordering::Acquire)) else {
            return Ok(());
        };
        self.read_ahead(|| false)?;
        let corrupt = |what| Error::corrupt(names::INDEX, 0, what);
        check_entries(self.depth, nodes.pages(), 0, &self.packed(0..self.len())).map_err(corrupt)?;
        let is_other = |leaves| self.leaves().filter(|(_, entry)| entry.page != 0).count() as u64 != leaves;
        if leaves.is_some_and(is_other) {
            return Err(corrupt("the directory's number of leaves differs from the superblock's"));
        }
        if leaves.is_some() {
            self.is_whole.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The same directory with twice the entries. All entries must have been read.
    ///
    /// # Errors
    /// `Io` if there is no memory for it.
    pub(super) fn doubled(&self) -> Result<Directory> {
        let twice = self.entries.iter().flat_map(|e| [e.load(Ordering::Relaxed); 2]);
        Directory::new(self.depth + 1, self.epoch, twice, Runs::clone(&self.runs()), self.filter_bytes_max)
    }

    /// The same directory with half the entries, or `None` if a leaf needs the full depth. All
    /// entries must have been read.
    ///
    /// # Errors
    /// `Io` if there is no memory for it.
    pub(super) fn halved(&self) -> Result<Option<Directory>> {
        if self.depth == MIN_DEPTH || self.leaves().any(|(_, entry)| entry.depth == self.depth) {
            return Ok(None);
        }
        let half = self.entries.iter().step_by(2).map(|e| e.load(Ordering::Relaxed));
        Directory::new(self.depth - 1, self.epoch, half, Runs::clone(&self.runs()), self.filter_bytes_max).map(Some)
    }

    pub(super) fn runs(&self) -> impl Deref<Target = Arc<Runs>> + '_ {
        self.runs.load()
    }

    /// Returns false if there are no runs: cheaper than [`Directory::runs`], which counts its
    /// readers.
    #[inline]
    pub(super) fn has_runs(&self) -> bool {
        self.has_runs.load(Ordering::Acquire)
    }

    /// Replaces the runs. Called by the writer alone: of two calls at once the flag may be wrong.
    pub(super) fn set_runs(&self, runs: Arc<Runs>) {
        let has_runs = !runs.is_empty();
        // Never false while there are runs. A lookup that saw it false a moment ago is one that
        // came before the new runs.
        if has_runs {
            self.has_runs.store(true, Ordering::Release);
        }
        self.runs.store(runs);
        self.has_runs.store(has_runs, Ordering::Release);
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

    /// Packed entries of a range that was read, without the in-memory marks.
    pub(super) fn packed(&self, range: Range<usize>) -> Vec<u64> {
        self.entries[range].iter().map(|e| Entry::unpack(e.load(Ordering::Relaxed)).pack()).collect()
    }

    /// Returns the index and the entry of a hash.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> std::result::Result<(usize, Entry), Trouble> {
        let at = (hash >> (64 - self.depth)) as usize;
        Ok((at, Entry::unpack(self.word(at)?)))
    }

    /// The word of an entry, read from its node if necessary.
    #[inline]
    fn word(&self, at: usize) -> std::result::Result<u64, Trouble> {
        match self.entries[at].load(Ordering::Acquire) {
            UNREAD => self.read(at),
            word => Ok(word),
        }
    }

    /// Reads the node that holds an entry.
    #[cold]
    fn read(&self, at: usize) -> std::result::Result<u64, Trouble> {
        let nodes =
            self.nodes.as_ref().ok_or(Trouble::Damage(Damage { page: 0, what: "a directory entry is missing" }))?;
        let found = nodes.with_entry(at);
        if let Ok((first, entries)) = &found {
            for (word, entry) in self.entries[*first..].iter().zip(entries) {
                // Another reader may have been faster, and the writer may have changed the entry
                // since.
                let _ = word.compare_exchange(UNREAD, self.unmarked(*entry), Ordering::Release, Ordering::Relaxed);
            }
        }
        // If the writer has reused the node's page, it has read the node first; its own fence
        // comes before the overwrite.
        fence(Ordering::Acquire);
        match self.entries[at].load(Ordering::Acquire) {
            UNREAD => {
                Err(found.err().unwrap_or(Trouble::Damage(Damage { page: 0, what: "a directory entry is empty" })))
            }
            word => Ok(word),
        }
    }

    /// The last hash whose entry lies in the same node as the entry of `hash`.
    pub(super) fn last_of_node(&self, hash: u64) -> u64 {
        let rest = 64 - self.depth;
        let last = ((hash >> rest) / CAPACITY as u64 + 1) * CAPACITY as u64 - 1;
        last.min((1 << self.depth) - 1) << rest | ((1 << rest) - 1)
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
            e.store(entry.pack() | VERIFIED | FILLED, Ordering::Release);
        }
        run
    }

    /// Returns true if the entry's page was checked.
    pub(super) fn is_verified(&self, at: usize) -> bool {
        self.entries[at].load(Ordering::Acquire) & VERIFIED != 0
    }

    /// Marks the page of an entry as checked; `slots` are the kept bits of its slots.
    pub(super) fn set_verified(&self, at: usize, slots: impl Iterator<Item = u64>) {
        self.mark(at, slots, VERIFIED | FILLED);
    }

    fn mark(&self, at: usize, slots: impl Iterator<Item = u64>, marks: u64) {
        if let Some(filter) = &self.filter {
            filter.add(self.placed(&(at..at + 1), slots));
        }
        // The entry may have changed since the check. That is harmless: a retired page is not
        // reused before `reuse` is raised, and the caller then starts over. At worst the mark
        // lands on a page that this handle has just written, whose slots are in the filter too.
        self.entries[at].fetch_or(marks, Ordering::Release);
    }

    /// Adds the keys of a page to the filter if entries lead to it. That does not count as a
    /// check: a look-up may come much later, when the page is read again.
    pub(super) fn fill(&self, page: u32, leaf: &Leaf) {
        let Some(shift) = self.depth.checked_sub(leaf.depth) else { return };
        let first = (leaf.prefix as usize) << shift;
        for at in first..first + (1 << shift) {
            // An unread entry names no page.
            let word = self.entries[at].load(Ordering::Acquire);
            let entry = Entry::unpack(word);
            let is_it = (entry.page, entry.depth, usize::from(entry.count)) == (page, leaf.depth, leaf.slots.len());
            if is_it && word & FILLED == 0 {
                self.mark(at, leaf.slots.iter().map(|slot| slot.hash), FILLED);
            }
        }
    }

    /// The pages of leaves whose keys are not in the filter. Reads the unread entries; a node that
    /// cannot be read has no leaves.
    pub(super) fn unfilled_pages(&self) -> Vec<u32> {
        let (mut pages, mut at) = (Vec::new(), 0);
        while at < self.len() {
            match self.word(at) {
                Ok(word) => {
                    let entry = Entry::unpack(word);
                    if entry.page != 0 && word & FILLED == 0 {
                        pages.push(entry.page);
                    }
                    let run = 1 << (self.depth - entry.depth);
                    at = (at / run + 1) * run;
                }
                Err(_) => at = (at / CAPACITY + 1) * CAPACITY,
            }
        }
        pages
    }

    /// Returns whether the filter needs no more leaves, or does not exist.
    pub(super) fn is_filter_full(&self) -> bool {
        self.is_filter_full.load(Ordering::Relaxed)
    }

    /// Marks the filter as full: all leaves were read for it.
    pub(super) fn set_filter_full(&self) {
        self.is_filter_full.store(true, Ordering::Relaxed);
    }

    /// Returns true if the filter proves that the entry's page lacks the hash.
    pub(super) fn lacks(&self, at: usize, hash: u64) -> bool {
        let is_filled = self.entries[at].load(Ordering::Acquire) & FILLED != 0;
        is_filled && self.filter.as_ref().is_some_and(|filter| !filter.may_have(at, filter::bits(hash)))
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

    /// Iterates over the leaves once each, in order of prefix. All entries must have been read.
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
