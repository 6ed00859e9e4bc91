//! The writer's side of the runs. A checkpoint with few keys for the number of leaves does not
//! change leaves: it writes its changes as runs, one for each part of the hash space. Several runs
//! of one level of a part are joined. And each checkpoint lets some changes settle: part by part,
//! it rewrites leaves with all changes that wait for them, as many leaves as its batch pays for.
//! When a part is done, the runs that it began with are dropped.
//!
//! (P. O'Neil et al., The Log-Structured Merge-Tree, Acta Informatica 33, 1996, for the runs; the
//! leaves stay a hash table, so a lookup need not read a page of each level.)

use std::sync::Arc;

use super::run_cursor::Cursor;
use super::run_pages::apply;
use super::runs::{Group, Position, Run, Runs, part_of, told, whole_hash};
use super::settling::Current;
use super::trouble::{Damage, Trouble};
use super::writer::{IndexWriter, write_pages};
use super::{Lookup, kept_bits};
use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::leaf::{CAPACITY, MAX_DEPTH, Slot};
use crate::format::location::{Location, SizeClass};
use crate::format::run::{self, Change, GROUP_PAGES, LIST_LEVEL, PARTS, Summary};
use crate::format::{PAGE_BYTES, names};
use crate::sync::primitive::{AtomicU64, OnceLock};
use crate::sync::{lock, make_way};

/// Joins of one commit read at most this many times the changes that it writes, plus
/// `LEAST_JOINED`. Without a bound all parts would be joined in the same checkpoint.
const JOINED_PER_CHANGE: u64 = 4;
const LEAST_JOINED: u64 = 1 << 16;
/// Number of free pages searched for a group before the file grows.
const PAGES_SEARCHED: usize = 1024;

impl IndexWriter {
    /// Returns whether a checkpoint of this many keys and `log_bytes` bytes of records must
    /// [`enter`](IndexWriter::enter) its changes. Leaves are changed in place only while there are
    /// no runs, and if the touched leaves are few for these records.
    pub(crate) fn writes_runs(&self, keys: u64, log_bytes: u64) -> bool {
        if !self.index.directory.load().runs().is_empty() {
            return true;
        }
        // Assumes uniform hashes, as docs/SCALE.md does.
        let leaves = self.leaves.max(1) as f64;
        let touched = (leaves * (1.0 - (-(keys as f64) / leaves).exp())) as u64;
        touched >= self.limits.direct_pages
            && touched * PAGE_BYTES as u64 > log_bytes * self.limits.direct_percent / 100
    }

    /// The slots of all keys that share the hash bits kept by the index.
    ///
    /// # Errors
    /// `Corrupt` if a page is damaged; `Io`.
    pub(crate) fn slots_of(&self, hash: u64) -> Result<Vec<Slot>> {
        match self.index.lookup(hash, &mut super::LastLeaf::default())? {
            Lookup::Found(found) => Ok(found.iter().copied().collect()),
            Lookup::Stale(page) => Err(Damage { page, what: "a page is not the one that the directory names" }.error()),
        }
    }

    /// Notes that the keys with the bits of a hash have the slots `new`, no longer `old`, the
    /// result of [`slots_of`](IndexWriter::slots_of). Within a checkpoint hashes must ascend, and
    /// no two may share their bits. Readers see the change with the next commit. `counted` is the
    /// increase in counted keys, if known.
    pub(crate) fn enter(&mut self, hash: u64, old: &[Slot], new: &[Slot], counted: Option<i64>) {
        let mut gone = old.iter().filter(|slot| !new.contains(slot));
        let mut come = new.iter().filter(|slot| !old.contains(slot));
        let removed = Slot { hash: kept_bits(hash), key: 0, location: Location::unpack(0), size: SizeClass(0) };
        let part = part_of(hash) as u8;
        loop {
            let (old, new) = (gone.next(), come.next());
            if old.is_none() && new.is_none() {
                break;
            }
            if new.is_none() && planted(Fault::RemovalsNotEntered) {
                continue;
            }
            let change = Change { slot: new.copied().unwrap_or(removed), replaces: old.map_or(0, |slot| slot.key) };
            self.settling.changes.push((part, change));
        }
        self.add_keys(new.len() as i64 - old.len() as i64);
        self.count_up_to(hash | u64::MAX >> MAX_DEPTH, counted);
    }

