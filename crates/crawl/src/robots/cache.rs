//! The robots.txt of each origin: fetched once, stored like any page, and read from the store
//! after a restart.
//!
//! By RFC 9309, 2.3.1: an available file is obeyed; a missing one (400 to 499, too many redirects)
//! allows everything; a failing server (500 to 599, 429, no answer) means *stay away* until it is
//! asked again.
//!
//! Invariants: at most one request at a time for an origin's robots.txt; memory for rules is
//! bounded.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use filemap::canonical::{Canonicalizer as _, Whatwg};
use frontier::FailureKind;

use super::Robots;
use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::{Failure, Reason};
use crate::fetch::{Fetcher, Kind, Validators, retry_after};
use crate::links::head;
use crate::pages::Pages;
use crate::record;

/// The age at which a robots.txt is fetched again.
const AGE_MAX_MS: i64 = 24 * 3_600_000;
/// The time for which a failure answers waiting visits; the frontier decides when the host is
/// asked again.
const UNREACHABLE_FOR: Duration = Duration::from_millis(500);
/// Redirects followed from a robots.txt: the minimum of the RFC.
const REDIRECTS_MAX: usize = 5;
/// Memory for rules; above it unused origins are dropped.
const MEMORY_BYTES: usize = 32 << 20;
/// The memory charged for an origin without rules.
const SITE_BYTES: usize = 512;

/// The rules of an origin.
///
/// ```
/// use crawl::fetch::{Fetcher, trust};
/// use crawl::robots::cache::Cache;
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("pages.fm");
/// # let store = filemap::PageStore::create(path, filemap::Options::new())?;
/// # let pages = crawl::pages::Pages::Local(store);
/// # let (limits, tls) = (Default::default(), trust::tls(trust::Trust::Anybody)?);
/// # let fetcher = Fetcher::new(limits, "example/1", Default::default(), tls)?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # let (url, text) = ("http://example.com/robots.txt", "User-agent: *\nDisallow: /private\n");
/// # pages.put_page(&filemap::Page::new(url, crawl::clock::now_ms(), 200, text))?;
/// let cache = Cache::new("example", std::time::Duration::from_secs(600));
/// let site = cache.site("http://example.com", &pages, &fetcher);
/// let (site, was_asked) = runtime.block_on(site)?;
/// // A fresh robots.txt is in the store.
/// assert!(!was_asked && !site.robots.as_ref().unwrap().allows("/private"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Site {
    /// The rules; `Err` with the reason to stay away.
    pub robots: Result<Robots, Failure>,
    /// True if the sitemaps have been reported to the crawl.
    pub sitemaps_told: AtomicBool,
    until: Instant,
}

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Site>>>>;

/// The robots.txt of all origins.
///
/// ```
/// use crawl::robots::cache::{Cache, url_of};
/// # let place = tempfile::tempdir()?;
/// # let path = place.path().join("pages.fm");
/// # let store = filemap::PageStore::create(path, filemap::Options::new())?;
/// let (pages, site) = (crawl::pages::Pages::Local(store), "http://example.com");
/// let cache = Cache::new("example", std::time::Duration::from_secs(600));
/// assert!(cache.recall(site, &pages).is_none());
/// let text = "User-agent: *\nDisallow: /private\n";
/// pages.put_page(&filemap::Page::new(url_of(site), crawl::clock::now_ms(), 200, text))?;
/// assert!(cache.recall(site, &pages).is_some_and(|robots| !robots.allows("/private")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cache {
    agent: String,
    /// The longest `Retry-After` that is obeyed.
    retry_after: Duration,
    sites: Mutex<(HashMap<String, Slot>, usize)>,
}

/// The URL of an origin's robots.txt.
pub fn url_of(origin: &str) -> String {
    format!("{origin}/robots.txt")
}

/// Splits a canonical URL into scheme with authority, and the rest.
pub fn split(url: &str) -> (&str, &str) {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?', '#']).map_or(url.len(), |at| at + after_scheme);
    let (origin, path) = url.split_at(end);
    (origin, if path.is_empty() { "/" } else { path })
}

/// The outcome of a request for a robots.txt.
enum Step {
    Known(Robots),
    Next(String),
}

impl Cache {
    /// A cache for this product token, and the longest `Retry-After` that is obeyed.
    pub fn new(agent: &str, retry_after: Duration) -> Cache {
        Cache { agent: agent.to_owned(), retry_after, sites: Mutex::default() }
    }

    /// The rules of an origin, from memory, from the store, or from its server; and whether the
    /// server was asked just now.
    ///
    /// # Errors
    /// An error of the store, when it cannot keep the answer.
    pub async fn site(&self, origin: &str, store: &Pages, fetcher: &Fetcher) -> Result<(Arc<Site>, bool), Error> {
        let slot = self.slot(origin);
        let mut held = slot.lock().await;
        if let Some(site) = held.as_ref().filter(|site| Instant::now() < site.until) {
            return Ok((Arc::clone(site), false));
        }
        let (robots, was_fetched, fresh) = self.load(origin, store, fetcher).await?;
        let age = if robots.is_ok() { fresh } else { UNREACHABLE_FOR };
        let site = Arc::new(Site { robots, sitemaps_told: AtomicBool::new(false), until: Instant::now() + age });
        *held = Some(Arc::clone(&site));
        drop(held);
        self.weigh(site.robots.as_ref().map_or(0, Robots::memory_bytes));
        Ok((site, was_fetched))
    }

    /// Returns whether the rules of an origin are in memory.
    pub fn has(&self, origin: &str) -> bool {
        let slot = self.slot(origin);
        slot.try_lock().is_ok_and(|held| held.as_ref().is_some_and(|site| Instant::now() < site.until))
    }

