//! Reads pages of runs: the changes of one hash, summaries, whole pages. Checks pages of runs.
//!
//! A group is one read: its summary and its pages lie next to each other, so whoever lacks the
//! summary requests all of them. Nearly every look-up of a key that waits would need a second read
//! otherwise, and those of other keys, by false positives, one now and then.

use std::ops::Range;
use std::sync::Arc;

use filemap_io::{Word, files};

use super::runs::{Run, told};
use super::trouble::{Damage, Trouble};
use super::{Candidates, Index, Owner, copy};
use crate::error::Result;
use crate::failpoint::{Fault, planted};
use crate::format::leaf::{Slot, hash_of_word};
use crate::format::run::{self, Change, HEADER_BYTES, Summary};
use crate::format::{PAGE_BYTES, names};
use crate::sync::primitive::Ordering;

/// Applies changes, oldest first, to slots sorted by hash.
///
/// The key record's address tells slots with the same hash bits apart. A change that was applied
/// before finds its replaced slot gone and its own slot there, or replaced by a later change that
/// follows here: the result is the same.
pub(super) fn apply(slots: &mut Vec<Slot>, changes: &[Change]) {
    for change in changes {
        let first = slots.partition_point(|s| s.hash < change.hash());
        let count = slots[first..].partition_point(|s| s.hash == change.hash());
        let same = &slots[first..first + count];
        let ignores_address = planted(Fault::ChangesByHash);
        let old = same.iter().position(|s| change.replaces != 0 && (s.key == change.replaces || ignores_address));
        let is_there = same.iter().any(|s| s.key == change.slot.key);
        match old {
            Some(old) if change.removes() || is_there => {
                // The old slot may be the new one, with another location.
                if same[old].key == change.slot.key {
                    slots[first + old] = change.slot;
                } else {
                    slots.remove(first + old);
                }
            }
            Some(old) => slots[first + old] = change.slot,
            None if change.removes() || is_there => {}
            None => slots.insert(first + count, change.slot),
        }
    }
}

/// Groups of a run that are read together, if they lie next to each other in the file.
const GROUPS_AHEAD: usize = 4;

/// Ranges of pages that a lookup of some hash bits may read: pages of changes if the summary is in
/// memory, else the whole group.
pub(super) fn pages_for(runs: &[Arc<Run>], kept: u64) -> impl Iterator<Item = Range<u64>> + '_ {
    runs.iter().flat_map(move |run| {
        let from = run.group_of(kept);
        let groups = run.groups[from..].iter().take_while(move |group| group.first <= told(kept));
        groups.zip(from..).flat_map(move |(group, nth)| {
            let page_of = move |page: usize| u64::from(group.page) + 1 + page as u64;
            let known = group.summary.get().map(|summary| summary.pages_of(kept).map(page_of));
            let unknown = group.summary.get().is_none().then(|| pages_ahead(run, nth));
            known.into_iter().flatten().map(|page| page..page + 1).chain(unknown)
        })
    })
}

/// The pages to request when a group's summary is not in memory. In a run that was read before
/// they include the groups beside it: a process that looks up few keys reads little, and one that
/// looks up many needs all groups before long.
fn pages_ahead(run: &Run, nth: usize) -> Range<u64> {
    let pages = |nth: usize| {
        let first = u64::from(run.groups[nth].page);
        first..first + 1 + run.pages_of(nth) as u64
    };
    let mut range = pages(nth);
    if run.groups.iter().all(|group| group.summary.get().is_none()) {
        return range;
    }
    let block = nth / GROUPS_AHEAD * GROUPS_AHEAD;
    for before in (block..nth).rev().map(pages) {
        if before.end != range.start {
            break;
        }
        range.start = before.start;
    }
    for after in (nth + 1..run.groups.len().min(block + GROUPS_AHEAD)).map(pages) {
        if after.start != range.end {
            break;
        }
        range.end = after.end;
    }
    range
}

