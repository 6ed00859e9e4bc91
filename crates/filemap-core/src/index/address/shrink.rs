//! Shrinks the index. Leaves that have lost slots are merged with their buddies, and the directory
//! halves when no leaf needs its depth; both are part of every checkpoint. Free pages are returned
//! to the file system by a sweep: checkpoints move some leaves to the front of the file, and then
//! punch out what lies behind them.
//!
//! Invariants: a page is punched only while it is free, so no durable superblock names it; the
//! file is never truncated, since readers in other processes have mapped it.

use std::sync::Arc;

use super::old_leaf::MERGED_PERCENT;
use super::trouble::Trouble;
use super::writer::IndexWriter;
use crate::error::{Error, Result};
use crate::format::leaf::{CAPACITY, MIN_DEPTH};
use crate::format::{PAGE_BYTES, names, node};
use crate::sync::primitive::{Ordering, fence};

impl IndexWriter {
    /// Returns true if leaves wait to be merged.
    pub(crate) fn has_smaller_leaves(&self) -> bool {
        !self.shrinking.smaller.is_empty()
    }

    /// Merges leaves that have lost slots with their buddies. Leaves that reach to or beyond
    /// `next`, the first hash still to be entered in this checkpoint, wait. Key records that
    /// waiting leaves lead to must have been flushed.
    ///
    /// # Errors
    /// `Full` at 16 TiB; `Io`.
    pub(crate) fn merge(&mut self, next: Option<u64>) -> Result<()> {
        let mut candidates = std::mem::take(&mut self.shrinking.smaller);
        let mut waiting = Vec::new();
        while !candidates.is_empty() {
            self.flush()?;
            candidates.sort_unstable();
            let (mut merged, mut done) = (Vec::new(), None);
            for hash in candidates {
                if self.wants_flush() {
                    self.flush()?;
                }
                if done.is_some_and(|last| hash <= last) {
                    continue;
                }
                match self.merge_one(hash, next)? {
                    Merged::No => {}
                    Merged::Later => waiting.push(hash),
                    Merged::Into { first, last } => {
                        merged.push(first);
                        done = Some(last);
                    }
                }
            }
            candidates = merged;
        }
        self.shrinking.smaller = waiting;
        Ok(())
    }

    /// Merges the leaf of a hash with its buddy, if both are small.
    fn merge_one(&mut self, hash: u64, next: Option<u64>) -> Result<Merged> {
        let directory = self.index.directory.load_full();
        let (_, entry) = directory.find(hash).map_err(Trouble::error)?;
        if entry.depth <= MIN_DEPTH {
            return Ok(Merged::No);
        }
        let bit = 1 << (64 - entry.depth);
        let (_, buddy) = directory.find(hash ^ bit).map_err(Trouble::error)?;
        let room = self.limits.leaf_slots.min(CAPACITY) * MERGED_PERCENT / 100;
        if buddy.depth != entry.depth || usize::from(entry.count) + usize::from(buddy.count) > room {
            return Ok(Merged::No);
        }
        if next.is_some_and(|next| next <= (hash | bit | u64::MAX >> entry.depth)) {
            return Ok(Merged::Later);
        }
        let low = match self.leaf(hash & !bit) {
            // A damaged leaf is left to the next lookup to report.
            Err(e) if e.is_corrupt() => return Ok(Merged::No),
            leaf => leaf?,
        };
        let high = match self.leaf(hash | bit) {
            Err(e) if e.is_corrupt() => return Ok(Merged::No),
            leaf => leaf?,
        };
        self.shrinking.may_halve |= entry.depth == directory.depth();
        self.drop_leaf(&low);
        self.drop_leaf(&high);
        let slots = [&low.slots[..], &high.slots].concat();
        self.place(low.prefix >> 1, low.depth - 1, &slots)?;
        Ok(Merged::Into { first: low.first_hash(), last: high.last_hash() })
    }

