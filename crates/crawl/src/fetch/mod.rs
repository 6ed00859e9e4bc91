//! One fetch: returns a URL's answer with its body, or the limit that stopped it.
//!
//! A redirect is returned as an answer; nothing is followed here. hyper provides HTTP/1.1, and
//! HTTP/2 if the server offers it over TLS; rustls provides TLS. Bounds of an answer: its head by
//! hyper's buffers, its body and expansion by `decode`, time by the deadlines of [`Fetcher::get`],
//! the address by [`address`].
//!
//! Invariant: memory for bodies is bounded for any number of fetches: a body over
//! [`SMALL_BODY_BYTES`] waits for one of a few places, and a sitemap that outgrows it for the
//! single place of long ones. Places are held as long as the answer lives.

pub mod address;
mod clients;
mod connect;
mod cookies;
mod decode;
pub mod hosts;
pub mod proxy;
pub mod retry_after;
pub mod trust;
mod turns;

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use filemap::page::{Headers, HttpVersion};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::failure::{Failure, Reason};
use crate::settings::limits::{Limits, RATE_WINDOW, SMALL_BODY_BYTES};

use self::address::Resolver;
use self::clients::Clients;
use self::connect::{Connector, Remote};
pub use self::connect::{Way, local_address};
use self::cookies::Cookies;
use self::decode::{Decoded, Decoder, Stop, codings};
use self::hosts::Hosts;
use self::proxy::Proxy;
use self::turns::Turns;

/// Characters of a content type shown in messages.
const TYPE_SHOWN: usize = 100;

/// Validators of an earlier version, for a conditional request.
///
/// ```
/// let known = crawl::fetch::Validators { etag: Some(b"\"1\"".to_vec()), ..Default::default() };
/// assert_eq!(known.last_modified, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// Its `ETag`.
    pub etag: Option<Vec<u8>>,
    /// Its `Last-Modified`.
    pub last_modified: Option<Vec<u8>>,
}

/// An answer.
///
/// ```
/// fn is_whole(answer: &crawl::fetch::Answer) -> bool {
///     answer.status == 200 && answer.cut.is_none()
/// }
/// ```
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: Vec<u8>,
    /// The protocol.
    pub version: HttpVersion,
    /// The header fields, adapted to the decoded body.
    pub headers: Headers,
    /// The decoded body.
    pub body: Vec<u8>,
    /// Reason why the body is truncated, if it is.
    pub cut: Option<Failure>,
    /// True if the body is kept as received, because its coding ended early.
    pub as_received: bool,
    /// True if bytes after the end of its coding were dropped.
    pub has_trailing: bool,
    /// The address that answered.
    pub ip: Option<IpAddr>,
    /// Bytes of the body as received.
    pub wire_bytes: u64,
    /// Cookies dropped by a limit.
    pub cookies_dropped: u64,
    /// The places of a large body, kept as long as the body.
    pub places: Vec<OwnedSemaphorePermit>,
}

/// The kind of a fetch, which sets the limit of its body.
///
/// ```
/// use crawl::fetch::{Answer, Fetcher, Kind, Validators};
/// async fn image(from: &Fetcher, url: &str) -> Result<Answer, crawl::Failure> {
///     from.get(url, &Validators::default(), Kind::Requisite).await
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page.
    Page,
    /// A robots.txt; any content type.
    Robots,
    /// A requisite of a page; any content type.
    Requisite,
    /// A sitemap, which may be longer.
    Sitemap,
}

