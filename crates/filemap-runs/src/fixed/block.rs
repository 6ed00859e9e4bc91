//! A block: some hundred fixed-width entries in order, in 4096 bytes under one checksum.
//!
//! Elias-Fano code (1971): of n values over a range u the high bits are in unary and the low
//! log2(u / n) bits side by side, 2 + log2(u / n) bits a value for any distribution. Golomb-Rice
//! gaps would be about as small (1.5 + log2) but can only be read from the front. Here a look-up
//! counts zeros in about 20 words and compares one or two low parts, so a batch that needs 20
//! entries of a block does not pay for the other 600.

use filemap_io::layout;
use filemap_io::layout::{Zeros, get};

use crate::format::{BLOCK_BYTES, PADDING_BYTES};

layout! {
    /// `NAME.NUMBER.run`: each block.
    pub struct BlockHeader {
        0 CRC: u32 = "CRC-32 of the set's id, the run's number, the block's number (8 bytes each) and the bytes that follow";
        4 COUNT: u16 = "n, the number of values: 1 to 1024";
        6 LOW_BITS: u8 = "l, the bits of a low part: 1 to 100";
        7 RESERVED_1: Zeros<1> = "reserved, zero";
        8 WORDS: u16 = "h, the words of the high parts";
        10 RESERVED_2: Zeros<6> = "reserved, zero";
        16 BASE: u128 = "base: the first value without its lowest bit";
        32 PARTS: [u8; 4064] = "8 h bytes of high parts: for each value v a 1 at bit ((v - base) >> l) + its number; then n l bits of low parts, the first in the lowest bits";
    }
}

/// Maximum number of values in a block.
pub const VALUES_MAX: usize = 1024;
pub(super) const HEADER_BYTES: usize = BlockHeader::PARTS.at;
/// Maximum number of words of high parts.
const WORDS_MAX: usize = (BLOCK_BYTES - HEADER_BYTES) / 8;
const LOW_BITS_MAX: u32 = 100;

/// Shape of a block of the first `count` entries: bits of a low part, words of high parts, bytes.
fn shape(entries: &[u128], count: usize, shift: u32) -> (u32, usize, usize) {
    let span = (entries[count - 1] >> shift) - base_of(entries, shift);
    // At least 1, so that a tombstone differs from its fingerprint in the low part only.
    let low = (span / count as u128).checked_ilog2().unwrap_or(0).max(1);
    // At most 4 * count, since 2^low is more than half of span / count; 3 * count when `low` is at
    // its lower bound.
    let words = ((span >> low) as usize + count).div_ceil(64);
    (low, words, HEADER_BYTES + 8 * words + (count * low as usize).div_ceil(8))
}

fn base_of(entries: &[u128], shift: u32) -> u128 {
    entries[0] >> shift & !1
}

/// Encodes as many entries, shifted to values, as fit a block, and returns their number. Leaves
/// the checksum out.
///
/// # Panics
/// If there are no entries.
pub fn encode(entries: &[u128], shift: u32, block: &mut [u8]) -> usize {
    // `fits` values fit, `not` values do not.
    let (mut fits, mut not) = (1, entries.len() + 1);
    while fits + 1 < not {
        // Most blocks of a run hold a similar number; bisection finds it where the density
        // changes.
        let middle = fits.midpoint(not);
        if shape(entries, middle, shift).2 <= BLOCK_BYTES { fits = middle } else { not = middle }
    }
    let (low, words, _) = shape(entries, fits, shift);
    let base = base_of(entries, shift);
    block.fill(0);
    BlockHeader::COUNT.put(block, fits as u16);
    BlockHeader::LOW_BITS.put(block, low as u8);
    BlockHeader::WORDS.put(block, words as u16);
    BlockHeader::BASE.put(block, base);
    let (highs, lows) = block[HEADER_BYTES..].split_at_mut(8 * words);
    for (i, entry) in entries[..fits].iter().enumerate() {
        let at = (((entry >> shift) - base) >> low) as usize + i;
        highs[at / 8] |= 1 << (at % 8);
    }
    let mut writer = BitWriter { bytes: lows, at: 0, held: 0, bits: 0 };
    let mask = (1u128 << low) - 1;
    for entry in &entries[..fits] {
        let part = ((entry >> shift) - base) & mask;
        writer.push(part as u64, low.min(64));
        if low > 64 {
            writer.push((part >> 64) as u64, low - 64);
        }
    }
    writer.end();
    fits
}

