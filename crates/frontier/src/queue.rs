//! Queues: open hosts, sleeping hosts, waiting pages.
//!
//! An *open* host has a ready page, a free connection and no delay left. Two heaps hold the open
//! hosts by the place of their best page ([`crate::open`]): one for first fetches, one for
//! refreshes. Sleeping hosts are in a heap by time. Pages that failed or wait for a recrawl have
//! timers ([`crate::timers`]). Entries never move; an outdated entry is dropped when it comes up.
//!
//! Invariants: an open host has an entry with its place in the heap of each kind for which it has
//! pages; a host with pages and a free connection that must wait has an entry among the sleeping
//! ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::grow::push_heap;
use crate::hosts::Hosts;
use crate::marks::Status;
use crate::open::Open;
use crate::options::FrontierOptions;
use crate::row::Row;
use crate::table::Table;
use crate::timers::{Rules, Timers};
use crate::window::{Owner, Top};

/// Entries of a heap, beyond four for each host, before it is swept.
const SLACK: usize = 256;
/// Maximum open hosts of a kind in memory: 512 KiB.
const OPEN_MAX: usize = 1 << 16;

/// The queues of hosts are counted after new entries of this fraction of the limit.
const ENTERED_PART: usize = 8;
/// All rows are read for left-out pages after this fraction of the pages was taken.
const REFILL_PART: u32 = 64;

/// The rest of the state, as the queues see it.
pub(crate) struct View<'a> {
    pub(crate) table: &'a mut Table,
    pub(crate) hosts: &'a mut Hosts,
    pub(crate) manners: Manners,
}

/// Politeness towards every host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    pub(crate) connections: u16,
    /// Maximum entries in the queues of all hosts.
    pub(crate) entries_max: usize,
    /// Maximum open hosts of a kind in memory.
    pub(crate) open_max: usize,
    /// The rules for timers of waiting pages.
    pub(crate) rules: Rules,
}

impl Manners {
    pub(crate) fn of(options: &FrontierOptions) -> Manners {
        let FrontierOptions { connections, recrawl, .. } = *options;
        let rules = Rules { has_recrawls: recrawl.is_some(), timers_max: options.timers() };
        Manners { connections, entries_max: options.queue_entries(), open_max: OPEN_MAX, rules }
    }
}

/// The queues of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// True if hosts are offered; false while the journal is replayed.
    is_live: bool,
    /// The latest time given.
    clock_ms: i64,
    /// Open hosts by kind.
    open: [Open; 2],
    /// Hosts, ordered by the time at which they open.
    sleeping: BinaryHeap<Reverse<(i64, u32)>>,
    /// Timers of waiting pages.
    pub(crate) timers: Timers,
    /// Entries added since the queues of hosts were counted.
    entered: usize,
    /// True if a host has queued pages and none of them in memory.
    is_drained: bool,
    /// Pages taken since the queues were built.
    taken: u32,
}

impl Queue {
    /// Makes a page wait until `due_s`, which its row states.
    pub(crate) fn wait(&mut self, page: u32, due_s: u32, view: &mut View<'_>) -> Result<()> {
        self.timers.wait(page, due_s, view.manners.rules.timers_max, view.table)
    }

    /// Sets the clock back: no page waits beyond `longest_ms`.
    pub(crate) fn set_back(&mut self, now_ms: i64, longest_ms: i64, view: &mut View<'_>) -> Result<()> {
        self.clock_ms = self.clock_ms.min(now_ms);
        let longest_s = u32::try_from(longest_ms.div_euclid(1000)).unwrap_or(u32::MAX);
        self.timers.cut(longest_s, |_| true, view.manners.rules, view.table)
    }

    /// Ends the waits of the pages for which `is_cut` is true at `end_s` at the latest.
    pub(crate) fn cut(&mut self, end_s: u32, is_cut: impl Fn(&Row) -> bool, view: &mut View<'_>) -> Result<()> {
        self.timers.cut(end_s, is_cut, view.manners.rules, view.table)
    }

    /// Advances the clock: due pages become ready, hosts whose delay is over open.
    pub(crate) fn advance(&mut self, now_ms: i64, view: &mut View<'_>) -> Result<()> {
        self.clock_ms = self.clock_ms.max(now_ms);
        let now_s = u32::try_from(self.clock_ms / 1000).unwrap_or(u32::MAX);
        if self.timers.is_used_up(now_s) {
            self.find_timers(now_s, view)?;
        }
        while let Some(page) = self.timers.pop(now_s, view.table)? {
            self.make_ready(page, view)?;
        }
        while let Some(Reverse((_, host))) =
            self.sleeping.peek().copied().filter(|Reverse((at, _))| *at <= self.clock_ms)
        {
            self.sleeping.pop();
            view.hosts.set_wakes_ms(host, None);
            self.offer(host, view);
        }
        if self.sleeping.capacity() > 4 * self.sleeping.len() + SLACK {
            self.sleeping.shrink_to(2 * self.sleeping.len());
        }
        Ok(())
    }

