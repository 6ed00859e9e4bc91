//! Custom fetchers: for pages that need a browser, or are not fetched by HTTP.
//!
//! The crawl itself still requests robots.txt and sitemaps, which concern its user agent.

use std::any::Any;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use filemap::page::{Headers, HttpVersion};
use tokio::sync::Semaphore;

use super::guard;
use crate::error::BoxError;
use crate::failure::{Failure, Reason};
use crate::fetch::Answer;

/// The response of a custom fetcher.
///
/// ```
/// use crawl::hooks::Response;
/// let mut response = Response { status: 200, body: b"<p>hello".to_vec(), ..Response::default() };
/// response.headers.push("Content-Type", "text/html");
/// assert_eq!(response.headers.get("content-type"), Some(&b"text/html"[..]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status code; the crawl follows redirects (300 to 399) by their `Location`.
    pub status: u16,
    /// The header fields. `Content-Type` decides how links are found.
    pub headers: Headers,
    /// The body, decoded.
    pub body: Vec<u8>,
    /// The server's address, if known.
    pub ip: Option<IpAddr>,
}

/// A fetch in progress.
///
/// ```
/// fn echo(url: &str) -> crawl::hooks::Fetching<'_> {
///     let response = crawl::hooks::Response { status: 200, body: url.into(), ..Default::default() };
///     Box::pin(async move { Ok(response) })
/// }
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// assert_eq!(runtime.block_on(echo("http://example.com/"))?.body, b"http://example.com/");
/// # Ok::<(), crawl::BoxError>(())
/// ```
pub type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send + 'a>>;

/// Replaces the crawl's fetcher; the crawl still decides which page to fetch and when. Addresses
/// of pages are not checked: a custom fetcher must check them itself.
///
/// ```
/// use crawl::hooks::Fetching;
/// use crawl::hooks::{Fetch, Response};
/// struct Made;
/// impl Fetch for Made {
///     fn fetch<'a>(&'a self, _url: &'a str) -> Fetching<'a> {
///         Box::pin(async { Ok(Response { status: 200, ..Response::default() }) })
///     }
/// }
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// assert_eq!(runtime.block_on(Made.fetch("http://example.com/"))?.status, 200);
/// # Ok::<(), crawl::BoxError>(())
/// ```
pub trait Fetch: Send + Sync {
    /// Fetches a URL. Runs on the crawl's own tokio runtime; for a blocking closure use
    /// [`Blocking`].
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a>;
}

/// A blocking fetcher, on a bounded number of threads.
///
/// ```
/// use crawl::hooks::{Blocking, Fetch, Response};
/// // At most four calls at once.
/// let fetcher = Blocking::new(4, |url: &str| {
///     Ok(Response { status: 200, body: url.into(), ..Response::default() })
/// });
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let response = runtime.block_on(fetcher.fetch("http://example.com/"))?;
/// assert_eq!(response.body, b"http://example.com/");
/// # Ok::<(), crawl::BoxError>(())
/// ```
pub struct Blocking<F> {
    call: Arc<F>,
    places: Semaphore,
}

impl<F: Fn(&str) -> Result<Response, BoxError> + Send + Sync + 'static> Blocking<F> {
    /// A fetcher from a closure, with at most `most` concurrent calls.
    pub fn new(most: usize, call: F) -> Blocking<F> {
        Blocking { call: Arc::new(call), places: Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)) }
    }
}

impl<F: Fn(&str) -> Result<Response, BoxError> + Send + Sync + 'static> Fetch for Blocking<F> {
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a> {
        Box::pin(async move {
            let _place = self.places.acquire().await?;
            let (call, url) = (Arc::clone(&self.call), url.to_owned());
            tokio::task::spawn_blocking(move || call(&url)).await?
        })
    }
}

/// Calls a custom fetcher, within the crawl's limits of time and bytes.
pub(crate) async fn get(own: &Arc<dyn Fetch>, url: &str, within: Duration, bytes: u64) -> Result<Answer, Failure> {
    let (own, at) = (Arc::clone(own), url.to_owned());
    // A separate task: a panic ends the task, not the visit.
    let task = tokio::spawn(async move { own.fetch(&at).await });
    let stop = task.abort_handle();
    let response = match tokio::time::timeout(within, task).await {
        Err(_) => {
            stop.abort();
            return Err(Reason::TotalTimeout.into());
        }
        Ok(Err(broken)) => return Err(failed(panicked(broken))),
        Ok(Ok(Err(error))) => return Err(failed(error.to_string())),
        Ok(Ok(Ok(response))) => response,
    };
    let Response { status, headers, mut body, ip } = response;
    let wire_bytes = body.len() as u64;
    let is_cut = wire_bytes > bytes;
    body.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    Ok(Answer {
        status,
        reason: Vec::new(),
        version: HttpVersion::Http11,
        headers,
        body,
        cut: is_cut.then(|| Reason::BodyLimit.into()),
        as_received: false,
        has_trailing: false,
        ip,
        wire_bytes,
        cookies_dropped: 0,
        places: Vec::new(),
    })
}

fn failed(words: String) -> Failure {
    Failure::new(Reason::OwnFetcher, words)
}

fn panicked(broken: tokio::task::JoinError) -> String {
    let words = |panic: Box<dyn Any + Send>| guard::panicked(&*panic);
    broken.try_into_panic().map_or_else(|error| error.to_string(), words)
}
