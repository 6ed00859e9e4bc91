//! Assignments, outcomes and failures: what a crawler receives and reports.
//!
//! Plain data. URLs are canonical UTF-8 text, compared byte by byte; the frontier does not
//! canonicalise. Times are milliseconds since 1970.

/// A known page, identified by its position in the order of discovery, from 0. Numbers are dense
/// and never change.
///
/// ```
/// use frontier::PageId;
///
/// assert_eq!(PageId::new(7).number(), 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(u32);

impl PageId {
    /// The page with a number.
    pub fn new(number: u32) -> PageId {
        PageId(number)
    }

    /// The page's number.
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
    /// Fetch this page and report the outcome.
    Fetch(Assignment),
    /// No page may be fetched before this time, unless an outcome or a seed comes sooner.
    Wait {
        /// The time to ask again.
        until_ms: i64,
    },
    /// The next page depends on the outcome of pages in flight.
    InFlight,
    /// Nothing is queued or in flight: the crawl is done.
    Empty,
}

/// A page to fetch.
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
    /// The URL to fetch, as discovered.
    pub url: String,
    /// Its canonical URL, which identifies it ([`crate::link`]).
    pub key: String,
    /// Links from a seed at its discovery.
    pub depth: u16,
    /// Its host's own delay, set by [`crate::Frontier::host_delay`], if any.
    pub host_delay_ms: Option<u64>,
    /// Consecutive failed attempts before this one.
    pub failed_attempts: u8,
    /// True if it was fetched before: then send the validators stored with the page.
    pub is_refresh: bool,
    /// True for a start page.
    pub is_seed: bool,
}

/// Pages requested under an id ([`crate::Frontier::claim`]), in the order of their numbers, with
/// their canonical URLs. Settled pages stay in the list: they belong to the request.
///
/// ```
/// use frontier::{Claim, Frontier, FrontierOptions, Next};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
/// frontier.claim(7, &[assignment.page]).unwrap();
/// let pages = vec![(assignment.page, "http://example.com/".to_owned())];
/// assert_eq!(frontier.claims().unwrap(), [Claim { id: 7, pages }]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id.
    pub id: u128,
    /// Its pages.
    pub pages: Vec<(PageId, String)>,
}

/// A fetched page, changed or not, or a redirect (a page with one link).
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
    /// Time of the fetch.
    pub fetched_at_ms: i64,
    /// Canonical URLs of its links in scope, or texts of [`crate::link`]. Duplicates count once;
    /// links to the page itself are ignored.
    pub links: &'a [&'a str],
    /// True if it changed since its last fetch, if known. Adapts the recrawl interval.
    pub changed: Option<bool>,
    /// True if its body was seen under another URL: `links` is ignored then.
    pub is_duplicate: bool,
    /// True if it has hardly any own content: a near-duplicate, an error page with status 200. Its
    /// links are entered, but get neither credit nor a voucher from it.
    pub is_barren: bool,
}

/// Counts of the links that [`crate::Frontier::done`] entered and refused.
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
    /// New pages, numbered from [`Done::first_new`] on.
    pub new_links: u32,
    /// The first new page, or the number that the next new page will get if there are none.
    pub first_new: u32,
    /// Links to pages known before.
    pub known_links: u32,
    /// New links refused: too deep.
    pub over_depth: u32,
    /// New links refused: their host has reached its maximum of pages.
    pub over_host_budget: u32,
    /// New links refused: URL empty or too long.
    pub over_length: u32,
}

filemap_io::named_enum! {
    /// The reason of a failed fetch. Declared in the order of the codes on disk, from 1.
    ///
    /// ```
    /// use frontier::FailureKind;
    ///
    /// assert_eq!(FailureKind::ServerStatus.name(), "server status");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum FailureKind {
        /// The host's name did not resolve to an address.
        Dns => "dns",
        /// Connection failed.
        Connect => "connect",
        /// TLS failed.
        Tls => "tls",
        /// Timed out.
        Timeout => "timeout",
        /// The connection broke, or the answer was not HTTP.
        Protocol => "protocol",
        /// Forbidden by robots.txt.
        Robots => "robots",
        /// Must not be fetched: private address, scheme, scope.
        Refused => "refused",
        /// Over a limit: size, headers, redirects, expansion.
        Limit => "limit",
        /// Status 400 to 499.
        ClientStatus => "client status",
        /// Status 500 to 599.
        ServerStatus => "server status",
        /// The host asks to slow down (429, 503).
        Busy => "busy",
        /// Anything else.
        Other => "other",
        /// Another crawl has claimed it ([`crate::Frontier::claim`]).
        Elsewhere => "elsewhere",
        /// Its host has not answered for [`crate::FrontierOptions::host_down_ms`].
        HostDown => "host down",
        /// Its host's robots.txt could not be fetched, so its rules are unknown.
        RobotsUnreachable => "robots unreachable",
    }
}

