//! Coordinator: assigns URLs to fetchers, collects results, commits.
//!
//! The order of durability is in one place, [`Coordinator::commit`]: the observer's records of
//! visits, pages, the store's sequence, links to other crawls, the frontier (done pages and
//! discoveries in one step), the seen set; never another order. A crash between two of them only
//! causes some pages to be fetched again.
//!
//! Invariant: at most [`Coordinator::window`] pages are in flight or uncommitted, so at most that
//! many are fetched again after a crash.

mod asked;
mod begin;
mod fleet;
mod told;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use frontier::{Frontier, Next, PageId};
use serde_json::Value;
use tokio::runtime::Handle;

use super::backup::Backups;
use super::claims::{Answer, Claims};
use super::control::{Asked, Control};
use super::fleet::{Fleet, Mail};
use super::observe::{Event, Observer, Pause};
use super::pace::Pace;
use super::patterns::Patterns;
use super::space::Space;
use super::status::Status;
use super::tally::Tally;
use super::warc::Warc;
use crate::clock::now_ms;
use crate::error::Error;
use crate::files::depot::Depot;
use crate::files::seen::Seen;
use crate::files::sequence::SequenceNote;
use crate::links::Link;
use crate::settings::{Folder, Settings};
use crate::stop::Stop;
use crate::visit::{Crawl, Visit};

use self::asked::Urgent;
pub use self::asked::retry;

/// The maximum age of uncommitted results.
const COMMIT_AFTER: Duration = Duration::from_millis(200);
/// With pages in a remote shard: the number of results that triggers a commit, and, in a fleet,
/// the time after links have arrived. Until then those crawls hand over no more.
const COMMIT_MOST: usize = 50_000;
const COMMIT_LINKS_AFTER: Duration = Duration::from_secs(5);
/// The sync interval of the content-seen test and the seen set; nothing depends on it.
const SETS_AFTER: Duration = Duration::from_secs(5);
/// The coordinator's wake-up interval while nothing happens.
const LOOK_UP: Duration = Duration::from_millis(100);
/// The time that a stop allows for visits in flight.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Reason why a run ended.
///
/// ```
/// assert_eq!(crawl::run::End::MaxPages.name(), "max-pages");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to fetch.
    Complete,
    /// The requested pages are done.
    Fetched,
    /// Nothing left may be fetched within the patience: hosts do not answer, or pages wait for a
    /// retry.
    Waiting,
    /// The page limit is reached.
    MaxPages,
    /// It was asked to stop.
    Interrupted,
}

impl End {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::Fetched => "fetched",
            End::Waiting => "waiting",
            End::MaxPages => "max-pages",
            End::Interrupted => "interrupted",
        }
    }
}

/// A crawl's state beside its store.
pub struct State {
    /// The queue: which pages are done, and which are next.
    pub frontier: Frontier,
    /// Every discovered URL.
    pub seen: Seen,
    /// The store's last durable sequence.
    pub note: SequenceNote,
    /// Claims of pages at a seen set shared with other crawls.
    pub claims: Claims,
    /// The crawl's part of a fleet: its own hosts, and links to and from other crawls.
    pub fleet: Option<Fleet>,
    /// The shard with the pages and this state, if they are not in a local folder.
    pub depot: Option<Depot>,
    /// The counts, for other processes.
    pub status: Status,
    /// The settings; a start page that redirects may widen their scope.
    pub settings: Settings,
    /// The settings' folder.
    pub folder: Folder,
    /// The WARC files written during the crawl.
    pub warc: Option<Warc>,
    /// The running backups.
    pub backups: Backups,
}

/// A message to the coordinator.
enum Message {
    Visited(Box<Visit>),
    Dropped(PageId),
    Answered(Answer),
    Asked(Asked),
    Mailed(Mail),
}

