//! The command line: what to serve, to whom, and at which address.
//!
//! Invariant: without a token only the local machine has access, unless the operator allows
//! others.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use filemap::acl::AccessRules;
use filemap::{Options, PageStore};
use filemap_core::Event;
use filemap_http::server::{LinkBoxes, SeenSets, Server, ServerOptions};
use filemap_http::{AnyArchives, Client, ClientOptions, Following, Mismatch};
use fm_cli::{Failure, Outcome, VALUES_AND_EXIT_CODES, times, words};
use mailbox::MailboxOptions;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use urlindex::DiskOptions;
use urlindex::idempotent::RequestOptions;

use crate::files;
use crate::redis::OnRedis;

/// Serve a store of pages over HTTP.
///
/// Without --write the server reads, while a crawler in another process may write the store. With
/// --write it is the store's only writer. docs/HTTP.md has the routes.
#[derive(Parser)]
#[command(name = "fm-serve", version, after_help = after_help())]
pub struct Cli {
    /// The store's folder; made if missing and --write is given
    store: PathBuf,
    /// Serve this seen set too, under a name of a-z, 0-9, _ and -; may be given several times. SET
    /// is a file, or redis://HOST:PORT/NAME (password in REDISCLI_AUTH)
    #[arg(long, value_name = "NAME=SET", value_parser = named)]
    seen: Vec<(String, PathBuf)>,
    /// Serve the seen sets in this folder by the names of their files; with --write, new ones are
    /// made there on request
    #[arg(long, value_name = "FOLDER")]
    seen_dir: Option<PathBuf>,
    /// Memory of each seen set on disk, and the largest filter that is made on request
    #[arg(long, value_name = "SIZE", value_parser = fm_cli::sizes::parse, default_value = "256MiB")]
    seen_memory: u64,
    /// Time that a request id is remembered, so that a request to a seen set can be sent again
    #[arg(long, value_name = "TIME", value_parser = times::duration, default_value = "24h")]
    seen_keep_for: std::time::Duration,
    /// Number of request ids that are remembered; at most 65,536 for a set on Redis
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    seen_keep_requests: u64,
    /// Serve the mailboxes of crawls that share their hosts (`fm-crawl run --shards`) from this
    /// folder; the first crawl makes them
    #[arg(long, value_name = "FOLDER", requires = "write")]
    links: Option<PathBuf>,
    /// Maximum number of bytes that wait in each mailbox; a full mailbox accepts no more
    #[arg(long, value_name = "SIZE", value_parser = fm_cli::sizes::parse, default_value = "1GiB")]
    links_max: u64,
    /// Silence after which a crawl counts as stopped, and its shards may be freed
    #[arg(long, value_name = "TIME", value_parser = times::duration, default_value = "60s")]
    links_lease: std::time::Duration,
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8640")]
    listen: SocketAddr,
    /// Allow puts and removals
    #[arg(long)]
    write: bool,
    /// Be a replica of the store behind the server at this address: follow it, make the local
    /// store equal to it, and serve that for reading. A token and certificates to trust come from
    /// FILEMAP_TOKEN and FILEMAP_CA_FILE
    #[arg(long, value_name = "ADDRESS", conflicts_with = "write")]
    follow: Option<String>,
    /// Follow even if the local store has its own pages, or is a replica of another store:
    /// pages that the followed store lacks are removed here
    #[arg(long, requires = "follow")]
    begin_anew: bool,
    /// Time that removals are reported to clients that ask what has changed, with --write or
    /// --follow [default: 7d]
    #[arg(long, value_name = "TIME", value_parser = times::duration)]
    keep_removals: Option<std::time::Duration>,
    /// A file of tokens, a line each: `read`, `write` or `admin`, and the token; each allows what
    /// the one before it does
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Access rules in pywb's format, an `.aclj` file: blocked pages are refused (451), excluded
    /// pages appear not to exist; may be given several times. Read at the start
    #[arg(long, value_name = "FILE")]
    access: Vec<PathBuf>,
    /// Default access where no rule matches: a file of JSON with `default_access` and `embargo`,
    /// as in pywb's config.yaml
    #[arg(long, value_name = "FILE")]
    access_config: Option<PathBuf>,
    /// A host name of this server, besides localhost and addresses; may be given several times
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// Let other machines in without a token
    #[arg(long)]
    insecure: bool,
    /// Certificate chain in PEM: serve HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Clients connect through a proxy that speaks HTTPS: URLs in answers begin with https
    #[arg(long)]
    behind_https: bool,
    /// Size of the cache of decompressed pages in memory
    #[arg(long, value_name = "SIZE", value_parser = fm_cli::sizes::parse, default_value = "512MiB")]
    cache: u64,
    /// Maximum number of connections at once; more wait
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    max_connections: usize,
    /// Time for a client to send a request's head, and the next part of its body
    #[arg(long, value_name = "TIME", value_parser = times::duration, default_value = "30s")]
    idle: std::time::Duration,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

/// A seen set's name and file.
fn named(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("give NAME=SET, a name and the set's file")?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

fn after_help() -> String {
    format!("{VALUES_AND_EXIT_CODES}\n\n{EXAMPLE}")
}

const EXAMPLE: &str = "\
After Ctrl-C or SIGTERM the server accepts no more requests, finishes those in progress, and closes
store and sets. A second signal ends it at once, which is safe too.

Example:
  fm-serve pages.fm --write
  curl 'http://127.0.0.1:8640/v1/page?url=https://example.com/'";

impl Cli {
    /// Serves until a signal.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let options = self.options()?;
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some(files::tls(certificate, key)?),
            _ => None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Io(format!("no threads to serve with: {error}")))?;
        runtime.block_on(async {
            let cannot_listen =
                |error: std::io::Error| Failure::Io(format!("cannot listen at {}: {error}", self.listen));
            let listener = TcpListener::bind(self.listen).await.map_err(cannot_listen)?;
            let address = listener.local_addr().map_err(cannot_listen)?;
            let no_signals = |error: std::io::Error| Failure::Io(format!("cannot wait for signals: {error}"));
            let mut interrupts = signal(SignalKind::interrupt()).map_err(no_signals)?;
            let mut ends = signal(SignalKind::terminate()).map_err(no_signals)?;
            let store = self.open()?;
            let options = options.seen(self.seen_sets()?);
            let options = match &self.links {
                Some(folder) => options.links(self.link_boxes(folder)?),
                None => options,
            };
            let options = match &self.follow {
                Some(location) => options.following(self.follow(&store, location)?),
                None => options,
            };
            if !self.quiet {
                let scheme = if tls.is_some() { "https" } else { "http" };
                words::say(format_args!("serving {} at {scheme}://{address}", self.store.display()));
            }
            let stop = async {
                tokio::select! {
                    _ = interrupts.recv() => {}
                    _ = ends.recv() => {}
                }
                // A second signal ends the process; the store survives that too.
                tokio::spawn(async move {
                    tokio::select! {
                        _ = interrupts.recv() => std::process::exit(128 + SignalKind::interrupt().as_raw_value()),
                        _ = ends.recv() => std::process::exit(128 + SignalKind::terminate().as_raw_value()),
                    }
                });
            };
            let following = options.shown_following();
            Server::new(store, options).serve(listener, tls, stop).await?;
            match following.map(|following| following.figures()) {
                Some(figures) if figures.has_ended => {
                    let why = figures.error.unwrap_or_default();
                    Err(Failure::Io(format!("it was no longer a replica of {}: {why}", figures.location)))
                }
                _ => Ok(Outcome::Done),
            }
        })
    }

