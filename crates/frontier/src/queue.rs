//! Queues: open hosts, sleeping hosts, waiting pages.
//!
//! An *open* host has a ready page, a free connection and no delay left. Two heaps hold the open
//! hosts by the place of their best page: one for first fetches, one for refreshes. Sleeping hosts
//! are in a heap by time, as are pages that failed or wait for a recrawl. Entries never move; an
//! outdated entry is dropped when it comes up.
//!
//! Invariants: an open host has an entry with its place in the heap of each kind of which it has
//! pages; a host with pages and a free connection that must wait has an entry among the sleeping
//! ones; a waiting page has one entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::credit::Ledger;
use crate::grow::push_heap;
use crate::hosts::Hosts;
use crate::pages::{Pages, Status};

/// Entries of a heap beyond four for each host before it is swept.
const SLACK: usize = 256;

/// The rest of the state, as the queues use it.
pub(crate) struct View<'a> {
    pub(crate) pages: &'a mut Pages,
    pub(crate) hosts: &'a mut Hosts,
    pub(crate) ledger: &'a Ledger,
    pub(crate) manners: Manners,
}

/// Politeness towards every host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    pub(crate) delay_ms: u64,
    pub(crate) connections: u16,
}

/// The queues of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The latest time given.
    clock_ms: i64,
    /// Open hosts by kind: place in the high half, complement of the number in the low one.
    open: [BinaryHeap<u64>; 2],
    /// Hosts by the time at which they open.
    sleeping: BinaryHeap<Reverse<(i64, u32)>>,
    /// Pages by the second in which they are due, which is the high half.
    timers: BinaryHeap<Reverse<u64>>,
}

impl Queue {
    /// Makes a page wait until a second.
    pub(crate) fn wait(&mut self, page: u32, due_s: u32) {
        push_heap(&mut self.timers, Reverse(u64::from(due_s) << 32 | u64::from(page)));
    }

    /// Sets the clock back: no page waits longer than until `longest_ms`.
    pub(crate) fn set_back(&mut self, now_ms: i64, longest_ms: i64) {
        self.clock_ms = self.clock_ms.min(now_ms);
        let longest_s = u32::try_from(longest_ms.div_euclid(1000)).unwrap_or(u32::MAX);
        if self.timers.iter().any(|Reverse(timer)| (timer >> 32) as u32 > longest_s) {
            let timers = std::mem::take(&mut self.timers).into_vec();
            let cut = |Reverse(timer): Reverse<u64>| {
                Reverse((timer >> 32).min(u64::from(longest_s)) << 32 | u64::from(timer as u32))
            };
            self.timers = timers.into_iter().map(cut).collect();
        }
    }

    /// Ends the waits of some pages.
    pub(crate) fn cut(&mut self, is_over: impl Fn(u32) -> bool) {
        let now_s = (self.clock_ms / 1000) as u64;
        let cut = |Reverse(timer): Reverse<u64>| match is_over(timer as u32) {
            true => Reverse((timer >> 32).min(now_s) << 32 | u64::from(timer as u32)),
            false => Reverse(timer),
        };
        self.timers = std::mem::take(&mut self.timers).into_iter().map(cut).collect();
    }

    /// Forgets the waits of pages that do not wait any more.
    pub(crate) fn forget(&mut self, waits: impl Fn(u32) -> bool) {
        self.timers.retain(|Reverse(timer)| waits(*timer as u32));
    }

    /// Moves the clock on: due pages become ready, hosts whose delay is over open.
    pub(crate) fn advance(&mut self, now_ms: i64, view: &mut View<'_>) {
        self.clock_ms = self.clock_ms.max(now_ms);
        let now_s = (self.clock_ms / 1000) as u64;
        while let Some(Reverse(timer)) = self.timers.peek().copied().filter(|Reverse(timer)| timer >> 32 <= now_s) {
            self.timers.pop();
            let page = timer as u32;
            match view.pages.status(page) {
                Status::Waiting => view.pages.set_status(page, Status::Ready),
                Status::Fetched => view.pages.set_status(page, Status::Due),
                _ => continue,
            }
            self.put(page, view);
        }
        while let Some(Reverse((_, host))) =
            self.sleeping.peek().copied().filter(|Reverse((at, _))| *at <= self.clock_ms)
        {
            self.sleeping.pop();
            view.hosts.get_mut(host).wakes_ms = None;
            self.offer(host, view);
        }
    }

    /// The latest time given.
    pub(crate) fn clock_ms(&self) -> i64 {
        self.clock_ms
    }

    /// Queues a page that is ready by its status.
    pub(crate) fn put(&mut self, page: u32, view: &mut View<'_>) {
        let Some(kind) = view.pages.status(page).queue() else { return };
        let host = view.pages.host(page);
        view.hosts.get_mut(host).put(kind, page, view.pages, view.ledger);
        self.offer(host, view);
    }

    /// Gives a queued page an entry under its new place.
    pub(crate) fn raised(&mut self, page: u32, view: &mut View<'_>) {
        let Some(kind) = view.pages.status(page).queue() else { return };
        let host = view.pages.host(page);
        view.hosts.get_mut(host).put_again(kind, page, view.pages, view.ledger);
        self.offer(host, view);
    }

