//! Assignments, outcomes and failures: what a crawler gets and reports.
//!
//! Plain data. URLs are canonical UTF-8 text, compared byte by byte; the frontier canonicalises
//! nothing. Times are milliseconds since 1970.

/// A known page, by its place in the order of discovery from 0. Numbers are dense and never
/// change.
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
    /// No page may be fetched before a time, unless an outcome or a seed comes sooner.
    Wait {
        /// When to ask again.
        until_ms: i64,
    },
    /// What comes next depends on pages in flight.
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
    /// Its canonical URL, by which it is known ([`crate::link`]).
    pub key: String,
    /// Links from a seed at its discovery.
    pub depth: u16,
    /// The delay that its host was given by [`crate::Frontier::host_delay`], if any.
    pub host_delay_ms: Option<u64>,
    /// Failed attempts in a row before this one.
    pub failed_attempts: u8,
    /// Whether it was fetched before: then send the validators that the page store has.
    pub is_refresh: bool,
    /// Whether it is a start page.
    pub is_seed: bool,
}

/// Pages that were asked for under an id ([`crate::Frontier::claim`]), in the order of their
/// numbers, with their canonical URLs. Some may be settled: they belong to what was asked all the
/// same.
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

/// A page that was fetched, unchanged or not, or that redirects (a page with one link).
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
    /// Canonical URLs of its links in scope, or texts of [`crate::link`]. Repeated ones count
    /// once, links to itself not at all.
    pub links: &'a [&'a str],
    /// Whether it has changed since its last fetch, if known. Sets the age of the next recrawl.
    pub changed: Option<bool>,
    /// Whether its body was seen under another URL: `links` is ignored then.
    pub is_duplicate: bool,
    /// Whether it says next to nothing of its own: a near-duplicate, an error page with status
    /// 200. Its links are entered, and get neither credit nor a voucher from it.
    pub is_barren: bool,
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
    /// New pages, numbered from [`Done::first_new`] on.
    pub new_links: u32,
    /// The first new page, or the next page to be if there are none.
    pub first_new: u32,
    /// Links to pages known before.
    pub known_links: u32,
    /// New links refused: too deep.
    pub over_depth: u32,
    /// New links refused: their host has its maximum of pages.
    pub over_host_budget: u32,
    /// New links refused: URL empty or too long.
    pub over_length: u32,
}

filemap_io::named_enum! {
    /// Why a fetch failed. Declared in the order of the codes on disk, which begin with 1.
    ///
    /// ```
    /// use frontier::FailureKind;
    ///
    /// assert_eq!(FailureKind::ServerStatus.name(), "server status");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum FailureKind {
        /// The host's name has no address.
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
        /// The host asked for patience (429, 503).
        Busy => "busy",
        /// Anything else.
        Other => "other",
        /// Another crawl has claimed it ([`crate::Frontier::claim`]).
        Elsewhere => "elsewhere",
        /// Its host has not answered for as long as [`crate::FrontierOptions::host_down_ms`]
        /// allows.
        HostDown => "host down",
        /// Its host's robots.txt cannot be had: nobody knows what it forbids.
        RobotsUnreachable => "robots unreachable",
    }
}

impl FailureKind {
    /// 1 to 15; 0 stands for none.
    pub(crate) fn code(self) -> u8 {
        FailureKind::ALL.iter().position(|kind| *kind == self).map_or(0, |at| at as u8 + 1)
    }

    /// Whether the host has answered, so that it is not down.
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
    /// Shortest wait (`Retry-After`), up to the longest rest of the options. The longer of it and
    /// the backoff counts.
    pub retry_after_ms: Option<u64>,
    /// What is to be done about it.
    pub remedy: Remedy,
}

/// What is to be done about a failure.
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
    /// Another attempt at the page, up to [`crate::FrontierOptions::attempts_max`]. When a host
    /// has [`crate::FrontierOptions::host_failures_max`] of these in a row, the next is the
    /// host's.
    Retry,
    /// As `Retry`, of a host that has answered, with half a page: it is not to blame.
    RetryPage,
    /// The host is at fault: it rests, longer each time, and its pages stay queued, this one
    /// without a count of attempts.
    HostRests,
    /// An attempt is useless: the page is given up at once or, if it was fetched before, waits for
    /// its next recrawl, if there is one.
    GiveUp,
}

/// How a host fails.
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
    /// When it first did, since it last answered.
    pub since_ms: i64,
    /// How often it was given a rest.
    pub rests: u8,
    /// The end of its rest.
    pub until_ms: i64,
}

/// What others say of a page's changes.
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
    /// When it changed last. A time to come is no hint.
    pub changed_ms: Option<i64>,
    /// How often it changes.
    pub every_ms: Option<u64>,
}
