//! The queued pages of a host, of one kind: the best of them in a heap, the others left out.
//!
//! Entries never move: a page that rises gets another entry, and one that has sunk is moved down
//! when its entry comes up. An outdated entry is dropped then. Pages left out are found again by
//! their rows ([`crate::table`]), in a pass over all pages.
//!
//! Invariant: each queued page has an entry at its place or higher, or its place is not better
//! than the best one left out. So the heap's best page is the best of all, and only a page's
//! highest entry counts. But families change their levels ([`crate::shares`]) without new entries
//! for their pages: a page that has risen by that alone is taken a little late.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;

use crate::error::Result;
use crate::grow::push_heap;
use crate::place::{Entry, place};
use crate::row::Row;
use crate::shares::Shares;
use crate::table::Table;

/// Entries, beyond five for every four pages, before outdated ones are swept.
const SLACK: usize = 64;

/// An entry: place in the high half, complement of the page in the low one, so that ties go to the
/// older page.
pub(crate) fn entry(page: u32, row: &Row, shares: &Shares) -> u64 {
    u64::from(place_of(row, shares)) << 32 | u64::from(!page)
}

/// The page of an entry.
pub(crate) fn page_of(entry: u64) -> u32 {
    !(entry as u32)
}

/// The place of an entry.
pub(crate) fn entry_place(entry: u64) -> u16 {
    (entry >> 32) as u16
}

fn place_of(row: &Row, shares: &Shares) -> u16 {
    place(row.credit, row.trust.standing(), || shares.level(row.host, row.shape))
}

/// The best page of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Top {
    /// A page of this place.
    Place(u16),
    /// No page is in memory, but some are left out.
    LeftOut,
    /// The window has no page.
    Empty,
}

/// The owner of a window: a host's number, and the kind of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) host: u32,
    pub(crate) kind: usize,
}

/// Queued pages of a host, of one kind.
#[derive(Debug, Default)]
pub(crate) struct Window {
    heap: BinaryHeap<u64>,
    /// Number of queued pages, in the heap or not.
    pub(crate) ready: u32,
    /// The best entry that was left out.
    left_out: Option<NonZeroU64>,
}

impl Window {
    /// Queues a page; returns whether it got an entry.
    pub(crate) fn put(&mut self, page: u32, row: &Row, shares: &Shares) -> bool {
        if self.ready == 0 {
            // All entries are outdated.
            *self = Window::default();
        }
        self.ready += 1;
        self.enter(entry(page, row, shares))
    }

    fn enter(&mut self, entry: u64) -> bool {
        let is_better = self.left_out.is_none_or(|best| entry > best.get());
        if is_better {
            push_heap(&mut self.heap, entry);
        }
        is_better
    }

    /// Adds another entry for a queued page that has risen.
    pub(crate) fn put_again(&mut self, owner: Owner, page: u32, row: &Row, table: &mut Table) -> Result<bool> {
        let is_in = self.enter(entry(page, row, &table.shares));
        let ready = self.ready as usize;
        if self.heap.len() > ready + ready / 4 + SLACK {
            let mut entries = std::mem::take(&mut self.heap).into_vec();
            entries.sort_unstable_by_key(|entry| (page_of(*entry), Reverse(*entry)));
            entries.dedup_by_key(|entry| page_of(*entry));
            if entries.len() > ready + ready / 4 + SLACK {
                entries = still_queued(owner, entries, table)?;
            }
            self.heap = entries.into();
        }
        Ok(is_in)
    }

    /// The best page.
    pub(crate) fn top(&mut self, owner: Owner, table: &mut Table) -> Result<Top> {
        while let Some(top) = self.heap.peek().copied() {
            match worth(owner, top, table)? {
                (Entry::Current, _) => return Ok(Top::Place((top >> 32) as u16)),
                (Entry::Outdated, _) => drop(self.heap.pop()),
                (Entry::Sunk, below) => {
                    self.heap.pop();
                    self.enter(below);
                }
            }
        }
        if self.ready == 0 {
            self.left_out = None;
        }
        Ok(if self.left_out.is_some() { Top::LeftOut } else { Top::Empty })
    }

    /// The best page by its entry, without reading its row: an outdated entry may rank too high.
    pub(crate) fn top_entry(&self) -> Top {
        match (self.heap.peek(), self.left_out) {
            (Some(top), _) => Top::Place((top >> 32) as u16),
            (None, Some(_)) if self.ready > 0 => Top::LeftOut,
            (None, _) => Top::Empty,
        }
    }

    /// Takes the best page, right after [`Window::top`].
    pub(crate) fn take(&mut self) -> Option<u32> {
        let page = page_of(self.heap.pop()?);
        self.withdraw();
        Some(page)
    }

    /// Subtracts a page from the count. Its entry is outdated.
    pub(crate) fn withdraw(&mut self) {
        // Saturating: the count of a damaged snapshot may be wrong.
        self.ready = self.ready.saturating_sub(1);
    }

    /// Leaves out all but the `most` best entries.
    pub(crate) fn trim(&mut self, most: usize) {
        if self.heap.len() <= most {
            return;
        }
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        let at = entries.len() - most;
        entries.select_nth_unstable(at - 1);
        self.left_out = self.left_out.max(entries.get(at - 1).copied().and_then(NonZeroU64::new));
        self.heap = entries.split_off(at).into();
    }

    pub(crate) fn entries(&self) -> usize {
        self.heap.len()
    }

    /// The window as a snapshot stores it: pages, best left-out entry or 0, and all entries.
    pub(crate) fn parts(&self) -> (u32, u64, &[u64]) {
        (self.ready, self.left_out.map_or(0, NonZeroU64::get), self.heap.as_slice())
    }

    pub(crate) fn from_parts(ready: u32, left_out: u64, entries: Vec<u64>) -> Window {
        Window { heap: entries.into(), ready, left_out: NonZeroU64::new(left_out) }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        8 * self.heap.capacity() as u64
    }
}

/// Keeps the entries of queued pages, in page order, since their rows are side by side.
fn still_queued(owner: Owner, entries: Vec<u64>, table: &mut Table) -> Result<Vec<u64>> {
    let mut kept = Vec::with_capacity(entries.len());
    for one in entries {
        if worth(owner, one, table)?.0 != Entry::Outdated {
            kept.push(one);
        }
    }
    Ok(kept)
}

/// The validity of an entry, and the entry that its page would get now.
fn worth(owner: Owner, one: u64, table: &mut Table) -> Result<(Entry, u64)> {
    let row = table.get(page_of(one))?;
    let now = entry(page_of(one), &row, &table.shares);
    let is_queued = row.status().queue() == Some(owner.kind) && row.host == owner.host;
    Ok(match is_queued {
        false => (Entry::Outdated, now),
        true if now < one => (Entry::Sunk, now),
        true => (Entry::Current, now),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise all rows would be read in vain.
    #[test]
    fn nothing_is_left_out_of_a_window_without_pages() {
        let left_out = |ready| Window::from_parts(ready, 7, Vec::new()).top_entry();
        assert_eq!((left_out(0), left_out(1)), (Top::Empty, Top::LeftOut));
    }
}
