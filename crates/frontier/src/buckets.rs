//! A queue of pages by class of credit, for a whole graph in memory: the highest class first.
//!
//! An entry is never moved and never removed in the middle: a page whose class has changed gets another one, and whoever takes an entry
//! asks whether it is still true. When most of them are not any more, they are swept.
//!
//! Invariant: a page that is to be found has an entry in the bucket of its class.

use crate::credit::CLASSES;

/// Pages by class.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    buckets: Vec<Vec<u32>>,
    /// A bit for each bucket that holds anything.
    filled: [u64; CLASSES / 64],
    len: usize,
}

impl Buckets {
    pub(crate) fn new() -> Buckets {
        Buckets { buckets: vec![Vec::new(); CLASSES], filled: [0; CLASSES / 64], len: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, class: u16, page: u32) {
        let class = usize::from(class);
        self.buckets[class].push(page);
        self.filled[class / 64] |= 1 << (class % 64);
        self.len += 1;
    }

    fn top(&self) -> Option<usize> {
        let word = self.filled.iter().rposition(|word| *word != 0)?;
        Some(word * 64 + self.filled[word].ilog2() as usize)
    }

    /// The last entry of the highest class that is still true, and its class. It stays there.
    pub(crate) fn peek(&mut self, is_true: impl Fn(u16, u32) -> bool) -> Option<(u16, u32)> {
        while let Some(class) = self.top() {
            while let Some(&page) = self.buckets[class].last() {
                if is_true(class as u16, page) {
                    return Some((class as u16, page));
                }
                self.buckets[class].pop();
                self.len -= 1;
            }
            self.filled[class / 64] &= !(1 << (class % 64));
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Drops what is not true any more.
    pub(crate) fn sweep(&mut self, is_true: impl Fn(u16, u32) -> bool) {
        self.len = 0;
        for (class, bucket) in self.buckets.iter_mut().enumerate() {
            bucket.retain(|page| is_true(class as u16, *page));
            bucket.shrink_to(bucket.len() + bucket.len() / 2);
            self.len += bucket.len();
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.buckets.iter().map(|bucket| 24 + 4 * bucket.capacity() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_class_that_is_still_true_comes_first() {
        let mut buckets = Buckets::new();
        [(3, 30), (500, 50), (500, 51), (7, 70)].iter().for_each(|(class, page)| buckets.push(*class, *page));
        assert_eq!(buckets.peek(|_, _| true), Some((500, 51)));
        assert_eq!(buckets.peek(|_, page| page != 51), Some((500, 50)));
        assert_eq!(buckets.peek(|class, _| class < 500), Some((7, 70)));
        assert_eq!(buckets.len(), 2);
        buckets.sweep(|_, page| page == 30);
        assert_eq!((buckets.len(), buckets.peek(|_, _| true)), (1, Some((3, 30))));
        assert_eq!(buckets.peek(|_, _| false), None);
        assert_eq!(buckets.len(), 0);
    }
}
