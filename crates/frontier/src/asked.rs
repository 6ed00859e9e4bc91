//! Queries: pages, hosts, importance, statistics. Nothing is changed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::credit::TOTAL;
use crate::error::{Error, Result};
use crate::frontier::Frontier;
use crate::links::Links;
use crate::outcome::PageId;
use crate::pages::Status;
use crate::texts;
use crate::trust::Standing;
use crate::view::{HostState, PageState, PageStatus, Stats};

impl Frontier {
    /// State of a page; `None` if its URL was never discovered. One read from disk; O(waiting
    /// pages).
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn page(&self, url: impl AsRef<str>) -> Result<Option<PageState>> {
        let (state, url) = (&self.state, url.as_ref());
        let Some(page) = state.pages.find(state.pages.fingerprint(url)) else { return Ok(None) };
        let (depth, text) = state.texts.read(page)?;
        if text != url {
            return Ok(None);
        }
        let marks = state.pages.marks(page);
        let due_s = || state.queue.timers().find(|(waits, _)| *waits == page).map(|(_, due_s)| due_s);
        let (status, due_s) = match marks.status() {
            Status::Ready => (PageStatus::Queued, None),
            Status::Waiting => (PageStatus::Retrying, due_s()),
            Status::InFlight | Status::Refreshing => (PageStatus::InFlight, None),
            Status::Fetched => (PageStatus::Fetched, due_s()),
            Status::Due => (PageStatus::Due, None),
            Status::Gone => (PageStatus::Gone, None),
        };
        Ok(Some(PageState {
            page: PageId::new(page),
            status,
            is_seed: marks.is_seed(),
            is_vouched_for: state.pages.trust.get(page) != Standing::None,
            depth,
            host: state.hosts.get(state.pages.host(page)).name.to_string(),
            credit: state.ledger.credit(page) as f64 / TOTAL as f64,
            importance: state.ledger.importance(page),
            failed_attempts: marks.attempts(),
            last_failure: marks.failure(),
            due_ms: due_s.map(|due_s| i64::from(due_s) * 1000),
        }))
    }

    /// Number of known pages; page numbers are below it.
    pub fn pages(&self) -> u32 {
        self.state.pages.len()
    }

    /// The URL of a page. One read from disk.
    ///
    /// # Errors
    /// `NoSuchPage`; `Corrupt`, `Io`.
    pub fn url(&self, page: PageId) -> Result<String> {
        if page.number() >= self.pages() {
            return Err(Error::NoSuchPage { page: page.number() });
        }
        Ok(self.state.texts.read(page.number())?.1)
    }

    /// The URLs of all pages from a number on, in the order of discovery, e.g. to bring a seen set
    /// up to date. Ends after an error.
    pub fn urls_from(&self, first: PageId) -> impl Iterator<Item = Result<(PageId, String)>> {
        let mut next = first.number();
        let mut group = Vec::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some((page, url)) = group.next() {
                    if page < next {
                        continue;
                    }
                    next = page + 1;
                    return Some(Ok((PageId::new(page), url)));
                }
                if next >= self.pages() {
                    return None;
                }
                match self.state.texts.group_of(next) {
                    Ok(read) => group = read.into_iter(),
                    Err(error) => {
                        next = u32::MAX;
                        return Some(Err(error));
                    }
                }
            }
        })
    }

    /// Known hosts, in the order of discovery.
    pub fn hosts(&self) -> impl Iterator<Item = HostState> {
        self.state.hosts.iter().map(|host| HostState {
            host: host.name.to_string(),
            pages: host.pages,
            ready: host.ready(),
            in_flight: host.in_flight,
            next_at_ms: host.next_at_ms(self.default_delay_ms()),
            delay_ms: host.delay_ms.unwrap_or(self.default_delay_ms()),
        })
    }

    /// The `limit` most important pages, best first, with their importance.
    ///
    /// O(pages · log limit), with 16 bytes of memory for each of the `limit`.
    pub fn by_importance(&self, limit: usize) -> Vec<(PageId, f64)> {
        // Importances are not negative, so their bits sort as they do; ties go to the older page.
        let mut best: BinaryHeap<Reverse<(u64, Reverse<u32>)>> = BinaryHeap::new();
        for page in 0..self.pages() {
            best.push(Reverse((self.state.ledger.importance(page).to_bits(), Reverse(page))));
            if best.len() > limit {
                best.pop();
            }
        }
        let sorted = best.into_sorted_vec().into_iter();
        sorted.map(|Reverse((bits, Reverse(page)))| (PageId::new(page), f64::from_bits(bits))).collect()
    }

    /// All credit, in units: the sum over all pages and the virtual page, which never changes.
    /// O(pages).
    pub fn credit_units(&self) -> u128 {
        self.state.ledger.sum()
    }

    /// Counts and sizes. O(hosts).
    pub fn stats(&self) -> Stats {
        let state = &self.state;
        let counted = |status: Status| state.pages.count(|one| one == status);
        Stats {
            pages: state.pages.len(),
            queued: counted(Status::Ready) + counted(Status::Waiting),
            due: counted(Status::Due),
            in_flight: self.in_flight(),
            fetched: state.pages.count(Status::is_fetched),
            gone: counted(Status::Gone),
            hosts: state.hosts.len(),
            fetches: state.told.fetches,
            refreshes: state.told.refreshes,
            failures: state.told.failures,
            virtual_credit: state.ledger.totals.virtual_credit as f64 / TOTAL as f64,
            turns: state.ledger.totals.turns,
            memory_bytes: self.memory_bytes(),
            disk_bytes: state.texts.bytes()
                + state.links.as_ref().map_or(0, Links::bytes)
                + self.snapshot_bytes
                + self.journal_bytes(),
            journal_bytes: self.journal_bytes(),
        }
    }

    /// Memory that the frontier holds. O(hosts).
    pub fn memory_bytes(&self) -> u64 {
        self.state.memory_bytes() + self.other_memory_bytes()
    }

    /// The longest URL accepted, in bytes.
    pub const URL_BYTES_MAX: usize = texts::URL_BYTES_MAX;
}
