//! `run`: starts or continues a crawl.
//!
//! The store is opened first: its lock is the crawl's lock. Arguments are kept in the settings, so
//! that continuing takes none.

mod args;
mod seeds;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filemap::canonical::Canonicalizer;
use filemap::page::RecordKind;
use filemap_http::{ClientOptions, SeenClient};
use fm_cli::times::now_ms;
use fm_cli::{Failure, Flags, Outcome, interrupt, sizes, words};
use frontier::{Frontier, PageStatus};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

pub use self::args::Args;
use super::opening::{self, Begun};
use super::{print, starts};
use crate::bodies::Bodies;
use crate::coverage::Coverage;
use crate::crawl::{Claims, Coordinator, Crawl, End, Log, Sitemaps, Space, State, Tally, Watch};
use crate::failure::of_frontier;
use crate::fetch::address::Resolver;
use crate::fetch::trust::{Trust, tls};
use crate::fetch::{Fetcher, Way};
use crate::filter::Filter;
use crate::links::Link;
use crate::progress::{Phase, Progress};
use crate::seen::Seen;
use crate::sequence::{self, SequenceNote};
use crate::settings::{Folder, Settings};
use crate::{failure, files, record};

/// Most threads of the runtime.
const THREADS_MAX: usize = 8;
/// Most given-up seeds that are named.
const COMPLAINTS: usize = 5;

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    let folder = Folder::of(&args.store);
    let known = folder.settings()?;
    let begun = if known.is_some() { Begun::Before } else { Begun::Now };
    let mut settings = known.unwrap_or_else(|| Settings::new(now_ms()));
    // Bad arguments are refused before anything is made.
    args::apply(args, &mut settings)?;
    let trust = if args.insecure { Trust::Anybody } else { Trust::Roots(roots(args)?) };
    let tls = tls(trust).map_err(Failure::Usage)?;
    let filter = filter(&settings)?;
    let given = seeds::read(&args.seed, &args.seeds, settings.limits.url_bytes)?;
    if begun == Begun::Now && given.is_empty() {
        return Err(Failure::Usage("a crawl needs a start page: --seed URL".to_owned()));
    }
    interrupt::listen();
    let noted = opening::noted_sequence(&folder)?;
    let pages = opening::store_to_fill(&args.store, &folder, begun, args.rules.as_ref())?;
    sequence::check(noted, &pages, folder.path())?;
    let said = seeds::enter(given, &mut settings);
    let seeds = starts::seeds(&settings, &**pages.canonicalizer())?;
    let fetch = starts::links(&args.fetch, &**pages.canonicalizer(), settings.limits.url_bytes)?;
    let shared = shared_set(&settings, &**pages.canonicalizer())?;
    folder.keep_listed(&mut settings)?;
    folder.keep(&settings)?;
    let scope = settings.scope();
    let mut frontier = opening::frontier(&folder, &settings)?;
    let texts: Vec<_> = seeds.iter().map(Link::text).collect();
    frontier.seed(&texts, now_ms()).map_err(of_frontier)?;
    if args.scope.is_some() || args.allow_private || !args.seed.is_empty() {
        starts::take_back(&mut frontier, &scope)?;
    }
    // Whoever starts a run has a reason to ask hosts again that did not answer.
    frontier.wake(None, now_ms()).map_err(of_frontier)?;
    frontier.commit().map_err(of_frontier)?;
    let seen = Seen::open(&opening::dir(&folder)?, &**pages.canonicalizer(), &frontier)?;
    let claims = Claims::open(shared, &mut frontier)?;
    let bodies = Bodies::open(folder.path())?;
    let resolver = Resolver { overrides: args.resolve.clone(), allow_private: args.allow_private };
    let way = Way { proxy: args.proxy.clone(), bind: args.bind };
    let fetcher =
        Fetcher::new(settings.limits.clone(), &settings.user_agent, (resolver, way), tls).map_err(Failure::Usage)?;
    let fetcher = if settings.cookies { fetcher.with_cookies() } else { fetcher };
    let note = SequenceNote::open(&opening::dir(&folder)?)?;
    let sitemaps = Sitemaps::open(&folder.join(files::SITEMAPS))?;
    let crawl = Crawl::new(settings.clone(), (scope, filter), pages, fetcher, bodies, sitemaps);
    let mut log = Log::open(args.log.as_deref(), args.log_size)?;
    log.event("begin", begin(args))?;
    for said in said {
        log.event("seeds", json!(said))?;
        if flags.says() {
            words::say(said);
        }
    }
    work(
        (args, flags),
        &folder,
        crawl,
        &fetch,
        State { frontier, seen, note, claims, log, settings, folder: folder.clone() },
    )
}