    fn slot(&self, origin: &str) -> Slot {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = sites.0.get(origin) {
            return Arc::clone(slot);
        }
        let slot = Slot::default();
        sites.0.insert(origin.to_owned(), Arc::clone(&slot));
        slot
    }

    /// Charges an origin's memory, and drops unused origins when the total is too large.
    fn weigh(&self, bytes: usize) {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        sites.1 += bytes + SITE_BYTES;
        if sites.1 > MEMORY_BYTES {
            sites.0.retain(|_, slot| Arc::strong_count(slot) > 1);
            sites.1 = sites.0.len() * SITE_BYTES;
        }
    }

    async fn load(
        &self,
        origin: &str,
        store: &Pages,
        fetcher: &Fetcher,
    ) -> Result<(Result<Robots, Failure>, bool, Duration), Error> {
        let (mut url, mut was_fetched) = (url_of(origin), false);
        let mut fresh = Duration::from_millis(AGE_MAX_MS as u64);
        for _ in 0..=REDIRECTS_MAX {
            let step = match self.stored(&url, store) {
                Some((step, rest)) => {
                    fresh = fresh.min(rest);
                    Ok(step)
                }
                None => {
                    was_fetched = true;
                    self.fetched(&url, store, fetcher).await?
                }
            };
            match step {
                Ok(Step::Known(robots)) => return Ok((Ok(robots), was_fetched, fresh)),
                Ok(Step::Next(next)) => url = next,
                Err(failure) => return Ok((Err(failure), was_fetched, fresh)),
            }
        }
        Ok((Ok(Robots::default()), was_fetched, fresh))
    }

    /// The stored robots.txt, if it is fresh and readable, and its remaining freshness.
    fn stored(&self, url: &str, store: &Pages) -> Option<(Step, Duration)> {
        let page = store.get(url).ok()??;
        // A redirect from another spelling, the same page to the store, does not answer for this
        // one.
        if page.url != url.as_bytes() && page.status.is_some_and(|status| (300..400).contains(&status)) {
            return None;
        }
        let age_ms = now_ms() - page.fetched_at_ms;
        let rest = Duration::from_millis(AGE_MAX_MS.saturating_sub(age_ms).max(0) as u64);
        if (0..AGE_MAX_MS).contains(&age_ms) { Some((self.meaning(url, &page)?, rest)) } else { None }
    }

    /// The server's answer, or the reason for none. It is obeyed even if an erasure rule forbids
    /// storing it; any other failure of the store ends the crawl.
    async fn fetched(&self, url: &str, store: &Pages, fetcher: &Fetcher) -> Result<Result<Step, Failure>, Error> {
        let mut answer = match fetcher.get(url, &Validators::default(), Kind::Robots).await {
            Ok(answer) => answer,
            Err(failure) => return Ok(Err(unreachable(failure))),
        };
        // The missing rest may forbid what the beginning allows.
        if let Some(cut) = answer.cut.take_if(|cut| cut.reason != Reason::BodyLimit) {
            return Ok(Err(unreachable(cut)));
        }
        if answer.status == 429 || answer.status >= 500 {
            let wanted = answer.headers.get("Retry-After").and_then(|value| retry_after::parse(value, now_ms()));
            let retry_after_ms = wanted.map(|wanted| wanted.min(self.retry_after).as_millis() as u64);
            let words = format!("{url} answers {}", answer.status);
            return Ok(Err(Failure { retry_after_ms, ..Failure::new(Reason::RobotsUnreachable, words) }));
        }
        let page = record::page(url, answer, now_ms());
        let step = self.meaning(url, &page).unwrap_or(Step::Known(Robots::default()));
        match store.put_page_if_changed(&page) {
            Err(error) if !error.concerns_one_page() => Err(error.into()),
            _ => Ok(Ok(step)),
        }
    }

    fn meaning(&self, url: &str, page: &filemap::Page) -> Option<Step> {
        match page.status? {
            200..=299 => Some(Step::Known(Robots::parse(&page.body, &self.agent))),
            300..=399 => {
                let location = head::location(&page.headers)?;
                let next = Whatwg.resolve(url.as_bytes(), location).ok();
                let next = next.filter(|next| crate::links::is_web(next)).and_then(|next| String::from_utf8(next).ok());
                Some(next.map_or(Step::Known(Robots::default()), Step::Next))
            }
            400..=499 => Some(Step::Known(Robots::default())),
            _ => None,
        }
    }

    /// The stored rules of an origin, without a request; `None` if none is fresh.
    pub fn recall(&self, origin: &str, store: &Pages) -> Option<Robots> {
        let mut url = url_of(origin);
        for _ in 0..=REDIRECTS_MAX {
            match self.stored(&url, store)?.0 {
                Step::Known(robots) => return Some(robots),
                Step::Next(next) => url = next,
            }
        }
        Some(Robots::default())
    }
}

/// Maps a failure to fetch robots.txt: host failures stay, all others mean *stay away*.
fn unreachable(failure: Failure) -> Failure {
    match failure.reason.kind() {
        FailureKind::Dns | FailureKind::Connect | FailureKind::Tls | FailureKind::Refused => failure,
        _ => Failure { reason: Reason::RobotsUnreachable, detail: format!("robots.txt: {failure}"), ..failure },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_its_site_and_its_path() {
        assert_eq!(split("http://a.example:8080/b/c?d"), ("http://a.example:8080", "/b/c?d"));
        assert_eq!(split("https://a.example"), ("https://a.example", "/"));
        assert_eq!(split("https://a.example?q"), ("https://a.example", "?q"));
    }
}
