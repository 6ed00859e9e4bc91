//! A run from start to end: opens the parts of a crawl, crawls, closes them.
//!
//! The store is opened first: its lock is the crawl's lock. The settings are saved before anything
//! is fetched, so that continuing needs none.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use filemap::page::RecordKind;
use filemap_http::ClientOptions;
use frontier::{FailureKind, Frontier, PageState, PageStatus, Stats};
use mailbox::Standing;
use urlindex::Canonicalizer;

use super::backup::Backups;
use super::claims::Claims;
use super::coordinator::{Coordinator, End, State, Watch};
use super::coverage::Coverage;
use super::fleet::Fleet;
use super::observe::{Event, Observer};
use super::opening::{self, Begun};
use super::shared_set::SharedSet;
use super::space::Space;
use super::starts;
use super::status::{Phase, Status};
use super::tally::Tally;
use super::warc::{self, Warc, Written};
use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::{self, Reason};
use crate::fetch::address::Resolver;
use crate::fetch::hosts::Hosts;
use crate::fetch::trust::{self, Trust};
use crate::fetch::{Fetcher, Way};
use crate::files::bodies::Bodies;
use crate::files::depot::Depot;
use crate::files::seen::Seen;
use crate::files::sequence::SequenceNote;
use crate::files::sitemaps::Sitemaps;
use crate::hooks::Hooks;
use crate::links::Link;
use crate::record;
use crate::settings::filter::Filter;
use crate::settings::scope::Accept;
use crate::settings::{Folder, Settings};
use crate::stop::Stop;
use crate::visit::Crawl;

/// The maximum number of runtime threads.
const THREADS_MAX: usize = 8;
/// The time for visits in flight at the end, before they are dropped.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

/// The input of a run.
///
/// ```
/// use crawl::run::{Nobody, Plan, opening::Begun, run};
/// use crawl::settings::Settings;
/// use crawl::hooks::{Blocking, Hooks, Response};
/// # use std::sync::Arc;
/// # let place = tempfile::tempdir()?;
/// let mut settings = Settings::new(crawl::clock::now_ms());
/// settings.seeds.push("http://example.com/".to_owned());
/// settings.obeys_robots = false;
/// let empty = Blocking::new(1, |_: &str| Ok(Response { status: 200, ..Response::default() }));
/// let plan = Plan {
///     store: place.path().join("pages.fm"),
///     begun: Begun::Now,
///     settings,
///     hooks: Hooks { fetch: Some(Arc::new(empty)), ..Hooks::default() },
///     observer: Arc::new(Nobody),
///     max_pages: 10,
///     # rules: None,
///     # filter: None,
///     # tls: None,
///     # resolver: Default::default(),
///     # way: Default::default(),
///     # seen: Default::default(),
///     # redis_password: None,
///     # takes_back: false,
///     # fetch: Vec::new(),
///     # forever: false,
///     # min_free: 0,
///     # stop: Default::default(),
///     # accept: None,
///     # warc: None,
///     # depot: None,
/// };
/// assert_eq!(run(plan)?.tally.fetched, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Plan {
    /// The store.
    pub store: PathBuf,
    /// The run in which the crawl was begun.
    pub begun: Begun,
    /// The settings, with this run's start pages.
    pub settings: Settings,
    /// The canonicaliser of a new store: it decides which URLs are one page.
    pub rules: Option<Arc<dyn Canonicalizer>>,
    /// The URL patterns of the settings; `None`: the run opens them.
    pub filter: Option<Filter>,
    /// The TLS trust; default: the roots of browsers.
    pub tls: Option<rustls::ClientConfig>,
    /// The resolution of names, and the allowed addresses.
    pub resolver: Resolver,
    /// Outgoing route of connections.
    pub way: Way,
    /// Client options for a shared seen set and for mailboxes.
    pub seen: ClientOptions,
    /// The password of a shared seen set on Redis.
    pub redis_password: Option<String>,
    /// True if refused pages are queued again.
    pub takes_back: bool,
    /// The only pages to fetch; empty for all.
    pub fetch: Vec<String>,
    /// The maximum number of fetches over all runs of the crawl.
    pub max_pages: u64,
    /// Keep waiting when nothing is left: for pages due later, and for additions.
    pub forever: bool,
    /// Pause while fewer bytes are free on the store's disk.
    pub min_free: u64,
    /// The handle that stops it.
    pub stop: Stop,
    /// The observer.
    pub observer: Arc<dyn Observer>,
    /// The caller's hooks.
    pub hooks: Hooks,
    /// The caller's scope decision.
    pub accept: Option<Arc<dyn Accept>>,
    /// The folder for WARC files written during the crawl.
    pub warc: Option<PathBuf>,
    /// The shard with the pages and the crawl's state, if they are not in a local folder.
    pub depot: Option<Depot>,
}