    /// Enters a host where it belongs after a change.
    pub(crate) fn offer(&mut self, number: u32, view: &mut View<'_>) {
        let host = view.hosts.get_mut(number);
        if host.in_flight >= u32::from(view.manners.connections) || host.ready() == 0 {
            return;
        }
        let next_at_ms = host.next_at_ms(view.manners.delay_ms);
        if next_at_ms > self.clock_ms {
            if host.wakes_ms.is_none_or(|wakes| next_at_ms < wakes) {
                host.wakes_ms = Some(next_at_ms);
                self.sleeping.push(Reverse((next_at_ms, number)));
            }
            return;
        }
        for kind in 0..2 {
            let top = host.top(kind, view.pages, view.ledger);
            if let Some(place) = top.filter(|place| host.offered[kind] != Some(*place)) {
                host.offered[kind] = Some(place);
                // Ties go to the older host.
                self.open[kind].push(u64::from(place) << 32 | u64::from(!number));
            }
        }
        if self.open.iter().any(|open| open.len() > 4 * view.hosts.len() as usize + SLACK) {
            self.sweep(view);
        }
    }

    fn sweep(&mut self, view: &View<'_>) {
        for (kind, open) in self.open.iter_mut().enumerate() {
            let mut kept = std::mem::take(open).into_vec();
            kept.sort_unstable();
            kept.dedup();
            kept.retain(|entry| view.hosts.get(!(*entry as u32)).offered[kind] == Some((entry >> 32) as u16));
            *open = kept.into();
        }
    }

    /// Takes the best page of a kind among open hosts; it is in flight then. Returns when the fetch
    /// before it began, too.
    pub(crate) fn take(&mut self, kind: usize, view: &mut View<'_>) -> Option<(u32, Option<i64>)> {
        while let Some(top) = self.open[kind].pop() {
            let (place, number) = ((top >> 32) as u16, !(top as u32));
            let host = view.hosts.get_mut(number);
            if host.offered[kind] != Some(place) {
                continue;
            }
            host.offered[kind] = None;
            let is_open = host.in_flight < u32::from(view.manners.connections)
                && host.next_at_ms(view.manners.delay_ms) <= self.clock_ms;
            if !is_open || host.top(kind, view.pages, view.ledger) != Some(place) {
                self.offer(number, view);
                continue;
            }
            let Some(page) = host.take(kind) else { continue };
            host.in_flight += 1;
            let before_ms = host.began_ms.replace(self.clock_ms);
            view.pages.set_status(page, if kind == 0 { Status::InFlight } else { Status::Refreshing });
            self.offer(number, view);
            return Some((page, before_ms));
        }
        None
    }

    /// Takes a page before its turn, if its host allows that now; it is in flight then. Returns when
    /// the fetch before it began, or the time at which it may be taken: 0 if that depends on what
    /// is in flight.
    pub(crate) fn take_page(&mut self, page: u32, view: &mut View<'_>) -> Result<Option<i64>, i64> {
        let number = view.pages.host(page);
        let host = view.hosts.get_mut(number);
        if host.in_flight >= u32::from(view.manners.connections) {
            return Err(0);
        }
        let next_at_ms = host.next_at_ms(view.manners.delay_ms);
        if next_at_ms > self.clock_ms {
            return Err(next_at_ms);
        }
        let status = view.pages.status(page);
        if let Some(kind) = status.queue() {
            host.withdraw(kind);
        }
        host.in_flight += 1;
        let before_ms = host.began_ms.replace(self.clock_ms);
        let flies = if status.is_fetched() { Status::Refreshing } else { Status::InFlight };
        view.pages.set_status(page, flies);
        self.offer(number, view);
        Ok(before_ms)
    }

    /// Ends a fetch from a host.
    pub(crate) fn landed(&mut self, host: u32, now_ms: i64, view: &mut View<'_>) {
        self.clock_ms = self.clock_ms.max(now_ms);
        view.hosts.get_mut(host).in_flight -= 1;
        self.offer(host, view);
    }

    /// The first time at which a host opens or a page is due.
    pub(crate) fn wakes_ms(&mut self, hosts: &Hosts) -> Option<i64> {
        while let Some(Reverse((at, host))) = self.sleeping.peek().copied() {
            if hosts.get(host).wakes_ms == Some(at) {
                break;
            }
            self.sleeping.pop();
        }
        let host = self.sleeping.peek().map(|Reverse((at, _))| *at);
        let page = self.timers.peek().map(|Reverse(timer)| (timer >> 32) as i64 * 1000);
        host.into_iter().chain(page).min()
    }

    /// The second in which each waiting page is due.
    pub(crate) fn timers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.timers.iter().map(|Reverse(timer)| (*timer as u32, (timer >> 32) as u32))
    }

    /// Rebuilds the queues of all hosts, after places have changed.
    pub(crate) fn rebuild(&mut self, view: &mut View<'_>) {
        self.open = [BinaryHeap::new(), BinaryHeap::new()];
        self.sleeping.clear();
        view.hosts.iter_mut().for_each(|host| host.clear());
        for page in 0..view.pages.len() {
            if let Some(kind) = view.pages.status(page).queue() {
                view.hosts.get_mut(view.pages.host(page)).put(kind, page, view.pages, view.ledger);
            }
        }
        (0..view.hosts.len()).for_each(|host| self.offer(host, view));
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let open: usize = self.open.iter().map(BinaryHeap::capacity).sum();
        (8 * (open + self.timers.capacity()) + 16 * self.sleeping.capacity()) as u64
    }
}
