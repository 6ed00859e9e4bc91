//! The public interface: a frontier in a directory.
//!
//! | file | what it is |
//! |---|---|
//! | `frontier.snapshot` | state at the start of a journal, and that journal's number ([`crate::snapshot`]) |
//! | `frontier.N.journal` | events since the snapshot ([`crate::journal`]) |
//! | `frontier.pages` | a row for each page, as of the snapshot ([`crate::table`]) |
//! | `frontier.N.run` | the index of URLs, but for those found last ([`crate::index`]) |
//! | `frontier.urls` | URL texts ([`crate::texts`]) |
//! | `frontier.N.links` | lists of links ([`crate::links`]), unless there are no virtual visits |
//! | `frontier.lock` | the writer's lock |
//!
//! An event changes memory at once and is durable after [`Frontier::commit`]. When the journal
//! exceeds a fraction of the last snapshot (and an option), a commit replaces both: it syncs the
//! URLs, creates the next journal, replaces the snapshot by one that names it, and removes the old
//! journal. A crash in between leaves the old pair or the new one.

mod arriving;
mod claiming;
mod clock;
mod committing;
mod copying;
mod failing;
mod hinting;
mod opening;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use filemap_io::{Dir, Latch, Lock, StorageError};

use crate::discover::sort_links;
use crate::error::{Error, Fault, Result};
use crate::failpoint::{Failpoint, planted};
use crate::journal::Journal;
use crate::link::{key_of, url_of};
use crate::marks::Status;
use crate::options::FrontierOptions;
use crate::outcome::{Assignment, Done, Fetched, Next, PageId};
use crate::queue::Early;
use crate::record::{ALL_LOST, Record};
use crate::recrawl::{self, due_s, interval_ms};
use crate::state::State;
use crate::texts::URL_BYTES_MAX;

/// Bound on page numbers: all are below it.
const PAGES_MAX: usize = u32::MAX as usize - 1;

/// A crawler's frontier: see the crate's documentation.
///
/// ```
/// use frontier::{Fetched, Frontier, FrontierOptions, Next};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
/// assert_eq!(assignment.url, "http://example.com/");
/// let links = ["http://example.com/a", "http://example.org/"];
/// let fetched = Fetched { fetched_at_ms: 0, links: &links, ..Fetched::default() };
/// assert_eq!(frontier.done(assignment.page, &fetched).unwrap().new_links, 2);
/// frontier.commit().unwrap();
/// frontier.close().unwrap();
/// assert_eq!(Frontier::open(&path, FrontierOptions::new()).unwrap().pages(), 3);
/// ```
#[derive(Debug)]
pub struct Frontier {
    dir: Arc<dyn Dir>,
    options: FrontierOptions,
    id: [u8; 16],
    pub(crate) state: State,
    pub(crate) journal: Journal,
    pub(crate) snapshot_bytes: u64,
    /// Pages in flight.
    in_flight: HashMap<u32, Flight>,
    /// Number of pages handed out by this handle: first fetches, refreshes.
    handed: [u64; 2],
    poison: Latch,
    /// True if the frontier was not closed cleanly: the last fetches of hosts are unknown.
    must_rest: bool,
    /// True if a time was given since opening.
    has_time: bool,
    _lock: Box<dyn Lock>,
}

/// A page in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    depth: u16,
    /// Time of its hand-out or of the start of its fetch; start of the previous fetch of its host.
    began_ms: i64,
    before_ms: Option<i64>,
}

impl Frontier {
    fn with(
        dir: Arc<dyn Dir>,
        options: FrontierOptions,
        id: [u8; 16],
        mut state: State,
        journal: Journal,
        snapshot_bytes: u64,
        lock: Box<dyn Lock>,
    ) -> Result<Frontier> {
        state.go_live().map_err(|fault| fault.at(journal.name(), 0))?;
        let (in_flight, handed, poison) = (HashMap::new(), [0; 2], Latch::default());
        Ok(Frontier {
            dir,
            options,
            id,
            state,
            journal,
            snapshot_bytes,
            in_flight,
            handed,
            poison,
            must_rest: false,
            has_time: false,
            _lock: lock,
        })
    }

