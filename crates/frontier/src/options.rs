//! Options: credit, budget split, politeness, budgets, retries, recrawls.
//!
//! What decides how credit flows (tax, rent, window, virtual visits) is written down when a
//! frontier is made, since its journal is replayed by the same rules; `open` takes it from there.
//! All else may be another each time a frontier is opened.

use crate::error::{Error, Result};

/// Among whom the virtual page shares its credit when it is visited.
///
/// ```
/// use frontier::{FrontierOptions, Rent};
///
/// // As the textbook has it: traps collect rent for every link that they invent.
/// let options = FrontierOptions::new().rent(Rent::Known);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rent {
    /// Pages that two pages of good standing lead to, fetched or not, and seeds. Of good standing
    /// is what gets rent itself, or what such a page leads to: a trap that hangs on one page gets
    /// none, however densely its pages lead to each other.
    #[default]
    Endorsed,
    /// Pages that were fetched, and seeds. A trap's pages that nobody fetched get nothing.
    Crawled,
    /// All pages that are known, as the textbook has it: a trap collects rent for every link that
    /// it invents.
    Known,
}

impl Rent {
    /// By their codes on disk.
    pub(crate) const CODES: [Rent; 3] = [Rent::Crawled, Rent::Known, Rent::Endorsed];
}

/// Builder methods, each of which sets the field of its name.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $field(self, $field: $type) -> Self {
            Self { $field, ..self }
        }
    )*};
}

/// When a page that was fetched is fetched again.
///
/// ```
/// use frontier::{FrontierOptions, Recrawl};
///
/// let weekly = Recrawl::new().max_ms(7 * 24 * 3_600_000);
/// let options = FrontierOptions::new().recrawl(Some(weekly));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recrawl {
    pub(crate) first_ms: u64,
    pub(crate) min_ms: u64,
    pub(crate) max_ms: u64,
}

impl Recrawl {
    /// First after a day, then between an hour and thirty days.
    pub fn new() -> Recrawl {
        Recrawl { first_ms: 24 * 3_600_000, min_ms: 3_600_000, max_ms: 30 * 24 * 3_600_000 }
    }

    setters! {
        /// Age at which a page is fetched for the second time.
        first_ms: u64;

        /// Least age of a refresh, however often the page changes; 0: due again at once.
        min_ms: u64;

        /// Greatest age of a refresh, however seldom the page changes.
        max_ms: u64;
    }
}

impl Default for Recrawl {
    fn default() -> Recrawl {
        Recrawl::new()
    }
}

/// The most virtual visits a fetch.
pub(crate) const VIRTUAL_VISITS_MAX: u8 = 64;

/// What a [`crate::Frontier`] is to be like.
///
/// ```
/// use frontier::FrontierOptions;
///
/// let options = FrontierOptions::new().delay_ms(2_000).connections(2).depth_max(10).pages_per_host_max(100_000);
/// ```
#[derive(Clone, Debug)]
pub struct FrontierOptions {
    pub(crate) tax: f64,
    pub(crate) rent: Rent,
    pub(crate) window: f64,
    pub(crate) virtual_visits: u8,
    pub(crate) refresh_share: f64,
    pub(crate) delay_ms: u64,
    pub(crate) connections: u16,
    pub(crate) depth_max: u16,
    pub(crate) pages_per_host_max: u32,
    pub(crate) attempts_max: u8,
    pub(crate) backoff_ms: u64,
    pub(crate) backoff_max_ms: u64,
    pub(crate) recrawl: Option<Recrawl>,
    pub(crate) journal_bytes_min: u64,
}

impl Default for FrontierOptions {
    fn default() -> FrontierOptions {
        FrontierOptions::new()
    }
}