    /// Pays for rewriting leaves, for a batch of `log_bytes` bytes of records.
    pub(crate) fn pay(&mut self, log_bytes: u64) {
        self.pay_leaves(log_bytes.saturating_mul(self.limits.settle_percent) / 100 / PAGE_BYTES as u64 + 1);
    }

    /// Pays for rewriting this many leaves. At most as many again are left over from earlier
    /// payments.
    pub(crate) fn pay_leaves(&mut self, leaves: u64) {
        let more = leaves.saturating_mul(PAGE_BYTES as u64);
        self.settling.credit_bytes = self.settling.credit_bytes.min(more).saturating_add(more);
    }

    /// Returns whether there are runs named by a superblock before this `epoch`: first those that
    /// can settle, then those that damage keeps from settling.
    pub(crate) fn has_runs_before(&self, epoch: u64) -> (bool, bool) {
        let directory = self.index.directory.load();
        let (mut sound, mut damaged) = (false, false);
        for run in directory.runs().all().filter(|run| run.epoch < epoch) {
            let is_damaged = self.settling.unsettled & 1 << run.part != 0;
            (sound, damaged) = (sound || !is_damaged, damaged || is_damaged);
        }
        (sound, damaged)
    }

    /// Returns whether the next commit drops all runs, so that leaves can then be changed in
    /// place.
    pub(crate) fn has_settled_all(&self) -> bool {
        let settled = self.settling.settled.len();
        settled > 0 && !self.settling.has_changes() && self.index.directory.load().runs().all().count() == settled
    }

    /// Settles the changes of one leaf. Returns false if the payment is used up or nothing is left
    /// to settle. A damaged leaf or run keeps its whole part from settling until the index is
    /// opened again.
    ///
    /// # Errors
    /// `Full` if the leaf cannot be split; `Io`.
    pub(crate) fn settle(&mut self) -> Result<bool> {
        if self.settling.credit_bytes < PAGE_BYTES as u64 {
            return Ok(false);
        }
        let Some(mut current) = self.settling.current.take().or_else(|| self.next_part()) else {
            self.settling.credit_bytes = 0;
            return Ok(false);
        };
        match self.settle_leaf(&mut current) {
            Ok(true) => self.settling.current = Some(current),
            Ok(false) => self.settling.settled.append(&mut current.runs),
            Err(e) if e.is_corrupt() => self.settling.unsettled |= 1 << current.part,
            Err(e) => return Err(e),
        }
        Ok(true)
    }

    /// Settles the leaf of the next change. Returns false if there is no change left.
    fn settle_leaf(&mut self, current: &mut Current) -> Result<bool> {
        let index = Arc::clone(&self.index);
        if current.cursors.is_empty() {
            let at = |run| Cursor::at(&index, run, kept_bits(current.next));
            current.cursors =
                current.runs.iter().map(at).collect::<std::result::Result<_, _>>().map_err(Trouble::error)?;
        }
        let mut first: Option<u64> = None;
        for cursor in &mut current.cursors {
            first = [first, cursor.peek(&index).map_err(Trouble::error)?].into_iter().flatten().min();
        }
        let Some(first) = first else { return Ok(false) };
        let leaf = self.leaf(whole_hash(current.part as u8, first))?;
        let (last, mut changes) = (leaf.last_hash(), Vec::new());
        for cursor in &mut current.cursors {
            cursor.take(&index, kept_bits(last), &mut changes).map_err(Trouble::error)?;
        }
        let mut slots = leaf.slots.clone();
        apply(&mut slots, &changes);
        if slots != leaf.slots && !planted(Fault::RunsDroppedUnsettled) {
            let before = self.written_pages();
            self.rewrite(&leaf, &slots)?;
            let written = (self.written_pages() - before) * PAGE_BYTES as u64;
            self.settling.credit_bytes = self.settling.credit_bytes.saturating_sub(written);
        }
        let Some(next) = last.checked_add(1).filter(|next| part_of(*next) == current.part) else { return Ok(false) };
        current.next = next;
        Ok(true)
    }

