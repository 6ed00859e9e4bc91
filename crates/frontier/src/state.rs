//! The frontier in memory, and the effect of each journal record on it. Live events and replay run
//! the same code.
//!
//! Invariants: the effect of a record on pages, credit and history follows from record and state
//! alone, not from options, queues or clock, so a replay gives the same result, bit by bit. Queues
//! follow from these. A replay does not know which pages were handed out since the snapshot, so
//! those are queued.

mod delivering;
mod failing;
mod opening;
mod visits;

use crate::claims::Claims;
use crate::credit::Totals;
use crate::delivery::{Delivery, Gift};
use crate::error::{Applied, Result};
use crate::hosts::Hosts;
use crate::index::Index;
use crate::link::{key_of, url_of};
use crate::links::Links;
use crate::marks::{Marks, Status};
use crate::options::{FrontierOptions, Rent};
use crate::outcome::FailureKind;
use crate::queue::{Manners, Queue, View};
use crate::record::Record;
use crate::row::Row;
use crate::shape::{shape, site};
use crate::table::Table;
use crate::texts::{Texts, URL_BYTES_MAX};
use crate::trust::Standing;

/// Recrawl step of a new page: that of the first recrawl.
pub(crate) const FIRST_AGE: u8 = 8;
/// Numbers of events since the frontier was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) fetches: u64,
    pub(crate) refreshes: u64,
    pub(crate) failures: u64,
}

/// The frontier in memory.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) virtual_visits: u8,
    pub(crate) index: Index,
    pub(crate) table: Table,
    pub(crate) hosts: Hosts,
    pub(crate) totals: Totals,
    /// Credit waiting for delivery.
    pub(crate) delivery: Delivery,
    pub(crate) texts: Texts,
    /// `None` if there are no virtual visits.
    pub(crate) links: Option<Links>,
    pub(crate) claims: Claims,
    pub(crate) told: Told,
    pub(crate) queue: Queue,
    manners: Manners,
    /// True if fetched pages are fetched again.
    pub(crate) has_recrawls: bool,
    /// True if the queues have all queued pages.
    pub(crate) has_queues: bool,
    /// Pages in flight when the snapshot was written; empty after the replay.
    pub(crate) flying: Vec<u32>,
    /// Credit of pages waiting for their first fetch.
    pub(crate) queued_credit: u64,
    /// Until the end of a record: pages from this number on are new and in no queue.
    first_new: u32,
}

impl State {
    /// The state at the start of a replay: a new one, or a snapshot's.
    pub(crate) fn new(
        options: &FrontierOptions,
        rent: Rent,
        index: Index,
        mut table: Table,
        mut hosts: Hosts,
        totals: Totals,
        texts: Texts,
    ) -> State {
        table.rent = rent;
        hosts.delay_ms = options.delay_ms;
        State {
            virtual_visits: 0,
            links: None,
            index,
            table,
            hosts,
            totals,
            delivery: Delivery::default(),
            texts,
            claims: Claims::default(),
            told: Told::default(),
            queue: Queue::default(),
            manners: Manners::of(options),
            has_recrawls: options.recrawl.is_some(),
            has_queues: true,
            flying: Vec::new(),
            queued_credit: 0,
            first_new: u32::MAX,
        }
    }

