//! The scope of a crawl: compares the text of URLs with the start pages.
//!
//! A leading `www.` and the choice of http or https are ignored: web sites redirect from one to
//! the other.

use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde::{Deserialize, Serialize};

/// The reach of a crawl from its seeds.
///
/// ```
/// use crawl::settings::scope::{Reach, Scope};
/// let contains = |reach, url| Scope::new(reach, ["http://example.com/docs/"]).contains(url);
/// assert!(contains(Reach::Domain, "http://a.example.com/"));
/// assert!(!contains(Reach::Host, "http://a.example.com/"));
/// assert!(!contains(Reach::Prefix, "http://example.com/blog/"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// The hosts of the seeds
    #[default]
    Host,
    /// The hosts of the seeds and their subdomains
    Domain,
    /// URLs that begin like a seed, up to its last slash
    Prefix,
    /// Every host
    Any,
}

/// Verdict of the reach on a URL.
///
/// ```
/// use crawl::settings::scope::Reached;
/// assert_ne!(Reached::Within, Reached::Beyond);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The reach contains it.
    Within,
    /// It is outside.
    Beyond,
}

/// Decides which URLs are in scope, in addition to the reach. Matching closures implement it.
///
/// ```
/// use crawl::settings::scope::{Reach, Reached, Scope};
/// let not_days = |url: &str, reached: Reached| reached == Reached::Within && !url.contains("/day/");
/// let scope = Scope::new(Reach::Host, ["http://example.com/"]);
/// let scope = scope.accepting(Some(std::sync::Arc::new(not_days)));
/// assert!(scope.contains("http://example.com/a") && !scope.contains("http://example.com/day/1"));
/// ```
pub trait Accept: Send + Sync {
    /// Returns whether a URL is in scope; `reached` is the reach's verdict. Called for each link,
    /// from many threads, so it must be quick. If it panics, the reach's verdict holds.
    fn accepts(&self, url: &str, reached: Reached) -> bool;
}

impl<F: Fn(&str, Reached) -> bool + Send + Sync> Accept for F {
    fn accepts(&self, url: &str, reached: Reached) -> bool {
        self(url, reached)
    }
}

/// The scope of a crawl. It grows when a start page redirects out of it.
///
/// ```
/// use crawl::settings::scope::{Reach, Scope};
/// let scope = Scope::new(Reach::Host, ["http://example.com/"]);
/// assert!(scope.contains("https://www.example.com/a") && !scope.contains("http://example.org/"));
/// scope.widen("http://example.org/");
/// assert!(scope.contains("http://example.org/a"));
/// ```
pub struct Scope {
    reach: Reach,
    accept: Option<Arc<dyn Accept>>,
    /// The number of panics of `accept`.
    panics: AtomicU64,
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Start pages, and their redirect targets.
    starts: HashSet<String>,
    hosts: HashSet<String>,
    /// Without the scheme, up to the last slash of the path.
    prefixes: HashSet<String>,
}

impl Inner {
    fn enter(&mut self, start: &str) {
        self.starts.insert(start.to_owned());
        self.hosts.insert(host(start).to_owned());
        let place = place(start);
        let path = &place[..place.find(['?', '#']).unwrap_or(place.len())];
        self.prefixes.insert(path[..path.rfind('/').map_or(path.len(), |at| at + 1)].to_owned());
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl Scope {
    /// The scope of these start pages.
    pub fn new<'a>(reach: Reach, starts: impl IntoIterator<Item = &'a str>) -> Scope {
        let mut inner = Inner::default();
        starts.into_iter().for_each(|start| inner.enter(start));
        Scope { reach, accept: None, panics: AtomicU64::new(0), inner: RwLock::new(inner) }
    }

    /// The same scope, with the caller's decision.
    #[must_use]
    pub fn accepting(self, accept: Option<Arc<dyn Accept>>) -> Scope {
        Scope { accept, ..self }
    }

    /// Panics of the caller's decision since the last call.
    pub fn take_panics(&self) -> u64 {
        self.panics.swap(0, Ordering::Relaxed)
    }

    /// Widens the scope by one more start page.
    pub fn widen(&self, start: &str) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).enter(start);
    }

    fn inner(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a URL is a start page, or a redirect target of one.
    pub fn is_start(&self, url: &str) -> bool {
        self.inner().starts.contains(url)
    }

    /// Returns whether a URL belongs to the crawl.
    pub fn contains(&self, url: &str) -> bool {
        let is_within = self.is_within(url);
        let Some(accept) = &self.accept else { return is_within };
        let reached = if is_within { Reached::Within } else { Reached::Beyond };
        // Unwind safety: state that it leaves broken is its own.
        catch_unwind(AssertUnwindSafe(|| accept.accepts(url, reached))).unwrap_or_else(|_| {
            self.panics.fetch_add(1, Ordering::Relaxed);
            is_within
        })
    }

    fn is_within(&self, url: &str) -> bool {
        match self.reach {
            Reach::Any => true,
            Reach::Host => self.inner().hosts.contains(host(url)),
            Reach::Domain => {
                let (inner, host) = (self.inner(), host(url));
                let below = host.match_indices('.').map(|(at, _)| &host[at + 1..]);
                inner.hosts.contains(host) || below.into_iter().any(|domain| inner.hosts.contains(domain))
            }
            Reach::Prefix => {
                let (inner, place) = (self.inner(), place(url));
                // One lookup a slash, however many start pages there are.
                place.match_indices('/').any(|(at, _)| inner.prefixes.contains(&place[..=at]))
            }
        }
    }
}

/// The host of a URL without a leading `www.`.
fn host(url: &str) -> &str {
    let host = urlindex::host(url.as_bytes()).and_then(|host| std::str::from_utf8(host).ok()).unwrap_or("");
    host.strip_prefix("www.").unwrap_or(host)
}

/// A URL without scheme and leading `www.`.
fn place(url: &str) -> &str {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    place.strip_prefix("www.").unwrap_or(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reach: Reach, inside: &[&str], outside: &[&str]) {
        let scope = Scope::new(reach, ["http://example.com/docs/index.html?x=/y/", "https://b.example:8080/"]);
        for url in inside {
            assert!(scope.contains(url), "{reach:?} {url}");
        }
        for url in outside {
            assert!(!scope.contains(url), "{reach:?} {url}");
        }
    }

    #[test]
    fn every_reach_holds_what_it_should() {
        check(
            Reach::Host,
            &["http://example.com/", "https://www.example.com/x", "https://b.example/"],
            &["http://docs.example.com/", "http://xexample.com/", "http://example.org/"],
        );
        check(
            Reach::Domain,
            &["http://docs.example.com/", "http://a.b.example.com/", "http://example.com/"],
            &["http://example.org/", "http://xexample.com/", "http://com/"],
        );
        check(
            Reach::Prefix,
            &["https://example.com/docs/a", "http://www.example.com/docs/", "http://b.example:8080/x"],
            &["http://example.com/doc", "http://example.com/", "http://b.example/x"],
        );
        check(Reach::Any, &["http://elsewhere.example/"], &[]);
    }
}
