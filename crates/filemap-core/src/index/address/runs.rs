//! The runs of address.idx, as readers see them: sorted slot changes that are not in the leaves
//! yet.
//!
//! Each of the 128 parts of the hash space has its runs, oldest first. The slots of a hash are
//! those of its leaf with the changes of all runs applied, in that order. Applying changes again
//! to a leaf that already has them changes nothing, if none of the later changes is left out (see
//! [`apply`](super::run_pages::apply)). So a leaf may be rewritten with its changes at any time
//! before its runs are dropped, and a crash may come in between. For the same reason consecutive
//! changes of one slot are never combined: a leaf may have the first of them.
//!
//! Summaries are read into memory when first needed: they spare a lookup a page of each run.

use std::sync::Arc;

use crate::format::leaf::MAX_DEPTH;
use crate::format::run::{CHANGES, EPOCH, GROUP_HASH, GROUP_PAGE, GROUP_PAGES, HEAD_WORDS, LEVEL, PAGES, PART, PARTS};
use crate::format::run::{RUN_WORDS, SETTLED, SETTLING_PART, SETTLING_RUNS, Summary};
use crate::format::{Flaw, PAGE_BYTES};
use crate::sync::primitive::{AtomicU64, OnceLock};

/// Low hash bits of a group's first change that the list of runs omits.
const UNTOLD_BITS: u32 = 8;

/// The runs that a superblock names.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// The runs of each part, oldest first.
    pub(super) parts: Vec<Vec<Arc<Run>>>,
    /// Position of the part that is settling. Only the writer uses it.
    pub(super) settling: Option<Position>,
}

/// Position of a part's settling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) part: usize,
    /// Number of its oldest runs that settle.
    pub(super) runs: usize,
    /// The first hash not settled yet.
    pub(super) next: u64,
}

/// Sorted changes of one part of the hash space.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) part: u8,
    pub(super) level: u8,
    /// Epoch of the superblock that first names the run: keeps a page of an older run from passing
    /// for one of this run.
    pub(super) epoch: u64,
    /// Pages of changes.
    pub(super) pages: u32,
    pub(super) changes: u64,
    pub(super) groups: Vec<Group>,
}

/// A summary and its pages of changes.
#[derive(Debug)]
pub(super) struct Group {
    /// The page of the summary.
    pub(super) page: u32,
    /// Upper hash bits of the group's first change.
    pub(super) first: u32,
    pub(super) summary: OnceLock<Box<Summary>>,
    /// A bit for each page of changes that was checked.
    pub(super) checked: AtomicU64,
}

impl Runs {
    pub(super) fn none() -> Runs {
        Runs { parts: vec![Vec::new(); PARTS], settling: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(Vec::is_empty)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.parts.iter().flatten()
    }

    /// The runs of the part of a hash, oldest first.
    pub(super) fn of(&self, hash: u64) -> &[Arc<Run>] {
        &self.parts[part_of(hash)]
    }

    /// Encodes the list as words, for the index file.
    pub(super) fn encode(&self) -> Vec<u64> {
        if self.is_empty() {
            return Vec::new();
        }
        let head = self.settling.map_or([0; HEAD_WORDS], |at| {
            let first = SETTLING_PART.at(at.part as u64) | SETTLING_RUNS.at(at.runs as u64);
            [first, SETTLED.at(at.next)]
        });
        head.into_iter().chain(self.all().flat_map(|run| run.encode())).collect()
    }

    /// Replaces runs that `old` has too by those of `old`, with their summaries.
    pub(super) fn adopt(&mut self, old: &Runs) {
        for (runs, old) in self.parts.iter_mut().zip(&old.parts) {
            for run in runs {
                if let Some(same) = old.iter().find(|old| old.is(run)) {
                    *run = Arc::clone(same);
                }
            }
        }
    }

    /// Memory of the summaries read so far, in bytes.
    pub(super) fn summary_bytes(&self) -> u64 {
        let read = self.all().flat_map(|run| &run.groups).filter(|group| group.summary.get().is_some());
        (read.count() * PAGE_BYTES) as u64
    }

    /// Decodes the list in the superblock of this `epoch`, for a file of `pages` pages.
    pub(super) fn decode(words: &[u64], pages: u64, epoch: u64) -> std::result::Result<Runs, Flaw> {
        let mut runs = Runs::none();
        if words.is_empty() {
            return Ok(runs);
        }
        let Some((head, mut rest)) = words.split_at_checked(HEAD_WORDS) else {
            return Err("list of runs is cut off");
        };
        let mut last = 0;
        while !rest.is_empty() {
            let run;
            (run, rest) = Run::decode(rest, pages, epoch)?;
            if usize::from(run.part) < last {
                return Err("list of runs is not in order");
            }
            last = usize::from(run.part);
            runs.parts[last].push(Arc::new(run));
        }
        // A page in two groups would become free when one of them is dropped.
        let mut taken: Vec<(u32, u32)> = runs.all().flat_map(|run| run.extents()).collect();
        taken.sort_unstable();
        if taken.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
            return Err("list of runs has a page twice");
        }
        let (part, count) = (SETTLING_PART.get(head) as usize, SETTLING_RUNS.get(head) as usize);
        let at = Position { part, runs: count, next: SETTLED.get(head) };
        if count > 0 {
            let is_there = runs.parts.get(part).is_some_and(|all| all.len() >= count);
            if !is_there || part_of(at.next) != part {
                return Err("list of runs has an invalid settling part");
            }
            runs.settling = Some(at);
        }
        if runs.encode() != words {
            return Err("reserved bits of the list of runs are not zero");
        }
        Ok(runs)
    }
}

