//! Why a page was not fetched, or not all of it, by name.
//!
//! Every refusal and every limit has one name, used in the progress, the summary, the log and
//! `why`; this is the list. For the frontier each has a kind, and is permanent or worth another
//! attempt.

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
    /// No connection.
    Connect "connect" Connect,
    /// No TLS.
    Tls "tls" Tls,
    /// The proxy cannot be reached, or does not lead on.
    Proxy "proxy" Connect,
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
    /// Bytes follow the end of a gzip or zstd coding; they are left out.
    TrailingBytes "trailing-bytes" Protocol,
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
    /// Links with a path that repeats itself.
    RepeatedPath "repeated-path" Limit,
    /// Links that name a date far ahead.
    FarDate "far-date" Limit,
    /// A page with too many links.
    LinkLimit "link-limit" Limit,
    /// Edges of a page over the number of links of a page, or to a URL that is too long.
    EdgeLimit "edge-limit" Limit,
    /// A page whose text is nearly that of another of its host: its links earn nothing.
    NearDuplicate "near-duplicate" Limit,
    /// A page with status 200 that is nearly an error page of its host: its links earn nothing.
    SoftError "soft-404" Limit,
    /// A sitemap or a feed that is damaged: what comes before is taken.
    SitemapBroken "sitemap-broken" Protocol,
    /// More sitemaps than are known as such: the others are pages like any.
    SitemapLimit "sitemap-limit" Limit,
    /// Links, not known otherwise, of a page whose body another page of its host has.
    DuplicateLinks "duplicate-links" Limit,
    /// Cookies over the limits, which are not kept.
    CookieLimit "cookie-limit" Limit,
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
    /// A pattern of the crawl excludes it, or none includes it.
    Excluded "excluded" Refused,
    /// Its path ends in a rejected extension.
    Extension "extension" Refused,
    /// The answer has a content type that is not accepted.
    Type "type" Refused,
    /// robots.txt forbids it.
    Robots "robots" Robots,
    /// robots.txt is unreachable: stay away.
    RobotsUnreachable "robots-unreachable" RobotsUnreachable,
    /// A status of 400 to 499.
    ClientStatus "client-status" ClientStatus,
    /// A status of 500 to 599.
    ServerStatus "server-status" ServerStatus,
    /// The host asks to come back later (429, 503).
    Busy "busy" Busy,
    /// Another crawl has claimed it at the seen set that they share.
    Elsewhere "elsewhere" Elsewhere,
    /// Another crawl of the fleet owns its host's shard.
    HandedOver "handed-over" Elsewhere,
    /// A hook of the crawl failed: the page is kept without what it would have said.
    HookFailed "hook-failed" Protocol,
    /// The crawl's own fetcher failed.
    OwnFetcher "own-fetcher" Protocol,
    /// Fields of a page, which the store refuses, as rules of erasures do.
    NoteRefused "note-refused" Other,
    /// The page cannot be stored.
    Unstorable "unstorable" Other,
}

impl Reason {
    /// What is to be done about it.
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

/// Whether a page that was given up so is one that the crawl should have fetched: neither its site
/// nor a limit or rule of the crawl's has decided otherwise.
pub fn is_lost(kind: FailureKind) -> bool {
    use FailureKind::{Busy, Connect, Dns, HostDown, Protocol, RobotsUnreachable, ServerStatus, Timeout, Tls};
    matches!(kind, Busy | Connect | Dns | HostDown | Protocol | RobotsUnreachable | ServerStatus | Timeout | Tls)
}

/// The name of a kind of failure. The only `other` failures of a crawl are pages that cannot be
/// stored.
pub fn kind_name(kind: FailureKind) -> &'static str {
    if kind == Reason::Unstorable.kind() { Reason::Unstorable.name() } else { kind.name() }
}

/// The name of a kind of failure as one word.
pub fn word(kind: FailureKind) -> String {
    kind_name(kind).replace(' ', "-")
}

/// A kind of failure by its name.
pub fn kind_named(text: &str) -> Result<FailureKind, String> {
    let all = FailureKind::ALL.into_iter();
    all.clone().find(|kind| word(*kind) == text).ok_or_else(|| {
        let names: Vec<String> = all.map(word).collect();
        format!("give one of {}", names.join(", "))
    })
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