/// What the log says of the beginning of a run. Credentials are in none of it.
fn begin(args: &Args) -> Value {
    if args.insecure {
        words::complain("certificates are not checked, as --insecure says");
    }
    json!({
        "store": args.store.display().to_string(), "pid": std::process::id(), "is_insecure": args.insecure,
        "proxy": args.proxy.as_ref().map(ToString::to_string), "bind": args.bind,
    })
}

/// The patterns of the crawl.
fn filter(settings: &Settings) -> Result<Filter, Failure> {
    Filter::open(&settings.include, &settings.exclude, &settings.reject_extensions).map_err(|wrong| {
        let (last, others) = wrong.split_last().map_or((String::new(), &[][..]), |(last, all)| (last.clone(), all));
        others.iter().for_each(words::complain);
        Failure::Usage(format!("{last}; --no-include and --no-exclude forget patterns of earlier runs"))
    })
}

/// The seen set that the crawl shares with others: its URLs are those of the store, or taken as
/// they are.
fn shared_set(settings: &Settings, canonicalizer: &dyn Canonicalizer) -> Result<Option<SeenClient>, Failure> {
    let Some(location) = &settings.seen else { return Ok(None) };
    let credentials = fm_cli::credentials::read()?;
    let mut options = ClientOptions::new();
    if let Some(token) = credentials.token {
        options = options.token(token);
    }
    if let Some(pem) = credentials.authorities {
        options = options.authorities(pem);
    }
    let set = SeenClient::open(location, &options)?;
    if !set.writes() {
        return Err(Failure::Usage(format!("{location}: its server only reads; start it with --write")));
    }
    let ours = (canonicalizer.name(), canonicalizer.version());
    if set.rules() != ours && !["whatwg", "exact"].contains(&set.rules().0) {
        let (rules, version) = set.rules();
        return Err(Failure::Usage(format!(
            "{location} has the rules {rules} version {version}, the store {} version {}: two pages of the store may \
             be one to the set, and one would never be fetched; make a set with the rules `exact`",
            ours.0, ours.1
        )));
    }
    Ok(Some(set))
}

fn roots(args: &Args) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let Some(path) = &args.ca else { return Ok(Vec::new()) };
    let unreadable = |error| Failure::Usage(format!("{}: {error}", path.display()));
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect::<Result<_, _>>().map_err(unreadable)?;
    match found.is_empty() {
        true => Err(Failure::Usage(format!("{}: no certificate in it", path.display()))),
        false => Ok(found),
    }
}

/// Crawls, and closes everything.
fn work(
    (args, flags): (&Args, &Flags),
    folder: &Folder,
    crawl: Crawl,
    fetch: &[Link],
    mut state: State,
) -> Result<Outcome, Failure> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Io(format!("threads cannot be started: {error}")))?;
    let crawl = Arc::new(crawl);
    let mut progress = Progress::new(folder, flags);
    progress.publish(&Tally::default(), &state.frontier, Phase::Running);
    let ended = {
        let mut look = |tally: &Tally, frontier: &Frontier, in_flight: usize| progress.look(tally, frontier, in_flight);
        let mut watch = Watch {
            max_pages: args.max_pages.unwrap_or(u64::MAX),
            forever: args.forever,
            space: Space::new(args.min_free.max(opening::FREE_BYTES)),
            look: &mut look,
        };
        let handle = runtime.handle().clone();
        let mut coordinator = Coordinator::new(Arc::clone(&crawl), &mut state, handle);
        // Nothing else depends on it: a crawl that cannot be asked crawls all the same.
        let _control = coordinator.listen().map_err(words::complain).ok();
        match fetch.is_empty() {
            true => coordinator.run(&mut watch),
            false => coordinator.fetch_only(fetch).and_then(|()| coordinator.run(&mut watch)),
        }
    };
    progress.clear();
    // Visits still in flight are dropped: the frontier assigns them again.
    runtime.shutdown_timeout(Duration::from_secs(5));
    let (end, tally) = ended?;
    let State { frontier, seen, mut log, settings, .. } = state;
    progress.publish(&tally, &frontier, Phase::Ended);
    let coverage = Coverage::of(&frontier);
    let said = print(&summary(flags, end, &tally, &frontier, &coverage, progress.elapsed()));
    complain_of_seeds(&crawl, &settings, &frontier)?;
    complain_of_unstorable(&tally, &args.store);
    coverage.complain(end, &args.store, args.tolerate);
    let unfetched = (fetch.len() as u64).saturating_sub(tally.fetched);
    if end == End::Fetched && unfetched > 0 {
        let asked = words::count(fetch.len() as u64, "page");
        words::complain(format_args!("of {asked} asked for, not fetched: {unfetched}"));
    }
    let is_empty = matches!(end, End::Complete | End::Waiting) && frontier.stats().fetches == 0;
    log.event("end", json!({ "why": end.name(), "run": tally.json() }))?;
    log.flush()?;
    frontier.close().map_err(of_frontier)?;
    seen.close()?;
    // A visit that outlived the shutdown still holds the parts: what is not closed is recovered on
    // opening.
    if let Some(Crawl { pages, bodies, .. }) = Arc::into_inner(crawl) {
        bodies.close()?;
        pages.close()?;
    }
    said?;
    Ok(match end {
        End::Interrupted => interrupt::outcome(),
        _ if tally.unstorable() > 0 => Outcome::Damaged,
        End::Fetched if unfetched > 0 => Outcome::Incomplete,
        _ if is_empty => Outcome::NotFound,
        _ if coverage.missing_part(end) > args.tolerate => Outcome::Incomplete,
        _ => Outcome::Done,
    })
}

