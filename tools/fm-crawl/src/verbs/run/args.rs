//! Arguments of `run`, their values, and the settings that they change.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use crawl::fetch;
use crawl::fetch::address::Override;
use crawl::fetch::hosts::Hosts;
use crawl::fetch::proxy::Proxy;
use crawl::hooks::fields::Field;
use crawl::settings::fleet::Own;
use crawl::settings::scope::Reach;
use crawl::settings::{Settings, filter};
use filemap_http::Client;
use fm_cli::{Failure, canonical, sizes, times};

use super::divided;
use super::values::{NearBits, RobotsToken, contact, has_contact, near_bits, one_line, percent, rate, robots_token};

/// Start or continue a crawl
#[derive(clap::Args)]
#[command(after_help = "\
The first run needs seeds, and a contact that is sent with every request. Arguments are remembered (except --max-pages, --fetch, --exec, --edges, --warc, --forever, --log, --log-size, \
--tolerate, --allow-private, --resolve, --ca, --insecure, --proxy, --bind and --min-free): `fm-crawl run pages.fm` continues. Given-up seeds are tried again.

Exits with 1 if no page was ever fetched, with 3 if the store refused fetched pages, and with 5 if pages were not fetched for a reason \
that is neither their host's answer (4xx, robots.txt) nor a limit: they were given up, or their hosts do not answer (--tolerate).

Example:
  fm-crawl run pages.fm --seed https://example.com/ --contact mailto:me@example.com --max-pages 1000")]
