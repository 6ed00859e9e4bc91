//! Failures: attempts at a page, rests of a host, and pages given up or brought back.
//!
//! A failure is the page's or the host's ([`Remedy`]). A page has a few attempts. A host at fault
//! rests, twice as long each time, and its pages stay queued. One of them is tried when a rest
//! ends, and another the next time, since the page may be the broken part after all. When a host
//! has not answered for longer than the options allow, its queued pages are given up as
//! `HostDown`. A host with many page failures in a row also rests, but shortly, and its pages'
//! attempts count, so that broken pages end.

use std::collections::{BTreeMap, BTreeSet};

use super::{Flight, Frontier};
use crate::error::{Error, Result};
use crate::hosts::Hosts;
use crate::marks::Status;
use crate::options::FrontierOptions;
use crate::outcome::{Failing, Failure, FailureKind, PageId, Remedy};
use crate::record::Record;
use crate::recrawl::{due_s, interval_ms};

/// The longest rest of a host that may not be at fault: its pages may be broken, and good ones
/// wait behind them.
const SUSPECT_REST_MAX_MS: u64 = 30_000;

impl Frontier {
    /// Records a failed fetch.
    ///
    /// O(1); O(pages of the host) when they are given up. A page that is given up advances a
    /// round, as [`Frontier::done`] does, or begins or ends one.
    ///
    /// # Errors
    /// `NotInFlight`, `Poisoned`; `Corrupt`, `Io`, and `Poisoned` from then on if the failure was
    /// recorded.
    pub fn failed(&mut self, page: PageId, failure: &Failure, now_ms: i64) -> Result<()> {
        self.poison.check()?;
        let number = page.number();
        let flight = self.in_flight.remove(&number).ok_or(Error::NotInFlight { page: number })?;
        if failure.kind == FailureKind::Elsewhere {
            self.not_begun(number, flight)?;
        }
        let host = self.host_of(number)?;
        let is_suspect = self.state.hosts.limits(host).failures >= self.options.host_failures_max;
        match failure.remedy {
            Remedy::HostRests => self.host_failed(number, flight, failure, now_ms)?,
            Remedy::Retry | Remedy::RetryPage | Remedy::GiveUp => self.attempted(number, failure, now_ms)?,
        }
        if failure.remedy == Remedy::Retry && is_suspect {
            let max_ms = SUSPECT_REST_MAX_MS.min(self.options.rest_max_ms);
            self.rest(number, flight, failure, max_ms, now_ms)?;
        }
        if failure.remedy == Remedy::RetryPage {
            self.up(number)?;
        }
        self.landed(number, now_ms)
    }

    /// Counts an attempt: the page waits for another, for its next recrawl, or is given up.
    fn attempted(&mut self, page: u32, failure: &Failure, now_ms: i64) -> Result<()> {
        let marks = self.state.table.peek(page)?.marks;
        let is_refresh = marks.status() == Status::Refreshing;
        let is_permanent = failure.remedy == Remedy::GiveUp;
        let attempts = (marks.attempts() + 1).min(15);
        let is_last = attempts >= self.options.attempts_max;
        // A page that was fetched before may come back.
        let is_gone = (is_permanent || is_last) && !is_refresh;
        let backoff_ms = self.options.backoff_ms.saturating_mul(1 << (attempts - 1)).min(self.options.backoff_max_ms);
        let asked_ms = asked_ms(failure, &self.options);
        let (attempts, wait_ms) = match self.options.recrawl {
            Some(recrawl) if is_refresh && (is_last || is_permanent) => {
                let tries_ms = if is_permanent { 0 } else { backoff_ms };
                (0, tries_ms.max(asked_ms).max(interval_ms(&recrawl, marks.age())))
            }
            _ => (attempts, backoff_ms.max(asked_ms)),
        };
        // Without recrawls, a page whose refresh is given up stays as it was.
        let is_over = is_refresh && self.options.recrawl.is_none() && (is_last || is_permanent);
        let due_s = if is_gone || is_over { 0 } else { due_s(now_ms, wait_ms) };
        self.tell(&Record::Failed { page, code: failure.kind.code(), attempts, due_s, is_gone })
    }

    /// Rests the host of a page, which is at fault. The page waits for two rests, so that another
    /// page is tried after the first; or all queued pages of the host are given up.
    fn host_failed(&mut self, page: u32, flight: Flight, failure: &Failure, now_ms: i64) -> Result<()> {
        let down = self.rest(page, flight, failure, self.options.rest_max_ms, now_ms)?;
        let row = self.state.table.peek(page)?;
        let is_new = row.status().is_new();
        let silent_ms = u64::try_from(now_ms.saturating_sub(down.since_ms)).unwrap_or(0);
        let is_lost = silent_ms > 0 && silent_ms >= self.options.host_down_ms;
        let attempts = row.marks.attempts();
        let due_s = match is_lost && is_new {
            true => 0,
            false => due_s(now_ms, 2 * (down.until_ms.saturating_sub(now_ms).max(0) as u64)),
        };
        self.tell(&Record::Failed { page, code: failure.kind.code(), attempts, due_s, is_gone: false })?;
        if is_lost {
            let number = row.host;
            let queued = self.state.hosts.queued(number, &mut self.state.table);
            let mut pages = self.poison.note(queued)?;
            pages.extend(is_new.then_some(page));
            pages.sort_unstable();
            if !pages.is_empty() {
                self.tell(&Record::Lost { pages })?;
                self.state.hosts.get_mut(number).forget_queued();
            }
        }
        Ok(())
    }

