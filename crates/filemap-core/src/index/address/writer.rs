//! The index writer, for checkpoints. A touched leaf is written to a free page, a full one as two
//! halves; then the directory's nodes; then the caller writes the superblock that names the new
//! root. Only after that are the replaced pages free.
//!
//! Retired pages cannot be reused before a superblock, so a checkpoint that touches every leaf
//! would need the file twice. The caller therefore commits in stages, whenever
//! [`IndexWriter::stage_is_full`], and spare pages stay under a sixteenth.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::directory::Directory;
use super::load::Loaded;
use super::nodes::Levels;
use super::old_leaf::{OldLeaf, Shrinking};
use super::settling::Settling;
use super::trouble::Trouble;
use super::{Count, Index, copy};
use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::leaf::{self, CAPACITY, MAX_DEPTH, Slot};
use crate::format::node::{self, Entry};
use crate::format::superblock::IndexRoot;
use crate::format::{PAGE_BYTES, names};
use crate::limits::Limits;
use crate::sync::lock;
use crate::sync::primitive::{Ordering, fence};

/// A stage writes at most one in this many of all leaves.
const STAGES: u64 = 24;

/// A directory of this depth is always allowed: 512 KiB of memory.
const SMALL_DEPTH: u8 = 16;
/// A deeper directory has at most one entry per this many keys (a power of 2). With uniform hashes
/// 255 keys never share that many bits. Chosen keys, in a store whose seed is known, would
/// otherwise double the directory with each further bit.
const KEYS_PER_ENTRY_LOG2: u8 = 4;

struct Pending {
    prefix: u64,
    entry: Entry,
    bytes: Option<Box<[u8; PAGE_BYTES]>>,
}

/// The one writer of the index.
pub(crate) struct IndexWriter {
    pub(super) index: Arc<Index>,
    /// Page numbers of the nodes of each level, level 0 first; the last level has one, the root.
    pub(super) levels: Levels,
    pub(super) dirty: BTreeSet<usize>,
    pub(super) free: BTreeSet<u32>,
    /// Expected number of leaves, until `free` is found, for which the whole directory is read.
    unread_leaves: Option<u64>,
    retired: Vec<u32>,
    /// Pages retired while a backup reads an older superblock.
    waiting: Vec<u32>,
    pending: Vec<Pending>,
    pub(super) pages: u64,
    pub(super) leaves: u64,
    keys: u64,
    /// The count once the waiting leaves are shown to readers.
    pub(super) count: Count,
    epoch: u64,
    stage_pages: u64,
    written_pages: u64,
    pub(super) limits: Limits,
    pub(super) shrinking: Shrinking,
    pub(super) settling: Settling,
    /// Greatest depth to which leaves are split.
    deepest: u8,
    /// Pages of the segment table, its root last, and its number of words.
    pub(super) table: (Vec<u32>, u32),
}

impl IndexWriter {
    /// Makes the writer of the index loaded from `root`. `epoch` is that of its first commit.
    pub(crate) fn new(loaded: Loaded, root: IndexRoot, epoch: u64, limits: Limits) -> IndexWriter {
        let Loaded { index, levels, table, table_pages, list, list_pages } = loaded;
        let directory = index.directory.load_full();
        IndexWriter {
            epoch,
            count: index.count(),
            index,
            levels,
            dirty: BTreeSet::new(),
            free: BTreeSet::new(),
            unread_leaves: Some(root.leaves),
            retired: Vec::new(),
            waiting: Vec::new(),
            pending: Vec::new(),
            pages: root.pages,
            leaves: root.leaves,
            keys: root.keys,
            stage_pages: 0,
            written_pages: 0,
            limits,
            shrinking: Shrinking::default(),
            settling: Settling::new((list_pages, list.len() as u32), &directory.runs()),
            deepest: deepest(root.keys),
            table: (table_pages, table.len() as u32),
        }
    }

    /// Reads the directory and finds the free pages, if not done yet. Called before anything is
    /// changed.
    ///
    /// # Errors
    /// `Corrupt` if the directory is damaged; `Io`.
    pub(crate) fn find_free(&mut self) -> Result<()> {
        let Some(leaves) = self.unread_leaves else { return Ok(()) };
        let directory = self.index.directory.load_full();
        directory.read_all(Some(leaves))?;
        let mut used: Vec<u32> = directory.leaves().map(|(_, e)| e.page).filter(|&p| p != 0).collect();
        used.extend(self.levels.iter().flatten());
        used.extend(&self.table.0);
        used.extend(&self.settling.list.0);
        used.extend(directory.runs().all().flat_map(|run| run.all_pages()));
        used.push(0);
        used.sort_unstable();
        for pair in used.windows(2) {
            self.free.extend(pair[0] + 1..pair[1]);
        }
        self.free.extend(used[used.len() - 1] + 1..self.pages as u32);
        self.unread_leaves = None;
        Ok(())
    }

