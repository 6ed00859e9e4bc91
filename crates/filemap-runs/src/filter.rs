//! The filter of a run: which keys need not be looked for in it.
//!
//! A Bloom filter whose probes of a key fall into one line of 512 bits (Putze, Sanders, Singler
//! 2007): one cache miss. It is filled by one thread, is never stored (a run is what it can be
//! made from again), and can be *folded*: neighbouring lines become one by a bitwise or, which
//! halves it exactly, since a key's line is its hash scaled to the number of lines. So all filters
//! together stay within their memory however the set grows, without a run being read again.

const LINE_WORDS: usize = 8;
const LINE_BITS: u64 = 512;
/// Probes of a key: the best number for 7 bits a key, good from 4 to 16.
const PROBES: u32 = 5;
/// Bits a key that a new filter has, if there is room: it errs twice in a thousand.
const BITS_PER_KEY: u64 = 16;
/// With fewer bits a key it is not worth its memory.
const BITS_PER_KEY_MIN: u64 = 2;

/// See the module.
#[derive(Debug)]
pub struct Filter {
    lines: Vec<[u64; LINE_WORDS]>,
    keys: u64,
}

impl Filter {
    /// An empty filter for so many keys.
    pub fn new(keys: u64, plan: Plan) -> Filter {
        Filter { lines: vec![[0; LINE_WORDS]; plan.lines as usize], keys }
    }

    /// What it is like.
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

    /// Adds a key by its hash, all of whose bits must be good.
    #[inline]
    pub fn insert(&mut self, hash: u64) {
        let (line, masks) = self.place(hash);
        if let Some(line) = self.lines.get_mut(line) {
            line.iter_mut().zip(masks).for_each(|(word, mask)| *word |= mask);
        }
    }

    /// Whether a key of this hash may have been added. A filter for no keys says yes to all.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        let (line, masks) = self.place(hash);
        let Some(line) = self.lines.get(line) else { return true };
        line.iter().zip(masks).fold(0, |missing, (word, mask)| missing | (mask & !word)) == 0
    }

    /// Makes it what it would be if it had half of the lines.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    lines: u64,
    keys: u64,
}

impl Plan {
    /// The largest filter that is worth having for so many keys.
    pub fn of(keys: u64) -> Plan {
        // A number of lines that can be halved until it is not worth having any more.
        let lines = (keys * BITS_PER_KEY).div_ceil(LINE_BITS).next_multiple_of(BITS_PER_KEY / BITS_PER_KEY_MIN);
        Plan { lines, keys }
    }

    /// Its bytes in memory.
    pub fn memory_bytes(self) -> u64 {
        self.lines * LINE_BITS / 8
    }

    /// Bits a key, rounded down; the fewer, the less there is to lose by another halving.
    pub fn bits_per_key(self) -> u64 {
        self.lines * LINE_BITS / self.keys.max(1)
    }

    /// After a fold; `None` if it is not worth having then.
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
