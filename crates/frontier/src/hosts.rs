//! All hosts: a record of 28 bytes each, and a [`Host`] for each active one.
//!
//! A record has the best entry of one of the host's two queues, first fetches and refreshes
//! ([`crate::window`]). A host with more entries in memory, in flight, failing, or with limits of
//! its own is *active*: its record then holds the index of its [`Host`], which has all but the
//! number of its pages. A host becomes active when needed, and a record again when possible.

mod brief;

use std::borrow::Cow;

use crate::error::Result;
use crate::grow::push;
use crate::host::{Host, Limits, delayed};
use crate::marks::Status;
use crate::names::Names;
use crate::row::Row;
use crate::shares::Shares;
use crate::table::Table;
use crate::window::{Owner, Top, Window, entry, page_of};
use brief::{Record, Six};

/// Memory of an active host and its heap, in queue entries: several entries make a host active.
const ACTIVE_ENTRIES: usize = (size_of::<Host>() + 16) / 8;
/// Unused active slots, beyond half of all, before they are freed.
const SLACK: usize = 64;

/// All hosts, by number and by name.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    names: Names,
    records: Vec<Record>,
    active: Vec<Host>,
    /// Unused slots among the active hosts.
    free: Vec<u32>,
    /// The delay of hosts without one of their own.
    pub(crate) delay_ms: u64,
}

impl Hosts {
    /// The host of a URL, for politeness; empty if it has none.
    pub(crate) fn name_of(url: &str) -> &str {
        // The text is cut at ASCII bytes, so it stays UTF-8.
        urlindex::host(url.as_bytes()).and_then(|host| std::str::from_utf8(host).ok()).unwrap_or("")
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.names.find(name)
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(number)
    }

    /// The number of a host, added if unknown.
    pub(crate) fn enter(&mut self, name: &str) -> u32 {
        self.find(name).unwrap_or_else(|| {
            self.names.add(name);
            push(&mut self.records, Record::default());
            self.records.len() as u32 - 1
        })
    }

    pub(crate) fn len(&self) -> u32 {
        self.records.len() as u32
    }

    fn record(&self, number: u32) -> &Record {
        &self.records[number as usize]
    }

    fn active(&self, number: u32) -> Option<&Host> {
        self.record(number).active().map(|at| &self.active[at])
    }

    fn active_mut(&mut self, number: u32) -> Option<&mut Host> {
        self.record(number).active().map(|at| &mut self.active[at])
    }

    /// A host, made active if it is not.
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Host {
        let at = self.record(number).active().unwrap_or_else(|| self.make_active(number));
        &mut self.active[at]
    }

    fn make_active(&mut self, number: u32) -> usize {
        let (mut host, wakes_ms) = (Host::default(), self.wakes_ms(number));
        let record = &mut self.records[number as usize];
        (host.began_ms, host.wakes_ms) = (record.began_ms(), wakes_ms);
        let head = Some(record.head.get()).filter(|head| *head > 0);
        if record.ready > 0 || head.is_some() {
            let entries = head.into_iter().collect();
            host.windows[record.kind()] = Window::from_parts(record.ready, record.left_out.get(), entries);
            host.offered[record.kind()] = record.head_place().filter(|_| record.is(Record::OFFERED));
        }
        let at = self.free.pop().map_or(self.active.len(), |at| at as usize);
        match self.active.get_mut(at) {
            Some(free) => *free = host,
            None => push(&mut self.active, host),
        }
        *record = Record { pages: record.pages, flags: Record::ACTIVE, ..Record::default() };
        record.head = Six::of(at as u64).unwrap_or_default();
        at
    }

    /// Turns an active host into a record, if it is idle.
    pub(crate) fn settle(&mut self, number: u32, clock_ms: i64) {
        let Some(host) = self.active(number).filter(|host| host.is_idle(clock_ms)) else { return };
        let pages = self.record(number).pages;
        let mut settled = Record { pages, ..Record::default() };
        let Some(began) = Record::packed(host.began_ms) else { return };
        settled.began = began;
        let kind = usize::from(host.windows[0].ready == 0 && host.windows[1].ready > 0);
        let (window, offered) = (&host.windows[kind], host.offered[kind]);
        if host.windows[1 - kind].ready > 0 || window.ready > 0 && window.entries() > 1 {
            return;
        }
        if window.ready > 0 {
            let (ready, left_out, entries) = window.parts();
            let head = entries.first().map_or(Some(Six::default()), |head| Six::of(*head));
            let (Some(head), Some(left_out)) = (head, Six::of(left_out)) else { return };
            (settled.ready, settled.head, settled.left_out) = (ready, head, left_out);
            settled.set(Record::REFRESHES, kind == 1);
            settled.set(Record::OFFERED, offered.is_some());
            if offered.is_some() && offered != settled.head_place() {
                return;
            }
        }
        if let Some(wakes_ms) = host.wakes_ms {
            settled.set(Record::SLEEPS, true);
            if wakes_ms != delayed(host.began_ms, self.delay_ms) {
                return;
            }
        }
        if let Some(at) = self.record(number).active() {
            self.records[number as usize] = settled;
            self.active[at] = Host::default();
            push(&mut self.free, at as u32);
        }
    }

