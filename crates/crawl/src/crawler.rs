//! The library interface of a crawl: [`Crawler::builder`], then [`Crawler::run`].

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filemap_http::ClientOptions;
use tokio::sync::oneshot;
use urlindex::Canonicalizer;

use crate::clock::now_ms;
use crate::error::Error;
use crate::fetch::Way;
use crate::fetch::address::{Override, Resolver};
use crate::fetch::hosts::Hosts;
use crate::fetch::proxy::Proxy;
use crate::fetch::trust::{Trust, tls};
use crate::files::depot::Depot;
use crate::hooks::fields::Field;
use crate::hooks::{Fetch, Hooks, OnPage, Parse};
use crate::links::check_start;
use crate::robots;
use crate::run::opening::Begun;
use crate::run::{self, Nobody, Observer, Plan, Summary};
use crate::settings::filter::{self, Filter};
use crate::settings::scope::{Accept, Reach};
use crate::settings::{Folder, Settings};
use crate::stop::Stop;

/// The beginning of the default user agent.
const PRODUCT: &str = concat!("filemap-crawl/", env!("CARGO_PKG_VERSION"));
/// The default floor of free bytes on the store's disk.
const MIN_FREE: u64 = 512 << 20;

/// A crawl, ready to run.
///
/// ```no_run
/// use crawl::{Capture, Crawler, Reply};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let crawler = Crawler::builder("pages.fm")?
///     .seed("https://example.com/")
///     .contact("mailto:me@example.com")
///     .max_pages(1000)
///     .on_page(|page: &Capture<'_>| Ok(Reply::new().field("bytes", page.page.body.len().to_string())))
///     .build()?;
/// let summary = crawler.run()?;
/// println!("{} fetched, {} missing", summary.tally.fetched, summary.coverage.missing(summary.end));
/// # Ok(())
/// # }
/// ```
pub struct Crawler(Plan);

impl Crawler {
    /// A builder of the crawl into a store, which is made if missing. A crawl begun before keeps
    /// its settings, except those set now.
    ///
    /// # Errors
    /// The crawl's settings cannot be read; the store is one over several folders
    /// ([`filemap::sharded`]).
    pub fn builder(store: impl AsRef<Path>) -> Result<Builder, Error> {
        let store = store.as_ref();
        if filemap::sharded::is_location(store) {
            let words = "a crawl has its store in one folder: give one, or start a crawl for each as a fleet does \
                         (`fm-crawl run --shards`, docs/CRAWLING.md)";
            return Err(Error::Usage(format!("{}: {words}", store.display())));
        }
        let known = Folder::of(store).settings()?;
        let begun = if known.is_some() { Begun::Before } else { Begun::Now };
        Ok(Builder {
            plan: Plan {
                store: store.to_owned(),
                begun,
                settings: known.unwrap_or_else(|| Settings::new(now_ms())),
                rules: None,
                filter: None,
                tls: None,
                resolver: Resolver::default(),
                way: Way::default(),
                seen: ClientOptions::new(),
                redis_password: None,
                takes_back: false,
                fetch: Vec::new(),
                max_pages: u64::MAX,
                forever: false,
                min_free: MIN_FREE,
                stop: Stop::new(),
                observer: Arc::new(Nobody),
                hooks: Hooks::default(),
                accept: None,
                warc: None,
                depot: None,
            },
            trust: Trust::Roots(Vec::new()),
            seeds: Vec::new(),
            wrong: Vec::new(),
        })
    }

    /// A handle that stops the crawl.
    pub fn stop(&self) -> Stop {
        self.0.stop.clone()
    }

    /// Crawls until nothing is left, a limit is reached, or it is stopped. Blocks the caller; the
    /// crawl runs on its own threads, so async code may call it too, but should prefer
    /// [`Crawler::run_async`].
    ///
    /// # Errors
    /// Errors of the store, the frontier, the sets and the observer. What was committed stays: the
    /// next run resumes there.
    pub fn run(self) -> Result<Summary, Error> {
        let broke = || Error::Broken("the crawl stopped unexpectedly; please report it".to_owned());
        std::thread::scope(|scope| scope.spawn(|| run::run(self.0)).join()).unwrap_or_else(|_| Err(broke()))
    }

