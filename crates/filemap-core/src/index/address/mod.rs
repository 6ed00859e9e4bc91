//! address.idx: an extendible hash table of immutable pages, read through a map, changed only by checkpoints.
//!
//! A key's hash leads through the directory (in memory) to one leaf page, where its slot is found by interpolation. The
//! caller judges whether a candidate slot is its key: this module reads no logs.
//!
//! Invariants:
//! - a page that a durable superblock names is never written again before a later superblock that does not name it is
//!   durable, so a crash at any moment finds the whole index of the last superblock;
//! - readers take no lock. The writer raises `reuse` before it overwrites a retired page, and a lookup that sees it
//!   change starts over;
//! - a page is checked against its checksum before it is first believed.

mod directory;
mod extents;
mod filter;
mod load;
mod old_leaf;
mod shrink;
mod writer;

use std::sync::Arc;

use filemap_io::{Advice, File, Identity, Word};

use crate::error::{Error, Result};
use crate::format::leaf::{self, Slot, hash_of_word, kept_bits};
use crate::format::node::Entry;
use crate::format::{PAGE_BYTES, names};
use crate::limits::Limits;
use crate::sync::primitive::{ArcSwap, AtomicU64, Ordering, fence};
use directory::Directory;
use extents::Extents;

pub(crate) use load::{Loaded, load};
pub(crate) use writer::IndexWriter;

/// A file of at most this length is asked for as a whole.
const AHEAD_BYTES: u64 = 1 << 30;

/// Slots that may be the key's: nearly always none or one.
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

/// Who else writes the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This handle is the writer: pages change only by its own checkpoints. So it may have a filter, of so many bytes at most.
    Us { filter_bytes_max: u64 },
    /// Another process: a page may be reused at any time, and is checked at every lookup.
    Other,
}

/// What a lookup in a foreign index found.
pub(crate) enum Lookup {
    /// The slots with the key's hash bits.
    Found(Candidates),
    /// The page with this number is not the one that the directory means: the writer has moved on, and the directory must
    /// be loaded again; or it is damaged.
    Stale(u32),
}

/// The leaf of a foreign index that was looked into last: what it was at an epoch, it stays for that.
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

/// The index as readers see it.
#[derive(Debug)]
pub(crate) struct Index {
    file: Arc<dyn File>,
    seed: u32,
    owner: Owner,
    extents: Extents,
    directory: ArcSwap<Directory>,
    /// The directory's, so that a get need not take hold of that to ask. It changes after the directory does.
    epoch: AtomicU64,
    /// Raised by every change of ours; odd while the directory is ahead of the last superblock.
    reuse: AtomicU64,
}

impl Index {
    /// What tells its file from others.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }

    fn new(file: Arc<dyn File>, seed: u32, owner: Owner, directory: Directory, limits: &Limits) -> Index {
        let extents = Extents::new(Arc::clone(&file), limits.map_pages);
        let epoch = AtomicU64::new(directory.epoch());
        let directory = ArcSwap::from_pointee(directory);
        Index { file, seed, owner, extents, directory, epoch, reuse: AtomicU64::new(0) }
    }

    /// All slots whose kept hash bits are this hash's. One page is touched. `Stale` only with a foreign owner, of which `last` is
    /// the leaf that was looked into before: for many hashes about in their order it is checked once for all of them.
    ///
    /// # Errors
    /// `Corrupt` when the page is damaged; `Io` when it cannot be mapped.
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
        if last.covers(hash, directory.epoch()) {
            return Ok(last.find(hash));
        }
        let (at, entry) = directory.find(hash);
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

    /// Copies a page and checks that it is whole and the one that the directory means.
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

    /// Starts reading the page of a hash, without waiting. Returns the last hash that the same page serves.
    pub(crate) fn will_need(&self, hash: u64) -> u64 {
        let (_, entry) = self.directory.load().find(hash);
        self.read_ahead(entry);
        hash | u64::MAX >> entry.depth
    }

    /// Starts reading the page of a hash, without waiting, unless a lookup would not read it.
    pub(crate) fn will_look(&self, hash: u64) {
        let directory = self.directory.load();
        let (at, entry) = directory.find(hash);
        if !directory.lacks(at, hash) {
            self.read_ahead(entry);
        }
    }

