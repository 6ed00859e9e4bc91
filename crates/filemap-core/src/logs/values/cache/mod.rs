//! The value cache: recently read pages, expanded, in bounded memory. Its size is an option's, or
//! automatic ([`growth`]).
//!
//! Invariant: a page is kept under its place. The content of a place changes only when the
//! writer's recovery drops records and writes others there, which a follower experiences while
//! open. The follower then calls [`ValueCache::forget`] before anything leads to the new records,
//! and pages read before are not found again: each place carries the number of such calls before
//! its read.
//!
//! Compaction copies pages. If the copy differs only in its place, [`ValueCache::follow`] moves
//! the page to the new place once the index leads there.
//!
//! An automatic cache has no pages, and has allocated nothing, until gets repeat.

mod body;
mod ghosts;
pub(crate) mod growth;

use std::fmt;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Instant;

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use crate::format::value::Header;
use crate::sync::primitive::{ArcSwap, AtomicU64, Ordering};

pub use body::SharedBody;
use growth::{Growth, MemorySource, Size};

/// A page takes at most one part in this many of the cache: one page should not evict hundreds.
const LARGEST_PART: u64 = 64;
/// Typical size of an expanded page, by which the cache's own tables are sized.
const USUAL_BYTES: u64 = 16 << 10;

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

/// Pages by place, within a bound. Those read once are evicted before those read again (S3-FIFO).
struct Pages {
    kept: Cache<PagePlace, Arc<Page>, ByBytes, RandomState>,
    bound: AtomicU64,
    /// Pages since the last growth that were too large for this bound.
    refused: AtomicU64,
}

impl Pages {
    fn new(bound: u64) -> Pages {
        let usual = usize::try_from(bound / USUAL_BYTES).unwrap_or(usize::MAX);
        Pages {
            kept: Cache::with(usual, bound, ByBytes, RandomState::new(), DefaultLifecycle::default()),
            bound: AtomicU64::new(bound),
            refused: AtomicU64::new(0),
        }
    }

    fn size(&self) -> Size {
        Size { used: self.kept.weight(), bound: self.bound.load(Ordering::Relaxed) }
    }

    /// Returns true if more room would keep more pages: half of it is used, since pages are not
    /// spread evenly over the parts of the cache, or many pages were too large.
    fn is_full(&self) -> bool {
        let Size { used, bound } = self.size();
        used >= bound / 2 || self.refused.load(Ordering::Relaxed) >= ghosts::ENOUGH
    }

    fn resize(&self, bound: u64) {
        self.bound.store(bound, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
        self.kept.set_capacity(bound);
    }
}

/// Use of the value cache, for statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Memory of the pages in bytes, and what they may take at present.
    pub(crate) bytes: u64,
    pub(crate) bound_bytes: u64,
    pub(crate) hits: u64,
    /// Misses while there was a cache.
    pub(crate) misses: u64,
}

/// The value cache of a handle.
pub(crate) struct ValueCache {
    /// `None` while an automatic cache has no size.
    pages: ArcSwap<Option<Pages>>,
    /// `None` for a fixed size.
    growth: Option<Growth>,
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
    pub(crate) fn fixed(bytes: u64) -> Option<ValueCache> {
        (bytes > 0).then(|| ValueCache::new(Some(Pages::new(bytes)), None))
    }

    /// A cache that takes what gets and memory suggest, at most `bytes`; `None` for 0.
    pub(crate) fn automatic(bytes: u64, source: MemorySource) -> Option<ValueCache> {
        (bytes > 0).then(|| ValueCache::new(None, Some(Growth::new(bytes, source))))
    }

