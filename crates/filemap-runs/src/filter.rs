//! The Bloom filter of a block: tells by 768 bytes of the mapped file that a key is not in 4096.
//!
//! The index finds the one block that can hold a key, so a filter has the keys of one block alone,
//! and is written with it. All probes of a key fall into one line of 64 bytes (Putze, Sanders,
//! Singler 2007): one cache miss. Where a block has the usual 615 keys there are nine bits for
//! each, and it passes 16 in a thousand of other keys.

use std::sync::atomic::Ordering;

use filemap_io::{Word, layout};

layout! {
    /// `NAME.NUMBER.run`: the filter of each block.
    pub(crate) struct BlockFilter {
        0 CRC: u32 = "CRC-32 of the set's id, the run's number, the block's number (8 bytes each) and the bytes that follow";
        4 KEYS: [u8; 764] = "the rest of 12 lines of 512 bits, the first 32 of each unused: of a key with the 64-bit hash h six bits of line floor(12 h / 2^64), 32 + floor(480 p / 1024) for p the lowest six parts of 10 bits of h times 0x9e3779b97f4a7c15 mod 2^64, shifted right by 4";
    }
}

/// Bytes of a filter.
pub(crate) const FILTER_BYTES: usize = BlockFilter::BYTES;
/// The words of a filter.
pub(crate) const FILTER_WORDS: usize = FILTER_BYTES / 8;
const LINE_BITS: usize = 512;
/// The checksum is in the first line; its place is left out of each.
const UNUSED_BITS: usize = 8 * BlockFilter::KEYS.at;
/// Probes of a key: near the best from 6 bits a key on, where a block is full, to 14.
const PROBES: u32 = 6;

/// The bits of a key, by its hash.
#[inline]
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    const LINES: u128 = (8 * FILTER_BYTES / LINE_BITS) as u128;
    let first = ((u128::from(hash) * LINES) >> 64) as usize * LINE_BITS + UNUSED_BITS;
    let parts = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 4;
    (0..PROBES).map(move |probe| {
        let part = (parts >> (10 * probe)) as usize & 1023;
        first + ((part * (LINE_BITS - UNUSED_BITS)) >> 10)
    })
}

/// Adds a key by its hash, whose bits must all be well mixed.
#[inline]
pub(crate) fn add(filter: &mut [u8], hash: u64) {
    bits(hash).for_each(|bit| filter[bit / 8] |= 1 << (bit % 8));
}

/// Whether a key with this hash may have been added, by the filter's words.
#[inline]
pub(crate) fn may_have(filter: &[Word], hash: u64) -> bool {
    bits(hash).all(|bit| filter[bit / 64].load(Ordering::Relaxed) >> (bit % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_all_that_was_added_and_little_else() {
        let mut rng = fastrand::Rng::with_seed(1);
        for (keys, most) in [(0, 0.0), (1, 0.0), (300, 0.002), (615, 0.018), (1024, 0.1)] {
            let hashes: Vec<u64> = (0..keys).map(|_| rng.u64(..)).collect();
            let mut filter = [0; FILTER_BYTES];
            hashes.iter().for_each(|hash| add(&mut filter, *hash));
            let filter: Vec<Word> =
                filter.as_chunks().0.iter().map(|word| Word::new(u64::from_le_bytes(*word))).collect();
            assert!(hashes.iter().all(|hash| may_have(&filter, *hash)));
            let others = (0..100_000).filter(|_| may_have(&filter, rng.u64(..))).count();
            assert!(others as f64 / 1e5 <= most, "{keys} keys: {others}");
        }
    }
}
