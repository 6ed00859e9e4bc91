//! The runs of address.idx, as readers see them: sorted changes of slots that are not yet in the
//! leaves.
//!
//! Each of the 128 parts of the hash space has its runs, oldest first. The slots of a hash are those
//! of its leaf with the changes of all runs applied, in that order. To apply changes again to a leaf
//! that has them already changes nothing, as long as none of the later ones is left out (see
//! [`apply`]). So a leaf may be rewritten with its changes at any time, before its runs are dropped,
//! and a crash may come in between. For the same reason changes that follow each other in one slot
//! never become one: a leaf may have the first of them.
//!
//! Summaries are read into memory when they are first asked: they are what keeps a lookup from
//! reading a page of each run.

use std::sync::Arc;

use filemap_io::{Word, files};

use super::{Candidates, Index, Owner, copy};
use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::leaf::{MAX_DEPTH, Slot, hash_of_word};
use crate::format::run::{self, CHANGES, Change, EPOCH, GROUP_HASH, GROUP_PAGE, GROUP_PAGES, LEVEL, PAGES, PART};
use crate::format::run::{HEAD_WORDS, HEADER_BYTES, PARTS, RUN_WORDS, SETTLED, SETTLING_PART, SETTLING_RUNS, Summary};
use crate::format::{Flaw, PAGE_BYTES, names};
use crate::sync::primitive::{AtomicU64, OnceLock, Ordering};

/// Hash bits that the list of runs leaves out of a group's first hash.
const UNTOLD_BITS: u32 = 8;

/// The runs that a superblock names.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// The runs of each part, oldest first.
    pub(super) parts: Vec<Vec<Arc<Run>>>,
    /// How far the part that settles has come. Only the writer goes by it.
    pub(super) settling: Option<Position>,
}

/// How far a part has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) part: usize,
    /// How many of its oldest runs settle.
    pub(super) runs: usize,
    /// The first hash that has not settled.
    pub(super) next: u64,
}

/// Sorted changes of one part of the hash space.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) part: u8,
    pub(super) level: u8,
    /// Epoch of the superblock that first names it: with it no page of an older run passes for one
    /// of this.
    pub(super) epoch: u64,
    /// Pages of changes.
    pub(super) pages: u32,
    pub(super) changes: u64,
    pub(super) groups: Vec<Group>,
}

/// A summary, and the pages of changes behind it.
#[derive(Debug)]
pub(super) struct Group {
    /// The page of the summary.
    pub(super) page: u32,
    /// Upper hash bits of its first change.
    pub(super) first: u32,
    pub(super) summary: OnceLock<Box<Summary>>,
    /// A bit for each page of changes that was checked.
    pub(super) checked: AtomicU64,
}

/// A page of a run that is not what the list of runs says.
pub(super) struct Damage {
    pub(super) page: u32,
    pub(super) what: Flaw,
}

/// Why changes cannot be had.
pub(super) enum Trouble {
    Damage(Damage),
    Error(Error),
}

impl From<Error> for Trouble {
    fn from(e: Error) -> Trouble {
        Trouble::Error(e)
    }
}

impl Damage {
    pub(super) fn error(&self) -> Error {
        Error::corrupt(names::INDEX, u64::from(self.page) * PAGE_BYTES as u64, self.what)
    }
}

impl Trouble {
    pub(super) fn error(self) -> Error {
        match self {
            Trouble::Damage(damage) => damage.error(),
            Trouble::Error(e) => e,
        }
    }
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

    /// The list as words, for the index file.
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

    /// Takes over runs that `old` has too, with what is known of them.
    pub(super) fn adopt(&mut self, old: &Runs) {
        for (runs, old) in self.parts.iter_mut().zip(&old.parts) {
            for run in runs {
                if let Some(same) = old.iter().find(|old| old.is(run)) {
                    *run = Arc::clone(same);
                }
            }
        }
    }