    fn options(&self) -> Result<ServerOptions, Failure> {
        if filemap::sharded::is_location(&self.store) {
            let words = "a server has the store of one folder: start one for each, at its own address, or copy all \
                         into one folder with `fm-tool copy`";
            return Err(Failure::Usage(format!("{}: {words}", self.store.display())));
        }
        if self.keep_removals.is_some() && !self.is_writer() {
            let words = "--keep-removals: the writer of the store keeps removals; give --write or --follow too";
            return Err(Failure::Usage(words.to_owned()));
        }
        let store = self.store.clone();
        let mut options = ServerOptions::new()
            .crawl(move || files::crawl(&store))
            .max_connections(self.max_connections)
            .idle(self.idle)
            .log(|line| words::complain(line));
        if self.write {
            options = options.writes();
        }
        if self.tls_cert.is_some() || self.behind_https {
            options = options.secure();
        }
        for name in &self.name {
            options = options.name(name);
        }
        if let Some(rules) = files::access(&self.access, self.access_config.as_deref())? {
            self.say_rules(&rules);
            options = options.access(rules);
        }
        if let Some(path) = &self.token_file {
            return Ok(options.tokens(files::tokens(path)?));
        }
        if !self.listen.ip().is_loopback() {
            if !self.insecure {
                return Err(Failure::Usage(format!(
                    "{} can be reached from other machines: give --token-file, or --insecure to let everyone in",
                    self.listen
                )));
            }
            words::complain(format_args!("--insecure: whoever reaches {} is let in without a token", self.listen));
        }
        Ok(options)
    }

