//! Read-only views of a page, a host and the totals. Plain data, built on request.

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
    /// The URL to fetch.
    pub url: String,
    /// Its canonical URL.
    pub key: String,
    /// Its status.
    pub status: PageStatus,
    /// True for a seed.
    pub is_seed: bool,
    /// True for a seed, and for a page to which one of good standing links
    /// ([`crate::Rent::Endorsed`]). If false, it comes after all others of its kind.
    pub is_vouched_for: bool,
    /// Links from a seed at its discovery.
    pub depth: u16,
    /// Its host.
    pub host: String,
    /// Its host's outage, if any.
    pub host_failing: Option<Failing>,
    /// Its current fraction of all credit.
    pub credit: f64,
    /// Its estimated importance; all pages sum to 1.
    pub importance: f64,
    /// Consecutive failed attempts.
    pub failed_attempts: u8,
    /// Reason of the last failure.
    pub last_failure: Option<FailureKind>,
    /// Earliest time of its next fetch; `None` if it may be fetched at any time, or never.
    pub due_ms: Option<i64>,
}

/// The state of a page that is known without a read from disk.
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
    /// True for a seed.
    pub is_seed: bool,
    /// Reason of its last fetch's failure, if it failed.
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
    /// Number of its known pages.
    pub pages: u32,
    /// Number of its queued pages, fetched as soon as the host allows.
    pub ready: u32,
    /// Fetches in flight.
    pub in_flight: u32,
    /// No fetch starts before this time.
    pub next_at_ms: i64,
    /// Delay between the starts of two fetches.
    pub delay_ms: u64,
    /// Its outage, if any.
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
    /// The virtual page's current fraction of all credit.
    pub virtual_credit: f64,
    /// Number of times that all credit was handed on.
    pub turns: f64,
    /// Memory of the frontier.
    pub memory_bytes: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// Bytes of the journal among them.
    pub journal_bytes: u64,
}