    /// Finds all waiting pages by their rows: due ones become ready, the soonest of the others get
    /// timers. O(pages).
    fn find_timers(&mut self, now_s: u32, view: &mut View<'_>) -> Result<()> {
        self.timers.clear();
        for page in 0..view.table.len() {
            let row = view.table.get(page)?;
            if self.timers.find(page, &row, now_s, view.manners.rules) {
                self.make_ready(page, view)?;
            }
        }
        Ok(())
    }

    /// Queues a page that is due.
    fn make_ready(&mut self, page: u32, view: &mut View<'_>) -> Result<()> {
        let is_new = view.table.get(page)?.status() == Status::Waiting;
        view.table.set_status(page, if is_new { Status::Ready } else { Status::Due })?;
        self.put(page, view)
    }

    /// The latest time given.
    pub(crate) fn clock_ms(&self) -> i64 {
        self.clock_ms
    }

    /// Queues a page, if its status says that it is queued.
    pub(crate) fn put(&mut self, page: u32, view: &mut View<'_>) -> Result<()> {
        let row = view.table.get(page)?;
        let Some(kind) = row.status().queue() else { return Ok(()) };
        let grown = view.hosts.put(page, kind, &row, &view.table.shares);
        self.count_entered(grown, view);
        self.offer(row.host, view);
        Ok(())
    }

    /// Counts new entries; if there are too many, trims the longest queues.
    fn count_entered(&mut self, grown: usize, view: &mut View<'_>) {
        self.entered += grown;
        if self.entered > view.manners.entries_max / ENTERED_PART {
            self.entered = 0;
            view.hosts.trim(view.manners.entries_max, self.clock_ms);
        }
    }

    /// Adds an entry for a queued page at its new place; `row` is its row.
    pub(crate) fn raised(&mut self, page: u32, kind: usize, row: &Row, view: &mut View<'_>) -> Result<()> {
        let grown = view.hosts.put_again(page, kind, row, view.table)?;
        self.count_entered(grown, view);
        self.offer(row.host, view);
        Ok(())
    }

    /// Moves a host to where it belongs after a change, judged by its best entries. The rows of
    /// their pages, which may be on disk, are checked when a page is taken.
    pub(crate) fn offer(&mut self, number: u32, view: &mut View<'_>) {
        self.enter(number, view);
        view.hosts.settle(number, self.clock_ms);
    }

    fn enter(&mut self, number: u32, view: &mut View<'_>) {
        let hosts = &mut *view.hosts;
        let is_busy = hosts.in_flight(number) >= u32::from(view.manners.connections);
        if !self.is_live || is_busy || hosts.ready(number) == 0 {
            return;
        }
        let next_at_ms = hosts.next_at_ms(number);
        if next_at_ms > self.clock_ms {
            if hosts.wakes_ms(number).is_none_or(|wakes| next_at_ms < wakes) {
                hosts.set_wakes_ms(number, Some(next_at_ms));
                push_heap(&mut self.sleeping, Reverse((next_at_ms, number)));
            }
            return;
        }
        for kind in 0..2 {
            match hosts.top_entry(number, kind) {
                Top::Place(place) if hosts.offered(number, kind) != Some(place) => {
                    hosts.set_offered(number, kind, place);
                    self.open[kind].push(place, number);
                }
                Top::LeftOut => self.is_drained = true,
                Top::Place(_) | Top::Empty => {}
            }
        }
        let most = view.manners.open_max.min(4 * hosts.len() as usize + SLACK);
        for (kind, open) in self.open.iter_mut().enumerate().filter(|(_, open)| open.len() > most) {
            open.sweep(view.manners.open_max / 2, |place, host| hosts.offered(host, kind) == Some(place));
        }
    }

    /// Takes the best page of a kind among open hosts; it is then in flight. Also returns when the
    /// previous fetch of its host began.
    pub(crate) fn take(&mut self, kind: usize, view: &mut View<'_>) -> Result<Option<(u32, Option<i64>)>> {
        while let Some((place, number)) = self.best_open(kind, view) {
            if view.hosts.offered(number, kind) != Some(place) {
                continue;
            }
            let is_open = view.hosts.in_flight(number) < u32::from(view.manners.connections)
                && view.hosts.next_at_ms(number) <= self.clock_ms;
            let host = view.hosts.get_mut(number);
            host.offered[kind] = None;
            if !is_open || host.windows[kind].top(Owner { host: number, kind }, view.table)? != Top::Place(place) {
                self.offer(number, view);
                continue;
            }
            let Some(page) = host.windows[kind].take() else { continue };
            self.taken = self.taken.saturating_add(1);
            host.in_flight += 1;
            let before_ms = host.began_ms.replace(self.clock_ms);
            view.table.set_status(page, if kind == 0 { Status::InFlight } else { Status::Refreshing })?;
            self.offer(number, view);
            return Ok(Some((page, before_ms)));
        }
        Ok(None)
    }