impl FailureKind {
    /// The code on disk, 1 to 15; 0 stands for no failure.
    pub(crate) fn code(self) -> u8 {
        FailureKind::ALL.iter().position(|kind| *kind == self).map_or(0, |at| at as u8 + 1)
    }

    /// Returns whether the failure shows that the host has answered, so it is not down.
    pub(crate) fn is_an_answer(self) -> bool {
        matches!(self, FailureKind::ClientStatus | FailureKind::Limit | FailureKind::Other)
    }

    pub(crate) fn of_code(code: u8) -> Option<FailureKind> {
        FailureKind::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// A failed fetch.
///
/// ```
/// use frontier::{Failure, FailureKind, Frontier, FrontierOptions, Next, Remedy};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
/// let failure = Failure { kind: FailureKind::Busy, retry_after_ms: Some(120_000), remedy: Remedy::Retry };
/// frontier.failed(assignment.page, &failure, 0).unwrap();
/// assert!(matches!(frontier.next(0).unwrap(), Next::Wait { until_ms } if until_ms >= 120_000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The reason.
    pub kind: FailureKind,
    /// Shortest wait (`Retry-After`), limited by the longest rest of the options. The longer of it
    /// and the backoff applies.
    pub retry_after_ms: Option<u64>,
    /// The next step.
    pub remedy: Remedy,
}

/// The next step after a failure.
///
/// ```
/// use frontier::{Failure, FailureKind, Frontier, FrontierOptions, Next, PageStatus, Remedy};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
/// let (kind, remedy) = (FailureKind::ClientStatus, Remedy::GiveUp);
/// frontier.failed(assignment.page, &Failure { kind, retry_after_ms: None, remedy }, 0).unwrap();
/// let page = frontier.page("http://example.com/").unwrap().expect("it is known");
/// assert_eq!(page.status, PageStatus::Gone);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Retry the page, up to [`crate::FrontierOptions::attempts_max`]. After
    /// [`crate::FrontierOptions::host_failures_max`] of these in a row on one host, the next is
    /// blamed on the host.
    Retry,
    /// As `Retry`, but the host has answered, e.g. with half a page, and is not to blame.
    RetryPage,
    /// The host is at fault: it rests, longer each time. Its pages stay queued, and this page's
    /// attempts do not count.
    HostRests,
    /// Retrying is useless: the page is given up at once or, if it was fetched before, waits for
    /// its next recrawl, if there is one.
    GiveUp,
}

/// The outage of a host.
///
/// ```
/// use frontier::{Failing, Failure, FailureKind, Frontier, FrontierOptions, Next, Remedy};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let mut frontier = Frontier::create(&path, FrontierOptions::new()).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let Next::Fetch(assignment) = frontier.next(0).unwrap() else { panic!("the seed waits") };
/// let (kind, remedy) = (FailureKind::Timeout, Remedy::HostRests);
/// frontier.failed(assignment.page, &Failure { kind, retry_after_ms: None, remedy }, 0).unwrap();
/// let page = frontier.page("http://example.com/").unwrap().expect("it is known");
/// assert_eq!(page.host_failing, Some(Failing { since_ms: 0, rests: 1, until_ms: 2_000 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Its first failure since it last answered.
    pub since_ms: i64,
    /// Number of its rests so far.
    pub rests: u8,
    /// End of the current rest.
    pub until_ms: i64,
}

/// A hint from elsewhere, such as a sitemap, about a page's changes.
///
/// ```
/// use frontier::{Frontier, FrontierOptions, Hint, Recrawl};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("frontier");
/// let options = FrontierOptions::new().recrawl(Some(Recrawl::new()));
/// let mut frontier = Frontier::create(&path, options).unwrap();
/// frontier.seed(&["http://example.com/"], 0).unwrap();
/// let hourly = Hint { key: "http://example.com/", changed_ms: None, every_ms: Some(3_600_000) };
/// let of_unknown = Hint { key: "http://example.org/", ..hourly };
/// assert_eq!(frontier.hint(&[hourly, of_unknown], 0).unwrap(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint<'a> {
    /// The page's canonical URL.
    pub key: &'a str,
    /// Time of its last change. A future time is ignored.
    pub changed_ms: Option<i64>,
    /// Interval between its changes.
    pub every_ms: Option<u64>,
}