impl Run {
    fn encode(&self) -> Vec<u64> {
        let head = PART.at(u64::from(self.part)) | LEVEL.at(u64::from(self.level)) | PAGES.at(u64::from(self.pages));
        let groups = self
            .groups
            .iter()
            .map(|group| GROUP_HASH.at(u64::from(group.first)) | GROUP_PAGE.at(u64::from(group.page)));
        [head, CHANGES.at(self.changes), EPOCH.at(self.epoch)].into_iter().chain(groups).collect()
    }

    fn decode(words: &[u64], file_pages: u64, epoch: u64) -> std::result::Result<(Run, &[u64]), Flaw> {
        let Some((head, rest)) = words.split_at_checked(RUN_WORDS) else {
            return Err("list of runs is cut off");
        };
        let pages = PAGES.get(head);
        let count = (pages as usize).div_ceil(GROUP_PAGES);
        if count > rest.len() {
            return Err("list of runs is cut off");
        }
        let (groups, rest) = rest.split_at(count);
        let (part, changes, born) = (PART.get(head), CHANGES.get(head), EPOCH.get(head));
        let most = pages * (PAGE_BYTES / 16) as u64;
        if part as usize >= PARTS || pages == 0 || changes < pages || changes > most || born > epoch {
            return Err("invalid entry in the list of runs");
        }
        let mut run = Run {
            part: part as u8,
            level: LEVEL.get(head) as u8,
            epoch: born,
            pages: pages as u32,
            changes,
            groups: Vec::with_capacity(count),
        };
        for (nth, word) in groups.iter().enumerate() {
            let group = Group::new(GROUP_PAGE.of(*word) as u32, GROUP_HASH.of(*word) as u32);
            let end = u64::from(group.page) + 1 + run.pages_of(nth) as u64;
            if group.page == 0 || end > file_pages || run.groups.last().is_some_and(|last| last.first > group.first) {
                return Err("list of runs has an impossible group");
            }
            run.groups.push(group);
        }
        Ok((run, rest))
    }

    /// Number of pages of changes in a group: all groups but the last are full.
    pub(super) fn pages_of(&self, group: usize) -> usize {
        (self.pages as usize - group * GROUP_PAGES).min(GROUP_PAGES)
    }

    /// First and last page of each group.
    fn extents(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.groups.iter().enumerate().map(|(nth, group)| (group.page, group.page + self.pages_of(nth) as u32))
    }

    /// Every page of the run.
    pub(super) fn all_pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.extents().flat_map(|(first, last)| first..=last)
    }

    /// Number of all pages.
    pub(super) fn all_pages_count(&self) -> u64 {
        u64::from(self.pages) + self.groups.len() as u64
    }

    /// Returns true if this is the same run.
    fn is(&self, other: &Run) -> bool {
        let same =
            (self.part, self.epoch, self.pages, self.changes) == (other.part, other.epoch, other.pages, other.changes);
        same && self.groups.iter().map(|g| g.page).eq(other.groups.iter().map(|g| g.page))
    }

    /// The first group that may have a hash.
    pub(super) fn group_of(&self, kept: u64) -> usize {
        let told = told(kept);
        self.groups.partition_point(|group| group.first < told).saturating_sub(1)
    }
}

impl Group {
    pub(super) fn new(page: u32, first: u32) -> Group {
        Group { page, first, summary: OnceLock::new(), checked: AtomicU64::new(0) }
    }
}

/// The part of the hash space of a hash.
pub(super) fn part_of(hash: u64) -> usize {
    (hash >> (64 - PARTS.ilog2())) as usize
}

/// The last hash of the part of a hash.
pub(super) fn last_of_part(hash: u64) -> u64 {
    hash | u64::MAX >> PARTS.ilog2()
}

/// The bits of a change's hash that the list of runs stores.
pub(super) fn told(kept: u64) -> u32 {
    (kept >> UNTOLD_BITS) as u32
}

/// The least hash of a part with these bits in slots.
pub(super) fn whole_hash(part: u8, kept: u64) -> u64 {
    u64::from(part) << (64 - PARTS.ilog2()) | kept << (64 - MAX_DEPTH)
}