pub struct Args {
    /// The store's folder, made if missing
    pub(super) store: PathBuf,
    /// Start pages; may be given again
    #[arg(long, value_name = "URL", num_args = 1..)]
    pub(super) seed: Vec<String>,
    /// Start pages from a file, one a line, `#` before a comment; - for standard input
    #[arg(long, value_name = "FILE")]
    pub(super) seeds: Vec<PathBuf>,
    /// Fetch these pages, whatever the queue, and nothing else; may be given again
    #[arg(long, value_name = "URL", num_args = 1..)]
    pub(super) fetch: Vec<String>,
    /// The canonicaliser of a new store, which decides which URLs are one page: whatwg, crawl,
    /// surt or exact, with rules switched as in crawl,+www,-tracking [default: crawl]
    #[arg(long = "canonicalizer", alias = "rules", value_name = "RULES", value_parser = canonical::Canonical::parse)]
    pub(super) rules: Option<canonical::Canonical>,
    /// Links to follow from the seeds [default: host]
    #[arg(long, value_enum)]
    pub(super) scope: Option<Scope>,
    /// Fetch only URLs that a pattern matches: a regular expression, prefix:http://HOST/..., or
    /// @FILE with one a line, which is read again when it changes. Start pages are fetched anyway
    #[arg(long, value_name = "PATTERN", value_parser = filter::checked)]
    pub(super) include: Vec<String>,
    /// Do not fetch URLs that a pattern matches, as for --include, whatever includes them
    #[arg(long, value_name = "PATTERN", value_parser = filter::checked)]
    pub(super) exclude: Vec<String>,
    /// Settings of single hosts: rate or delay, pages, headers, auth, cookies, proxy, in TOML;
    /// `none` for no more. The file is read again when it changes
    #[arg(long, value_name = "FILE", value_parser = hosts_file)]
    pub(super) hosts: Option<HostsFile>,
    /// Forget the patterns of --include in earlier runs
    #[arg(long)]
    pub(super) no_include: bool,
    /// Forget the patterns of --exclude in earlier runs
    #[arg(long)]
    pub(super) no_exclude: bool,
    /// Read pages of these content types only, such as text/html,image/*; others are dropped
    /// before their body. `any` for all
    #[arg(long, value_name = "TYPE", value_parser = content_type, value_delimiter = ',')]
    pub(super) accept_type: Vec<String>,
    /// Do not fetch what has a path with one of these endings, such as zip,tar.gz; `none` for all
    #[arg(long, value_name = "EXT", value_parser = extension, value_delimiter = ',')]
    pub(super) reject_extension: Vec<String>,
    /// Stop at this number of fetched pages in all runs
    #[arg(long, value_name = "N")]
    pub(super) max_pages: Option<u64>,
    /// Maximum number of links from a seed to a page [default: 100]
    #[arg(long, value_name = "N")]
    pub(super) max_depth: Option<u16>,
    /// Maximum number of pages of one host; 0 for no limit [default: 100000]
    #[arg(long, value_name = "N")]
    pub(super) max_host_pages: Option<u32>,
    /// Requests a second to a host; 0 for no limit [default: 1]
    #[arg(long, value_name = "R", value_parser = rate, allow_hyphen_values = true)]
    pub(super) rate: Option<f64>,
    /// Requests a second to an IP address, whatever its hosts; 0 for no limit [default: 0]
    #[arg(long, value_name = "R", value_parser = rate, allow_hyphen_values = true)]
    pub(super) address_rate: Option<f64>,
    /// Connections to one host [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) host_connections: Option<u16>,
    /// Connections in all [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) connections: Option<u32>,
    /// Contact of the crawl's operator, a URL or mailto:ADDRESS, sent with every request
    #[arg(long, value_name = "CONTACT", value_parser = contact)]
    pub(super) contact: Option<String>,
    /// The name that robots.txt is matched by, if not the first word of the user agent; `agent`
    /// for that word again
    #[arg(long, value_name = "NAME", value_parser = robots_token)]
    pub(super) robots_token: Option<RobotsToken>,
    /// The whole user agent; robots.txt is matched by its first word
    #[arg(long, value_name = "UA", value_parser = one_line)]
    pub(super) user_agent: Option<String>,
    /// Fetch each page again at about this age, adapted to how often it changes; `off` for never
    #[arg(long, value_name = "AGE", value_parser = again)]
    pub(super) recrawl: Option<Again>,
    /// Keep running when nothing is left: for pages that are due later, and for `fm-crawl add`
    #[arg(long)]
    pub(super) forever: bool,
    /// Follow the links of pages whose body is stored under another URL
    #[arg(long)]
    pub(super) follow_duplicates: bool,
    /// Fetch what pages need to be shown too, wherever it is: images, styles, scripts, fonts
    #[arg(long, overrides_with = "no_requisites")]
    pub(super) requisites: bool,
    /// Stop fetching what --requisites adds
    #[arg(long)]
    pub(super) no_requisites: bool,
    /// Keep the cookies of each host during the run, and send them back to it
    #[arg(long, overrides_with = "no_cookies")]
    pub(super) cookies: bool,
    /// Stop keeping cookies
    #[arg(long)]
    pub(super) no_cookies: bool,
    /// Keep these fields beside each page: lang, charset, simhash64; `none` to keep none
    #[arg(long, value_name = "FIELD", value_parser = field, value_delimiter = ',')]
    pub(super) fields: Vec<String>,
    /// Have a shell command process each page: a line of JSON in, a line out, with links, fields,
    /// or "store": false (docs/CRAWLING.md)
    #[arg(long, value_name = "COMMAND")]
    pub(super) exec: Option<String>,
    /// Processes of --exec
    #[arg(long, value_name = "N", value_parser = jobs, default_value = "1", requires = "exec")]
    pub(super) exec_jobs: usize,
    /// Time for an answer of --exec
    #[arg(long, value_name = "DURATION", value_parser = times::duration, default_value = "60s", requires = "exec")]
    pub(super) exec_timeout: Duration,
    /// Follow links marked nofollow
    #[arg(long)]
    pub(super) follow_nofollow: bool,
    /// Do not read sitemaps
    #[arg(long)]
    pub(super) no_sitemaps: bool,
    /// Ignore robots.txt: for your own hosts only
    #[arg(long)]
    pub(super) no_robots: bool,
    /// Connect to private, loopback and other non-public addresses
    #[arg(long)]
    pub(super) allow_private: bool,
    /// Share the work with other crawls by a seen set of fm-serve or on Redis: the first to ask
    /// for a page fetches it. FILEMAP_TOKEN, FILEMAP_CA_FILE and REDISCLI_AUTH as for fm-tool;
    /// `none` to crawl alone
    #[arg(long, value_name = "http://HOST/v1/seen/NAME|redis://HOST/NAME", value_parser = seen_set)]
    pub(super) seen: Option<SharedSet>,
    /// Put the pages and the state of the crawl into this store in object storage, so that any
    /// machine can continue it. STORE names the local working folder, STORE.crawl; with several
    /// shards of --own, STORE-N.crawl for each
    #[arg(long = "store", value_name = "s3://BUCKET/PREFIX", value_parser = divided::location)]
    pub(super) bucket: Option<String>,
    /// With --store: commit at least this often. After a kill, pages fetched since the last commit
    /// are fetched again [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = times::duration)]
    pub(super) commit_every: Option<Duration>,
    /// Divide hosts among several crawls, which send each other their links by mailboxes of
    /// fm-serve. FILEMAP_TOKEN and FILEMAP_CA_FILE as for fm-tool; `none` to crawl alone
    #[arg(long, value_name = "http://HOST/v1/links", value_parser = divided::mailboxes)]
    pub(super) links: Option<String>,
    /// Number of shards into which the hosts are divided: the same for all crawls, fixed
    /// permanently
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) shards: Option<u32>,
    /// Shards of this crawl: numbers from 0 such as 0,2, or auto for free ones, with --store also
    /// for those whose owner is silent [default: auto]
    #[arg(long, value_name = "LIST|auto")]
    pub(super) own: Option<Own>,
    /// Attempts at a page that fails, 1 to 15 [default: 13]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    pub(super) attempts: Option<u8>,
    /// The wait before the second attempt, doubled for each further one [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    pub(super) retry: Option<Duration>,
    /// Consecutive page failures after which a host is paused [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_host_failures: Option<u16>,
    /// Time that a host may fail before its queued pages are given up [default: 7d]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    pub(super) host_down: Option<Duration>,
    /// Time that a run continues without fetching a page, while hosts that do not answer are
    /// paused and failed pages wait [default: 15m]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    pub(super) patience: Option<Duration>,
    /// Share of the pages that may be left unfetched without an exit code of 5
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0%")]
    pub(super) tolerate: f64,
    /// Largest body; of a longer one the beginning is kept [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_positive)]
    pub(super) max_body: Option<u64>,
    /// Times that one path segment may repeat in a row in a link; 0 for no limit [default: 3]
    #[arg(long, value_name = "N")]
    pub(super) max_path_repeats: Option<u8>,
    /// Years that a date in a link may lie ahead; 0 for no limit [default: 5]
    #[arg(long, value_name = "N")]
    pub(super) max_years_ahead: Option<u16>,
    /// Two pages of a host are near-duplicates if their fingerprints differ in at most this number
    /// of 64 bits, 0 to 3. Links of near-duplicates, and of pages like the host's error pages,
    /// earn no credit; `off` counts all [default: 3]
    #[arg(long, value_name = "N", value_parser = near_bits)]
    pub(super) near_bits: Option<NearBits>,
    /// Maximum number of redirects in a row [default: 10]
    #[arg(long, value_name = "N")]
    pub(super) max_redirects: Option<u8>,
    /// Largest expansion of a compressed body [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_ratio: Option<u32>,
    /// Time limit for a whole page [default: 120s]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    pub(super) timeout: Option<Duration>,
    /// Time limit for the beginning of an answer [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    pub(super) first_byte_timeout: Option<Duration>,
    /// Time limit for a connection [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    pub(super) connect_timeout: Option<Duration>,
    /// The longest Retry-After that is obeyed [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    pub(super) max_retry_after: Option<Duration>,
    /// Resolve a name to an address, like curl's --resolve; HOST and PORT may be *
    #[arg(long, value_name = "HOST:PORT:ADDRESS[:PORT]", value_parser = Override::parse)]
    pub(super) resolve: Vec<Override>,
    /// Trust the certificates in this PEM file too
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Do not check certificates: for hosts of your own
    #[arg(long, conflicts_with = "ca")]
    pub(super) insecure: bool,
    /// Send all requests to this proxy, which resolves names; SCHEME is http or socks5
    #[arg(long, value_name = "SCHEME://[USER:PASSWORD@]HOST:PORT", value_parser = Proxy::parse)]
    pub(super) proxy: Option<Proxy>,
    /// Connect from this address of the machine
    #[arg(long, value_name = "ADDRESS", value_parser = fetch::local_address)]
    pub(super) bind: Option<IpAddr>,
    /// Pause while less is free on the disk of the store, at least 256MiB
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, default_value = "512MiB")]
    pub(super) min_free: u64,
    /// Append a JSON line for each link of each page to this file: from, to, anchor text, rel.
    /// NAME.parquet stands for NAME-1.parquet, NAME-2.parquet and so on
    #[arg(long, value_name = "FILE")]
    pub(super) edges: Option<PathBuf>,
    /// While crawling, write WARC files to this folder: every version that the store takes,
    /// beginning with the first run that has this option
    #[arg(long, value_name = "DIR")]
    pub(super) warc: Option<PathBuf>,
    /// Append a JSON line for each visit to this file
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// Begin a new log when this one would become longer: the old one is renamed to FILE.1, the
    /// next to FILE.2
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse_positive, requires = "log")]
    pub(super) log_size: Option<u64>,
}

