//! Hosts: names, politeness, and their queues of ready pages.
//!
//! A host has two queues, first fetches and refreshes, each a heap by place ([`crate::place`]).
//! Entries never move: a page whose place changes gets another entry, and an outdated entry is
//! dropped when it comes up.
//!
//! Invariant: each page with status `Ready` or `Due` has an entry under its place in its host's
//! queue of that kind.

use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use crate::credit::Ledger;
use crate::grow::{push, push_heap};
use crate::outcome::Failing;
use crate::pages::{Pages, Status};
use crate::place::{Entry, judge, place};

/// Entries of a queue beyond five for each four pages before it is swept.
const SLACK: usize = 64;

/// An entry of a queue: place in the high half, complement of the page in the low one, so that
/// ties go to the older page.
fn entry(place: u16, page: u32) -> u64 {
    u64::from(place) << 32 | u64::from(!page)
}

fn of_entry(entry: u64) -> (u16, u32) {
    ((entry >> 32) as u16, !(entry as u32))
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    /// Its known pages.
    pub(crate) pages: u32,
    /// Its own delay between the starts of two fetches.
    pub(crate) delay_ms: Option<u64>,
    /// No fetch starts before this.
    pub(crate) hold_until_ms: i64,
    /// When the last known fetch started.
    pub(crate) began_ms: Option<i64>,
    /// Failures of its pages in a row.
    pub(crate) failures: u16,
    /// Since when it fails, if it does.
    pub(crate) down: Option<Failing>,
    pub(crate) in_flight: u32,
    queues: [BinaryHeap<u64>; 2],
    /// Pages in each queue.
    ready: [u32; 2],
    /// Its places among the open hosts, by kind.
    pub(crate) offered: [Option<u16>; 2],
    /// Time of its entry among the sleeping hosts.
    pub(crate) wakes_ms: Option<i64>,
}

impl Host {
    fn new(name: Arc<str>) -> Host {
        Host {
            name,
            pages: 0,
            delay_ms: None,
            hold_until_ms: 0,
            began_ms: None,
            failures: 0,
            down: None,
            in_flight: 0,
            queues: [BinaryHeap::new(), BinaryHeap::new()],
            ready: [0; 2],
            offered: [None; 2],
            wakes_ms: None,
        }
    }

    /// No fetch starts before this time.
    pub(crate) fn next_at_ms(&self, delay_ms: u64) -> i64 {
        let delay_ms = self.delay_ms.unwrap_or(delay_ms);
        let rests = self.down.as_ref().map_or(0, |down| down.until_ms);
        let delayed = self.began_ms.map_or(0, |began| began.saturating_add_unsigned(delay_ms));
        self.hold_until_ms.max(rests).max(delayed)
    }

    /// Its pages that wait for their first fetch in its queue, in order.
    pub(crate) fn queued(&self, pages: &Pages) -> Vec<u32> {
        let entries = self.queues[0].iter().map(|entry| of_entry(*entry).1);
        let mut queued: Vec<u32> = entries.filter(|page| pages.status(*page) == Status::Ready).collect();
        queued.sort_unstable();
        queued.dedup();
        queued
    }

    /// Empties its queue of first fetches, of which no page is left.
    pub(crate) fn forget_queued(&mut self) {
        self.queues[0] = BinaryHeap::new();
        (self.ready[0], self.offered[0]) = (0, None);
    }

    /// It has answered.
    pub(crate) fn answered(&mut self) {
        (self.failures, self.down) = (0, None);
    }

    pub(crate) fn ready(&self) -> u32 {
        self.ready[0] + self.ready[1]
    }

    /// Place of the best page of a kind.
    pub(crate) fn top(&mut self, kind: usize, pages: &Pages, ledger: &Ledger) -> Option<u16> {
        while let Some((at, page)) = self.queues[kind].peek().map(|top| of_entry(*top)) {
            match worth(kind, at, page, pages, ledger) {
                Entry::Current => return Some(at),
                Entry::Outdated => drop(self.queues[kind].pop()),
                Entry::Sunk => {
                    self.queues[kind].pop();
                    push_heap(&mut self.queues[kind], entry(place_of(page, pages, ledger), page));
                }
            }
        }
        None
    }

