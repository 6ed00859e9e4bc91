//! Timers of pages that wait for a recrawl or a retry. The soonest are in memory. The others are
//! left out; once the first of them is due, a pass over all pages finds them by their rows
//! ([`crate::table`]).
//!
//! Timers never move: an outdated one is dropped when it comes up.
//!
//! Invariant: each waiting page has a timer with the second in its row, or its (second, page) is
//! not before the soonest timer left out, and its second not after `latest_s`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::grow::push_heap;
use crate::marks::Status;
use crate::row::Row;
use crate::table::Table;

/// Timers, beyond two for each waiting page, before they are swept.
const SLACK: usize = 256;

/// The timers left out of memory, as a snapshot describes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The soonest of them; `None` if no timer was left out.
    pub(crate) first: Option<u64>,
    /// The latest second of any of them.
    pub(crate) latest_s: u32,
}

/// Timers of waiting pages.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Second in the high half, so that the earliest comes first; page in the low one.
    heap: BinaryHeap<Reverse<u64>>,
    left_out: LeftOut,
}

impl Timers {
    /// Makes a page wait until `due_s`, as its row states. Keeps `most` timers in memory.
    pub(crate) fn wait(&mut self, page: u32, due_s: u32, most: usize, table: &mut Table) -> Result<()> {
        self.push(page, due_s, most);
        let waiting = table.count(|status| matches!(status, Status::Waiting | Status::Fetched)) as usize;
        if self.heap.len() > 2 * waiting + SLACK {
            let mut kept = Vec::with_capacity(waiting);
            for Reverse(one) in std::mem::take(&mut self.heap) {
                if waits(one, table)? {
                    kept.push(Reverse(one));
                }
            }
            self.heap = kept.into();
        }
        Ok(())
    }

    fn push(&mut self, page: u32, due_s: u32, most: usize) {
        let timer = timer(page, due_s);
        if self.left_out.first.is_some_and(|first| first <= timer) {
            self.left_out.latest_s = self.left_out.latest_s.max(due_s);
            return;
        }
        push_heap(&mut self.heap, Reverse(timer));
        if self.heap.len() > most {
            self.trim(most / 2);
        }
    }

    /// Leaves out all but the `kept` soonest timers.
    fn trim(&mut self, kept: usize) {
        let mut timers = std::mem::take(&mut self.heap).into_vec();
        timers.sort_unstable_by_key(|Reverse(timer)| *timer);
        let rest = timers.split_off(kept.min(timers.len()));
        if let (Some(Reverse(first)), Some(Reverse(last))) = (rest.first(), rest.last()) {
            self.left_out.first = Some(self.left_out.first.map_or(*first, |before| before.min(*first)));
            self.left_out.latest_s = self.left_out.latest_s.max(second(*last));
        }
        // A sorted vector is a heap.
        self.heap = timers.into();
    }

    /// Ends the waits of the pages for which `is_cut` is true at `end_s` at the latest. O(timers),
    /// or O(pages) if later ones may be left out.
    pub(crate) fn cut(
        &mut self,
        end_s: u32,
        is_cut: impl Fn(&Row) -> bool,
        rules: Rules,
        table: &mut Table,
    ) -> Result<()> {
        let is_late = |Reverse(one): &Reverse<u64>| second(*one) > end_s;
        if self.left_out.first.is_some() && self.left_out.latest_s > end_s {
            return self.cut_rows(end_s, is_cut, rules, table);
        }
        if !self.heap.iter().any(is_late) {
            return Ok(());
        }
        let mut timers = std::mem::take(&mut self.heap).into_vec();
        for late in timers.iter_mut().filter(|one| is_late(one)) {
            let page = late.0 as u32;
            if waits(late.0, table)? && is_cut(&table.get(page)?) {
                table.update(page)?.due_s = end_s;
                *late = Reverse(timer(page, end_s));
            }
        }
        self.heap = timers.into();
        Ok(())
    }

    fn cut_rows(&mut self, end_s: u32, is_cut: impl Fn(&Row) -> bool, rules: Rules, table: &mut Table) -> Result<()> {
        *self = Timers::default();
        for page in 0..table.len() {
            let mut row = table.get(page)?;
            if !rules.has_timer(&row) {
                continue;
            }
            if row.due_s > end_s && is_cut(&row) {
                row.due_s = end_s;
                table.update(page)?.due_s = end_s;
            }
            self.push(page, row.due_s, rules.timers_max);
        }
        Ok(())
    }

