//! Queries of pages, hosts, importance and statistics. They change nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::credit::TOTAL;
use crate::error::{Error, Result};
use crate::frontier::Frontier;
use crate::link::{key_of, url_of};
use crate::links::Links;
use crate::marks::Status;
use crate::outcome::{FailureKind, PageId};
use crate::row::Row;
use crate::texts;
use crate::trust::Standing;
use crate::view::{HostState, PageBrief, PageState, PageStatus, Stats};

/// A status, a last failure, and the number of pages with both.
type Count = (PageStatus, Option<FailureKind>, u32);

impl Frontier {
    /// The state of a page; `None` if its canonical URL was never discovered. At most three reads
    /// from disk.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn page(&self, key: impl AsRef<str>) -> Result<Option<PageState>> {
        let (state, key) = (&self.state, key.as_ref());
        let Some(page) = state.index.find(state.index.fingerprint(key))? else { return Ok(None) };
        Ok(Some(self.state_of(page, &state.table.peek(page)?)?).filter(|state| state.key == key))
    }

    /// The states of all pages for which `wanted` is true, in the order of discovery. One read for
    /// each page returned, and one scan of all rows. Ends after an error.
    pub fn list(&self, wanted: impl Fn(&PageBrief<'_>) -> bool) -> impl Iterator<Item = Result<PageState>> {
        self.list_of(0..self.pages(), wanted)
    }

    /// As [`Frontier::list`], of the pages with these numbers only: a part of a long list.
    ///
    /// ```
    /// use frontier::{Frontier, FrontierOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("frontier");
    /// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
    /// frontier.seed(&["http://example.com/", "http://example.org/"], 0).unwrap();
    /// let mut second = frontier.list_of(1..9, |_| true);
    /// assert_eq!(second.next().unwrap().unwrap().url, "http://example.org/");
    /// assert!(second.next().is_none());
    /// ```
    pub fn list_of(
        &self,
        pages: Range<u32>,
        wanted: impl Fn(&PageBrief<'_>) -> bool,
    ) -> impl Iterator<Item = Result<PageState>> {
        let mut failed = false;
        let rows = pages.clone().zip(self.state.table.scan_from(pages.start));
        let states = rows.filter_map(move |(page, row)| match row {
            Ok(row) => wanted(&self.brief(&row)).then(|| self.state_of(page, &row)),
            Err(error) => Some(Err(error)),
        });
        states.take_while(move |state| !std::mem::replace(&mut failed, state.is_err()))
    }

    /// Number of pages by status and last failure. O(pages).
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn counts(&self) -> Result<Vec<Count>> {
        let mut counts: Vec<Count> = Vec::new();
        for row in self.state.table.scan_from(0) {
            let PageBrief { status, last_failure, .. } = self.brief(&row?);
            match counts.iter_mut().find(|(known, failure, _)| (*known, *failure) == (status, last_failure)) {
                Some((_, _, count)) => *count += 1,
                None => counts.push((status, last_failure, 1)),
            }
        }
        Ok(counts)
    }

    fn brief(&self, row: &Row) -> PageBrief<'_> {
        let status = match row.status() {
            Status::Ready => PageStatus::Queued,
            Status::Waiting => PageStatus::Retrying,
            Status::InFlight | Status::Refreshing => PageStatus::InFlight,
            Status::Fetched => PageStatus::Fetched,
            Status::Due => PageStatus::Due,
            Status::Gone => PageStatus::Gone,
        };
        let host = self.state.hosts.name(row.host);
        PageBrief { status, host, is_seed: row.marks.is_seed(), last_failure: row.marks.failure() }
    }

    fn state_of(&self, page: u32, row: &Row) -> Result<PageState> {
        let (state, marks) = (&self.state, row.marks);
        let (depth, text) = state.texts.read(page)?;
        let brief = self.brief(row);
        let waits = matches!(brief.status, PageStatus::Retrying | PageStatus::Fetched);
        Ok(PageState {
            page: PageId::new(page),
            url: url_of(&text).to_owned(),
            key: key_of(&text).to_owned(),
            status: brief.status,
            is_seed: marks.is_seed(),
            is_vouched_for: row.trust.standing() != Standing::None,
            depth,
            host: brief.host.to_owned(),
            host_failing: state.hosts.limits(row.host).down,
            credit: row.credit as f64 / TOTAL as f64,
            importance: state.totals.importance(&row.account()),
            failed_attempts: marks.attempts(),
            last_failure: marks.failure(),
            due_ms: Some(row.due_s).filter(|due_s| waits && *due_s > 0).map(|due_s| i64::from(due_s) * 1000),
        })
    }

    /// Returns whether a canonical URL was discovered, by its fingerprint alone. At most one read
    /// from disk, and mostly none for an unknown URL.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn knows(&self, key: impl AsRef<str>) -> Result<bool> {
        let index = &self.state.index;
        Ok(index.find(index.fingerprint(key.as_ref()))?.is_some())
    }

    /// Number of known pages; all page numbers are below it.
    pub fn pages(&self) -> u32 {
        self.state.table.len()
    }

    /// The URL to fetch for a page. One read from disk.
    ///
    /// # Errors
    /// `NoSuchPage`; `Corrupt`, `Io`.
    pub fn url(&self, page: PageId) -> Result<String> {
        if page.number() >= self.pages() {
            return Err(Error::NoSuchPage { page: page.number() });
        }
        Ok(url_of(&self.state.texts.read(page.number())?.1).to_owned())
    }

    /// The canonical URLs of all pages from `first` on, in the order of discovery, e.g. to fill a
    /// seen set. Ends after an error.
    pub fn urls_from(&self, first: PageId) -> impl Iterator<Item = Result<(PageId, String)>> {
        let mut next = first.number();
        let mut group = Vec::<(u32, String)>::new().into_iter();
        std::iter::from_fn(move || {
            loop {
                if let Some((page, text)) = group.next() {
                    if page < next {
                        continue;
                    }
                    next = page + 1;
                    return Some(Ok((PageId::new(page), key_of(&text).to_owned())));
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

    /// Number of known pages of a host. O(1).
    pub fn pages_of(&self, host: impl AsRef<str>) -> u32 {
        self.state.hosts.find(host.as_ref()).map_or(0, |number| self.state.hosts.pages(number))
    }

    /// Known hosts, in the order of discovery.
    pub fn hosts(&self) -> impl Iterator<Item = HostState> {
        let hosts = &self.state.hosts;
        (0..hosts.len()).map(|number| HostState {
            host: hosts.name(number).to_owned(),
            pages: hosts.pages(number),
            ready: hosts.ready(number),
            in_flight: hosts.in_flight(number),
            next_at_ms: hosts.next_at_ms(number),
            delay_ms: hosts.limits(number).delay_ms.unwrap_or(hosts.delay_ms),
            failing: hosts.limits(number).down,
        })
    }

    /// The `limit` most important pages, best first, with their importance.
    ///
    /// O(pages · log limit) time, 16 bytes of memory for each of the `limit` pages.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn by_importance(&self, limit: usize) -> Result<Vec<(PageId, f64)>> {
        // Importances are not negative, so their bits order them; ties go to the older page.
        let mut best: BinaryHeap<Reverse<(u64, Reverse<u32>)>> = BinaryHeap::new();
        for (row, page) in self.state.table.scan_from(0).zip(0..) {
            best.push(Reverse((self.state.totals.importance(&row?.account()).to_bits(), Reverse(page))));
            if best.len() > limit {
                best.pop();
            }
        }
        let sorted = best.into_sorted_vec().into_iter();
        Ok(sorted.map(|Reverse((bits, Reverse(page)))| (PageId::new(page), f64::from_bits(bits))).collect())
    }

    /// All credit, in units: the sum over all pages, the virtual page and the undelivered shares.
    /// It never changes. O(pages).
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub fn credit_units(&self) -> Result<u128> {
        let mut sum = u128::from(self.state.totals.virtual_credit) + self.state.delivery.credit();
        for row in self.state.table.scan_from(0) {
            sum += u128::from(row?.credit);
        }
        Ok(sum)
    }

    /// Counts and sizes. O(hosts).
    pub fn stats(&self) -> Stats {
        let state = &self.state;
        let counted = |status: Status| state.table.count(|one| one == status);
        Stats {
            pages: state.table.len(),
            queued: counted(Status::Ready) + counted(Status::Waiting),
            due: counted(Status::Due),
            in_flight: self.in_flight(),
            fetched: state.table.count(Status::is_fetched),
            gone: counted(Status::Gone),
            hosts: state.hosts.len(),
            fetches: state.told.fetches,
            refreshes: state.told.refreshes,
            failures: state.told.failures,
            virtual_credit: state.totals.virtual_credit as f64 / TOTAL as f64,
            turns: state.totals.turns,
            memory_bytes: self.memory_bytes(),
            disk_bytes: state.texts.bytes()
                + state.index.disk_bytes()
                + state.table.disk_bytes()
                + state.links.as_ref().map_or(0, Links::bytes)
                + self.snapshot_bytes
                + self.journal_bytes(),
            journal_bytes: self.journal_bytes(),
        }
    }

    /// Bytes of memory of the frontier. O(hosts).
    pub fn memory_bytes(&self) -> u64 {
        self.state.memory_bytes() + self.other_memory_bytes()
    }

    /// The longest URL accepted, in bytes.
    pub const URL_BYTES_MAX: usize = texts::URL_BYTES_MAX;
}