/// Reach of a crawl from its seeds.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Scope {
    /// The hosts of the seeds
    Host,
    /// The hosts of the seeds and their subdomains
    Domain,
    /// URLs that begin like a seed, up to its last slash
    Prefix,
    /// Every host
    Any,
}

impl Scope {
    fn reach(self) -> Reach {
        match self {
            Scope::Host => Reach::Host,
            Scope::Domain => Reach::Domain,
            Scope::Prefix => Reach::Prefix,
            Scope::Any => Reach::Any,
        }
    }
}

/// Sets the settings that arguments give, and the shards: those of `own`, of a crawl that is one
/// of several.
pub(super) fn apply(args: &Args, own: Option<&Own>, settings: &mut Settings) -> Result<(), Failure> {
    fn set<T: Copy>(place: &mut T, given: Option<T>) {
        *place = given.unwrap_or(*place);
    }
    set(&mut settings.scope, args.scope.map(Scope::reach));
    set(&mut settings.depth, args.max_depth);
    set(&mut settings.rate, args.rate);
    set(&mut settings.address_rate, args.address_rate);
    set(&mut settings.host_connections, args.host_connections);
    set(&mut settings.connections, args.connections.map(|connections| connections as usize));
    set(&mut settings.attempts, args.attempts);
    set(&mut settings.retry, args.retry);
    set(&mut settings.host_failures, args.max_host_failures);
    set(&mut settings.host_down, args.host_down);
    set(&mut settings.patience, args.patience);
    set(&mut settings.host_pages, args.max_host_pages.map(|pages| (pages > 0).then_some(pages)));
    set(&mut settings.recrawl, args.recrawl.map(|Again(age)| age));
    if let Some(SharedSet(set)) = &args.seen {
        settings.seen.clone_from(set);
    }
    if let Some(HostsFile(file)) = &args.hosts {
        settings.hosts.clone_from(file);
    }
    let own = own.or(args.own.as_ref());
    divided::bucket(args, own, settings)?;
    divided::fleet(args, own, settings)?;
    patterns(&mut settings.include, &args.include, args.no_include);
    patterns(&mut settings.exclude, &args.exclude, args.no_exclude);
    list(&mut settings.reject_extensions, &args.reject_extension, NONE);
    list(&mut settings.limits.types, &args.accept_type, ANY);
    list(&mut settings.fields, &args.fields, NONE);
    settings.follow_duplicates |= args.follow_duplicates;
    settings.follow_nofollow |= args.follow_nofollow;
    settings.cookies = (settings.cookies || args.cookies) && !args.no_cookies;
    settings.requisites = (settings.requisites || args.requisites) && !args.no_requisites;
    settings.sitemaps &= !args.no_sitemaps;
    settings.obeys_robots &= !args.no_robots;
    let limits = &mut settings.limits;
    set(&mut limits.body_bytes, args.max_body);
    set(&mut limits.redirects, args.max_redirects);
    set(&mut limits.path_repeats, args.max_path_repeats);
    set(&mut limits.years_ahead, args.max_years_ahead);
    set(&mut limits.near_bits, args.near_bits.map(|NearBits(bits)| bits));
    set(&mut limits.ratio, args.max_ratio);
    set(&mut limits.total, args.timeout);
    set(&mut limits.first_byte, args.first_byte_timeout);
    set(&mut limits.connect, args.connect_timeout);
    set(&mut limits.retry_after, args.max_retry_after);
    name(args, settings)
}