    /// Begins a checkpoint of up to `keys` new keys, which bounds the depth of the directory.
    pub(crate) fn expect(&mut self, keys: u64) {
        self.deepest = deepest(self.keys.saturating_add(keys));
        self.count = Count { run: self.count.run + 1, reached: None, ..self.count };
        *lock(&self.index.count) = self.count;
    }

    /// Adds `more`, the change in counted keys of a replaced leaf, to their number; `None` if
    /// unknown. The number then stays unknown until the index is empty.
    pub(crate) fn count(&mut self, leaf: &OldLeaf, more: Option<i64>) {
        self.count_up_to(leaf.last_hash(), more);
    }

    /// [`IndexWriter::count`] for everything entered up to a hash.
    pub(super) fn count_up_to(&mut self, hash: u64, more: Option<i64>) {
        let keys = match self.keys {
            0 => Some(0),
            _ => self.count.keys.zip(more).and_then(|(keys, more)| keys.checked_add_signed(more)),
        };
        self.count = Count { keys, reached: Some(hash), ..self.count };
    }

    /// Reads the leaf of a hash. Within a checkpoint hashes must ascend.
    ///
    /// # Errors
    /// `Corrupt` if its page is damaged; `Io` if it cannot be mapped.
    pub(crate) fn leaf(&self, hash: u64) -> Result<OldLeaf> {
        let directory = self.index.directory.load();
        let (_, entry) = directory.find(hash).map_err(Trouble::error)?;
        let prefix = hash >> (64 - entry.depth);
        let mut slots = Vec::new();
        if entry.page != 0 {
            let bytes = copy(self.index.extents.page(entry.page)?);
            let leaf = leaf::decode(self.index.seed, entry.page, &bytes)
                .map_err(|what| Error::corrupt(names::INDEX, u64::from(entry.page) * PAGE_BYTES as u64, what))?;
            if leaf.depth != entry.depth || leaf.prefix != prefix || leaf.slots.len() != usize::from(entry.count) {
                let what = "leaf page is not the one that the directory names";
                return Err(Error::corrupt(names::INDEX, u64::from(entry.page) * PAGE_BYTES as u64, what));
            }
            slots = leaf.slots;
        }
        Ok(OldLeaf { prefix, depth: entry.depth, slots, page: entry.page })
    }

    /// Replaces a leaf's slots by `slots`, sorted by hash.
    ///
    /// # Errors
    /// `Full` if more keys share the bits of their hash than a page holds, or the file has reached
    /// 16 TiB.
    pub(crate) fn replace(&mut self, old: &OldLeaf, slots: &[Slot]) -> Result<()> {
        self.add_keys(slots.len() as i64 - old.slots.len() as i64);
        self.rewrite(old, slots)
    }

    pub(super) fn add_keys(&mut self, more: i64) {
        self.keys = self.keys.wrapping_add_signed(more);
    }

    /// [`IndexWriter::replace`] for keys that are counted already.
    pub(super) fn rewrite(&mut self, old: &OldLeaf, slots: &[Slot]) -> Result<()> {
        self.find_free()?;
        if slots.len() < old.slots.len() {
            self.shrinking.note(old, slots.len());
        }
        self.drop_leaf(old);
        self.place(old.prefix, old.depth, slots)
    }

    /// Retires a leaf's page: the leaf is removed or moves.
    pub(super) fn drop_leaf(&mut self, old: &OldLeaf) {
        if old.page != 0 {
            self.retire(old.page);
            self.leaves -= 1;
        }
    }

    /// Returns true if enough leaves wait to be worth a write.
    pub(crate) fn wants_flush(&self) -> bool {
        self.pending.len() >= self.limits.flush_pages
    }

    /// Queues slots as one leaf, or split in halves until they fit.
    pub(super) fn place(&mut self, prefix: u64, depth: u8, slots: &[Slot]) -> Result<()> {
        let room = if depth < self.deepest { self.limits.leaf_slots.min(CAPACITY) } else { CAPACITY };
        if slots.len() <= room {
            let entry = Entry { page: 0, count: slots.len() as u16, depth };
            let pending = if slots.is_empty() {
                Pending { prefix, entry, bytes: None }
            } else {
                let page = self.allocate()?;
                let bytes = leaf::encode(self.index.seed, page, depth, prefix, self.epoch, slots);
                self.leaves += 1;
                Pending { prefix, entry: Entry { page, ..entry }, bytes: Some(Box::new(bytes)) }
            };
            self.pending.push(pending);
            return Ok(());
        }
        if depth >= self.deepest {
            let what = format!("{} keys share the first {depth} bits of their hash", slots.len());
            return Err(Error::full(names::INDEX, what));
        }
        let bit = 1 << (MAX_DEPTH - depth - 1);
        let (low, high) = slots.split_at(slots.partition_point(|s| s.hash & bit == 0));
        self.place(prefix << 1, depth + 1, low)?;
        self.place(prefix << 1 | 1, depth + 1, high)
    }