    /// Runs `act` on the queues.
    #[inline]
    pub(crate) fn queues<T>(&mut self, act: impl FnOnce(&mut Queue, &mut View<'_>) -> T) -> T {
        let mut view = View { table: &mut self.table, hosts: &mut self.hosts, manners: self.manners };
        act(&mut self.queue, &mut view)
    }

    /// Subtracts a page with an outcome from the count of its queue: a replay has it queued, since
    /// it does not know that the page is in flight.
    fn withdraw(&mut self, row: &Row) {
        if let Some(kind) = row.status().queue() {
            self.hosts.withdraw(row.host, kind);
        }
    }

    /// Applies a record.
    ///
    /// # Errors
    /// The reason why the record is invalid, if no frontier in this state can have written it;
    /// `Corrupt`, `Io`: the state is unusable.
    pub(crate) fn apply(&mut self, record: &Record<'_>) -> Applied {
        match record {
            Record::Seeds { known, new } => self.seeds(known, new),
            Record::Arrived { depth, new } => self.arrived(*depth, new),
            Record::Done { page, due_s, age, lost, known, depth, new } => {
                self.done(*page, *age, *lost, known, *depth, new)?;
                self.claims.settle(*page);
                Ok(self.wait(*page, *due_s)?)
            }
            Record::Failed { page, code, attempts, due_s, is_gone } => {
                self.check_pages(&[*page])?;
                self.failed(*page, FailureKind::of_code(*code), *attempts, *due_s, *is_gone)?;
                // A failure of the host does not settle the page.
                if *attempts > 0 || *is_gone {
                    self.claims.settle(*page);
                }
                Ok(self.wait(*page, *due_s)?)
            }
            Record::Delay { host, delay_ms } => {
                let number = self.enter_host(host);
                self.hosts.get_mut(number).limits_mut().delay_ms = *delay_ms;
                self.queues(|queue, view| queue.offer(number, view));
                Ok(())
            }
            Record::Hold { host, until_ms } => {
                let number = self.enter_host(host);
                self.hosts.get_mut(number).limits_mut().hold_until_ms = *until_ms;
                self.queues(|queue, view| queue.offer(number, view));
                Ok(())
            }
            Record::Began { page, at_ms } => {
                self.check_pages(&[*page])?;
                let host = self.table.get(*page)?.host;
                self.hosts.set_began_ms(host, Some(*at_ms));
                Ok(())
            }
            Record::Opened => Ok(()),
            Record::Claimed { id, pages, done } => {
                self.check_pages(pages)?;
                Ok(self.claims.open(*id, pages, done)?)
            }
            Record::Down { .. } | Record::Up { .. } | Record::HostBegan { .. } => self.host_told(record),
            Record::Lost { .. } | Record::Retried { .. } | Record::Hinted { .. } => self.pages_told(record),
            Record::Rested { at_ms } => {
                for host in 0..self.hosts.len() {
                    self.hosts.set_began_ms(host, self.hosts.began_ms(host).max(Some(*at_ms)));
                }
                self.queues(Queue::reopen);
                Ok(())
            }
        }
    }

    fn check_pages(&self, pages: &[u32]) -> Applied {
        match pages.iter().find(|page| **page >= self.table.len()) {
            Some(page) => Err(format!("page {page} does not exist").into()),
            None => Ok(()),
        }
    }

    /// Enters an unknown URL, without credit; returns its page.
    fn enter(&mut self, url: &str, depth: u16, is_seed: bool) -> Applied<u32> {
        let fingerprint = self.index.fingerprint(key_of(url));
        if key_of(url).is_empty() || url.len() > URL_BYTES_MAX || self.index.find_in_memory(fingerprint).is_some() {
            return Err(String::from("new URL is known, empty or too long").into());
        }
        let host = self.enter_host(Hosts::name_of(url_of(url)));
        self.hosts.set_pages(host, self.hosts.pages(host) + 1);
        self.texts.append(depth, url);
        self.index.add(fingerprint);
        let (marks, shape) = (Marks::new(is_seed, FIRST_AGE), shape(url_of(url)));
        Ok(self.table.add(Row { host, marks, shape, ..Row::default() })?)
    }

    /// The number of a host, added if unknown.
    pub(crate) fn enter_host(&mut self, name: &str) -> u32 {
        let number = self.hosts.enter(name);
        self.table.hosts = self.hosts.len();
        self.table.shares.enter(number, site(self.hosts.name(number)));
        number
    }

    /// Makes pages seeds and gives them shares of the virtual page's credit.
    fn seeds(&mut self, known: &[u32], new: &[&str]) -> Applied {
        self.check_pages(known)?;
        self.first_new = self.table.len();
        let mut seeds = known.to_vec();
        for page in known {
            let marks = self.table.get(*page)?.marks.with_seed();
            self.table.set(*page, marks)?;
            if marks.status() == Status::Gone {
                // It is queued as if new, and has no credit yet.
                self.table.set(*page, marks.with_status(Status::Ready).with_failure(0, None))?;
                self.queues(|queue, view| queue.put(*page, view))?;
            }
        }
        for url in new {
            seeds.push(self.enter(url, 0, true)?);
        }
        for page in &seeds {
            self.table.raise(*page, Standing::Endorsed)?;
        }
        let gift = Gift { share: self.totals.share_virtual(seeds.len() as u64), word: None };
        // Shares of a refund depend on credit at its start: such pages get theirs later.
        let is_late = |page: &u32| self.delivery.round.as_ref().is_some_and(|round| round.pays_later(*page));
        let (late, seeds): (Vec<u32>, Vec<u32>) = seeds.into_iter().partition(is_late);
        self.totals.waiting += gift.share * late.len() as u64;
        self.delivery.put(gift, &late);
        for page in seeds {
            self.give(page, [gift])?;
        }
        for page in known {
            // Its standing has risen as well.
            let row = self.table.get(*page)?;
            self.moved(*page, &row)?;
        }
        Ok(self.queue_new()?)
    }

    /// Enters links of pages known elsewhere as links of the virtual page, which stands for the
    /// rest of the web. The sender vouches for them as an endorsed page does.
    fn arrived(&mut self, depth: u16, new: &[&str]) -> Applied {
        self.first_new = self.table.len();
        for url in new {
            let page = self.enter(url, depth, false)?;
            self.table.raise(page, Standing::Near)?;
        }
        let gift = Gift { share: self.totals.share_virtual(new.len() as u64), word: None };
        for page in self.first_new..self.table.len() {
            self.give(page, [gift])?;
        }
        Ok(self.queue_new()?)
    }

    /// Queues the new pages of a record.
    fn queue_new(&mut self) -> Result<()> {
        let new = self.first_new..self.table.len();
        self.first_new = u32::MAX;
        self.queues(|queue, view| new.into_iter().try_for_each(|page| queue.put(page, view)))
    }

    fn done(&mut self, page: u32, age: u8, lost: u32, known: &[u32], depth: u16, new: &[&str]) -> Applied {
        self.check_pages(known)?;
        self.check_pages(&[page])?;
        let row = self.table.get(page)?;
        self.told.fetches += 1;
        self.told.refreshes += u64::from(row.status().is_fetched());
        if row.status().is_new() {
            self.queued_credit = self.queued_credit.wrapping_sub(row.credit);
        }
        self.hosts.answered(row.host);
        self.withdraw(&row);
        self.table.set(page, row.marks.with_status(Status::Fetched).with_failure(0, None).with_age(age))?;
        self.first_new = self.table.len();
        for url in new {
            self.enter(url, depth, false)?;
        }
        let known: Vec<u32> = known.iter().copied().filter(|link| *link != page).collect();
        let new = self.first_new..self.table.len();
        self.visit(page, &known, new.clone(), lost)?;
        let links: Vec<u32> = known.into_iter().chain(new).collect();
        if let Some(kept) = &mut self.links {
            kept.append(page, lost, &links);
        }
        self.queue_new()?;
        Ok(self.deliver(links.len(), true)?)
    }

    /// Loads the next lists of links. The record may begin a round, which reads further lists.
    ///
    /// # Errors
    /// `Corrupt`, `Io`: nothing has changed. Errors of the round come from [`State::apply`].
    pub(crate) fn prepare(&mut self, record: &Record<'_>) -> Result<()> {
        match (&mut self.links, record) {
            (Some(links), Record::Done { .. }) => links.prepare(self.table.len()),
            _ => Ok(()),
        }
    }

    /// Checks a replayed record against the runs: its new URLs must not be there. URLs in memory
    /// are checked when entered.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn check_new(&self, record: &Record<'_>) -> Applied {
        let (Record::Done { new, .. } | Record::Seeds { new, .. } | Record::Arrived { new, .. }) = record else {
            return Ok(());
        };
        for url in new {
            if self.index.find(self.index.fingerprint(key_of(url)))?.is_some() {
                return Err(String::from("new URL is known").into());
            }
        }
        Ok(())
    }