/// Replaces a list by the given one; a certain word stands for an empty list.
fn list(known: &mut Vec<String>, given: &[String], empty: &str) {
    if !given.is_empty() {
        *known = given.iter().filter(|one| *one != empty).cloned().collect();
    }
}

/// A file of hosts, or none.
#[derive(Clone, Debug)]
pub(super) struct HostsFile(Option<PathBuf>);

/// Checks the file before anything is made.
fn hosts_file(text: &str) -> Result<HostsFile, String> {
    if text == NONE {
        return Ok(HostsFile(None));
    }
    let path = std::path::absolute(text).map_err(|error| format!("{text}: {error}"))?;
    Hosts::open(Some(&path)).map(|_| HostsFile(Some(path)))
}

/// Words that stand for all content types, and for no extension or field.
const ANY: &str = "any";
pub(super) const NONE: &str = "none";

fn content_type(text: &str) -> Result<String, String> {
    match text.trim().eq_ignore_ascii_case(ANY) {
        true => Ok(ANY.to_owned()),
        false => filter::checked_type(text).map_err(|wrong| format!("{wrong}, or any")),
    }
}

fn extension(text: &str) -> Result<String, String> {
    filter::checked_extension(text).map_err(|wrong| format!("{wrong}, or none"))
}

fn field(text: &str) -> Result<String, String> {
    if text == NONE { Ok(text.to_owned()) } else { Field::named(text).map(|field| field.name().to_owned()) }
}