    fn new(pages: Option<Pages>, growth: Option<Growth>) -> ValueCache {
        ValueCache {
            pages: ArcSwap::from_pointee(pages),
            growth,
            age: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The place under which a page read from now on is kept.
    pub(crate) fn place(&self, ordinal: u64, offset: u64) -> PagePlace {
        (self.age.load(Ordering::Acquire), ordinal, offset)
    }

    pub(crate) fn get(&self, place: &PagePlace) -> Option<Arc<Page>> {
        let pages = self.pages.load();
        if let Some(pages) = &**pages {
            let found = pages.kept.get(place);
            let counter = if found.is_some() { &self.hits } else { &self.misses };
            counter.fetch_add(1, Ordering::Relaxed);
            if found.is_some() {
                return found;
            }
        }
        if let Some(growth) = &self.growth
            && growth.ghosts.note(place)
        {
            self.grow(growth, Instant::now());
        }
        None
    }

    /// Returns true if there are pages, or may be.
    pub(crate) fn is_in_use(&self) -> bool {
        (**self.pages.load()).is_some()
    }

    /// Returns true if a page is cached. Does not count as a use.
    pub(crate) fn contains(&self, place: &PagePlace) -> bool {
        (**self.pages.load()).as_ref().is_some_and(|pages| pages.kept.contains_key(place))
    }

    /// Returns true if a page with a body of this length may be cached.
    pub(crate) fn takes(&self, body_bytes: usize) -> bool {
        let pages = self.pages.load();
        let Some(pages) = &**pages else { return false };
        let fits = body_bytes as u64 <= pages.bound.load(Ordering::Relaxed) / LARGEST_PART;
        if !fits {
            pages.refused.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }

    pub(crate) fn keep(&self, place: PagePlace, page: Page) {
        if let Some(pages) = &**self.pages.load() {
            self.insert(pages, place, Arc::new(page));
        }
    }

    /// Inserts a page, unless all were dropped after it was read: nobody would find it, but its
    /// bytes, which may be erased ones, would stay until it is evicted.
    fn insert(&self, pages: &Pages, place: PagePlace, page: Arc<Page>) {
        pages.kept.insert(place, page);
        // After the insertion: whoever drops the pages counts that first.
        if self.age.load(Ordering::Acquire) != place.0 {
            pages.kept.remove(&place);
        }
    }

    /// Moves a page to another segment and offset.
    pub(crate) fn follow(&self, from: &PagePlace, to: (u64, u64)) {
        if let Some(pages) = &**self.pages.load()
            && let Some((_, page)) = pages.kept.remove(from)
        {
            self.insert(pages, (from.0, to.0, to.1), page);
        }
    }

    /// Drops all pages. Those being read are not kept.
    pub(crate) fn forget(&self) {
        self.age.fetch_add(1, Ordering::AcqRel);
        if let Some(pages) = &**self.pages.load() {
            pages.kept.clear();
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let Size { used, bound } = self.size();
        let (hits, misses) = (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed));
        Usage { bytes: used, bound_bytes: bound, hits, misses }
    }

    fn size(&self) -> Size {
        (**self.pages.load()).as_ref().map(Pages::size).unwrap_or_default()
    }

    /// Gives an automatic cache more room, if it is full and memory permits; begins one if there
    /// is none. Gets repeat.
    #[cold]
    fn grow(&self, growth: &Growth, now: Instant) {
        let Some(mut looks) = growth.turn() else { return };
        growth.ghosts.begin_anew();
        let size = self.size();
        let roof = growth.roof(&mut looks, size, now);
        if roof < size.bound {
            self.resize(roof);
        } else if (**self.pages.load()).as_ref().is_none_or(Pages::is_full) {
            self.resize(growth::grown(size, roof));
        }
    }

    /// Gives memory back if it is short. Called every few seconds, by a thread that exists; costs
    /// nothing while there are no pages, or if the last look at memory is recent.
    pub(crate) fn tend(&self, now: Instant) {
        let Some(growth) = self.growth.as_ref().filter(|_| self.is_in_use()) else { return };
        let Some(mut looks) = growth.turn() else { return };
        let size = self.size();
        let roof = growth.roof(&mut looks, size, now);
        if roof < size.bound {
            self.resize(roof);
        }
    }

    /// Changes the bound. Without room the pages go, and the cache's own tables with them. The
    /// caller has the turn.
    fn resize(&self, bound: u64) {
        let pages = self.pages.load_full();
        match &*pages {
            Some(_) if bound == 0 => self.pages.store(Arc::new(None)),
            Some(pages) => pages.resize(bound),
            None if bound == 0 => {}
            None => self.pages.store(Arc::new(Some(Pages::new(bound)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use filemap_io::system::Memory;

    use super::growth::{FIRST_BYTES, LOOK};
    use super::*;
    use crate::format::value::{Codec, Kind};

    const GIB: u64 = 1 << 30;

    thread_local! {
        /// Available bytes of a machine with 8 GiB.
        static AVAILABLE: Cell<u64> = const { Cell::new(8 << 30) };
    }

    fn machine() -> Option<Memory> {
        Some(Memory { total_bytes: 8 * GIB, available_bytes: AVAILABLE.get() })
    }

    fn page(body_bytes: usize) -> Page {
        let header = Header {
            kind: Kind::Page,
            codec: Codec::Raw,
            meta_codec: Codec::Raw,
            dictionary: 0,
            sequence: 1,
            time_ms: 1,
            raw_bytes: body_bytes as u64,
            payload_bytes: body_bytes as u32,
            meta_raw_bytes: 4,
            meta_bytes: 4,
            key_bytes: 3,
            payload_crc: 0,
            digest: [0; 16],
        };
        Page::new(header, &vec![0; header.meta_at()], b"meta", &vec![7; body_bytes])
    }

    /// A get. Returns whether it was a hit.
    fn get(cache: &ValueCache, number: u64, body_bytes: usize) -> bool {
        let place = cache.place(0, number * 64);
        if let Some(page) = cache.get(&place) {
            assert_eq!((page.meta(), page.body().len()), (&b"meta"[..], body_bytes));
            return true;
        }
        if cache.takes(body_bytes) {
            cache.keep(place, page(body_bytes));
        }
        false
    }

    /// Gets the same pages again and again. Returns the hits of the last round.
    fn rounds(cache: &ValueCache, count: usize, pages: u64, body_bytes: usize) -> usize {
        let round = || (0..pages).filter(|number| get(cache, *number, body_bytes)).count();
        (0..count).fold(0, |_, _| round())
    }

    #[test]
    fn nothing_is_kept_until_gets_repeat() {
        let cache = ValueCache::automatic(u64::MAX, machine).unwrap();
        (0..10_000).for_each(|number| assert!(!get(&cache, number, 1000)));
        let Usage { bytes, bound_bytes, hits, misses } = cache.usage();
        assert_eq!((bytes, bound_bytes, hits, misses, cache.is_in_use()), (0, 0, 0, 0, false));
        assert_eq!(rounds(&cache, 20, 100, 1000), 100);
        let Usage { bytes, bound_bytes, hits, .. } = cache.usage();
        assert_eq!((bound_bytes, cache.is_in_use()), (FIRST_BYTES, true));
        assert!((100_000..200_000).contains(&bytes) && hits >= 100, "{bytes} bytes, {hits} hits");
        assert!(ValueCache::automatic(0, machine).is_none() && ValueCache::fixed(0).is_none());
    }

    #[test]
    fn it_doubles_until_pages_that_repeat_fit_and_is_given_back_when_memory_runs_short() {
        let cache = ValueCache::automatic(u64::MAX, machine).unwrap();
        // Twice the first size. Parts of the cache may get more than their share.
        assert!(rounds(&cache, 40, 400, 160 << 10) >= 350);
        let grown = cache.usage();
        assert!((2 * FIRST_BYTES..=8 * FIRST_BYTES).contains(&grown.bound_bytes), "{grown:?}");
        AVAILABLE.set(GIB);
        let mut now = Instant::now() + LOOK;
        cache.tend(now);
        assert_eq!(cache.usage().bound_bytes, grown.bound_bytes, "an eighth is available: it stays");
        AVAILABLE.set(GIB / 2);
        now += LOOK / 2;
        cache.tend(now);
        assert_eq!(cache.usage().bound_bytes, grown.bound_bytes, "the last look is recent");
        now += LOOK;
        cache.tend(now);
        let halved = cache.usage();
        assert_eq!(halved.bound_bytes, grown.bytes / 2);
        assert!(halved.bytes <= halved.bound_bytes + 64, "{halved:?}: each part of the cache rounds up");
        for _ in 0..4 {
            now += LOOK;
            cache.tend(now);
        }
        assert_eq!((cache.usage().bytes, cache.usage().bound_bytes, cache.is_in_use()), (0, 0, false));
        // Memory is back.
        AVAILABLE.set(8 * GIB);
        cache.grow(cache.growth.as_ref().unwrap(), now + LOOK);
        assert_eq!(cache.usage().bound_bytes, FIRST_BYTES);
        assert_eq!(rounds(&cache, 2, 10, 1000), 10);
    }

    #[test]
    fn pages_too_large_for_it_make_it_grow() {
        let cache = ValueCache::automatic(u64::MAX, machine).unwrap();
        let bytes = (FIRST_BYTES / LARGEST_PART) as usize + (64 << 10);
        assert_eq!(rounds(&cache, 200, 1, bytes), 1);
        assert_eq!(cache.usage().bound_bytes, 2 * FIRST_BYTES);
    }

    #[test]
    fn an_option_bounds_it_and_a_fixed_size_stays() {
        let cache = ValueCache::automatic(1 << 20, machine).unwrap();
        rounds(&cache, 40, 400, 10_000);
        let usage = cache.usage();
        assert!(usage.bound_bytes == 1 << 20 && usage.bytes <= 1 << 20, "{usage:?}");
        AVAILABLE.set(0);
        let fixed = ValueCache::fixed(1 << 20).unwrap();
        rounds(&fixed, 2, 10, 1000);
        fixed.tend(Instant::now() + LOOK);
        assert_eq!((fixed.usage().bound_bytes, fixed.usage().hits), (1 << 20, 10));
    }

    #[test]
    fn a_page_that_was_read_before_all_were_dropped_is_not_kept() {
        let automatic = ValueCache::automatic(u64::MAX, machine).unwrap();
        AVAILABLE.set(8 * GIB);
        rounds(&automatic, 20, 100, 1000);
        assert!(automatic.is_in_use());
        for cache in [ValueCache::fixed(1 << 20).unwrap(), automatic] {
            let place = cache.place(0, 64);
            cache.forget();
            cache.keep(place, page(1000));
            assert_eq!(cache.usage().bytes, 0, "it would lie there unfound until it is evicted");
            let place = cache.place(0, 64);
            cache.keep(place, page(1000));
            assert!(cache.contains(&place) && cache.usage().bytes > 1000);
        }
    }

    #[test]
    fn a_body_outlives_its_page() {
        let cache = ValueCache::fixed(1 << 20).unwrap();
        get(&cache, 1, 1000);
        let body = SharedBody::of(&cache.get(&cache.place(0, 64)).unwrap());
        cache.forget();
        assert!(!cache.contains(&cache.place(0, 64)) && cache.usage().bytes == 0);
        assert!(body.is_shared() && body[..] == [7; 1000]);
        assert_eq!(body.into_vec(), [7; 1000]);
    }
}
