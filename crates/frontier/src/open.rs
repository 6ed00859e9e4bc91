//! Open hosts of a kind, by the place of their best page: the best of them in a heap. The others
//! are left out, and found again in a pass over all hosts, which reads no row, when those are used
//! up.
//!
//! Entries never move; an outdated one is dropped when it comes up, or swept.
//!
//! Invariant: each open host has an entry with its place, or that would not be better than the
//! best one that was left out. So the best entry is that of the best open host.

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

/// Open hosts of a kind.
#[derive(Debug, Default)]
pub(crate) struct Open {
    heap: BinaryHeap<u64>,
    /// The best entry that was left out.
    left_out: Option<u64>,
}

impl Open {
    /// Enters a host.
    pub(crate) fn push(&mut self, place: u16, host: u32) {
        let entry = entry(place, host);
        if self.left_out.is_none_or(|best| entry > best) {
            push_heap(&mut self.heap, entry);
        }
    }

    /// The best host, and its place.
    pub(crate) fn pop(&mut self) -> Option<(u16, u32)> {
        self.heap.pop().map(parts)
    }

    /// Whether only hosts are left that were left out, if any.
    pub(crate) fn is_used_up(&self) -> bool {
        self.heap.is_empty() && self.left_out.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Drops outdated entries, and leaves out all but so many of the best.
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
