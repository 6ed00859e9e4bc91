//! `run`: starts or continues a crawl.
//!
//! The store is opened first: its lock is the crawl's lock. Arguments are kept in the settings, so
//! that continuing takes none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filemap::canonical::{Canonicalizer, Whatwg};
use filemap::page::RecordKind;
use filemap_http::{Client, ClientOptions, SeenClient};
use fm_cli::times::{self, now_ms};
use fm_cli::{Failure, Flags, Outcome, canonical, interrupt, sizes, words};
use frontier::{Frontier, PageStatus};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use super::opening::{self, Begun};
use super::{print, starts};
use crate::bodies::Bodies;
use crate::coverage::Coverage;
use crate::crawl::{Claims, Coordinator, Crawl, End, Log, Sitemaps, State, Tally, Watch};
use crate::failure::of_frontier;
use crate::fetch::address::{Override, Resolver};
use crate::fetch::{self, Fetcher};
use crate::links::{Link, is_web};
use crate::progress::{Phase, Progress};
use crate::scope::Reach;
use crate::seen::Seen;
use crate::sequence::{self, SequenceNote};
use crate::settings::{Folder, Settings};
use crate::{failure, files, record};

/// Most threads of the runtime.
const THREADS_MAX: usize = 8;
/// Most given-up seeds that are named.
const COMPLAINTS: usize = 5;

/// Start or continue a crawl
#[derive(clap::Args)]
#[command(after_help = "\
The first run needs seeds, and a contact that is sent with every request. Arguments are remembered (except --max-pages, --fetch, --forever, --log, \
--tolerate, --allow-private, --resolve and --ca): `fm-crawl run pages.fm` continues. A seed that was given up is tried again.

Exits with 1 if no page was ever fetched, with 3 if the store refused fetched pages, and with 5 if pages were not fetched for a reason \
that is neither their site's answer (4xx, robots.txt) nor a limit: they were given up, or their hosts do not answer (--tolerate).

Example:
  fm-crawl run pages.fm --seed https://example.com/ --contact mailto:me@example.com --max-pages 1000")]