    /// The part with most changes. A part that has settled since the last commit must wait for the
    /// next one: its leaves may not have been flushed.
    fn next_part(&self) -> Option<Current> {
        let runs = Arc::clone(&self.index.directory.load().runs());
        let has_settled = |part: usize| self.settling.settled.iter().any(|run| usize::from(run.part) == part);
        let may_settle = |part: &usize| self.settling.unsettled & 1 << part == 0 && !has_settled(*part);
        let changes = |part: &usize| runs.parts[*part].iter().map(|run| run.changes).sum::<u64>();
        let part = (0..PARTS).filter(may_settle).max_by_key(changes).filter(|part| changes(part) > 0)?;
        let next = (part as u64) << (64 - PARTS.ilog2());
        Some(Current { part, next, runs: runs.parts[part].clone(), cursors: Vec::new() })
    }

    /// Writes the changes of this stage as runs, joins runs, drops settled ones, and shows the
    /// result to readers. Leaves must have been flushed.
    pub(super) fn write_runs(&mut self) -> Result<()> {
        let before = Arc::clone(&self.index.directory.load().runs());
        let (changes, settled) =
            (std::mem::take(&mut self.settling.changes), std::mem::take(&mut self.settling.settled));
        let at = |current: &Current| Position { part: current.part, runs: current.runs.len(), next: current.next };
        let settling = self.settling.current.as_ref().map(at);
        if changes.is_empty() && settled.is_empty() && settling == before.settling {
            return Ok(());
        }
        let mut runs = Runs::clone(&before);
        runs.settling = settling;
        for run in &settled {
            runs.parts[usize::from(run.part)].retain(|other| !Arc::ptr_eq(other, run));
            self.retire_run(run);
        }
        for of_part in changes.chunk_by(|a, b| a.0 == b.0) {
            let part = of_part[0].0;
            let of_part: Vec<Change> = of_part.iter().map(|(_, change)| *change).collect();
            let run = self.write_run(part, 0, &of_part)?;
            runs.parts[usize::from(part)].push(Arc::new(run));
        }
        self.join(&mut runs, changes.len() as u64)?;
        let words = runs.encode();
        let mut list = std::mem::take(&mut self.settling.list);
        self.write_list(&mut list, LIST_LEVEL, &words)?;
        self.settling.list = list;
        let mut count = lock(&self.index.count);
        self.index.directory.load().set_runs(Arc::new(runs));
        *count = self.count;
        Ok(())
    }

    fn retire_run(&mut self, run: &Run) {
        run.all_pages().for_each(|page| self.retire(page));
    }

    /// Joins the newest runs of each part while enough of them have one level.
    fn join(&mut self, runs: &mut Runs, written: u64) -> Result<()> {
        let mut budget = LEAST_JOINED + JOINED_PER_CHANGE * written;
        let all = budget;
        for _ in 0..PARTS {
            let part = self.settling.joining;
            // Settling runs are not joined.
            let settling = self.settling.current.as_ref().filter(|current| current.part == part);
            let staying = settling.map_or(0, |current| current.runs.len());
            while self.settling.unjoined & 1 << part == 0 {
                let here = &runs.parts[part];
                let Some(newest) = here.last() else { break };
                let first = here.iter().rposition(|run| run.level != newest.level).map_or(0, |at| at + 1).max(staying);
                let joined: Vec<Arc<Run>> = here.get(first..).unwrap_or_default().to_vec();
                if joined.len() < self.limits.join_runs || newest.level == u8::MAX {
                    break;
                }
                let changes: u64 = joined.iter().map(|run| run.changes).sum();
                if changes > budget && budget < all {
                    return Ok(());
                }
                budget = budget.saturating_sub(changes);
                let level = newest.level + 1;
                let changes = match self.all_changes(&joined) {
                    Err(Trouble::Damage(_)) => {
                        self.settling.unjoined |= 1 << part;
                        break;
                    }
                    changes => changes.map_err(Trouble::error)?,
                };
                let run = self.write_run(part as u8, level, &changes)?;
                joined.iter().for_each(|run| self.retire_run(run));
                runs.parts[part].truncate(first);
                runs.parts[part].push(Arc::new(run));
            }
            self.settling.joining = (part + 1) % PARTS;
        }
        Ok(())
    }