/// A start page that was given up.
///
/// ```
/// use crawl::run::LostSeed;
/// fn words(lost: &LostSeed) -> String {
///     format!("{}: {}", lost.url, lost.why.as_deref().unwrap_or("nobody knows why"))
/// }
/// let lost = LostSeed { url: "http://example.com/".to_owned(), why: None };
/// assert_eq!(words(&lost), "http://example.com/: nobody knows why");
/// ```
#[derive(Clone, Debug)]
pub struct LostSeed {
    /// Its URL.
    pub url: String,
    /// The reason, if known.
    pub why: Option<String>,
}

/// The result of a run.
///
/// ```
/// use crawl::Crawler;
/// use crawl::hooks::{Blocking, Response};
/// # let place = tempfile::tempdir()?;
/// let empty = Blocking::new(1, |_: &str| Ok(Response { status: 200, ..Response::default() }));
/// let crawler = Crawler::builder(place.path().join("pages.fm"))?
///     .seed("http://example.com/")
///     .contact("mailto:me@example.com")
///     .ignore_robots()
///     .fetch_by(Some(std::sync::Arc::new(empty)))
///     .build()?;
/// let summary = crawler.run()?;
/// assert_eq!((summary.end.name(), summary.tally.fetched), ("complete", 1));
/// assert!(!summary.is_empty() && summary.lost_seeds.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Summary {
    /// Reason why it ended.
    pub end: End,
    /// Its counts.
    pub tally: Tally,
    /// Coverage of the whole crawl.
    pub coverage: Coverage,
    /// The frontier's numbers.
    pub frontier: Stats,
    /// Duration of the run.
    pub took: Duration,
    /// Given-up start pages.
    pub lost_seeds: Vec<LostSeed>,
    /// The work that the crawl's fleet has left, if the run ended before that.
    pub fleet: Option<Standing>,
    /// Number of pages requested by [`Plan::fetch`].
    pub asked: u64,
    /// Counts of records written to WARC files, if requested.
    pub warc: Option<Written>,
}

impl Summary {
    /// Requested pages that were not fetched.
    pub fn unfetched(&self) -> u64 {
        self.asked.saturating_sub(self.tally.fetched)
    }

    /// Returns whether no page was ever fetched, and none can be.
    pub fn is_empty(&self) -> bool {
        matches!(self.end, End::Complete | End::Waiting) && self.frontier.fetches == 0
    }
}