pub struct Args {
    /// The store's folder, made if absent
    store: PathBuf,
    /// Start pages; may be given again
    #[arg(long, value_name = "URL", num_args = 1..)]
    seed: Vec<String>,
    /// Fetch these pages, whatever the queue, and nothing else; may be given again
    #[arg(long, value_name = "URL", num_args = 1..)]
    fetch: Vec<String>,
    /// What makes two URLs one page in a new store: whatwg, crawl, surt or exact, rules switched
    /// as in crawl,+www,-tracking [default: crawl]
    #[arg(long, value_name = "RULES", value_parser = canonical::Canonical::parse)]
    rules: Option<canonical::Canonical>,
    /// Which links to follow from the seeds [default: host]
    #[arg(long, value_enum)]
    scope: Option<Reach>,
    /// Stop at this number of fetched pages in all runs
    #[arg(long, value_name = "N")]
    max_pages: Option<u64>,
    /// Most links from a seed to a page [default: 100]
    #[arg(long, value_name = "N")]
    max_depth: Option<u16>,
    /// Most pages of one host; 0 for no limit [default: 100000]
    #[arg(long, value_name = "N")]
    max_host_pages: Option<u32>,
    /// Requests a second to a host; 0 for no limit [default: 1]
    #[arg(long, value_name = "R", value_parser = rate, allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Connections to one host [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    host_connections: Option<u16>,
    /// Connections in all [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Option<u32>,
    /// Contact of the crawl's operator, a URL or mailto:ADDRESS, sent with every request
    #[arg(long, value_name = "CONTACT", value_parser = contact)]
    contact: Option<String>,
    /// The whole user agent; robots.txt is matched by its first word
    #[arg(long, value_name = "UA", value_parser = one_line)]
    user_agent: Option<String>,
    /// Fetch each page again at about this age, adapted to how often it changes
    #[arg(long, value_name = "AGE", value_parser = times::duration)]
    recrawl: Option<Duration>,
    /// Keep running when nothing is left: for pages that are due later, and for `fm-crawl add`
    #[arg(long)]
    forever: bool,
    /// Follow the links of pages whose body is stored under another URL
    #[arg(long)]
    follow_duplicates: bool,
    /// Follow links marked nofollow
    #[arg(long)]
    follow_nofollow: bool,
    /// Do not read sitemaps
    #[arg(long)]
    no_sitemaps: bool,
    /// Ignore robots.txt: for your own sites only
    #[arg(long)]
    no_robots: bool,
    /// Connect to private, loopback and other non-public addresses
    #[arg(long)]
    allow_private: bool,
    /// Share the work with other crawls by a seen set of fm-serve: the first to ask for a page
    /// fetches it. FILEMAP_TOKEN and FILEMAP_CA_FILE as for fm-tool; `none` to crawl alone
    #[arg(long, value_name = "http://HOST/v1/seen/NAME", value_parser = seen_set)]
    seen: Option<SharedSet>,
    /// Attempts at a page that fails, 1 to 15 [default: 13]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    attempts: Option<u8>,
    /// The wait before the second attempt, doubled for each further one [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    retry: Option<Duration>,
    /// Failures of pages in a row after which their host is to blame, and rests [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_host_failures: Option<u16>,
    /// How long a host may fail before its queued pages are given up [default: 7d]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    host_down: Option<Duration>,
    /// How long a run goes on without a page: hosts rest that do not answer, failed pages wait
    /// [default: 15m]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    patience: Option<Duration>,
    /// Part of the pages that may be left unfetched without an exit code of 5
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0%")]
    tolerate: f64,
    /// Largest body; of a longer one the beginning is kept [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_positive)]
    max_body: Option<u64>,
    /// Most redirects in a row [default: 10]
    #[arg(long, value_name = "N")]
    max_redirects: Option<u8>,
    /// Largest expansion of a compressed body [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_ratio: Option<u32>,
    /// Time limit for a whole page [default: 120s]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    timeout: Option<Duration>,
    /// Time limit for the beginning of an answer [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    first_byte_timeout: Option<Duration>,
    /// Time limit for a connection [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    connect_timeout: Option<Duration>,
    /// The longest Retry-After that is obeyed [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    max_retry_after: Option<Duration>,
    /// Resolve a name to an address, like curl's --resolve; HOST and PORT may be *
    #[arg(long, value_name = "HOST:PORT:ADDRESS[:PORT]", value_parser = Override::parse)]
    resolve: Vec<Override>,
    /// Trust the certificates in this PEM file too
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Append a JSON line for each visit to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, flags: &Flags) -> Result<Outcome, Failure> {
    interrupt::listen();
    let folder = Folder::of(&args.store);
    let known = folder.settings()?;
    if known.is_none() && args.seed.is_empty() {
        return Err(Failure::Usage("a crawl needs a start page: --seed URL".to_owned()));
    }
    let begun = if known.is_some() { Begun::Before } else { Begun::Now };
    let mut settings = known.unwrap_or_else(|| Settings::new(now_ms()));
    // Bad arguments are refused before anything is made.
    apply(args, &mut settings)?;
    let tls = fetch::tls(roots(args)?).map_err(Failure::Usage)?;
    for seed in &args.seed {
        let url = Whatwg.canonicalize(seed.as_bytes()).map_err(|error| Failure::Usage(format!("{seed}: {error}")))?;
        if !is_web(&url) {
            return Err(Failure::Usage(format!("{seed}: only http and https are crawled")));
        }
    }
    let noted = opening::noted_sequence(&folder)?;
    let pages = opening::store_to_fill(&args.store, &folder, begun, args.rules.as_ref())?;
    sequence::check(noted, &pages, folder.path())?;
    settings.seeds.extend(args.seed.iter().filter_map(|seed| starts::is_new_seed(seed, &settings)).collect::<Vec<_>>());
    let seeds = starts::seeds(&settings, &**pages.canonicalizer())?;
    let shared = shared_set(&settings, &**pages.canonicalizer())?;
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
    let fetcher = Fetcher::new(settings.limits.clone(), &settings.user_agent, resolver, tls).map_err(Failure::Usage)?;
    let note = SequenceNote::open(&opening::dir(&folder)?)?;
    let sitemaps = Sitemaps::open(&folder.join(files::SITEMAPS))?;
    let crawl = Crawl::new(settings.clone(), scope, pages, fetcher, bodies, sitemaps);
    let mut log = Log::open(args.log.as_deref())?;
    log.event("begin", json!({ "store": args.store.display().to_string(), "pid": std::process::id() }))?;
    work(args, flags, &folder, crawl, State { frontier, seen, note, claims, log, settings, folder: folder.clone() })
}

/// Replaces settings by arguments.
fn apply(args: &Args, settings: &mut Settings) -> Result<(), Failure> {
    fn set<T: Copy>(place: &mut T, given: Option<T>) {
        *place = given.unwrap_or(*place);
    }
    set(&mut settings.scope, args.scope);
    set(&mut settings.depth, args.max_depth);
    set(&mut settings.rate, args.rate);
    set(&mut settings.host_connections, args.host_connections);
    set(&mut settings.connections, args.connections.map(|connections| connections as usize));
    set(&mut settings.attempts, args.attempts);
    set(&mut settings.retry, args.retry);
    set(&mut settings.host_failures, args.max_host_failures);
    set(&mut settings.host_down, args.host_down);
    set(&mut settings.patience, args.patience);
    set(&mut settings.host_pages, args.max_host_pages.map(|pages| (pages > 0).then_some(pages)));
    settings.recrawl = args.recrawl.or(settings.recrawl);
    if let Some(SharedSet(set)) = &args.seen {
        settings.seen.clone_from(set);
    }
    settings.follow_duplicates |= args.follow_duplicates;
    settings.follow_nofollow |= args.follow_nofollow;
    settings.sitemaps &= !args.no_sitemaps;
    settings.obeys_robots &= !args.no_robots;
    let limits = &mut settings.limits;
    set(&mut limits.body_bytes, args.max_body);
    set(&mut limits.redirects, args.max_redirects);
    set(&mut limits.ratio, args.max_ratio);
    set(&mut limits.total, args.timeout);
    set(&mut limits.first_byte, args.first_byte_timeout);
    set(&mut limits.connect, args.connect_timeout);
    set(&mut limits.retry_after, args.max_retry_after);
    name(args, settings)
}

