//! Arithmetic of the blocked Bloom filters: four bits in one word, so a test costs one memory
//! access. (F. Putze, P. Sanders, J. Singler, Cache-, Hash- and Space-Efficient Bloom Filters, JEA
//! 14, 2009; here a block is a word.)

/// 2^64 over the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maps a hash to (word index, 4-bit mask) in a filter of `words` words. The hash may lack some of
/// its 64 bits.
#[inline]
pub(crate) fn place(hash: u64, words: usize) -> (usize, u64) {
    let mixed = hash.wrapping_mul(MIX);
    let word = ((mixed >> 32) * words as u64) >> 32;
    let mask = 1 << (mixed & 63) | 1 << (mixed >> 6 & 63) | 1 << (mixed >> 12 & 63) | 1 << (mixed >> 18 & 63);
    (word as usize, mask)
}