/// Assigns URLs to fetchers, collects results, commits.
pub struct Coordinator<'a> {
    crawl: Arc<Crawl>,
    state: &'a mut State,
    runtime: Handle,
    stop: Stop,
    observer: Arc<dyn Observer>,
    tell: Sender<Result<Message, Error>>,
    told: Receiver<Result<Message, Error>>,
    in_flight: usize,
    /// Uncommitted results, and when the first of them arrived.
    uncommitted: usize,
    since: Instant,
    sets_synced: Instant,
    patterns: Patterns,
    /// Time when a page was last fetched or given up.
    moved_ms: i64,
    /// Hosts that are slowed down beyond their delay.
    pace: Pace,
    /// True if only urgent pages are fetched.
    is_only: bool,
    /// Pages to fetch ahead of the queue.
    urgent: VecDeque<Urgent>,
    /// Reason why the fleet keeps pages from being assigned, if it does.
    held_up: Option<Pause>,
    /// Callers waiting for pages in flight.
    awaited: HashMap<PageId, Vec<Sender<Value>>>,
    tally: Tally,
}

/// The bounds and observers of a run.
pub struct Watch {
    /// The maximum number of fetches over all runs of the crawl.
    pub max_pages: u64,
    /// Keep waiting when nothing is left: for pages due later, and for additions.
    pub forever: bool,
    /// The pause when disk space is low.
    pub space: Space,
}

/// Pages that the frontier can assign.
enum Supply {
    /// More pages than free connections.
    Plenty,
    /// No page before this time.
    Until(i64),
    /// No page until visits in flight or uncommitted results bring some.
    InFlight,
    /// No page while the crawl is paused, or the disk full.
    Paused,
    /// No page.
    Empty,
}