    pub(crate) fn pages(&self, number: u32) -> u32 {
        self.record(number).pages
    }

    pub(crate) fn set_pages(&mut self, number: u32, pages: u32) {
        self.records[number as usize].pages = pages;
    }

    pub(crate) fn limits(&self, number: u32) -> &Limits {
        self.active(number).map_or(&Limits::NONE, Host::limits)
    }

    pub(crate) fn in_flight(&self, number: u32) -> u32 {
        self.active(number).map_or(0, |host| host.in_flight)
    }

    pub(crate) fn began_ms(&self, number: u32) -> Option<i64> {
        self.active(number).map_or_else(|| self.record(number).began_ms(), |host| host.began_ms)
    }

    pub(crate) fn next_at_ms(&self, number: u32) -> i64 {
        match self.active(number) {
            Some(host) => host.next_at_ms(self.delay_ms),
            None => delayed(self.record(number).began_ms(), self.delay_ms),
        }
    }

    /// Time of its entry in the heap of sleeping hosts.
    pub(crate) fn wakes_ms(&self, number: u32) -> Option<i64> {
        let record = self.record(number);
        let by_delay = || record.is(Record::SLEEPS).then(|| delayed(record.began_ms(), self.delay_ms));
        self.active(number).map_or_else(by_delay, |host| host.wakes_ms)
    }

    /// Records the time of its entry in the heap of sleeping hosts, or that it has none.
    pub(crate) fn set_wakes_ms(&mut self, number: u32, wakes_ms: Option<i64>) {
        match self.active_mut(number) {
            Some(host) => host.wakes_ms = wakes_ms,
            None => self.records[number as usize].set(Record::SLEEPS, wakes_ms.is_some()),
        }
    }

    /// Its place among the open hosts, if it is one.
    pub(crate) fn offered(&self, number: u32, kind: usize) -> Option<u16> {
        let record = self.record(number);
        let by_head = || record.head_place().filter(|_| record.is(Record::OFFERED) && record.kind() == kind);
        self.active(number).map_or_else(by_head, |host| host.offered[kind])
    }

    /// Records that it is among the open hosts by its best entry.
    pub(crate) fn set_offered(&mut self, number: u32, kind: usize, place: u16) {
        match self.active_mut(number) {
            Some(host) => host.offered[kind] = Some(place),
            None => self.records[number as usize].set(Record::OFFERED, true),
        }
    }

    /// Number of its queued pages.
    pub(crate) fn ready(&self, number: u32) -> u32 {
        self.active(number).map_or_else(|| self.record(number).ready, Host::ready)
    }

    /// Its best page, judged by the entry alone ([`Window::top_entry`]).
    pub(crate) fn top_entry(&self, number: u32, kind: usize) -> Top {
        let record = self.record(number);
        match (self.active(number), record.head_place()) {
            (Some(host), _) => host.windows[kind].top_entry(),
            (None, _) if record.kind() != kind || record.ready == 0 => Top::Empty,
            (None, Some(place)) => Top::Place(place),
            (None, None) if record.left_out.get() > 0 => Top::LeftOut,
            (None, None) => Top::Empty,
        }
    }

    /// Queues a page; returns the number of entries added.
    pub(crate) fn put(&mut self, page: u32, kind: usize, row: &Row, shares: &Shares) -> usize {
        let record = &mut self.records[row.host as usize];
        if record.is(Record::ACTIVE) {
            return usize::from(self.get_mut(row.host).windows[kind].put(page, row, shares));
        }
        if let Some(is_in) = record.put(kind, entry(page, row, shares)) {
            return usize::from(is_in);
        }
        ACTIVE_ENTRIES + usize::from(self.get_mut(row.host).windows[kind].put(page, row, shares))
    }

    /// Adds another entry for a queued page that has risen; returns the number of entries added.
    pub(crate) fn put_again(&mut self, page: u32, kind: usize, row: &Row, table: &mut Table) -> Result<usize> {
        let record = &mut self.records[row.host as usize];
        let was_active = record.is(Record::ACTIVE);
        if !was_active && let Some(is_in) = record.put_again(kind, entry(page, row, &table.shares)) {
            return Ok(usize::from(is_in));
        }
        let owner = Owner { host: row.host, kind };
        let is_in = self.get_mut(row.host).windows[kind].put_again(owner, page, row, table)?;
        Ok(usize::from(is_in) + if was_active { 0 } else { ACTIVE_ENTRIES })
    }

    /// Subtracts a page from the count of a queue.
    pub(crate) fn withdraw(&mut self, number: u32, kind: usize) {
        let record = &mut self.records[number as usize];
        match record.is(Record::ACTIVE) {
            true => self.get_mut(number).windows[kind].withdraw(),
            // Saturating: the counts of a damaged snapshot may be wrong.
            false => record.ready = record.ready.saturating_sub(u32::from(record.kind() == kind)),
        }
    }

    /// Records that it has answered.
    pub(crate) fn answered(&mut self, number: u32) {
        if let Some(host) = self.active_mut(number) {
            host.answered();
        }
    }

