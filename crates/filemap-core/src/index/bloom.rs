//! Where a Bloom filter of words has a hash: four bits of one word, so that a test is one wait for memory (F. Putze, P. Sanders, J. Singler,
//! Cache-, Hash- and Space-Efficient Bloom Filters, JEA 14, 2009, with a word for a block).

/// 2^64 over the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The word among so many, and the bits in it, of a hash of which not all bits need be there.
#[inline]
pub(crate) fn place(hash: u64, words: usize) -> (usize, u64) {
    let mixed = hash.wrapping_mul(MIX);
    let word = ((mixed >> 32) * words as u64) >> 32;
    let mask = 1 << (mixed & 63) | 1 << (mixed >> 6 & 63) | 1 << (mixed >> 12 & 63) | 1 << (mixed >> 18 & 63);
    (word as usize, mask)
}
