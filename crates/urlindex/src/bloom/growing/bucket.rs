//! A bucket of a growing filter: sorted remainders of hashes, close to the information-theoretic
//! minimum.
//!
//! Elias-Fano code (1971): the high bits of the remainders, with 2^q values, are in unary (for
//! each value a 1 for each of its remainders, then a 0), the low bits side by side. A look-up
//! finds a 0 by counting and compares the one or two low parts that follow.
//!
//! Bits of a bucket, from the lowest of the first word: 16 for the number n of remainders; n + 2^q
//! for the high parts; n times the low part. Buckets of one depth have remainders of one width,
//! which the caller knows.

/// Bits of the count.
const COUNT_BITS: usize = 16;
/// High bits, if the remainder has that many.
const HIGH_BITS: u32 = 11;

/// The widths of a bucket's parts.
#[derive(Clone, Copy, Debug)]
struct Widths {
    high_values: usize,
    low: u32,
}

impl Widths {
    fn of(width: u32) -> Widths {
        let high = width.min(HIGH_BITS);
        Widths { high_values: 1 << high, low: width - high }
    }

    /// Start of the low parts.
    fn lows(self, count: usize) -> usize {
        COUNT_BITS + count + self.high_values
    }

    fn words(self, count: usize) -> usize {
        (self.lows(count) + count * self.low as usize).div_ceil(64)
    }
}

/// Number of remainders.
pub(super) fn count(bucket: &[u64]) -> usize {
    bucket.first().map_or(0, |word| (word & 0xffff) as usize)
}

/// Words of the bucket that begins with this word.
pub(super) fn words(first: u64, width: u32) -> usize {
    Widths::of(width).words((first & 0xffff) as usize)
}

/// Position of a remainder, or of its insertion: its bit among the high parts, its number, and
/// whether it is present.
fn find(bucket: &[u64], width: u32, remainder: u64) -> (usize, usize, bool) {
    let widths = Widths::of(width);
    let (high, low) = ((remainder >> widths.low) as usize, remainder & mask(widths.low));
    let lows = widths.lows(count(bucket));
    let mut at = after_zeros(bucket, high);
    let mut number = at - COUNT_BITS - high;
    while bucket[at / 64] >> (at % 64) & 1 == 1 {
        let other = bits(bucket, lows + number * widths.low as usize, widths.low);
        if other >= low {
            return (at, number, other == low);
        }
        (at, number) = (at + 1, number + 1);
    }
    (at, number, false)
}

pub(super) fn contains(bucket: &[u64], width: u32, remainder: u64) -> bool {
    count(bucket) > 0 && find(bucket, width, remainder).2
}

/// Returns the bucket with one more remainder; `None` if it is present already.
pub(super) fn with(bucket: &[u64], width: u32, remainder: u64) -> Option<Box<[u64]>> {
    if bucket.is_empty() {
        return Some(encode(&[remainder], width));
    }
    let (at, number, is_there) = find(bucket, width, remainder);
    if is_there {
        return None;
    }
    let (widths, old) = (Widths::of(width), count(bucket));
    let low_at = widths.lows(old) + number * widths.low as usize;
    let end = widths.lows(old) + old * widths.low as usize;
    let mut new = vec![0; widths.words(old + 1)].into_boxed_slice();
    copy(bucket, 0, &mut new, 0, at);
    put(&mut new, at, 1, 1);
    copy(bucket, at, &mut new, at + 1, low_at - at);
    put(&mut new, low_at + 1, widths.low, remainder & mask(widths.low));
    copy(bucket, low_at, &mut new, low_at + 1 + widths.low as usize, end - low_at);
    new[0] = new[0] & !0xffff | (old as u64 + 1);
    Some(new)
}

/// Encodes sorted remainders.
pub(super) fn encode(remainders: &[u64], width: u32) -> Box<[u64]> {
    let widths = Widths::of(width);
    let mut bucket = vec![0; widths.words(remainders.len())].into_boxed_slice();
    bucket[0] = remainders.len() as u64;
    let lows = widths.lows(remainders.len());
    for (number, remainder) in remainders.iter().enumerate() {
        let high = (remainder >> widths.low) as usize;
        put(&mut bucket, COUNT_BITS + high + number, 1, 1);
        put(&mut bucket, lows + number * widths.low as usize, widths.low, remainder & mask(widths.low));
    }
    bucket
}

