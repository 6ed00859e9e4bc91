//! The crawl: the frontier hands out pages, tasks visit them, and what they tell is made durable in groups.
//!
//! [`Coordinator`] alone holds the frontier, the seen set, the note and the log, on one thread; visits run on the runtime's threads and send what
//! came of them back. The order of what becomes durable is in one place, [`Coordinator::commit`]: pages first, then the note of the
//! store's sequence, then the frontier (in one step what is done and what was discovered), then the seen set; never the other way. A
//! crash between two of them costs a page that is fetched again, and nothing else.
//!
//! Invariant: no more than [`Coordinator::window`] pages are handed out and not durably told of, in flight or told; that many at most
//! are fetched again after a crash.

mod hops;
mod log;
pub mod tally;
pub mod visit;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use filemap::PageStore;
use frontier::{Assignment, Frontier, Next};
use tokio::runtime::Handle;

use self::hops::Hops;
pub use self::log::Log;
use self::tally::Tally;
use self::visit::{Told, Visit};
use crate::bodies::Bodies;
use crate::clock::{now_ms, unsigned};
use crate::failure::{Failure, Reason};
use crate::fetch::Fetcher;
use crate::interrupt;
use crate::outcome;
use crate::robots::cache::Cache;
use crate::scope::Scope;
use crate::seen::Seen;
use crate::sequence::SequenceNote;
use crate::settings::Settings;

/// How long what was told waits to be made durable, at most.
const COMMIT_AFTER: Duration = Duration::from_millis(200);
/// How often the content-seen test and the seen set are synced: nothing depends on it.
const SETS_AFTER: Duration = Duration::from_secs(5);
/// How often the coordinator looks up while nothing happens.
const LOOK_UP: Duration = Duration::from_millis(100);
/// How long a stop waits for what is in flight.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// What all visits share.
pub struct Crawl {
    /// The settings.
    pub settings: Settings,
    /// What belongs to the crawl.
    pub scope: Scope,
    /// The store.
    pub pages: PageStore,
    /// Fetches.
    pub fetcher: Fetcher,
    /// robots.txt.
    pub robots: Cache,
    /// The content-seen test.
    pub bodies: Bodies,
    hops: Hops,
}

impl Crawl {
    /// A crawl of these parts.
    pub fn new(settings: Settings, scope: Scope, pages: PageStore, fetcher: Fetcher, bodies: Bodies) -> Crawl {
        let robots = Cache::new(crate::robots::token(&settings.user_agent), settings.retry);
        Crawl { settings, scope, pages, fetcher, robots, bodies, hops: Hops::default() }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to fetch.
    Complete,
    /// The number of pages that was asked for is fetched.
    MaxPages,
    /// A signal.
    Interrupted,
}

impl End {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            End::Complete => "complete",
            End::MaxPages => "max-pages",
            End::Interrupted => "interrupted",
        }
    }
}

/// What a crawl knows beside its store, and how far the store was then.
pub struct State {
    /// Which pages are done, and which are next.
    pub frontier: Frontier,
    /// Every URL that was discovered.
    pub seen: Seen,
    /// What the store has made durable at least.
    pub note: SequenceNote,
    /// Visits, for people.
    pub log: Log,
}

/// Who hands out, listens and makes durable.
pub struct Coordinator<'a> {
    crawl: Arc<Crawl>,
    state: &'a mut State,
    runtime: Handle,
    tell: Sender<Result<Visit, outcome::Failure>>,
    told: Receiver<Result<Visit, outcome::Failure>>,
    in_flight: usize,
    /// Told to the frontier since the last commit, and since when.
    uncommitted: usize,
    since: Instant,
    sets_synced: Instant,
    /// Failures in a row of each host that failed last.
    failing: HashMap<String, u32>,
    tally: Tally,
}

/// What a run is told from outside, and tells.
pub struct Watch<'a> {
    /// Fetches of pages, at most, in the whole life of the crawl.
    pub max_pages: u64,
    /// Goes on waiting when only pages are left that are due later.
    pub forever: bool,
    /// Looks at the numbers, a few times a second.
    pub look: &'a mut dyn FnMut(&Tally, &Frontier, usize),
}

/// What there is to hand out.
enum Supply {
    /// More than there are hands.
    Plenty,
    /// Nothing before this time.
    Until(u64),
    /// It depends on what is in flight or not committed.
    InFlight,
    /// Nothing.
    Empty,
}

