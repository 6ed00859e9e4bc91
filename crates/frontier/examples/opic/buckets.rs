//! A queue of pages by place, for a whole graph in memory: the highest first.
//!
//! An entry is never moved, and never removed in the middle: a page whose place has changed gets
//! another one, and whoever takes an entry checks that it is current. When most entries are
//! outdated, they are swept.
//!
//! Invariant: a page that must be found has an entry in the bucket of its place.

use crate::credit::CLASSES;
use crate::place::Entry;
use crate::shares::LEVELS;

/// Number of places in a queue.
const PLACES: usize = (LEVELS as usize + 1) * CLASSES;

/// Pages by place.
#[derive(Clone, Debug, Default)]
pub struct Buckets {
    buckets: Vec<Vec<u32>>,
    /// A bit for each bucket that holds anything.
    filled: Vec<u64>,
    len: usize,
}

impl Buckets {
    pub fn new() -> Buckets {
        Buckets { buckets: vec![Vec::new(); PLACES], filled: vec![0; PLACES / 64], len: 0 }
    }

    #[inline]
    pub fn push(&mut self, place: u16, page: u32) {
        let place = usize::from(place);
        self.buckets[place].push(page);
        self.filled[place / 64] |= 1 << (place % 64);
        self.len += 1;
    }

    fn top(&self) -> Option<usize> {
        let word = self.filled.iter().rposition(|word| *word != 0)?;
        Some(word * 64 + self.filled[word].ilog2() as usize)
    }

    /// The last current entry of the highest place, and its place; the entry stays. An entry that
    /// has sunk is moved down to the place that `worth` returns with it.
    pub fn peek(&mut self, worth: impl Fn(u16, u32) -> (Entry, u16)) -> Option<(u16, u32)> {
        while let Some(place) = self.top() {
            while let Some(&page) = self.buckets[place].last() {
                let (entry, lower) = worth(place as u16, page);
                if entry == Entry::Current {
                    return Some((place as u16, page));
                }
                self.buckets[place].pop();
                self.len -= 1;
                if entry == Entry::Sunk {
                    self.push(lower, page);
                }
            }
            self.filled[place / 64] &= !(1 << (place % 64));
        }
        None
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Drops outdated entries.
    pub fn sweep(&mut self, is_true: impl Fn(u16, u32) -> bool) {
        self.len = 0;
        for (place, bucket) in self.buckets.iter_mut().enumerate() {
            bucket.retain(|page| is_true(place as u16, *page));
            bucket.shrink_to(bucket.len() + bucket.len() / 2);
            self.len += bucket.len();
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        let buckets = self.buckets.iter().filter(|bucket| bucket.capacity() > 0);
        buckets.map(|bucket| 24 + 4 * bucket.capacity() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_place_that_is_still_true_comes_first() {
        let mut buckets = Buckets::new();
        [(3, 30), (500, 50), (500, 51), (7, 70)].iter().for_each(|(place, page)| buckets.push(*place, *page));
        let keep = |is_true| if is_true { Entry::Current } else { Entry::Outdated };
        assert_eq!(buckets.peek(|_, _| (Entry::Current, 0)), Some((500, 51)));
        assert_eq!(buckets.peek(|_, page| (keep(page != 51), 0)), Some((500, 50)));
        assert_eq!(buckets.peek(|place, _| (keep(place < 500), 0)), Some((7, 70)));
        assert_eq!(buckets.len(), 2);
        let sinks = |place, _| (if place == 7 { Entry::Sunk } else { Entry::Current }, 2);
        assert_eq!((buckets.peek(sinks), buckets.len()), (Some((3, 30)), 2));
        buckets.sweep(|_, page| page == 70);
        assert_eq!((buckets.len(), buckets.peek(|_, _| (Entry::Current, 0))), (1, Some((2, 70))));
        assert_eq!(buckets.peek(|_, _| (Entry::Outdated, 0)), None);
        assert_eq!(buckets.len(), 0);
    }
}