/// Crawls. Blocks until nothing is left, or a stop is requested; uses its own runtime.
///
/// # Errors
/// Errors of the store, the frontier, the sets and the observer. What was committed stays.
pub fn run(mut plan: Plan) -> Result<Summary, Error> {
    let (given, tls) = (&plan.settings, plan.tls.take());
    let tls = tls.map_or_else(|| trust::tls(Trust::Roots(Vec::new())), Ok).map_err(Error::Usage)?;
    let filter = match plan.filter.take() {
        Some(filter) => filter,
        None => Filter::open(&given.include, &given.exclude, &given.reject_extensions)
            .map_err(|wrong| Error::Usage(wrong.join("; ")))?,
    };
    let folder = Folder::of(&plan.store);
    check_depot(&plan)?;
    let depot = plan.depot.take();
    let made = (plan.begun, plan.rules.clone());
    let pages = opening::pages(&plan.store, &folder, made, depot.as_ref(), &plan.observer)?;
    let mut settings = plan.settings.clone();
    // Invalid ones are refused before anything is requested or made.
    starts::starts(settings.starts(), &**pages.canonicalizer())?;
    let fetch = starts::links(&plan.fetch, &**pages.canonicalizer(), settings.limits.url_bytes)?;
    let shared = shared_set(&mut settings, &plan, &**pages.canonicalizer())?;
    let watched = (&plan.stop, &plan.observer);
    if settings.fleet.is_some() {
        check_hosts_apart(&**pages.canonicalizer())?;
    }
    let kept = settings.bucket.as_ref().filter(|_| depot.is_some()).map(|bucket| bucket.shard);
    let fleet = settings.fleet.as_ref().map(|fleet| Fleet::join(fleet, (folder.path(), kept), &plan.seen, watched));
    let mut fleet = fleet.transpose()?;
    folder.keep_listed(&mut settings)?;
    folder.keep(&settings)?;
    let scope = settings.scope().accepting(plan.accept.clone());
    let mut frontier = opening::frontier(&folder, &settings)?;
    let seeds = starts::share(fleet.as_mut(), &mut settings, &**pages.canonicalizer())?;
    let texts: Vec<_> = seeds.iter().map(Link::text).collect();
    frontier.seed(&texts, now_ms())?;
    folder.keep(&settings)?;
    if let Some(fleet) = &fleet {
        starts::bring_back(&mut frontier, |url| fleet.is_ours(url))?;
    }
    if plan.takes_back {
        let pages = starts::take_back(&mut frontier, &scope)?;
        if pages > 0 {
            plan.observer.event(&Event::TakenBack { pages }).map_err(Error::Observer)?;
        }
    }
    // A new run is a reason to try silent hosts again.
    frontier.wake(None, now_ms())?;
    frontier.commit()?;
    let dir = opening::dir(&folder)?;
    let seen = Seen::open(&dir, &**pages.canonicalizer(), &frontier)?;
    let claims = Claims::open(shared, &mut frontier, (&plan.stop, &plan.observer))?;
    let bodies = Bodies::open(folder.path())?;
    let hosts = Arc::new(Hosts::open(settings.hosts.as_deref()).map_err(Error::Usage)?);
    let ways = (plan.resolver.clone(), Way { hosts, ..plan.way.clone() });
    let fetcher = Fetcher::new(settings.limits.clone(), &settings.user_agent, ways, tls).map_err(Error::Usage)?;
    let fetcher = fetcher.with_turns(settings.address_delay());
    let fetcher = if settings.cookies { fetcher.with_cookies() } else { fetcher };
    let note = SequenceNote::open(&dir)?;
    let unsure = note.unsure(pages.last_sequence()?);
    let sitemaps = Sitemaps::open(&dir)?;
    let status = Status::new(&folder);
    let warc = plan.warc.as_deref().zip(pages.local());
    let warc = warc.map(|(folder, pages)| Warc::begin(folder, pages)).transpose()?;
    let (backups, kept) = (Backups::default(), settings.clone());
    let state = State { frontier, seen, note, claims, fleet, depot, status, settings: kept, folder, warc, backups };
    plan.observer.event(&Event::Begun).map_err(Error::Observer)?;
    let hooks = plan.hooks.clone();
    let crawl = Crawl::new(settings, (scope, filter), (pages, unsure), (fetcher, hooks), bodies, sitemaps);
    work(plan, &fetch, state, crawl)
}

/// Refuses options that are incompatible with pages in object storage.
fn check_depot(plan: &Plan) -> Result<(), Error> {
    let refused = |words: &str| Err(Error::Usage(format!("{words} a crawl whose pages are in object storage")));
    match &plan.settings.bucket {
        None => Ok(()),
        Some(_) if plan.depot.is_none() => refused("this program does not open"),
        Some(_) if plan.warc.is_some() => refused("--warc follows a store in a folder, and not"),
        Some(_) => Ok(()),
    }
}

/// Refuses rules that map several hosts to one page: it would belong to several shards.
fn check_hosts_apart(canonicalizer: &dyn Canonicalizer) -> Result<(), Error> {
    let key = |url: &str| canonicalizer.canonicalize(url.as_bytes()).ok();
    match key("http://www.example.com/") == key("http://example.com/") {
        true => Err(Error::Usage(format!(
            "the store has the rules {} version {}, by which a host with and without `www.` is one: its pages would \
             belong to two shards of a fleet",
            canonicalizer.name(),
            canonicalizer.version()
        ))),
        false => Ok(()),
    }
}

/// The seen set shared with other crawls: its URLs follow the store's rules, or are taken
/// unchanged.
fn shared_set(
    settings: &mut Settings,
    plan: &Plan,
    canonicalizer: &dyn Canonicalizer,
) -> Result<Option<SharedSet>, Error> {
    let Some(location) = &settings.seen else { return Ok(None) };
    let owner = *settings.seen_owner.get_or_insert_with(|| fastrand::u64(..));
    let set = SharedSet::open(location, &plan.seen, plan.redis_password.as_deref(), owner)?;
    let ours = (canonicalizer.name(), canonicalizer.version());
    if set.rules() != ours && !["whatwg", "exact"].contains(&set.rules().0) {
        let (rules, version) = set.rules();
        return Err(Error::Usage(format!(
            "{location} has the rules {rules} version {version}, the store {} version {}: two pages of the store may \
             be one to the set, and one would never be fetched; make a set with the rules `exact`",
            ours.0, ours.1
        )));
    }
    Ok(Some(set))
}

