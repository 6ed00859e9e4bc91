//! Generated pages by number, for runs bigger than any corpus at hand.
//!
//! URL and body follow from seed and number: ten million pages need no storage, and each can be
//! made again to check what a store returned.
//!
//! Invariants:
//! - same seed, number and slice file give the same bytes on every machine (integers and plain
//!   IEEE arithmetic, no libm);
//! - no two numbers share a URL;
//! - sizes are lognormal, median 4 KiB, sigma 0.9 (mean about 6 KiB);
//! - a body mixes real HTML and pseudo-random text so that zstd -3 makes it 3 to 4 times smaller.

use crate::random::Random;

/// Real HTML, compressed; data/README.md says whose.
const SLICES: &[u8] = include_bytes!("../data/slices.html.zst");
const SLICES_BYTES_MAX: usize = 4 << 20;

/// Median of the body sizes in bytes.
const MEDIAN_BYTES: f64 = 4096.0;
/// Spread of the logarithm of the body sizes, in units of log2 (0.9 in natural logarithms).
const SIGMA_LOG2: f64 = 0.9 * std::f64::consts::LOG2_E;
const BODY_BYTES_MIN: usize = 64;

/// One slice in this many is pseudo-random text, which zstd halves; real HTML decides the ratio.
const TEXT_ONE_IN: u64 = 16;
const SLICE_BYTES_MIN: u64 = 1024;
const SLICE_BYTES_MAX: u64 = 16_384;
const TEXT_BYTES_MAX: u64 = 256;

const HOSTS: u64 = 200_000;
/// 2020-01-01, the fetch time of page 0; every later page is 10 ms younger.
const FIRST_TIME_MS: i64 = 1_577_836_800_000;

const WORDS: [&str; 64] = [
    "amber", "anchor", "autumn", "bakery", "barley", "beacon", "breeze", "bridge", "candle", "canyon", "cedar",
    "chapter", "cinder", "clover", "cobalt", "copper", "coral", "cotton", "crystal", "delta", "ember", "falcon",
    "fern", "forest", "garden", "glacier", "granite", "harbor", "hazel", "indigo", "island", "ivory", "jasper",
    "journal", "juniper", "lantern", "ledger", "library", "linen", "maple", "marble", "meadow", "mirror", "morning",
    "museum", "nutmeg", "ocean", "olive", "orchard", "parcel", "pepper", "prairie", "quarry", "raven", "river",
    "saffron", "silver", "station", "summit", "thistle", "timber", "velvet", "willow", "winter",
];
const SECTIONS: [&str; 8] =
    ["articles", "blog", "docs/reference", "forum/thread", "news", "products", "shop/item", "wiki"];
const SUFFIXES: [&str; 4] = ["", "/", ".html", ".html?lang=en"];

/// A page as a crawler delivers it. Reused, so that making one allocates nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Page {
    /// The key: about 73 bytes.
    pub url: Vec<u8>,
    /// The document.
    pub body: Vec<u8>,
    /// Time of the fetch, in ms since 1970.
    pub time_ms: i64,
}

/// Makes the pages of one seed. Cheap to share between threads: it is only read.
#[derive(Debug)]
pub struct Generator {
    seed: u64,
    slices: Vec<u8>,
}

impl Generator {
    /// The pages of `seed`.
    ///
    /// # Panics
    /// If the slice file that is compiled in does not decompress: the build is broken.
    #[must_use]
    pub fn new(seed: u64) -> Generator {
        let slices = zstd::bulk::decompress(SLICES, SLICES_BYTES_MAX).expect("data/slices.html.zst is compiled in");
        assert!(slices.len() > 2 * SLICE_BYTES_MAX as usize, "too little HTML to cut slices from");
        Generator { seed, slices }
    }

    /// Writes page `number` over whatever `page` held.
    pub fn page(&self, number: u64, page: &mut Page) {
        let mut random = Random::of(self.seed, number);
        url(&mut random, number, &mut page.url);
        self.body(&mut random, &mut page.body);
        page.time_ms = time_ms(number);
    }

    /// The URL of page `number` alone, over whatever `url` held.
    pub fn url(&self, number: u64, out: &mut Vec<u8>) {
        url(&mut Random::of(self.seed, number), number, out);
    }

    fn body(&self, random: &mut Random, body: &mut Vec<u8>) {
        let len = body_bytes(random);
        body.clear();
        body.reserve(len + SLICE_BYTES_MAX as usize);
        while body.len() < len {
            let roll = random.next();
            if roll.is_multiple_of(TEXT_ONE_IN) {
                text(random, 8 + roll / TEXT_ONE_IN % (TEXT_BYTES_MAX - 8), body);
            } else {
                let size = SLICE_BYTES_MIN + (roll >> 8) % (SLICE_BYTES_MAX - SLICE_BYTES_MIN);
                let start = random.below(self.slices.len() as u64 - size) as usize;
                body.extend_from_slice(&self.slices[start..start + size as usize]);
            }
        }
        body.truncate(len);
    }
}

/// Time at which page `number` was fetched, in ms since 1970.
#[must_use]
pub fn time_ms(number: u64) -> i64 {
    FIRST_TIME_MS + number as i64 * 10
}