    /// Enters start pages, which share the virtual page's credit (at first all credit). Known
    /// pages become seeds too, and given-up ones are queued again; other seeds stay as they are.
    /// Returns the number of new pages.
    ///
    /// # Errors
    /// `UrlLength`, with nothing entered; `Full`, `Poisoned`, `Corrupt`, `Io`.
    pub fn seed(&mut self, urls: &[impl AsRef<str>], now_ms: i64) -> Result<u64> {
        self.poison.check()?;
        self.check_room(urls.len())?;
        let urls = urls.iter().map(AsRef::as_ref);
        if let Some(url) = urls.clone().find(|url: &&str| key_of(url).is_empty() || url.len() > URL_BYTES_MAX) {
            return Err(Error::UrlLength { len: url.len(), max: URL_BYTES_MAX });
        }
        self.advance(now_ms)?;
        let (mut known, mut new, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for url in urls {
            let fingerprint = self.state.index.fingerprint(key_of(url));
            match self.state.index.find(fingerprint)? {
                Some(page) => {
                    let row = self.state.table.peek(page)?;
                    if !row.marks.is_seed() || row.status() == Status::Gone {
                        known.push(page);
                    }
                }
                None if seen.insert(fingerprint) => new.push(url),
                None => {}
            }
        }
        known.sort_unstable();
        known.dedup();
        let count = new.len() as u64;
        if count > 0 || !known.is_empty() {
            self.tell(&Record::Seeds { known, new })?;
        }
        Ok(count)
    }

    /// The next page to fetch. It is in flight until [`Frontier::done`], [`Frontier::failed`] or
    /// [`Frontier::release`].
    ///
    /// O(log of the hosts and of the host's pages), one read of a URL from disk.
    ///
    /// # Errors
    /// `Poisoned`, `Corrupt`, `Io`.
    pub fn next(&mut self, now_ms: i64) -> Result<Next> {
        self.poison.check()?;
        self.begin_handing_out(now_ms)?;
        let all = (self.handed[0] + self.handed[1] + 1) as f64;
        let wants_refresh = (self.handed[1] as f64) < self.options.refresh_share * all;
        for must_refill in [false, true] {
            let refilled = self.state.queues(|queue, view| queue.refill(must_refill, view));
            if !self.poison.note(refilled)? && must_refill {
                break;
            }
            for kind in [usize::from(wants_refresh), usize::from(!wants_refresh)] {
                let taken = self.state.queues(|queue, view| queue.take(kind, view));
                let Some((page, before_ms)) = self.poison.note(taken)? else { continue };
                self.handed[kind] += 1;
                return self.assigned(page, before_ms, kind == 1);
            }
        }
        let wakes = self.state.queues(|queue, view| queue.wakes_ms(view));
        Ok(match self.poison.note(wakes)? {
            Some(until_ms) => Next::Wait { until_ms },
            None if self.in_flight.is_empty() => Next::Empty,
            None => Next::InFlight,
        })
    }

    /// Hands out a page before its turn, if its host's delay, rest or hold is over and a
    /// connection is free; else returns `Wait` or `InFlight`, as [`Frontier::next`] does. A page
    /// that was given up is queued again, one that was fetched is fetched again.
    ///
    /// One read of a URL from disk.
    ///
    /// # Errors
    /// `NoSuchPage`; `Poisoned`, `Corrupt`, `Io`.
    pub fn next_of(&mut self, page: PageId, now_ms: i64) -> Result<Next> {
        self.poison.check()?;
        let number = page.number();
        if number >= self.state.table.len() {
            return Err(Error::NoSuchPage { page: number });
        }
        self.begin_handing_out(now_ms)?;
        let status = self.state.table.peek(number)?.status();
        if matches!(status, Status::InFlight | Status::Refreshing) {
            return Ok(Next::InFlight);
        }
        if status == Status::Gone {
            self.tell(&Record::Retried { pages: vec![number] })?;
        }
        let taken = self.state.queues(|queue, view| queue.take_page(number, view));
        match self.poison.note(taken)? {
            Early::Taken(before_ms) => self.assigned(number, before_ms, status.is_fetched()),
            Early::Wait(until_ms) => Ok(Next::Wait { until_ms }),
            Early::InFlight => Ok(Next::InFlight),
        }
    }

    fn begin_handing_out(&mut self, now_ms: i64) -> Result<()> {
        if self.journal.is_closed() {
            // The journal no longer ends with a clean close from here on.
            self.journal.append(&Record::Opened);
            let committed = self.journal.commit();
            self.poison.note(committed)?;
        }
        self.advance(now_ms)
    }

    /// The assignment of a page that was taken from its queue.
    fn assigned(&mut self, page: u32, before_ms: Option<i64>, is_refresh: bool) -> Result<Next> {
        let (depth, text) = match self.state.texts.read(page) {
            Ok(read) => read,
            Err(error) => {
                self.put_back(page)?;
                return Err(error);
            }
        };
        let row = self.state.table.get(page);
        let row = self.poison.note(row)?;
        self.note_begin(page, row.host);
        let began_ms = self.state.queue.clock_ms();
        self.in_flight.insert(page, Flight { depth, began_ms, before_ms });
        Ok(Next::Fetch(Assignment {
            page: PageId::new(page),
            url: url_of(&text).to_owned(),
            key: key_of(&text).to_owned(),
            depth,
            host_delay_ms: self.state.hosts.limits(row.host).delay_ms,
            failed_attempts: row.marks.attempts(),
            is_refresh,
            is_seed: row.marks.is_seed(),
        }))
    }

    /// Records a fetch and enters the page's links.
    ///
    /// O(links), plus the blocks of rows by which a round advances to deliver credit. The call
    /// that begins a round, and the one that ends it, also read the lists of links for its virtual
    /// visits: with eight visits and ten links a page, one list per 90 known pages, at most one
    /// per 11.
    ///
    /// # Errors
    /// `NotInFlight`, `Full`, `Poisoned`; `Corrupt`, `Io`: if a run, the page's row or the next
    /// lists of links cannot be read, the page stays in flight; after any later error all calls
    /// return `Poisoned`.
    pub fn done(&mut self, page: PageId, fetched: &Fetched<'_>) -> Result<Done> {
        self.poison.check()?;
        let number = page.number();
        let depth = self.in_flight.get(&number).ok_or(Error::NotInFlight { page: number })?.depth;
        self.check_room(fetched.links.len())?;
        let links = if fetched.is_duplicate { &[] } else { fetched.links };
        let depth = depth.saturating_add(1);
        let (mut done, known, new) = sort_links(&mut self.state, &self.options, number, depth, links)?;
        let marks = self.state.table.peek(number)?.marks;
        let age = match (marks.status(), fetched.changed) {
            (Status::Refreshing, Some(true)) => recrawl::shorter(self.options.recrawl, marks.age()),
            (Status::Refreshing, Some(false)) => recrawl::longer(self.options.recrawl, marks.age()),
            _ => marks.age(),
        };
        let due_s = self.options.recrawl.map_or(0, |recrawl| due_s(fetched.fetched_at_ms, interval_ms(&recrawl, age)));
        let lost = match fetched.is_barren {
            true => ALL_LOST,
            false => done.over_depth + done.over_host_budget + done.over_length,
        };
        done.first_new = self.state.table.len();
        (done.known_links, done.new_links) = (known.len() as u32, new.len() as u32);
        self.tell(&Record::Done { page: number, due_s, age, lost, known, depth, new })?;
        self.in_flight.remove(&number);
        self.landed(number, fetched.fetched_at_ms)?;
        Ok(done)
    }

    /// Returns a page unfetched to its queue. Its host's delay still runs.
    ///
    /// # Errors
    /// `NotInFlight`; `Corrupt`, `Io`.
    pub fn release(&mut self, page: PageId) -> Result<()> {
        let number = page.number();
        self.in_flight.remove(&number).ok_or(Error::NotInFlight { page: number })?;
        self.put_back(number)
    }

    /// Returns a page to its queue for which no request was sent: it does not start its host's
    /// delay.
    ///
    /// # Errors
    /// `NotInFlight`; `Corrupt`, `Io`.
    pub fn put_off(&mut self, page: PageId) -> Result<()> {
        let number = page.number();
        let flight = self.in_flight.remove(&number).ok_or(Error::NotInFlight { page: number })?;
        self.not_begun(number, flight)?;
        self.put_back(number)
    }

    fn put_back(&mut self, page: u32) -> Result<()> {
        let put = self.state.queues(|queue, view| {
            let status = match view.table.get(page)?.status() {
                Status::Refreshing => Status::Due,
                _ => Status::Ready,
            };
            view.table.set_status(page, status)?;
            queue.put(page, view)
        });
        self.poison.note(put)?;
        self.landed(page, 0)
    }

    /// Sets a host's delay between the starts of two fetches (robots.txt's crawl-delay); `None`
    /// restores the delay of the options. Stored on disk.
    ///
    /// # Errors
    /// `UrlLength`, `Poisoned`, `Io`.
    pub fn host_delay(&mut self, host: impl AsRef<str>, delay_ms: Option<u64>) -> Result<()> {
        self.poison.check()?;
        let host = check_host(host.as_ref())?;
        let known = self.state.hosts.find(host).map(|number| self.state.hosts.limits(number).delay_ms);
        if known.is_some_and(|known| known == delay_ms) {
            return Ok(());
        }
        self.tell(&Record::Delay { host, delay_ms })?;
        // The start of its last fetch may not be recorded, since it had no delay.
        let number = self.state.enter_host(host);
        match (self.state.hosts.began_ms(number), delay_ms.unwrap_or(self.options.delay_ms)) {
            (Some(at_ms), 1..) => self.tell(&Record::HostBegan { host, at_ms }),
            _ => Ok(()),
        }
    }

    /// Holds a host back until a time (`Retry-After`); of two holds the later end counts. Stored
    /// on disk.
    ///
    /// # Errors
    /// `UrlLength`, `Poisoned`, `Io`.
    pub fn host_hold(&mut self, host: impl AsRef<str>, until_ms: i64) -> Result<()> {
        self.poison.check()?;
        let host = check_host(host.as_ref())?;
        let held_ms = self.state.hosts.find(host).map_or(0, |number| self.state.hosts.limits(number).hold_until_ms);
        self.tell(&Record::Hold { host, until_ms: until_ms.max(held_ms) })
    }

    /// Applies a record and appends it to the journal.
    fn tell(&mut self, record: &Record<'_>) -> Result<()> {
        self.state.prepare(record)?;
        if planted(Failpoint::LinksNotTold) {
            let mut record = record.clone();
            if let Record::Done { new, .. } = &mut record {
                new.clear();
            }
            self.journal.append(&record);
        } else {
            self.journal.append(record);
        }
        let applied = self.state.apply(record);
        assert!(!matches!(applied, Err(Fault::Record(_))), "a record of our own cannot be applied: {applied:?}");
        self.poison.note(applied.map_err(|fault| fault.at(self.journal.name(), self.journal.bytes())))?;
        let flushed = self.state.flush_if_full().and_then(|()| self.journal.flush_if_full());
        self.poison.note(flushed)
    }

    fn check_room(&self, urls: usize) -> Result<()> {
        if self.state.table.len() as usize + urls > PAGES_MAX {
            return Err(StorageError::full("the frontier", format!("its maximum is {PAGES_MAX} pages")).into());
        }
        Ok(())
    }

    /// Records when the fetch of a page starts, if its host has a delay.
    fn note_begin(&mut self, page: u32, host: u32) {
        let delay_ms = self.state.hosts.limits(host).delay_ms;
        if delay_ms.unwrap_or(self.options.delay_ms) > 0 {
            self.journal.append(&Record::Began { page, at_ms: self.state.queue.clock_ms() });
        }
    }

    fn landed(&mut self, page: u32, now_ms: i64) -> Result<()> {
        let host = self.host_of(page)?;
        self.state.queues(|queue, view| queue.landed(host, now_ms, view));
        Ok(())
    }

    /// The host of a page.
    fn host_of(&mut self, page: u32) -> Result<u32> {
        let row = self.state.table.get(page);
        Ok(self.poison.note(row)?.host)
    }

    /// Appends a record without applying it.
    #[cfg(test)]
    pub(crate) fn forge(&mut self, record: &Record<'_>) {
        self.journal.append(record);
    }

    pub(crate) fn journal_bytes(&self) -> u64 {
        self.journal.bytes()
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.len() as u32
    }

    pub(crate) fn other_memory_bytes(&self) -> u64 {
        self.journal.memory_bytes()
            + self.state.claims.memory_bytes()
            + (self.in_flight.capacity() * size_of::<(u32, Flight)>()) as u64
    }
}

fn check_host(host: &str) -> Result<&str> {
    match host.len() {
        0..=URL_BYTES_MAX => Ok(host),
        len => Err(Error::UrlLength { len, max: URL_BYTES_MAX }),
    }
}