    fn allocate(&mut self) -> Result<u32> {
        debug_assert!(self.unread_leaves.is_none(), "what is free is known");
        self.note_written(1);
        if let Some(page) = self.free.pop_first() {
            return Ok(page);
        }
        let page = u32::try_from(self.pages).map_err(|_| Error::full(names::INDEX, "it has reached 16 TiB"))?;
        self.pages += 1;
        Ok(page)
    }

    pub(super) fn note_written(&mut self, pages: u64) {
        self.stage_pages += pages;
        self.written_pages += pages;
    }

    /// Writes the waiting leaves and shows them to readers. The next commit makes them durable.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.find_free()?;
        let pending = std::mem::take(&mut self.pending);
        // Readers still on pages about to be reused must notice. A reader that sees the new number
        // also sees the directory that no longer names those pages (release). A reader that sees a
        // word of their new content also sees the new number, after its own fence (because of the
        // fence here). The content is written by a system call, which is ordered after this
        // thread's earlier stores; the fence says so in the terms of the language.
        let ahead = (self.index.reuse.load(Ordering::Relaxed) + 2) | 1;
        self.index.reuse.store(ahead, Ordering::Release);
        fence(Ordering::Release);
        let mut writes: Vec<(u32, &[u8])> =
            pending.iter().filter_map(|p| p.bytes.as_ref().map(|b| (p.entry.page, &b[..]))).collect();
        write_pages(&self.index, &mut writes)?;
        let deepest = pending.iter().map(|p| p.entry.depth).max().unwrap_or(0);
        let mut count = lock(&self.index.count);
        let mut directory = self.index.directory.load_full();
        while directory.depth() < deepest {
            directory = Arc::new(directory.doubled()?);
            self.dirty.clear();
            self.dirty.extend(0..directory.len().div_ceil(node::CAPACITY));
        }
        for p in &pending {
            let slots = p.bytes.iter().flat_map(|bytes| leaf::hashes(bytes));
            let run = directory.set(p.prefix, p.entry, slots);
            self.dirty.extend(run.start / node::CAPACITY..=(run.end - 1) / node::CAPACITY);
        }
        if !Arc::ptr_eq(&directory, &self.index.directory.load()) {
            self.index.directory.store(directory);
        }
        if !self.settling.has_changes() {
            *count = self.count;
        }
        Ok(())
    }

    /// Returns true if enough pages were written that the caller should commit.
    pub(crate) fn stage_is_full(&self) -> bool {
        self.stage_pages >= self.limits.stage_pages.max(self.leaves / STAGES)
            || self.settling.is_full(self.limits.stage_changes)
    }

    /// Takes a page out of use. It is reused only after the next superblock is durable, since the
    /// last one may name it.
    pub(super) fn retire(&mut self, page: u32) {
        if planted(Fault::PagesPunchedEarly) {
            let _ = self.index.file.punch(u64::from(page) * PAGE_BYTES as u64, PAGE_BYTES as u64);
        }
        if planted(Fault::RetiredPagesReusedAtOnce) {
            self.free.insert(page);
        } else {
            self.retired.push(page);
        }
    }

    /// The root that a superblock written now would name.
    pub(crate) fn root(&self) -> IndexRoot {
        IndexRoot {
            pages: self.pages,
            root: self.levels.last().map_or(0, |l| l[0]),
            depth: self.index.directory.load().depth(),
            leaves: self.leaves,
            keys: self.keys,
            counted: self.count.keys,
            table: self.table.0.last().map_or(0, |&root| root),
            table_words: self.table.1,
            runs: self.settling.list.0.last().map_or(0, |&root| root),
            runs_words: self.settling.list.1,
        }
    }

    /// Epoch of the next superblock.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Called once the superblock of the last commit is durable: the pages that it replaced become
    /// free, or, while a backup holds an older superblock, wait for [`IndexWriter::release`].
    pub(crate) fn committed(&mut self, is_held: bool) {
        let ahead = self.index.reuse.load(Ordering::Relaxed);
        self.index.reuse.store(ahead + ahead % 2, Ordering::Release);
        if is_held && !planted(Fault::BackupNotHeld) {
            self.waiting.append(&mut self.retired);
        } else {
            self.free.extend(self.retired.drain(..));
        }
        self.stage_pages = 0;
        self.epoch += 1;
    }

    /// Frees the pages that waited for a backup.
    pub(crate) fn release(&mut self) {
        self.free.extend(self.waiting.drain(..));
    }

    /// Pages written by this writer.
    pub(crate) fn written_pages(&self) -> u64 {
        self.written_pages
    }

    /// Writes the dirty nodes of level 0, and the nodes above that name them.
    pub(super) fn write_nodes(&mut self) -> Result<()> {
        let directory: Arc<Directory> = self.index.directory.load_full();
        let mut dirty: Vec<usize> = std::mem::take(&mut self.dirty).into_iter().collect();
        let mut count = directory.len();
        let mut level = 0;
        if dirty.is_empty() {
            return Ok(());
        }
        loop {
            let nodes = count.div_ceil(node::CAPACITY);
            if self.levels.len() <= level {
                self.levels.push(Vec::new());
            }
            self.shorten(level, nodes);
            let mut encoded = Vec::with_capacity(dirty.len());
            for &at in &dirty {
                let range = at * node::CAPACITY..((at + 1) * node::CAPACITY).min(count);
                let entries = if level == 0 {
                    directory.packed(range.clone())
                } else {
                    self.levels[level - 1][range.clone()].iter().map(|&p| u64::from(p)).collect()
                };
                let page = self.allocate()?;
                let old = std::mem::replace(&mut self.levels[level][at], page);
                if old != 0 {
                    self.retire(old);
                }
                let first = range.start as u64;
                encoded.push((page, node::encode(self.index.seed, page, level as u8, self.epoch, first, &entries)));
            }
            let mut writes: Vec<(u32, &[u8])> = encoded.iter().map(|(p, b)| (*p, &b[..])).collect();
            write_pages(&self.index, &mut writes)?;
            if nodes == 1 {
                return Ok(());
            }
            dirty = dirty.iter().map(|at| at / node::CAPACITY).collect();
            dirty.dedup();
            count = nodes;
            level += 1;
        }
    }
}

