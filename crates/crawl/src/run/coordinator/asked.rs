//! The coordinator's answers to requests of other processes.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::mpsc::Sender;

use frontier::{FailureKind, Frontier, Next, PageBrief, PageId, PageStatus};
use serde_json::{Value, json};

use super::{Coordinator, State};
use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::{is_lost, kind_named};
use crate::links::Link;
use crate::run::backup;
use crate::run::control::{Asked, Request, refusal};
use crate::run::list::slice;
use crate::run::observe::Event;
use crate::run::view;

/// A page to fetch ahead of the queue, and the caller waiting for the result.
pub(super) struct Urgent {
    page: PageId,
    answers: Option<std::sync::mpsc::Sender<Value>>,
}

impl Coordinator<'_> {
    /// Executes a request and answers it. A caller that no longer waits is not an error.
    pub(super) fn asked(&mut self, asked: Asked) -> Result<(), Error> {
        let answer = match &asked.request {
            Request::Pause => self.pause(true)?,
            Request::Resume => self.pause(false)?,
            Request::Add { urls } => match self.links(urls) {
                Ok(links) => json!({ "added": self.add(&links)? }),
                Err(words) => refusal(&words),
            },
            Request::Fetch { .. } if self.tally.is_paused => {
                refusal("the crawl is paused: fm-crawl resume continues it")
            }
            Request::Fetch { urls } => match self.links(urls) {
                Ok(links) => {
                    self.urge(&links, Some(&asked.answers))?;
                    return Ok(());
                }
                Err(words) => refusal(&words),
            },
            Request::Backup { to } => match self.back_up(to, &asked.answers)? {
                Some(refused) => refused,
                None => return Ok(()),
            },
            Request::Page { key } => view::page(self.state.frontier.page(key)?.as_ref()),
            Request::List { left, wanted } => match slice(&self.state.frontier, left.clone(), wanted) {
                Err(Error::Usage(words)) => refusal(&words),
                slice => json!(slice?),
            },
            Request::Retry { host, reason } => match reason.as_deref().map(kind_named).transpose() {
                Ok(reason) => {
                    let retried = retry(&mut self.state.frontier, host.as_deref(), reason)?;
                    self.commit()?;
                    json!({ "retried": retried })
                }
                Err(words) => refusal(&format!("reason: {words}")),
            },
        };
        let _ = asked.answers.send(answer);
        Ok(())
    }

    /// Copies the state beside the store now, and the store on a separate thread, which answers.
    /// Returns an error answer, if any.
    fn back_up(&mut self, to: &Path, answers: &Sender<Value>) -> Result<Option<Value>, Error> {
        self.commit()?;
        let State { frontier, folder, settings, backups, .. } = &mut *self.state;
        let Some(pages) = self.crawl.pages.local().cloned() else {
            let instead = "each commit is one already, and `fm-tool copy` copies the pages";
            let refused = super::super::opening::not_in_bucket(settings, "a backup", instead);
            return Ok(refused.err().map(|error| refusal(&error.to_string())));
        };
        let begun = match backup::begin(to, (pages.engine().path(), folder, settings), frontier, &self.crawl.bodies) {
            Ok(begun) => begun,
            Err(error) => return Ok(Some(refusal(&error.to_string()))),
        };
        let (answers, to) = (answers.clone(), to.to_owned());
        let done = move |finished: Result<(), Error>| {
            let answer = match finished {
                Ok(()) => json!({ "backed_up": to }),
                Err(error) => refusal(&error.to_string()),
            };
            // The caller may no longer wait.
            let _ = answers.send(answer);
        };
        let started = backups.start(begun, pages, done);
        Ok(started.err().map(|error| refusal(&format!("a thread cannot be started: {error}"))))
    }

    fn pause(&mut self, is_paused: bool) -> Result<Value, Error> {
        if self.tally.is_paused != is_paused {
            self.tally.is_paused = is_paused;
            // A pause must not count as silent hosts.
            self.moved_ms = now_ms();
            self.say(if is_paused { &Event::Paused } else { &Event::Resumed })?;
        }
        Ok(json!({ "is_paused": is_paused }))
    }

    /// Converts URLs to links, or returns the error in one.
    fn links(&self, urls: &[String]) -> Result<Vec<Link>, String> {
        let canonicalizer = self.crawl.pages.canonicalizer();
        let url_bytes = self.crawl.settings.limits.url_bytes;
        urls.iter().map(|url| Link::named(url, &**canonicalizer, url_bytes)).collect()
    }

    /// Adds start pages: they widen the scope, and are stored in the settings.
    fn add(&mut self, links: &[Link]) -> Result<u64, Error> {
        let mut known: HashSet<&str> = self.state.settings.starts().map(String::as_str).collect();
        let new: Vec<String> =
            links.iter().filter(|link| known.insert(&link.url)).map(|link| link.url.clone()).collect();
        self.state.settings.seeds.extend(new.iter().cloned());
        self.state.folder.keep(&self.state.settings)?;
        new.iter().for_each(|url| self.crawl.scope.widen(url));
        let own = self.own_links(links.iter().collect(), 0, true)?;
        let texts: Vec<_> = own.into_iter().map(Link::text).collect();
        let added = self.state.frontier.seed(&texts, now_ms())?;
        self.commit()?;
        self.moved_ms = now_ms();
        Ok(added)
    }

    /// Makes pages urgent. An unknown one is entered like a start page, but widens no scope.
    pub(super) fn urge(
        &mut self,
        links: &[Link],
        answers: Option<&std::sync::mpsc::Sender<Value>>,
    ) -> Result<(), Error> {
        for link in links {
            if !self.state.frontier.knows(&link.key)? {
                self.state.frontier.seed(&[link.text()], now_ms())?;
            }
            let page = self.state.frontier.page(&link.key)?;
            if let Some(page) = page {
                self.urgent.push_back(Urgent { page: page.page, answers: answers.cloned() });
            }
        }
        Ok(())
    }

    /// Begins visits to urgent pages whose hosts allow it. Returns when the next one may begin, if
    /// that is known.
    pub(super) fn hand_out_urgent(&mut self, room: u64) -> Result<Option<i64>, Error> {
        let mut wakes_ms: Option<i64> = None;
        for _ in 0..self.urgent.len() {
            let room = usize::try_from(room).unwrap_or(usize::MAX).min(self.crawl.settings.connections);
            if self.in_flight >= room || self.in_flight + self.uncommitted >= self.window() {
                break;
            }
            let Some(urgent) = self.urgent.pop_front() else { break };
            match self.state.frontier.next_of(urgent.page, now_ms())? {
                Next::Fetch(assignment) => {
                    let awaited = self.awaited.entry(urgent.page).or_default();
                    awaited.extend(urgent.answers);
                    // Other callers waiting for the same page.
                    for _ in 0..self.urgent.len() {
                        match self.urgent.pop_front() {
                            Some(other) if other.page == urgent.page => awaited.extend(other.answers),
                            other => self.urgent.extend(other),
                        }
                    }
                    self.begin(assignment)?;
                }
                Next::Wait { until_ms } => {
                    wakes_ms = Some(wakes_ms.map_or(until_ms, |wakes| wakes.min(until_ms)));
                    self.urgent.push_back(urgent);
                }
                Next::InFlight | Next::Empty => self.urgent.push_back(urgent),
            }
        }
        Ok(wakes_ms)
    }

    /// Sends the result of a page to its waiting callers.
    pub(super) fn tell_awaited(&mut self, page: PageId, what: impl FnOnce() -> Value) {
        let Some(answers) = self.awaited.remove(&page).filter(|answers| !answers.is_empty()) else { return };
        let what = what();
        answers.iter().for_each(|answer| drop(answer.send(what.clone())));
    }

    /// An awaited page that could not be fetched yet stays urgent.
    pub(super) fn await_again(&mut self, page: PageId) {
        let Some(answers) = self.awaited.remove(&page) else { return };
        if answers.is_empty() {
            self.urgent.push_back(Urgent { page, answers: None });
        }
        self.urgent.extend(answers.into_iter().map(|answers| Urgent { page, answers: Some(answers) }));
    }
}

/// Queues pages again that failed for `reason`; without one, those that were given up or wait
/// although their host did not decide it. Returns their number.
///
/// # Errors
/// Errors of the frontier.
pub fn retry(frontier: &mut Frontier, host: Option<&str>, reason: Option<FailureKind>) -> Result<u32, Error> {
    let is_wanted = |page: &PageBrief<'_>| {
        let is_reason = page.last_failure.is_some_and(|kind| reason.map_or_else(|| is_lost(kind), |one| one == kind));
        let is_host = host.is_none_or(|host| host == page.host);
        matches!(page.status, PageStatus::Gone | PageStatus::Retrying) && is_reason && is_host
    };
    let mut hosts = BTreeSet::new();
    let mut pages = Vec::new();
    for page in frontier.list(is_wanted) {
        let page = page?;
        pages.push(page.page);
        hosts.insert(page.host);
    }
    let retried = frontier.retry(&pages)?;
    match (reason, host) {
        // A retry without a reason also wakes the resting hosts concerned.
        (None, host) => drop(frontier.wake(host, now_ms())?),
        (Some(_), _) => hosts.iter().try_for_each(|host| frontier.wake(Some(host), now_ms()).map(drop))?,
    }
    Ok(retried)
}
