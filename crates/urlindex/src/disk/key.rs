//! Fingerprints of URLs, and their layout in 128 bits.
//!
//! | bits, from the highest | meaning |
//! |---|---|
//! | 24 | class: of the host's XXH3 hash (of the whole text's, if it has no host, as a digest) |
//! | 56, or 40 | of the whole URL's XXH3 hash (128-bit variant, its low half) |
//! | 1 | tombstone: the URL was forgotten |
//! | the rest | 0 on disk; place of arrival in a batch, marks in the table and elsewhere |
//!
//! URLs of a host are adjacent in the order of fingerprints: a crawl tests them together, and they
//! share blocks.

use std::fmt;

use filemap_runs::fixed::Fixed;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::canonical::{self, marked};

/// Directory, name, id and entry format of a set's files.
pub(super) type Home = filemap_runs::Home<Fixed>;

/// Bits of the host's class.
pub(super) const CLASS_BITS: u32 = 24;

/// Mark of a batch's record whose answer is known. Its place of arrival is below.
pub(super) const DECIDED: u128 = 1 << 32;
/// Mark of a decided record: the URL is in the set.
pub(super) const SEEN: u128 = 1 << 33;

/// Length of fingerprints, which determines the rate of collisions.
///
/// ```
/// use urlindex::disk::FingerprintBits;
///
/// // A billion URLs of hosts that have a thousand each.
/// assert!(FingerprintBits::Bits80.expected_loss(1e9, 1e3) < 1e-5);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FingerprintBits {
    /// 24 bits of host and 40 of URL: about 2 bytes a URL less. Read
    /// [`crate::SeenSet::expected_loss`].
    Bits64,
    /// 24 bits of host and 56 of URL: as good as exact.
    #[default]
    Bits80,
}

impl FingerprintBits {
    /// Number of bits.
    pub fn bits(self) -> u32 {
        match self {
            FingerprintBits::Bits64 => 64,
            FingerprintBits::Bits80 => 80,
        }
    }

    /// Expected number of new URLs called seen among `urls` URLs of hosts with `urls_per_host`
    /// each. URLs of a host differ only in the bits of URL, so large hosts lose most.
    pub fn expected_loss(self, urls: f64, urls_per_host: f64) -> f64 {
        // Hosts share classes by chance.
        let urls_per_class = urls_per_host + urls / f64::from(1u32 << CLASS_BITS);
        urls * urls_per_class.min(urls) / 2.0 * (-f64::from(self.url_bits())).exp2()
    }

    pub(super) fn of_bits(bits: u32) -> Option<FingerprintBits> {
        [FingerprintBits::Bits64, FingerprintBits::Bits80].into_iter().find(|known| known.bits() == bits)
    }

    /// Bits of the URL.
    pub(super) fn url_bits(self) -> u32 {
        self.bits() - CLASS_BITS
    }

    /// Format of the runs.
    #[inline]
    pub(super) fn format(self) -> Fixed {
        Fixed::new(self.bits())
    }

    /// The tombstone mark.
    #[inline]
    pub(super) fn tombstone(self) -> u128 {
        self.format().mark()
    }

    /// Mask of a fingerprint.
    #[inline]
    pub(crate) fn mask(self) -> u128 {
        self.format().mask()
    }

    /// A URL's fingerprint.
    #[inline]
    pub(super) fn of(self, url: &[u8], seed: u64) -> u128 {
        let whole = xxh3_128_with_seed(url, seed);
        let class = match host_of(url) {
            Some(host) => xxh3_64_with_seed(host, seed),
            None => (whole >> 64) as u64,
        };
        let class = u128::from(class >> (64 - CLASS_BITS));
        (class << (128 - CLASS_BITS) | u128::from(whole as u64) << (64 - CLASS_BITS)) & self.mask()
    }
}

/// 1: ends a plain host; 2: the host is not plain.
const KINDS: [u8; 256] = marked(marked([0; 256], b"/?#\\", 1), b"@:[", 2);