/// Writes bit fields, a word at a time.
struct BitWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
    held: u128,
    bits: u32,
}

impl BitWriter<'_> {
    #[inline]
    fn push(&mut self, value: u64, bits: u32) {
        self.held |= u128::from(value) << self.bits;
        self.bits += bits;
        if self.bits >= 64 {
            self.bytes[self.at..self.at + 8].copy_from_slice(&(self.held as u64).to_le_bytes());
            self.at += 8;
            self.held >>= 64;
            self.bits -= 64;
        }
    }

    fn end(self) {
        let rest = (self.bits as usize).div_ceil(8);
        self.bytes[self.at..self.at + rest].copy_from_slice(&self.held.to_le_bytes()[..rest]);
    }
}

/// The numbers of a block's header.
pub(super) struct Numbers {
    pub(super) count: usize,
    /// Bits of a low part.
    pub(super) low: u32,
    /// Words of high parts.
    pub(super) words: usize,
    pub(super) base: u128,
}

impl Numbers {
    /// Reads them from a header: `None` if no encoder writes such a header.
    pub(super) fn of(header: &[u8]) -> Option<Numbers> {
        let count = usize::from(BlockHeader::COUNT.get(header));
        let low = u32::from(BlockHeader::LOW_BITS.get(header));
        let words = usize::from(BlockHeader::WORDS.get(header));
        let base = BlockHeader::BASE.get(header);
        let is_possible = (1..=VALUES_MAX).contains(&count) && (1..=LOW_BITS_MAX).contains(&low);
        let end = HEADER_BYTES + 8 * words + (count * low as usize).div_ceil(8);
        (is_possible && end <= BLOCK_BYTES).then_some(Numbers { count, low, words, base })
    }
}

/// Position after the ones that begin at `start` in so many words of high parts.
#[inline]
pub(super) fn end_of_ones(start: usize, words: usize, word: impl Fn(usize) -> u64) -> usize {
    let mut at = start;
    while at < 64 * words {
        let ones = (word(at / 64) >> (at % 64)).trailing_ones() as usize;
        at += ones;
        if ones == 0 || !at.is_multiple_of(64) {
            break;
        }
    }
    at
}

/// Searches a low part among `rest` of them in order, from the value of number `first` on:
/// `Some(true)` if that value is a tombstone.
#[inline]
pub(super) fn among(mut first: usize, mut rest: usize, low: u128, part: impl Fn(usize) -> u128) -> Option<bool> {
    while rest > 0 {
        let half = rest / 2;
        let other = part(first + half);
        if other | 1 == low | 1 {
            return Some(other & 1 == 1);
        }
        if other < low {
            (first, rest) = (first + half + 1, rest - half - 1);
        } else {
            rest = half;
        }
    }
    None
}

/// A block with a valid checksum.
///
/// ```
/// # use filemap_runs::{Home, Run, RunWriter, fixed::Fixed};
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// # let mut writer = RunWriter::create(&home, 1).unwrap();
/// # (1..=1000u128).for_each(|i| writer.push(i << 64).unwrap());
/// # let written = writer.end().unwrap().expect("not empty");
/// # written.sync().unwrap();
/// let run = Run::open(&home, written.info()).unwrap();
/// let mut bytes = [0; filemap_runs::BLOCK_BYTES + filemap_runs::PADDING_BYTES];
/// run.read_block(0, &mut bytes[..filemap_runs::BLOCK_BYTES]).unwrap();
/// let block = run.block(&bytes, 0).unwrap();
/// let mut values = Vec::new();
/// block.decode(&mut values);
/// assert_eq!(values.len(), block.count());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The block and its padding.
    bytes: &'a [u8],
    count: usize,
    low: u32,
    words: usize,
    base: u128,
}

