//! The reasons why a page was not fetched, or not completely, by name.
//!
//! Every refusal and every limit has one name, used in the progress, the summary, the log and
//! `why`; this is the list. Each maps to a kind of failure of the frontier, and is either
//! permanent or worth another attempt.

use std::fmt;

use frontier::{FailureKind, Remedy};

/// Declares the reasons, each with its name and the frontier's coarser kind.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident $name:literal $kind:ident,)*) => {
        /// A reason.
        ///
        /// ```
        /// use crawl::Reason;
        /// use frontier::{FailureKind, Remedy};
        /// assert_eq!((Reason::Dns.name(), Reason::Dns.kind()), ("dns", FailureKind::Dns));
        /// assert_eq!(Reason::Robots.remedy(), Remedy::GiveUp);
        /// ```
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
    /// No connection could be made.
    Connect "connect" Connect,
    /// The TLS handshake failed.
    Tls "tls" Tls,
    /// The proxy is unreachable, or does not forward the connection.
    Proxy "proxy" Connect,
    /// The connection timed out.
    ConnectTimeout "connect-timeout" Timeout,
    /// The first byte of the answer timed out.
    FirstByteTimeout "first-byte-timeout" Timeout,
    /// The whole answer timed out.
    TotalTimeout "total-timeout" Timeout,
    /// The answer was slower than the minimum rate.
    TooSlow "too-slow" Timeout,
    /// The answer was not HTTP, or the connection broke.
    Protocol "protocol" Protocol,
    /// The body is shorter than announced.
    Incomplete "incomplete" Protocol,
    /// The content coding is damaged.
    Coding "coding" Protocol,
    /// The body continues after the end of its content coding; it is kept as received.
    KeptAsReceived "kept-as-received" Protocol,
    /// Bytes after the end of a gzip or zstd coding; they are dropped.
    TrailingBytes "trailing-bytes" Protocol,
    /// The head of the answer is too long.
    HeaderLimit "header-limit" Limit,
    /// The body is too long; its beginning is kept.
    BodyLimit "body-limit" Limit,
    /// The body's expansion exceeds the limit.
    RatioLimit "ratio-limit" Limit,
    /// Too many redirects in a row.
    RedirectLimit "redirect-limit" Limit,
    /// Links beyond the depth limit.
    DepthLimit "depth-limit" Limit,
    /// Links to a host that has reached its page limit.
    HostPagesLimit "host-pages-limit" Limit,
    /// Links whose path repeats itself.
    RepeatedPath "repeated-path" Limit,
    /// Links whose URL contains a date far in the future.
    FarDate "far-date" Limit,
    /// Links that a page asks not to follow.
    Nofollow "nofollow" Limit,
    /// Links of a page or a sitemap beyond the limit, repeated ones among them.
    LinkLimit "link-limit" Limit,
    /// Edges beyond a page's link limit, or to a URL that is too long.
    EdgeLimit "edge-limit" Limit,
    /// A page whose text nearly equals another of its host: its links earn nothing.
    NearDuplicate "near-duplicate" Limit,
    /// A page with status 200 that nearly equals an error page of its host (soft 404).
    SoftError "soft-404" Limit,
    /// A damaged sitemap or feed: links before the damage are taken.
    SitemapBroken "sitemap-broken" Protocol,
    /// Sitemaps beyond the limit: they are treated as ordinary pages.
    SitemapLimit "sitemap-limit" Limit,
    /// Links found only on a page whose body another page of its host has.
    DuplicateLinks "duplicate-links" Limit,
    /// Cookies over the limits; they are dropped.
    CookieLimit "cookie-limit" Limit,
    /// Links that are too long.
    UrlLimit "url-limit" Limit,
    /// `Retry-After` above the maximum wait, which is used instead.
    RetryAfterLimit "retry-after-limit" Limit,
    /// `Crawl-delay` above the maximum delay, which is used instead.
    CrawlDelayLimit "crawl-delay-limit" Limit,
    /// The host's addresses are private, loopback or otherwise not public.
    PrivateAddress "private-address" Refused,
    /// A URL that cannot be requested.
    BadUrl "bad-url" Refused,
    /// Not in the crawl's scope.
    Scope "scope" Refused,
    /// A pattern of the crawl excludes it, or none includes it.
    Excluded "excluded" Refused,
    /// Its path ends in a rejected extension.
    Extension "extension" Refused,
    /// The answer's content type is not accepted.
    Type "type" Refused,
    /// robots.txt forbids it.
    Robots "robots" Robots,
    /// A robots.txt that is too long: its rest is ignored.
    RobotsLimit "robots-limit" Limit,
    /// robots.txt is unreachable, so nothing of the host may be fetched.
    RobotsUnreachable "robots-unreachable" RobotsUnreachable,
    /// A status of 400 to 499.
    ClientStatus "client-status" ClientStatus,
    /// A status of 500 to 599.
    ServerStatus "server-status" ServerStatus,
    /// The host asks to come back later (429, 503).
    Busy "busy" Busy,
    /// Another crawl has claimed it in the shared seen set.
    Elsewhere "elsewhere" Elsewhere,
    /// Another crawl of the fleet owns its host's shard.
    HandedOver "handed-over" Elsewhere,
    /// A hook of the crawl failed: the page is stored without its reply.
    HookFailed "hook-failed" Protocol,
    /// The crawl's own fetcher failed.
    OwnFetcher "own-fetcher" Protocol,
    /// The store refuses a page's fields, for instance by an erasure rule.
    NoteRefused "note-refused" Other,
    /// The page cannot be stored.
    Unstorable "unstorable" Other,
}

