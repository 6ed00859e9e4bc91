//! Queues: open hosts, hosts that wait for their time, pages that wait for theirs.
//!
//! An *open* host has a page that is ready, a free connection and no delay left. Open hosts stand
//! in two heaps, one for pages never fetched and one for refreshes, by the place of their best
//! page. Hosts that wait stand in a heap by time, and so do pages that failed or whose recrawl is
//! to come. Entries are never moved; one that is not true any more is dropped when it comes up.
//!
//! Invariants: an open host is among the open ones of each kind of which it has pages, under its
//! place; a host that has pages and a free connection, but must wait, is among those that wait; a
//! page that waits has one entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::credit::Ledger;
use crate::grow::push_heap;
use crate::hosts::Hosts;
use crate::pages::{Pages, Status};

/// Entries of a heap beyond four for each host, before it is swept.
const SLACK: usize = 256;

/// What the queues see of the rest.
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

/// Whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The latest time that was told.
    clock_ms: i64,
    /// Open hosts by kind: place, and number.
    open: [BinaryHeap<u64>; 2],
    /// Hosts by the time at which they may be asked.
    sleeping: BinaryHeap<Reverse<(i64, u32)>>,
    /// Pages by the second in which they are due, in the high half.
    timers: BinaryHeap<Reverse<u64>>,
}

impl Queue {
    /// A page waits for a time, in seconds.
    pub(crate) fn wait(&mut self, page: u32, due_s: u32) {
        push_heap(&mut self.timers, Reverse(u64::from(due_s) << 32 | u64::from(page)));
    }

    /// Time goes on: pages whose time has come are ready, hosts that have waited are open.
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

    /// The latest time that was told.
    pub(crate) fn clock_ms(&self) -> i64 {
        self.clock_ms
    }

    /// A page is ready now, by its status.
    pub(crate) fn put(&mut self, page: u32, view: &mut View<'_>) {
        let Some(kind) = view.pages.status(page).queue() else { return };
        let host = view.pages.host(page);
        view.hosts.get_mut(host).put(kind, page, view.pages, view.ledger);
        self.offer(host, view);
    }

    /// The place of a page has changed.
    pub(crate) fn raised(&mut self, page: u32, view: &mut View<'_>) {
        let Some(kind) = view.pages.status(page).queue() else { return };
        let host = view.pages.host(page);
        view.hosts.get_mut(host).put_again(kind, page, view.pages, view.ledger);
        self.offer(host, view);
    }

    /// Puts a host where it belongs, if anything about it has changed.
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
                // Among equals the older host comes first.
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

    /// Takes the best page of a kind from the open host that has it: it is in flight then.
    pub(crate) fn take(&mut self, kind: usize, view: &mut View<'_>) -> Option<u32> {
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
            host.began_ms = Some(self.clock_ms);
            view.pages.set_status(page, if kind == 0 { Status::InFlight } else { Status::Refreshing });
            self.offer(number, view);
            return Some(page);
        }
        None
    }

    /// A fetch from a host has ended.
    pub(crate) fn landed(&mut self, host: u32, now_ms: i64, view: &mut View<'_>) {
        self.clock_ms = self.clock_ms.max(now_ms);
        view.hosts.get_mut(host).in_flight -= 1;
        self.offer(host, view);
    }

    /// The first time at which anything becomes ready by itself.
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

    /// When each page that waits is due, in seconds.
    pub(crate) fn timers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.timers.iter().map(|Reverse(timer)| (*timer as u32, (timer >> 32) as u32))
    }

    /// Fills the queues of hosts anew: the place of any page may have changed.
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
