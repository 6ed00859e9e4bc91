//! Sorts many byte strings with long common prefixes, such as ordered keys: by seven bytes at a
//! time, which are cached beside each item, so that few comparisons leave the cache. (Multikey
//! quicksort: J. Bentley, R. Sedgewick, SODA 1997; with cached characters: P. Kilpeläinen, T.
//! Salakoski, J. Teuhola; J. Kärkkäinen, T. Rantala, SPIRE 2008.) Many items are parted by the
//! bits in which their cached bytes differ (American flag sort: P. McIlroy, K. Bostic, M. McIlroy
//! 1993). Of few items, which are in the cache together, the common prefix is skipped first.

use std::cell::Cell;

use super::front;

/// Bytes compared in one step.
const STEP: usize = 7;
/// Up to this many items skip their common prefix.
const FEW: usize = 256;
/// Items handled between two calls of `make_way`, a tenth of a millisecond; more are parted by a
/// digit.
const SOME_ITEMS: usize = 2048;
/// Bits of a digit.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Items with a longer common prefix are compared whole.
const DEPTH_MAX: usize = 4096;

/// Sorts items by their bytes; the order of equal ones is unspecified. Calls `make_way` about
/// every tenth of a millisecond. Takes 8 bytes of memory an item beside a copy of the items.
///
/// ```
/// use filemap_runs::ordered::sort;
/// let mut keys = [&b"com,b"[..], b"com,a", b"com"];
/// sort(&mut keys, &|key| key, &|| {});
/// assert_eq!(keys, [&b"com"[..], b"com,a", b"com,b"]);
/// ```
pub fn sort<'b, T: Copy>(items: &mut [T], bytes_of: &impl Fn(T) -> &'b [u8], make_way: &dyn Fn()) {
    let mut cached: Vec<(u64, T)> = items.iter().map(|item| (0, *item)).collect();
    make_way();
    Sort { bytes_of, make_way, since: Cell::new(0) }.from(&mut cached, 0);
    items.iter_mut().zip(cached).for_each(|(item, (_, sorted))| *item = sorted);
}

struct Sort<'s, F> {
    bytes_of: &'s F,
    make_way: &'s dyn Fn(),
    /// Items handled since the last call of `make_way`.
    since: Cell<usize>,
}

impl<F> Sort<'_, F> {
    /// Sorts items whose first `depth` bytes are equal.
    fn from<'b, T: Copy>(&self, items: &mut [(u64, T)], mut depth: usize)
    where
        F: Fn(T) -> &'b [u8],
    {
        let rest = |item: &(u64, T), depth: usize| &(self.bytes_of)(item.1)[depth..];
        let Some(first) = items.first() else { return };
        if items.len() <= FEW {
            let first = rest(first, depth);
            let shared = |most: usize, item: &(u64, T)| front::common(&first[..most], rest(item, depth));
            let shared = items[1..].iter().fold(first.len(), shared);
            depth += shared;
        }
        if depth > DEPTH_MAX {
            return items.sort_unstable_by(|a, b| rest(a, depth).cmp(rest(b, depth)));
        }
        let first = step(rest(&items[0], depth));
        let mut differ = false;
        for some in items.chunks_mut(SOME_ITEMS) {
            self.handle(some.len());
            for item in some {
                item.0 = step(rest(item, depth));
                differ |= item.0 != first;
            }
        }
        if differ {
            self.by_step(items);
        }
        for same in items.chunk_by_mut(|a, b| a.0 == b.0) {
            // The other items end within these bytes, so they are equal.
            if same.len() > 1 && same[0].0 as u8 > STEP as u8 {
                self.from(same, depth + STEP);
            }
        }
    }

    /// Sorts by the cached bytes.
    fn by_step<T>(&self, items: &mut [(u64, T)]) {
        if items.len() <= SOME_ITEMS {
            self.handle(items.len());
            return items.sort_unstable_by_key(|item| item.0);
        }
        let all_and_any = |(all, any): (u64, u64), item: &(u64, T)| (all & item.0, any | item.0);
        let (all, any) = items.iter().fold((u64::MAX, 0), all_and_any);
        // The highest bit in which they differ; those above it are equal.
        let Some(top) = (all ^ any).checked_ilog2() else { return };
        let shift = (top + 1).saturating_sub(DIGIT_BITS);
        let mut start = 0;
        for end in self.part(items, &|key: u64| (key >> shift) as usize % DIGITS) {
            self.by_step(&mut items[start..end]);
            start = end;
        }
    }

    /// Moves the items with a digit before those with a higher one. Returns where each digit's
    /// end.
    fn part<T>(&self, items: &mut [(u64, T)], digit: &impl Fn(u64) -> usize) -> Vec<usize> {
        let mut ends = vec![0; DIGITS];
        for some in items.chunks(SOME_ITEMS) {
            self.handle(some.len());
            some.iter().for_each(|item| ends[digit(item.0)] += 1);
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        // The place of the next item of each digit.
        let mut next: Vec<usize> = [0].into_iter().chain(ends.iter().copied()).take(DIGITS).collect();
        for current in 0..DIGITS {
            while next[current] < ends[current] {
                let at = next[current];
                let target = digit(items[at].0);
                if target != current {
                    items.swap(at, next[target]);
                }
                next[target] += 1;
                self.handle(1);
            }
        }
        ends
    }

    /// Notes that so many items are handled, and makes way from time to time.
    #[inline]
    fn handle(&self, items: usize) {
        let since = self.since.get() + items;
        self.since.set(since % SOME_ITEMS);
        if since >= SOME_ITEMS {
            (self.make_way)();
        }
    }
}

