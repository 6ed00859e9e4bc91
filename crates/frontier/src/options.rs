//! Options: credit, refreshes, politeness, budgets, retries, recrawls.
//!
//! Options that decide the flow of credit (tax, rent, window, virtual visits) are stored at
//! creation, since a replay needs the same rules; `open` reads them from there. All others may
//! differ at each opening.

use crate::error::{Error, Result};

/// The pages that share the virtual page's credit when it is visited.
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
    /// Seeds, and pages, fetched or not, to which two pages of good standing link. A page is of
    /// good standing if it gets rent itself or such a page links to it. So a trap behind a single
    /// page gets none, however densely linked.
    #[default]
    Endorsed,
    /// Seeds and fetched pages: unfetched pages of a trap get nothing.
    Crawled,
    /// All known pages, as in the textbook: a trap collects rent for every link that it invents.
    Known,
}

impl Rent {
    /// By code on disk.
    pub(crate) const CODES: [Rent; 3] = [Rent::Crawled, Rent::Known, Rent::Endorsed];
}

filemap_io::options! {
    /// Schedule of refetches: by default first after a day, then at intervals from an hour to
    /// thirty days.
    ///
    /// ```
    /// use frontier::{FrontierOptions, Recrawl};
    ///
    /// let weekly = Recrawl::new().max_ms(7 * 24 * 3_600_000);
    /// let options = FrontierOptions::new().recrawl(Some(weekly));
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Recrawl {
        /// Age of a page at its first refresh.
        pub(crate) first_ms: u64 = 24 * 3_600_000,

        /// Minimum age at a refresh, however often the page changes; 0: due again at once.
        pub(crate) min_ms: u64 = 3_600_000,

        /// Maximum age at a refresh, however rarely the page changes.
        pub(crate) max_ms: u64 = 30 * 24 * 3_600_000,
    }
}

/// Maximum virtual visits per fetch.
pub(crate) const VIRTUAL_VISITS_MAX: u8 = 64;

