//! Assignments, outcomes and failures: what a crawler gets and reports.
//!
//! Plain data. URLs are canonical texts: the frontier compares them byte by byte and makes none
//! canonical. Times are milliseconds since any fixed moment, the same for all calls (the Unix
//! epoch for a real crawl).

/// A page that the frontier knows, by its place in the order of discovery: 0 is the first. Numbers
/// are dense and never change.
///
/// ```
/// use frontier::PageId;
///
/// assert_eq!(PageId::new(7).number(), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(u32);

impl PageId {
    /// The page of this number.
    pub fn new(number: u32) -> PageId {
        PageId(number)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// The answer of [`crate::Frontier::next`].
///
/// ```
/// use frontier::{Frontier, FrontierOptions, Next};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// assert_eq!(frontier.next(0).unwrap(), Next::Empty);
/// frontier.seed(&["http://example.com/", "http://example.com/a"], 0).unwrap();
/// assert!(matches!(frontier.next(0).unwrap(), Next::Fetch(_)));
/// // One connection to a host at a time.
/// assert_eq!(frontier.next(0).unwrap(), Next::InFlight);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fetch this page, and tell the outcome.
    Fetch(Assignment),
    /// No page may be fetched before this time, unless an outcome or a seed comes sooner.
    Wait {
        /// When to ask again.
        until_ms: i64,
    },
    /// Whatever comes next depends on the outcomes of what is in flight.
    InFlight,
    /// Nothing waits and nothing is in flight: the crawl is done.
    Empty,
}

/// A page to be fetched.
///
/// ```
/// use frontier::{Frontier, FrontierOptions, Next};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// if let Next::Fetch(assignment) = frontier.next(0).unwrap() {
///     assert_eq!((assignment.depth, assignment.is_refresh), (0, false));
///     // Not fetched after all.
///     frontier.release(assignment.page).unwrap();
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The page.
    pub page: PageId,
    /// Its URL, as it was discovered.
    pub url: String,
    /// Links from a seed, when it was discovered.
    pub depth: u16,
    /// Attempts in a row that failed before this one.
    pub failed_attempts: u8,
    /// Whether it was fetched before: then ask with the validators that the page store has of it.
    pub is_refresh: bool,
}

/// A page that was fetched, or found unchanged, or found to lead elsewhere (a redirect is a page
/// with one link).
///
/// ```
/// use frontier::Fetched;
///
/// let links = ["http://example.com/a"];
/// let fetched = Fetched { fetched_at_ms: 1_700_000_000_000, links: &links, ..Fetched::default() };
/// assert_eq!(fetched.changed, None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetched<'a> {
    /// When.
    pub fetched_at_ms: i64,
    /// The canonical URLs of its links that are in scope. Repeated ones count once, one to itself
    /// not at all.
    pub links: &'a [&'a str],
    /// Whether it is another than when it was fetched before; `None` if that is not known. It sets
    /// the age of the next recrawl.
    pub changed: Option<bool>,
    /// Whether its body was seen under another URL: its links are not followed then, and `links`
    /// is taken as empty.
    pub is_duplicate: bool,
}

/// What [`crate::Frontier::done`] did with the links.
///
/// ```
/// use frontier::{Frontier, FrontierOptions, Next, Fetched};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
/// let links = ["http://example.com/", "http://example.com/a", "http://example.com/a"];
/// let done = frontier.done(assignment.page, &Fetched { links: &links, ..Fetched::default() }).unwrap();
/// assert_eq!((done.new_links, done.known_links), (1, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Pages that were not known and are now. Their numbers follow each other, beginning with
    /// [`Done::first_new`].
    pub new_links: u32,
    /// The first of the new pages; the next page's number if there are none.
    pub first_new: u32,
    /// Links to pages known before.
    pub known_links: u32,
    /// New links that were not entered: too deep.
    pub over_depth: u32,
    /// New links that were not entered: their host has its number of pages.
    pub over_host_budget: u32,
    /// New links that were not entered: too long a URL, or an empty one.
    pub over_length: u32,
}

/// Why a fetch failed, as far as the frontier and those who ask it care.
///
/// ```
/// use frontier::FailureKind;
///
/// assert_eq!(FailureKind::ServerStatus.name(), "server status");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// Its host's name has no address.
    Dns,
    /// No connection.
    Connect,
    /// No TLS.
    Tls,
    /// It took too long.
    Timeout,
    /// The connection broke, or what came was no HTTP.
    Protocol,
    /// robots.txt forbids it.
    Robots,
    /// It is not to be fetched: a private address, a scheme, a scope.
    Refused,
    /// A limit was met: of size, headers, redirects, expansion.
    Limit,
    /// A status of 400 to 499.
    ClientStatus,
    /// A status of 500 to 599.
    ServerStatus,
    /// The host asked for patience (429, 503).
    Busy,
    /// Anything else.
    Other,
}

impl FailureKind {
    /// All of them, in the order of their codes on disk, which begin with 1.
    pub const ALL: [FailureKind; 12] = [
        FailureKind::Dns,
        FailureKind::Connect,
        FailureKind::Tls,
        FailureKind::Timeout,
        FailureKind::Protocol,
        FailureKind::Robots,
        FailureKind::Refused,
        FailureKind::Limit,
        FailureKind::ClientStatus,
        FailureKind::ServerStatus,
        FailureKind::Busy,
        FailureKind::Other,
    ];

    /// Its name in messages and logs: lower case.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Dns => "dns",
            FailureKind::Connect => "connect",
            FailureKind::Tls => "tls",
            FailureKind::Timeout => "timeout",
            FailureKind::Protocol => "protocol",
            FailureKind::Robots => "robots",
            FailureKind::Refused => "refused",
            FailureKind::Limit => "limit",
            FailureKind::ClientStatus => "client status",
            FailureKind::ServerStatus => "server status",
            FailureKind::Busy => "busy",
            FailureKind::Other => "other",
        }
    }

    /// 1 to 15; 0 is for none.
    pub(crate) fn code(self) -> u8 {
        FailureKind::ALL.iter().position(|kind| *kind == self).map_or(0, |at| at as u8 + 1)
    }

    pub(crate) fn of_code(code: u8) -> Option<FailureKind> {
        FailureKind::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// A fetch that failed.
///
/// ```
/// use frontier::{Frontier, FrontierOptions, Next, Failure, FailureKind};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
/// let failure = Failure { kind: FailureKind::Busy, retry_after_ms: Some(120_000), is_permanent: false };
/// frontier.failed(assignment.page, &failure, 0).unwrap();
/// assert!(matches!(frontier.next(0).unwrap(), Next::Wait { until_ms } if until_ms >= 120_000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Why.
    pub kind: FailureKind,
    /// Not before so long: `Retry-After`. The longer of it and the backoff counts.
    pub retry_after_ms: Option<u64>,
    /// Whether it is of no use to try again: the page is given up at once, or, if it was fetched
    /// before and pages are fetched again, waits for its next recrawl.
    pub is_permanent: bool,
}
