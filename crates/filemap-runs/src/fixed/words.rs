//! Search of one value in a mapped block. Only the words that decide are loaded: the header, the
//! high parts, and the low parts that are compared, some 250 bytes of 4096. The rest of the block
//! would be fetched from memory for nothing.

use std::sync::atomic::Ordering;

use filemap_io::Word;

use super::block::{HEADER_BYTES, Numbers, among, end_of_ones, select};
use crate::format::Found;

const HEADER_WORDS: usize = HEADER_BYTES / 8;

/// Searches a block for a value, given without the tombstone mark: `Found::Entry(true)` if it is a
/// tombstone. `None` if no encoder writes such a block. Words past the end count as 0.
pub(super) fn find(block: &[Word], value: u128) -> Option<Found<bool>> {
    let word = |at: usize| block.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
    let mut header = [0; HEADER_BYTES];
    header.as_chunks_mut::<8>().0.iter_mut().enumerate().for_each(|(at, bytes)| *bytes = word(at).to_le_bytes());
    let Numbers { count, low, words, base } = Numbers::of(&header)?;
    let Some(relative) = value.checked_sub(base) else { return Some(Found::Before) };
    let high = usize::try_from(relative >> low).unwrap_or(usize::MAX);
    let high_parts = |nth: usize| word(HEADER_WORDS + nth);
    // The ones of `high` come after `high` zeros. The same pass counts all ones.
    let (mut zeros, mut start) = (0, (high == 0).then_some(0));
    for nth in 0..words {
        let bits = high_parts(nth);
        let here = bits.count_zeros() as usize;
        if start.is_none() && high <= zeros + here {
            start = Some(64 * nth + select(!bits, (high - zeros) as u64) + 1);
        }
        zeros += here;
    }
    if 64 * words - zeros != count {
        return None;
    }
    let Some(start) = start else { return Some(Found::Absent) };
    let low_part = |number: usize| {
        let at = number * low as usize;
        let (first, shift) = (HEADER_WORDS + words + at / 64, (at % 64) as u32);
        let mut held = (u128::from(word(first)) | u128::from(word(first + 1)) << 64) >> shift;
        if shift + low > 128 {
            held |= u128::from(word(first + 2)) << (128 - shift);
        }
        held & ((1 << low) - 1)
    };
    let wanted = relative & ((1 << low) - 1);
    let ones = end_of_ones(start, words, high_parts) - start;
    Some(among(start - high, ones, wanted, low_part).map_or(Found::Absent, Found::Entry))
}

#[cfg(test)]
mod tests {
    use super::super::block::{Block, encode};
    use super::*;
    use crate::format::{BLOCK_BYTES, PADDING_BYTES};

    fn blank() -> Vec<u8> {
        vec![0; BLOCK_BYTES + PADDING_BYTES]
    }

    fn mapped(bytes: &[u8]) -> Vec<Word> {
        let words = bytes[..BLOCK_BYTES].as_chunks::<8>().0;
        words.iter().map(|word| Word::new(u64::from_le_bytes(*word))).collect()
    }

    fn in_bytes(bytes: &[u8], value: u128) -> Option<Found<bool>> {
        let block = Block::of(bytes)?;
        if value < block.base() {
            return Some(Found::Before);
        }
        Some(block.lookup().find(value).map_or(Found::Absent, Found::Entry))
    }

    #[test]
    fn what_is_found_in_words_is_what_is_found_in_bytes() {
        let mut rng = fastrand::Rng::with_seed(1);
        for (count, bits) in
            [(1, 81), (2, 81), (40, 81), (1024, 81), (1024, 60), (1024, 13), (700, 65), (5, 2), (9, 101)]
        {
            let mut values: Vec<u128> = (0..count).map(|_| rng.u128(..) >> (128 - bits)).collect();
            values.sort_unstable();
            values.dedup_by_key(|value| *value >> 1);
            let mut bytes = blank();
            let taken = encode(&values, 0, &mut bytes[..BLOCK_BYTES]);
            let words = mapped(&bytes);
            for value in &values[..taken] {
                let is_tombstone = value & 1 == 1;
                assert_eq!(find(&words, value & !1), Some(Found::Entry(is_tombstone)), "{count} of {bits} bits");
            }
            let near = values.iter().flat_map(|value| [(value & !1) + 2, (value & !1).saturating_sub(2)]);
            let far = std::iter::repeat_with(|| rng.u128(..) >> (128 - bits) & !1).take(500);
            for value in near.chain(far).chain([0, !1]) {
                assert_eq!(find(&words, value), in_bytes(&bytes, value), "{count} of {bits} bits: {value}");
            }
        }
    }

    #[test]
    fn words_of_noise_never_panic_and_are_refused_as_bytes_are() {
        let mut rng = fastrand::Rng::with_seed(4);
        let mut whole = 0;
        for _ in 0..3_000 {
            let mut bytes = blank();
            rng.fill(&mut bytes[..BLOCK_BYTES]);
            let words = rng.u16(..30);
            let ones: u32 = bytes[32..32 + 8 * usize::from(words)].iter().map(|byte| byte.count_ones()).sum();
            bytes[4..6].copy_from_slice(&(ones as u16 + rng.u16(..2)).to_le_bytes());
            bytes[6] = rng.u8(..104);
            bytes[8..10].copy_from_slice(&words.to_le_bytes());
            let words = mapped(&bytes);
            let is_block = Block::of(&bytes).is_some();
            whole += usize::from(is_block);
            assert_eq!(find(&words, u128::MAX).is_some(), is_block);
            for _ in 0..20 {
                let value = rng.u128(..) & !1;
                assert!(find(&words, value).is_none_or(|found| is_block || found == Found::Before));
            }
        }
        assert!(whole > 100, "{whole}");
        assert_eq!(find(&[], 0), None);
    }
}
