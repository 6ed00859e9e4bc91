//! Open hosts of one kind, ordered by the place of their best page: a heap of the best ones. The
//! others are left out; when the heap is used up, a pass over all hosts, without reading rows,
//! finds them.
//!
//! Entries never move; an outdated one is dropped when it comes up or by a sweep.
//!
//! Invariant: each open host has an entry with its place in the heap, or that entry would not be
//! better than the best one left out. So the best entry is that of the best open host.

use std::collections::BinaryHeap;

use crate::grow::push_heap;

/// Place in the high half, complement of the host's number in the low one: ties go to the older
/// host.
fn entry(place: u16, host: u32) -> u64 {
    u64::from(place) << 32 | u64::from(!host)
}

fn parts(entry: u64) -> (u16, u32) {
    ((entry >> 32) as u16, !(entry as u32))
}

/// Open hosts of one kind.
#[derive(Debug, Default)]
pub(crate) struct Open {
    heap: BinaryHeap<u64>,
    /// The best entry that was left out.
    left_out: Option<u64>,
}

impl Open {
    /// Adds a host.
    pub(crate) fn push(&mut self, place: u16, host: u32) {
        let entry = entry(place, host);
        if self.left_out.is_none_or(|best| entry > best) {
            push_heap(&mut self.heap, entry);
        }
    }

    /// Takes the best host; returns its place and number.
    pub(crate) fn pop(&mut self) -> Option<(u16, u32)> {
        self.heap.pop().map(parts)
    }

    /// Returns whether the heap is empty and hosts were left out.
    pub(crate) fn is_used_up(&self) -> bool {
        self.heap.is_empty() && self.left_out.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Drops outdated entries, and all but the `most` best, which count as left out.
    pub(crate) fn sweep(&mut self, most: usize, is_current: impl Fn(u16, u32) -> bool) {
        let mut kept = std::mem::take(&mut self.heap).into_vec();
        kept.sort_unstable();
        kept.dedup();
        kept.retain(|entry| {
            let (place, host) = parts(*entry);
            is_current(place, host)
        });
        let rest = kept.len().saturating_sub(most);
        self.left_out = self.left_out.max(rest.checked_sub(1).and_then(|last| kept.get(last).copied()));
        self.heap = kept.split_off(rest).into();
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        8 * self.heap.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_and_no_worse_one_comes_in_again() {
        let mut open = Open::default();
        (0..100).for_each(|host| open.push(host as u16, host));
        open.sweep(10, |place, _| place % 2 == 0);
        assert_eq!((open.len(), open.is_used_up()), (10, false));
        open.push(70, 7);
        open.push(90, 7);
        let mut popped = Vec::new();
        while let Some((place, host)) = open.pop() {
            popped.push((place, host));
        }
        let mut expected: Vec<(u16, u32)> = (80..100).step_by(2).map(|host| (host as u16, host)).collect();
        expected.push((90, 7));
        expected.sort_unstable_by_key(|(place, host)| std::cmp::Reverse(entry(*place, *host)));
        assert_eq!(popped, expected);
        assert!(open.is_used_up());
    }
}