impl IndexWriter {
    /// Sets the number of nodes in a level. Retires surplus nodes, and levels above a single node.
    fn shorten(&mut self, level: usize, nodes: usize) {
        let above = if nodes == 1 { self.levels.split_off(level + 1) } else { Vec::new() };
        let level = &mut self.levels[level];
        let rest = level.split_off(nodes.min(level.len()));
        level.resize(nodes, 0);
        for page in above.into_iter().flatten().chain(rest).filter(|&page| page != 0) {
            self.retire(page);
        }
    }

    /// Rewrites a list of words, the segment table or the list of runs, as a tree whose lowest
    /// level is numbered `level`.
    pub(super) fn write_list(&mut self, list: &mut (Vec<u32>, u32), mut level: u8, words: &[u64]) -> Result<()> {
        for page in std::mem::take(&mut list.0) {
            self.retire(page);
        }
        let mut entries = words.to_vec();
        let mut encoded = Vec::new();
        while !entries.is_empty() {
            let mut pages = Vec::new();
            for (nth, part) in entries.chunks(node::CAPACITY).enumerate() {
                let page = self.allocate()?;
                let first = (nth * node::CAPACITY) as u64;
                encoded.push((page, node::encode(self.index.seed, page, level, self.epoch, first, part)));
                pages.push(page);
            }
            entries = if pages.len() > 1 { pages.iter().map(|&p| u64::from(p)).collect() } else { Vec::new() };
            list.0.extend(pages);
            level += 1;
        }
        list.1 = words.len() as u32;
        let mut writes: Vec<(u32, &[u8])> = encoded.iter().map(|(p, b)| (*p, &b[..])).collect();
        write_pages(&self.index, &mut writes)
    }
}

/// Greatest depth of the leaves in an index of `keys` keys.
fn deepest(keys: u64) -> u8 {
    let most = keys.max(1).ilog2() as u8;
    most.saturating_sub(KEYS_PER_ENTRY_LOG2).clamp(SMALL_DEPTH, MAX_DEPTH)
}

/// Writes pages; adjacent ones in one call.
pub(super) fn write_pages(index: &Index, writes: &mut [(u32, &[u8])]) -> Result<()> {
    const LONGEST: usize = 1 << 20;
    writes.sort_unstable_by_key(|w| w.0);
    let mut run: Vec<u8> = Vec::new();
    let mut first = 0;
    for (i, (page, bytes)) in writes.iter().enumerate() {
        if run.is_empty() {
            first = *page;
        }
        run.extend_from_slice(bytes);
        let goes_on = writes.get(i + 1).is_some_and(|w| w.0 == page + 1) && run.len() < LONGEST;
        if !goes_on {
            let offset = u64::from(first) * PAGE_BYTES as u64;
            index.file.write_at(&run, offset).map_err(Error::io("write", names::INDEX))?;
            run.clear();
        }
    }
    Ok(())
}