    /// Halves the directory while no leaf needs its depth. No leaf may be waiting for a flush.
    ///
    /// # Errors
    /// `Io` if there is no memory for a directory.
    pub(super) fn halve(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.shrinking.may_halve) {
            return Ok(());
        }
        while let Some(half) = self.index.directory.load().halved()? {
            self.dirty = (0..half.len().div_ceil(node::CAPACITY)).collect();
            self.index.directory.store(Arc::new(half));
        }
        Ok(())
    }

    /// Returns true if a sweep is worth it: more than half of the allocated file is free, and more
    /// pages than the limit.
    pub(crate) fn wants_sweep(&self) -> bool {
        let page = PAGE_BYTES as u64;
        let allocated = self.index.file.allocated_bytes().unwrap_or(0).min(self.pages * page) / page;
        let free = allocated.saturating_sub(self.used_pages());
        !self.shrinking.is_refused && free > self.limits.free_pages && free * 2 > allocated
    }

    pub(crate) fn is_sweeping(&self) -> bool {
        self.shrinking.is_sweeping
    }

    fn used_pages(&self) -> u64 {
        let nodes: usize = self.levels.iter().map(Vec::len).sum();
        self.leaves + 1 + (nodes + self.table.0.len()) as u64 + self.run_pages()
    }

    /// Moves leaves to the front of the file, as many as a stage of a checkpoint may write.
    ///
    /// # Errors
    /// `Full` at 16 TiB; `Io`.
    pub(crate) fn sweep(&mut self) -> Result<()> {
        self.flush()?;
        // The rest of the front is room for what a checkpoint writes before it frees as much.
        let goal = self.used_pages() + self.used_pages() / 8 + self.limits.stage_pages;
        let goal = u32::try_from(goal).unwrap_or(u32::MAX);
        let directory = self.index.directory.load_full();
        let lies_behind = |page: u32| page >= goal;
        let mut moved = 0;
        for (prefix, entry) in directory.leaves().filter(|(_, e)| lies_behind(e.page)) {
            if self.stage_is_full() || self.free.first().is_none_or(|&page| lies_behind(page)) {
                break;
            }
            match self.leaf(prefix << (64 - entry.depth)) {
                // A damaged leaf stays where it is.
                Err(e) if e.is_corrupt() => continue,
                leaf => {
                    let leaf = leaf?;
                    self.replace(&leaf, &leaf.slots)?;
                }
            }
            moved += 1;
        }
        self.shrinking.is_sweeping = moved > 0;
        if moved == 0 {
            // Nodes move with the leaves that they name; nodes whose leaves stayed move now.
            if self.levels.iter().flatten().any(|&page| lies_behind(page)) {
                self.dirty = (0..directory.len().div_ceil(node::CAPACITY)).collect();
            }
            self.shrinking.swept = Some(goal);
        }
        Ok(())
    }

    /// Punches out the free pages after a sweep. None of them is named by the last durable
    /// superblock.
    pub(crate) fn punch(&mut self) {
        if let Some(goal) = self.shrinking.swept.take() {
            self.punch_from(goal);
        }
    }

    /// Durably punches out all free pages, if the file system can, so that nothing of their
    /// content is left.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn punch_all(&mut self) -> Result<()> {
        self.find_free()?;
        self.punch_from(0);
        // Leftovers of interrupted checkpoints lie beyond the last page.
        let io = |op, e| Error::io(op, names::INDEX)(e);
        let (end, len) = (self.pages * PAGE_BYTES as u64, self.index.file.len().map_err(|e| io("measure", e))?);
        if len > end {
            let _ = self.index.file.punch(end, len - end).map_err(|e| io("punch", e))?;
        }
        self.index.file.sync().map_err(Error::io("sync", names::INDEX))
    }

    fn punch_from(&mut self, goal: u32) {
        // As before an overwrite: readers still on these pages must notice.
        let ahead = self.index.reuse.load(Ordering::Relaxed) + 2;
        self.index.reuse.store(ahead, Ordering::Release);
        fence(Ordering::Release);
        let mut free = self.free.range(goal..).copied().peekable();
        while let Some(first) = free.next() {
            let mut pages = 1;
            while free.next_if_eq(&(first + pages)).is_some() {
                pages += 1;
            }
            let page = PAGE_BYTES as u64;
            // A failure loses nothing: the pages stay free and will be reused.
            if !self.index.file.punch(u64::from(first) * page, u64::from(pages) * page).unwrap_or(false) {
                self.shrinking.is_refused = true;
                return;
            }
        }
    }
}

/// Result of merging a leaf.
enum Merged {
    No,
    /// Its buddy is still to be entered.
    Later,
    /// Merged into the leaf of these hashes.
    Into {
        first: u64,
        last: u64,
    },
}
