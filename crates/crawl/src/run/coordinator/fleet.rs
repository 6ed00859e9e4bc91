//! What a crawl has to do as a part of a fleet: links that go to others and come from them, pages
//! that are another's, and the end.

use std::collections::BTreeMap;

use frontier::Assignment;
use mailbox::Link as Mailed;

use super::{Coordinator, End, Message, Supply};
use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::Reason;
use crate::links::{Link, is_web, requisites};
use crate::run::fleet::{Fleet, Mail, Others};
use crate::run::observe::{Event, Pause};

impl Coordinator<'_> {
    /// Begins to send links to other crawls of the fleet, and to take theirs.
    ///
    /// # Errors
    /// The system's.
    pub fn join(&mut self) -> Result<(), Error> {
        let tell = self.tell.clone();
        let begin = |fleet: &mut Fleet| fleet.begin(move |mail| tell.send(mail.map(Message::Mailed)).is_ok());
        self.state.fleet.as_mut().map_or(Ok(()), begin)
    }

    /// Takes what the fleet sends.
    pub(super) fn mailed(&mut self, mail: Mail) -> Result<(), Error> {
        match mail {
            Mail::Links { shard, links, cursor } => self.arrived(shard, links, cursor),
            Mail::Taken(shard) => {
                self.with_fleet(|fleet| fleet.own(shard, true));
                self.say(&Event::ShardTaken { shard })
            }
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

    fn with_fleet(&mut self, act: impl FnOnce(&mut Fleet)) {
        if let Some(fleet) = &mut self.state.fleet {
            act(fleet);
        }
    }

    /// Enters links that other crawls have found.
    fn arrived(&mut self, shard: u32, links: Vec<Mailed>, cursor: u64) -> Result<(), Error> {
        let Some(fleet) = &self.state.fleet else { return Ok(()) };
        if !fleet.owns(shard) {
            // Lost meanwhile: they wait for its new owner.
            return Ok(());
        }
        let url_bytes = self.crawl.settings.limits.url_bytes;
        let (mut seeds, mut by_depth) = (Vec::new(), BTreeMap::<u16, Vec<Link>>::new());
        self.tally.links_received += links.len() as u64;
        for mailed in links {
            let link = Link::new(mailed.url.into_bytes(), &**self.crawl.pages.canonicalizer());
            let Some(link) = link.filter(|link| is_web(link.url.as_bytes())) else {
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
            let texts: Vec<_> = links.iter().map(Link::text).collect();
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

    /// Why a link is not entered, by the patterns of this crawl.
    fn refused(&self, link: &Link) -> Option<Reason> {
        let failure = match requisites::is_marked(link) {
            true => self.crawl.refusal_of_requisite(&link.url),
            false => self.crawl.refusal(&link.url, false),
        };
        failure.map(|failure| failure.reason)
    }

    /// Enters start pages that other crawls were given, or were led to: they widen the scope,
    /// which is durable before the frontier knows them.
    fn enter_seeds(&mut self, seeds: &[Link]) -> Result<(), Error> {
        if seeds.is_empty() {
            return Ok(());
        }
        let new: Vec<&Link> = seeds.iter().filter(|link| !self.crawl.scope.is_start(&link.url)).collect();
        if !new.is_empty() {
            self.state.settings.reached.extend(new.iter().map(|link| link.url.clone()));
            self.state.folder.keep(&self.state.settings)?;
            new.iter().for_each(|link| self.crawl.scope.widen(&link.url));
        }
        let texts: Vec<_> = seeds.iter().map(Link::text).collect();
        self.tally.discovered += self.state.frontier.seed(&texts, now_ms())?;
        Ok(())
    }

    /// Links of this crawl alone: the others are sent to their shards, with so many links from a
    /// start page.
    pub(super) fn own_links<'l>(&mut self, mut links: Vec<&'l Link>, depth: u16, is_seed: bool) -> Vec<&'l Link> {
        let Some(fleet) = &mut self.state.fleet else { return links };
        let mut sent = 0;
        links.retain(|link| {
            let is_ours = fleet.is_ours(&link.url);
            sent += u64::from(!is_ours && fleet.send(&link.url, depth, is_seed));
            is_ours
        });
        self.tally.links_sent += sent;
        links
    }

    /// Whether a page is another crawl's: it is handed over then, and given up here.
    pub(super) fn is_handed_over(&mut self, assignment: &Assignment) -> Result<bool, Error> {
        let Some(fleet) = &mut self.state.fleet else { return Ok(false) };
        if fleet.is_ours(&assignment.url) {
            return Ok(false);
        }
        self.tally.links_sent += u64::from(fleet.send(&assignment.url, assignment.depth, assignment.is_seed));
        self.leave(assignment)?;
        Ok(true)
    }

    /// Whether no page may be handed out, for the sake of the fleet.
    pub(super) fn is_held_up(&mut self) -> Result<bool, Error> {
        let pause = self.state.fleet.as_ref().and_then(Fleet::pause);
        if pause != self.held_up {
            self.held_up = pause;
            self.say(&Event::HeldUp { why: pause })?;
        }
        if pause == Some(Pause::Unheard) {
            // That is no silence of hosts.
            self.moved_ms = now_ms();
        }
        Ok(pause.is_some())
    }

    /// How the run ends as far as this crawl's own pages go; `None` if it does not.
    pub(super) fn own_end(&self, supply: &Supply, is_forever: bool) -> Option<End> {
        match supply {
            Supply::Empty if self.is_only => Some(End::Fetched),
            Supply::Empty if !is_forever => Some(End::Complete),
            Supply::Until(_) if !is_forever && !self.has_work() => Some(End::Complete),
            Supply::Until(until_ms) if !is_forever && self.is_too_late(*until_ms) => Some(End::Waiting),
            _ => None,
        }
    }

    /// How a run ends that has nothing to do; `None` if others may send something.
    pub(super) fn fleet_end(&mut self, end: End) -> Option<End> {
        let patience = self.crawl.settings.patience;
        let Some(fleet) = self.state.fleet.as_mut().filter(|_| end != End::Fetched) else { return Some(end) };
        match fleet.idle(patience) {
            Others::Over => Some(end),
            Others::Silent => Some(End::Waiting),
            Others::Working => None,
        }
    }

    /// There is something to do.
    pub(super) fn fleet_busy(&mut self, is_starving: bool) {
        self.with_fleet(|fleet| fleet.busy(is_starving));
    }
}