    /// Memory of the summaries that were read, in bytes.
    pub(super) fn summary_bytes(&self) -> u64 {
        let read = self.all().flat_map(|run| &run.groups).filter(|group| group.summary.get().is_some());
        (read.count() * PAGE_BYTES) as u64
    }

    /// Decodes the list of a superblock of this `epoch`, of a file of `pages`.
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
        // Pages that two groups have would be free as soon as one of them goes.
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
                return Err("list of runs has a part that settles, and cannot");
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
            return Err("list of runs has one that cannot be");
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
                return Err("list of runs has a group that cannot be");
            }
            run.groups.push(group);
        }
        Ok((run, rest))
    }

    /// Pages of changes of a group: all groups but the last are full.
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

    /// Returns true if this is the same run.
    fn is(&self, other: &Run) -> bool {
        let same =
            (self.part, self.epoch, self.pages, self.changes) == (other.part, other.epoch, other.pages, other.changes);
        same && self.groups.iter().map(|g| g.page).eq(other.groups.iter().map(|g| g.page))
    }

    /// The first group that may have a hash.
    fn group_of(&self, kept: u64) -> usize {
        let told = told(kept);
        self.groups.partition_point(|group| group.first < told).saturating_sub(1)
    }
}

impl Group {
    pub(super) fn new(page: u32, first: u32) -> Group {
        Group { page, first, summary: OnceLock::new(), checked: AtomicU64::new(0) }
    }
}

/// Pages of runs that a lookup of some hash bits may read: of changes where the summary is known, else
/// the summary.
pub(super) fn pages_for(runs: &[Arc<Run>], kept: u64) -> impl Iterator<Item = u32> + '_ {
    runs.iter().flat_map(move |run| {
        let groups = run.groups[run.group_of(kept)..].iter().take_while(move |group| group.first <= told(kept));
        groups.flat_map(move |group| {
            let known =
                group.summary.get().map(|summary| summary.pages_of(kept).map(|page| group.page + 1 + page as u32));
            let unknown = group.summary.get().is_none().then_some(group.page);
            known.into_iter().flatten().chain(unknown)
        })
    })
}

/// The part of the hash space that a hash belongs to.
pub(super) fn part_of(hash: u64) -> usize {
    (hash >> (64 - PARTS.ilog2())) as usize
}

/// The bits of a change's hash that the list of runs has.
pub(super) fn told(kept: u64) -> u32 {
    (kept >> UNTOLD_BITS) as u32
}

/// Applies changes, oldest first, to slots sorted by hash.
///
/// The key record's address tells slots with the same hash bits apart. A change that was applied
/// before finds the slot that it replaces gone, and its own slot there, or replaced by a later
/// change that follows here: the result is the same.
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
                // The old slot may be the new one, moved.
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

