//! Expanded pages that were read lately, kept in bounded memory, for those who ask for it.
//!
//! Invariant: a page is kept under its place, and what lies at a place changes only when the writer's recovery drops records
//! and writes others there, which a handle in another process lives through. It then calls [`ValueCache::forget`] before
//! anything leads to those, and what was read before is not found any more: a place carries the number of such calls as
//! of before its read.
//!
//! Compaction copies a page to another place. Where the copy is the same record but for its place, [`ValueCache::follow`] has
//! it found there, once the index leads there.

use std::fmt;
use std::hash::RandomState;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::format::value::Header;
use crate::sync::primitive::{AtomicU64, Ordering};

/// What a page may take of all room is one part in so many: one page should not push out hundreds.
const LARGEST_PART: usize = 64;
/// About what a page takes, expanded: by this the cache's own tables are laid out.
const USUAL_BYTES: usize = 16 << 10;

/// Where a page lies: its segment's ordinal and its offset there, and the cache's age.
pub(crate) type PagePlace = (u64, u64, u64);

/// A page's record with its parts expanded.
pub(crate) struct Page {
    pub(crate) header: Header,
    /// Fixed part and key as in the record, then meta and body.
    bytes: Box<[u8]>,
}

impl Page {
    /// `front` is the record's fixed part and its key.
    pub(crate) fn new(header: Header, front: &[u8], meta: &[u8], body: &[u8]) -> Page {
        Page { header, bytes: [front, meta, body].concat().into() }
    }

    /// Fixed part and key as in the record, then what is none of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn meta(&self) -> &[u8] {
        &self.bytes[self.header.meta_at()..self.body_at()]
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.body_at()..]
    }

    fn body_at(&self) -> usize {
        self.header.meta_at() + self.header.meta_raw_bytes as usize
    }
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<PagePlace, Arc<Page>> for ByBytes {
    fn weight(&self, _: &PagePlace, page: &Arc<Page>) -> u64 {
        // Beside the page: the cache's entry, and what the allocator adds to two pieces.
        let own = size_of::<Page>() + size_of::<PagePlace>() + 64;
        (own + page.bytes.len()) as u64
    }
}

/// Pages by their places. Those that were read once go before those that were read again (S3-FIFO).
pub(crate) struct ValueCache {
    pages: Cache<PagePlace, Arc<Page>, ByBytes, RandomState>,
    largest: usize,
    age: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl fmt::Debug for ValueCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueCache").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

impl ValueCache {
    /// A cache of at most so many bytes; none for 0.
    pub(crate) fn new(bytes: usize) -> Option<ValueCache> {
        let state = RandomState::new();
        let usual = bytes / USUAL_BYTES;
        (bytes > 0).then(|| ValueCache {
            pages: Cache::with(usual, bytes as u64, ByBytes, state, DefaultLifecycle::default()),
            largest: bytes / LARGEST_PART,
            age: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    /// Under what a page is kept that is read from now on.
    pub(crate) fn place(&self, ordinal: u64, offset: u64) -> PagePlace {
        (self.age.load(Ordering::Acquire), ordinal, offset)
    }

    pub(crate) fn get(&self, place: &PagePlace) -> Option<Arc<Page>> {
        let found = self.pages.get(place);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether a page is kept; this is no use of it.
    pub(crate) fn contains(&self, place: &PagePlace) -> bool {
        self.pages.contains_key(place)
    }

    /// Whether a page of this length is kept.
    pub(crate) fn takes(&self, body_bytes: usize) -> bool {
        body_bytes <= self.largest
    }

    pub(crate) fn keep(&self, place: PagePlace, page: Page) {
        self.pages.insert(place, Arc::new(page));
    }

    /// A page that was found at a place is found in another segment, at another offset from now on.
    pub(crate) fn follow(&self, from: &PagePlace, to: (u64, u64)) {
        if let Some((_, page)) = self.pages.remove(from) {
            self.pages.insert((from.0, to.0, to.1), page);
        }
    }

    /// Nothing that was read before is found from now on.
    pub(crate) fn forget(&self) {
        self.age.fetch_add(1, Ordering::AcqRel);
        self.pages.clear();
    }

    /// Memory that the pages take in bytes, reads that found theirs, and those that did not.
    pub(crate) fn usage(&self) -> (u64, u64, u64) {
        (self.pages.weight(), self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}
