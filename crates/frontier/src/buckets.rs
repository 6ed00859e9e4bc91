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

    /// Drops what is not true any more, and what is there twice by `is_first`.
    pub(crate) fn sweep(&mut self, mut is_true: impl FnMut(u16, u32) -> bool) {
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
