//! `run`: begins a crawl, or goes on with it.
//!
//! The store is opened first: its lock is the crawl's. What is given is kept in the settings, so that going on takes no arguments.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filemap::{Canonicalizer, RecordKind, Whatwg};
use frontier::{Frontier, PageStatus};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;

use super::opening;
use crate::amount;
use crate::bodies::Bodies;
use crate::cli::Shared;
use crate::clock::{now_ms, unsigned};
use crate::crawl::tally::Tally;
use crate::crawl::{Coordinator, Crawl, End, Log, State, Watch};
use crate::failure;
use crate::fetch::address::{Override, Resolver};
use crate::fetch::{self, Fetcher};
use crate::interrupt;
use crate::links::is_web;
use crate::outcome::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use crate::record;
use crate::scope::{Reach, Scope};
use crate::seen::Seen;
use crate::sequence::{self, SequenceNote};
use crate::settings::{Folder, Settings};
use crate::words;

/// Threads of the runtime.
const THREADS_MAX: usize = 8;
/// Seeds that were given up are named up to this many.
const COMPLAINTS: usize = 5;

/// Crawl, or go on with a crawl
#[derive(clap::Args)]
#[command(after_help = "\
The first run needs seeds, and a contact that is sent with every request. What is given is remembered (but for --max-pages, --forever, --log, \
--allow-private, --resolve and --ca): `fm-crawl run pages.fm` goes on. A seed that was given up is tried again.

It ends with 1 if no page was ever fetched, and with 3 if pages were fetched that the store refuses to keep.

Example:
  fm-crawl run pages.fm --seed https://example.com/ --contact mailto:me@example.com --max-pages 1000")]