    fn read_ahead(&self, entry: Entry) {
        if entry.page != 0 {
            self.file.advise(Advice::WillNeed, u64::from(entry.page) * PAGE_BYTES as u64, PAGE_BYTES as u64);
        }
    }

    /// Starts reading the whole file without waiting, unless it is long: for whoever is about to look at most of its pages.
    pub(crate) fn will_need_all(&self) {
        if let Ok(bytes @ ..=AHEAD_BYTES) = self.file.len() {
            self.file.advise(Advice::WillNeed, 0, bytes);
        }
    }

    /// Takes over the directory of a newer superblock, for handles that follow another process, one thread at a time.
    pub(crate) fn follow(&self, newer: &Index) {
        let directory = newer.directory.load_full();
        let epoch = directory.epoch();
        self.directory.store(directory);
        self.epoch.store(epoch, Ordering::Release);
    }

    /// A number that stays the same for as long as the directory is that of one superblock; `None` between two.
    pub(crate) fn settled(&self) -> Option<u64> {
        match self.owner {
            Owner::Us { .. } => Some(self.reuse.load(Ordering::Acquire)).filter(|n| n % 2 == 0),
            Owner::Other => Some(self.directory.load().epoch()),
        }
    }

    /// The epoch of the superblock that the directory was loaded from, or of the one before while another takes its place.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Bytes of memory that the directory takes.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.directory.load().len() as u64 * 8
    }

    /// Bytes of memory that the filter takes.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.directory.load().filter_bytes()
    }

    /// Checks every leaf, in order of their hashes, from the file and not from memory. `slots` gets those of each good one,
    /// `problem` page number and flaw of each bad one, `follow` is called before a page of a foreign index is held to be bad.
    /// The index may change meanwhile. Returns the number of pages, or the first error of `slots` or `follow`.
    pub(crate) fn check(
        &self,
        follow: &mut dyn FnMut() -> Result<()>,
        slots: &mut dyn FnMut(&[Slot]) -> Result<()>,
        problem: &mut dyn FnMut(u32, &str),
    ) -> Result<u64> {
        let (mut hash, mut pages) = (0u64, 0);
        loop {
            let before = self.reuse.load(Ordering::Acquire);
            let directory = self.directory.load_full();
            let (_, entry) = directory.find(hash);
            if entry.page != 0 {
                let mut page = vec![0; PAGE_BYTES];
                let offset = u64::from(entry.page) * PAGE_BYTES as u64;
                let read = self.file.read_at(&mut page, offset).map_err(|e| Error::io("read", names::INDEX, e))?;
                let prefix = hash >> (64 - entry.depth);
                let epoch = if self.owner == Owner::Other { directory.epoch() } else { u64::MAX };
                let judged = match leaf::decode(self.seed, entry.page, &page[..read]) {
                    // A page that was reused may well hold the same leaf as of a later superblock.
                    Ok(l) if l.epoch > epoch => Err("leaf page is newer than the directory"),
                    Ok(l) if l.depth == entry.depth && l.prefix == prefix => Ok(l.slots),
                    Ok(_) => Err("leaf page is not the one that the directory names"),
                    Err(what) => Err(what),
                };
                fence(Ordering::Acquire);
                if self.reuse.load(Ordering::Relaxed) != before {
                    continue;
                }
                match judged {
                    Ok(found) => slots(&found)?,
                    Err(what) => {
                        follow()?;
                        // Pages that the last superblock names are not written to: if there is a newer one, it was no damage.
                        if self.owner == Owner::Other && self.epoch() != directory.epoch() {
                            continue;
                        }
                        problem(entry.page, what);
                    }
                }
                pages += 1;
            }
            match (hash | u64::MAX >> entry.depth).checked_add(1) {
                Some(next) => hash = next,
                None => return Ok(pages),
            }
        }
    }
}

/// A page's bytes, as they are now.
fn copy(words: &[Word]) -> [u8; PAGE_BYTES] {
    let mut b = [0; PAGE_BYTES];
    for (word, out) in words.iter().zip(b.chunks_exact_mut(8)) {
        out.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    b
}

/// Finds a hash among a leaf's sorted slots by interpolation: hashes are uniform, so the guess is off by about the square
/// root of the count, a cache line or two. Safe on any words: it stays within the page.
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