/// Fetches URLs.
///
/// ```
/// use crawl::fetch::{Fetcher, Kind, Validators, trust};
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let url = format!("http://{}/", listener.local_addr()?);
/// # std::thread::spawn(move || {
/// #     use std::io::{Read, Write};
/// #     let mut stream = listener.accept().unwrap().0;
/// #     stream.read(&mut [0; 4096]).unwrap();
/// #     stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
/// # });
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # let (limits, tls) = (Default::default(), trust::tls(trust::Trust::Anybody)?);
/// # let resolver = crawl::fetch::address::Resolver { allow_private: true, ..Default::default() };
/// let fetcher = Fetcher::new(limits, "example/1", (resolver, Default::default()), tls)?;
/// let answer = runtime.block_on(fetcher.get(&url, &Validators::default(), Kind::Page))?;
/// assert_eq!((answer.status, &answer.body[..]), (200, &b"hello"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Fetcher {
    clients: Arc<Clients>,
    limits: Arc<Limits>,
    user_agent: HeaderValue,
    way: Arc<Way>,
    resolver: Resolver,
    turns: Option<Arc<Turns>>,
    cookies: Arc<Cookies>,
    keeps_cookies: bool,
    large: Arc<Semaphore>,
    /// The single place of a sitemap longer than pages may be.
    longest: Arc<Semaphore>,
}

impl Fetcher {
    /// A fetcher with this user agent.
    ///
    /// # Errors
    /// An error message, if the user agent cannot be a header's value.
    pub fn new(
        limits: Limits,
        user_agent: &str,
        (resolver, way): (Resolver, Way),
        tls: rustls::ClientConfig,
    ) -> Result<Fetcher, String> {
        let connector = Connector::new(resolver.clone(), way.bind, Arc::new(tls), limits.connect);
        let user_agent = HeaderValue::from_str(user_agent).map_err(|error| format!("the user agent: {error}"))?;
        let large = Arc::new(Semaphore::new(limits.large_bodies()));
        Ok(Fetcher {
            clients: Arc::new(Clients::new(connector, limits.header_bytes)),
            limits: Arc::new(limits),
            user_agent,
            way: Arc::new(way),
            resolver,
            turns: None,
            cookies: Arc::default(),
            keeps_cookies: false,
            large,
            longest: Arc::new(Semaphore::new(1)),
        })
    }

    /// Keeps cookies for all hosts, except those whose own settings forbid it.
    #[must_use]
    pub fn with_cookies(self) -> Fetcher {
        Fetcher { keeps_cookies: true, ..self }
    }

    /// Requests each address at most once in this time, over all its hosts; 0 for no limit.
    #[must_use]
    pub fn with_turns(self, every: Duration) -> Fetcher {
        Fetcher { turns: Turns::new(every).map(Arc::new), ..self }
    }

    /// Returns whether addresses are rate limited.
    pub fn has_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// Takes the turn of a URL's host at its address: how long to wait, or `None` to go ahead.
    /// Through a proxy the address is unknown, so there is no turn.
    pub async fn turn(&self, url: &str) -> Option<Duration> {
        let turns = self.turns.as_ref()?;
        let url = Url::parse(url).ok()?;
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        if self.way.proxy_to(host).is_some() {
            return None;
        }
        let address = match turns.address(host, std::time::Instant::now()) {
            Some(address) => address,
            // A host without addresses: the fetch reports the error.
            None => self.resolver.addresses(host, port).await.ok()?.first()?.ip(),
        };
        turns.take(host, address, std::time::Instant::now())
    }

    /// The settings of single hosts.
    pub fn hosts(&self) -> &Hosts {
        &self.way.hosts
    }

    /// The cookie jars of the run, if this host's cookies are kept.
    fn cookies_of(&self, host: &str) -> Option<&Cookies> {
        let own = self.way.hosts.of(host).and_then(|host| host.cookies);
        own.unwrap_or(self.keeps_cookies).then_some(&self.cookies)
    }