/// The next `STEP` bytes, high byte first, then in the low byte their number, at most `STEP` + 1.
#[inline]
fn step(bytes: &[u8]) -> u64 {
    const MORE: u64 = STEP as u64 + 1;
    if let Some(whole) = bytes.first_chunk() {
        return u64::from_be_bytes(*whole) & !0xff | MORE;
    }
    let mut all = [0; 8];
    let taken = bytes.len().min(STEP);
    all[..taken].copy_from_slice(&bytes[..taken]);
    all[STEP] = bytes.len() as u8;
    u64::from_be_bytes(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: &[Vec<u8>]) -> Vec<&[u8]> {
        let mut sorted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        sort(&mut sorted, &|key| key, &|| {});
        sorted
    }

    #[test]
    fn it_sorts_as_the_standard_does() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..500 {
            let prefix: Vec<u8> = (0..random.usize(..30)).map(|_| random.u8(..3)).collect();
            let (most, letters) = (random.usize(1..40), random.u8(1..4));
            let mut key = || {
                let rest = (0..random.usize(..most)).map(|_| random.u8(..letters)).collect::<Vec<_>>();
                [&prefix[..], &rest].concat()
            };
            let keys: Vec<Vec<u8>> = (0..300).map(|_| key()).collect();
            let mut expected = keys.clone();
            expected.sort();
            assert_eq!(sorted(&keys), expected);
        }
    }

    #[test]
    fn a_step_is_seven_bytes_and_their_number() {
        let bytes = b"abcdefghi";
        let number = |len: usize| step(&bytes[..len]).to_be_bytes();
        assert_eq!(number(0), [0; 8]);
        assert_eq!(number(2), *b"ab\0\0\0\0\0\x02");
        assert_eq!([number(7), number(8), number(9)], [*b"abcdefg\x07", *b"abcdefg\x08", *b"abcdefg\x08"]);
    }

    #[test]
    fn many_items_are_parted_by_any_bits_and_way_is_made_by_the_number_of_items() {
        let mut random = fastrand::Rng::with_seed(3);
        // Bytes that differ in the first step, in the last bits of one, in a later one, nowhere.
        for (shift, bits) in [(0, 64), (40, 3), (0, 1), (20, 14), (0, 0)] {
            let mask = 1u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1);
            let key = |random: &mut fastrand::Rng| {
                [&[7u8; 9][..], &((random.u64(..) & mask) << shift).to_be_bytes()].concat()
            };
            let keys: Vec<Vec<u8>> = (0..30_000).map(|_| key(&mut random)).collect();
            let mut expected: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            expected.sort();
            let ways = Cell::new(0);
            let mut all: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            sort(&mut all, &|key| key, &|| ways.set(ways.get() + 1));
            assert!(all == expected, "{shift}, {bits}");
            // A few passes over all items, however many parts they fall into.
            assert!((14..400).contains(&ways.get()), "{shift}, {bits}: {}", ways.get());
        }
    }

    #[test]
    fn many_keys_and_long_ones_are_sorted_and_way_is_made() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut keys: Vec<Vec<u8>> =
            (0..20_000).map(|_| format!("com,site{}", random.u32(..5000)).into_bytes()).collect();
        let long = |last: u8| [vec![b'x'; 60_000], vec![last]].concat();
        keys.extend((0..40).map(|_| long(random.u8(..))));
        let mut expected = keys.clone();
        expected.sort();
        assert_eq!(sorted(&keys), expected);
        let ways = Cell::new(0);
        let mut all: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        sort(&mut all, &|key| key, &|| ways.set(ways.get() + 1));
        assert!(ways.get() > 20);
    }
}
