//! Read-only views: the state of a page, of a host, totals. Plain data, built on request.

use crate::outcome::{Failing, FailureKind, PageId};

/// Status of a page.
///
/// ```
/// use frontier::{Frontier, FrontierOptions, PageStatus};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let page = frontier.page("http://example.com/").unwrap().expect("it is known");
/// assert_eq!(page.status, PageStatus::Queued);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageStatus {
    /// Waits for its first fetch.
    Queued,
    /// Failed; waits for a retry.
    Retrying,
    /// Handed out; no outcome yet.
    InFlight,
    /// Fetched; waits for its recrawl, if any.
    Fetched,
    /// Fetched; its recrawl is due.
    Due,
    /// Given up.
    Gone,
}

/// State of a page.
///
/// ```
/// use frontier::{Frontier, FrontierOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let page = frontier.page("http://example.com/").unwrap().expect("it is known");
/// assert_eq!((page.host.as_str(), page.is_seed, page.depth), ("example.com", true, 0));
/// assert!(frontier.page("http://example.org/").unwrap().is_none());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PageState {
    /// The page.
    pub page: PageId,
    /// The URL that is fetched.
    pub url: String,
    /// Its canonical URL.
    pub key: String,
    /// Its status.
    pub status: PageStatus,
    /// Whether it is a seed.
    pub is_seed: bool,
    /// Whether it is a seed or a page of good standing links to it ([`crate::Rent::Endorsed`]). If
    /// not, it waits for all others of its kind.
    pub is_vouched_for: bool,
    /// Links from a seed at its discovery.
    pub depth: u16,
    /// Its host.
    pub host: String,
    /// How its host fails, if it does.
    pub host_failing: Option<Failing>,
    /// Its part of all credit now.
    pub credit: f64,
    /// Its estimated importance; all pages sum to 1.
    pub importance: f64,
    /// Failed attempts in a row.
    pub failed_attempts: u8,
    /// Reason of the last one.
    pub last_failure: Option<FailureKind>,
    /// Earliest time of its next fetch: `None` if at any time, or never.
    pub due_ms: Option<i64>,
}

/// What is known of a page without a read from disk.
///
/// ```
/// use frontier::{Frontier, FrontierOptions, PageBrief};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/", "http://example.org/"], 0).unwrap();
/// let of_host = |page: &PageBrief<'_>| page.host == "example.org";
/// let urls: Vec<String> = frontier.list(of_host).map(|page| page.unwrap().url).collect();
/// assert_eq!(urls, ["http://example.org/"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageBrief<'a> {
    /// Its status.
    pub status: PageStatus,
    /// Its host.
    pub host: &'a str,
    /// Whether it is a seed.
    pub is_seed: bool,
    /// Why its last fetch failed, if it did.
    pub last_failure: Option<FailureKind>,
}

/// State of a host.
///
/// ```
/// use frontier::{Frontier, FrontierOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new().delay_ms(500)).unwrap();
/// frontier.seed(&["http://example.com/", "http://example.com/a"], 0).unwrap();
/// let host = frontier.hosts().next().expect("one host");
/// assert_eq!((host.pages, host.delay_ms), (2, 500));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    /// Its name as in URLs, without port; empty for URLs without a host.
    pub host: String,
    /// Its known pages.
    pub pages: u32,
    /// Its pages that may be fetched as soon as the host may.
    pub ready: u32,
    /// Fetches in flight.
    pub in_flight: u32,
    /// No fetch starts before this time.
    pub next_at_ms: i64,
    /// Delay between the starts of two fetches.
    pub delay_ms: u64,
    /// How it fails, if it does.
    pub failing: Option<Failing>,
}

/// Counts and sizes of a frontier.
///
/// ```
/// use frontier::{Frontier, FrontierOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/", "http://example.org/"], 0).unwrap();
/// let stats = frontier.stats();
/// assert_eq!((stats.pages, stats.hosts, stats.fetches), (2, 2, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Known pages.
    pub pages: u32,
    /// Pages waiting for their first fetch, retries included.
    pub queued: u32,
    /// Pages whose recrawl is due.
    pub due: u32,
    /// Pages in flight.
    pub in_flight: u32,
    /// Pages fetched at least once.
    pub fetched: u32,
    /// Pages given up.
    pub gone: u32,
    /// Known hosts.
    pub hosts: u32,
    /// Fetches since the frontier was created.
    pub fetches: u64,
    /// Refreshes among them.
    pub refreshes: u64,
    /// Failed fetches.
    pub failures: u64,
    /// The virtual page's part of all credit now.
    pub virtual_credit: f64,
    /// How often all credit was handed on.
    pub turns: f64,
    /// Memory of the frontier.
    pub memory_bytes: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// Bytes of the journal among them.
    pub journal_bytes: u64,
}
