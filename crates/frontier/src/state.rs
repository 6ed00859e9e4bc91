//! The frontier in memory, and what each journal record does to it. Live events and replay run the
//! same code.
//!
//! Invariants: what a record does follows from record and state alone, not from options, queues or
//! clock, so a replay yields the same pages, credit and history, bit by bit. Only a live state has
//! queues.

mod failing;

use crate::claims::Claims;
use crate::credit::{Ledger, TOTAL, class};
use crate::error::Error;
use crate::hosts::Hosts;
use crate::index::Index;
use crate::journal::Applied;
use crate::link::{key_of, url_of};
use crate::links::Links;
use crate::options::Rent;
use crate::outcome::FailureKind;
use crate::pages::{Marks, Pages, Status};
use crate::queue::{Manners, Queue, View};
use crate::record::{ALL_LOST, Record};
use crate::shape::{shape, site};
use crate::texts::{Texts, URL_BYTES_MAX};
use crate::trust::Standing;

/// Recrawl step of a new page: that of the first recrawl.
pub(crate) const FIRST_AGE: u8 = 8;
/// Pages waiting for their first fetch get credit back when they hold less than this part of all.
const REFUND_PART: u64 = 1024;
/// Lists of links examined for each virtual visit, at most.
const LOOKS_PER_VISIT: usize = 8;

/// Events since the frontier was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) fetches: u64,
    pub(crate) refreshes: u64,
    pub(crate) failures: u64,
}

/// The frontier in memory.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) rent: Rent,
    pub(crate) virtual_visits: u8,
    pub(crate) index: Index,
    pub(crate) pages: Pages,
    pub(crate) hosts: Hosts,
    pub(crate) ledger: Ledger,
    pub(crate) texts: Texts,
    /// `None` if there are no virtual visits.
    pub(crate) links: Option<Links>,
    pub(crate) claims: Claims,
    pub(crate) told: Told,
    pub(crate) queue: Queue,
    /// `None` while the journal is replayed.
    pub(crate) manners: Option<Manners>,
    /// During replay: the second in which each page is due, 0 for never.
    pub(crate) due_s: Vec<u32>,
    /// Credit of pages waiting for their first fetch.
    pub(crate) queued_credit: u64,
}

impl State {
    /// A state to replay into: a new one, or that of a snapshot.
    pub(crate) fn new(rent: Rent, index: Index, pages: Pages, hosts: Hosts, ledger: Ledger, texts: Texts) -> State {
        let mut state = State {
            rent,
            virtual_visits: 0,
            links: None,
            due_s: vec![0; pages.len() as usize],
            index,
            pages,
            hosts,
            ledger,
            texts,
            claims: Claims::default(),
            told: Told::default(),
            queue: Queue::default(),
            manners: None,
            queued_credit: 0,
        };
        state.count_queued_credit();
        state
    }

    fn count_queued_credit(&mut self) {
        let new = (0..self.pages.len()).filter(|page| self.pages.status(*page).is_new());
        self.queued_credit = new.map(|page| self.ledger.credit(page)).sum();
    }

