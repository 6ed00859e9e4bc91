//! address.idx: an extendible hash table of immutable pages, read through a map, changed only by
//! checkpoints.
//!
//! A key's hash leads through the directory (in memory, once read) to one leaf page, where
//! interpolation finds its slot. The caller decides whether a candidate slot belongs to its key:
//! this module reads no logs.
//!
//! Invariants:
//! - a page that a durable superblock names is not written again before a later superblock without
//!   it is durable, so a crash at any moment leaves the last superblock's index whole;
//! - readers take no lock. The writer raises `reuse` before it overwrites a retired page, and a
//!   lookup that sees it change starts over;
//! - a page's checksum is verified before its first use.

mod check;
mod commit;
mod directory;
mod extents;
pub(crate) mod fill;
mod filter;
mod load;
mod nodes;
mod old_leaf;
mod run_cursor;
mod run_pages;
mod runs;
mod settle;
mod settling;
mod shrink;
mod trouble;
mod writer;

use std::ops::Range;
use std::sync::Arc;

use filemap_io::{Advice, File, Identity, Word};

use crate::error::{Error, Result};
use crate::format::leaf::{self, Slot, hash_of_word, kept_bits};
use crate::format::node::Entry;
use crate::format::{PAGE_BYTES, names};
use crate::limits::Limits;
use crate::sync::primitive::{ArcSwap, AtomicU64, Ordering, fence};
use crate::sync::{Ranked, lock, rank};
use directory::Directory;
use extents::Extents;
use runs::Runs;
use trouble::Trouble;

pub(crate) use load::{Loaded, load};
pub(crate) use writer::IndexWriter;

/// Decodes a list of runs and re-encodes it, for the fuzzer.
#[cfg(feature = "fuzzing")]
pub(crate) fn runs_again(words: &[u64], pages: u64, epoch: u64) -> Option<Vec<u64>> {
    Runs::decode(words, pages, epoch).ok().map(|runs| runs.encode())
}

/// Slots that may belong to the key: nearly always none or one.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    first: Option<Slot>,
    rest: Vec<Slot>,
}

impl Candidates {
    fn push(&mut self, slot: Slot) {
        if self.first.is_none() {
            self.first = Some(slot);
        } else {
            self.rest.push(slot);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.first.iter().chain(&self.rest)
    }
}

/// The writer of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This handle: pages change only by its own checkpoints, so it may have a filter, of at most
    /// `filter_bytes_max`.
    Us { filter_bytes_max: u64 },
    /// Another process: pages may be reused at any time, so each lookup verifies its page.
    Other,
}

/// Result of a lookup.
pub(crate) enum Lookup {
    /// The slots with the key's hash bits.
    Found(Candidates),
    /// The page with this number is not the one that the directory names. Either the writer has
    /// moved on and the directory must be loaded again, or the page is damaged.
    Stale(u32),
}

/// The leaf of the last lookup in a foreign index. It stays valid for its epoch.
#[derive(Debug, Default)]
pub(crate) struct LastLeaf {
    epoch: u64,
    prefix: u64,
    /// 0 for none.
    depth: u8,
    slots: Vec<Slot>,
}

impl LastLeaf {
    fn covers(&self, hash: u64, epoch: u64) -> bool {
        self.depth > 0 && self.epoch == epoch && hash >> (64 - self.depth) == self.prefix
    }

    fn find(&self, hash: u64) -> Lookup {
        let mut found = Candidates::default();
        let kept = kept_bits(hash);
        let first = self.slots.partition_point(|s| s.hash < kept);
        self.slots[first..].iter().take_while(|s| s.hash == kept).for_each(|s| found.push(*s));
        Lookup::Found(found)
    }
}

/// The readers' view of the index.
#[derive(Debug)]
pub(crate) struct Index {
    file: Arc<dyn File>,
    seed: u32,
    owner: Owner,
    extents: Extents,
    /// Longest file that is read ahead as a whole.
    ahead_bytes: u64,
    directory: ArcSwap<Directory>,
    /// Epoch of the directory, readable without loading the directory. Updated after it.
    epoch: AtomicU64,
    /// Raised by every change of this handle; odd while the directory is ahead of the last
    /// superblock.
    reuse: AtomicU64,
    /// Held while leaves are shown to readers, so that leaves and count change in one step.
    count: Ranked<{ rank::INDEX_COUNT }, Count>,
}

/// Number of counted keys in the index, as readers see it, also between the leaves of a
/// checkpoint, which enters keys in the order of their hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// `None` if not known.
    pub(crate) keys: Option<u64>,
    /// Number of the checkpoint, or of the index that a follower has taken over.
    pub(crate) run: u64,
    /// The last hash whose leaf that checkpoint has changed.
    pub(crate) reached: Option<u64>,
}

impl Index {
    /// Identity of the file.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }

