//! The Bloom filter of a block, whose answer takes two adjacent words.
//!
//! The index finds the one block that can hold a key, so a filter covers the keys of one block and
//! is written with it. A key sets two bits in each of two adjacent words (Putze, Sanders, Singler
//! 2007: all probes in one cache line), so a run is written nearly as fast as without filters. A
//! block of the usual 615 keys has thirteen bits a key, and its filter lets seven in a thousand
//! absent keys pass.

use std::sync::atomic::Ordering;

use filemap_io::layout::{Field, Zeros};
use filemap_io::{Word, layout};

layout! {
    /// `NAME.NUMBER.run`: the filter of each block.
    pub(crate) struct BlockFilter {
        0 CRC: u32 = "CRC-32 of the set's id, the run's number, the block's number (8 bytes each) and the bytes that follow";
        4 RESERVED: Zeros<12> = "reserved, zero";
        16 KEYS: [u8; 1008] = "63 pairs of words of 64 bits: of a key with the 64-bit hash h, the bits of the lowest two parts of 6 bits of h in the first word of pair floor(63 (h >> 32) / 2^32), and of the next two in the second";
    }
}

/// Bytes of a filter.
pub(crate) const FILTER_BYTES: usize = BlockFilter::BYTES;
/// Words of a filter.
const FILTER_WORDS: usize = FILTER_BYTES / 8;
const FIRST_WORD: usize = BlockFilter::KEYS.at / 8;
const PAIRS: u64 = (FILTER_WORDS - FIRST_WORD) as u64 / 2;

/// Maps a key's hash to the first of its two words and the bits in both.
#[inline]
fn bits(hash: u64) -> (usize, [u64; 2]) {
    let pair = ((hash >> 32) * PAIRS) >> 32;
    let two = |parts: u64| 1 << (parts & 63) | 1 << (parts >> 6 & 63);
    (FIRST_WORD + 2 * pair as usize, [two(hash), two(hash >> 12)])
}

/// Writes the filter of the keys with these well-mixed hashes, without its checksum.
pub(crate) fn encode(hashes: impl Iterator<Item = u64>, filter: &mut [u8]) {
    let mut words = [0; FILTER_WORDS];
    for (first, bits) in hashes.map(bits) {
        words[first] |= bits[0];
        words[first + 1] |= bits[1];
    }
    filter.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = u64::to_le_bytes(word));
}

/// Returns whether a block may hold a key with this hash, by the words of its filter.
#[inline]
pub(crate) fn may_have(filter: &[Word], hash: u64) -> bool {
    let (first, bits) = bits(hash);
    let has = |word: usize| filter[first + word].load(Ordering::Relaxed) & bits[word] == bits[word];
    has(0) & has(1)
}

/// Checksum of a filter, its first bytes.
pub(crate) const CRC: Field<u32> = BlockFilter::CRC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_the_bits_of_the_files() {
        let mut filter = [0; FILTER_BYTES];
        encode([0, 0x0123_4567_89ab_cdef, u64::MAX].into_iter(), &mut filter);
        let bits = (0..8 * FILTER_BYTES).filter(|bit| filter[bit / 8] >> (bit % 8) & 1 == 1);
        assert_eq!(bits.collect::<Vec<_>>(), [128, 175, 183, 192, 234, 252, 8127, 8191]);
    }

    #[test]
    fn a_filter_has_all_that_was_added_and_little_else() {
        let mut rng = fastrand::Rng::with_seed(1);
        for (keys, most) in [(0, 0.0), (1, 0.0), (300, 0.001), (615, 0.008), (1024, 0.04)] {
            let hashes: Vec<u64> = (0..keys).map(|_| rng.u64(..)).collect();
            let mut filter = [0; FILTER_BYTES];
            encode(hashes.iter().copied(), &mut filter);
            assert!(filter[..16].iter().all(|byte| *byte == 0));
            let filter: Vec<Word> =
                filter.as_chunks().0.iter().map(|word| Word::new(u64::from_le_bytes(*word))).collect();
            assert!(hashes.iter().all(|hash| may_have(&filter, *hash)));
            let others = (0..100_000).filter(|_| may_have(&filter, rng.u64(..))).count();
            assert!(others as f64 / 1e5 <= most, "{keys} keys: {others}");
        }
    }
}
