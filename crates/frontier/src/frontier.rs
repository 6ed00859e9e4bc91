//! The public face: a frontier over a directory.
//!
//! | file | what it is |
//! |---|---|
//! | `frontier.snapshot` | the state at the beginning of a journal ([`crate::snapshot`]); which journal that is |
//! | `frontier.N.journal` | what was told since ([`crate::journal`]) |
//! | `frontier.urls` | URL texts ([`crate::texts`]) |
//! | `frontier.lock` | the writer's lock |
//!
//! Everything that is told changes memory at once and is durable after [`Frontier::commit`]. When the journal is longer than the last
//! snapshot (and than an option), a commit replaces both: the URLs are synced, the next journal is made, the snapshot that names it takes the old
//! one's place, and the old journal is removed. A crash between two of these leaves the old pair or the new one.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use filemap_io::{Access, Dir, Lock, OsDir, create_dir};

use crate::credit::{Ledger, Totals};
use crate::error::{Error, Result};
use crate::files::{self, Poison};
use crate::hosts::Hosts;
use crate::journal::{self, Journal};
use crate::options::{FrontierOptions, Recrawl};
use crate::outcome::{Assignment, Done, Failure, Fetched, Next, PageId};
use crate::pages::{Pages, Status};
use crate::planted::{self, Mistake};
use crate::record::Record;
use crate::snapshot;
use crate::state::{FIRST_AGE, Manners, State};
use crate::texts::{self, Texts, URL_BYTES_MAX};

const LOCK: &str = "frontier.lock";
/// No page has this number or a higher one.
const PAGES_MAX: usize = u32::MAX as usize - 1;

/// Which page next: see the crate's documentation.
#[derive(Debug)]
pub struct Frontier {
    dir: Arc<dyn Dir>,
    options: FrontierOptions,
    manners: Manners,
    id: [u8; 16],
    pub(crate) state: State,
    journal: Journal,
    pub(crate) snapshot_bytes: u64,
    /// What was handed out, with the depth of each.
    in_flight: HashMap<u32, u16>,
    /// How often a page was handed out by this handle: for the first time, and again.
    handed: [u64; 2],
    poison: Poison,
    _lock: Box<dyn Lock>,
}

impl Frontier {
    /// Makes a frontier in a directory, which is created if it is absent.
    ///
    /// # Errors
    /// `Exists`, `InvalidOption`, `Locked`, `Io`.
    pub fn create(path: &Path, options: FrontierOptions) -> Result<Frontier> {
        let name = path.display().to_string();
        create_dir(path).map_err(Error::io("create", &name))?;
        Frontier::create_in(Arc::new(OsDir::open(path).map_err(Error::io("open", &name))?), options)
    }

    /// Opens the frontier in a directory: it is as the last commit left it, and what was in flight is handed out again.
    ///
    /// Reads 32 bytes a page and the journal.
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `NewerFormat`, `InvalidOption`, `Locked`, `Io`.
    pub fn open(path: &Path, options: FrontierOptions) -> Result<Frontier> {
        let name = path.display().to_string();
        Frontier::open_in(Arc::new(OsDir::open(path).map_err(Error::io("open", &name))?), options)
    }

    /// As [`Frontier::create`], in an open directory.
    ///
    /// # Errors
    /// As there.
    pub fn create_in(dir: Arc<dyn Dir>, options: FrontierOptions) -> Result<Frontier> {
        options.check()?;
        let lock = files::lock(&*dir, LOCK)?;
        match dir.open(snapshot::NAME, Access::Read) {
            Ok(_) => return Err(Error::Exists { file: snapshot::NAME.into() }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("open", snapshot::NAME)(error)),
        }
        // What a creation that was cut short has left.
        files::remove(&*dir, texts::NAME)?;
        remove_journals(&*dir, None)?;
        let (id, seed) = (files::new_id(&*dir)?, files::new_id(&*dir)?);
        let seed = u64::from_le_bytes(files::array(&seed, 0));
        let texts = Texts::create(&*dir, id)?;
        let journal = Journal::create(&*dir, id, 1)?;
        dir.sync().map_err(Error::io("sync of the directory", texts::NAME))?;
        let ledger = Ledger::new(Totals::new(options.tax, options.window));
        let state = State::new(options.rent, Pages::new(seed, 0), Hosts::default(), ledger, texts);
        let snapshot_bytes = snapshot::write(&*dir, id, 1, &state)?;
        Ok(Frontier::with(dir, options, id, state, journal, snapshot_bytes, lock))
    }