    /// Writes full buffers.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn flush_if_full(&mut self) -> Result<()> {
        self.texts.flush_if_full()?;
        self.index.flush_if_full()?;
        self.links.as_mut().map_or(Ok(()), Links::flush)
    }

    fn failed(
        &mut self,
        page: u32,
        failure: Option<FailureKind>,
        attempts: u8,
        due_s: u32,
        is_gone: bool,
    ) -> Result<()> {
        self.told.failures += 1;
        let row = self.table.get(page)?;
        match failure {
            Some(kind) if kind.is_an_answer() => self.hosts.answered(row.host),
            Some(FailureKind::Elsewhere | FailureKind::Refused | FailureKind::Robots) | None => {}
            Some(_) => {
                let limits = self.hosts.get_mut(row.host).limits_mut();
                limits.failures = limits.failures.saturating_add(1);
            }
        }
        self.withdraw(&row);
        let was_new = row.status().is_new();
        let status = match (is_gone, was_new) {
            (true, _) => Status::Gone,
            (false, true) => Status::Waiting,
            (false, false) => Status::Fetched,
        };
        // A fetched page that is not retried stays as it was.
        let is_as_before = status == Status::Fetched && due_s == 0;
        let (attempts, failure) = if is_as_before { (0, None) } else { (attempts, failure) };
        self.table.set(page, row.marks.with_status(status).with_failure(attempts, failure))?;
        if is_gone {
            self.forfeit(page, was_new)?;
            self.deliver(0, false)?;
        }
        Ok(())
    }

    /// Makes a page wait until `due_s`, if it is not queued. With recrawls, a fetched page without
    /// a due time is due at once.
    pub(crate) fn wait(&mut self, page: u32, due_s: u32) -> Result<()> {
        let row = self.table.update(page)?;
        row.due_s = due_s;
        let waits = self.manners.rules.has_timer(row);
        if waits { self.queues(|queue, view| queue.wait(page, due_s, view)) } else { Ok(()) }
    }

    /// Sets the clock back ([`Queue::set_back`]).
    pub(crate) fn set_back(&mut self, now_ms: i64, longest_ms: i64) -> Result<()> {
        self.queues(|queue, view| queue.set_back(now_ms, longest_ms, view))?;
        self.queues(Queue::reopen);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn limit(&mut self, timers_max: usize, open_max: usize) {
        (self.manners.rules.timers_max, self.manners.open_max) = (timers_max, open_max);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes()
            + self.table.memory_bytes()
            + self.hosts.memory_bytes()
            + self.texts.memory_bytes()
            + self.delivery.memory_bytes()
            + self.links.as_ref().map_or(0, Links::memory_bytes)
            + self.queue.memory_bytes()
    }
}