impl Index {
    /// The changes of a hash in all runs, oldest first. `kept` are its bits in slots.
    pub(super) fn changes_of(
        &self,
        runs: &[Arc<Run>],
        kept: u64,
        found: &mut Vec<Change>,
    ) -> std::result::Result<(), Trouble> {
        let mut is_requested = false;
        for (at, run) in runs.iter().enumerate() {
            let last = told(kept);
            for (nth, group) in run.groups.iter().enumerate().skip(run.group_of(kept)) {
                if group.first > last {
                    break;
                }
                if !is_requested && group.summary.get().is_none() {
                    // Those of all other runs too, so that the device reads them at once.
                    pages_for(&runs[at..], kept).for_each(|pages| self.read_ahead(pages));
                    is_requested = true;
                }
                let summary = self.summary(run, nth)?;
                for page in summary.pages_of(kept) {
                    self.search_changes(run, nth, page, kept, found)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a summary, unless it is in memory.
    pub(super) fn summary<'r>(&self, run: &'r Run, nth: usize) -> std::result::Result<&'r Summary, Trouble> {
        let group = &run.groups[nth];
        if let Some(summary) = group.summary.get() {
            return Ok(summary);
        }
        let bytes = self.page_of_run(group.page)?;
        let summary = Summary::decode(self.seed, group.page, &bytes).and_then(|summary| {
            let is_meant = summary.part == run.part
                && summary.epoch == run.epoch
                && summary.firsts.len() == run.pages_of(nth)
                && told(summary.firsts[0]) == group.first;
            if is_meant { Ok(summary) } else { Err("summary is not the one that the list of runs names") }
        });
        let summary = match summary {
            Ok(summary) => summary,
            // Its pages have all its information.
            Err(what) => self.summary_of(run, nth).ok_or(Trouble::Damage(Damage { page: group.page, what }))?,
        };
        Ok(group.summary.get_or_init(|| Box::new(summary)))
    }

    /// Rebuilds a summary from its pages; `None` if one of them is damaged.
    fn summary_of(&self, run: &Run, nth: usize) -> Option<Summary> {
        let group = &run.groups[nth];
        let mut pages = Vec::new();
        for page in group.page + 1..=group.page + run.pages_of(nth) as u32 {
            let read = run::decode(self.seed, page, &self.page_of_run(page).ok()?).ok()?;
            let is_next = pages
                .last()
                .is_none_or(|last: &Vec<Change>| last.last().is_none_or(|last| last.hash() <= read.changes[0].hash()));
            if read.part != run.part || read.epoch != run.epoch || !is_next {
                return None;
            }
            pages.push(read.changes);
        }
        let pages: Vec<&[Change]> = pages.iter().map(Vec::as_slice).collect();
        (told(pages[0][0].hash()) == group.first).then(|| Summary::of(run.part, run.epoch, &pages))
    }

    /// Checks every page of runs in the file. Returns the bad pages and their flaws.
    pub(super) fn check_runs(&self, runs: &[Arc<Run>]) -> Result<Vec<(u32, String)>> {
        let mut flaws = Vec::new();
        for run in runs {
            self.check_run(run, &mut |page, what| flaws.push((page, what.to_owned())))?;
        }
        Ok(flaws)
    }

    /// Checks every page of a run in the file, and calls `problem` for each bad one.
    fn check_run(&self, run: &Run, problem: &mut dyn FnMut(u32, &str)) -> Result<()> {
        for (nth, group) in run.groups.iter().enumerate() {
            let bytes = self.page_of_run(group.page)?;
            let summary = Summary::decode(self.seed, group.page, &bytes);
            let is_meant = |s: &Summary| s.part == run.part && s.epoch == run.epoch && told(s.firsts[0]) == group.first;
            match &summary {
                Ok(summary) if is_meant(summary) && summary.firsts.len() == run.pages_of(nth) => {}
                Ok(_) => problem(group.page, "summary is not the one that the list of runs names"),
                Err(what) => problem(group.page, what),
            }
            for page in group.page + 1..=group.page + run.pages_of(nth) as u32 {
                let read = run::decode(self.seed, page, &self.page_of_run(page)?);
                let what = match read {
                    Ok(read) if read.part == run.part && read.epoch == run.epoch => continue,
                    Ok(_) => "page of changes is not the one that the list of runs names",
                    Err(what) => what,
                };
                problem(page, what);
            }
        }
        Ok(())
    }

    /// Reads a page of changes from the file.
    pub(super) fn changes(&self, run: &Run, nth: usize, page: usize) -> std::result::Result<Vec<Change>, Trouble> {
        let summary = self.summary(run, nth)?;
        let at = run.groups[nth].page + 1 + page as u32;
        let bytes = self.page_of_run(at)?;
        decode(self.seed, run, summary, page, at, &bytes)
    }

    fn page_of_run(&self, page: u32) -> Result<Vec<u8>> {
        Ok(files::read(&*self.file, names::INDEX, u64::from(page) * PAGE_BYTES as u64, PAGE_BYTES)?)
    }

    /// Appends the changes of a hash in one page.
    fn search_changes(
        &self,
        run: &Run,
        nth: usize,
        page: usize,
        kept: u64,
        found: &mut Vec<Change>,
    ) -> std::result::Result<(), Trouble> {
        let group = &run.groups[nth];
        let at = group.page + 1 + page as u32;
        let words = self.extents.page(at)?;
        let (bit, foreign) = (1 << page, self.owner == Owner::Other);
        if foreign || group.checked.load(Ordering::Acquire) & bit == 0 {
            let changes = decode(self.seed, run, self.summary(run, nth)?, page, at, &copy(words))?;
            if !foreign {
                group.checked.fetch_or(bit, Ordering::Release);
            }
            let first = changes.partition_point(|c| c.hash() < kept);
            found.extend(changes[first..].iter().take_while(|c| c.hash() == kept));
            return Ok(());
        }
        search(words, kept, found);
        Ok(())
    }

    /// The candidates of a leaf with the changes of its runs applied.
    pub(super) fn with_changes(found: &Candidates, changes: &[Change]) -> Candidates {
        let mut slots: Vec<Slot> = found.iter().copied().collect();
        apply(&mut slots, changes);
        let mut found = Candidates::default();
        slots.into_iter().for_each(|slot| found.push(slot));
        found
    }
}

fn decode(
    seed: u32,
    run: &Run,
    summary: &Summary,
    page: usize,
    at: u32,
    bytes: &[u8],
) -> std::result::Result<Vec<Change>, Trouble> {
    let decoded = run::decode(seed, at, bytes).and_then(|decoded| {
        let first = decoded.changes[0].hash();
        let is_meant = decoded.part == run.part && decoded.epoch == run.epoch && first == summary.firsts[page];
        if is_meant { Ok(decoded.changes) } else { Err("page of changes is not the one that the list of runs names") }
    });
    decoded.map_err(|what| Trouble::Damage(Damage { page: at, what }))
}

/// Appends the changes of a hash in the words of a page. Safe on any words: it stays within the
/// page.
fn search(words: &[Word], kept: u64, found: &mut Vec<Change>) {
    let word = |at: usize| words[at].load(Ordering::Relaxed);
    let slots = HEADER_BYTES / 8;
    let (count, replaced) = run::counts(word(0), word(2));
    let count = count.min((words.len() - slots) / 2);
    let addresses = slots + 2 * count;
    let replaced = replaced.min(words.len() - addresses);
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if hash_of_word(word(slots + 2 * middle)) < kept {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for at in low..count {
        let first = word(slots + 2 * at);
        if hash_of_word(first) != kept {
            return;
        }
        let slot = Slot::unpack([first, word(slots + 2 * at + 1)]);
        found.push(Change { slot, replaces: replaced_by(at, addresses..addresses + replaced, word) });
    }
}

/// The address that a change replaces, 0 for none.
fn replaced_by(change: usize, words: std::ops::Range<usize>, word: impl Fn(usize) -> u64) -> u64 {
    let (mut low, mut high) = (words.start, words.end);
    while low < high {
        let middle = low.midpoint(high);
        let (at, address) = run::replaced_of_word(word(middle));
        match at.cmp(&change) {
            std::cmp::Ordering::Equal => return address,
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    0
}