    /// Runs `act` on the queues; `None` while the journal is replayed.
    #[inline]
    pub(crate) fn queues<T>(&mut self, act: impl FnOnce(&mut Queue, &mut View<'_>) -> T) -> Option<T> {
        let manners = self.manners?;
        let mut view = View { pages: &mut self.pages, hosts: &mut self.hosts, ledger: &self.ledger, manners };
        Some(act(&mut self.queue, &mut view))
    }

    /// Applies a record.
    ///
    /// # Errors
    /// What is wrong with a record that no frontier in this state has written.
    pub(crate) fn apply(&mut self, record: &Record<'_>) -> Applied {
        match record {
            Record::Seeds { known, new } => self.seeds(known, new),
            Record::Arrived { depth, new } => self.arrived(*depth, new),
            Record::Done { page, due_s, age, lost, known, depth, new } => {
                self.done(*page, *age, *lost, known, *depth, new)?;
                self.claims.settle(*page);
                self.wait(*page, *due_s);
                Ok(())
            }
            Record::Failed { page, code, attempts, due_s, is_gone } => {
                self.check_pages(&[*page])?;
                self.failed(*page, FailureKind::of_code(*code), *attempts, *due_s, *is_gone);
                // Where the host is at fault nothing has become of the page.
                if *attempts > 0 || *is_gone {
                    self.claims.settle(*page);
                }
                self.wait(*page, *due_s);
                Ok(())
            }
            Record::Delay { host, delay_ms } => {
                let number = self.hosts.enter(host);
                self.hosts.get_mut(number).delay_ms = *delay_ms;
                self.queues(|queue, view| queue.offer(number, view));
                Ok(())
            }
            Record::Hold { host, until_ms } => {
                let number = self.hosts.enter(host);
                self.hosts.get_mut(number).hold_until_ms = *until_ms;
                self.queues(|queue, view| queue.offer(number, view));
                Ok(())
            }
            Record::Began { page, at_ms } => {
                self.check_pages(&[*page])?;
                self.hosts.get_mut(self.pages.host(*page)).began_ms = Some(*at_ms);
                Ok(())
            }
            Record::Opened => Ok(()),
            Record::Claimed { id, pages, done } => {
                self.check_pages(pages)?;
                self.claims.open(*id, pages, done)
            }
            Record::Down { .. } | Record::Up { .. } | Record::HostBegan { .. } => self.host_told(record),
            Record::Lost { .. } | Record::Retried { .. } | Record::Hinted { .. } => self.pages_told(record),
            Record::Rested { at_ms } => {
                self.hosts.iter_mut().for_each(|host| host.began_ms = host.began_ms.max(Some(*at_ms)));
                self.requeue();
                Ok(())
            }
        }
    }

    fn check_pages(&self, pages: &[u32]) -> Applied {
        match pages.iter().find(|page| **page >= self.pages.len()) {
            Some(page) => Err(format!("page {page} does not exist")),
            None => Ok(()),
        }
    }

    /// Enters an unknown URL, without credit; returns its page.
    fn enter(&mut self, url: &str, depth: u16, is_seed: bool) -> Result<u32, String> {
        let fingerprint = self.index.fingerprint(key_of(url));
        if key_of(url).is_empty() || url.len() > URL_BYTES_MAX || self.index.find_in_memory(fingerprint).is_some() {
            return Err("new URL is known, empty or too long".into());
        }
        let host = self.hosts.enter(Hosts::name_of(url_of(url)));
        self.hosts.get_mut(host).pages += 1;
        self.ledger.add(0, 0.0);
        self.texts.append(depth, url);
        self.index.add(fingerprint);
        if self.manners.is_none() {
            self.due_s.push(0);
        }
        self.pages.shares.enter(host, site(&self.hosts.get(host).name));
        Ok(self.pages.add(host, shape(url_of(url)), Marks::new(is_seed, FIRST_AGE)))
    }

    /// Makes pages seeds, which share the virtual page's credit.
    fn seeds(&mut self, known: &[u32], new: &[&str]) -> Applied {
        self.check_pages(known)?;
        let first_new = self.pages.len();
        let mut seeds = known.to_vec();
        for page in known {
            let marks = self.pages.marks(*page).with_seed();
            self.pages.set(*page, marks);
            if marks.status() == Status::Gone {
                self.revive(*page);
            }
        }
        for url in new {
            seeds.push(self.enter(url, 0, true)?);
        }
        seeds.iter().for_each(|page| self.pages.raise(*page, Standing::Endorsed));
        let mut gains = Gains::new(first_new);
        known.iter().for_each(|page| gains.raised(*page));
        self.ledger.share_virtual(seeds.iter().copied(), |page, before, after| {
            gains.add(&self.pages, page, before, after);
        });
        self.take_gains(gains);
        Ok(())
    }

    /// Enters links of pages that are not known here, as links of the virtual page, which is all the
    /// web outside; who sent them vouches for them as an endorsed page does.
    fn arrived(&mut self, depth: u16, new: &[&str]) -> Applied {
        let first_new = self.pages.len();
        for url in new {
            let page = self.enter(url, depth, false)?;
            self.pages.raise(page, Standing::Near);
        }
        let mut gains = Gains::new(first_new);
        self.ledger.share_virtual(first_new..self.pages.len(), |page, before, after| {
            gains.add(&self.pages, page, before, after);
        });
        self.take_gains(gains);
        Ok(())
    }

    /// Queues a given-up page as if it were new. It has no credit yet.
    fn revive(&mut self, page: u32) {
        self.pages.set(page, self.pages.marks(page).with_status(Status::Ready).with_failure(0, None));
        self.queues(|queue, view| queue.put(page, view));
    }

    fn done(&mut self, page: u32, age: u8, lost: u32, known: &[u32], depth: u16, new: &[&str]) -> Applied {
        self.check_pages(known)?;
        self.check_pages(&[page])?;
        let marks = self.pages.marks(page);
        let is_refresh = marks.status().is_fetched();
        self.told.fetches += 1;
        self.told.refreshes += u64::from(is_refresh);
        if marks.status().is_new() {
            self.queued_credit -= self.ledger.credit(page);
        }
        self.hosts.get_mut(self.pages.host(page)).answered();
        self.pages.set(page, marks.with_status(Status::Fetched).with_failure(0, None).with_age(age));
        let first_new = self.pages.len();
        let mut links = Vec::with_capacity(known.len() + new.len());
        links.extend(known.iter().filter(|link| **link != page && self.pages.status(**link) != Status::Gone));
        let lost = lost.saturating_add((known.len() - links.len()) as u32);
        for url in new {
            links.push(self.enter(url, depth, false)?);
        }
        let mut gains = Gains::new(first_new);
        hand_on(&mut self.ledger, &mut self.pages, (page, lost), &links, &mut gains);
        if let Some(kept) = &mut self.links {
            kept.append(page, lost, &links);
            self.visit_again(&mut gains);
        }
        self.take_gains(gains);
        self.settle();
        Ok(())
    }

    /// Visits fetched pages again without a fetch: those of the next lists of links whose credit
    /// is at least 0.3 of an equal share of all credit among fetched pages.
    fn visit_again(&mut self, gains: &mut Gains) {
        let State { links, ledger, pages, virtual_visits, .. } = self;
        let Some(lists) = links else { return };
        let least = TOTAL / 10 * 3 / u64::from(pages.count(Status::is_fetched).max(1));
        let (mut visits, mut present) = (0, Vec::new());
        for _ in 0..usize::from(*virtual_visits) * LOOKS_PER_VISIT {
            let Some(list) = lists.take() else { break };
            if ledger.credit(list.page) < least || !pages.status(list.page).is_fetched() {
                continue;
            }
            present.clear();
            present.extend(list.links.iter().copied().filter(|link| pages.status(*link) != Status::Gone));
            let lost = list.lost.saturating_add((list.links.len() - present.len()) as u32);
            hand_on(ledger, pages, (list.page, lost), &present, gains);
            if pages.status(list.page).queue().is_some() {
                // It is due, and has another place now.
                gains.raised(list.page);
            }
            visits += 1;
            if visits == *virtual_visits {
                break;
            }
        }
    }

    /// Loads what the next record needs of the file of links.
    ///
    /// # Errors
    /// `Corrupt`, `Io`: nothing has changed then.
    pub(crate) fn prepare(&mut self, record: &Record<'_>) -> Result<(), Error> {
        match (&mut self.links, record) {
            (Some(links), Record::Done { .. }) => links.prepare(self.pages.len()),
            _ => Ok(()),
        }
    }

    /// Checks a record that is replayed against the runs: whether its new URLs are. Those in memory
    /// are checked as they are entered.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn check_new(&self, record: &Record<'_>) -> Result<Applied, Error> {
        let (Record::Done { new, .. } | Record::Seeds { new, .. } | Record::Arrived { new, .. }) = record else {
            return Ok(Ok(()));
        };
        for url in new {
            if self.index.find(self.index.fingerprint(key_of(url)))?.is_some() {
                return Ok(Err("new URL is known".into()));
            }
        }
        Ok(Ok(()))
    }

