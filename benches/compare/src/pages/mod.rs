//! The pages of a turn: which exist, the version of each, and what a get must return.
//!
//! Invariants:
//! - a page is its number: `0..count` are loaded, new pages take the numbers after them;
//! - every put of an existing page gives it the next version, with another page's body, so a stale
//!   answer shows;
//! - memory is bounded: two counters a page; bodies are made again when needed.

pub mod zipf;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use filemap_benches::generate::Page;
use filemap_benches::random::Random;
use filemap_benches::source::Source;
use xxhash_rust::xxh3::xxh3_64;

/// Numbers from here on are never stored: their URLs are absent.
const ABSENT: u64 = 1 << 40;
/// The next version of a page has the body of the page this many numbers on; a prime, so that
/// bodies repeat late.
const STRIDE: u64 = 7919;

/// Pages and their versions.
pub struct Pages {
    source: Source,
    count: u64,
    next: AtomicU64,
    begun: Vec<AtomicU32>,
    done: Vec<AtomicU32>,
}

/// A get and its answer, made before the clock runs.
pub struct Probe {
    /// The page.
    pub number: u64,
    /// Its URL.
    pub key: Box<[u8]>,
    /// XXH3 of its body; `None` if there must be no answer.
    pub digest: Option<u64>,
}

impl AsRef<[u8]> for Probe {
    fn as_ref(&self) -> &[u8] {
        &self.key
    }
}

impl Probe {
    /// Returns whether this is the right answer.
    pub fn is_right(&self, found: Option<&[u8]>) -> bool {
        self.digest == found.map(xxh3_64)
    }

    /// Description of a wrong answer.
    pub fn complaint(&self, found: Option<&[u8]>) -> String {
        let what = match (self.digest, found) {
            (Some(_), None) => "is missing",
            (None, Some(_)) => "should not be there",
            _ => "came back with another body",
        };
        format!("page {} {what}: {}", self.number, String::from_utf8_lossy(&self.key))
    }
}

impl Pages {
    /// `count` pages to load, with room for `room` new ones.
    pub fn new(source: Source, count: u64, room: u64) -> Pages {
        let zeros = || (0..count + room).map(|_| AtomicU32::new(0)).collect();
        Pages { source, count, next: AtomicU64::new(count), begun: zeros(), done: zeros() }
    }

    /// Number of pages loaded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of the next new page.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Number of new pages that fit.
    pub fn room(&self) -> u64 {
        (self.done.len() as u64).saturating_sub(self.next())
    }