/// Crawls, then closes everything.
fn work(plan: Plan, fetch: &[Link], mut state: State, crawl: Crawl) -> Result<Summary, Error> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| Error::Broken(format!("threads cannot be started: {error}")))?;
    let crawl = Arc::new(crawl);
    state.status.publish(&Tally::default(), &state.frontier, Phase::Running);
    let ended = {
        let space = Space::new(plan.min_free.max(opening::FREE_BYTES));
        let mut watch = Watch { max_pages: plan.max_pages, forever: plan.forever, space };
        let told = (plan.stop, Arc::clone(&plan.observer));
        let mut coordinator = Coordinator::new(Arc::clone(&crawl), &mut state, runtime.handle().clone(), told);
        let control = coordinator.listen();
        // Nothing else depends on it: the crawl runs even if it cannot be controlled.
        if let Err(error) = &control {
            plan.observer.event(&Event::Deaf { why: error.to_string() }).map_err(Error::Observer)?;
        }
        // The bucket first: it decides who has the shard.
        let joined = coordinator.begins().and_then(|()| coordinator.join());
        match joined.map(|()| fetch.is_empty()) {
            Err(error) => Err(error),
            Ok(true) => coordinator.run(&mut watch),
            Ok(false) => coordinator.fetch_only(fetch).and_then(|()| coordinator.run(&mut watch)),
        }
    };
    // Visits still in flight are dropped: the frontier assigns them again.
    runtime.shutdown_timeout(SHUTDOWN_WITHIN);
    // However the run ended, stored pages are written.
    let warc = state.warc.take().map(Warc::end).transpose();
    let has_stopped_it = matches!(&ended, Err(Error::Broken(words)) if words == warc::STOPPED);
    let warc = if has_stopped_it { Ok(warc?) } else { warc };
    let depot = state.depot.take();
    let (end, mut tally) = ended.map_err(|error| taken(depot.as_ref(), error))?;
    let warc = warc?;
    std::mem::take(&mut state.backups).end(end == End::Interrupted);
    tally.add(Reason::HookFailed, crawl.scope.take_panics());
    // Another owner may take the shard between the last commit and the end.
    close(state, crawl, (end, tally, warc, fetch.len())).map_err(|error| taken(depot.as_ref(), error))
}

/// Sums up the run, and closes the parts of the crawl.
fn close(
    state: State,
    crawl: Arc<Crawl>,
    (end, tally, warc, asked): (End, Tally, Option<Written>, usize),
) -> Result<Summary, Error> {
    let State { frontier, seen, settings, mut status, fleet, .. } = state;
    status.publish(&tally, &frontier, Phase::Ended);
    let summary = Summary {
        end,
        tally,
        coverage: Coverage::of(&frontier)?,
        frontier: frontier.stats(),
        took: status.elapsed(),
        lost_seeds: lost_seeds(&crawl, &settings, &frontier)?,
        fleet: fleet.filter(|_| matches!(end, End::Complete | End::Waiting)).and_then(|fleet| fleet.unfinished()),
        asked: asked as u64,
        warc,
    };
    frontier.close()?;
    seen.close()?;
    // A visit that outlived the shutdown still holds the parts: unclosed ones recover on opening.
    if let Some(Crawl { pages, bodies, .. }) = Arc::into_inner(crawl) {
        bodies.close()?;
        pages.close()?;
    }
    Ok(summary)
}

/// The error, or its cause: another owner has the shard. A read may fail of that before the shard
/// knows it, so it is asked.
fn taken(depot: Option<&Depot>, error: Error) -> Error {
    let Some(depot) = depot else { return error };
    let shard = depot.shard();
    if matches!(error, Error::Store(_)) && !shard.is_lost() {
        // If it cannot answer either, the error stays what it is.
        let _ = shard.check();
    }
    match shard.is_lost() {
        true => Error::Taken { shard: shard.name(), by: depot.successor() },
        false => error,
    }
}

/// The given-up start pages.
fn lost_seeds(crawl: &Crawl, settings: &Settings, frontier: &Frontier) -> Result<Vec<LostSeed>, Error> {
    let mut lost = Vec::new();
    for seed in settings.starts() {
        let Some(link) = Link::new(seed.as_bytes().to_vec(), &**crawl.pages.canonicalizer()) else { continue };
        // A page handed over is another crawl's to fetch.
        let is_lost =
            |state: &PageState| state.status == PageStatus::Gone && state.last_failure != Some(FailureKind::Elsewhere);
        let Some(state) = frontier.page(&link.key)?.filter(is_lost) else { continue };
        let note = crawl.pages.get_beside(seed, RecordKind::Metadata)?;
        let why = failure::why(state.last_failure, note.and_then(|note| record::failure_in(&note)));
        lost.push(LostSeed { url: seed.clone(), why });
    }
    Ok(lost)
}