pub struct Args {
    /// The store's folder, made if it is absent
    store: PathBuf,
    /// Pages to begin with; may be given again
    #[arg(long, value_name = "URL", num_args = 1..)]
    seed: Vec<String>,
    /// How far from the seeds to go [default: host]
    #[arg(long, value_enum)]
    scope: Option<Reach>,
    /// Stop when so many pages are fetched in all
    #[arg(long, value_name = "N")]
    max_pages: Option<u64>,
    /// Links from a seed to a page, at most [default: 100]
    #[arg(long, value_name = "N")]
    max_depth: Option<u16>,
    /// Pages of one host, at most; 0 for any number [default: 100000]
    #[arg(long, value_name = "N")]
    max_host_pages: Option<u32>,
    /// Requests a second to a host; 0 for as many as it answers [default: 1]
    #[arg(long, value_name = "R", value_parser = amount::rate, allow_hyphen_values = true)]
    rate: Option<f64>,
    /// Connections to one host [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    host_connections: Option<u16>,
    /// Connections in all [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Option<u32>,
    /// Who crawls, for those who are crawled: a URL or mailto:ADDRESS, sent with every request
    #[arg(long, value_name = "CONTACT", value_parser = contact)]
    contact: Option<String>,
    /// The whole of what the crawler calls itself; robots.txt is read for its first word
    #[arg(long, value_name = "UA", value_parser = one_line)]
    user_agent: Option<String>,
    /// Fetch each page again at about this age, more or less often as it changes
    #[arg(long, value_name = "AGE", value_parser = amount::duration)]
    recrawl: Option<Duration>,
    /// Go on when nothing is left but pages that are due later
    #[arg(long)]
    forever: bool,
    /// Follow the links of pages whose body was seen under another URL
    #[arg(long)]
    follow_duplicates: bool,
    /// Follow links that ask not to be followed
    #[arg(long)]
    follow_nofollow: bool,
    /// Do not read sitemaps
    #[arg(long)]
    no_sitemaps: bool,
    /// Do not ask robots.txt: for sites of your own
    #[arg(long)]
    no_robots: bool,
    /// Connect to private, loopback and other addresses that are not of the public network
    #[arg(long)]
    allow_private: bool,
    /// Attempts at a page, 1 to 15 [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    attempts: Option<u8>,
    /// The wait before the second attempt, doubled for each further one [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = amount::duration)]
    retry: Option<Duration>,
    /// Failures in a row after which a host is left alone in this run [default: 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_host_failures: Option<u32>,
    /// Bytes of a body; the beginning of a longer one is kept [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes)]
    max_body: Option<u64>,
    /// Redirects in a row [default: 10]
    #[arg(long, value_name = "N")]
    max_redirects: Option<u8>,
    /// How often a body may be as long as what came over the wire [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_ratio: Option<u32>,
    /// Until a page is there as a whole [default: 120s]
    #[arg(long, value_name = "TIME", value_parser = amount::duration)]
    timeout: Option<Duration>,
    /// Until an answer begins [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = amount::duration)]
    first_byte_timeout: Option<Duration>,
    /// Until there is a connection [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = amount::duration)]
    connect_timeout: Option<Duration>,
    /// The longest Retry-After that is obeyed [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = amount::duration)]
    max_retry_after: Option<Duration>,
    /// Let a name lead to an address, as curl's --resolve; HOST and PORT may be *
    #[arg(long, value_name = "HOST:PORT:ADDRESS[:PORT]", value_parser = Override::parse)]
    resolve: Vec<Override>,
    /// Trust the certificates in this PEM file, beside those that browsers trust
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Write a JSON line for each visit to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, shared: &Shared) -> Result<Outcome, Failure> {
    interrupt::listen();
    let folder = Folder::of(&args.store);
    let known = folder.settings()?;
    if known.is_none() && args.seed.is_empty() {
        return Err(Failure::Usage("a crawl needs a page to begin with: --seed URL".to_owned()));
    }
    let has_begun = known.is_some();
    let mut settings = known.unwrap_or_else(|| Settings::new(now_ms()));
    // All that is wrong with the arguments is said before anything is made.
    apply(args, &mut settings)?;
    let tls = fetch::tls(roots(args)?).map_err(Failure::Usage)?;
    for seed in &args.seed {
        let url = Whatwg.canonicalize(seed.as_bytes()).map_err(|error| Failure::Usage(format!("{seed}: {error}")))?;
        if !is_web(&url) {
            return Err(Failure::Usage(format!("{seed}: only http and https are crawled")));
        }
    }
    let noted = opening::noted_sequence(&folder)?;
    let pages = opening::store_to_fill(&args.store, &folder, has_begun)?;
    sequence::check(noted, &pages, folder.path())?;
    for seed in &args.seed {
        let key = pages.key(seed).map_err(|error| Failure::Usage(error.to_string()))?;
        let url = String::from_utf8_lossy(&key).into_owned();
        if !settings.seeds.contains(&url) {
            settings.seeds.push(url);
        }
    }
    folder.keep(&settings)?;
    let scope = Scope::new(settings.scope, settings.seeds.iter().map(String::as_str));
    let mut frontier = opening::frontier(&folder, &settings)?;
    let seeds: Vec<&str> = settings.seeds.iter().map(String::as_str).collect();
    frontier.seed(&seeds, unsigned(now_ms()))?;
    frontier.commit()?;
    let seen = Seen::open(&folder.join("seen"), &**pages.canonicalizer(), &frontier)?;
    let bodies = Bodies::open(folder.path())?;
    let resolver = Resolver { overrides: args.resolve.clone(), allow_private: args.allow_private };
    let fetcher = Fetcher::new(settings.limits.clone(), &settings.user_agent, resolver, tls).map_err(Failure::Usage)?;
    let note = SequenceNote::open(&opening::dir(&folder)?)?;
    let crawl = Crawl::new(settings, scope, pages, fetcher, bodies);
    let mut log = Log::open(args.log.as_deref())?;
    log.event("begin", json!({ "store": args.store.display().to_string(), "pid": std::process::id() }))?;
    work(args, shared, &folder, crawl, State { frontier, seen, note, log })
}

/// What was given, in place of what was there.
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
    set(&mut settings.host_pages, args.max_host_pages.map(|pages| (pages > 0).then_some(pages)));
    settings.recrawl = args.recrawl.or(settings.recrawl);
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