    /// The async form of `run`, for any runtime. Dropping the future asks the crawl to stop, but
    /// does not wait for it.
    ///
    /// # Errors
    /// As [`Crawler::run`].
    pub async fn run_async(self) -> Result<Summary, Error> {
        let broke = || Error::Broken("the crawl stopped unexpectedly; please report it".to_owned());
        let (tell, told) = oneshot::channel();
        let stop = StopOnDrop(self.stop());
        // If the future was dropped, the result is discarded.
        std::thread::spawn(move || drop(tell.send(run::run(self.0))));
        let ended = told.await.unwrap_or_else(|_| Err(broke()));
        drop(stop);
        ended
    }
}

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// Builds a [`Crawler`]. Unset settings default to those of [`Settings::new`], or of the previous
/// run.
///
/// ```
/// # let place = tempfile::tempdir()?;
/// let mut builder = crawl::Crawler::builder(place.path().join("pages.fm"))?.max_pages(100);
/// assert!(!builder.was_begun() && builder.settings().obeys_robots);
/// // A crawl needs a start page and a contact.
/// assert!(builder.build().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Builder {
    plan: Plan,
    trust: Trust,
    seeds: Vec<String>,
    /// Errors in the given values.
    wrong: Vec<String>,
}

/// One setter for each setting.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($($value:ident: $kind:ty)?) { $($place:ident).+ = $made:expr })*) => {
        impl Builder {
            $($(#[$doc])* #[must_use] pub fn $name(mut self $(, $value: $kind)?) -> Builder {
                self.$($place).+ = $made;
                self
            })*
        }
    };
}

setters! {
    /// Distance that the crawl goes from its start pages; default [`Reach::Host`].
    scope(reach: Reach) { plan.settings.scope = reach }
    /// Requests a second to a host, 0 for no limit; default 1.
    rate(rate: f64) { plan.settings.rate = rate }
    /// Requests a second to an IP address, over all its hosts; 0 for no limit, the default.
    address_rate(rate: f64) { plan.settings.address_rate = rate }
    /// Connections in total; default 64. At most as many hooks run at once.
    connections(most: usize) { plan.settings.connections = most.clamp(1, 10_000) }
    /// Connections to one host; default 1.
    host_connections(most: u16) { plan.settings.host_connections = most.clamp(1, 1000) }
    /// The maximum number of links from a start page; default 100.
    max_depth(most: u16) { plan.settings.depth = most }
    /// The maximum number of pages of one host; default 100,000.
    max_host_pages(most: Option<u32>) { plan.settings.host_pages = most }
    /// The maximum number of fetched pages over all runs.
    max_pages(most: u64) { plan.max_pages = most }
    /// The age at which pages are fetched again; default never.
    recrawl(age: Option<Duration>) { plan.settings.recrawl = age }
    /// Obey robots.txt; the default.
    obey_robots() { plan.settings.obeys_robots = true }
    /// Also fetch what robots.txt disallows: only for your own hosts.
    ignore_robots() { plan.settings.obeys_robots = false }
    /// The product token matched in robots.txt; default: the first word of the user agent.
    robots_token(token: Option<String>) { plan.settings.robots_token = token }
    /// Follow links marked nofollow too.
    follow_nofollow() { plan.settings.follow_nofollow = true }
    /// Follow no links marked nofollow; the default.
    obey_nofollow() { plan.settings.follow_nofollow = false }
    /// Settings of single hosts: a TOML file, reloaded when it changes; default none.
    hosts(file: Option<PathBuf>) {
        plan.settings.hosts = file.map(|file| std::path::absolute(&file).unwrap_or(file))
    }
    /// Attempts at a page that fails, 1 to 15; default 13.
    attempts(most: u8) { plan.settings.attempts = most.clamp(1, 15) }
    /// The time that a run continues without fetching a page; default 15 minutes.
    patience(time: Duration) { plan.settings.patience = time }
    /// The maximum length of a body: of a longer one the beginning is kept; default 16 MiB.
    max_body(bytes: u64) { plan.settings.limits.body_bytes = bytes.max(1) }
    /// Read sitemaps; the default.
    sitemaps() { plan.settings.sitemaps = true }
    /// Read no sitemaps.
    no_sitemaps() { plan.settings.sitemaps = false }
    /// Also fetch images, styles, scripts and fonts of pages.
    requisites() { plan.settings.requisites = true }
    /// Fetch no requisites of pages; the default.
    no_requisites() { plan.settings.requisites = false }
    /// Keep cookies during the run.
    cookies() { plan.settings.cookies = true }
    /// Keep no cookies; the default.
    no_cookies() { plan.settings.cookies = false }
    /// Keep waiting when nothing is left.
    forever() { plan.forever = true }
    /// Pause while fewer bytes are free on the store's disk; default 512 MiB.
    min_free(bytes: u64) { plan.min_free = bytes }
    /// Also connect to private, loopback and other non-public addresses.
    allow_private() { plan.resolver.allow_private = true }
    /// Names with fixed addresses; the first match counts.
    resolve(overrides: Vec<Override>) { plan.resolver.overrides = overrides }
    /// Send all requests to this proxy.
    proxy(proxy: Option<Proxy>) { plan.way.proxy = proxy }
    /// Connect from this address of the machine.
    bind(address: Option<IpAddr>) { plan.way.bind = address }
    /// The servers trusted over TLS.
    trust(trust: Trust) { trust = trust }
    /// The canonicaliser of a new store: it decides which URLs are one page.
    rules(rules: Option<Arc<dyn Canonicalizer>>) { plan.rules = rules }
    /// Client options for the server of a shared seen set ([`Settings::seen`]).
    seen_options(options: ClientOptions) { plan.seen = options }
    /// The password of a shared seen set on Redis.
    redis_password(password: Option<String>) { plan.redis_password = password }
    /// Fetch only these pages, ahead of the queue.
    fetch_only(urls: Vec<String>) { plan.fetch = urls }
    /// Queue refused pages again, because the scope or the allowed addresses are wider now.
    take_back() { plan.takes_back = true }
    /// The handle that stops it.
    stop(stop: Stop) { plan.stop = stop }
    /// Receives events, visits and counts.
    observer(observer: Arc<dyn Observer>) { plan.observer = observer }
    /// Report all links of pages with anchor text and `rel` ([`crate::visit::Visit::edges`]), for
    /// an [`Observer`] that keeps them.
    edges() { plan.hooks.edges = true }
    /// Write WARC files to this folder (made if missing) while crawling: everything put into the
    /// store since the first run with this option, each version once.
    warc(folder: Option<PathBuf>) { plan.warc = folder }
    /// Put pages and the crawl's state into a shard of a remote store, the one that
    /// [`Settings::bucket`] names. Open it before making the builder: the settings come from it.
    depot(depot: Option<Depot>) { plan.depot = depot }
    /// Replaces the crawl's fetcher for pages; the crawl still fetches robots.txt and sitemaps.
    fetch_by(fetch: Option<Arc<dyn Fetch>>) { plan.hooks.fetch = fetch }
    /// Decides which URLs are in scope, in addition to the reach.
    accept_by(accept: Option<Arc<dyn Accept>>) { plan.accept = accept }
}

