//! Read-only views: the state of a page, of a host, totals.
//!
//! Plain data, made when it is asked for.

use crate::outcome::{FailureKind, PageId};

/// Where a page stands.
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
    /// It was discovered and waits for its first fetch.
    Queued,
    /// It failed and waits to be tried again.
    Retrying,
    /// It was handed out, and nothing was told of it yet.
    InFlight,
    /// It was fetched, and waits for its next recrawl, if there is to be one.
    Fetched,
    /// It was fetched, and its recrawl is due.
    Due,
    /// It was given up.
    Gone,
}

/// What is known of a page.
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
    /// Where it stands.
    pub status: PageStatus,
    /// Whether it is a seed.
    pub is_seed: bool,
    /// Whether a page of good standing leads to it ([`crate::Rent::Endorsed`]), or it is a seed.
    /// If not, it waits for all others of its kind.
    pub is_vouched_for: bool,
    /// Links from a seed, when it was discovered.
    pub depth: u16,
    /// Its host.
    pub host: String,
    /// The part of all credit that it holds now.
    pub credit: f64,
    /// The estimate of its importance; all pages have 1 together.
    pub importance: f64,
    /// Attempts in a row that failed.
    pub failed_attempts: u8,
    /// Why the last of them failed.
    pub last_failure: Option<FailureKind>,
    /// When it may be fetched next: `None` if at any time, or never.
    pub due_ms: Option<i64>,
}

/// What is known of a host.
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
    /// Its name as it stands in URLs, without port; empty for URLs that have none.
    pub host: String,
    /// Pages of it that are known.
    pub pages: u32,
    /// Pages of it that may be fetched as soon as the host may.
    pub ready: u32,
    /// Fetches in flight.
    pub in_flight: u32,
    /// Nothing is fetched from it before this time.
    pub next_at_ms: i64,
    /// Between the begins of two fetches.
    pub delay_ms: u64,
}

/// Numbers about a frontier.
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
    /// Pages that are known.
    pub pages: u32,
    /// Pages that wait for their first fetch, retries among them.
    pub queued: u32,
    /// Pages whose recrawl is due.
    pub due: u32,
    /// Pages that were handed out and not told of yet.
    pub in_flight: u32,
    /// Pages that were fetched at least once.
    pub fetched: u32,
    /// Pages that were given up.
    pub gone: u32,
    /// Hosts that are known.
    pub hosts: u32,
    /// Fetches that were told as done since the frontier was made.
    pub fetches: u64,
    /// Those of them that were refreshes.
    pub refreshes: u64,
    /// Failures that were told.
    pub failures: u64,
    /// The part of all credit that the virtual page holds now.
    pub virtual_credit: f64,
    /// How often all credit was handed on.
    pub turns: f64,
    /// Memory that the frontier holds.
    pub memory_bytes: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// Bytes of the journal among them.
    pub journal_bytes: u64,
}