impl<'a> Block<'a> {
    /// Checks a block with its padding: `None` if no encoder writes such a block.
    pub fn of(bytes: &'a [u8]) -> Option<Block<'a>> {
        if bytes.len() < BLOCK_BYTES + PADDING_BYTES {
            return None;
        }
        let Numbers { count, low, words, base } = Numbers::of(bytes)?;
        let block = Block { bytes, count, low, words, base };
        let ones: u32 = (0..words).map(|word| block.word(word).count_ones()).sum();
        (ones as usize == count).then_some(block)
    }

    #[inline]
    fn word(&self, number: usize) -> u64 {
        get::<u64>(self.bytes, HEADER_BYTES + 8 * number)
    }

    /// Low part of a value.
    #[inline]
    fn low(&self, number: usize) -> u128 {
        let at = number * self.low as usize;
        let held = get::<u128>(self.bytes, HEADER_BYTES + 8 * self.words + at / 8);
        held >> (at % 8) & ((1 << self.low) - 1)
    }

    /// Number of values.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first value without its lowest bit.
    pub fn base(&self) -> u128 {
        self.base
    }

    /// Appends all values.
    pub fn decode(&self, values: &mut Vec<u128>) {
        values.reserve(self.count);
        let mut number = 0;
        for word in 0..self.words {
            let mut ones = self.word(word);
            while ones != 0 {
                let at = word * 64 + ones.trailing_zeros() as usize;
                let high = (at - number) as u128;
                values.push(self.base.wrapping_add(high << self.low | self.low(number)));
                ones &= ones - 1;
                number += 1;
            }
        }
    }

    /// Prepares look-ups in ascending order.
    pub fn lookup(self) -> Lookup<'a> {
        let mut zeros = [u16::MAX; WORDS_MAX + 1];
        let mut sum = 0;
        for (word, zeros) in zeros[..=self.words].iter_mut().enumerate() {
            *zeros = sum;
            sum += if word < self.words { self.word(word).count_zeros() as u16 } else { 0 };
        }
        Lookup { block: self, word: 0, zeros }
    }
}

/// State of ascending look-ups in a block.
///
/// ```
/// # use filemap_runs::{Home, Run, RunWriter, fixed::Fixed};
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// # let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// # let mut writer = RunWriter::create(&home, 1).unwrap();
/// # (1..=1000u128).for_each(|i| writer.push(i << 64).unwrap());
/// # let written = writer.end().unwrap().expect("not empty");
/// # written.sync().unwrap();
/// let run = Run::open(&home, written.info()).unwrap();
/// let mut bytes = [0; filemap_runs::BLOCK_BYTES + filemap_runs::PADDING_BYTES];
/// run.read_block(0, &mut bytes[..filemap_runs::BLOCK_BYTES]).unwrap();
/// let mut lookup = run.block(&bytes, 0).unwrap().lookup();
/// let shift = run.format().shift();
/// assert_eq!(lookup.find((2 << 64) >> shift), Some(false));
/// ```
#[derive(Debug)]
pub struct Lookup<'a> {
    block: Block<'a>,
    word: usize,
    /// Zeros of the high parts before each word, and their total. Counted once: without the
    /// processor's instruction counting is slow.
    zeros: [u16; WORDS_MAX + 1],
}

impl Lookup<'_> {
    /// Finds a value, given without the tombstone mark: `Some(true)` if it is a tombstone,
    /// `Some(false)` if it is live. Values must ascend from call to call.
    #[inline]
    pub fn find(&mut self, value: u128) -> Option<bool> {
        let block = self.block;
        let relative = value.checked_sub(block.base)?;
        let high = relative >> block.low;
        if high > u128::from(self.zeros[block.words]) {
            return None;
        }
        let high = high as usize;
        // The ones of `high` come after `high` zeros.
        while usize::from(self.zeros[self.word + 1]) < high {
            self.word += 1;
        }
        let start = match high - usize::from(self.zeros[self.word]) {
            0 => 64 * self.word,
            left => 64 * self.word + select(!block.word(self.word), left as u64) + 1,
        };
        let low = relative & ((1 << block.low) - 1);
        // URLs of one host lie so close together, and so far from the next host's, that they often
        // share a high part.
        let ones = end_of_ones(start, block.words, |word| block.word(word)) - start;
        among(start - high, ones, low, |number| block.low(number))
    }
}

/// A one in every byte.
const BYTES: u64 = 0x0101_0101_0101_0101;

/// Positions of the ones of each byte.
const ONES: [[u8; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut rank) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                all[byte][rank] = bit;
                rank += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    all
};