impl Index {
    /// The changes of a hash in all runs, oldest first. `kept` are its bits in slots.
    pub(super) fn changes_of(
        &self,
        runs: &[Arc<Run>],
        kept: u64,
        found: &mut Vec<Change>,
    ) -> std::result::Result<(), Trouble> {
        for run in runs {
            let last = told(kept);
            for (nth, group) in run.groups.iter().enumerate().skip(run.group_of(kept)) {
                if group.first > last {
                    break;
                }
                let summary = self.summary(run, nth)?;
                for page in summary.pages_of(kept) {
                    self.search_changes(run, nth, page, kept, found)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a summary, unless it was read before.
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
            // Its pages tell all that it says.
            Err(what) => self.summary_of(run, nth).ok_or(Trouble::Damage(Damage { page: group.page, what }))?,
        };
        Ok(group.summary.get_or_init(|| Box::new(summary)))
    }

    /// Makes a summary of the pages behind it; `None` if one of them is damaged.
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

    /// Checks every page of a run, as it is in the file, and calls `problem` for each bad one.
    pub(super) fn check_run(&self, run: &Run, problem: &mut dyn FnMut(u32, &str)) -> Result<()> {
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

    /// Adds the changes of a hash in one page.
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

    /// The slots of a leaf's candidates with the changes of its runs.
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

/// Adds the changes of a hash in the words of a page. Safe on any words: it stays within the page.
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

/// Gives the changes of one run in the order of hashes, from some hash on.
#[derive(Debug)]
pub(super) struct Cursor {
    run: Arc<Run>,
    group: usize,
    /// The page of the group that is read next.
    page: usize,
    changes: std::iter::Peekable<std::vec::IntoIter<Change>>,
}

impl Cursor {
    /// A cursor before the first change with at least these hash bits.
    pub(super) fn at(index: &Index, run: &Arc<Run>, kept: u64) -> std::result::Result<Cursor, Trouble> {
        let group = run.group_of(kept);
        let firsts = &index.summary(run, group)?.firsts;
        let page = firsts.partition_point(|first| *first < kept).saturating_sub(1);
        let mut cursor = Cursor { run: Arc::clone(run), group, page, changes: Vec::new().into_iter().peekable() };
        while cursor.peek(index)?.is_some_and(|hash| hash < kept) {
            cursor.changes.next();
        }
        Ok(cursor)
    }

    /// The hash bits of the next change. Asks for the leaves of the changes in each page that it
    /// reads.
    pub(super) fn peek(&mut self, index: &Index) -> std::result::Result<Option<u64>, Trouble> {
        while self.changes.peek().is_none() && self.group < self.run.groups.len() {
            let changes = index.changes(&self.run, self.group, self.page)?;
            let mut covered = None;
            for change in &changes {
                let hash = whole_hash(self.run.part, change.hash());
                if covered.is_none_or(|last| hash > last) {
                    covered = Some(index.will_need(hash));
                }
            }
            self.changes = changes.into_iter().peekable();
            self.page += 1;
            if self.page >= self.run.pages_of(self.group) {
                (self.group, self.page) = (self.group + 1, 0);
            }
        }
        Ok(self.changes.peek().map(Change::hash))
    }

    /// Adds the next changes, up to a hash.
    pub(super) fn take(&mut self, index: &Index, last: u64, to: &mut Vec<Change>) -> std::result::Result<(), Trouble> {
        while self.peek(index)?.is_some_and(|hash| hash <= last) {
            to.extend(self.changes.next());
        }
        Ok(())
    }
}

/// A hash of a part with these bits in slots.
pub(super) fn whole_hash(part: u8, kept: u64) -> u64 {
    u64::from(part) << (64 - PARTS.ilog2()) | kept << (64 - MAX_DEPTH)
}

/// Reads the changes of one part in the order of hashes; each page once, as long as it is asked for
/// ascending ranges.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The page that was read last, of each run.
    last: Vec<Option<((u32, u64), Vec<Change>)>>,
}

impl Scan {
    /// The changes of all runs with hash bits in a range, each run's after those of the older ones.
    pub(super) fn changes(
        &mut self,
        index: &Index,
        runs: &[Arc<Run>],
        kept: std::ops::RangeInclusive<u64>,
    ) -> std::result::Result<Vec<Change>, Trouble> {
        self.last.resize(runs.len(), None);
        let mut found = Vec::new();
        for (run, last) in runs.iter().zip(&mut self.last) {
            'run: for nth in run.group_of(*kept.start())..run.groups.len() {
                if run.groups[nth].first > told(*kept.end()) {
                    break;
                }
                let firsts = &index.summary(run, nth)?.firsts;
                let start = firsts.partition_point(|first| first < kept.start()).saturating_sub(1);
                for page in start..firsts.len() {
                    if firsts[page] > *kept.end() {
                        break 'run;
                    }
                    let name = (run.groups[nth].page + 1 + page as u32, run.epoch);
                    let changes = match last {
                        Some((read, changes)) if *read == name => changes,
                        _ => &mut last.insert((name, index.changes(run, nth, page)?)).1,
                    };
                    let from = changes.partition_point(|c| c.hash() < *kept.start());
                    found.extend(changes[from..].iter().take_while(|c| c.hash() <= *kept.end()));
                }
            }
        }
        Ok(found)
    }
}
