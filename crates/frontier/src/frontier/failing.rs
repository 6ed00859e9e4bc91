//! Failures: attempts at a page, rests of a host, and pages that are given up or brought back.
//!
//! A failure is the page's or the host's ([`Remedy`]). A page has a few attempts. A host that is
//! at fault rests, twice as long each time, and its pages stay queued; one of them is tried when a
//! rest ends, another the next time, since it may be a page that is broken after all. When a host
//! has failed for longer than the options allow, what is queued of it is given up by a name of its
//! own.

use super::{Flight, Frontier};
use crate::error::{Error, Result};
use crate::hosts::Hosts;
use crate::options::FrontierOptions;
use crate::outcome::{Failing, Failure, FailureKind, PageId, Remedy};
use crate::pages::Status;
use crate::record::Record;
use crate::recrawl::{due_s, interval_ms};

/// The longest rest of a host that answers, if only by failures: it may be its pages after all, and
/// good ones wait behind them.
const SUSPECT_REST_MAX_MS: u64 = 30_000;

impl Frontier {
    /// Records a failed fetch.
    ///
    /// O(1); when the pages of a host are given up, O(pages of the host).
    ///
    /// # Errors
    /// `NotInFlight`, `Poisoned`, `Io`.
    pub fn failed(&mut self, page: PageId, failure: &Failure, now_ms: i64) -> Result<()> {
        self.poison.check()?;
        let number = page.number();
        let flight = self.in_flight.remove(&number).ok_or(Error::NotInFlight { page: number })?;
        if failure.kind == FailureKind::Elsewhere {
            self.not_begun(number, flight);
        }
        let host = self.state.hosts.get(self.state.pages.host(number));
        match failure.remedy {
            Remedy::HostRests => self.rest(number, flight, failure, self.options.rest_max_ms, now_ms)?,
            Remedy::Retry if host.failures >= self.options.host_failures_max => {
                self.rest(number, flight, failure, SUSPECT_REST_MAX_MS, now_ms)?;
            }
            Remedy::RetryPage => {
                self.attempted(number, failure, now_ms)?;
                let host = self.state.pages.host(number);
                self.state.hosts.get_mut(host).answered();
            }
            Remedy::Retry | Remedy::GiveUp => self.attempted(number, failure, now_ms)?,
        }
        self.landed(number, now_ms);
        Ok(())
    }

    /// Counts an attempt: the page waits for another, for its next recrawl, or is given up.
    fn attempted(&mut self, page: u32, failure: &Failure, now_ms: i64) -> Result<()> {
        let marks = self.state.pages.marks(page);
        let is_refresh = marks.status() == Status::Refreshing;
        let is_permanent = failure.remedy == Remedy::GiveUp;
        let attempts = (marks.attempts() + 1).min(15);
        let is_last = attempts >= self.options.attempts_max;
        // A page that was there once may come back.
        let waits_for_recrawl = is_refresh && self.options.recrawl.is_some();
        let is_gone = (is_permanent && !waits_for_recrawl) || (is_last && !is_refresh);
        let backoff_ms = self.options.backoff_ms.saturating_mul(1 << (attempts - 1)).min(self.options.backoff_max_ms);
        let asked_ms = asked_ms(failure, &self.options);
        let (attempts, wait_ms) = match self.options.recrawl {
            Some(recrawl) if is_refresh && (is_last || is_permanent) => {
                let tries_ms = if is_permanent { 0 } else { backoff_ms };
                (0, tries_ms.max(asked_ms).max(interval_ms(&recrawl, marks.age())))
            }
            _ => (attempts, backoff_ms.max(asked_ms)),
        };
        let due_s = if is_gone { 0 } else { due_s(now_ms, wait_ms) };
        self.tell(&Record::Failed { page, code: failure.kind.code(), attempts, due_s, is_gone })
    }