/// Position of the `rank`th one of a word, counted from 1; the word has at least that many.
/// Broadword selection (Vigna 2008): sums over bytes, computed in parallel, give its byte.
#[inline]
pub(super) fn select(word: u64, rank: u64) -> usize {
    let pairs = word - (word >> 1 & (0x55 * BYTES));
    let nibbles = (pairs & (0x33 * BYTES)) + (pairs >> 2 & (0x33 * BYTES));
    let sums = ((nibbles + (nibbles >> 4)) & (0x0f * BYTES)).wrapping_mul(BYTES);
    // The first byte with `rank` ones up to its end.
    let reached = ((sums | (0x80 * BYTES)) - rank * BYTES) & (0x80 * BYTES);
    let start = reached.trailing_zeros() as usize & 56;
    let before = (sums << 8) >> start & 0xff;
    let byte = (word >> start & 0xff) as usize;
    start + usize::from(ONES[byte][(rank - before - 1) as usize & 7])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(rng: &mut fastrand::Rng, count: usize, bits: u32) -> Vec<u128> {
        let mut values: Vec<u128> = (0..count).map(|_| rng.u128(..) >> (128 - bits)).collect();
        values.sort_unstable();
        // As in a run: each fingerprint occurs once, tombstone or not.
        values.dedup_by_key(|value| *value >> 1);
        values
    }

    fn blank() -> Vec<u8> {
        vec![0; BLOCK_BYTES + crate::PADDING_BYTES]
    }

    #[test]
    fn what_was_encoded_is_decoded_and_found_and_nothing_else() {
        let mut rng = fastrand::Rng::with_seed(1);
        for (count, bits) in [(1, 81), (2, 81), (40, 81), (1024, 81), (1024, 60), (1024, 13), (700, 65), (5, 2)] {
            let values = sorted(&mut rng, count, bits);
            let mut bytes = blank();
            let taken = encode(&values, 0, &mut bytes[..BLOCK_BYTES]);
            let block = Block::of(&bytes).expect("whole");
            let mut decoded = Vec::new();
            block.decode(&mut decoded);
            assert_eq!(decoded, values[..taken], "{count} of {bits} bits");
            let mut cursor = block.lookup();
            for value in &values[..taken] {
                assert_eq!(cursor.find(value & !1), Some(value & 1 == 1), "{count} of {bits} bits");
            }
            let mut strangers: Vec<u128> = (0..500).map(|_| rng.u128(..) >> (128 - bits) & !1).collect();
            strangers.extend(values.iter().flat_map(|value| [(value & !1) + 2, (value & !1).saturating_sub(2)]));
            strangers.sort_unstable();
            let mut cursor = block.lookup();
            for value in strangers {
                let expected = values[..taken].iter().find(|other| **other >> 1 == value >> 1);
                assert_eq!(cursor.find(value), expected.map(|other| other & 1 == 1), "{count} of {bits} bits");
            }
        }
    }

    #[test]
    fn the_place_of_a_one_is_found_by_its_rank() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..2_000 {
            let word = match rng.u8(..3) {
                0 => rng.u64(..),
                1 => rng.u64(..) & rng.u64(..) & rng.u64(..),
                _ => u64::MAX << rng.u32(..64),
            };
            let places: Vec<usize> = (0..64).filter(|bit| word >> bit & 1 == 1).collect();
            for (i, place) in places.iter().enumerate() {
                assert_eq!(select(word, i as u64 + 1), *place, "{word:x}");
            }
        }
    }

    #[test]
    fn values_take_the_bits_that_theory_says() {
        let mut rng = fastrand::Rng::with_seed(2);
        // As dense as a billion fingerprints of 80 bits.
        let mut at = 0u128;
        let values: Vec<u128> = (0..VALUES_MAX)
            .map(|_| {
                at += 2 + (rng.u128(..) % (2 << 50)) / 2 * 2;
                at
            })
            .collect();
        let taken = encode(&values, 0, &mut blank()[..BLOCK_BYTES]);
        assert!((605..640).contains(&taken), "{taken}");
    }

    #[test]
    fn bytes_with_a_right_checksum_never_panic_whatever_they_say() {
        let mut rng = fastrand::Rng::with_seed(4);
        for _ in 0..3_000 {
            let mut bytes = blank();
            rng.fill(&mut bytes[..BLOCK_BYTES]);
            bytes[4..6].copy_from_slice(&rng.u16(..600).to_le_bytes());
            bytes[6] = rng.u8(..104);
            bytes[8..10].copy_from_slice(&rng.u16(..30).to_le_bytes());
            let words = usize::from(get::<u16>(&bytes, 8));
            let ones: u32 = bytes[32..32 + 8 * words].iter().map(|byte| byte.count_ones()).sum();
            if rng.bool() {
                bytes[4..6].copy_from_slice(&(ones as u16).to_le_bytes());
            }
            if let Some(block) = Block::of(&bytes) {
                let mut values = Vec::new();
                block.decode(&mut values);
                let mut cursor = block.lookup();
                values.sort_unstable();
                let found = values.iter().filter(|value| cursor.find(**value & !1).is_some()).count();
                assert!(found <= values.len());
            }
        }
    }
}