    /// Writes full buffers.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn flush_if_full(&mut self) -> Result<(), Error> {
        self.texts.flush_if_full()?;
        self.index.flush_if_full()?;
        self.links.as_mut().map_or(Ok(()), Links::flush)
    }

    fn failed(&mut self, page: u32, failure: Option<FailureKind>, attempts: u8, due_s: u32, is_gone: bool) {
        self.told.failures += 1;
        let host = self.hosts.get_mut(self.pages.host(page));
        match failure {
            Some(kind) if kind.is_an_answer() => host.answered(),
            Some(FailureKind::Elsewhere | FailureKind::Refused | FailureKind::Robots) | None => {}
            Some(_) => host.failures = host.failures.saturating_add(1),
        }
        let marks = self.pages.marks(page);
        let was_new = marks.status().is_new();
        let status = match (is_gone, was_new) {
            (true, _) => Status::Gone,
            (false, true) => Status::Waiting,
            (false, false) => Status::Fetched,
        };
        // One that was fetched, and is not tried again, is as before.
        let is_as_before = status == Status::Fetched && due_s == 0;
        let (attempts, failure) = if is_as_before { (0, None) } else { (attempts, failure) };
        self.pages.set(page, marks.with_status(status).with_failure(attempts, failure));
        if is_gone {
            if was_new {
                self.queued_credit -= self.ledger.credit(page);
            }
            self.ledger.forfeit(page);
            self.settle();
        }
    }

    /// Makes a page wait until a second, if it is not queued.
    pub(crate) fn wait(&mut self, page: u32, due_s: u32) {
        if self.manners.is_none() {
            self.due_s[page as usize] = due_s;
        } else if due_s > 0 {
            self.queue.wait(page, due_s);
        }
    }

    /// Visits the virtual page and refunds credit, when due.
    fn settle(&mut self) {
        if self.ledger.is_rent_due() {
            let rent = self.rent;
            let mut gains = Gains::new(self.pages.len());
            let State { ledger, pages, .. } = self;
            let is_member = |page: &u32| {
                let marks = pages.marks(*page);
                marks.status() != Status::Gone
                    && match rent {
                        Rent::Endorsed => pages.standing(*page) == Standing::Endorsed,
                        Rent::Crawled => marks.is_seed() || marks.status().is_fetched(),
                        Rent::Known => true,
                    }
            };
            let members = (0..pages.len()).filter(is_member);
            ledger.share_virtual(members, |page, before, after| gains.add(pages, page, before, after));
            self.take_gains(gains);
        }
        let is_poor = self.queued_credit < TOTAL / REFUND_PART && self.pages.count(Status::is_new) > 0;
        if is_poor && self.ledger.may_refund() {
            let State { ledger, pages, .. } = self;
            ledger.refund(|page| pages.status(page).is_new());
            self.count_queued_credit();
            self.requeue();
        }
    }

    /// Sets the clock back ([`Queue::set_back`]).
    pub(crate) fn set_back(&mut self, now_ms: i64, longest_ms: i64) {
        self.queue.set_back(now_ms, longest_ms);
        self.requeue();
    }

    /// Forgets the waits of pages that do not wait any more.
    pub(crate) fn forget_timers(&mut self) {
        let pages = &self.pages;
        self.queue.forget(|page| matches!(pages.status(page), Status::Waiting | Status::Fetched));
    }

    /// Rebuilds the queues, if there are any.
    fn requeue(&mut self) {
        self.queues(Queue::rebuild);
    }

    /// Queues new pages, and pages whose place has changed.
    fn take_gains(&mut self, mut gains: Gains) {
        gains.raised.sort_unstable();
        gains.raised.dedup();
        self.queued_credit += gains.queued_credit;
        let known = self.pages.len();
        self.queues(|queue, view| {
            gains.raised.iter().for_each(|page| queue.raised(*page, view));
            (gains.first_new..known).for_each(|page| queue.put(page, view));
        });
    }

    /// Ends the replay: builds the queues. With `recrawls`, fetched pages without a time are due
    /// at once.
    pub(crate) fn go_live(&mut self, manners: Manners, recrawls: bool) {
        for (page, due_s) in std::mem::take(&mut self.due_s).into_iter().enumerate() {
            let page = page as u32;
            match self.pages.status(page) {
                Status::Waiting => self.queue.wait(page, due_s),
                Status::Fetched if recrawls => self.queue.wait(page, due_s),
                // It is tried again.
                Status::Fetched if due_s > 0 && self.pages.marks(page).failure().is_some() => {
                    self.queue.wait(page, due_s);
                }
                _ => {}
            }
        }
        self.manners = Some(manners);
        self.requeue();
    }

    /// Checks the sum of credit.
    ///
    /// # Errors
    /// The wrong sum.
    pub(crate) fn check_sum(&self) -> Applied {
        match self.ledger.sum() {
            sum if sum == u128::from(TOTAL) => Ok(()),
            sum => Err(format!("credit adds up to {sum}, not {TOTAL}")),
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes()
            + self.pages.memory_bytes()
            + self.hosts.memory_bytes()
            + self.ledger.memory_bytes()
            + self.texts.memory_bytes()
            + self.links.as_ref().map_or(0, Links::memory_bytes)
            + self.queue.memory_bytes()
    }
}

