//! The parts of a crawl that all its visits share: settings, scope, store, fetcher, caches.

use filemap::PageStore;

use super::hops::Hops;
use super::sitemaps::Sitemaps;
use crate::bodies::Bodies;
use crate::fetch::Fetcher;
use crate::robots::cache::Cache;
use crate::scope::Scope;
use crate::settings::Settings;

/// What all visits share.
pub struct Crawl {
    pub settings: Settings,
    pub scope: Scope,
    pub pages: PageStore,
    pub fetcher: Fetcher,
    pub robots: Cache,
    /// The content-seen test.
    pub bodies: Bodies,
    /// Which URLs are sitemaps.
    pub sitemaps: Sitemaps,
    /// Redirects in a row that led to a URL.
    pub(super) hops: Hops,
}

impl Crawl {
    /// A crawl of these parts.
    pub fn new(
        settings: Settings,
        scope: Scope,
        pages: PageStore,
        fetcher: Fetcher,
        bodies: Bodies,
        sitemaps: Sitemaps,
    ) -> Crawl {
        let robots = Cache::new(crate::robots::token(&settings.user_agent), settings.limits.retry_after);
        Crawl { settings, scope, pages, fetcher, robots, bodies, sitemaps, hops: Hops::default() }
    }
}