    fn new(
        file: Arc<dyn File>,
        seed: u32,
        owner: Owner,
        directory: Directory,
        counted: Option<u64>,
        limits: &Limits,
    ) -> Index {
        let extents = Extents::new(Arc::clone(&file), limits.map_pages);
        let epoch = AtomicU64::new(directory.epoch());
        let directory = ArcSwap::from_pointee(directory);
        let count = Ranked::new(Count { keys: counted, run: 0, reached: None });
        let (ahead_bytes, reuse) = (limits.index_ahead_bytes, AtomicU64::new(0));
        Index { file, seed, owner, extents, ahead_bytes, directory, epoch, reuse, count }
    }

    /// The number of counted keys. While it is unchanged, so are all keys; if only `reached`
    /// grows, only keys with hashes between its two values may have changed.
    pub(crate) fn count(&self) -> Count {
        *lock(&self.count)
    }

    /// Returns all slots with the kept bits of `hash`; reads at most one page. `Stale` occurs only
    /// with a foreign owner. `last` caches the leaf looked up before, so roughly sorted hashes
    /// verify each leaf once.
    ///
    /// # Errors
    /// `Corrupt` if the page is damaged; `Io` if it cannot be mapped.
    pub(crate) fn lookup(&self, hash: u64, last: &mut LastLeaf) -> Result<Lookup> {
        loop {
            let before = self.reuse.load(Ordering::Acquire);
            let found = self.lookup_once(hash, last);
            fence(Ordering::Acquire);
            if self.reuse.load(Ordering::Relaxed) == before {
                return found;
            }
        }
    }

    fn lookup_once(&self, hash: u64, last: &mut LastLeaf) -> Result<Lookup> {
        let directory = self.directory.load();
        // Before the leaf: a leaf may already have the changes of older runs, but never lacks
        // those of a dropped run.
        if !directory.has_runs() {
            return self.in_leaf(&directory, hash, last);
        }
        let runs = directory.runs();
        let mut changes = Vec::new();
        match self.changes_of(runs.of(hash), kept_bits(hash), &mut changes) {
            Ok(()) => {}
            Err(Trouble::Damage(damage)) if self.owner == Owner::Other => return Ok(Lookup::Stale(damage.page)),
            Err(trouble) => return Err(trouble.error()),
        }
        let found = self.in_leaf(&directory, hash, last)?;
        Ok(match found {
            Lookup::Found(found) if !changes.is_empty() => Lookup::Found(Index::with_changes(&found, &changes)),
            found => found,
        })
    }

    /// The slots with the kept bits of `hash` in its leaf.
    fn in_leaf(&self, directory: &Directory, hash: u64, last: &mut LastLeaf) -> Result<Lookup> {
        if last.covers(hash, directory.epoch()) {
            return Ok(last.find(hash));
        }
        let (at, entry) = match directory.find(hash) {
            Ok(found) => found,
            Err(Trouble::Damage(damage)) if self.owner == Owner::Other => return Ok(Lookup::Stale(damage.page)),
            Err(trouble) => return Err(trouble.error()),
        };
        if entry.page == 0 {
            return Ok(Lookup::Found(Candidates::default()));
        }
        if self.owner == Owner::Other {
            let words = self.extents.page(entry.page)?;
            let prefix = hash >> (64 - entry.depth);
            return Ok(match self.checked(entry, prefix, directory.epoch(), words) {
                Ok(slots) => {
                    *last = LastLeaf { epoch: directory.epoch(), prefix, depth: entry.depth, slots };
                    last.find(hash)
                }
                Err(_) => Lookup::Stale(entry.page),
            });
        }
        if directory.lacks(at, hash) {
            return Ok(Lookup::Found(Candidates::default()));
        }
        let words = self.extents.page(entry.page)?;
        if !directory.is_verified(at) {
            let prefix = hash >> (64 - entry.depth);
            let slots = self
                .checked(entry, prefix, u64::MAX, words)
                .map_err(|what| Error::corrupt(names::INDEX, u64::from(entry.page) * PAGE_BYTES as u64, what))?;
            directory.set_verified(at, slots.iter().map(|slot| slot.hash));
        }
        Ok(Lookup::Found(search(words, entry, hash)))
    }