/// Letters and spaces with 4 bits of chance each.
fn text(random: &mut Random, bytes: u64, body: &mut Vec<u8>) {
    const LETTERS: &[u8; 16] = b"etaoins rhldcumf";
    for _ in 0..bytes / 8 {
        let bits = random.next();
        body.extend_from_slice(&std::array::from_fn::<u8, 8, _>(|i| LETTERS[(bits >> (4 * i) & 15) as usize]));
    }
}

/// The page's number stands in the path, which is what makes URLs distinct; everything before it
/// is drawn, hosts with a few large and many small ones (density falling as rank^-2/3).
fn url(random: &mut Random, number: u64, out: &mut Vec<u8>) {
    let place = random.unit();
    let host = (place * place * place * HOSTS as f64) as u64;
    let (mut names, style) = (Random::of(host, 1), random.next());
    out.clear();
    out.extend_from_slice(if names.next().is_multiple_of(8) { b"http://" } else { b"https://" });
    out.extend_from_slice(if names.next().is_multiple_of(2) { b"www." } else { b"" });
    for _ in 0..2 {
        out.extend_from_slice(word(&mut names));
    }
    decimal(host, out);
    out.extend_from_slice(b".example/");
    out.extend_from_slice(SECTIONS[(style % 8) as usize].as_bytes());
    out.push(b'/');
    for _ in 0..1 + (style >> 8) % 5 {
        out.extend_from_slice(word(random));
        out.push(b'-');
    }
    decimal(number, out);
    out.extend_from_slice(SUFFIXES[(style >> 16 & 3) as usize].as_bytes());
}

fn word(random: &mut Random) -> &'static [u8] {
    WORDS[(random.next() % 64) as usize].as_bytes()
}

fn decimal(mut value: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out[start..].reverse();
}

/// A lognormal size in bytes.
fn body_bytes(random: &mut Random) -> usize {
    let size = MEDIAN_BYTES * exp2(SIGMA_LOG2 * random.normal());
    (size as usize).max(BODY_BYTES_MIN)
}

/// 2^x by a cubic over the fraction (within 0.02%) and exact powers for the rest: the same on
/// every machine, which the library's own is not.
fn exp2(x: f64) -> f64 {
    let whole = x.floor();
    let f = x - whole;
    let fraction = 1.0 + f * (0.695_976 + f * (0.224_94 + f * 0.079_084));
    fraction * f64::from_bits(((1023 + whole as i64) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn pages(count: u64) -> Vec<Page> {
        let generator = Generator::new(1);
        let mut page = Page::default();
        (0..count)
            .map(|number| {
                generator.page(number, &mut page);
                page.clone()
            })
            .collect()
    }

    #[test]
    fn a_page_follows_from_its_number_alone() {
        let (generator, again) = (Generator::new(1), Generator::new(1));
        let (mut page, mut other) = (Page::default(), Page::default());
        again.page(7, &mut other);
        for number in [7, 0, 9_999_999, 7] {
            generator.page(number, &mut page);
            again.page(number, &mut other);
            assert_eq!(page, other);
            again.url(number, &mut other.url);
            assert_eq!(page.url, other.url);
        }
        Generator::new(2).page(7, &mut other);
        assert_ne!(page, other);
    }

    #[test]
    fn pages_stay_the_same_from_release_to_release() {
        let pages = pages(1000);
        let mut digest = 0u64;
        for byte in pages.iter().flat_map(|page| page.url.iter().chain(&page.body)) {
            digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        assert_eq!(digest, GOLDEN, "the generator changed: figures no longer compare with older ones");
    }
    const GOLDEN: u64 = 16_444_500_279_949_648_669;

    #[test]
    fn urls_are_distinct_of_many_hosts_and_about_73_bytes() {
        let pages = pages(20_000);
        let urls: HashSet<&[u8]> = pages.iter().map(|page| page.url.as_slice()).collect();
        assert_eq!(urls.len(), pages.len());
        let hosts: HashSet<&[u8]> = urls.iter().filter_map(|url| url.split(|b| *b == b'/').nth(2)).collect();
        assert!(hosts.len() > 5_000, "{} hosts", hosts.len());
        let mean = urls.iter().map(|url| url.len()).sum::<usize>() / pages.len();
        assert!((70..77).contains(&mean), "{mean} bytes a URL");
    }

    #[test]
    fn sizes_are_lognormal_and_pages_compress_three_to_four_times() {
        let pages = pages(5000);
        let mut sizes: Vec<usize> = pages.iter().map(|page| page.body.len()).collect();
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        assert!((3_800..4_400).contains(&median), "median {median}");
        // One sigma up and down: exp(0.9) = 2.46.
        let (low, high) = (sizes[sizes.len() * 159 / 1000], sizes[sizes.len() * 841 / 1000]);
        assert!((1_500..1_850).contains(&low) && (9_200..11_000).contains(&high), "{low} {high}");
        let raw: usize = sizes.iter().sum();
        let stored: usize = pages.iter().map(|page| zstd::bulk::compress(&page.body, 3).unwrap().len()).sum();
        let ratio = raw as f64 / stored as f64;
        assert!((3.0..4.0).contains(&ratio), "{ratio:.2}");
    }
}