impl Builder {
    /// Adds a start page.
    #[must_use]
    pub fn seed(mut self, url: impl Into<String>) -> Builder {
        self.seeds.push(url.into());
        self
    }

    /// Adds start pages.
    #[must_use]
    pub fn seeds<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Builder {
        self.seeds.extend(urls.into_iter().map(Into::into));
        self
    }

    /// The operator's contact, a URL or `mailto:` address, sent with every request.
    #[must_use]
    pub fn contact(mut self, contact: &str) -> Builder {
        self.plan.settings.user_agent = format!("{PRODUCT} (+{contact})");
        self
    }

    /// The whole user agent. It begins with the product token matched in robots.txt.
    #[must_use]
    pub fn user_agent(mut self, name: &str) -> Builder {
        name.clone_into(&mut self.plan.settings.user_agent);
        self
    }

    /// Fetches only URLs that match a pattern: a regular expression, `prefix:URL`, or `@FILE`.
    #[must_use]
    pub fn include(mut self, pattern: &str) -> Builder {
        match filter::checked(pattern) {
            Ok(pattern) => self.plan.settings.include.push(pattern),
            Err(wrong) => self.wrong.push(format!("include {pattern}: {wrong}")),
        }
        self
    }

    /// Does not fetch URLs that match a pattern.
    #[must_use]
    pub fn exclude(mut self, pattern: &str) -> Builder {
        match filter::checked(pattern) {
            Ok(pattern) => self.plan.settings.exclude.push(pattern),
            Err(wrong) => self.wrong.push(format!("exclude {pattern}: {wrong}")),
        }
        self
    }

    /// Reads pages of these content types only, such as `text/html` and `image/*`; default all.
    #[must_use]
    pub fn accept_types<T: AsRef<str>>(mut self, types: &[T]) -> Builder {
        self.plan.settings.limits.types = self.checked("accept", types, filter::checked_type);
        self
    }

