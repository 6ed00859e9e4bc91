//! The kinds of sets: how each stores a URL, and its error rate.
//!
//! | kind | in Redis | a URL is |
//! |---|---|---|
//! | exact | sets of some 425 integers, which Redis keeps as sorted arrays | its 64-bit hash |
//! | bitmap | strings of 8 KiB | a bit |
//! | Bloom | strings of 64 KiB | seven bits of one string |
//!
//! The block of a Bloom filter: Putze, Sanders, Singler, *Cache-, Hash- and Space-Efficient Bloom
//! Filters* (2007); the seven bits by double hashing: Kirsch, Mitzenmacher (2006).

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use crate::error::{Error, Result};

/// Mean integers per key. Redis keeps up to 512 (`set-max-intset-entries`) as an array: 4.2
/// standard deviations above. Four keys in five then fill their 3,584 bytes of memory best.
const INTEGERS: u64 = 425;
/// Bits in each key of a bitmap.
const BITMAP_BITS: u64 = 1 << 16;
/// Bits in each key of a Bloom filter, and the number of them that a URL sets.
const BLOCK_BITS: u64 = 1 << 19;
const HASHES: u64 = 7;
/// Bits per URL of a Bloom filter that holds the number of URLs that it is made for.
const BITS_A_URL: u64 = 10;

/// A set to create.
///
/// ```
/// use urlindex_redis::NewRedisSet;
///
/// let set = NewRedisSet::Bloom { urls: 1_000_000 };
/// assert!(set.false_positive_rate(1_000_000) < 0.01 && set.bytes(1_000_000) < 1_500_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NewRedisSet {
    /// 64-bit hashes: as good as exact up to a billion URLs, some 9 bytes each. With many more
    /// URLs than `urls`, Redis switches to hash tables of some 60 bytes per URL.
    Exact {
        /// About the number of URLs expected.
        urls: u64,
    },
    /// A bitmap of 2^`bits` bits: its false positive rate is the share of set bits.
    Bitmap {
        /// Base-2 logarithm of the number of bits: 16 to 40.
        bits: u32,
    },
    /// A Bloom filter of ten bits a URL: 0.8% false positives when it has `urls` URLs.
    Bloom {
        /// The number of URLs expected.
        urls: u64,
    },
}

/// The place of a URL in a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the key, below [`NewRedisSet::keys`].
    pub key: u64,
    /// The member, or the offsets of its bits, separated by spaces.
    pub item: String,
    /// The URL's hash.
    pub hash: u64,
}

