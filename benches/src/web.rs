//! A simulated web by number and seed, for runs of a frontier far larger than any web graph at
//! hand. A page's URL and its links follow from its number, so nothing is stored.
//!
//! Invariants:
//! - same seed and size give the same links on every machine;
//! - no two numbers share a URL, and a URL leads back to its number;
//! - hosts have 10, 100, 4,000 or 100,000 pages, some 55 on average.

use std::fmt::Write as _;

use crate::random::Random;

/// Links of a page.
pub const LINKS: usize = 10;
/// Links to pages of the same host.
const NEAR: usize = 5;
/// Links to any page, all equally likely. One more leads to a popular page.
const FAR: usize = 4;

/// Pages of a block: the hosts of most blocks lie in it whole.
const BLOCK: u64 = 10_000;
/// One block in this many is a part of a large host.
const LARGE_ONE_IN: u64 = 4;
/// Blocks of a large host.
const LARGE_BLOCKS: u64 = 10;
/// Folders of a host.
const SECTIONS: u64 = 50;

/// The pages of one seed. Cheap to copy: it is only the seed and the size.
#[derive(Debug, Clone, Copy)]
pub struct Web {
    seed: u64,
    pages: u64,
}

impl Web {
    /// A web of this many pages.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(seed: u64, pages: u64) -> Web {
        assert!(pages > 0, "a web has pages");
        Web { seed, pages }
    }

    /// Number of pages; page numbers are below it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pages
    }

    /// Returns whether the web has no pages, which [`Web::new`] refuses.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Start pages for a crawl, spread evenly over the web.
    pub fn seeds(&self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let (pages, count) = (self.pages, count.min(self.pages));
        (0..count).map(move |at| at * pages / count)
    }

    /// Writes the numbers of a page's links over whatever `out` held: [`LINKS`] of them, some
    /// perhaps twice or the page itself, as on real pages.
    pub fn links(&self, page: u64, out: &mut Vec<u64>) {
        let mut random = Random::of(self.seed, page);
        out.clear();
        out.extend((0..NEAR).map(|_| near(page, &mut random) % self.pages));
        out.extend((0..FAR).map(|_| random.below(self.pages)));
        // Popular pages: the density of links falls as rank^-2/3.
        let place = random.unit();
        out.push((place * place * place * self.pages as f64) as u64);
    }

    /// Appends the URL of page `number`, some 60 bytes.
    pub fn url(&self, number: u64, out: &mut String) {
        let (host, section) = (host(number), number % SECTIONS);
        // Writing to a `String` cannot fail.
        let _ = write!(out, "http://www.site-{host}.example/section-{section}/page-{number}.html");
    }

    /// The number of the page with this URL; `None` if [`Web::url`] did not write it.
    #[must_use]
    pub fn number(url: &str) -> Option<u64> {
        url.rsplit_once("/page-")?.1.strip_suffix(".html")?.parse().ok()
    }
}

fn is_large(block: u64) -> bool {
    block % LARGE_ONE_IN == LARGE_ONE_IN - 1
}

/// The block with this place among those of all large hosts.
fn large_block(place: u64) -> u64 {
    place * LARGE_ONE_IN + LARGE_ONE_IN - 1
}

/// Of a host that lies in a block whole: the place of its first page there, and its pages. `at` is
/// the place of any of them.
fn small(at: u64) -> (u64, u64) {
    match at {
        0..4_000 => (0, 4_000),
        4_000..8_000 => (at / 100 * 100, 100),
        _ => (at / 10 * 10, 10),
    }
}

/// The first page of a page's host, by which the host is called.
fn host(page: u64) -> u64 {
    let (block, at) = (page / BLOCK, page % BLOCK);
    if is_large(block) {
        large_block(block / LARGE_ONE_IN / LARGE_BLOCKS * LARGE_BLOCKS) * BLOCK
    } else {
        block * BLOCK + small(at).0
    }
}

/// Any page of a page's host. The last host of a web may have fewer pages than this says.
fn near(page: u64, random: &mut Random) -> u64 {
    let (block, at) = (page / BLOCK, page % BLOCK);
    if is_large(block) {
        let index = random.below(LARGE_BLOCKS * BLOCK);
        let first = block / LARGE_ONE_IN / LARGE_BLOCKS * LARGE_BLOCKS;
        return large_block(first + index / BLOCK) * BLOCK + index % BLOCK;
    }
    let (first, pages) = small(at);
    block * BLOCK + first + random.below(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn url(web: &Web, number: u64) -> String {
        let mut url = String::new();
        web.url(number, &mut url);
        url
    }

    #[test]
    fn links_follow_from_the_number_and_stay_in_the_web() {
        let (web, again, other) = (Web::new(1, 1_234_567), Web::new(1, 1_234_567), Web::new(2, 1_234_567));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut differs = 0;
        for page in (0..web.len()).step_by(997) {
            web.links(page, &mut a);
            again.links(page, &mut b);
            assert_eq!(a, b);
            assert!(a.len() == LINKS && a.iter().all(|link| *link < web.len()), "{page}: {a:?}");
            other.links(page, &mut b);
            differs += usize::from(a != b);
        }
        assert!(differs > 1_000, "{differs} pages have other links under another seed");
    }

    #[test]
    fn a_url_leads_back_to_its_number() {
        let web = Web::new(1, 1 << 40);
        for number in [0, 1, 39_999, 40_000, 199_999_999, (1 << 40) - 1] {
            assert_eq!(Web::number(&url(&web, number)), Some(number));
        }
        assert_eq!(Web::number("http://www.site-0.example/"), None);
        assert_eq!(Web::number("http://www.site-0.example/section-1/page-x.html"), None);
    }

    #[test]
    fn half_of_the_links_lead_to_the_same_host_and_hosts_have_four_sizes() {
        // Large hosts take ten of forty blocks.
        let web = Web::new(1, 40 * BLOCK);
        let mut pages: HashMap<u64, u64> = HashMap::new();
        (0..web.len()).for_each(|page| *pages.entry(host(page)).or_default() += 1);
        let of_size = |size: u64| pages.values().filter(|pages| **pages == size).count();
        assert_eq!([10, 100, 4_000, 100_000].map(of_size), [6_000, 1_200, 30, 1]);
        let mut links = Vec::new();
        for page in [0, 5_000, 9_999, 30_000, 70_123, 399_999] {
            web.links(page, &mut links);
            assert!(links[..NEAR].iter().all(|link| host(*link) == host(page)), "{page}: {links:?}");
        }
    }

    #[test]
    fn seeds_are_distinct_pages() {
        let seeds: Vec<u64> = Web::new(1, 1_000).seeds(7).collect();
        assert!(seeds.len() == 7 && seeds.windows(2).all(|two| two[0] < two[1]), "{seeds:?}");
        assert_eq!(Web::new(1, 3).seeds(100).collect::<Vec<u64>>(), [0, 1, 2]);
    }
}