fn jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=1000).contains(jobs));
    jobs.ok_or_else(|| format!("`{text}` is not a number of processes, 1 to 1000"))
}

/// Adds patterns to those of earlier runs; with `forgets`, drops those first.
fn patterns(known: &mut Vec<String>, given: &[String], forgets: bool) {
    if forgets {
        known.clear();
    }
    for pattern in given {
        if !known.contains(pattern) {
            known.push(pattern.clone());
        }
    }
}

/// The age at which pages are fetched again, or never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again(Option<Duration>);

fn again(text: &str) -> Result<Again, String> {
    if text == "off" { Ok(Again(None)) } else { times::duration(text).map(|age| Again(Some(age))) }
}

/// Address of a seen set, or none.
#[derive(Clone, Debug)]
pub(super) struct SharedSet(Option<String>);

fn seen_set(text: &str) -> Result<SharedSet, String> {
    match text {
        "none" => Ok(SharedSet(None)),
        _ if Client::is_location(text) && text.contains("/v1/seen/") => Ok(SharedSet(Some(text.to_owned()))),
        _ if urlindex_redis::is_location(text) => {
            let checked = urlindex_redis::check_location(text).map_err(|error| error.to_string());
            checked.map(|()| SharedSet(Some(text.to_owned())))
        }
        _ => Err("give the address of a seen set, such as http://127.0.0.1:8640/v1/seen/pages or redis://127.0.0.1:6379/pages, or none".to_owned()),
    }
}

/// Sets the user agent. It needs a contact, except with `--allow-private`.
fn name(args: &Args, settings: &mut Settings) -> Result<(), Failure> {
    let product = concat!("fm-crawl/", env!("CARGO_PKG_VERSION"));
    match (&args.user_agent, &args.contact) {
        (Some(name), Some(contact)) => settings.user_agent = format!("{name} (+{contact})"),
        (Some(name), None) => settings.user_agent.clone_from(name),
        (None, Some(contact)) => settings.user_agent = format!("{product} (+{contact})"),
        (None, None) if settings.user_agent.is_empty() => product.clone_into(&mut settings.user_agent),
        (None, None) => {}
    }
    if let Some(RobotsToken(token)) = &args.robots_token {
        settings.robots_token.clone_from(token);
    }
    if !has_contact(&settings.user_agent) && !args.allow_private {
        let words = "give a contact for this crawl: --contact mailto:you@example.com, or a URL";
        return Err(Failure::Usage(words.to_owned()));
    }
    if crawl::robots::token(&settings.user_agent).is_empty() {
        let words = "a user agent begins with a name of letters, digits, - and _, which robots.txt refers to";
        return Err(Failure::Usage(words.to_owned()));
    }
    Ok(())
}