    /// The best open host of a kind, and its place. O(hosts) if the heap is used up.
    fn best_open(&mut self, kind: usize, view: &mut View<'_>) -> Option<(u16, u32)> {
        if self.open[kind].is_used_up() {
            self.reopen(view);
        }
        self.open[kind].pop()
    }

    /// Takes a page before its turn, if its host allows it now; it is then in flight.
    pub(crate) fn take_page(&mut self, page: u32, view: &mut View<'_>) -> Result<Early> {
        let row = view.table.get(page)?;
        if view.hosts.in_flight(row.host) >= u32::from(view.manners.connections) {
            return Ok(Early::InFlight);
        }
        let next_at_ms = view.hosts.next_at_ms(row.host);
        if next_at_ms > self.clock_ms {
            return Ok(Early::Wait(next_at_ms));
        }
        if let Some(kind) = row.status().queue() {
            view.hosts.withdraw(row.host, kind);
        }
        let host = view.hosts.get_mut(row.host);
        host.in_flight += 1;
        let before_ms = host.began_ms.replace(self.clock_ms);
        let flies = if row.status().is_fetched() { Status::Refreshing } else { Status::InFlight };
        view.table.set_status(page, flies)?;
        self.offer(row.host, view);
        Ok(Early::Taken(before_ms))
    }

    /// Ends a fetch from a host.
    pub(crate) fn landed(&mut self, host: u32, now_ms: i64, view: &mut View<'_>) {
        self.clock_ms = self.clock_ms.max(now_ms);
        let ended = view.hosts.get_mut(host);
        ended.in_flight = ended.in_flight.saturating_sub(1);
        self.offer(host, view);
    }

    /// The first time at which a host opens or a page is due. O(pages) if that page has no timer
    /// in memory.
    pub(crate) fn wakes_ms(&mut self, view: &mut View<'_>) -> Result<Option<i64>> {
        while let Some(Reverse((at, host))) = self.sleeping.peek().copied() {
            if view.hosts.wakes_ms(host) == Some(at) {
                break;
            }
            self.sleeping.pop();
        }
        let host = self.sleeping.peek().map(|Reverse((at, _))| *at);
        let mut page = self.timers.next_s(view.table)?;
        let is_first = |due_s: u32| host.is_none_or(|at| i64::from(due_s) * 1000 < at);
        if self.timers.are_left_out() && page.is_some_and(is_first) {
            // The soonest that was left out may have been taken before its turn since.
            self.find_timers(u32::try_from(self.clock_ms / 1000).unwrap_or(u32::MAX), view)?;
            page = self.timers.next_s(view.table)?;
        }
        Ok(host.into_iter().chain(page.map(|due_s| i64::from(due_s) * 1000)).min())
    }

    /// Places all hosts anew, after their times have changed. Reads no rows.
    pub(crate) fn reopen(&mut self, view: &mut View<'_>) {
        (self.open, self.sleeping) = Default::default();
        view.hosts.withdraw_offers();
        (0..view.hosts.len()).for_each(|host| self.offer(host, view));
        view.hosts.compact();
    }

    /// Rebuilds the queues of all hosts. O(pages).
    fn rebuild(&mut self, view: &mut View<'_>) -> Result<()> {
        (self.entered, self.taken, self.is_drained) = (0, 0, false);
        view.hosts.clear_queues();
        for page in 0..view.table.len() {
            let row = view.table.get(page)?;
            if let Some(kind) = row.status().queue() {
                let grown = view.hosts.put(page, kind, &row, &view.table.shares);
                self.count_entered(grown, view);
            }
        }
        self.reopen(view);
        Ok(())
    }

    /// Finds left-out pages by a rebuild if some host has no others, and enough pages were taken
    /// to pay for it or there are no others (`must`). Returns whether it did.
    pub(crate) fn refill(&mut self, must: bool, view: &mut View<'_>) -> Result<bool> {
        let is_time = self.is_drained && (must || self.taken >= view.table.len() / REFILL_PART);
        if is_time {
            self.rebuild(view)?;
        }
        Ok(is_time)
    }

    /// Goes live: hosts are offered from now on.
    pub(crate) fn go_live(&mut self, view: &mut View<'_>) {
        self.is_live = true;
        self.reopen(view);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let open: u64 = self.open.iter().map(Open::memory_bytes).sum();
        open + self.timers.memory_bytes() + 16 * self.sleeping.capacity() as u64
    }
}

/// The result of taking a page before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Early {
    /// It is in flight; holds the start of the previous fetch of its host.
    Taken(Option<i64>),
    /// It may be taken at this time.
    Wait(i64),
    /// It depends on the outcome of fetches in flight.
    InFlight,
}