    /// Copies a page and checks that it is whole and the one that the directory names.
    fn checked(
        &self,
        entry: Entry,
        prefix: u64,
        epoch: u64,
        words: &[Word],
    ) -> std::result::Result<Vec<Slot>, &'static str> {
        let leaf = leaf::decode(self.seed, entry.page, &copy(words))?;
        if leaf.depth != entry.depth || leaf.prefix != prefix || leaf.slots.len() != usize::from(entry.count) {
            return Err("leaf page is not the one that the directory names");
        }
        if leaf.epoch > epoch {
            return Err("leaf page is newer than the directory");
        }
        Ok(leaf.slots)
    }

    /// Reads the unread part of the directory, until `stops`.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(crate) fn read_directory(&self, stops: impl Fn() -> bool) -> Result<()> {
        self.directory.load().read_ahead(stops)
    }

    /// Prefetches the page of a hash. Waits only for a node of the directory. Returns the last
    /// hash in the same page.
    pub(crate) fn will_need(&self, hash: u64) -> u64 {
        // The look-up reports the damage.
        let Ok((_, entry)) = self.directory.load().find(hash) else { return hash };
        self.read_page_ahead(entry.page);
        hash | u64::MAX >> entry.depth
    }

    /// Prefetches the pages of ascending hashes, and the pages of runs that filters do not rule
    /// out. Waits only for nodes of the directory.
    pub(crate) fn will_look(&self, hashes: impl Iterator<Item = u64>) {
        let (directory, mut last) = (self.directory.load(), 0);
        let runs = directory.runs();
        for hash in hashes {
            if let Ok((at, entry)) = directory.find(hash)
                && entry.page != last
                && !directory.lacks(at, hash)
            {
                self.read_page_ahead(entry.page);
                last = entry.page;
            }
            for pages in run_pages::pages_for(runs.of(hash), kept_bits(hash)) {
                self.read_ahead(pages);
            }
        }
    }

    /// Prefetches a leaf; page 0 is none.
    fn read_page_ahead(&self, page: u32) {
        if page != 0 {
            self.read_ahead(u64::from(page)..u64::from(page) + 1);
        }
    }

    fn read_ahead(&self, pages: Range<u64>) {
        let bytes = (pages.end - pages.start) * PAGE_BYTES as u64;
        self.file.advise(Advice::WillNeed, pages.start * PAGE_BYTES as u64, bytes);
    }

    /// Prefetches the whole file without waiting, for callers about to read most of its pages.
    /// Returns false and does nothing if the file is too long for that.
    pub(crate) fn will_need_all(&self) -> bool {
        let len = self.file.len().ok().filter(|bytes| *bytes <= self.ahead_bytes);
        if let Some(bytes) = len {
            self.file.advise(Advice::WillNeed, 0, bytes);
        }
        len.is_some()
    }

    /// Takes over the directory of a newer superblock. For followers, one thread at a time.
    pub(crate) fn follow(&self, newer: &Index) {
        let directory = newer.directory.load_full();
        let mut runs = Runs::clone(&directory.runs());
        runs.adopt(&self.directory.load().runs());
        directory.set_runs(Arc::new(runs));
        let epoch = directory.epoch();
        let keys = newer.count().keys;
        let mut count = lock(&self.count);
        self.directory.store(directory);
        self.epoch.store(epoch, Ordering::Release);
        *count = Count { keys, run: count.run + 1, reached: None };
    }

    /// A number that is unchanged while the directory is that of one superblock; `None` between
    /// two superblocks.
    pub(crate) fn settled(&self) -> Option<u64> {
        match self.owner {
            Owner::Us { .. } => Some(self.reuse.load(Ordering::Acquire)).filter(|n| n % 2 == 0),
            Owner::Other => Some(self.directory.load().epoch()),
        }
    }

    /// The epoch of the directory's superblock; while the directory is being replaced, possibly
    /// the one before.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Memory of the directory, in bytes.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.directory.load().len() as u64 * 8
    }

    /// Number of changes in runs.
    pub(crate) fn waiting_changes(&self) -> u64 {
        self.directory.load().runs().all().map(|run| run.changes).sum()
    }

    /// Memory of the summaries of runs, in bytes.
    pub(crate) fn summary_bytes(&self) -> u64 {
        self.directory.load().runs().summary_bytes()
    }

    /// Number of pages of runs.
    pub(crate) fn run_pages(&self) -> u64 {
        self.directory.load().runs().all().map(|run| run.all_pages_count()).sum()
    }

    /// Memory of the filter, in bytes.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.directory.load().filter_bytes()
    }
}

/// Copies a page's current bytes.
fn copy(words: &[Word]) -> [u8; PAGE_BYTES] {
    let mut b = [0; PAGE_BYTES];
    for (word, out) in words.iter().zip(b.chunks_exact_mut(8)) {
        out.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    b
}

/// Finds a hash among a leaf's sorted slots by interpolation. Hashes are uniform, so the guess is
/// off by about the square root of the count: a cache line or two. Safe on any words: it stays
/// within the page.
fn search(words: &[Word], entry: Entry, hash: u64) -> Candidates {
    let slots = &words[leaf::HEADER_BYTES / 8..];
    let (kept, count) = (kept_bits(hash), usize::from(entry.count).min(leaf::CAPACITY));
    let first = |i: usize| slots[2 * i].load(Ordering::Relaxed);
    let mut found = Candidates::default();
    if count == 0 {
        return found;
    }
    let rest = u32::from(leaf::MAX_DEPTH - entry.depth.min(leaf::MAX_DEPTH));
    let guess = ((kept & ((1 << rest) - 1)) * count as u64) >> rest;
    let mut at = guess as usize;
    while at > 0 && hash_of_word(first(at - 1)) >= kept {
        at -= 1;
    }
    while at < count && hash_of_word(first(at)) < kept {
        at += 1;
    }
    while at < count {
        let word = first(at);
        if hash_of_word(word) != kept {
            break;
        }
        found.push(Slot::unpack([word, slots[2 * at + 1].load(Ordering::Relaxed)]));
        at += 1;
    }
    found
}

#[cfg(all(test, filemap_loom))]
mod models;
#[cfg(test)]
mod tests;