/// A field's value, which has no end of a line in it.
fn one_line(text: &str) -> Result<String, String> {
    match text.chars().any(char::is_control) {
        true => Err("it goes into one line of a request: no control characters".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Somewhere to write to.
fn contact(text: &str) -> Result<String, String> {
    match has_contact(text) {
        true => one_line(text),
        false => Err("an address or a page is wanted, such as mailto:you@example.com".to_owned()),
    }
}

fn has_contact(text: &str) -> bool {
    ["@", "http://", "https://"].iter().any(|mark| text.contains(mark))
}

/// What the crawler calls itself: with a contact, of which only those who allow private addresses are let off.
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
        let words = "say whom to write to about this crawl: --contact mailto:you@example.com, or a URL";
        return Err(Failure::Usage(words.to_owned()));
    }
    if crate::robots::token(&settings.user_agent).is_empty() {
        let words = "a user agent begins with a name of letters, digits, - and _, by which robots.txt knows it";
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
        true => Err(Failure::Usage(format!("{}: there is no certificate in it", path.display()))),
        false => Ok(found),
    }
}

/// Crawls, and closes everything.
fn work(args: &Args, shared: &Shared, folder: &Folder, crawl: Crawl, mut state: State) -> Result<Outcome, Failure> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Io(format!("threads cannot be started: {error}")))?;
    let crawl = Arc::new(crawl);
    let mut progress = Progress::new(folder, shared.quiet || shared.json);
    progress.publish(&Tally::default(), &state.frontier, true);
    let ended = {
        let mut look = |tally: &Tally, frontier: &Frontier, in_flight: usize| progress.look(tally, frontier, in_flight);
        let mut watch = Watch { max_pages: args.max_pages.unwrap_or(u64::MAX), forever: args.forever, look: &mut look };
        let handle = runtime.handle().clone();
        Coordinator::new(Arc::clone(&crawl), &mut state, handle).run(&mut watch)
    };
    progress.clear();
    // What is in flight still is given up: the frontier hands it out again.
    runtime.shutdown_timeout(Duration::from_secs(5));
    let (end, tally) = ended?;
    let State { frontier, seen, mut log, .. } = state;
    progress.publish(&tally, &frontier, false);
    let said = output::print(&summary(shared, end, &tally, &frontier, progress.elapsed()));
    complain_of_seeds(&crawl, &frontier)?;
    complain_of_unstorable(&tally, &args.store);
    let is_empty = end == End::Complete && frontier.stats().fetches == 0;
    log.event("end", json!({ "why": end.name(), "run": tally.json() }))?;
    log.flush()?;
    frontier.close()?;
    seen.close()?;
    // A visit that outlives its time holds the parts still: what is not closed is recovered when it is opened.
    if let Some(Crawl { pages, bodies, .. }) = Arc::into_inner(crawl) {
        bodies.close()?;
        pages.close()?;
    }
    said?;
    Ok(match end {
        End::Interrupted => interrupt::outcome(),
        _ if tally.unstorable() > 0 => Outcome::Unstorable,
        _ if is_empty => Outcome::NotFound,
        _ => Outcome::Done,
    })
}

/// Says of some seeds that they were given up, and why.
fn complain_of_seeds(crawl: &Crawl, frontier: &Frontier) -> Result<(), Failure> {
    let mut gone = Vec::new();
    for seed in &crawl.settings.seeds {
        if let Some(state) = frontier.page(seed)?.filter(|state| state.status == PageStatus::Gone) {
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

/// Says how many pages the store refuses: each was named in the log, and is counted in the summary.
fn complain_of_unstorable(tally: &Tally, store: &Path) {
    if tally.unstorable() > 0 {
        let (pages, store) = (words::count(tally.unstorable(), "page"), store.display());
        let rules = format_args!("`fm-tool erase {store} --list` has the rules of its erasures");
        words::complain(format_args!("{pages} fetched and not stored, for {store} refuses them: {rules}"));
    }
}

fn summary(shared: &Shared, end: End, tally: &Tally, frontier: &Frontier, took: Duration) -> String {
    let stats = frontier.stats();
    let seconds = took.as_secs_f64().max(1e-3);
    if shared.json {
        let mut line = tally.json();
        line["end"] = json!(end.name());
        line["seconds"] = json!(seconds);
        line["queued"] = json!(stats.queued + stats.due);
        return format!("{line}\n");
    }
    let queued = stats.queued + stats.due;
    let ended = match end {
        End::Complete => "nothing is left to fetch".to_owned(),
        End::MaxPages => format!("as many pages as asked for; queued: {queued}"),
        End::Interrupted => format!("interrupted, run again to go on; queued: {queued}"),
    };
    let mut lines = format!(
        "{} fetched in {seconds:.1} s ({:.0} pages/s, {}/s): {ended}\n{} discovered, {}, {} unchanged, {}\n",
        words::count(tally.fetched, "page"),
        tally.fetched as f64 / seconds,
        words::size((tally.body_bytes as f64 / seconds) as u64),
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
