//! Why a page was not fetched, or not all of it, by name.
//!
//! Every refusal and every limit has one name, used in the progress, the summary, the log and
//! `why`; this is the list. For the frontier each has a kind, and is permanent or worth another
//! attempt.

use std::fmt;

use frontier::FailureKind;

/// Declares the reasons, each with its name and the frontier's coarser kind.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident $name:literal $kind:ident,)*) => {
        /// A reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $reason,)*
        }

        impl Reason {
            /// The name: lower case, words joined by hyphens.
            pub fn name(self) -> &'static str {
                match self {
                    $(Reason::$reason => $name,)*
                }
            }

            /// The frontier's coarser kind.
            pub fn kind(self) -> FailureKind {
                match self {
                    $(Reason::$reason => FailureKind::$kind,)*
                }
            }
        }
    };
}

reasons! {
    /// The host's name has no address.
    Dns "dns" Dns,
    /// No connection.
    Connect "connect" Connect,
    /// No TLS.
    Tls "tls" Tls,
    /// No connection in time.
    ConnectTimeout "connect-timeout" Timeout,
    /// No answer in time.
    FirstByteTimeout "first-byte-timeout" Timeout,
    /// The answer took too long as a whole.
    TotalTimeout "total-timeout" Timeout,
    /// The answer came more slowly than the lowest rate.
    TooSlow "too-slow" Timeout,
    /// The answer was not HTTP, or the connection broke.
    Protocol "protocol" Protocol,
    /// The body is shorter than announced.
    Incomplete "incomplete" Protocol,
    /// The content coding is damaged.
    Coding "coding" Protocol,
    /// The body goes on after its content coding ends; it is kept as received.
    KeptAsReceived "kept-as-received" Protocol,
    /// The head of the answer is too long.
    HeaderLimit "header-limit" Limit,
    /// The body is too long; its beginning is kept.
    BodyLimit "body-limit" Limit,
    /// The body expands too much.
    RatioLimit "ratio-limit" Limit,
    /// Too many redirects in a row.
    RedirectLimit "redirect-limit" Limit,
    /// Links beyond the depth limit.
    DepthLimit "depth-limit" Limit,
    /// Links to a host that has reached its number of pages.
    HostPagesLimit "host-pages-limit" Limit,
    /// A page with too many links.
    LinkLimit "link-limit" Limit,
    /// A sitemap or a feed that is damaged: what comes before is taken.
    SitemapBroken "sitemap-broken" Protocol,
    /// More sitemaps than are known as such: the others are pages like any.
    SitemapLimit "sitemap-limit" Limit,
    /// Links that are too long.
    UrlLimit "url-limit" Limit,
    /// `Retry-After` over the longest wait, which is used instead.
    RetryAfterLimit "retry-after-limit" Limit,
    /// The host's addresses are private, loopback or otherwise not public.
    PrivateAddress "private-address" Refused,
    /// A URL that cannot be requested.
    BadUrl "bad-url" Refused,
    /// Not in the crawl's scope.
    Scope "scope" Refused,
    /// robots.txt forbids it.
    Robots "robots" Robots,
    /// robots.txt is unreachable: stay away.
    RobotsUnreachable "robots-unreachable" Robots,
    /// A status of 400 to 499.
    ClientStatus "client-status" ClientStatus,
    /// A status of 500 to 599.
    ServerStatus "server-status" ServerStatus,
    /// The host asks to come back later (429, 503).
    Busy "busy" Busy,
    /// The host failed too often in a row.
    HostFailures "host-failure-limit" Limit,
    /// Another crawl has claimed it at the seen set that they share.
    Elsewhere "elsewhere" Elsewhere,
    /// The page cannot be stored.
    Unstorable "unstorable" Other,
}

impl Reason {
    /// Whether it counts as a failure of the host rather than of the page.
    pub fn blames_host(self) -> bool {
        use FailureKind::{Busy, Connect, Dns, Protocol, ServerStatus, Timeout, Tls};
        matches!(self.kind(), Busy | Connect | Dns | Protocol | ServerStatus | Timeout | Tls)
            || self == Reason::RobotsUnreachable
    }

    /// Whether another attempt is useless.
    pub fn is_permanent(self) -> bool {
        matches!(
            self.kind(),
            FailureKind::Refused
                | FailureKind::Limit
                | FailureKind::ClientStatus
                | FailureKind::Other
                | FailureKind::Elsewhere
        ) || self == Reason::Robots
    }
}

/// The name of a kind of failure. The only `other` failures of a crawl are pages that cannot be
/// stored.
pub fn kind_name(kind: FailureKind) -> &'static str {
    if kind == Reason::Unstorable.kind() { Reason::Unstorable.name() } else { kind.name() }
}

/// Why a page failed, by the frontier's kind and the note beside the page. Pages forbidden by
/// robots.txt, or refused by the store with their notes, have no note; an existing one is then of
/// an earlier failure.
pub fn why(kind: Option<FailureKind>, note: Option<String>) -> Option<String> {
    let refused = Reason::Unstorable;
    if kind == Some(refused.kind()) {
        let words = || format!("{}: the store refuses it, as rules of erasures do", refused.name());
        return Some(note.filter(|note| note.starts_with(refused.name())).unwrap_or_else(words));
    }
    match kind {
        Some(FailureKind::Elsewhere) => Some("another crawl has claimed it at the seen set".to_owned()),
        Some(FailureKind::Robots) => note.or_else(|| Some("robots.txt forbids it".to_owned())),
        _ => note,
    }
}

/// A reason with details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub reason: Reason,
    /// Details, or nothing.
    pub detail: String,
    /// The wait that the host asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A failure with words.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Failure {
        Failure { reason, detail: detail.into(), retry_after_ms: None }
    }
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Failure {
        Failure::new(reason, "")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason.name())?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl std::error::Error for Failure {}

/// An error of the frontier's files as the command line's failure.
pub fn of_frontier(error: frontier::Error) -> fm_cli::Failure {
    let words = error.to_string();
    match error {
        frontier::Error::Storage(error) => fm_cli::Failure::of_storage(&error, words),
        _ => fm_cli::Failure::Io(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_refusals_are_not_tried_again_and_accidents_are() {
        for reason in [Reason::RatioLimit, Reason::PrivateAddress, Reason::Robots, Reason::ClientStatus] {
            assert!(reason.is_permanent(), "{}", reason.name());
        }
        for reason in [Reason::Dns, Reason::TotalTimeout, Reason::Busy, Reason::RobotsUnreachable, Reason::Incomplete] {
            assert!(!reason.is_permanent(), "{}", reason.name());
        }
    }

    #[test]
    fn a_page_that_the_store_refuses_is_not_explained_by_an_older_note() {
        let old = || Some("dns: no such host".to_owned());
        let said = why(Some(FailureKind::Other), old()).unwrap();
        assert!(said.starts_with("unstorable: the store refuses it"), "{said}");
        let own = Some("unstorable: the headers take 70000 bytes".to_owned());
        assert_eq!(why(Some(FailureKind::Other), own.clone()), own);
        assert_eq!(why(Some(FailureKind::Dns), old()), old());
        assert_eq!(why(Some(FailureKind::Robots), None).as_deref(), Some("robots.txt forbids it"));
        assert_eq!((why(None, None), kind_name(FailureKind::Other)), (None, "unstorable"));
    }

    #[test]
    fn a_failure_is_said_by_name_first() {
        assert_eq!(Failure::new(Reason::Dns, "no such host").to_string(), "dns: no such host");
        assert_eq!(Failure::from(Reason::RatioLimit).to_string(), "ratio-limit");
    }
}