    /// Gives the host of a page a rest, unless the fetch began before the end of a current one:
    /// fetches that fail together are one outage. The time from the end of a rest to the next
    /// failure, without any request, does not count as silence.
    fn rest(&mut self, page: u32, flight: Flight, failure: &Failure, max_ms: u64, now_ms: i64) -> Result<Failing> {
        let host = self.host_of(page)?;
        let (name, before) = (self.state.hosts.name(host).to_owned(), self.state.hosts.limits(host).down);
        let now_ms = now_ms.max(0);
        if let Some(down) = before.filter(|down| flight.began_ms < down.until_ms && now_ms < down.until_ms) {
            return Ok(down);
        }
        let rests = before.map_or(0, |down| down.rests);
        let doubled = 1u64.checked_shl(u32::from(rests)).unwrap_or(u64::MAX);
        let rest_ms = self.options.rest_ms.saturating_mul(doubled);
        let wait_ms = rest_ms.min(max_ms).max(asked_ms(failure, &self.options));
        let idle_ms = before.map_or(0, |down| now_ms.saturating_sub(down.until_ms).max(0));
        let down = Failing {
            since_ms: before.map_or(now_ms, |down| down.since_ms.saturating_add(idle_ms).min(now_ms)),
            rests: if rest_ms < max_ms { rests.saturating_add(1) } else { rests.max(1) },
            until_ms: now_ms.saturating_add_unsigned(wait_ms),
        };
        self.tell(&Record::Down { host: &name, down })?;
        Ok(down)
    }

    /// Records that the host of a page has answered.
    fn up(&mut self, page: u32) -> Result<()> {
        let host = self.host_of(page)?;
        let limits = self.state.hosts.limits(host);
        if limits.down.is_none() && limits.failures == 0 {
            return Ok(());
        }
        let name = self.state.hosts.name(host).to_owned();
        self.tell(&Record::Up { host: &name })
    }

    /// Queues again pages that were given up or wait for a retry; others stay as they are. Forgets
    /// the failures of their hosts. Returns the number of pages queued.
    ///
    /// O(the pages given).
    ///
    /// # Errors
    /// `NoSuchPage`, with nothing changed; `Poisoned`, `Io`.
    pub fn retry(&mut self, pages: &[PageId]) -> Result<u32> {
        self.poison.check()?;
        let known = self.state.table.len();
        if let Some(page) = pages.iter().find(|page| page.number() >= known) {
            return Err(Error::NoSuchPage { page: page.number() });
        }
        let mut numbers: Vec<u32> = pages.iter().map(|page| page.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let (mut retried, mut one_of_each) = (Vec::new(), BTreeMap::new());
        for page in numbers {
            let row = self.state.table.peek(page)?;
            if matches!(row.status(), Status::Gone | Status::Waiting) {
                retried.push(page);
                one_of_each.insert(row.host, page);
            }
        }
        let count = retried.len() as u32;
        if count > 0 {
            one_of_each.into_values().try_for_each(|page| self.up(page))?;
            self.tell(&Record::Retried { pages: retried })?;
        }
        Ok(count)
    }

    /// Ends the rests of one host, or of all: each is tried again as soon as its delay allows, and
    /// so are its pages that wait for a retry. The number of failures is kept. Returns the number
    /// of hosts that were resting. Not stored on disk: after a restart they rest again.
    ///
    /// O(pages that wait + hosts), or O(pages) if there are more waiting pages than timers in
    /// memory.
    ///
    /// # Errors
    /// `Poisoned`, `Io`.
    pub fn wake(&mut self, host: Option<&str>, now_ms: i64) -> Result<u32> {
        self.poison.check()?;
        self.advance(now_ms)?;
        let clock_ms = self.state.queue.clock_ms();
        let only = host.map(|name| self.state.hosts.find(name));
        let numbers = match only {
            Some(None) => 0..0,
            Some(Some(number)) => number..number + 1,
            None => 0..self.state.hosts.len(),
        };
        let mut woken = BTreeSet::new();
        for number in numbers {
            let hosts = &mut self.state.hosts;
            if let Some(down) = hosts.limits(number).down.filter(|down| down.until_ms > clock_ms) {
                hosts.get_mut(number).limits_mut().down = Some(Failing { until_ms: clock_ms, ..down });
                woken.insert(number);
            }
        }
        if woken.is_empty() {
            return Ok(0);
        }
        let cut = self.state.wake(|host| woken.contains(&host));
        self.poison.note(cut)?;
        for number in &woken {
            self.state.queues(|queue, view| queue.offer(*number, view));
        }
        Ok(woken.len() as u32)
    }
}

/// The wait that a host asks for, limited by the longest rest of the options.
fn asked_ms(failure: &Failure, options: &FrontierOptions) -> u64 {
    failure.retry_after_ms.unwrap_or(0).min(options.rest_max_ms)
}

/// A record of each failing host, for a new journal.
pub(super) fn records(hosts: &Hosts) -> impl Iterator<Item = Record<'_>> {
    let down = |host| hosts.limits(host).down.map(|down| Record::Down { host: hosts.name(host), down });
    (0..hosts.len()).filter_map(down)
}