    /// Warns of effects of the access rules that the operator may not expect.
    fn say_rules(&self, rules: &AccessRules) {
        if rules.of_users() > 0 {
            let number = words::count(rules.of_users(), "access rule");
            words::complain(format_args!("{number} with a `user`: without effect, as the server knows no users"));
        }
        for line in rules.out_of_order() {
            words::complain(format_args!("{line}: not in pywb's order; it applies here, but pywb may miss it"));
        }
        for warning in rules.warnings() {
            words::complain(format_args!("{warning}"));
        }
        if !self.quiet {
            words::say(words::count(rules.len() as u64, "access rule"));
        }
    }

    /// Follows the server at `location` on its own thread, until the process ends.
    fn follow(&self, store: &PageStore, location: &str) -> Result<Arc<Following>, Failure> {
        if !Client::is_location(location) || location.contains('@') {
            let words = "give an address without a name and a password, such as http://127.0.0.1:8640";
            return Err(Failure::Usage(format!("--follow {location}: {words}")));
        }
        let credentials = fm_cli::credentials::read()?;
        let mut options = ClientOptions::new();
        if let Some(token) = credentials.token {
            options = options.token(token);
        }
        if let Some(pem) = credentials.authorities {
            options = options.authorities(pem);
        }
        let following = Arc::new(Following::new(location));
        let (shown, store) = (Arc::clone(&following), store.clone());
        let mismatch = if self.begin_anew { Mismatch::BeginAnew } else { Mismatch::Refuse };
        let work = move || {
            let log = |line: &str| words::complain(line);
            if let Err(error) = filemap_http::follow(&store, &following, &options, mismatch, &log) {
                words::complain(format_args!("no longer a replica of {}: {error}", following.location()));
            }
        };
        let begun = std::thread::Builder::new().name("follow".to_owned()).spawn(work);
        begun.map_err(|error| Failure::Io(format!("no thread to follow with: {error}")))?;
        Ok(shown)
    }

    fn seen_sets(&self) -> Result<SeenSets, Failure> {
        let requests = RequestOptions::new().keep_for(self.seen_keep_for).keep_requests(self.seen_keep_requests);
        let mut sets = SeenSets::new()
            .disk(DiskOptions::new().memory_bytes(self.seen_memory))
            .most_bytes(self.seen_memory)
            .requests(requests)
            .log(|line| words::complain(line));
        if self.write {
            sets = sets.writes();
        }
        for (name, path) in &self.seen {
            match path.to_str().filter(|text| urlindex_redis::is_location(text)) {
                Some(location) => {
                    let set = OnRedis::open(location, self.seen_keep_for, self.seen_keep_requests)?;
                    sets.share(name, Arc::new(set)).map_err(Failure::Usage)?;
                }
                None => sets.add(name, path).map_err(Failure::Io)?,
            }
        }
        if let Some(folder) = &self.seen_dir {
            // A set that cannot be opened must not keep the others from being served.
            let is_named = |path: &PathBuf| self.seen.iter().any(|(_, named)| named == path);
            for (name, path) in files::seen_sets(folder, self.write)?.into_iter().filter(|(_, path)| !is_named(path)) {
                if let Err(words) = sets.add(&name, &path) {
                    words::complain(format_args!("not served: {words}"));
                }
            }
            sets = sets.folder(folder);
        }
        Ok(sets)
    }