/// Reports seeds that were given up, and why.
fn complain_of_seeds(crawl: &Crawl, settings: &Settings, frontier: &Frontier) -> Result<(), Failure> {
    let mut gone = Vec::new();
    for seed in settings.starts() {
        let Some(link) = Link::new(seed.as_bytes().to_vec(), &**crawl.pages.canonicalizer()) else { continue };
        if let Some(state) =
            frontier.page(&link.key).map_err(of_frontier)?.filter(|state| state.status == PageStatus::Gone)
        {
            gone.push((seed, state.last_failure));
        }
    }
    for (seed, last_failure) in gone.iter().take(COMPLAINTS) {
        let note = crawl.pages.get_beside(seed, RecordKind::Metadata)?;
        let why = failure::why(*last_failure, note.and_then(|note| record::failure_in(&note)));
        words::complain(format_args!("the seed {seed} was given up: {}", why.unwrap_or_default()));
    }
    if gone.len() > COMPLAINTS {
        words::complain(format_args!("{} more were given up", words::count((gone.len() - COMPLAINTS) as u64, "seed")));
    }
    Ok(())
}

/// Reports the number of pages that the store refused.
fn complain_of_unstorable(tally: &Tally, store: &Path) {
    if tally.unstorable() > 0 {
        let (pages, store) = (words::count(tally.unstorable(), "page"), store.display());
        let rules = format_args!("`fm-tool erase {store} --list` prints its rules of erasures");
        words::complain(format_args!("{pages} fetched and not stored: {store} refuses them; {rules}"));
    }
}

fn summary(flags: &Flags, end: End, tally: &Tally, frontier: &Frontier, coverage: &Coverage, took: Duration) -> String {
    let stats = frontier.stats();
    let seconds = took.as_secs_f64().max(1e-3);
    if flags.json {
        let mut line = tally.json();
        line["end"] = json!(end.name());
        line["seconds"] = json!(seconds);
        line["queued"] = json!(stats.queued + stats.due);
        line["not_fetched"] = coverage.json(end);
        return format!("{line}\n");
    }
    let queued = stats.queued + stats.due;
    let ended = match end {
        End::Complete => "nothing is left to fetch".to_owned(),
        End::Fetched => format!("the pages asked for are done; queued: {queued}"),
        End::Waiting => format!("no page may be had within --patience, run again to go on; queued: {queued}"),
        End::MaxPages => format!("as many pages as asked for; queued: {queued}"),
        End::Interrupted => format!("interrupted, run again to go on; queued: {queued}"),
    };
    let mut lines = format!(
        "{} fetched in {seconds:.1} s ({:.0} pages/s, {}/s): {ended}\n{} discovered, {}, {} unchanged, {}\n",
        words::count(tally.fetched, "page"),
        tally.fetched as f64 / seconds,
        sizes::print((tally.body_bytes as f64 / seconds) as u64),
        tally.discovered,
        words::count(tally.redirects, "redirect"),
        tally.unchanged,
        words::count(tally.duplicates, "duplicate"),
    );
    let reasons = tally.reasons_in_words();
    if !reasons.is_empty() {
        lines += &format!("failures and limits: {reasons}\n");
    }
    lines
}
