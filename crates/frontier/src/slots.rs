//! A hash table of numbers whose keys are kept elsewhere: five bytes a slot.
//!
//! Linear probing with a third to five sixths of the slots in use. A byte of the hash is stored
//! beside each number, so that the key of another is rarely compared. Hashes have a random seed:
//! names that collide in one process do not in the next.

use std::hash::{BuildHasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Marks a free slot: no number has this value.
const EMPTY: u32 = u32::MAX;
const SLOTS_MIN: usize = 16;

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    seed: u64,
    numbers: Vec<u32>,
    tags: Vec<u8>,
    len: usize,
}

impl Default for Slots {
    fn default() -> Slots {
        let seed = RandomState::new().hash_one(0);
        Slots { seed, numbers: vec![EMPTY; SLOTS_MIN], tags: vec![0; SLOTS_MIN], len: 0 }
    }
}

impl Slots {
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.numbers.len() as u128) >> 64) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.numbers.len() { 0 } else { at + 1 }
    }

    /// The number with this hash whose key is the one sought, according to `is_it`.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.place(hash);
        loop {
            match self.numbers[at] {
                EMPTY => return None,
                number if self.tags[at] == hash as u8 && is_it(number) => return Some(number),
                _ => at = self.next(at),
            }
        }
    }

    /// Adds a number with a new key. `hash_of` returns the hash of any number in the table.
    pub(crate) fn add(&mut self, hash: u64, number: u32, hash_of: impl Fn(&Slots, u32) -> u64) {
        self.len += 1;
        if self.len * 6 > self.numbers.len() * 5 {
            let slots = self.numbers.len() + self.numbers.len() / 4;
            let before = std::mem::replace(&mut self.numbers, vec![EMPTY; slots]);
            self.tags = vec![0; slots];
            before.into_iter().filter(|one| *one != EMPTY).for_each(|one| self.put(hash_of(self, one), one));
        }
        self.put(hash, number);
    }

    fn put(&mut self, hash: u64, number: u32) {
        let mut at = self.place(hash);
        while self.numbers[at] != EMPTY {
            at = self.next(at);
        }
        (self.numbers[at], self.tags[at]) = (number, hash as u8);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.numbers.capacity() * size_of::<u32>() + self.tags.capacity()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_and_nothing_else() {
        let (mut slots, key) = (Slots::default(), |number: u32| (number * 7).to_le_bytes());
        for number in 0..20_000 {
            let hash = slots.hash(&key(number));
            assert_eq!(slots.find(hash, |one| key(one) == key(number)), None);
            slots.add(hash, number, |slots, one| slots.hash(&key(one)));
            let other = number / 3;
            assert_eq!(slots.find(slots.hash(&key(other)), |one| key(one) == key(other)), Some(other));
        }
        assert!(slots.memory_bytes() < 20_000 * 8);
    }
}
