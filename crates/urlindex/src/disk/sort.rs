//! In-place radix sort of records by their high bits.
//!
//! American flag sort (McIlroy, Bostic, McIlroy 1993) with digits of eleven bits from the highest
//! on, until a part fits the processor's cache, where the standard library's sort is as fast. Tens
//! of millions of records take two passes over memory instead of twenty-five.

/// Bits of a digit.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Parts up to this many records, 256 KiB, are sorted by comparison.
const SMALL: usize = 16 << 10;

/// Sorts records by all bits.
pub(super) fn sort(records: &mut [u128]) {
    part(records, 128 - DIGIT_BITS);
}

fn part(records: &mut [u128], shift: u32) {
    if records.len() <= SMALL || shift < DIGIT_BITS {
        records.sort_unstable();
        return;
    }
    let digit = |record: u128| (record >> shift) as usize & (DIGITS - 1);
    let mut ends = vec![0; DIGITS];
    for record in records.iter() {
        ends[digit(*record)] += 1;
    }
    let mut next = vec![0; DIGITS];
    let mut sum = 0;
    for (end, next) in ends.iter_mut().zip(&mut next) {
        *next = sum;
        sum += *end;
        *end = sum;
    }
    let starts = next.clone();
    for current in 0..DIGITS {
        while next[current] < ends[current] {
            // Follow a chain of records to their places until one belongs here.
            let mut record = records[next[current]];
            loop {
                let target = digit(record);
                if target == current {
                    break;
                }
                std::mem::swap(&mut records[next[target]], &mut record);
                next[target] += 1;
            }
            records[next[current]] = record;
            next[current] += 1;
        }
    }
    for (start, end) in starts.into_iter().zip(ends) {
        part(&mut records[start..end], shift - DIGIT_BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sorted_however_they_are_spread() {
        let mut rng = fastrand::Rng::with_seed(1);
        for mask in [u128::MAX, u128::MAX >> 24, 0xffff_ffff << 20, 0, 7 << 100 | 0xffff_ffff] {
            let mut records: Vec<u128> = (0..200_000).map(|_| rng.u128(..) & mask).collect();
            let mut expected = records.clone();
            expected.sort_unstable();
            sort(&mut records);
            assert!(records == expected, "{mask:x}");
        }
    }
}
