//! Sorts many byte strings with long common prefixes, such as ordered keys: by seven bytes at a
//! time, which are cached beside each item, so that few comparisons leave the cache. (Multikey
//! quicksort: J. Bentley, R. Sedgewick, SODA 1997; with cached characters: P. Kilpeläinen, T.
//! Salakoski, J. Teuhola; J. Kärkkäinen, T. Rantala, SPIRE 2008.)

/// Bytes compared in one step.
const STEP: usize = 7;
/// Fewer items are compared whole.
const FEW: usize = 12;
/// Items sorted between two calls of `make_way`: a tenth of a millisecond.
const SOME_ITEMS: usize = 2048;
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
pub fn sort<'b, T: Copy>(items: &mut [T], bytes_of: &dyn Fn(T) -> &'b [u8], make_way: &dyn Fn()) {
    let mut cached: Vec<(u64, T)> = items.iter().map(|item| (0, *item)).collect();
    Sort { bytes_of, make_way }.from(&mut cached, 0);
    items.iter_mut().zip(cached).for_each(|(item, (_, sorted))| *item = sorted);
}

struct Sort<'s, 'b, T> {
    bytes_of: &'s dyn Fn(T) -> &'b [u8],
    make_way: &'s dyn Fn(),
}

impl<T: Copy> Sort<'_, '_, T> {
    /// Sorts items whose first `depth` bytes are equal.
    fn from(&self, items: &mut [(u64, T)], depth: usize) {
        if items.len() <= FEW || depth > DEPTH_MAX {
            let rest = |item: &(u64, T)| &(self.bytes_of)(item.1)[depth..];
            return items.sort_unstable_by(|a, b| rest(a).cmp(rest(b)));
        }
        for (nth, item) in items.iter_mut().enumerate() {
            if nth % SOME_ITEMS == 0 {
                (self.make_way)();
            }
            item.0 = step(&(self.bytes_of)(item.1)[depth..]);
        }
        self.by_step(items);
        for same in items.chunk_by_mut(|a, b| a.0 == b.0) {
            // The other items end within these bytes, so they are equal.
            if same.len() > 1 && same[0].0 as u8 > STEP as u8 {
                self.from(same, depth + STEP);
            }
        }
    }

    /// Sorts by the cached bytes.
    fn by_step(&self, items: &mut [(u64, T)]) {
        (self.make_way)();
        if items.len() <= SOME_ITEMS {
            return items.sort_unstable_by_key(|item| item.0);
        }
        let (less, _, greater) = items.select_nth_unstable_by_key(items.len() / 2, |item| item.0);
        self.by_step(less);
        self.by_step(greater);
    }
}

/// The next `STEP` bytes, high byte first, then in the low byte their number, at most `STEP` + 1.
fn step(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    let taken = bytes.len().min(STEP);
    all[..taken].copy_from_slice(&bytes[..taken]);
    all[STEP] = bytes.len().min(STEP + 1) as u8;
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
    fn many_keys_and_long_ones_are_sorted_and_way_is_made() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut keys: Vec<Vec<u8>> =
            (0..20_000).map(|_| format!("com,site{}", random.u32(..5000)).into_bytes()).collect();
        let long = |last: u8| [vec![b'x'; 60_000], vec![last]].concat();
        keys.extend((0..40).map(|_| long(random.u8(..))));
        let mut expected = keys.clone();
        expected.sort();
        assert_eq!(sorted(&keys), expected);
        let ways = std::cell::Cell::new(0);
        let mut all: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        sort(&mut all, &|key| key, &|| ways.set(ways.get() + 1));
        assert!(ways.get() > 20);
    }
}