    /// Gives a host a rest; its page waits for two, so that another is tried after the first.
    fn rest(&mut self, page: u32, flight: Flight, failure: &Failure, max_ms: u64, now_ms: i64) -> Result<()> {
        let host = self.state.hosts.get(self.state.pages.host(page));
        let name = std::sync::Arc::clone(&host.name);
        let before = host.down;
        let is_known = before.is_some_and(|down| flight.began_ms < down.until_ms);
        let down = match before {
            // It began before the rest: one outage, one rest.
            Some(down) if is_known => down,
            _ => {
                let rests = before.map_or(0, |down| down.rests);
                let doubled = 1u64.checked_shl(u32::from(rests)).unwrap_or(u64::MAX);
                let rest_ms = self.options.rest_ms.saturating_mul(doubled).min(max_ms);
                let wait_ms = rest_ms.max(asked_ms(failure, &self.options));
                Failing {
                    since_ms: before.map_or(now_ms.max(0), |down| down.since_ms),
                    rests: rests.saturating_add(1),
                    until_ms: now_ms.max(0).saturating_add_unsigned(wait_ms),
                }
            }
        };
        let is_lost = now_ms.saturating_sub(down.since_ms) >= self.options.host_down_ms as i64;
        let attempts = self.state.pages.marks(page).attempts();
        let wait_ms = 2 * (down.until_ms.saturating_sub(now_ms).max(0) as u64);
        let is_new = self.state.pages.status(page).is_new();
        let due_s = due_s(now_ms, wait_ms);
        self.tell(&Record::Failed { page, code: failure.kind.code(), attempts, due_s, is_gone: false })?;
        if !is_known {
            self.tell(&Record::Down { host: &name, down })?;
        }
        if is_lost {
            let mut pages = self.state.hosts.get(self.state.pages.host(page)).queued(&self.state.pages);
            if is_new {
                pages.push(page);
                pages.sort_unstable();
            }
            self.tell(&Record::Lost { pages })?;
            self.state.forget_timers();
            self.requeue();
        }
        Ok(())
    }

    /// Queues pages again that were given up, and those that wait for another attempt; others stay
    /// as they are. Returns how many were queued.
    ///
    /// O(pages that wait) and O(the pages given).
    ///
    /// # Errors
    /// `NoSuchPage`, with nothing changed; `Poisoned`, `Io`.
    pub fn retry(&mut self, pages: &[PageId]) -> Result<u32> {
        self.poison.check()?;
        let known = self.state.pages.len();
        if let Some(page) = pages.iter().find(|page| page.number() >= known) {
            return Err(Error::NoSuchPage { page: page.number() });
        }
        let is_retried = |page: &u32| matches!(self.state.pages.status(*page), Status::Gone | Status::Waiting);
        let mut numbers: Vec<u32> = pages.iter().map(|page| page.number()).filter(is_retried).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let count = numbers.len() as u32;
        if count > 0 {
            self.tell(&Record::Retried { pages: numbers })?;
            self.state.forget_timers();
        }
        Ok(count)
    }

    /// Ends the rests of a host, or of all: each is asked again as soon as its delay allows. How
    /// long it has failed is not forgotten. Returns how many were resting. Not kept on disk: after
    /// a restart they rest again.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn wake(&mut self, host: Option<&str>) -> Result<u32> {
        self.poison.check()?;
        let only = host.map(|name| self.state.hosts.find(name));
        let numbers = match only {
            Some(None) => 0..0,
            Some(Some(number)) => number..number + 1,
            None => 0..self.state.hosts.len(),
        };
        let mut woken = 0;
        for number in numbers {
            let host = self.state.hosts.get_mut(number);
            let Some(down) = host.down.as_mut().filter(|down| down.until_ms > 0) else { continue };
            down.until_ms = 0;
            woken += 1;
            self.state.queues(|queue, view| queue.offer(number, view));
        }
        Ok(woken)
    }

    fn requeue(&mut self) {
        self.state.queues(crate::queue::Queue::rebuild);
    }
}

/// The wait that a host asks for, up to the longest of the options.
fn asked_ms(failure: &Failure, options: &FrontierOptions) -> u64 {
    failure.retry_after_ms.unwrap_or(0).min(options.rest_max_ms)
}

/// A record of each host that fails, for a journal that has none.
pub(super) fn records(hosts: &Hosts) -> impl Iterator<Item = Record<'_>> {
    hosts.iter().filter_map(|host| host.down.map(|down| Record::Down { host: &host.name, down }))
}