impl<'a> Coordinator<'a> {
    /// A coordinator; visits run on `runtime`.
    pub fn new(crawl: Arc<Crawl>, state: &'a mut State, runtime: Handle) -> Coordinator<'a> {
        let now = Instant::now();
        let (tell, told) = channel();
        Coordinator {
            crawl,
            state,
            runtime,
            tell,
            told,
            in_flight: 0,
            uncommitted: 0,
            since: now,
            sets_synced: now,
            failing: HashMap::new(),
            tally: Tally::default(),
        }
    }

    /// Pages that may be handed out and not durably told of.
    fn window(&self) -> usize {
        2 * self.crawl.settings.connections
    }

    /// Crawls until there is nothing left, or it is to stop.
    ///
    /// # Errors
    /// Those of the store, the frontier and the sets; what was committed before is there.
    pub fn run(&mut self, watch: &mut Watch<'_>) -> Result<(End, Tally), outcome::Failure> {
        let fetched_before = self.state.frontier.stats().fetches;
        let mut stopping: Option<(End, Instant)> = None;
        loop {
            while let Ok(visit) = self.told.try_recv() {
                self.take(visit?)?;
            }
            if interrupt::asked() && stopping.is_none_or(|(end, _)| end != End::Interrupted) {
                stopping = Some((End::Interrupted, Instant::now()));
            }
            let room = watch.max_pages.saturating_sub(fetched_before + self.tally.fetched);
            if room == 0 && stopping.is_none() {
                stopping = Some((End::MaxPages, Instant::now()));
            }
            let supply = if stopping.is_some() { Supply::Empty } else { self.hand_out(room)? };
            (watch.look)(&self.tally, &self.state.frontier, self.in_flight);
            let is_starving = !matches!(supply, Supply::Plenty);
            let is_due = self.uncommitted > 0
                && (self.uncommitted >= self.crawl.settings.connections
                    || self.since.elapsed() >= COMMIT_AFTER
                    || is_starving && self.in_flight == 0);
            if is_due {
                self.commit()?;
                continue;
            }
            if self.in_flight == 0 {
                match (stopping, &supply) {
                    (Some((end, _)), _) => return self.end(end),
                    (None, Supply::Empty) => return self.end(End::Complete),
                    (None, Supply::Until(_)) if !watch.forever && !self.has_work() => return self.end(End::Complete),
                    _ => {}
                }
            }
            if stopping.is_some_and(|(_, since)| since.elapsed() > STOP_WITHIN) {
                return self.end(stopping.map_or(End::Interrupted, |(end, _)| end));
            }
            self.wait(&supply)?;
        }
    }

    /// Whether anything is to be fetched sooner or later but for recrawls that are not due.
    fn has_work(&self) -> bool {
        let stats = self.state.frontier.stats();
        stats.queued > 0 || stats.due > 0 || stats.in_flight > 0
    }

    fn end(&mut self, end: End) -> Result<(End, Tally), outcome::Failure> {
        self.commit()?;
        self.crawl.bodies.sync()?;
        Ok((end, std::mem::take(&mut self.tally)))
    }

    /// Sleeps until something is told, or may be due.
    fn wait(&mut self, supply: &Supply) -> Result<(), outcome::Failure> {
        let mut patience = LOOK_UP;
        if let Supply::Until(until_ms) = supply {
            patience = patience.min(Duration::from_millis(until_ms.saturating_sub(unsigned(now_ms())).max(1)));
        }
        if self.uncommitted > 0 {
            patience = patience.min(COMMIT_AFTER.saturating_sub(self.since.elapsed()).max(Duration::from_millis(1)));
        }
        match self.told.recv_timeout(patience) {
            Ok(visit) => self.take(visit?),
            // The sender is ours: it is never gone.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }

    /// Begins visits as far as there are pages, connections and room; at most `room` are in flight then.
    fn hand_out(&mut self, room: u64) -> Result<Supply, outcome::Failure> {
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(self.crawl.settings.connections);
        while self.in_flight < room && self.in_flight + self.uncommitted < self.window() {
            match self.state.frontier.next(unsigned(now_ms()))? {
                Next::Fetch(assignment) => self.begin(assignment)?,
                Next::Wait { until_ms } => return Ok(Supply::Until(until_ms)),
                Next::InFlight => return Ok(Supply::InFlight),
                Next::Empty => return Ok(Supply::Empty),
            }
        }
        Ok(Supply::Plenty)
    }

    fn begin(&mut self, assignment: Assignment) -> Result<(), outcome::Failure> {
        let failures = self.failing.get(host(&assignment.url)).copied().unwrap_or(0);
        if failures >= self.crawl.settings.host_failures {
            self.tally.add(Reason::HostFailures, 1);
            let failure = Failure::new(Reason::HostFailures, format!("{failures} in a row"));
            return self.tell_failure(assignment.page, &failure);
        }
        self.in_flight += 1;
        let (crawl, tell) = (Arc::clone(&self.crawl), self.tell.clone());
        let url = assignment.url.clone();
        let visit = self.runtime.spawn(async move { visit::visit(&crawl, assignment).await });
        self.runtime.spawn(async move {
            let broken =
                |error| outcome::Failure::Io(format!("the visit to {url} broke off: {error}; please report it"));
            // Nobody listens any more if the run has ended: the page is fetched again in the next.
            let _ = tell.send(visit.await.unwrap_or_else(|error| Err(broken(error))));
        });
        Ok(())
    }

    fn tell_failure(&mut self, page: frontier::PageId, failure: &Failure) -> Result<(), outcome::Failure> {
        let told = frontier::Failure {
            kind: failure.reason.kind(),
            retry_after_ms: failure.retry_after_ms,
            is_permanent: failure.reason.is_permanent(),
        };
        self.count_uncommitted();
        Ok(self.state.frontier.failed(page, &told, unsigned(now_ms()))?)
    }

    fn count_uncommitted(&mut self) {
        if self.uncommitted == 0 {
            self.since = Instant::now();
        }
        self.uncommitted += 1;
    }

    /// Tells the frontier what came of a visit.
    fn take(&mut self, visit: Visit) -> Result<(), outcome::Failure> {
        self.in_flight -= 1;
        let host = host(&visit.url);
        if let Some(delay) = visit.crawl_delay {
            let own = Duration::from_millis(self.crawl.settings.delay_ms());
            self.state.frontier.host_delay(host, Some(delay.max(own).as_millis() as u64))?;
        }
        if let Some(hold) = visit.hold {
            self.state.frontier.host_hold(host, unsigned(now_ms()).saturating_add(hold.as_millis() as u64))?;
        }
        self.tally.visit(&visit);
        let mut new_links = 0;
        match &visit.told {
            Told::Fetched(fetched) => {
                self.failing.remove(host);
                let links: Vec<&str> = fetched.links.iter().map(String::as_str).collect();
                let told = frontier::Fetched {
                    fetched_at_ms: unsigned(fetched.at_ms),
                    links: &links,
                    changed: fetched.changed,
                    is_duplicate: fetched.is_duplicate,
                };
                self.count_uncommitted();
                let done = self.state.frontier.done(visit.page, &told)?;
                new_links = done.new_links;
                self.tally.discovered += u64::from(done.new_links);
                self.tally.add(Reason::DepthLimit, u64::from(done.over_depth));
                self.tally.add(Reason::HostPagesLimit, u64::from(done.over_host_budget));
                self.tally.add(Reason::UrlLimit, u64::from(done.over_length));
            }
            Told::Failed(failure) => {
                match failure.reason.blames_host() {
                    true => *self.failing.entry(host.to_owned()).or_default() += 1,
                    false => drop(self.failing.remove(host)),
                }
                self.tell_failure(visit.page, failure)?;
            }
        }
        self.state.log.visit(&visit, new_links)
    }

    /// Makes durable what was told: pages, then how far the store is with them, then the frontier, then the seen set.
    fn commit(&mut self) -> Result<(), outcome::Failure> {
        // What was told is put; what is put meanwhile is not told yet.
        let sequence = self.crawl.pages.engine().stats().last_sequence;
        self.crawl.pages.sync()?;
        self.state.note.note(sequence)?;
        self.state.frontier.commit()?;
        self.uncommitted = 0;
        self.state.seen.catch_up(&self.state.frontier)?;
        self.state.log.flush()?;
        if self.sets_synced.elapsed() >= SETS_AFTER {
            self.crawl.bodies.sync()?;
            self.state.seen.sync()?;
            self.sets_synced = Instant::now();
        }
        Ok(())
    }
}

/// The host of a canonical URL, as the frontier knows it.
fn host(url: &str) -> &str {
    urlindex::host(url.as_bytes()).and_then(|host| std::str::from_utf8(host).ok()).unwrap_or("")
}
