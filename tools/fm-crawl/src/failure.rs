//! Why a page was not fetched, or not all of it, by name.
//!
//! Every refusal and every limit has one name, used in the progress, the summary, the log and
//! `why`; this is the list. For the frontier each has a kind, and is permanent or worth another
//! attempt.

use std::fmt;

use frontier::FailureKind;

/// A reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The host's name has no address.
    Dns,
    /// No connection.
    Connect,
    /// No TLS.
    Tls,
    /// No connection in time.
    ConnectTimeout,
    /// No answer in time.
    FirstByteTimeout,
    /// The answer took too long as a whole.
    TotalTimeout,
    /// The answer came more slowly than the lowest rate.
    TooSlow,
    /// The answer was not HTTP, or the connection broke.
    Protocol,
    /// The body is shorter than announced.
    Incomplete,
    /// The content coding is damaged.
    Coding,
    /// The body goes on after its content coding ends; it is kept as received.
    KeptAsReceived,
    /// The head of the answer is too long.
    HeaderLimit,
    /// The body is too long; its beginning is kept.
    BodyLimit,
    /// The body expands too much.
    RatioLimit,
    /// Too many redirects in a row.
    RedirectLimit,
    /// Links beyond the depth limit.
    DepthLimit,
    /// Links to a host that has reached its number of pages.
    HostPagesLimit,
    /// A page with too many links.
    LinkLimit,
    /// Links that are too long.
    UrlLimit,
    /// `Retry-After` over the longest wait, which is used instead.
    RetryAfterLimit,
    /// The host's addresses are private, loopback or otherwise not public.
    PrivateAddress,
    /// A URL that cannot be requested.
    BadUrl,
    /// Not in the crawl's scope.
    Scope,
    /// robots.txt forbids it.
    Robots,
    /// robots.txt is unreachable: stay away.
    RobotsUnreachable,
    /// A status of 400 to 499.
    ClientStatus,
    /// A status of 500 to 599.
    ServerStatus,
    /// The host asks to come back later (429, 503).
    Busy,
    /// The host failed too often in a row.
    HostFailures,
    /// The page cannot be stored.
    Unstorable,
}

impl Reason {
    /// The name: lower case, words joined by hyphens.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Dns => "dns",
            Reason::Connect => "connect",
            Reason::Tls => "tls",
            Reason::ConnectTimeout => "connect-timeout",
            Reason::FirstByteTimeout => "first-byte-timeout",
            Reason::TotalTimeout => "total-timeout",
            Reason::TooSlow => "too-slow",
            Reason::Protocol => "protocol",
            Reason::Incomplete => "incomplete",
            Reason::Coding => "coding",
            Reason::KeptAsReceived => "kept-as-received",
            Reason::HeaderLimit => "header-limit",
            Reason::BodyLimit => "body-limit",
            Reason::RatioLimit => "ratio-limit",
            Reason::RedirectLimit => "redirect-limit",
            Reason::DepthLimit => "depth-limit",
            Reason::HostPagesLimit => "host-pages-limit",
            Reason::LinkLimit => "link-limit",
            Reason::UrlLimit => "url-limit",
            Reason::RetryAfterLimit => "retry-after-limit",
            Reason::PrivateAddress => "private-address",
            Reason::BadUrl => "bad-url",
            Reason::Scope => "scope",
            Reason::Robots => "robots",
            Reason::RobotsUnreachable => "robots-unreachable",
            Reason::ClientStatus => "client-status",
            Reason::ServerStatus => "server-status",
            Reason::Busy => "busy",
            Reason::HostFailures => "host-failure-limit",
            Reason::Unstorable => "unstorable",
        }
    }

    /// The frontier's coarser kind.
    pub fn kind(self) -> FailureKind {
        match self {
            Reason::Dns => FailureKind::Dns,
            Reason::Connect => FailureKind::Connect,
            Reason::Tls => FailureKind::Tls,
            Reason::ConnectTimeout | Reason::FirstByteTimeout | Reason::TotalTimeout | Reason::TooSlow => {
                FailureKind::Timeout
            }
            Reason::Protocol | Reason::Incomplete | Reason::Coding | Reason::KeptAsReceived => FailureKind::Protocol,
            Reason::Robots | Reason::RobotsUnreachable => FailureKind::Robots,
            Reason::PrivateAddress | Reason::BadUrl | Reason::Scope => FailureKind::Refused,
            Reason::HeaderLimit
            | Reason::BodyLimit
            | Reason::RatioLimit
            | Reason::RedirectLimit
            | Reason::DepthLimit
            | Reason::HostPagesLimit
            | Reason::LinkLimit
            | Reason::UrlLimit
            | Reason::RetryAfterLimit
            | Reason::HostFailures => FailureKind::Limit,
            Reason::ClientStatus => FailureKind::ClientStatus,
            Reason::ServerStatus => FailureKind::ServerStatus,
            Reason::Busy => FailureKind::Busy,
            Reason::Unstorable => FailureKind::Other,
        }
    }

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
            FailureKind::Refused | FailureKind::Limit | FailureKind::ClientStatus | FailureKind::Other
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
    note.or_else(|| (kind == Some(FailureKind::Robots)).then(|| "robots.txt forbids it".to_owned()))
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