    /// Does not fetch pages whose path ends in one of these extensions; default none.
    #[must_use]
    pub fn reject_extensions<T: AsRef<str>>(mut self, extensions: &[T]) -> Builder {
        self.plan.settings.reject_extensions = self.checked("reject", extensions, filter::checked_extension);
        self
    }

    /// The valid ones of these texts, normalised; keeps the errors in the others.
    fn checked<T: AsRef<str>>(
        &mut self,
        what: &str,
        texts: &[T],
        check: impl Fn(&str) -> Result<String, String>,
    ) -> Vec<String> {
        let mut valid = Vec::with_capacity(texts.len());
        for text in texts.iter().map(AsRef::as_ref) {
            match check(text) {
                Ok(text) => valid.push(text),
                Err(wrong) => self.wrong.push(format!("{what} {text}: {wrong}")),
            }
        }
        valid
    }

    /// Stores these fields beside each page; default none.
    #[must_use]
    pub fn fields(mut self, fields: &[Field]) -> Builder {
        self.plan.settings.fields = fields.iter().map(|field| field.name().to_owned()).collect();
        self
    }

    /// Adds a hook that sees each page before it is stored.
    #[must_use]
    pub fn on_page(mut self, hook: impl OnPage + 'static) -> Builder {
        self.plan.hooks.on_page.push(Arc::new(hook));
        self
    }

    /// Replaces the crawl's link extraction.
    #[must_use]
    pub fn parse_by(mut self, parse: impl Parse + 'static) -> Builder {
        self.plan.hooks.parse = Some(Arc::new(parse));
        self
    }

    /// All persistent settings, including those without a method here.
    pub fn settings(&mut self) -> &mut Settings {
        &mut self.plan.settings
    }

    /// Returns whether an earlier run has begun the crawl.
    pub fn was_begun(&self) -> bool {
        self.plan.begun == Begun::Before
    }

    /// Checks everything that was given. Creates nothing.
    ///
    /// # Errors
    /// [`Error::Usage`] with all errors found.
    pub fn build(mut self) -> Result<Crawler, Error> {
        let mut wrong = std::mem::take(&mut self.wrong);
        let settings = &mut self.plan.settings;
        let mut known: HashSet<String> = settings.starts().cloned().collect();
        for seed in self.seeds {
            match check_start(seed.as_bytes(), settings.limits.url_bytes) {
                Ok(url) if known.insert(url.clone()) => {
                    settings.seeds.push(url);
                    self.plan.takes_back = true;
                }
                Ok(_) => self.plan.takes_back = true,
                Err(why) => wrong.push(format!("{seed}: {why}")),
            }
        }
        if known.is_empty() && wrong.is_empty() {
            wrong.push("a crawl needs a start page".to_owned());
        }
        if settings.user_agent.is_empty() {
            PRODUCT.clone_into(&mut settings.user_agent);
        }
        let has_contact = ["@", "http://", "https://"].iter().any(|mark| settings.user_agent.contains(mark));
        if !has_contact && !self.plan.resolver.allow_private {
            wrong.push("give a contact for this crawl, such as mailto:you@example.com".to_owned());
        }
        if robots::token(&settings.user_agent).is_empty() || settings.user_agent.chars().any(char::is_control) {
            wrong.push("a user agent is one line that begins with a name of letters, digits, - and _".to_owned());
        }
        if !(0.0..=1e6).contains(&settings.rate) {
            wrong.push(format!("{} is not a number of requests a second", settings.rate));
        }
        if !(0.0..=1e6).contains(&settings.address_rate) {
            wrong.push(format!("{} is not a number of requests a second to an address", settings.address_rate));
        }
        wrong.extend(settings.fields.iter().filter_map(|name| Field::named(name).err()));
        match Filter::open(&settings.include, &settings.exclude, &settings.reject_extensions) {
            Ok(filter) => self.plan.filter = Some(filter),
            Err(all) => wrong.extend(all),
        }
        wrong.extend(Hosts::open(settings.hosts.as_deref()).err());
        match tls(self.trust) {
            Ok(tls) => self.plan.tls = Some(tls),
            Err(why) => wrong.push(why),
        }
        if wrong.is_empty() { Ok(Crawler(self.plan)) } else { Err(Error::Usage(wrong.join("; "))) }
    }
}
