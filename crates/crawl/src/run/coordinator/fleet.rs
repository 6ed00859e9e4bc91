//! The coordinator's duties in a fleet: links to and from other crawls, handing over pages, and
//! the end of the run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use filemap::canonical::{Canonicalizer as _, Whatwg};
use frontier::Assignment;
use mailbox::Link as Mailed;

use super::{Coordinator, End, Message, State, Supply};
use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::Reason;
use crate::links::{Link, is_web, requisites, traps};
use crate::run::fleet::{Fleet, Mail, Others};
use crate::run::observe::{Event, Pause};
use crate::run::starts;

/// The time at the end of a run for the mailboxes to take its remaining links.
const SEND_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

impl Coordinator<'_> {
    /// Begins to exchange links with other crawls of the fleet.
    ///
    /// # Errors
    /// I/O errors.
    pub fn join(&mut self) -> Result<(), Error> {
        let tell = self.tell.clone();
        let begin = |fleet: &mut Fleet| fleet.begin(move |mail| tell.send(mail.map(Message::Mailed)).is_ok());
        self.state.fleet.as_mut().map_or(Ok(()), begin)
    }

    /// Handles a message from the fleet.
    pub(super) fn mailed(&mut self, mail: Mail) -> Result<(), Error> {
        match mail {
            Mail::Links { shard, links, cursor } => self.arrived(shard, links, cursor),
            Mail::Taken(shard) => self.taken(shard),
            Mail::Lost(shard) if self.state.depot.is_some() => self.take_again(shard),
            Mail::Lost(shard) => {
                self.with_fleet(|fleet| fleet.own(shard, false));
                self.say(&Event::ShardLost { shard })
            }
            Mail::News(standing) => {
                self.with_fleet(|fleet| fleet.learn(standing));
                Ok(())
            }
        }
    }

    /// Another run has taken the shard at the mailboxes. If it has not at the bucket, it came
    /// earlier there, and has lost the shard: then it is taken again.
    ///
    /// # Errors
    /// Errors of the bucket, also if this run has lost the shard.
    fn take_again(&mut self, shard: u32) -> Result<(), Error> {
        if let Some(depot) = &self.state.depot {
            depot.shard().check()?;
        }
        self.with_fleet(|fleet| fleet.take_again(shard));
        Ok(())
    }

    fn with_fleet(&mut self, act: impl FnOnce(&mut Fleet)) {
        if let Some(fleet) = &mut self.state.fleet {
            act(fleet);
        }
    }

    /// Takes over a shard: queues its handed-over pages again, and enters its start pages, which
    /// the previous owner may have had.
    fn taken(&mut self, shard: u32) -> Result<(), Error> {
        self.with_fleet(|fleet| fleet.own(shard, true));
        self.say(&Event::ShardTaken { shard })?;
        let Some(fleet) = &self.state.fleet else { return Ok(()) };
        starts::bring_back(&mut self.state.frontier, |url| fleet.shard(url) == shard)?;
        let all = self.state.settings.starts().chain(&self.state.settings.reached);
        let its = all.filter(|url| fleet.shard(url) == shard);
        let its = starts::starts(its, &**self.crawl.pages.canonicalizer())?;
        let texts: Vec<_> = its.iter().map(Link::text).collect();
        self.tally.discovered += self.state.frontier.seed(&texts, now_ms())?;
        self.count_uncommitted();
        self.moved_ms = now_ms();
        Ok(())
    }

    /// Enters links found by other crawls.
    fn arrived(&mut self, shard: u32, links: Vec<Mailed>, cursor: u64) -> Result<(), Error> {
        let Some(fleet) = &self.state.fleet else { return Ok(()) };
        if !fleet.owns(shard) {
            // The shard was lost meanwhile: the links wait for its new owner.
            return Ok(());
        }
        let url_bytes = self.crawl.settings.limits.url_bytes;
        let (mut seeds, mut by_depth) = (Vec::new(), BTreeMap::<u16, Vec<Link>>::new());
        self.tally.links_received += links.len() as u64;
        for mailed in links {
            let Some(link) = self.standard(&mailed.url) else {
                self.tally.add(Reason::BadUrl, 1);
                continue;
            };
            if link.is_too_long(url_bytes) {
                self.tally.add(Reason::UrlLimit, 1);
            } else if mailed.is_seed {
                seeds.push(link);
            } else if let Some(failure) = self.refused(&link) {
                self.tally.add(failure, 1);
            } else if mailed.depth > self.crawl.settings.depth && !requisites::is_marked(&link) {
                self.tally.add(Reason::DepthLimit, 1);
            } else {
                by_depth.entry(mailed.depth).or_default().push(link);
            }
        }
        self.enter_seeds(&seeds)?;
        for (depth, links) in by_depth {
            let links = self.within_budgets(links.iter().collect())?;
            let texts: Vec<_> = links.into_iter().map(Link::text).collect();
            let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
            let done = self.state.frontier.arrived(&texts, depth)?;
            self.tally.discovered += u64::from(done.new_links);
            self.tally.add(Reason::DepthLimit, u64::from(done.over_depth));
            self.tally.add(Reason::HostPagesLimit, u64::from(done.over_host_budget));
            self.tally.add(Reason::UrlLimit, u64::from(done.over_length));
        }
        self.count_uncommitted();
        self.moved_ms = now_ms();
        self.with_fleet(|fleet| fleet.took(shard, cursor));
        Ok(())
    }

    /// An incoming link, normalised by the URL standard.
    fn standard(&self, url: &str) -> Option<Link> {
        let standard = Whatwg.canonicalize(requisites::bare(url).as_bytes()).ok().filter(|url| is_web(url))?;
        let mut link = Link::new(standard, &**self.crawl.pages.canonicalizer())?;
        if let Some(level) = requisites::level(url) {
            requisites::mark(&mut link, level);
        }
        Some(link)
    }

    /// The reason why a link is refused by the patterns and limits of this crawl, if it is.
    fn refused(&self, link: &Link) -> Option<Reason> {
        let limits = &self.crawl.settings.limits;
        let endless = || {
            let failure = traps::refusal(&link.url, limits.path_repeats, limits.years_ahead, now_ms());
            failure.filter(|_| !self.crawl.scope.is_start(&link.url))
        };
        let failure = match requisites::is_marked(link) {
            true => self.crawl.refusal_of_requisite(&link.url),
            false => self.crawl.refusal(&link.url, false).or_else(endless),
        };
        failure.map(|failure| failure.reason)
    }

    /// Enters start pages from other crawls, or the targets of their redirects: they widen the
    /// scope, which is durable before the frontier knows them.
    fn enter_seeds(&mut self, seeds: &[Link]) -> Result<(), Error> {
        if seeds.is_empty() {
            return Ok(());
        }
        let new: Vec<&Link> = seeds.iter().filter(|link| !self.crawl.scope.is_start(&link.url)).collect();
        if !new.is_empty() {
            self.state.settings.reached.extend(new.iter().map(|link| link.url.clone()));
            self.keep_reached()?;
            new.iter().for_each(|link| self.crawl.scope.widen(&link.url));
        }
        let texts: Vec<_> = seeds.iter().map(Link::text).collect();
        self.tally.discovered += self.state.frontier.seed(&texts, now_ms())?;
        Ok(())
    }

    /// Makes redirect targets of start pages durable; other shards' ones are in the outbox first.
    pub(super) fn keep_reached(&mut self) -> Result<(), Error> {
        let State { fleet, settings, folder, .. } = &mut *self.state;
        if let (Some(fleet), Some(ours)) = (fleet, &mut settings.fleet) {
            fleet.commit()?;
            ours.sent_reached = settings.reached.len();
        }
        folder.keep(settings)
    }

    /// Keeps the links of this crawl's own shards; sends the others to theirs, with `depth` links
    /// from a start page.
    ///
    /// # Errors
    /// Errors of the outbox.
    pub(super) fn own_links<'l>(
        &mut self,
        links: Vec<&'l Link>,
        depth: u16,
        is_seed: bool,
    ) -> Result<Vec<&'l Link>, Error> {
        let Some(fleet) = &mut self.state.fleet else { return Ok(links) };
        let mut ours = Vec::with_capacity(links.len());
        for link in links {
            match fleet.is_ours(&link.url) {
                true => ours.push(link),
                false => self.tally.links_sent += u64::from(fleet.send(&link.url, depth, is_seed)?),
            }
        }
        Ok(ours)
    }

    /// Returns whether a page belongs to another crawl: it is then handed over, and given up here.
    pub(super) fn is_handed_over(&mut self, assignment: &Assignment) -> Result<bool, Error> {
        let Some(fleet) = &mut self.state.fleet else { return Ok(false) };
        if fleet.is_ours(&assignment.url) {
            return Ok(false);
        }
        // A sitemap or a requested page widens no scope.
        let is_start = self.crawl.scope.is_start(&assignment.url);
        self.tally.links_sent += u64::from(fleet.send(&assignment.url, assignment.depth, is_start)?);
        self.leave(assignment, Reason::HandedOver)?;
        Ok(true)
    }

    /// Returns whether the fleet keeps pages from being assigned.
    pub(super) fn is_held_up(&mut self) -> Result<bool, Error> {
        if self.state.fleet.as_mut().is_some_and(Fleet::has_starved) {
            self.say(&Event::Starving)?;
        }
        let pause = self.state.fleet.as_ref().and_then(Fleet::pause);
        if pause != self.held_up {
            self.held_up = pause;
            self.say(&Event::HeldUp { why: pause })?;
        }
        if pause == Some(Pause::Unheard) {
            // This must not count as silent hosts.
            self.moved_ms = now_ms();
        }
        Ok(pause.is_some())
    }

    /// The end of the run as far as its own pages go; `None` to continue.
    pub(super) fn own_end(&self, supply: &Supply, is_forever: bool) -> Option<End> {
        match supply {
            // This lasts until mailboxes take links again.
            Supply::Paused if self.is_stuck() && !is_forever => Some(End::Waiting),
            Supply::Empty if self.is_only => Some(End::Fetched),
            Supply::Empty if !is_forever => Some(End::Complete),
            Supply::Until(_) if !is_forever && !self.has_work() => Some(End::Complete),
            Supply::Until(until_ms) if !is_forever && self.is_too_late(*until_ms) => Some(End::Waiting),
            _ => None,
        }
    }

    /// The end of a run with nothing to do; `None` if others may still send links.
    pub(super) fn fleet_end(&mut self, end: End) -> Option<End> {
        let (patience, is_stuck) = (self.crawl.settings.patience, self.is_stuck());
        let Some(fleet) = self.state.fleet.as_mut().filter(|_| end != End::Fetched) else { return Some(end) };
        match fleet.rest(is_stuck, patience) {
            Others::Over => Some(end),
            Others::Silent => Some(End::Waiting),
            Others::Working => None,
        }
    }

    /// Returns whether all work is blocked until mailboxes take links.
    pub(super) fn is_stuck(&self) -> bool {
        self.held_up == Some(Pause::Full) && !self.tally.is_paused && self.tally.low_space.is_none()
    }

    /// Waits until the mailboxes have all links of this crawl, up to a short limit, or until a
    /// stop.
    pub(super) fn send_rest(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        while let Some(fleet) = &self.state.fleet {
            self.tally.links_waiting = fleet.waiting();
            if self.tally.links_waiting == 0 || self.stop.is_asked() || begun.elapsed() >= SEND_WITHIN {
                break;
            }
            // Messages arriving now are repeated in the next run; only errors matter.
            if let Ok(told) = self.told.recv_timeout(LOOK) {
                told?;
            }
        }
        Ok(())
    }

    /// Reports that there is work.
    pub(super) fn fleet_busy(&mut self, is_starving: bool) {
        self.with_fleet(|fleet| fleet.busy(is_starving));
    }
}
