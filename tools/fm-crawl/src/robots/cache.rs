//! The robots.txt of each site: fetched once, kept in the store like any page, and read again from there after a restart.
//!
//! What a site's answer means (RFC 9309, 2.3.1): a text is obeyed; one that is absent (400 to 499, too many redirects) forbids
//! nothing; a server that fails (500 to 599, 429, no answer) means *stay away*, until it is asked again.
//!
//! Invariants: a site's robots.txt is asked for by one fetch at a time; memory for rules is bounded.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use filemap::PageStore;
use frontier::FailureKind;

use super::{MAX_BYTES, Robots};
use crate::clock::now_ms;
use crate::failure::{Failure, Reason};
use crate::fetch::{Fetcher, Validators};
use crate::outcome;
use crate::record;

/// How long a robots.txt is obeyed before it is asked for again.
const AGE_MAX_MS: i64 = 24 * 3_600_000;
/// Redirects that are followed from a robots.txt: what the RFC demands.
const REDIRECTS_MAX: usize = 5;
/// Bytes of rules in memory, beyond which sites that nobody asks about are dropped.
const MEMORY_BYTES: usize = 32 << 20;
/// What a site without rules is counted as.
const SITE_BYTES: usize = 512;

/// What is known of a site.
#[derive(Debug)]
pub struct Site {
    /// The rules; `Err` if we are to stay away, with why.
    pub robots: Result<Robots, Failure>,
    /// Whether the sitemaps have been told to the crawl.
    pub sitemaps_told: AtomicBool,
    until: Instant,
}

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Site>>>>;

/// The robots.txt of all sites.
#[derive(Debug)]
pub struct Cache {
    agent: String,
    retry: Duration,
    sites: Mutex<(HashMap<String, Slot>, usize)>,
}

/// Where a site's robots.txt is.
pub fn url_of(origin: &str) -> String {
    format!("{origin}/robots.txt")
}

/// Scheme and authority of a canonical URL, and the rest of it.
pub fn split(url: &str) -> (&str, &str) {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?', '#']).map_or(url.len(), |at| at + after_scheme);
    let (origin, path) = url.split_at(end);
    (origin, if path.is_empty() { "/" } else { path })
}

/// What a stored or fetched robots.txt comes to; `None`: it leads to this URL.
enum Step {
    Known(Robots),
    Next(String),
}

impl Cache {
    /// For a crawler of this product token. A site that we are to stay away from is asked again after `retry`.
    pub fn new(agent: &str, retry: Duration) -> Cache {
        Cache { agent: agent.to_owned(), retry, sites: Mutex::default() }
    }

    /// What a site says, from memory, else from the store if that is not too old, else from the site; and whether the site was asked
    /// just now.
    ///
    /// # Errors
    /// The store's, when it cannot keep what was asked: no page is to blame for that.
    pub async fn site(
        &self,
        origin: &str,
        store: &PageStore,
        fetcher: &Fetcher,
    ) -> Result<(Arc<Site>, bool), outcome::Failure> {
        let slot = self.slot(origin);
        let mut held = slot.lock().await;
        if let Some(site) = held.as_ref().filter(|site| Instant::now() < site.until) {
            return Ok((Arc::clone(site), false));
        }
        let (robots, was_fetched) = self.load(origin, store, fetcher).await?;
        let age = if robots.is_ok() { Duration::from_millis(AGE_MAX_MS as u64) } else { self.retry };
        let site = Arc::new(Site { robots, sitemaps_told: AtomicBool::new(false), until: Instant::now() + age });
        *held = Some(Arc::clone(&site));
        drop(held);
        self.weigh(site.robots.as_ref().map_or(0, Robots::memory_bytes));
        Ok((site, was_fetched))
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

    /// Counts a site's rules, and drops what nobody holds when they are too many.
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
        store: &PageStore,
        fetcher: &Fetcher,
    ) -> Result<(Result<Robots, Failure>, bool), outcome::Failure> {
        let (mut url, mut was_fetched) = (url_of(origin), false);
        for _ in 0..=REDIRECTS_MAX {
            let step = match self.stored(&url, store) {
                Some(step) => Ok(step),
                None => {
                    was_fetched = true;
                    self.fetched(&url, store, fetcher).await?
                }
            };
            match step {
                Ok(Step::Known(robots)) => return Ok((Ok(robots), was_fetched)),
                Ok(Step::Next(next)) => url = next,
                Err(failure) => return Ok((Err(failure), was_fetched)),
            }
        }
        Ok((Ok(Robots::default()), was_fetched))
    }

    /// What the store has of it, if that is not too old. Unreadable bytes are as good as none: it is fetched again.
    fn stored(&self, url: &str, store: &PageStore) -> Option<Step> {
        let page = store.get(url).ok()??;
        let is_fresh = (0..AGE_MAX_MS).contains(&(now_ms() - page.fetched_at_ms));
        if is_fresh { self.meaning(url, &page, store) } else { None }
    }

    /// What the site answers: a step, or why there is none. It is obeyed though the store refuses to keep it (a rule of an erasure does);
    /// a store that can keep nothing ends the crawl, and is nothing that a page is given up for.
    async fn fetched(
        &self,
        url: &str,
        store: &PageStore,
        fetcher: &Fetcher,
    ) -> Result<Result<Step, Failure>, outcome::Failure> {
        let answer = match fetcher.get(url, &Validators::default()).await {
            Ok(answer) => answer,
            Err(failure) => return Ok(Err(unreachable(failure))),
        };
        if answer.status == 429 || answer.status >= 500 {
            return Ok(Err(Failure::new(Reason::RobotsUnreachable, format!("{url} answers {}", answer.status))));
        }
        let page = record::page(url, answer, now_ms());
        let step = self.meaning(url, &page, store).unwrap_or(Step::Known(Robots::default()));
        match store.put_page_if_changed(&page) {
            Err(error) if !error.concerns_one_page() => Err(error.into()),
            _ => Ok(Ok(step)),
        }
    }

    fn meaning(&self, url: &str, page: &filemap::Page, store: &PageStore) -> Option<Step> {
        match page.status? {
            200..=299 => {
                let body = &page.body[..page.body.len().min(MAX_BYTES)];
                Some(Step::Known(Robots::parse(body, &self.agent)))
            }
            300..=399 => {
                let location = page.headers.get("Location")?;
                let next = store.canonicalizer().resolve(url.as_bytes(), location).ok();
                let next = next.filter(|next| crate::links::is_web(next)).and_then(|next| String::from_utf8(next).ok());
                Some(next.map_or(Step::Known(Robots::default()), Step::Next))
            }
            400..=499 => Some(Step::Known(Robots::default())),
            _ => None,
        }
    }

    /// What the store's robots.txt of a site says, without asking anybody; `None` if there is none, or too old a one.
    pub fn recall(&self, origin: &str, store: &PageStore) -> Option<Robots> {
        let mut url = url_of(origin);
        for _ in 0..=REDIRECTS_MAX {
            match self.stored(&url, store)? {
                Step::Known(robots) => return Some(robots),
                Step::Next(next) => url = next,
            }
        }
        Some(Robots::default())
    }
}

/// A failure to get a robots.txt: what is wrong with the host stays what it is, all else means that we stay away.
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