/// The sorted remainders; `None` if these words are not a bucket.
pub(super) fn decode(bucket: &[u64], width: u32) -> Option<Vec<u64>> {
    let (widths, count) = (Widths::of(width), count(bucket));
    if bucket.len() != widths.words(count) {
        return None;
    }
    let lows = widths.lows(count);
    let mut remainders = Vec::with_capacity(count);
    let mut high = 0u64;
    for at in COUNT_BITS..lows {
        if bucket[at / 64] >> (at % 64) & 1 == 0 {
            high += 1;
        } else if remainders.len() < count {
            let low = bits(bucket, lows + remainders.len() * widths.low as usize, widths.low);
            remainders.push(high << widths.low | low);
        }
    }
    let is_sorted = remainders.is_sorted_by(|a, b| a < b);
    (is_sorted && remainders.len() == count && high == widths.high_values as u64).then_some(remainders)
}

fn mask(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

/// Position of the bit after this many zeros in the high parts.
fn after_zeros(bucket: &[u64], zeros: usize) -> usize {
    if zeros == 0 {
        return COUNT_BITS;
    }
    // Skip the zeros of the count field.
    let mut left = zeros;
    let mut word = !bucket[0] & !0xffff;
    let mut number = 0;
    loop {
        let there = word.count_ones() as usize;
        if left <= there {
            return number * 64 + select(word, left) + 1;
        }
        left -= there;
        number += 1;
        word = !bucket[number];
    }
}

/// Position of the `rank`th 1 of a word, counted from 1; the word has that many.
fn select(word: u64, rank: usize) -> usize {
    let (mut at, mut left) = (0, rank as u32);
    for half in [32, 16, 8, 4, 2, 1] {
        let there = (word >> at & mask(half)).count_ones();
        if left > there {
            left -= there;
            at += half;
        }
    }
    at as usize
}

/// Reads up to 64 bits.
fn bits(words: &[u64], at: usize, width: u32) -> u64 {
    let (word, shift) = (at / 64, at as u32 % 64);
    if width == 0 {
        return 0;
    }
    let low = words[word] >> shift;
    let high = if shift + width > 64 { words[word + 1] << (64 - shift) } else { 0 };
    (low | high) & mask(width)
}

/// Sets bits that are all 0.
fn put(words: &mut [u64], at: usize, width: u32, value: u64) {
    let (word, shift) = (at / 64, at as u32 % 64);
    if width == 0 {
        return;
    }
    words[word] |= value << shift;
    if shift + width > 64 {
        words[word + 1] |= value >> (64 - shift);
    }
}

/// Copies bits to a place that is all 0.
fn copy(from: &[u64], from_at: usize, to: &mut [u64], to_at: usize, len: usize) {
    // Whole words of the target, but for its first and last.
    let head = to_at.next_multiple_of(64).min(to_at + len) - to_at;
    put(to, to_at, head as u32, bits(from, from_at, head as u32));
    let whole = (len - head) / 64;
    let (source, shift, target) = ((from_at + head) / 64, (from_at + head) % 64, (to_at + head) / 64);
    if shift == 0 {
        to[target..target + whole].copy_from_slice(&from[source..source + whole]);
    } else if whole > 0 {
        for (word, pair) in to[target..target + whole].iter_mut().zip(from[source..].windows(2)) {
            *word = pair[0] >> shift | pair[1] << (64 - shift);
        }
    }
    let done = head + whole * 64;
    let tail = (len - done) as u32;
    put(to, to_at + done, tail, bits(from, from_at + done, tail));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn remainders_inserted_in_any_order_are_there_and_no_others() {
        let mut rng = fastrand::Rng::with_seed(4);
        for width in [3, 8, 9, 17, 40, 57] {
            let (mut bucket, mut expected): (Box<[u64]>, _) = (Box::default(), BTreeSet::new());
            for _ in 0..300 {
                let remainder = rng.u64(..) & mask(width);
                match with(&bucket, width, remainder) {
                    Some(new) => bucket = new,
                    None => assert!(expected.contains(&remainder)),
                }
                expected.insert(remainder);
                assert!(contains(&bucket, width, remainder));
                let other = rng.u64(..) & mask(width);
                assert_eq!(contains(&bucket, width, other), expected.contains(&other));
            }
            let all: Vec<u64> = expected.into_iter().collect();
            assert_eq!(decode(&bucket, width).expect("whole"), all);
            assert_eq!(encode(&all, width), bucket);
            assert_eq!(words(bucket[0], width), bucket.len());
        }
    }

    #[test]
    fn words_that_are_no_bucket_are_none() {
        let mut rng = fastrand::Rng::with_seed(5);
        assert!(decode(&[], 20).is_none());
        for _ in 0..2_000 {
            let any: Vec<u64> = (0..rng.usize(1..12)).map(|_| rng.u64(..)).collect();
            let _ = decode(&any, 20);
        }
    }
}