    /// As [`Frontier::open`], in an open directory.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(dir: Arc<dyn Dir>, options: FrontierOptions) -> Result<Frontier> {
        options.check()?;
        let lock = files::lock(&*dir, LOCK)?;
        // The snapshot may have got its name only in memory, by a handle that could not sync the directory.
        dir.sync().map_err(Error::io("sync of the directory", snapshot::NAME))?;
        let mut found = snapshot::read(&*dir)?;
        let state = &mut found.state;
        let journal = Journal::open(&*dir, found.id, found.journal, |record| {
            let applied = state.apply(&record);
            state.texts.flush_if_full()?;
            Ok(applied)
        })?;
        remove_journals(&*dir, Some(journal.name()))?;
        files::remove_unfinished(&*dir, snapshot::NAME)?;
        let mut frontier = Frontier::with(dir, options, found.id, found.state, journal, found.bytes, lock);
        frontier.state.texts.flush()?;
        frontier.state.check_sum().map_err(|what| Error::corrupt(frontier.journal.name(), 0, what))?;
        Ok(frontier)
    }

    fn with(
        dir: Arc<dyn Dir>,
        options: FrontierOptions,
        id: [u8; 16],
        mut state: State,
        journal: Journal,
        snapshot_bytes: u64,
        lock: Box<dyn Lock>,
    ) -> Frontier {
        let manners = Manners { delay_ms: options.delay_ms, connections: options.connections };
        state.go_live(manners, options.recrawl.is_some());
        let (in_flight, handed, poison) = (HashMap::new(), [0; 2], Poison::default());
        Frontier { dir, options, manners, id, state, journal, snapshot_bytes, in_flight, handed, poison, _lock: lock }
    }

    /// Enters start pages; they share the virtual page's credit, which is all of it in the beginning. Returns how many were new: those that
    /// were known become seeds too. To seed again with what is a seed already changes nothing.
    ///
    /// # Errors
    /// `UrlLength`, with nothing entered; `Full`, `Poisoned`, `Io`.
    pub fn seed(&mut self, urls: &[&str], now_ms: u64) -> Result<u64> {
        self.poison.check()?;
        self.check_room(urls.len())?;
        if let Some(url) = urls.iter().find(|url| url.is_empty() || url.len() > URL_BYTES_MAX) {
            return Err(Error::UrlLength { len: url.len(), max: URL_BYTES_MAX });
        }
        self.advance(now_ms);
        let (mut known, mut new, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for url in urls {
            let fingerprint = self.state.pages.fingerprint(url);
            match self.state.pages.find(fingerprint) {
                Some(page) if self.state.pages.marks(page).is_seed() => {}
                Some(page) => known.push(page),
                None if seen.insert(fingerprint) => new.push(*url),
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

    /// What to fetch now. The page is in flight until its outcome is told.
    ///
    /// O(log of the hosts and of the host's pages), one read of a URL from disk.
    ///
    /// # Errors
    /// `Poisoned`, `Corrupt`, `Io`.
    pub fn next(&mut self, now_ms: u64) -> Result<Next> {
        self.poison.check()?;
        self.advance(now_ms);
        let all = (self.handed[0] + self.handed[1] + 1) as f64;
        let wants_refresh = (self.handed[1] as f64) < self.options.refresh_share * all;
        for kind in [usize::from(wants_refresh), usize::from(!wants_refresh)] {
            let (queue, mut view) = self.state.queues(self.manners);
            let Some(page) = queue.take(kind, &mut view) else { continue };
            match self.state.texts.read(page) {
                Ok((depth, url)) => {
                    self.in_flight.insert(page, depth);
                    self.handed[kind] += 1;
                    let failed_attempts = self.state.pages.marks(page).attempts();
                    let page = PageId::new(page);
                    return Ok(Next::Fetch(Assignment { page, url, depth, failed_attempts, is_refresh: kind == 1 }));
                }
                Err(error) => {
                    self.put_back(page);
                    return Err(error);
                }
            }
        }
        Ok(match self.state.queue.wakes_ms(&self.state.hosts) {
            Some(until_ms) => Next::Wait { until_ms },
            None if self.in_flight.is_empty() => Next::Empty,
            None => Next::InFlight,
        })
    }

    /// Tells that a page was fetched.
    ///
    /// O(links), none of which is kept; sometimes, amortised over many calls, O(pages).
    ///
    /// # Errors
    /// `NotInFlight`, `Full`, `Poisoned`, `Io`.
    pub fn done(&mut self, page: PageId, fetched: &Fetched<'_>) -> Result<Done> {
        self.poison.check()?;
        let number = page.number();
        let depth = *self.in_flight.get(&number).ok_or(Error::NotInFlight { page: number })?;
        self.check_room(fetched.links.len())?;
        let links = if fetched.is_duplicate { &[] } else { fetched.links };
        let depth = depth.saturating_add(1);
        let (mut done, known, new) = self.sort_links(number, depth, links);
        let marks = self.state.pages.marks(number);
        let age = match (marks.status(), fetched.changed) {
            (Status::Refreshing, Some(true)) => self.shorter(marks.age()),
            (Status::Refreshing, Some(false)) => self.longer(marks.age()),
            _ => marks.age(),
        };
        let due_s = self.options.recrawl.map_or(0, |recrawl| due_s(fetched.fetched_at_ms, interval_ms(&recrawl, age)));
        let lost = done.over_depth + done.over_host_budget + done.over_length;
        done.first_new = self.state.pages.len();
        (done.known_links, done.new_links) = (known.len() as u32, new.len() as u32);
        self.in_flight.remove(&number);
        self.tell(&Record::Done { page: number, due_s, age, lost, known, depth, new })?;
        self.landed(number, fetched.fetched_at_ms);
        Ok(done)
    }

    /// Which links are known, which are new, and how many of the new are not entered.
    fn sort_links<'a>(&self, page: u32, depth: u16, links: &[&'a str]) -> (Done, Vec<u32>, Vec<&'a str>) {
        let (mut done, mut known, mut new) = (Done::default(), Vec::new(), Vec::new());
        let (mut seen, mut of_host) = (HashSet::new(), HashMap::new());
        for link in links {
            let fingerprint = self.state.pages.fingerprint(link);
            if let Some(found) = self.state.pages.find(fingerprint) {
                known.push(found);
                continue;
            }
            if !seen.insert(fingerprint) {
                continue;
            }
            if link.is_empty() || link.len() > URL_BYTES_MAX {
                done.over_length += 1;
                continue;
            }
            if depth > self.options.depth_max {
                done.over_depth += 1;
                continue;
            }
            if self.options.pages_per_host_max < u32::MAX {
                let name = Hosts::name_of(link);
                let before = || self.state.hosts.find(name).map_or(0, |host| self.state.hosts.get(host).pages);
                let count: &mut u32 = of_host.entry(name).or_insert_with(before);
                if *count >= self.options.pages_per_host_max {
                    done.over_host_budget += 1;
                    continue;
                }
                *count += 1;
            }
            new.push(*link);
        }
        known.sort_unstable();
        known.dedup();
        known.retain(|link| *link != page);
        (done, known, new)
    }

    /// Tells that a fetch failed.
    ///
    /// # Errors
    /// `NotInFlight`, `Poisoned`, `Io`.
    pub fn failed(&mut self, page: PageId, failure: &Failure, now_ms: u64) -> Result<()> {
        self.poison.check()?;
        let number = page.number();
        self.in_flight.remove(&number).ok_or(Error::NotInFlight { page: number })?;
        let marks = self.state.pages.marks(number);
        let is_refresh = marks.status() == Status::Refreshing;
        let attempts = (marks.attempts() + 1).min(15);
        let is_last = attempts >= self.options.attempts_max;
        let is_gone = failure.is_permanent || is_last && !is_refresh;
        let backoff_ms = self.options.backoff_ms.saturating_mul(1 << (attempts - 1)).min(self.options.backoff_max_ms);
        let wait_ms = backoff_ms.max(failure.retry_after_ms.unwrap_or(0));
        let (attempts, wait_ms) = match self.options.recrawl {
            Some(recrawl) if is_last && is_refresh => (0, wait_ms.max(interval_ms(&recrawl, marks.age()))),
            _ => (attempts, wait_ms),
        };
        let due_s = if is_gone { 0 } else { due_s(now_ms, wait_ms) };
        self.tell(&Record::Failed { page: number, code: failure.kind.code(), attempts, due_s, is_gone })?;
        self.landed(number, now_ms);
        Ok(())
    }

    /// Gives a page back that was not fetched after all: it waits as before, and its host's delay has run all the same.
    ///
    /// # Errors
    /// `NotInFlight`.
    pub fn release(&mut self, page: PageId) -> Result<()> {
        let number = page.number();
        self.in_flight.remove(&number).ok_or(Error::NotInFlight { page: number })?;
        self.put_back(number);
        Ok(())
    }

    fn put_back(&mut self, page: u32) {
        let status = match self.state.pages.status(page) {
            Status::Refreshing => Status::Due,
            _ => Status::Ready,
        };
        self.state.pages.set_status(page, status);
        let (queue, mut view) = self.state.queues(self.manners);
        queue.put(page, &mut view);
        self.landed(page, 0);
    }

    /// Sets the delay between the begins of two fetches from a host (robots.txt's crawl-delay); `None` for that of the options. It is kept.
    ///
    /// # Errors
    /// `UrlLength`, `Poisoned`, `Io`.
    pub fn host_delay(&mut self, host: &str, delay_ms: Option<u64>) -> Result<()> {
        self.poison.check()?;
        check_host(host)?;
        let known = self.state.hosts.find(host).map(|number| self.state.hosts.get(number).delay_ms);
        if known.is_some_and(|known| known == delay_ms) {
            return Ok(());
        }
        self.tell(&Record::Delay { host, delay_ms })
    }

    /// Lets nothing be fetched from a host before a time (`Retry-After`). It is kept.
    ///
    /// # Errors
    /// `UrlLength`, `Poisoned`, `Io`.
    pub fn host_hold(&mut self, host: &str, until_ms: u64) -> Result<()> {
        self.poison.check()?;
        check_host(host)?;
        self.tell(&Record::Hold { host, until_ms })
    }

    /// Makes durable all that was told so far, in one step: after a crash it is there as a whole. One sync for any number of pages; and a
    /// snapshot, of 32 bytes a page, when the journal has become longer than the last one.
    ///
    /// # Errors
    /// `Io`, and from then on `Poisoned`.
    pub fn commit(&mut self) -> Result<()> {
        self.poison.check()?;
        let committed = self.journal.commit();
        self.poison.note(committed)?;
        if self.journal.bytes() > self.options.journal_bytes_min.max(self.snapshot_bytes) {
            let replaced = self.replace_journal();
            self.poison.note(replaced)?;
        }
        Ok(())
    }

    fn replace_journal(&mut self) -> Result<()> {
        self.state.texts.sync()?;
        let next = Journal::create(&*self.dir, self.id, self.journal.number() + 1)?;
        self.dir.sync().map_err(Error::io("sync of the directory", next.name()))?;
        if planted::has(Mistake::JournalRemovedFirst) {
            files::remove(&*self.dir, self.journal.name())?;
            self.dir.sync().map_err(Error::io("sync of the directory", next.name()))?;
        }
        self.snapshot_bytes = snapshot::write(&*self.dir, self.id, next.number(), &self.state)?;
        files::remove(&*self.dir, self.journal.name())?;
        self.journal = next;
        Ok(())
    }

    /// Commits and closes, and notes durably that all is whole: damage to the end of the journal is found then. A frontier that is only
    /// dropped is opened again as its last commit left it.
    ///
    /// # Errors
    /// As [`Frontier::commit`].
    pub fn close(mut self) -> Result<()> {
        self.commit()?;
        self.journal.close()
    }

    /// Does what a record says, and writes it down.
    fn tell(&mut self, record: &Record<'_>) -> Result<()> {
        match record {
            Record::Done { page, due_s, age, lost, known, depth, .. } if planted::has(Mistake::LinksNotTold) => {
                let (known, new) = (known.clone(), Vec::new());
                self.journal.append(&Record::Done {
                    page: *page,
                    due_s: *due_s,
                    age: *age,
                    lost: *lost,
                    known,
                    depth: *depth,
                    new,
                });
            }
            _ => self.journal.append(record),
        }
        let applied = self.state.apply(record);
        assert!(applied.is_ok(), "a record of our own cannot be applied: {applied:?}");
        let flushed = self.state.texts.flush_if_full().and_then(|()| self.journal.flush_if_full());
        self.poison.note(flushed)
    }

    fn check_room(&self, urls: usize) -> Result<()> {
        if self.state.pages.len() as usize + urls > PAGES_MAX {
            return Err(Error::Full { what: format!("it takes {PAGES_MAX} pages") });
        }
        Ok(())
    }

    fn advance(&mut self, now_ms: u64) {
        let (queue, mut view) = self.state.queues(self.manners);
        queue.advance(now_ms, &mut view);
    }

    fn landed(&mut self, page: u32, now_ms: u64) {
        let host = self.state.pages.host(page);
        let (queue, mut view) = self.state.queues(self.manners);
        queue.landed(host, now_ms, &mut view);
    }

    /// The step of an age half as long, unless that is less than the least.
    fn shorter(&self, age: u8) -> u8 {
        let is_least = self.options.recrawl.is_none_or(|recrawl| interval_ms(&recrawl, age) <= recrawl.min_ms);
        if is_least { age } else { age.saturating_sub(1) }
    }

    /// The step of an age twice as long, unless that is more than the greatest.
    fn longer(&self, age: u8) -> u8 {
        let is_greatest = self.options.recrawl.is_none_or(|recrawl| interval_ms(&recrawl, age) >= recrawl.max_ms);
        if is_greatest { age } else { (age + 1).min(15) }
    }

    /// Writes a record down without doing what it says.
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

    pub(crate) fn default_delay_ms(&self) -> u64 {
        self.options.delay_ms
    }

    pub(crate) fn other_memory_bytes(&self) -> u64 {
        self.journal.memory_bytes() + (self.in_flight.capacity() * 9) as u64
    }
}

fn check_host(host: &str) -> Result<()> {
    match host.len() {
        0..=URL_BYTES_MAX => Ok(()),
        len => Err(Error::UrlLength { len, max: URL_BYTES_MAX }),
    }
}

/// Removes all journals but one.
fn remove_journals(dir: &dyn Dir, kept: Option<&str>) -> Result<()> {
    for name in dir.list().map_err(Error::io("list", "the directory"))? {
        if journal::is_name(&name) && Some(&name[..]) != kept {
            files::remove(dir, &name)?;
        }
    }
    Ok(())
}

/// The age at which a page is fetched again, by its step: each is twice as long as the one before.
fn interval_ms(recrawl: &Recrawl, age: u8) -> u64 {
    let steps = i32::from(age) - i32::from(FIRST_AGE);
    let first_ms = u128::from(recrawl.first_ms.max(1));
    let interval_ms = if steps < 0 { first_ms >> -steps } else { first_ms << steps };
    u64::try_from(interval_ms).unwrap_or(u64::MAX).clamp(recrawl.min_ms, recrawl.max_ms)
}

/// The second after which a page is due, never 0.
fn due_s(now_ms: u64, wait_ms: u64) -> u32 {
    u32::try_from(now_ms.saturating_add(wait_ms).div_ceil(1000)).unwrap_or(u32::MAX).max(1)
}