/// [`crate::host`], faster for nearly all URLs.
#[inline]
fn host_of(url: &[u8]) -> Option<&[u8]> {
    let rest = url.strip_prefix(b"https://").or_else(|| url.strip_prefix(b"http://"));
    let Some(rest) = rest else { return canonical::host(url) };
    match rest.iter().position(|byte| KINDS[usize::from(*byte)] != 0) {
        Some(end) if end > 0 && KINDS[usize::from(rest[end])] == 1 => Some(&rest[..end]),
        _ => canonical::host(url),
    }
}

/// The class of an entry.
#[inline]
pub(super) fn class(entry: u128) -> u32 {
    (entry >> (128 - CLASS_BITS)) as u32
}

/// Sum over classes of the squared number of URLs, of entries in order.
#[derive(Default)]
pub(super) struct Squares {
    sum: f64,
    /// Class of the last URL, and its number of URLs.
    class: (u32, u64),
}

impl Squares {
    #[inline]
    pub(super) fn add(&mut self, entry: u128, tombstone: u128) {
        if entry & tombstone != 0 {
            return;
        }
        if class(entry) != self.class.0 {
            self.sum = self.sum();
            self.class = (class(entry), 0);
        }
        self.class.1 += 1;
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum + (self.class.1 as f64).powi(2)
    }
}

/// A URL's fingerprint in a [`crate::DiskUrlSet`]. URLs of a host are adjacent in the order of
/// fingerprints.
///
/// ```
/// use urlindex::{DiskOptions, DiskUrlSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = DiskUrlSet::create(&path, DiskOptions::new()).unwrap();
/// let (a, b) = (set.fingerprint("http://example.com/a"), set.fingerprint("http://example.com/b"));
/// // The first six digits are the host's.
/// assert_eq!(a.to_string()[..6], b.to_string()[..6]);
/// assert_ne!(a, b);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub(crate) u128);

impl Fingerprint {
    /// The fingerprint in the highest bits; missing ones are 0.
    pub fn to_u128(self) -> u128 {
        self.0
    }
}

/// Twenty hexadecimal digits; the last four are 0 with 64 bits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020x}", self.0 >> 48)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_host_share_their_class_and_nothing_else() {
        for bits in [FingerprintBits::Bits64, FingerprintBits::Bits80] {
            let [a, b, other] =
                [&b"http://a.example/1"[..], b"http://a.example/2", b"http://b.example/1"].map(|url| bits.of(url, 7));
            assert_eq!(class(a), class(b));
            assert!(class(a) != class(other) && a != b);
            assert_eq!(a & !bits.mask(), 0);
            assert_ne!(bits.of(b"http://a.example/1", 8), a);
        }
    }

    #[test]
    fn a_text_without_a_host_has_a_class_of_its_own() {
        let bits = FingerprintBits::Bits80;
        let classes: std::collections::HashSet<u32> =
            (0..100u32).map(|i| class(bits.of(&i.to_le_bytes(), 0))).collect();
        assert!(classes.len() > 95);
    }

    #[test]
    fn the_short_way_to_a_host_is_the_long_one() {
        let urls = [
            "http://a.example/x@y:z",
            "https://a.example",
            "http://u@a.example/",
            "http://a.example:80/",
            "http:///x",
            "http://",
            "https://a.example?q",
            "http://[::1]/",
            "ftp://a.example/",
            "HTTP://a.example/",
            "http://a.example#@b",
            "http://a\\b",
        ];
        for url in urls {
            assert_eq!(host_of(url.as_bytes()), canonical::host(url.as_bytes()), "{url}");
        }
    }

    /// Files store these fingerprints: they must never change.
    #[test]
    fn fingerprints_are_the_golden_ones() {
        let url = b"http://www.ouc.edu.cn/";
        let [short, long] =
            [FingerprintBits::Bits64, FingerprintBits::Bits80].map(|bits| Fingerprint(bits.of(url, 0)).to_string());
        assert_eq!(long[..16], short[..16]);
        assert_eq!(short[16..], *"0000");
        assert_eq!(long, "415996feecd8f2d203a1");
    }
}
