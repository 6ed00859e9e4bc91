//! The optional value cache: recently read pages, expanded, in bounded memory.
//!
//! Invariant: a page is kept under its place. The content of a place changes only when the
//! writer's recovery drops records and writes others there, which a follower experiences while
//! open. The follower then calls [`ValueCache::forget`] before anything leads to the new records,
//! and pages read before are not found again: each place carries the number of such calls before
//! its read.
//!
//! Compaction copies pages. If the copy differs only in its place, [`ValueCache::follow`] moves
//! the page to the new place once the index leads there.

use std::fmt;
use std::hash::RandomState;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::format::value::Header;
use crate::sync::primitive::{AtomicU64, Ordering};

/// A page takes at most one part in this many of the cache: one page should not evict hundreds.
const LARGEST_PART: usize = 64;
/// Typical size of an expanded page, by which the cache's own tables are sized.
const USUAL_BYTES: usize = 16 << 10;

/// Place of a page: the cache's age, the segment's ordinal, the offset in it.
pub(crate) type PagePlace = (u64, u64, u64);

/// A page's record, expanded.
pub(crate) struct Page {
    pub(crate) header: Header,
    /// Fixed part and key as in the record, then meta and body.
    bytes: Box<[u8]>,
}

impl Page {
    /// `front` is the record's fixed part and key.
    pub(crate) fn new(header: Header, front: &[u8], meta: &[u8], body: &[u8]) -> Page {
        Page { header, bytes: [front, meta, body].concat().into() }
    }

    /// Fixed part and key as in the record, then the expanded meta and body.
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
        // Beside the page: the cache's entry, and the allocator's overhead for two allocations.
        let own = size_of::<Page>() + size_of::<PagePlace>() + 64;
        (own + page.bytes.len()) as u64
    }
}

/// Pages by place. Those read once are evicted before those read again (S3-FIFO).
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
    /// A cache of at most `bytes`; `None` for 0.
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

    /// The place under which a page read from now on is kept.
    pub(crate) fn place(&self, ordinal: u64, offset: u64) -> PagePlace {
        (self.age.load(Ordering::Acquire), ordinal, offset)
    }

    pub(crate) fn get(&self, place: &PagePlace) -> Option<Arc<Page>> {
        let found = self.pages.get(place);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Returns true if a page is cached. Does not count as a use.
    pub(crate) fn contains(&self, place: &PagePlace) -> bool {
        self.pages.contains_key(place)
    }

    /// Returns true if a page with a body of this length may be cached.
    pub(crate) fn takes(&self, body_bytes: usize) -> bool {
        body_bytes <= self.largest
    }

    pub(crate) fn keep(&self, place: PagePlace, page: Page) {
        self.pages.insert(place, Arc::new(page));
    }

    /// Moves a page to another segment and offset.
    pub(crate) fn follow(&self, from: &PagePlace, to: (u64, u64)) {
        if let Some((_, page)) = self.pages.remove(from) {
            self.pages.insert((from.0, to.0, to.1), page);
        }
    }

    /// Drops all pages, and makes those being read unfindable.
    pub(crate) fn forget(&self) {
        self.age.fetch_add(1, Ordering::AcqRel);
        self.pages.clear();
    }

    /// Memory of the pages in bytes, hits, and misses.
    pub(crate) fn usage(&self) -> (u64, u64, u64) {
        (self.pages.weight(), self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}