impl NewRedisSet {
    /// The name of the kind: `exact`, `bitmap` or `bloom`.
    pub fn name(&self) -> &'static str {
        match self {
            NewRedisSet::Exact { .. } => "exact",
            NewRedisSet::Bitmap { .. } => "bitmap",
            NewRedisSet::Bloom { .. } => "bloom",
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match *self {
            NewRedisSet::Exact { urls } | NewRedisSet::Bloom { urls } if !(1..=1 << 40).contains(&urls) => {
                Err(Error::Option { name: "urls", why: "must be 1 to 2^40".to_owned() })
            }
            NewRedisSet::Bitmap { bits } if !(16..=40).contains(&bits) => {
                Err(Error::Option { name: "bits", why: "must be 16 to 40".to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Number of keys.
    pub(crate) fn keys(&self) -> u64 {
        match *self {
            NewRedisSet::Exact { urls } => urls.div_ceil(INTEGERS),
            NewRedisSet::Bitmap { bits } => (1 << bits) / BITMAP_BITS,
            NewRedisSet::Bloom { urls } => (urls * BITS_A_URL).div_ceil(BLOCK_BITS),
        }
    }

    pub(crate) fn place(&self, url: &[u8], seed: u64) -> Place {
        let hash = xxh3_64_with_seed(url, seed);
        match *self {
            // Each key has the hashes of one range, stored in full.
            NewRedisSet::Exact { .. } => Place { key: part(hash, self.keys()), item: (hash as i64).to_string(), hash },
            NewRedisSet::Bitmap { bits } => {
                let bit = hash >> (64 - bits);
                Place { key: bit / BITMAP_BITS, item: (bit % BITMAP_BITS).to_string(), hash }
            }
            NewRedisSet::Bloom { .. } => {
                let wide = xxh3_128_with_seed(url, !seed);
                let (first, step) = (wide as u64, (wide >> 64) as u64 | 1);
                let bits = (0..HASHES).map(|nth| first.wrapping_add(nth.wrapping_mul(step)) % BLOCK_BITS);
                let bits: Vec<String> = bits.map(|bit| bit.to_string()).collect();
                Place { key: part(hash, self.keys()), item: bits.join(" "), hash }
            }
        }
    }

    /// The probability that a new URL is reported as seen once `urls` URLs are in the set.
    pub fn false_positive_rate(&self, urls: u64) -> f64 {
        let urls = urls as f64;
        match *self {
            NewRedisSet::Exact { .. } => urls * (-64f64).exp2(),
            // Each new URL has set one bit.
            NewRedisSet::Bitmap { bits } => (urls * (-f64::from(bits)).exp2()).min(1.0),
            NewRedisSet::Bloom { .. } => {
                let bits = (self.keys() * BLOCK_BITS) as f64;
                (1.0 - (-(HASHES as f64) * urls / bits).exp()).powi(HASHES as i32)
            }
        }
    }

    /// Expected number of new URLs reported as seen until `urls` are in the set.
    pub fn expected_loss(&self, urls: u64) -> f64 {
        match *self {
            NewRedisSet::Exact { .. } => (urls as f64).powi(2) * (-65f64).exp2(),
            NewRedisSet::Bitmap { bits } => {
                let (slots, urls) = (f64::from(bits).exp2(), urls as f64);
                // Of N URLs 1 - exp(-N / slots) of the slots are set.
                let asked = -slots * (1.0 - (urls / slots).min(1.0 - f64::EPSILON)).ln();
                asked - urls
            }
            NewRedisSet::Bloom { .. } => {
                const STEPS: u64 = 1024;
                let rates = (0..STEPS).map(|step| self.false_positive_rate((urls / STEPS) * step + urls / STEPS / 2));
                rates.map(|rate| rate / (1.0 - rate).max(f64::EPSILON)).sum::<f64>() * urls as f64 / STEPS as f64
            }
        }
    }

    /// About the bytes of Redis' memory that `urls` URLs take, without the answers that are kept.
    pub fn bytes(&self, urls: u64) -> u64 {
        // A key's name, its entry in the dictionary and its object.
        const KEY: u64 = 128;
        let keys = self.keys().min(urls);
        match *self {
            NewRedisSet::Exact { .. } => 8 * urls + KEY * keys,
            NewRedisSet::Bitmap { .. } => (BITMAP_BITS / 8 + KEY) * keys,
            NewRedisSet::Bloom { .. } => (BLOCK_BITS / 8 + KEY) * keys,
        }
    }
}

/// The number of the part that a hash falls in, of `parts` equal parts of all hashes.
fn part(hash: u64, parts: u64) -> u64 {
    ((u128::from(hash) * u128::from(parts)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_in_the_set_and_the_same_each_time() {
        let kinds = [
            NewRedisSet::Exact { urls: 1_000_000 },
            NewRedisSet::Bitmap { bits: 28 },
            NewRedisSet::Bloom { urls: 10_000_000 },
        ];
        for kind in kinds {
            let places: Vec<Place> =
                (0..10_000).map(|nth| kind.place(format!("http://a.example/{nth}").as_bytes(), 7)).collect();
            assert!(places.iter().all(|place| place.key < kind.keys()), "{kind:?}");
            assert_eq!(kind.place(b"http://a.example/9", 7), places[9]);
            assert_ne!(kind.place(b"http://a.example/9", 8), places[9]);
            // They are spread evenly: no key has a tenth of them.
            let mut of_key = vec![0; kind.keys() as usize];
            places.iter().for_each(|place| of_key[place.key as usize] += 1);
            assert!(of_key.iter().all(|count| *count < 1_000), "{kind:?}");
        }
    }

    #[test]
    fn rates_and_losses_are_those_of_the_formulas() {
        let rate = NewRedisSet::Bloom { urls: 100_000_000 }.false_positive_rate(100_000_000);
        assert!((0.0075..0.0085).contains(&rate), "{rate}");
        let bitmap = NewRedisSet::Bitmap { bits: 20 };
        assert!((bitmap.false_positive_rate(1 << 19) - 0.5).abs() < 1e-9);
        // ln 2 URLs a slot fill half of them.
        assert!((bitmap.expected_loss(1 << 19) / f64::from(1 << 20) - (2f64.ln() - 0.5)).abs() < 1e-6);
        assert!(NewRedisSet::Exact { urls: 1 }.expected_loss(1_000_000_000) < 0.03);
        assert!(NewRedisSet::Bitmap { bits: 15 }.check().is_err() && NewRedisSet::Exact { urls: 0 }.check().is_err());
    }
}