    /// Takes the best page of a kind, right after [`Host::top`].
    pub(crate) fn take(&mut self, kind: usize) -> Option<u32> {
        let (_, page) = of_entry(self.queues[kind].pop()?);
        self.ready[kind] -= 1;
        Some(page)
    }

    /// Counts out a page that was queued, and is handed out before its turn. Its entry is outdated.
    pub(crate) fn withdraw(&mut self, kind: usize) {
        self.ready[kind] -= 1;
    }

    /// Queues a page.
    pub(crate) fn put(&mut self, kind: usize, page: u32, pages: &Pages, ledger: &Ledger) {
        self.ready[kind] += 1;
        push_heap(&mut self.queues[kind], entry(place_of(page, pages, ledger), page));
    }

    /// Gives a queued page another entry, after its place has changed.
    pub(crate) fn put_again(&mut self, kind: usize, page: u32, pages: &Pages, ledger: &Ledger) {
        push_heap(&mut self.queues[kind], entry(place_of(page, pages, ledger), page));
        let ready = self.ready[kind] as usize;
        if self.queues[kind].len() > ready + ready / 4 + SLACK {
            let mut kept = std::mem::take(&mut self.queues[kind]).into_vec();
            kept.sort_unstable();
            kept.dedup();
            kept.retain(|entry| {
                let (at, page) = of_entry(*entry);
                worth(kind, at, page, pages, ledger) != Entry::Outdated
            });
            kept.shrink_to(ready + ready / 4 + SLACK);
            self.queues[kind] = kept.into();
        }
    }

    /// Empties the queues.
    pub(crate) fn clear(&mut self) {
        self.queues = [BinaryHeap::new(), BinaryHeap::new()];
        (self.ready, self.offered, self.wakes_ms) = ([0; 2], [None; 2], None);
    }
}

fn worth(kind: usize, at: u16, page: u32, pages: &Pages, ledger: &Ledger) -> Entry {
    match pages.status(page).queue() == Some(kind) {
        true => judge(at, place_of(page, pages, ledger)),
        false => Entry::Outdated,
    }
}

fn place_of(page: u32, pages: &Pages, ledger: &Ledger) -> u16 {
    place(ledger.credit(page), pages.standing(page), || pages.level(page))
}

/// All hosts, by number and by name.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    numbers: HashMap<Arc<str>, u32>,
    name_bytes: u64,
}

impl Hosts {
    /// The host of a URL, for politeness; empty if it has none.
    pub(crate) fn name_of(url: &str) -> &str {
        // Cut from text at ASCII bytes, so it is text.
        urlindex::host(url.as_bytes()).and_then(|host| std::str::from_utf8(host).ok()).unwrap_or("")
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The number of a host, added if unknown.
    pub(crate) fn enter(&mut self, name: &str) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let (number, name) = (self.hosts.len() as u32, Arc::<str>::from(name));
        self.name_bytes += name.len() as u64 + 16;
        push(&mut self.hosts, Host::new(Arc::clone(&name)));
        self.numbers.insert(name, number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &Host {
        &self.hosts[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Host {
        &mut self.hosts[number as usize]
    }

    pub(crate) fn len(&self) -> u32 {
        self.hosts.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Host> {
        self.hosts.iter_mut()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let queues = |host: &Host| host.queues.iter().map(|queue| 8 * queue.capacity()).sum::<usize>();
        let queues: usize = self.hosts.iter().map(queues).sum();
        let entries = self.hosts.capacity() * size_of::<Host>() + self.numbers.capacity() * (size_of::<Arc<str>>() + 9);
        (queues + entries) as u64 + self.name_bytes
    }
}
