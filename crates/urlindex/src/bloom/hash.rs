//! Hash functions of Bloom filters: XXH3, and BKDR, AP and DJB for filters of other programs.
//!
//! The classic three are here because filters made with them exist, and to show what they cost:
//! golden tests hold their values, docs/SEEN.md has their false-positive rates on real URLs. They
//! read bytes as C's signed `char` and give 31 bits.
//!
//! DJB starts at 5381, as its author has it. Filters made when it started at 0 have families of
//! their own ([`HashFamily::Djb0`], [`HashFamily::Ap0`]), so their URLs keep their bits.

use xxhash_rust::xxh3::xxh3_64_with_seed;

filemap_io::named_enum! {
    /// Hash functions of a filter's probes. The numbers are on disk.
    ///
    /// ```
    /// use urlindex::hash::HashFamily;
    /// use urlindex::{BloomFilter, BloomOptions};
    ///
    /// let filter = BloomFilter::in_memory(BloomOptions::classic(1_000).family(HashFamily::Bkdr)).unwrap();
    /// assert_eq!(filter.hashing(), (HashFamily::Bkdr, 0));
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum HashFamily {
        /// XXH3, 64 bits, with the filter's seed.
        #[default]
        Xxh3 = 0 => "xxh3",
        /// BKDR with factor 13131; steps by AP.
        Bkdr = 1 => "bkdr",
        /// [`HashFamily::Ap`] with a DJB that starts at 0: older filters.
        Ap0 = 2 => "ap0",
        /// [`HashFamily::Djb`] with a DJB that starts at 0: older filters.
        Djb0 = 3 => "djb0",
        /// Arash Partow's; steps by DJB.
        Ap = 4 => "ap",
        /// Bernstein's; steps by BKDR.
        Djb = 5 => "djb",
    }
}

impl HashFamily {
    /// A URL's hash: 64 bits, or two values of 31 bits, the first in the low half.
    #[inline]
    pub(super) fn hash(self, url: &[u8], seed: u64) -> u64 {
        let two = |first: u32, step: u32| u64::from(first) | u64::from(step) << 32;
        match self {
            HashFamily::Xxh3 => xxh3_64_with_seed(url, seed),
            HashFamily::Bkdr => two(bkdr(url), ap(url)),
            HashFamily::Ap => two(ap(url), djb(url)),
            HashFamily::Djb => two(djb(url), bkdr(url)),
            HashFamily::Ap0 => two(ap(url), djb0(url)),
            HashFamily::Djb0 => two(djb0(url), bkdr(url)),
        }
    }
}

const MASK: u32 = 0x7fff_ffff;

/// A byte as C's signed `char`, widened.
#[inline]
fn signed(byte: u8) -> u32 {
    i32::from(byte as i8) as u32
}

/// The BKDR hash (Kernighan and Ritchie) with factor 13131, 31 bits.
pub fn bkdr(url: impl AsRef<[u8]>) -> u32 {
    url.as_ref().iter().fold(0u32, |hash, &byte| hash.wrapping_mul(13131).wrapping_add(signed(byte))) & MASK
}

/// Arash Partow's hash, started at 0, 31 bits.
pub fn ap(url: impl AsRef<[u8]>) -> u32 {
    let step = |hash: u32, (i, &byte): (usize, &u8)| match i & 1 {
        0 => hash ^ ((hash << 7) ^ signed(byte) ^ (hash >> 3)),
        _ => hash ^ !((hash << 11) ^ signed(byte) ^ (hash >> 5)),
    };
    url.as_ref().iter().enumerate().fold(0u32, step) & MASK
}

/// Daniel J. Bernstein's hash, started at 5381, 31 bits.
pub fn djb(url: impl AsRef<[u8]>) -> u32 {
    bernstein(url.as_ref(), 5381)
}

/// [`djb`], started at 0.
pub fn djb0(url: impl AsRef<[u8]>) -> u32 {
    bernstein(url.as_ref(), 0)
}

fn bernstein(url: &[u8], start: u32) -> u32 {
    let step = |hash: u32, &byte: &u8| hash.wrapping_add((hash << 5).wrapping_add(signed(byte)));
    url.iter().fold(start, step) & MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_functions_give_their_golden_values() {
        let ascii = b"http://www.ouc.edu.cn/";
        assert_eq!([bkdr(ascii), ap(ascii), djb0(ascii)], [1_424_505_542, 910_843_511, 1_950_587_180]);
        assert_eq!(djb(ascii), 1_129_678_833);
        let signed = b"http://x/\xe4\xb8\xad";
        assert_eq!([bkdr(signed), ap(signed), djb0(signed)], [15_174_736, 1_924_752_086, 992_861_640]);
        assert_eq!(djb(signed), 332_440_141);
    }

    #[test]
    fn every_family_has_its_own_number() {
        for (code, family) in HashFamily::ALL.into_iter().enumerate() {
            assert_eq!(family as usize, code);
        }
    }
}