    fn link_boxes(&self, folder: &Path) -> Result<LinkBoxes, Failure> {
        let options = MailboxOptions::new().max_bytes(self.links_max).lease(self.links_lease);
        LinkBoxes::open(folder, options).map_err(|error| Failure::Io(format!("--links {}: {error}", folder.display())))
    }

    /// Returns whether this process writes the store.
    fn is_writer(&self) -> bool {
        self.write || self.follow.is_some()
    }

    fn store_options(&self) -> Options {
        let (quiet, cache) = (self.quiet, usize::try_from(self.cache).unwrap_or(usize::MAX));
        let options = Options::new().value_cache_bytes(cache).on_event(move |event| match event {
            Event::Recovered(report) if !quiet && report.replayed_records > 0 => words::say(event),
            Event::Poisoned { .. } | Event::ErasureUnfinished { .. } => words::complain(event),
            _ => {}
        });
        match self.keep_removals {
            Some(time) => options.keep_removals(time),
            None => options,
        }
    }

    fn open(&self) -> Result<PageStore, Failure> {
        let store = if self.is_writer() {
            PageStore::open_or_create(&self.store, self.store_options())
        } else {
            PageStore::open_read_only(&self.store, self.store_options())
        };
        let store = store.map_err(|error| {
            Failure::from(error)
                .at(&self.store, "`fm-tool verify` finds all damage, `fm-tool repair` makes a new store")
        })?;
        if self.write && filemap::replica::is_replica(&store)? {
            words::complain("this store is no longer a replica: pages put here will not be in the other store");
            filemap::replica::forget_place(&store)?;
        }
        for absent in store.engine().absent() {
            words::complain(format_args!("{}: {} is unusable: {}", self.store.display(), absent.file, absent.why));
        }
        Ok(store.with_archives(Arc::new(AnyArchives::new())))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_store_over_several_folders_is_refused_by_name() {
        let cli = Cli::try_parse_from(["fm-serve", "shards:a.fm,b.fm", "--write"]).expect("arguments");
        let refused = cli.options().map(|_| ());
        assert!(matches!(refused, Err(Failure::Usage(words)) if words.starts_with("shards:a.fm,b.fm: ")));
    }

    #[test]
    fn a_writer_keeps_removals_as_long_as_it_is_told() {
        let cli = |arguments: &[&str]| {
            let all = ["fm-serve", "pages.fm", "--quiet"].iter().chain(arguments);
            Cli::try_parse_from(all).expect("arguments")
        };
        let kept = |cli: &Cli| format!("{:?}", cli.store_options());
        let days = |days: u64| format!("keep_removals: {:?}", std::time::Duration::from_secs(days * 86_400));
        assert!(kept(&cli(&["--write"])).contains(&days(7)), "{}", kept(&cli(&["--write"])));
        for writer in [&["--write"][..], &["--follow", "http://127.0.0.1:1"]] {
            let cli = cli(&[writer, &["--keep-removals", "30d"]].concat());
            assert!(cli.options().is_ok() && kept(&cli).contains(&days(30)), "{}", kept(&cli));
        }
        let reader = cli(&["--keep-removals", "30d"]).options().map(|_| ());
        assert!(matches!(reader, Err(Failure::Usage(words)) if words.starts_with("--keep-removals: ")));
    }

    #[test]
    fn other_machines_are_let_in_by_a_token_or_on_purpose() {
        let options = |arguments: &[&str]| {
            let all = ["fm-serve", "pages.fm", "--quiet"].iter().chain(arguments);
            Cli::try_parse_from(all).expect("arguments").options().map(|_| ())
        };
        for safe in ["127.0.0.1:1", "[::1]:1", "127.9.9.9:1"] {
            options(&["--listen", safe]).expect(safe);
        }
        for open in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            assert!(matches!(options(&["--listen", open]), Err(Failure::Usage(_))), "{open}");
            options(&["--listen", open, "--insecure"]).expect(open);
        }
    }
}