/// Where a seen set is, or that there is none.
#[derive(Clone, Debug)]
struct SharedSet(Option<String>);

fn seen_set(text: &str) -> Result<SharedSet, String> {
    match text {
        "none" => Ok(SharedSet(None)),
        _ if Client::is_location(text) && text.contains("/v1/seen/") => Ok(SharedSet(Some(text.to_owned()))),
        _ => Err("give the address of a seen set, such as http://127.0.0.1:8640/v1/seen/pages, or none".to_owned()),
    }
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

/// Requests a second: 0 or more.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=1e6).contains(rate));
    rate.ok_or_else(|| {
        format!("`{text}` is not a number of requests a second; write for example 0.5, 1, or 0 for no limit")
    })
}

/// A part of 1, from a number of percent.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number)).map(|number| number / 100.0);
    number.ok_or_else(|| format!("`{text}` is not a number of percent, such as 1%"))
}

/// The value of a header field: one line.
fn one_line(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) {
        true => Err("it becomes one line of a request: no control characters".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A contact: an address or a page.
fn contact(text: &str) -> Result<String, String> {
    match has_contact(text) {
        true => one_line(text),
        false => Err("give an address or a page, such as mailto:you@example.com".to_owned()),
    }
}

fn has_contact(text: &str) -> bool {
    ["@", "http://", "https://"].iter().any(|mark| text.contains(mark))
}

/// The user agent. It must have a contact, except with `--allow-private`.
fn name(args: &Args, settings: &mut Settings) -> Result<(), Failure> {
    let product = concat!("fm-crawl/", env!("CARGO_PKG_VERSION"));
    match (&args.user_agent, &args.contact) {
        (Some(name), Some(contact)) => settings.user_agent = format!("{name} (+{contact})"),
        (Some(name), None) => settings.user_agent.clone_from(name),
        (None, Some(contact)) => settings.user_agent = format!("{product} (+{contact})"),
        (None, None) if settings.user_agent.is_empty() => product.clone_into(&mut settings.user_agent),
        (None, None) => {}
    }
    if !has_contact(&settings.user_agent) && !args.allow_private {
        let words = "give a contact for this crawl: --contact mailto:you@example.com, or a URL";
        return Err(Failure::Usage(words.to_owned()));
    }
    if crate::robots::token(&settings.user_agent).is_empty() {
        let words = "a user agent begins with a name of letters, digits, - and _, which robots.txt refers to";
        return Err(Failure::Usage(words.to_owned()));
    }
    Ok(())
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
fn work(args: &Args, flags: &Flags, folder: &Folder, crawl: Crawl, mut state: State) -> Result<Outcome, Failure> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Io(format!("threads cannot be started: {error}")))?;
    let crawl = Arc::new(crawl);
    let mut progress = Progress::new(folder, flags);
    progress.publish(&Tally::default(), &state.frontier, Phase::Running);
    let ended = {
        let mut look = |tally: &Tally, frontier: &Frontier, in_flight: usize| progress.look(tally, frontier, in_flight);
        let mut watch = Watch { max_pages: args.max_pages.unwrap_or(u64::MAX), forever: args.forever, look: &mut look };
        let handle = runtime.handle().clone();
        let mut coordinator = Coordinator::new(Arc::clone(&crawl), &mut state, handle);
        // Nothing else depends on it: a crawl that cannot be asked crawls all the same.
        let _control = coordinator.listen().map_err(words::complain).ok();
        match args.fetch.is_empty() {
            true => coordinator.run(&mut watch),
            false => coordinator
                .fetch_only(&starts::links(&args.fetch, &**crawl.pages.canonicalizer())?)
                .and_then(|()| coordinator.run(&mut watch)),
        }
    };
    progress.clear();
    // Visits still in flight are dropped: the frontier assigns them again.
    runtime.shutdown_timeout(Duration::from_secs(5));
    let (end, tally) = ended?;
    let State { frontier, seen, mut log, .. } = state;
    progress.publish(&tally, &frontier, Phase::Ended);
    let coverage = Coverage::of(&frontier);
    let said = print(&summary(flags, end, &tally, &frontier, &coverage, progress.elapsed()));
    complain_of_seeds(&crawl, &frontier)?;
    complain_of_unstorable(&tally, &args.store);
    coverage.complain(end, &args.store, args.tolerate);
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
        _ if is_empty => Outcome::NotFound,
        _ if coverage.missing_part(end) > args.tolerate => Outcome::Incomplete,
        _ => Outcome::Done,
    })
}

/// Reports seeds that were given up, and why.
fn complain_of_seeds(crawl: &Crawl, frontier: &Frontier) -> Result<(), Failure> {
    let mut gone = Vec::new();
    for seed in &crawl.settings.seeds {
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
