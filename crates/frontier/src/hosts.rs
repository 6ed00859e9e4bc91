//! Hosts: names, politeness, and their queues of ready pages.
//!
//! A host has two queues, first fetches and refreshes ([`crate::window`]).

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::grow::push;
use crate::marks::Status;
use crate::outcome::Failing;
use crate::table::Table;
use crate::window::Window;

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
    /// Its queues, by kind.
    pub(crate) windows: [Window; 2],
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
            windows: Default::default(),
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

    /// Empties its queue of first fetches, of which no page is left.
    pub(crate) fn forget_queued(&mut self) {
        (self.windows[0], self.offered[0]) = (Window::default(), None);
    }

    /// It has answered.
    pub(crate) fn answered(&mut self) {
        (self.failures, self.down) = (0, None);
    }

    pub(crate) fn ready(&self) -> u32 {
        self.windows[0].ready + self.windows[1].ready
    }

    /// Empties the queues.
    pub(crate) fn clear(&mut self) {
        self.windows = Default::default();
    }

    /// Takes it from the open and the sleeping hosts.
    pub(crate) fn withdraw_offers(&mut self) {
        (self.offered, self.wakes_ms) = ([None; 2], None);
    }
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

    /// The pages of a host that wait for their first fetch in its queue, in order. O(pages) if some
    /// are left out of it.
    pub(crate) fn queued(&self, number: u32, table: &mut Table) -> Result<Vec<u32>> {
        let pages = self.get(number).windows[0].pages();
        let mut queued = Vec::new();
        for page in pages.unwrap_or_else(|| (0..table.len()).collect()) {
            let row = table.get(page)?;
            if row.host == number && row.status() == Status::Ready {
                queued.push(page);
            }
        }
        Ok(queued)
    }

    /// Leaves out entries of the longest queues until there are half of `most` in all. O(hosts).
    pub(crate) fn trim(&mut self, most: usize) {
        let sum = |each: usize| self.windows().map(|window| window.entries().min(each)).sum::<usize>();
        if sum(usize::MAX) <= most {
            return;
        }
        let (mut fits, mut not) = (1, most);
        while fits + 1 < not {
            let middle = fits.midpoint(not);
            if sum(middle) <= most / 2 { fits = middle } else { not = middle }
        }
        self.hosts.iter_mut().flat_map(|host| &mut host.windows).for_each(|window| window.trim(fits));
    }

    fn windows(&self) -> impl Iterator<Item = &Window> {
        self.hosts.iter().flat_map(|host| &host.windows)
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
        let windows: u64 = self.windows().map(Window::memory_bytes).sum();
        let entries = self.hosts.capacity() * size_of::<Host>() + self.numbers.capacity() * (size_of::<Arc<str>>() + 9);
        windows + entries as u64 + self.name_bytes
    }
}