filemap_io::options! {
    /// Options for creating or opening a [`crate::Frontier`]. By default: tax 10%, rent for
    /// endorsed pages, window 32, eight virtual visits a fetch; a fifth of the fetches for
    /// refreshes; one connection and one request a second to a host; no budgets; thirteen attempts
    /// with waits from a minute, doubled up to a day; rests of a failing host from two seconds,
    /// doubled up to a day, and its pages given up after a week; no recrawl.
    ///
    /// ```
    /// use frontier::FrontierOptions;
    ///
    /// let options = FrontierOptions::new().delay_ms(2_000).connections(2).depth_max(10).pages_per_host_max(100_000);
    /// ```
    #[derive(Clone, Debug)]
    pub struct FrontierOptions {
        /// Fraction of a visited page's credit that goes to the virtual page: 0.01 to 0.99. Fixed
        /// at creation.
        pub(crate) tax: f64 = 0.10,

        /// The pages that get the virtual page's credit. Fixed at creation.
        pub(crate) rent: Rent = Rent::Endorsed,

        /// Half-life of history, in units of total credit circulated: at least 0.1, infinity for
        /// all time. Fixed at creation.
        pub(crate) window: f64 = 32.0,

        /// About the number of virtual visits per fetch: a fetched page is visited again without a
        /// fetch, and its credit goes to the links that it had, as at a refresh. For a while it
        /// can be up to eight times as many, where many pages got credit at once. 0 to 64; 0 keeps
        /// no links (some 2 bytes each on disk), and leaves most credit useless in a crawl that
        /// fetches each page once. Fixed at creation.
        pub(crate) virtual_visits: u8 = 8,

        /// Fraction of fetches that are refreshes while refreshes are due and new pages wait: 0 to
        /// 1.
        pub(crate) refresh_share: f64 = 0.2,

        /// Delay between the starts of two fetches from one host, unless
        /// [`crate::Frontier::host_delay`] sets another.
        pub(crate) delay_ms: u64 = 1_000,

        /// Fetches from one host in flight at once; at least 1.
        pub(crate) connections: u16 = 1,

        /// Maximum depth, in links from a seed; deeper pages are not entered. Seeds have 0.
        pub(crate) depth_max: u16 = u16::MAX,

        /// Maximum pages of one host; seeds are always entered.
        pub(crate) pages_per_host_max: u32 = u32::MAX,

        /// Failed attempts in a row, 1 to 15, after which a page is given up (one that was fetched
        /// before waits until its next recrawl instead).
        pub(crate) attempts_max: u8 = 13,

        /// Consecutive failures of a host that are blamed on its pages; the next one is the host's
        /// ([`crate::Remedy`]). At least 1.
        pub(crate) host_failures_max: u16 = 10,

        /// Outage of a host after which its queued pages are given up, as `HostDown`.
        pub(crate) host_down_ms: u64 = 7 * 24 * 3_600_000,

        /// Schedule of refetches; `None`: never.
        pub(crate) recrawl: Option<Recrawl> = None,

        /// Memory for pages. An eighth holds the index of the most recent pages; the others are in
        /// runs on disk. A quarter holds the queues of hosts, 8 bytes a page; beyond it the last
        /// pages are left out, and found again in a pass over all rows. A sixteenth holds timers
        /// of waiting pages, likewise. The rest holds rows of 24 bytes; the others are in a file.
        /// Hosts take further memory. At least 4 KiB.
        pub(crate) memory_bytes: u64 = 256 << 20,

        /// The journal is replaced by a snapshot when it exceeds both this and a sixteenth of the
        /// last snapshot: at least 4 KiB. An opening after a crash replays the journal.
        pub(crate) journal_bytes_min: u64 = 16 << 20,
    } by hand {
        pub(crate) backoff_ms: u64 = 60_000,
        pub(crate) backoff_max_ms: u64 = 24 * 3_600_000,
        pub(crate) rest_ms: u64 = 2_000,
        pub(crate) rest_max_ms: u64 = 24 * 3_600_000,
    }
}

impl FrontierOptions {
    /// Wait after the first failure, doubled with each further one up to `max_ms`.
    #[must_use]
    pub fn backoff_ms(self, backoff_ms: u64, max_ms: u64) -> FrontierOptions {
        FrontierOptions { backoff_ms, backoff_max_ms: max_ms, ..self }
    }

    /// The first rest of a failing host, doubled with each further one up to `max_ms`.
    #[must_use]
    pub fn host_rest_ms(self, rest_ms: u64, max_ms: u64) -> FrontierOptions {
        FrontierOptions { rest_ms, rest_max_ms: max_ms, ..self }
    }

    /// Memory for rows of pages.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.memory_bytes / 16 * 9
    }

    /// Maximum timers of waiting pages in memory.
    pub(crate) fn timers(&self) -> usize {
        usize::try_from(self.memory_bytes / 16 / 8).unwrap_or(usize::MAX)
    }

    /// Maximum entries in the queues of hosts.
    pub(crate) fn queue_entries(&self) -> usize {
        usize::try_from(self.memory_bytes / 4 / 8).unwrap_or(usize::MAX)
    }

    /// Memory for the index of the most recent pages.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.memory_bytes / 8
    }

    /// Checks the ranges of all options.
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
        within("host_failures_max", f64::from(self.host_failures_max), 1.0, f64::from(u16::MAX))?;
        within("journal_bytes_min", self.journal_bytes_min as f64, 4096.0, 1e15)?;
        within("memory_bytes", self.memory_bytes as f64, 4096.0, 1e15)?;
        match self.recrawl {
            Some(Recrawl { first_ms, min_ms, max_ms }) if min_ms > max_ms || first_ms > max_ms => {
                Err(Error::option("recrawl", "`max_ms` is below `first_ms` or `min_ms`"))
            }
            _ => Ok(()),
        }
    }
}