impl FrontierOptions {
    /// Tax 10%, rent among endorsed pages and seeds, a window of 32; eight virtual visits a fetch;
    /// a fifth of the fetches for refreshes; one connection and one request a second to a host; no
    /// budgets; five attempts, a minute and then twice as long between them, up to a day; no
    /// recrawl.
    pub fn new() -> FrontierOptions {
        FrontierOptions {
            tax: 0.10,
            rent: Rent::Endorsed,
            window: 32.0,
            virtual_visits: 8,
            refresh_share: 0.2,
            delay_ms: 1_000,
            connections: 1,
            depth_max: u16::MAX,
            pages_per_host_max: u32::MAX,
            attempts_max: 5,
            backoff_ms: 60_000,
            backoff_max_ms: 24 * 3_600_000,
            recrawl: None,
            journal_bytes_min: 64 << 20,
        }
    }

    setters! {
        /// The part of a visited page's credit that goes to the virtual page: 0.01 to 0.99. Decided
        /// when the frontier is made.
        tax: f64;

        /// Who gets the virtual page's credit. Decided when the frontier is made.
        rent: Rent;

        /// The time window of the importance estimate, in times that all credit is handed on (at least
        /// 0.1, and infinity for all time): what was seen so long ago counts for a half. Decided when
        /// the frontier is made.
        window: f64;

        /// How many pages that were fetched before are visited without a fetch, at the most, when one
        /// is fetched: their credit goes to the links that they had, as a refresh would have it. 0 to
        /// 64; 0 keeps no links (which take some 2 bytes each on disk), and leaves most credit where
        /// it is of no use in a crawl that fetches each page once. Decided when the frontier is made.
        virtual_visits: u8;

        /// The part of all fetches that goes to pages fetched before, while some are due and new ones
        /// wait: 0 to 1.
        refresh_share: f64;

        /// Between the begins of two fetches from one host, unless [`crate::Frontier::host_delay`]
        /// says another.
        delay_ms: u64;

        /// Fetches from one host that may be in flight at once; at least 1.
        connections: u16;

        /// Links from seeds to a page, at most: deeper pages are not entered. Seeds have depth 0.
        depth_max: u16;

        /// Pages of one host that are entered, at most; seeds always are.
        pages_per_host_max: u32;

        /// Attempts in a row, 1 to 15, after which a page that fails is given up (one that was fetched
        /// before waits until its next recrawl instead).
        attempts_max: u8;
    }

    /// The wait after the first failure, doubled with each further one up to `max_ms`.
    #[must_use]
    pub fn backoff_ms(self, backoff_ms: u64, max_ms: u64) -> FrontierOptions {
        FrontierOptions { backoff_ms, backoff_max_ms: max_ms, ..self }
    }

    setters! {
        /// When pages are fetched again: `None` for never.
        recrawl: Option<Recrawl>;

        /// The journal is replaced by a snapshot when it is longer than this and than the last
        /// snapshot: at least 4 KiB.
        journal_bytes_min: u64;
    }

    /// Refuses values that make no sense.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub(crate) fn check(&self) -> Result<()> {
        let within = |name, value: f64, from: f64, to: f64| match (from..=to).contains(&value) {
            true => Ok(()),
            false => Err(Error::option(name, format!("{value} is not within {from} to {to}"))),
        };
        within("tax", self.tax, 0.01, 0.99)?;
        within("window", self.window, 0.1, f64::INFINITY)?;
        within("virtual_visits", f64::from(self.virtual_visits), 0.0, f64::from(VIRTUAL_VISITS_MAX))?;
        within("refresh_share", self.refresh_share, 0.0, 1.0)?;
        within("connections", f64::from(self.connections), 1.0, f64::from(u16::MAX))?;
        within("attempts_max", f64::from(self.attempts_max), 1.0, 15.0)?;
        within("journal_bytes_min", self.journal_bytes_min as f64, 4096.0, 1e15)?;
        match self.recrawl {
            Some(Recrawl { first_ms, min_ms, max_ms }) if min_ms > max_ms || first_ms > max_ms => {
                Err(Error::option("recrawl", "the greatest age is below another of its ages"))
            }
            _ => Ok(()),
        }
    }
}