    /// Fetches a URL.
    ///
    /// # Errors
    /// The limit that stopped it, or the failure. A body that is too long or too slow, or ends
    /// early, is not an error if a part of it arrived: see [`Answer::cut`].
    pub async fn get(&self, url: &str, validators: &Validators, kind: Kind) -> Result<Answer, Failure> {
        let uri = Uri::try_from(url).map_err(|error| Failure::new(Reason::BadUrl, error.to_string()))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(Failure::new(Reason::BadUrl, "it contains a user name"));
        }
        let host = uri.host().unwrap_or_default();
        // The table of hosts may change meanwhile; a password must go to its own proxy.
        let proxy = self.way.proxy_to(host);
        let begun = Instant::now();
        let first = begun + self.limits.first_byte.min(self.limits.total);
        let answer = match self.head(&uri, proxy.as_ref(), validators, first).await {
            // The server closed a pooled connection just as it was reused: try a new one.
            Err(Broken::Unanswered) => self.head(&uri, proxy.as_ref(), validators, first).await,
            answer => answer,
        };
        let answer = answer.map_err(|broken| match broken {
            Broken::Unanswered => Failure::new(Reason::Protocol, "the connection was closed without an answer"),
            Broken::Failed(failure) => failure,
        })?;
        let asks_for_credentials = answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED;
        if let Some(proxy) = proxy.filter(|_| asks_for_credentials) {
            return Err(proxy.failure("it wants a user and a password"));
        }
        let cookies = self.cookies_of(host).zip(Url::parse(url).ok());
        let cookies_dropped = cookies.map_or(0, |(cookies, url)| cookies.take(&url, answer.headers()));
        if kind == Kind::Page {
            let content_type = answer.headers().get(header::CONTENT_TYPE);
            self.check_type(answer.status().as_u16(), content_type.map(HeaderValue::as_bytes))?;
        }
        let answer = self.body(answer, kind, begun + self.limits.total).await?;
        Ok(Answer { cookies_dropped, ..answer })
    }

    /// Refuses a page because of its content type.
    ///
    /// # Errors
    /// `Type`.
    pub fn check_type(&self, status: u16, content_type: Option<&[u8]>) -> Result<(), Failure> {
        let content_type = String::from_utf8_lossy(content_type.unwrap_or_default());
        if !(200..300).contains(&status) || self.limits.accepts(&content_type) {
            return Ok(());
        }
        Err(Failure::new(Reason::Type, content_type.chars().take(TYPE_SHOWN).collect::<String>()))
    }

    async fn head(
        &self,
        uri: &Uri,
        proxy: Option<&Proxy>,
        validators: &Validators,
        until: Instant,
    ) -> Result<Response<Incoming>, Broken> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/html,application/xhtml+xml,*/*;q=0.5"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br, zstd"));
        let host = uri.host().unwrap_or_default();
        let own = self.way.hosts.of(host);
        own.iter().flat_map(|own| &own.fields).for_each(|(name, value)| drop(headers.insert(name, value.clone())));
        let plain = proxy.filter(|_| uri.scheme_str() == Some("http"));
        let authorization = plain.and_then(Proxy::authorization);
        headers.extend(authorization.map(|value| (header::PROXY_AUTHORIZATION, value)));
        let kept = self.cookies_of(host).zip(Url::parse(&uri.to_string()).ok());
        let kept = kept.and_then(|(cookies, url)| cookies.to_send(&url));
        let given = own.as_ref().and_then(|own| own.cookie.clone());
        headers.extend(cookies::joined(given, kept).map(|value| (header::COOKIE, value)));
        let optional = |value: &Option<Vec<u8>>| HeaderValue::from_bytes(value.as_deref()?).ok();
        headers.extend(optional(&validators.etag).map(|value| (header::IF_NONE_MATCH, value)));
        headers.extend(optional(&validators.last_modified).map(|value| (header::IF_MODIFIED_SINCE, value)));
        let begun = std::time::Instant::now();
        let answer = timeout_at(until, self.clients.by(proxy).request(request)).await;
        if let Some(turns) = &self.turns {
            // Includes requests without a turn: a redirect, robots.txt. Without an answer, the
            // host's address counts.
            let remote = answer.iter().flatten().find_map(|answer| answer.extensions().get::<Remote>());
            let address = remote.map(|remote| remote.0.ip()).or_else(|| turns.address(host, begun));
            address.into_iter().for_each(|address| turns.asked(address, begun));
        }
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(broken(&error)),
            Err(_) => Err(Broken::Failed(Reason::FirstByteTimeout.into())),
        }
    }

    async fn body(&self, answer: Response<Incoming>, kind: Kind, until: Instant) -> Result<Answer, Failure> {
        let (head, mut incoming) = answer.into_parts();
        let codings = codings(&head.headers);
        let coding = if let [one] = &codings[..] { one.as_slice() } else { b"" };
        let max_bytes = match kind {
            Kind::Page | Kind::Requisite => self.limits.body_bytes,
            Kind::Robots => self.limits.robots_bytes(),
            Kind::Sitemap => self.limits.sitemap_bytes(),
        };
        let mut decoder = Decoder::new(coding, max_bytes, self.limits.ratio);
        let (mut wire_bytes, mut places) = (0, Vec::new());
        let mut pace = Pace { until, window: (Instant::now() + RATE_WINDOW, 0), rate_bytes: self.limits.rate_bytes };
        let cut = loop {
            let piece = match timeout_at(pace.next(), incoming.frame()).await {
                Ok(None) => break None,
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) => break Some(Failure::new(Reason::Incomplete, words(&error))),
                Err(_) => Bytes::new(),
            };
            wire_bytes += piece.len() as u64;
            if let Some(reason) = pace.take(piece.len()) {
                break Some(Failure::from(reason));
            }
            if !decoder.push(&piece) {
                break None;
            }
            let mut longer =
                [SMALL_BODY_BYTES as u64, self.limits.body_bytes].into_iter().zip([&self.large, &self.longest]);
            if let Some((_, place)) = longer.nth(places.len()).filter(|(from, _)| decoder.len() as u64 > *from) {
                let waiting = Instant::now();
                places.extend(Arc::clone(place).acquire_owned().await.ok());
                pace.forgive(waiting.elapsed());
            }
        };
        let mut decoded = decoder.finish(cut.is_none());
        let cut = match (decoded.stop, cut) {
            (Some(Stop::Ratio), _) => return Err(Reason::RatioLimit.into()),
            (Some(Stop::Damaged), _) => return Err(Reason::Coding.into()),
            (Some(Stop::Full), _) => Some(Reason::BodyLimit.into()),
            (Some(Stop::Early), _) => Some(Failure::new(Reason::Incomplete, "its content coding ends early")),
            (None, cut) => cut,
        };
        let cut = match cut {
            Some(cut) if decoded.body.is_empty() && cut.reason != Reason::BodyLimit => return Err(cut),
            cut => cut,
        };
        if codings.len() > 1 && places.is_empty() {
            places.extend(Arc::clone(&self.large).acquire_owned().await.ok());
        }
        decoded.undo_rest(&codings, cut.is_none(), (self.limits.body_bytes, self.limits.ratio));
        let headers = kept_headers(&head.headers, &decoded, cut.is_some());
        let reason = head.extensions.get::<hyper::ext::ReasonPhrase>();
        let reason = reason.map(|reason| reason.as_bytes().to_vec());
        Ok(Answer {
            status: head.status.as_u16(),
            reason: reason.unwrap_or_else(|| head.status.canonical_reason().unwrap_or("").into()),
            version: version(head.version),
            headers,
            body: decoded.body,
            cut,
            as_received: decoded.as_received,
            has_trailing: decoded.has_trailing,
            ip: head.extensions.get::<Remote>().map(|remote| remote.0.ip()),
            wire_bytes,
            cookies_dropped: 0,
            places,
        })
    }
}

/// The deadlines and the minimum rate of a body.
struct Pace {
    until: Instant,
    /// The end of the current window, and the bytes that came in it.
    window: (Instant, u64),
    rate_bytes: u64,
}

impl Pace {
    /// The latest time of the next check.
    fn next(&self) -> Instant {
        self.until.min(self.window.0)
    }

    /// Counts received bytes, or a timeout with none; returns the limit exceeded.
    fn take(&mut self, bytes: usize) -> Option<Reason> {
        let now = Instant::now();
        if bytes == 0 && now >= self.until {
            return Some(Reason::TotalTimeout);
        }
        self.window.1 += bytes as u64;
        if now >= self.window.0 {
            if self.window.1 < self.rate_bytes * RATE_WINDOW.as_secs() {
                return Some(Reason::TooSlow);
            }
            self.window = (now + RATE_WINDOW, 0);
        }
        None
    }

    /// Excludes a wait that was not the server's fault.
    fn forgive(&mut self, waited: Duration) {
        (self.until, self.window.0) = (self.until + waited, self.window.0 + waited);
    }
}

/// Reason why no head was received.
enum Broken {
    /// The connection was closed before an answer.
    Unanswered,
    /// Anything else.
    Failed(Failure),
}

fn broken(error: &hyper_util::client::legacy::Error) -> Broken {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(failure) = inner.downcast_ref::<Failure>() {
            return Broken::Failed(failure.clone());
        }
        if let Some(http) = inner.downcast_ref::<hyper::Error>() {
            // hyper identifies this error only in its message.
            if http.is_parse() && http.to_string().contains("too large") {
                return Broken::Failed(Reason::HeaderLimit.into());
            }
            if http.is_incomplete_message() || http.is_canceled() || http.is_closed() {
                return Broken::Unanswered;
            }
            return Broken::Failed(Failure::new(Reason::Protocol, words(http)));
        }
        source = inner.source();
    }
    Broken::Failed(Failure::new(Reason::Protocol, error.to_string()))
}

/// An error of hyper with its cause.
fn words(error: &hyper::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

fn version(version: Version) -> HttpVersion {
    match version {
        Version::HTTP_10 => HttpVersion::Http10,
        Version::HTTP_2 => HttpVersion::Http2,
        Version::HTTP_3 => HttpVersion::Http3,
        _ => HttpVersion::Http11,
    }
}

/// The header fields to store: those that no longer match the decoded body are renamed, as the
/// WARC import does.
fn kept_headers(fields: &HeaderMap, decoded: &Decoded, is_cut: bool) -> Headers {
    let is_chunked = fields.contains_key(header::TRANSFER_ENCODING);
    let new_length = decoded.body.len().to_string();
    let changes_length = decoded.was_coded || is_cut || is_chunked;
    let sets_length = changes_length
        && fields.get(header::CONTENT_LENGTH).is_none_or(|length| length.as_bytes() != new_length.as_bytes());
    let mut kept = Headers::new();
    for (name, value) in fields {
        let name = match *name {
            header::TRANSFER_ENCODING => "X-Crawler-Transfer-Encoding",
            header::CONTENT_ENCODING if decoded.was_coded => "X-Crawler-Content-Encoding",
            header::CONTENT_LENGTH if sets_length => "X-Crawler-Content-Length",
            _ => name.as_str(),
        };
        kept.push(name, value.as_bytes());
    }
    if sets_length {
        kept.push("Content-Length", new_length);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_brought_into_line_with_the_body_that_is_kept() {
        let mut fields = HeaderMap::new();
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from_static("5"));
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        fields.append(header::SET_COOKIE, HeaderValue::from_static("a=1"));
        fields.append(header::SET_COOKIE, HeaderValue::from_static("b=2"));
        let body = |was_coded, bytes| Decoded {
            body: vec![0; bytes],
            was_coded,
            as_received: false,
            has_trailing: false,
            stop: None,
        };
        let as_it_came = kept_headers(&fields, &body(false, 5), false);
        assert_eq!(as_it_came.get("content-encoding"), Some(&b"gzip"[..]));
        assert_eq!(as_it_came.all("set-cookie").count(), 2);
        let decoded = kept_headers(&fields, &body(true, 70), false);
        assert_eq!(decoded.get("x-crawler-content-encoding"), Some(&b"gzip"[..]));
        assert_eq!(decoded.get("x-crawler-content-length"), Some(&b"5"[..]));
        assert_eq!(decoded.get("content-length"), Some(&b"70"[..]));
        assert_eq!(decoded.all("content-length").count(), 1);
    }
}
