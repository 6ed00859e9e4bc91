//! The Bloom filter of a run.
//!
//! All probes of a key fall into one line of 512 bits (Putze, Sanders, Singler 2007): one cache
//! miss. One thread fills it; it is never stored, since the run can rebuild it. It can be
//! *folded*: a bitwise or makes one line of two neighbours, which is exact, since a key's line is
//! its hash scaled to the number of lines. So all filters together stay within their memory as a
//! set grows, without rereading a run.

const LINE_WORDS: usize = 8;
const LINE_BITS: u64 = 512;
/// Probes of a key: best for 7 bits a key, good from 4 to 16.
const PROBES: u32 = 5;
/// Bits a key of a new filter, memory permitting: two false positives in a thousand.
const BITS_PER_KEY: u64 = 16;
/// Below this a filter is not worth its memory.
const BITS_PER_KEY_MIN: u64 = 2;

/// A blocked Bloom filter in memory, that can be folded. See the module.
///
/// ```
/// use filemap_runs::{Filter, Plan};
///
/// let mut filter = Filter::new(1000, Plan::of(1000));
/// filter.insert(0x9e37_79b9_7f4a_7c15);
/// assert!(filter.may_have(0x9e37_79b9_7f4a_7c15));
/// ```
#[derive(Debug)]
pub struct Filter {
    lines: Vec<[u64; LINE_WORDS]>,
    keys: u64,
}

impl Filter {
    /// An empty filter for `keys` keys.
    pub fn new(keys: u64, plan: Plan) -> Filter {
        Filter { lines: vec![[0; LINE_WORDS]; plan.lines as usize], keys }
    }

    /// Its size.
    pub fn plan(&self) -> Plan {
        Plan { lines: self.lines.len() as u64, keys: self.keys }
    }

    #[inline]
    fn place(&self, hash: u64) -> (usize, [u64; LINE_WORDS]) {
        let line = ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize;
        let mut source = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        source ^= source >> 32;
        source = source.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut masks = [0; LINE_WORDS];
        for _ in 0..PROBES {
            masks[(source >> 61) as usize] |= 1 << (source >> 55 & 63);
            source <<= 9;
        }
        (line, masks)
    }

    /// Adds a key by its hash, whose bits must all be well mixed.
    #[inline]
    pub fn insert(&mut self, hash: u64) {
        let (line, masks) = self.place(hash);
        if let Some(line) = self.lines.get_mut(line) {
            line.iter_mut().zip(masks).for_each(|(word, mask)| *word |= mask);
        }
    }

    /// Whether a key with this hash may have been added. A filter for no keys says yes to all.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        let (line, masks) = self.place(hash);
        let Some(line) = self.lines.get(line) else { return true };
        line.iter().zip(masks).fold(0, |missing, (word, mask)| missing | (mask & !word)) == 0
    }

    /// Halves the lines: the filter is as if built at that size.
    pub fn fold(&mut self) {
        let half = self.lines.len() / 2;
        for line in 0..half {
            let (a, b) = (self.lines[2 * line], self.lines[2 * line + 1]);
            self.lines[line] = std::array::from_fn(|word| a[word] | b[word]);
        }
        self.lines.truncate(half);
        self.lines.shrink_to_fit();
    }
}

/// The size of a filter.
///
/// ```
/// use filemap_runs::Plan;
///
/// let plan = Plan::of(1000);
/// let half = plan.folded().expect("large enough");
/// assert!(half.memory_bytes() * 2 == plan.memory_bytes() && plan.bits_per_key() >= 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    lines: u64,
    keys: u64,
}

impl Plan {
    /// The largest useful filter for `keys` keys.
    pub fn of(keys: u64) -> Plan {
        // A number of lines that can be halved down to the smallest useful filter.
        let lines = (keys * BITS_PER_KEY).div_ceil(LINE_BITS).next_multiple_of(BITS_PER_KEY / BITS_PER_KEY_MIN);
        Plan { lines, keys }
    }

    /// Bytes of memory.
    pub fn memory_bytes(self) -> u64 {
        self.lines * LINE_BITS / 8
    }

    /// Bits a key, rounded down: the fewer, the less a fold costs.
    pub fn bits_per_key(self) -> u64 {
        self.lines * LINE_BITS / self.keys.max(1)
    }

    /// The size after a fold; `None` if that is not worth having.
    pub fn folded(self) -> Option<Plan> {
        let half = Plan { lines: self.lines / 2, keys: self.keys };
        (self.lines.is_multiple_of(2) && half.bits_per_key() >= BITS_PER_KEY_MIN).then_some(half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(filter: &Filter) -> f64 {
        let mut rng = fastrand::Rng::with_seed(9);
        (0..200_000).filter(|_| filter.may_have(rng.u64(..))).count() as f64 / 2e5
    }

    #[test]
    fn a_filter_has_all_that_was_added_however_often_it_is_folded() {
        let mut rng = fastrand::Rng::with_seed(1);
        let keys: Vec<u64> = (0..30_000).map(|_| rng.u64(..)).collect();
        let mut plan = Plan::of(30_000);
        let mut filter = Filter::new(30_000, plan);
        keys.iter().for_each(|key| filter.insert(*key));
        let mut rates = vec![rate(&filter)];
        while let Some(folded) = plan.folded() {
            filter.fold();
            plan = folded;
            assert_eq!(filter.plan(), plan);
            assert!(keys.iter().all(|key| filter.may_have(*key)));
            // A filter that had this size from the beginning is the same.
            let mut fresh = Filter::new(30_000, plan);
            keys.iter().for_each(|key| fresh.insert(*key));
            assert!(fresh.lines == filter.lines);
            rates.push(rate(&filter));
        }
        let most = [0.004, 0.04, 0.25, 0.8];
        assert!(rates.len() == 4 && rates.iter().zip(most).all(|(rate, most)| *rate < most), "{rates:?}");
    }
}
