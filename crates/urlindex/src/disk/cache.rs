//! The cache of popular URLs: fingerprints that look-ups found in the set, 8 bytes each.
//!
//! CLOCK (Corbato 1968) within sets of up to 15 ways: a hit marks an entry; the first unmarked
//! entry is evicted, and if all are marked, all marks are cleared. The set's number stands for
//! bits of the fingerprint (Cleary's quotienting 1984), so an entry of 8 bytes is the whole
//! fingerprint, and the cache never errs.
//!
//! Entries are fingerprints found in a run, and those asked for again while in the table. New
//! URLs, most of which never come again, enter only free places and are evicted first.

use super::key::FingerprintBits;

/// With fewer sets an entry could not hold a fingerprint of 80 bits: it has 62 bits and two marks.
const SETS_LOG2_MIN: u32 = 18;
/// Target of ways; there are up to twice as many less one.
const WAYS: u64 = 8;
const TAKEN: u64 = 1 << 63;
const ASKED: u64 = 1 << 62;

/// The cache of popular URLs.
#[derive(Debug)]
pub(super) struct Cache {
    /// Shift that moves a fingerprint to the lowest bits.
    shift: u32,
    sets_log2: u32,
    ways: usize,
    entries: Vec<u64>,
    /// Start of the next search for an entry to evict.
    hand: usize,
}

impl Cache {
    /// A cache of at most this many bytes; none under 2 MiB.
    pub(super) fn new(bits: FingerprintBits, bytes: u64) -> Cache {
        let entries = bytes / 8;
        let sets_log2 = (entries / WAYS).checked_ilog2().unwrap_or(0).clamp(SETS_LOG2_MIN, 32);
        let ways = (entries >> sets_log2) as usize;
        Cache { shift: 128 - bits.bits(), sets_log2, ways, entries: vec![0; ways << sets_log2], hand: 0 }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        (self.entries.len() * 8) as u64
    }

    /// A fingerprint's set, and its entry there.
    #[inline]
    fn place(&mut self, fingerprint: u128) -> (&mut [u64], u64) {
        let whole = fingerprint >> self.shift;
        let set = (whole & ((1 << self.sets_log2) - 1)) as usize;
        (&mut self.entries[set * self.ways..(set + 1) * self.ways], (whole >> self.sets_log2) as u64 | TAKEN)
    }

    /// Returns whether a fingerprint is cached, and marks it as asked for.
    #[inline]
    pub(super) fn ask(&mut self, fingerprint: u128) -> bool {
        let (set, wanted) = self.place(fingerprint);
        match set.iter_mut().find(|entry| **entry & !ASKED == wanted) {
            None => false,
            Some(entry) => {
                *entry |= ASKED;
                true
            }
        }
    }

    /// Adds a fingerprint that is not cached.
    pub(super) fn put(&mut self, fingerprint: u128) {
        if self.ways == 0 {
            return;
        }
        self.hand = (self.hand + 1) % self.ways;
        let hand = self.hand;
        let (set, entry) = self.place(fingerprint);
        let can_go = |entry: &u64| *entry == 0 || *entry & ASKED == 0;
        let free = (0..set.len()).map(|i| (hand + i) % set.len()).find(|&way| can_go(&set[way]));
        let way = free.unwrap_or_else(|| {
            set.iter_mut().for_each(|entry| *entry &= !ASKED);
            hand
        });
        set[way] = entry;
    }

    /// Adds a fingerprint that is not cached, without eviction.
    pub(super) fn put_if_free(&mut self, fingerprint: u128) {
        let (set, entry) = self.place(fingerprint);
        if let Some(free) = set.iter_mut().find(|entry| **entry == 0) {
            *free = entry;
        }
    }

    /// Removes a fingerprint.
    pub(super) fn remove(&mut self, fingerprint: u128) {
        let (set, wanted) = self.place(fingerprint);
        if let Some(entry) = set.iter_mut().find(|entry| **entry & !ASKED == wanted) {
            *entry = 0;
        }
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        self.entries.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_nothing_else_is_ever_there() {
        let bits = FingerprintBits::Bits80;
        let mut cache = Cache::new(bits, 4 << 20);
        assert_eq!(cache.ways, 2);
        let mut rng = fastrand::Rng::with_seed(1);
        let popular: Vec<u128> = (0..1_000).map(|_| rng.u128(..) & bits.mask()).collect();
        popular.iter().for_each(|fingerprint| cache.put(*fingerprint));
        let mut asked = 0;
        for _ in 0..30 {
            asked = popular.iter().filter(|fingerprint| cache.ask(**fingerprint)).count();
            (0..100_000).for_each(|_| {
                let stranger = rng.u128(..) & bits.mask();
                assert!(!cache.ask(stranger));
                cache.put(stranger);
            });
        }
        assert!(asked > 800, "{asked} of a thousand stayed");
        cache.put_if_free(1);
        assert!(!cache.ask(1), "it is full");
        cache.remove(popular[0]);
        assert!(!cache.ask(popular[0]));
        cache.put_if_free(popular[0]);
        assert!(cache.ask(popular[0]));
        cache.remove(popular[0]);
        assert!(!cache.ask(popular[0]));
        cache.clear();
        assert!(!popular.iter().any(|fingerprint| cache.ask(*fingerprint)));
    }

    #[test]
    fn fingerprints_that_differ_in_one_bit_are_told_apart() {
        for bits in [FingerprintBits::Bits64, FingerprintBits::Bits80] {
            let mut cache = Cache::new(bits, 16 << 20);
            let fingerprint = (u128::MAX / 3) & bits.mask();
            cache.put(fingerprint);
            assert!((0..bits.bits()).all(|bit| !cache.ask(fingerprint ^ 1 << (127 - bit))));
            assert!(cache.ask(fingerprint));
        }
    }

    #[test]
    fn without_memory_there_is_no_cache() {
        let mut cache = Cache::new(FingerprintBits::Bits80, 1 << 20);
        cache.put(1 << 60);
        assert!(!cache.ask(1 << 60) && cache.memory_bytes() == 0);
    }
}
