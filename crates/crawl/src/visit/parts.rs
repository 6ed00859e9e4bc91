//! The parts of a crawl that all its visits share: settings, scope, store, fetcher, caches.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::hops::Hops;
use super::prints::Prints;
use crate::failure::{Failure, Reason};
use crate::fetch::Fetcher;
use crate::files::bodies::Bodies;
use crate::files::sitemaps::Sitemaps;
use crate::hooks::Hooks;
use crate::hooks::fields::Field;
use crate::links::requisites;
use crate::pages::Pages;
use crate::robots::cache::Cache;
use crate::settings::Settings;
use crate::settings::filter::{Filter, Refusal};
use crate::settings::scope::Scope;

/// The shared parts of all visits.
///
/// ```
/// use crawl::visit::Crawl;
/// # use crawl::files::{bodies::Bodies, sitemaps::Sitemaps};
/// # use crawl::settings::{Settings, filter::Filter};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("pages.fm");
/// # let store = filemap::PageStore::create(path, filemap::Options::new())?;
/// # let tls = crawl::fetch::trust::tls(crawl::fetch::trust::Trust::Anybody)?;
/// # let ways = Default::default();
/// # let fetcher = crawl::fetch::Fetcher::new(Default::default(), "example/1", ways, tls)?;
/// # let sitemaps = Sitemaps::open(&filemap_io::OsDir::open(place.path())?)?;
/// # let (settings, bodies) = (Settings::new(0), Bodies::open(place.path())?);
/// # let pages = (crawl::pages::Pages::Local(store), 0..0);
/// let filter = Filter::open(&[], &[r"\.pdf$".to_owned()], &[]).unwrap();
/// let scope = settings.scope();
/// # let asks = (fetcher, crawl::hooks::Hooks::default());
/// let crawl = Crawl::new(settings, (scope, filter), pages, asks, bodies, sitemaps);
/// assert!(crawl.refusal_of_requisite("http://example.com/a.pdf").is_some());
/// assert!(crawl.refusal_of_requisite("http://example.com/a").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Crawl {
    /// The settings.
    pub settings: Settings,
    /// The URLs that belong to the crawl.
    pub scope: Scope,
    /// The patterns and extensions that restrict them.
    pub filter: Filter,
    /// The store.
    pub pages: Pages,
    /// The HTTP fetcher.
    pub fetcher: Fetcher,
    /// The hooks of the library's caller.
    pub hooks: Hooks,
    /// Built-in fields stored beside pages.
    pub fields: Vec<Field>,
    /// The robots.txt rules of origins.
    pub robots: Cache,
    /// The content-seen test.
    pub bodies: Bodies,
    /// The known sitemaps.
    pub sitemaps: Sitemaps,
    /// Consecutive redirects that led to a URL.
    pub(super) hops: Hops,
    /// Fingerprints of texts.
    pub(super) prints: Prints,
    /// Sequences of versions that an earlier process may have stored without a commit.
    pub(super) unsure: Unsure,
}

/// Sequences of versions that may lack a commit, until their pages are fetched again.
pub(super) struct Unsure {
    range: Range<u64>,
    settled: Mutex<HashSet<u64>>,
}

impl Unsure {
    /// Returns whether a sequence is one of these.
    pub(super) fn has(&self, sequence: u64) -> bool {
        self.range.contains(&sequence) && !self.settled().contains(&sequence)
    }

    /// Removes the sequence of a page that was fetched again.
    pub(super) fn settle(&self, sequence: u64) {
        self.settled().insert(sequence);
    }

    fn settled(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn excluded() -> Failure {
    Failure::new(Reason::Excluded, "a pattern of --exclude")
}

/// The product token matched in robots.txt.
pub fn token(settings: &Settings) -> &str {
    settings.robots_token.as_deref().unwrap_or_else(|| crate::robots::token(&settings.user_agent))
}

impl Crawl {
    /// A crawl of these parts; `pages` has the sequences of stored versions that the frontier may
    /// not know.
    pub fn new(
        settings: Settings,
        (scope, filter): (Scope, Filter),
        (pages, unsure): (Pages, Range<u64>),
        (fetcher, hooks): (Fetcher, Hooks),
        bodies: Bodies,
        sitemaps: Sitemaps,
    ) -> Crawl {
        let robots = Cache::new(token(&settings), settings.limits.retry_after);
        let named = settings.fields.iter().filter_map(|name| Field::named(name).ok());
        let fields = named.collect();
        Crawl {
            settings,
            scope,
            filter,
            pages,
            fetcher,
            hooks,
            fields,
            robots,
            bodies,
            sitemaps,
            hops: Hops::default(),
            prints: Prints::default(),
            unsure: Unsure { range: unsure, settled: Mutex::default() },
        }
    }

    /// The reason why a pattern of the crawl refuses a requisite, if it does. Requisites need not
    /// be included.
    pub fn refusal_of_requisite(&self, url: &str) -> Option<Failure> {
        match self.filter.refusal(url) {
            Some(Refusal::Excluded) => Some(excluded()),
            _ => self.filter.rejects_extension(url).then(|| Failure::from(Reason::Extension)),
        }
    }

    /// The reason why a pattern of the crawl refuses a page, if it does. Start pages and sitemaps
    /// need not be included, and may have any extension.
    pub(crate) fn refusal(&self, url: &str, is_seed: bool) -> Option<Failure> {
        let url = requisites::bare(url);
        let need_not = || is_seed || self.scope.is_start(url) || self.sitemaps.level(url).is_some();
        match self.filter.refusal(url)? {
            Refusal::Excluded => Some(excluded()),
            Refusal::NotIncluded | Refusal::Extension if need_not() => None,
            Refusal::Extension => Some(Failure::from(Reason::Extension)),
            Refusal::NotIncluded => Some(Failure::new(Reason::Excluded, "no pattern of --include")),
        }
    }
}