impl Reason {
    /// The frontier's remedy.
    pub fn remedy(self) -> Remedy {
        match (self, self.kind()) {
            (Reason::ConnectTimeout | Reason::RobotsUnreachable, _) => Remedy::HostRests,
            (_, FailureKind::Dns | FailureKind::Connect | FailureKind::Tls) => Remedy::HostRests,
            (Reason::Incomplete | Reason::TotalTimeout | Reason::TooSlow | Reason::Coding, _) => Remedy::RetryPage,
            (_, FailureKind::Timeout | FailureKind::Protocol | FailureKind::ServerStatus | FailureKind::Busy) => {
                Remedy::Retry
            }
            _ => Remedy::GiveUp,
        }
    }
}

/// Returns whether a given-up page is a loss: neither its host nor a limit or rule of the crawl
/// decided it.
pub fn is_lost(kind: FailureKind) -> bool {
    use FailureKind::{Busy, Connect, Dns, HostDown, Protocol, RobotsUnreachable, ServerStatus, Timeout, Tls};
    matches!(kind, Busy | Connect | Dns | HostDown | Protocol | RobotsUnreachable | ServerStatus | Timeout | Tls)
}

/// The name of a kind of failure. A crawl's only `other` failures are pages that cannot be stored.
pub fn kind_name(kind: FailureKind) -> &'static str {
    if kind == Reason::Unstorable.kind() { Reason::Unstorable.name() } else { kind.name() }
}

/// The name of a kind of failure as one word.
pub fn word(kind: FailureKind) -> String {
    kind_name(kind).replace(' ', "-")
}

/// Parses the name of a kind of failure.
pub fn kind_named(text: &str) -> Result<FailureKind, String> {
    let all = FailureKind::ALL.into_iter();
    all.clone().find(|kind| word(*kind) == text).ok_or_else(|| {
        let names: Vec<String> = all.map(word).collect();
        format!("give one of {}", names.join(", "))
    })
}

/// The reason for a page's failure, from the frontier's kind and the note beside the page. Pages
/// forbidden by robots.txt, or whose note the store refused, have no note of this failure; an
/// existing note is from an earlier one.
pub fn why(kind: Option<FailureKind>, note: Option<String>) -> Option<String> {
    let refused = Reason::Unstorable;
    if kind == Some(refused.kind()) {
        let words = || format!("{}: the store refuses it, as erasure rules do", refused.name());
        return Some(note.filter(|note| note.starts_with(refused.name())).unwrap_or_else(words));
    }
    match kind {
        Some(FailureKind::Elsewhere) => {
            Some("left to another crawl, which owns its shard or has claimed it at the seen set".to_owned())
        }
        Some(FailureKind::Robots) => note.or_else(|| Some("robots.txt forbids it".to_owned())),
        _ => note,
    }
}

/// A reason with details.
///
/// ```
/// use crawl::{Failure, Reason};
/// assert_eq!(Failure::new(Reason::Dns, "no such host").to_string(), "dns: no such host");
/// assert_eq!(Failure::from(Reason::RatioLimit).to_string(), "ratio-limit");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason.
    pub reason: Reason,
    /// Details; may be empty.
    pub detail: String,
    /// The `Retry-After` of the host, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A failure with details.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_names_and_others_refused() {
        for kind in FailureKind::ALL {
            assert_eq!(kind_named(&word(kind)), Ok(kind));
        }
        assert!(kind_named("nonsense").is_err_and(|words| words.contains(&word(FailureKind::ALL[0]))));
    }

    #[test]
    fn limits_and_refusals_are_final_accidents_are_tried_again_and_hosts_without_an_answer_rest() {
        for reason in [Reason::RatioLimit, Reason::PrivateAddress, Reason::Robots, Reason::ClientStatus] {
            assert_eq!((reason.remedy(), is_lost(reason.kind())), (Remedy::GiveUp, false), "{}", reason.name());
        }
        for reason in [Reason::FirstByteTimeout, Reason::Busy, Reason::Protocol, Reason::ServerStatus] {
            assert_eq!((reason.remedy(), is_lost(reason.kind())), (Remedy::Retry, true), "{}", reason.name());
        }
        for reason in [Reason::TotalTimeout, Reason::TooSlow, Reason::Incomplete] {
            assert_eq!((reason.remedy(), is_lost(reason.kind())), (Remedy::RetryPage, true), "{}", reason.name());
        }
        for reason in [Reason::Dns, Reason::Connect, Reason::Tls, Reason::ConnectTimeout, Reason::RobotsUnreachable] {
            assert_eq!(reason.remedy(), Remedy::HostRests, "{}", reason.name());
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