    /// Takes the number of a new page; there must be room.
    pub fn take_new(&self) -> u64 {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    /// Version of a page, 0 for none, and the version of a put under way.
    pub fn versions(&self, number: u64) -> (u32, u32) {
        let at = number as usize;
        (self.done[at].load(Ordering::Acquire), self.begun[at].load(Ordering::Acquire))
    }

    /// Begins a put and returns its version. No other put of the page may be under way.
    pub fn begin(&self, number: u64) -> u32 {
        self.begun[number as usize].fetch_add(1, Ordering::AcqRel) + 1
    }

    /// A put has returned.
    pub fn finish(&self, number: u64, version: u32) {
        self.done[number as usize].store(version, Ordering::Release);
    }

    /// A page was deleted.
    pub fn forget(&self, number: u64) {
        self.done[number as usize].store(0, Ordering::Release);
        self.begun[number as usize].store(0, Ordering::Release);
    }

    /// Writes a version of a page over whatever `page` held.
    pub fn page(&self, number: u64, version: u32, page: &mut Page) {
        self.source.page(self.body_number(number, version), page);
        if version > 1 {
            self.source.url(number, &mut page.url);
        }
    }

    fn body_number(&self, number: u64, version: u32) -> u64 {
        if version <= 1 { number } else { (number + u64::from(version - 1) * STRIDE) % self.count }
    }

    /// XXH3 of a version's body; `page` is scratch.
    pub fn digest(&self, number: u64, version: u32, page: &mut Page) -> u64 {
        self.source.page(self.body_number(number, version), page);
        xxh3_64(&page.body)
    }

    /// The URL of a page.
    pub fn url(&self, number: u64, url: &mut Vec<u8>) {
        self.source.url(number, url);
    }

    /// Probe of a page in its current version.
    pub fn probe(&self, number: u64, page: &mut Page) -> Probe {
        let (version, _) = self.versions(number);
        let digest = (version > 0).then(|| self.digest(number, version, page));
        self.source.url(number, &mut page.url);
        Probe { number, key: page.url.as_slice().into(), digest }
    }

    /// Gets of these pages.
    pub fn probes(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<Probe> {
        let mut page = Page::default();
        numbers.into_iter().map(|number| self.probe(number, &mut page)).collect()
    }

    /// URLs that were never put, from number `first` on.
    pub fn absent(&self, first: u64, count: u64) -> Urls {
        let (mut url, mut urls) = (Vec::new(), Urls::default());
        for number in first..first + count {
            self.source.url(ABSENT | number, &mut url);
            urls.bytes.extend_from_slice(&url);
            urls.ends.push(urls.bytes.len());
        }
        urls
    }
}

/// URLs in one buffer. Allocated one by one they would be scattered over memory, and reading one
/// would take longer than its lookup.
#[derive(Debug, Default)]
pub struct Urls {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Urls {
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// Up to `count` distinct numbers below `bound`, in random order.
pub fn distinct(random: &mut Random, bound: u64, count: u64) -> Vec<u64> {
    if count * 3 >= bound {
        let mut all: Vec<u64> = (0..bound).collect();
        random.shuffle(&mut all);
        all.truncate(count as usize);
        return all;
    }
    let mut seen = HashSet::with_capacity(count as usize);
    let mut chosen = Vec::with_capacity(count as usize);
    while (chosen.len() as u64) < count {
        let number = random.below(bound);
        if seen.insert(number) {
            chosen.push(number);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_its_url_and_changes_its_body_with_each_put() {
        let pages = Pages::new(Source::open(None, 1).unwrap(), 50, 2);
        let (mut first, mut second) = (Page::default(), Page::default());
        assert_eq!(pages.probe(7, &mut first).digest, None);
        let version = pages.begin(7);
        pages.finish(7, version);
        pages.page(7, version, &mut first);
        assert!(pages.probe(7, &mut Page::default()).is_right(Some(&first.body)));
        let version = pages.begin(7);
        assert_eq!(pages.versions(7), (1, 2));
        pages.finish(7, version);
        pages.page(7, version, &mut second);
        assert_eq!(first.url, second.url);
        let probe = pages.probe(7, &mut Page::default());
        assert!(probe.is_right(Some(&second.body)) && !probe.is_right(Some(&first.body)) && !probe.is_right(None));
        assert!(probe.complaint(None).contains("missing"));
        pages.forget(7);
        assert!(pages.probe(7, &mut first).is_right(None));
        assert_eq!((pages.take_new(), pages.take_new(), pages.room()), (50, 51, 0));
    }

    #[test]
    fn chosen_numbers_are_distinct_and_below_the_bound() {
        for (bound, count) in [(10, 10), (10, 20), (1000, 10), (1, 1)] {
            let chosen = distinct(&mut Random::of(1, bound), bound, count);
            let set: HashSet<u64> = chosen.iter().copied().collect();
            assert_eq!(set.len() as u64, count.min(bound));
            assert!(set.iter().all(|number| *number < bound));
        }
    }

    #[test]
    fn absent_urls_are_nobodys() {
        let pages = Pages::new(Source::open(None, 1).unwrap(), 50, 0);
        let urls = pages.absent(0, 50);
        let absent: HashSet<&[u8]> = urls.iter().collect();
        assert_eq!(absent.len(), 50);
        assert!(pages.probes(0..50).iter().all(|probe| !absent.contains(&*probe.key)));
    }
}