    /// Returns whether a left-out page may be due: then a pass over all rows must find them.
    pub(crate) fn is_used_up(&self, now_s: u32) -> bool {
        self.left_out.first.is_some_and(|first| second(first) <= now_s)
    }

    /// Returns whether there are timers, and none of them is in memory.
    pub(crate) fn are_left_out(&self) -> bool {
        self.heap.is_empty() && self.left_out.first.is_some()
    }

    /// Removes all timers, before a pass over all rows.
    pub(crate) fn clear(&mut self) {
        *self = Timers::default();
    }

    /// In a pass over all rows: returns whether a page is due. If it waits longer it gets a timer.
    pub(crate) fn find(&mut self, page: u32, row: &Row, now_s: u32, rules: Rules) -> bool {
        if !rules.has_timer(row) {
            return false;
        }
        if row.due_s > now_s {
            self.push(page, row.due_s, rules.timers_max);
        }
        row.due_s <= now_s
    }

    /// The next page that is due.
    pub(crate) fn pop(&mut self, now_s: u32, table: &mut Table) -> Result<Option<u32>> {
        while let Some(Reverse(one)) = self.heap.peek().copied().filter(|Reverse(one)| second(*one) <= now_s) {
            self.heap.pop();
            if waits(one, table)? {
                return Ok(Some(one as u32));
            }
        }
        Ok(None)
    }

    /// The second at which the next page is due, or one that was left out may be.
    pub(crate) fn next_s(&mut self, table: &mut Table) -> Result<Option<u32>> {
        while let Some(Reverse(one)) = self.heap.peek().copied() {
            if waits(one, table)? {
                return Ok(Some(second(one)));
            }
            self.heap.pop();
        }
        Ok(self.left_out.first.map(second))
    }

    /// The timers in memory.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = u64> {
        self.heap.iter().map(|Reverse(timer)| *timer)
    }

    pub(crate) fn left_out(&self) -> LeftOut {
        self.left_out
    }

    pub(crate) fn from_parts(timers: Vec<u64>, left_out: LeftOut) -> Timers {
        Timers { heap: timers.into_iter().map(Reverse).collect::<Vec<_>>().into(), left_out }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        8 * self.heap.capacity() as u64
    }
}

/// Rules: which pages have timers, and how many timers are in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) has_recrawls: bool,
    pub(crate) timers_max: usize,
}

impl Rules {
    /// Returns whether a page waits for a recrawl or a retry.
    pub(crate) fn has_timer(self, row: &Row) -> bool {
        match row.status() {
            Status::Waiting => true,
            // A fetched page whose refresh failed is retried, also without recrawls.
            Status::Fetched => self.has_recrawls || row.due_s > 0 && row.marks.failure().is_some(),
            _ => false,
        }
    }
}

fn timer(page: u32, due_s: u32) -> u64 {
    u64::from(due_s) << 32 | u64::from(page)
}

fn second(timer: u64) -> u32 {
    (timer >> 32) as u32
}

/// Returns whether a page still waits for a timer: it may have been taken before its turn.
fn waits(timer: u64, table: &mut Table) -> Result<bool> {
    let row = table.get(timer as u32)?;
    Ok(matches!(row.status(), Status::Waiting | Status::Fetched) && row.due_s == second(timer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soonest_are_in_memory_and_what_is_left_out_is_not_sooner() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut timers, mut all) = (Timers::default(), Vec::new());
        for page in 0..10_000 {
            let due_s = rng.u32(1..100_000);
            timers.push(page, due_s, 64);
            all.push(timer(page, due_s));
            assert!(timers.heap.len() <= 64);
        }
        all.sort_unstable();
        let (mut kept, left_out) = (timers.iter().collect::<Vec<u64>>(), timers.left_out());
        kept.sort_unstable();
        assert!(kept.len() >= 16 && kept == all[..kept.len()], "{}", kept.len());
        assert_eq!(left_out.first, Some(all[kept.len()]));
        assert_eq!(left_out.latest_s, second(all[all.len() - 1]));
        assert!(!timers.is_used_up(second(kept[kept.len() - 1]) - 1) && timers.is_used_up(second(all[kept.len()])));
    }
}