    /// All changes of runs of one part, sorted by hash; those of one hash in the order of the
    /// runs.
    fn all_changes(&self, runs: &[Arc<Run>]) -> std::result::Result<Vec<Change>, Trouble> {
        let mut changes = Vec::new();
        for run in runs {
            for nth in 0..run.groups.len() {
                make_way();
                for page in 0..run.pages_of(nth) {
                    changes.extend(self.index.changes(run, nth, page)?);
                }
            }
        }
        // Stable, and fast for concatenated sorted runs.
        changes.sort_by_key(Change::hash);
        Ok(changes)
    }

    /// Writes a run. Nothing names it before the next superblock.
    fn write_run(&mut self, part: u8, level: u8, changes: &[Change]) -> Result<Run> {
        let most = self.limits.leaf_slots.min(CAPACITY);
        let mut pages: Vec<&[Change]> = Vec::new();
        let mut rest = changes;
        while !rest.is_empty() {
            let (mut count, mut replaced) = (0, 0);
            for change in &rest[..most.min(rest.len())] {
                replaced += usize::from(change.replaces != 0);
                if !run::fits(count + 1, replaced) {
                    break;
                }
                count += 1;
            }
            let page;
            (page, rest) = rest.split_at(count);
            pages.push(page);
        }
        let (seed, epoch) = (self.index.seed, self.epoch());
        let mut run =
            Run { part, level, epoch, pages: pages.len() as u32, changes: changes.len() as u64, groups: Vec::new() };
        let mut encoded: Vec<(u32, [u8; PAGE_BYTES])> = Vec::with_capacity(pages.len() + pages.len() / GROUP_PAGES + 1);
        for pages in pages.chunks(GROUP_PAGES) {
            make_way();
            let at = self.allocate_group(1 + pages.len() as u32)?;
            let summary = Summary::of(part, epoch, pages);
            encoded.push((at, summary.encode(seed, at)));
            for (page, changes) in (at + 1..).zip(pages) {
                encoded.push((page, run::encode(seed, page, part, epoch, changes)));
            }
            let known = OnceLock::new();
            let first = told(summary.firsts[0]);
            let _ = known.set(Box::new(summary));
            // Pages written by this handle need no check.
            run.groups.push(Group { page: at, first, summary: known, checked: AtomicU64::new(u64::MAX) });
        }
        let mut writes: Vec<(u32, &[u8])> = encoded.iter().map(|(page, bytes)| (*page, &bytes[..])).collect();
        write_pages(&self.index, &mut writes)?;
        Ok(run)
    }

    /// Allocates adjacent pages.
    fn allocate_group(&mut self, pages: u32) -> Result<u32> {
        let mut found: Option<(u32, u32)> = None;
        let after = self.free.range(self.settling.searched..).chain(self.free.range(..self.settling.searched));
        for &page in after.take(PAGES_SEARCHED) {
            found = match found {
                Some((first, count)) if first + count == page => Some((first, count + 1)),
                _ => Some((page, 1)),
            };
            self.settling.searched = page;
            if found.is_some_and(|(_, count)| count == pages) {
                break;
            }
        }
        self.note_written(u64::from(pages));
        if let Some((first, count)) = found
            && count == pages
        {
            (first..first + pages).for_each(|page| {
                self.free.remove(&page);
            });
            return Ok(first);
        }
        let end = self.pages + u64::from(pages);
        if end > u64::from(u32::MAX) {
            return Err(Error::full(names::INDEX, "it has reached 16 TiB"));
        }
        Ok(std::mem::replace(&mut self.pages, end) as u32)
    }

    /// Number of pages of runs and of their list.
    pub(super) fn run_pages(&self) -> u64 {
        self.index.run_pages() + self.settling.list.0.len() as u64
    }
}