    /// Records when the last fetch from a host began. The host must be offered anew afterwards.
    pub(crate) fn set_began_ms(&mut self, number: u32, began_ms: Option<i64>) {
        let record = &mut self.records[number as usize];
        match Record::packed(began_ms) {
            Some(began) if !record.is(Record::ACTIVE) => {
                record.set(Record::SLEEPS, record.is(Record::SLEEPS) && record.began_ms() == began_ms);
                record.began = began;
            }
            _ => self.get_mut(number).began_ms = began_ms,
        }
    }

    /// The limits of all hosts that have any.
    pub(crate) fn all_limits(&mut self) -> impl Iterator<Item = &mut Limits> {
        self.active.iter_mut().filter_map(Host::own_limits)
    }

    /// A queue as a snapshot stores it: number of pages, best left-out entry or 0, and all
    /// entries.
    pub(crate) fn queue(&self, number: u32, kind: usize) -> (u32, u64, Cow<'_, [u64]>) {
        let record = self.record(number);
        match self.active(number) {
            Some(host) => {
                let (ready, left_out, entries) = host.windows[kind].parts();
                (ready, left_out, Cow::Borrowed(entries))
            }
            None if record.kind() != kind => (0, 0, Cow::default()),
            None => {
                let head = Some(record.head.get()).filter(|head| *head > 0);
                (record.ready, record.left_out.get(), Cow::Owned(head.into_iter().collect()))
            }
        }
    }

    /// Replaces a queue by one from a snapshot.
    pub(crate) fn set_queue(&mut self, number: u32, kind: usize, window: Window) {
        self.get_mut(number).windows[kind] = window;
        self.settle(number, 0);
    }

    /// The pages of a host that wait for their first fetch, in order. O(pages) if some are left
    /// out of its queue.
    pub(crate) fn queued(&self, number: u32, table: &mut Table) -> Result<Vec<u32>> {
        let (_, left_out, entries) = self.queue(number, 0);
        let mut pages: Vec<u32> = match left_out {
            0 => entries.iter().map(|entry| page_of(*entry)).collect(),
            _ => (0..table.len()).collect(),
        };
        pages.sort_unstable();
        pages.dedup();
        let mut queued = Vec::new();
        for page in pages {
            let row = table.get(page)?;
            if row.host == number && row.status() == Status::Ready {
                queued.push(page);
            }
        }
        Ok(queued)
    }

    /// If there are more than `most` entries, trims the longest queues until half of `most`
    /// remain. An active host's own memory counts as entries. O(hosts).
    pub(crate) fn trim(&mut self, most: usize, clock_ms: i64) {
        let records = self.records.iter().filter(|record| !record.is(Record::ACTIVE) && record.head.get() > 0).count();
        let weight = |entries: usize| entries + if entries > 1 { ACTIVE_ENTRIES } else { 0 };
        let sum = |each: usize| records + self.active.iter().map(|host| weight(host.entries(each))).sum::<usize>();
        if sum(usize::MAX) <= most {
            return;
        }
        let (mut fits, mut not) = (1, most);
        while fits + 1 < not {
            let middle = fits.midpoint(not);
            if sum(middle) <= most / 2 { fits = middle } else { not = middle }
        }
        self.active.iter_mut().flat_map(|host| &mut host.windows).for_each(|window| window.trim(fits));
        (0..self.len()).for_each(|number| self.settle(number, clock_ms));
        self.compact();
    }

    /// Frees the slots of hosts that are no longer active. O(hosts), if those are most.
    pub(crate) fn compact(&mut self) {
        if self.free.len() <= self.active.len() / 2 + SLACK {
            return;
        }
        let mut active = Vec::with_capacity(self.active.len() - self.free.len());
        for record in &mut self.records {
            if let Some(at) = record.active() {
                record.head = Six::of(active.len() as u64).unwrap_or_default();
                active.push(std::mem::take(&mut self.active[at]));
            }
        }
        (self.active, self.free) = (active, Vec::new());
    }

    /// Empties all queues.
    pub(crate) fn clear_queues(&mut self) {
        self.records.iter_mut().filter(|record| !record.is(Record::ACTIVE)).for_each(Record::clear);
        self.active.iter_mut().for_each(|host| host.windows = Default::default());
    }

    /// Withdraws all hosts from the open and the sleeping hosts.
    pub(crate) fn withdraw_offers(&mut self) {
        let records = self.records.iter_mut().filter(|record| !record.is(Record::ACTIVE));
        records.for_each(|record| record.set(Record::OFFERED | Record::SLEEPS, false));
        self.active.iter_mut().for_each(Host::withdraw_offers);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let tables = self.records.capacity() * size_of::<Record>()
            + self.active.capacity() * size_of::<Host>()
            + self.free.capacity() * size_of::<u32>();
        self.names.memory_bytes() + tables as u64 + self.active.iter().map(Host::memory_bytes).sum::<u64>()
    }

    #[cfg(test)]
    pub(crate) fn actives(&self) -> usize {
        self.active.len() - self.free.len()
    }
}