impl<'a> Coordinator<'a> {
    /// A coordinator; visits run on `runtime`.
    pub fn new(
        crawl: Arc<Crawl>,
        state: &'a mut State,
        runtime: Handle,
        (stop, observer): (Stop, Arc<dyn Observer>),
    ) -> Coordinator<'a> {
        let now = Instant::now();
        let (tell, told) = channel();
        Coordinator {
            crawl,
            state,
            runtime,
            stop,
            observer,
            tell,
            told,
            in_flight: 0,
            uncommitted: 0,
            since: now,
            sets_synced: now,
            patterns: Patterns::default(),
            moved_ms: now_ms(),
            pace: Pace::default(),
            is_only: false,
            urgent: VecDeque::new(),
            held_up: None,
            awaited: HashMap::new(),
            tally: Tally::default(),
        }
    }

    /// Listens for requests of other processes until the returned value is dropped.
    ///
    /// # Errors
    /// I/O errors.
    pub fn listen(&self) -> Result<Control, Error> {
        let tell = self.tell.clone();
        // After the end of the run nobody listens, and the caller gets an error.
        Control::listen(self.state.folder.path(), move |asked| drop(tell.send(Ok(Message::Asked(asked)))))
    }

    /// Fetches only these pages, ahead of the queue.
    ///
    /// # Errors
    /// Errors of the frontier.
    pub fn fetch_only(&mut self, links: &[Link]) -> Result<(), Error> {
        self.is_only = true;
        self.urge(links, None)
    }

    /// The maximum number of pages in flight or uncommitted.
    fn window(&self) -> usize {
        let most = if self.state.depot.is_some() { COMMIT_MOST } else { 0 };
        most + 2 * self.crawl.settings.connections
    }

    /// Returns whether to commit results now.
    fn is_due(&self, supply: &Supply, is_forever: bool) -> bool {
        let (waits, since) = (self.in_flight == 0, self.since.elapsed());
        let is_due = match &self.crawl.settings.bucket {
            Some(bucket) => {
                let has_links = self.state.fleet.as_ref().is_some_and(Fleet::has_taken);
                self.uncommitted >= COMMIT_MOST
                    || since >= bucket.commit_every
                    || has_links && since >= COMMIT_LINKS_AFTER
                    || waits && self.own_end(supply, is_forever).is_some()
            }
            None => {
                let is_starving = !matches!(supply, Supply::Plenty);
                self.uncommitted >= self.crawl.settings.connections || since >= COMMIT_AFTER || is_starving && waits
            }
        };
        self.uncommitted > 0 && is_due
    }

    /// With pages in a remote shard: commits the start durably, which makes the shard ours, and
    /// takes it in the fleet.
    ///
    /// # Errors
    /// Errors of the shard, and of the mailboxes.
    pub fn begins(&mut self) -> Result<(), Error> {
        if self.state.depot.is_none() {
            return Ok(());
        }
        self.commit()?;
        self.state.fleet.as_mut().map_or(Ok(()), Fleet::claim)
    }

    /// Crawls until nothing is left, or a stop is requested.
    ///
    /// # Errors
    /// Errors of the store, the frontier and the sets; what was committed stays.
    pub fn run(&mut self, watch: &mut Watch) -> Result<(End, Tally), Error> {
        let fetched_before = self.state.frontier.stats().fetches;
        let mut stopping: Option<(End, Instant)> = None;
        loop {
            while let Ok(event) = self.told.try_recv() {
                self.take(event?)?;
            }
            self.patterns.look(&self.crawl.filter, self.crawl.fetcher.hosts(), &*self.observer)?;
            if self.stop.is_asked() && stopping.is_none_or(|(end, _)| end != End::Interrupted) {
                stopping = Some((End::Interrupted, Instant::now()));
            }
            let room = watch.max_pages.saturating_sub(fetched_before + self.tally.fetched);
            if room == 0 && stopping.is_none() {
                stopping = Some((End::MaxPages, Instant::now()));
            }
            let is_full = stopping.is_none() && (self.is_full(&mut watch.space)? || self.is_held_up()?);
            let supply = match stopping {
                Some(_) => Supply::Empty,
                None if is_full || self.tally.is_paused => Supply::Paused,
                None => self.hand_out(room)?,
            };
            if stopping.is_some() {
                let unasked = self.state.claims.give_up();
                self.put_back(unasked)?;
            }
            self.state.status.look(&self.tally, &self.state.frontier);
            self.state.warc.as_ref().map_or(Ok(()), Warc::check)?;
            self.observer.look(&self.tally, &self.state.frontier, self.in_flight).map_err(Error::Observer)?;
            let is_starving = !matches!(supply, Supply::Plenty);
            if self.is_due(&supply, watch.forever) {
                self.commit()?;
                continue;
            }
            let is_stopped = self.stop.is_asked() && self.in_flight == self.state.claims.asked();
            let end = match stopping {
                Some((end, _)) if self.in_flight == 0 || is_stopped => return self.end(end),
                None if self.in_flight == 0 => self.own_end(&supply, watch.forever),
                _ => None,
            };
            match end {
                // A crawl that pauses or stops needs no further shard, but one that is stuck.
                None => {
                    let pauses = matches!(supply, Supply::Paused) && !self.is_stuck();
                    let pauses = pauses || stopping.is_some() || self.is_only;
                    self.fleet_busy(is_starving && !pauses);
                }
                Some(end) => {
                    if let Some(end) = self.fleet_end(end) {
                        return self.end(end);
                    }
                }
            }
            if stopping.is_some_and(|(_, since)| since.elapsed() > STOP_WITHIN) {
                return self.end(stopping.map_or(End::Interrupted, |(end, _)| end));
            }
            self.wait(&supply)?;
        }
    }

    /// Returns whether the crawl pauses because the disk is full. That does not count as lack of
    /// progress.
    fn is_full(&mut self, space: &mut Space) -> Result<bool, Error> {
        let depot = self.state.depot.as_ref();
        let free = || match self.crawl.pages.local() {
            Some(store) => store.engine().free_bytes().ok(),
            None => depot.and_then(Depot::free_bytes),
        };
        self.tally.low_space = space.look(free, &*self.observer)?;
        if let Some(fleet) = &mut self.state.fleet {
            // Incoming links take room too.
            fleet.receive(self.tally.low_space.is_none());
        }
        if self.tally.low_space.is_some() {
            self.moved_ms = now_ms();
        }
        Ok(self.tally.low_space.is_some())
    }

    /// Returns whether anything is left to fetch, other than recrawls that are not yet due.
    fn has_work(&self) -> bool {
        let stats = self.state.frontier.stats();
        !self.urgent.is_empty() || stats.queued > 0 || stats.due > 0 || stats.in_flight > 0
    }

    /// Returns whether a time is too late to wait for, as nothing has progressed for long.
    fn is_too_late(&self, until_ms: i64) -> bool {
        let moved_ms = self.moved_ms.min(now_ms());
        until_ms.saturating_sub(moved_ms) > self.crawl.settings.patience.as_millis() as i64
    }

    fn end(&mut self, end: End) -> Result<(End, Tally), Error> {
        self.commit()?;
        self.crawl.bodies.sync()?;
        self.send_rest()?;
        Ok((end, std::mem::take(&mut self.tally)))
    }

    /// Sleeps until a result arrives, or a page may be due.
    fn wait(&mut self, supply: &Supply) -> Result<(), Error> {
        let mut patience = LOOK_UP;
        if let Supply::Until(until_ms) = supply {
            patience = patience.min(Duration::from_millis(until_ms.saturating_sub(now_ms()).max(1) as u64));
        }
        if self.uncommitted > 0 && self.state.depot.is_none() {
            patience = patience.min(COMMIT_AFTER.saturating_sub(self.since.elapsed()).max(Duration::from_millis(1)));
        }
        match self.told.recv_timeout(patience) {
            Ok(event) => self.take(event?),
            // The coordinator holds a sender itself: it never disconnects.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }

    /// Begins visits while there are pages, connections and room; then at most `room` are in
    /// flight.
    fn hand_out(&mut self, room: u64) -> Result<Supply, Error> {
        let wakes_ms = self.hand_out_urgent(room)?;
        let supply = match self.is_only {
            true => Supply::Empty,
            false => self.supply(room)?,
        };
        self.ask()?;
        Ok(match (supply, self.urgent.is_empty()) {
            (supply @ (Supply::Plenty | Supply::InFlight | Supply::Paused), _) | (supply, true) => supply,
            (Supply::Until(until_ms), false) => Supply::Until(wakes_ms.map_or(until_ms, |wakes| wakes.min(until_ms))),
            (Supply::Empty, false) => wakes_ms.map_or(Supply::InFlight, Supply::Until),
        })
    }

    fn supply(&mut self, room: u64) -> Result<Supply, Error> {
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(self.crawl.settings.connections);
        while self.in_flight < room && self.in_flight + self.uncommitted < self.window() {
            match self.state.frontier.next(now_ms())? {
                Next::Fetch(assignment) => self.begin(assignment)?,
                Next::Wait { until_ms } => return Ok(Supply::Until(until_ms)),
                Next::InFlight => return Ok(Supply::InFlight),
                Next::Empty => return Ok(Supply::Empty),
            }
        }
        Ok(Supply::Plenty)
    }

    fn say(&self, event: &Event) -> Result<(), Error> {
        self.observer.event(event).map_err(Error::Observer)
    }

    fn count_uncommitted(&mut self) {
        if self.uncommitted == 0 {
            self.since = Instant::now();
        }
        self.uncommitted += 1;
    }

    fn take(&mut self, event: Message) -> Result<(), Error> {
        match event {
            Message::Visited(visit) => self.visited(&visit),
            Message::Dropped(page) => self.dropped(page),
            Message::Answered(answer) => self.answered(answer),
            Message::Asked(asked) => self.asked(asked),
            Message::Mailed(mail) => self.mailed(mail),
        }
    }

    /// Makes results durable: pages, the store's sequence, links to other crawls, the frontier,
    /// the seen set, in this order. Afterwards the mailboxes may drop the links received.
    fn commit(&mut self) -> Result<(), Error> {
        self.observer.committing().map_err(Error::Observer)?;
        // Collected results have their pages put already; later puts belong to later results.
        let sequence = self.crawl.pages.last_sequence()?;
        self.crawl.pages.sync()?;
        self.state.note.note(sequence)?;
        self.state.fleet.as_mut().map_or(Ok(()), Fleet::commit)?;
        self.state.frontier.commit()?;
        // With a remote shard, all of the above counts only with this commit.
        self.state.depot.as_mut().map_or(Ok(()), Depot::commit)?;
        if let Some(fleet) = &mut self.state.fleet {
            fleet.committed();
            self.tally.links_waiting = fleet.waiting();
        }
        self.uncommitted = 0;
        self.state.seen.catch_up(&self.state.frontier)?;
        self.observer.committed().map_err(Error::Observer)?;
        if self.sets_synced.elapsed() >= SETS_AFTER {
            self.crawl.bodies.sync()?;
            self.state.seen.sync()?;
            self.sets_synced = Instant::now();
        }
        Ok(())
    }
}
