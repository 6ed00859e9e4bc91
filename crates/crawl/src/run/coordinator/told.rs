//! Passes the results of visits on to the frontier, the counts and the log.

use std::collections::HashMap;
use std::time::Duration;

use frontier::Remedy;

use super::Coordinator;
use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::{Failure, Reason};
use crate::links::{Link, host, requisites};
use crate::run::line;
use crate::run::observe::Event;
use crate::run::pace;
use crate::visit::{Fetched, Told, Visit};

impl Coordinator<'_> {
    pub(super) fn tell_failure(&mut self, page: frontier::PageId, failure: &Failure) -> Result<(), Error> {
        let told = frontier::Failure {
            kind: failure.reason.kind(),
            retry_after_ms: failure.retry_after_ms,
            remedy: failure.reason.remedy(),
        };
        self.count_uncommitted();
        if told.remedy == Remedy::GiveUp {
            self.moved_ms = now_ms();
            self.state.claims.settle(page);
        }
        self.state.frontier.failed(page, &told, now_ms()).map_err(Error::from)
    }

    /// Passes a visit's result to the frontier.
    pub(super) fn visited(&mut self, visit: &Visit) -> Result<(), Error> {
        self.in_flight -= 1;
        let host = host(&visit.url);
        if let Some(delay) = visit.delay {
            self.state.frontier.host_delay(host, delay.map(|delay| delay.as_millis() as u64))?;
        }
        if let Some(hold) = visit.hold.max(self.slow_down(host, visit)) {
            let until_ms = now_ms().saturating_add_unsigned(hold.as_millis() as u64);
            self.state.frontier.host_hold(host, until_ms)?;
        }
        self.tally.visit(visit);
        for why in &visit.hooks_failed {
            self.say(&Event::HookFailed { url: visit.url.clone(), why: why.clone() })?;
        }
        if !visit.sitemaps.is_empty() {
            // Sitemaps are start pages: they are fetched whatever happens to this page.
            let sitemaps = self.own_links(visit.sitemaps.iter().collect(), 0, false)?;
            let sitemaps: Vec<_> = sitemaps.into_iter().map(Link::text).collect();
            self.tally.discovered += self.state.frontier.seed(&sitemaps, now_ms())?;
        }
        let mut new_links = 0;
        match &visit.told {
            Told::Fetched(fetched) => {
                if let Some(start) = &visit.widens {
                    self.widen(&visit.url, start)?;
                }
                let within = self.within_depth(visit, fetched)?;
                let texts: Vec<_> = self.within_budgets(within)?.into_iter().map(Link::text).collect();
                let links: Vec<&str> = texts.iter().map(|text| &**text).collect();
                if fetched.is_duplicate {
                    let known = self.known(fetched.links.iter())?;
                    self.tally.add(Reason::DuplicateLinks, known.iter().filter(|is_known| !**is_known).count() as u64);
                }
                let told = frontier::Fetched {
                    fetched_at_ms: fetched.at_ms,
                    links: &links,
                    changed: fetched.changed,
                    is_duplicate: fetched.is_duplicate,
                    is_barren: fetched.is_barren,
                };
                self.count_uncommitted();
                self.moved_ms = now_ms();
                self.state.claims.settle(visit.page);
                let done = self.state.frontier.done(visit.page, &told)?;
                self.hint(&fetched.links)?;
                new_links = done.new_links;
                self.tally.discovered += u64::from(done.new_links);
                self.tally.add(Reason::DepthLimit, u64::from(done.over_depth));
                self.tally.add(Reason::HostPagesLimit, u64::from(done.over_host_budget));
                self.tally.add(Reason::UrlLimit, u64::from(done.over_length));
            }
            Told::Failed(failure) => self.tell_failure(visit.page, failure)?,
            Told::Later => {
                match visit.asked_nobody {
                    true => self.state.frontier.put_off(visit.page)?,
                    false => self.state.frontier.release(visit.page)?,
                }
                self.await_again(visit.page);
            }
        }
        self.tell_awaited(visit.page, || line::of(visit, new_links));
        self.observer.visited(visit, new_links).map_err(Error::Observer)
    }

    /// The time to leave a host alone beyond its delay.
    fn slow_down(&mut self, host: &str, visit: &Visit) -> Option<Duration> {
        let answer = match (&visit.told, visit.status) {
            (Told::Failed(failure), _) if failure.reason == Reason::Busy => pace::Answer::Busy,
            (_, Some(_)) => pace::Answer::Other,
            // No information about the host.
            _ => return None,
        };
        let own = Duration::from_millis(self.crawl.settings.delay_ms());
        let wait = self.pace.after(host, answer, visit.took, visit.delay.flatten().unwrap_or(own));
        self.tally.slowed_hosts = self.pace.slowed() as u64;
        wait
    }

    /// Passes a sitemap's hints about changes on to the frontier.
    fn hint(&mut self, links: &[Link]) -> Result<(), Error> {
        let hinted = links.iter().filter_map(|link| Some((&link.key, link.hint?)));
        let hints: Vec<frontier::Hint<'_>> = hinted
            .map(|(key, hint)| frontier::Hint { key, changed_ms: hint.changed_ms, every_ms: hint.every_ms() })
            .collect();
        if !hints.is_empty() {
            self.tally.moved += u64::from(self.state.frontier.hint(&hints, now_ms())?);
        }
        Ok(())
    }

    /// The page's links that belong to this crawl and are within the depth limit. With requisites,
    /// which do not count, the frontier's own limit is higher.
    fn within_depth<'v>(&mut self, visit: &Visit, fetched: &'v Fetched) -> Result<Vec<&'v Link>, Error> {
        let mut links: Vec<&Link> = fetched.links.iter().collect();
        if self.crawl.settings.requisites && visit.depth >= self.crawl.settings.depth {
            let mut known = self.known(fetched.links.iter())?.into_iter();
            links.retain(|link| known.next().unwrap_or(false) || requisites::is_marked(link));
            self.tally.add(Reason::DepthLimit, (fetched.links.len() - links.len()) as u64);
        }
        match fetched.is_duplicate {
            true => Ok(links),
            false => self.own_links(links, visit.depth.saturating_add(1), false),
        }
    }

    /// For each link, whether the frontier knows it.
    fn known<'v>(&self, links: impl Iterator<Item = &'v Link>) -> Result<Vec<bool>, Error> {
        links.map(|link| Ok(self.state.frontier.knows(&link.key)?)).collect()
    }

    /// Drops links to new pages of hosts whose own page budgets are used up.
    pub(super) fn within_budgets<'v>(&mut self, mut links: Vec<&'v Link>) -> Result<Vec<&'v Link>, Error> {
        let hosts = self.crawl.fetcher.hosts();
        if !hosts.has_budgets() {
            return Ok(links);
        }
        let mut known = self.known(links.iter().copied())?.into_iter();
        let (frontier, before) = (&self.state.frontier, links.len());
        let mut entered: HashMap<&str, u32> = HashMap::new();
        links.retain(|link| {
            let (name, is_known) = (host(&link.url), known.next().unwrap_or(false));
            let Some(most) = hosts.of(name).and_then(|host| host.pages) else { return true };
            if is_known {
                return true;
            }
            let pages = entered.entry(name).or_insert_with(|| frontier.pages_of(name));
            *pages = pages.saturating_add(1);
            *pages <= most
        });
        self.tally.add(Reason::HostPagesLimit, (before - links.len()) as u64);
        Ok(links)
    }

    /// Makes the redirect target of a start page a start page, with its scope. This is durable
    /// before the frontier knows any page of it.
    fn widen(&mut self, from: &str, start: &str) -> Result<(), Error> {
        if self.crawl.scope.is_start(start) {
            return Ok(());
        }
        let was_there = self.crawl.scope.contains(start);
        if let Some(fleet) = self.state.fleet.as_mut().filter(|fleet| !fleet.is_ours(start)) {
            self.tally.links_sent += u64::from(fleet.send(start, 0, true)?);
        }
        self.state.settings.reached.push(start.to_owned());
        self.keep_reached()?;
        self.crawl.scope.widen(start);
        if was_there {
            return Ok(());
        }
        self.say(&Event::Redirected { from: from.to_owned(), to: start.to_owned() })
    }
}