/// Visits a page: it hands its credit on and vouches for its links, of which some are lost. If all
/// are, its credit goes to the virtual page.
fn hand_on(ledger: &mut Ledger, pages: &mut Pages, (page, lost): (u32, u32), links: &[u32], gains: &mut Gains) {
    if lost == ALL_LOST {
        return ledger.forfeit(page);
    }
    pages.told(page, links, |link| gains.raised(link));
    ledger.visit(page, links, u64::from(lost), |link, before, after| gains.add(pages, link, before, after));
}

/// Effects of visits on the queues.
struct Gains {
    /// Pages from this number on are new: they have no entries yet.
    first_new: u32,
    queued_credit: u64,
    raised: Vec<u32>,
}

impl Gains {
    fn new(first_new: u32) -> Gains {
        Gains { first_new, queued_credit: 0, raised: Vec::new() }
    }

    fn add(&mut self, pages: &Pages, page: u32, before: u64, after: u64) {
        let status = pages.status(page);
        if status.is_new() {
            self.queued_credit += after - before;
        }
        if status.queue().is_some() && class(before) != class(after) {
            self.raised(page);
        }
    }

    /// Notes that a page's place has changed.
    fn raised(&mut self, page: u32) {
        if page < self.first_new {
            self.raised.push(page);
        }
    }
}
