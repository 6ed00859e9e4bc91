//! Clients for tokio: the blocking clients on a bounded number of threads. Requests are
//! implemented only once.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::Read;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use filemap::async_store::AsyncStore;
use filemap::import::ImportOptions;
use filemap::{Page, Result, Version};
use futures_core::Stream;
use tokio::task::JoinHandle;
use urlindex::idempotent::RequestId;
use urlindex::{SeenStats, Verdict};

use crate::client::{Ack, Added, ArchiveForm, Client, ClientOptions, Imported, Line, Lines, Made, SeenClient};

/// Most lines of the change feed read in one call.
const LINES: usize = 1_024;

/// A store behind a server, for callers on tokio: an [`AsyncStore`] of a [`Client`], which has
/// `get`, `put`, `list` and the rest. Cheap to clone; clones share the bound.
///
/// A request that has begun is completed even if its future is dropped: see [`AsyncStore`].
/// Runtime shutdown waits for it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, PageStore};
/// # use filemap_http::server::{Server, ServerOptions};
/// use filemap::access::{PutRule, Scope};
/// use filemap::{Lookup, Page};
/// use filemap_http::{AsyncClient, ClientOptions};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
/// # let location = format!("http://{}", listener.local_addr()?);
/// # let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// # let server = Server::new(store, ServerOptions::new().writes());
/// # let serving = runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
/// # runtime.block_on(async {
/// // Such as "http://127.0.0.1:8640"; 32 requests at once.
/// let store = AsyncClient::open(&location, &ClientOptions::new(), 32).await?;
/// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// store.put(page, PutRule::IfChanged).await?;
/// let page = store.get(&Lookup::new("http://example.com/")).await?.expect("just put");
/// assert_eq!(page.body, b"hello");
/// let (part, next) = store.list(&Scope::new().host("example.com"), None, 1_000).await?;
/// assert_eq!((part.len(), next), (1, None));
/// # store.close().await
/// # })?;
/// # drop(stop);
/// # runtime.block_on(serving)??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncClient {
    store: AsyncStore<Client>,
}

impl Deref for AsyncClient {
    type Target = AsyncStore<Client>;

    fn deref(&self) -> &AsyncStore<Client> {
        &self.store
    }
}

impl AsyncClient {
    /// As [`Client::open`], for at most `max_calls` requests at once.
    ///
    /// # Errors
    ///
    /// As [`Client::open`].
    pub async fn open(location: &str, options: &ClientOptions, max_calls: u32) -> Result<AsyncClient> {
        let (location, options) = (location.to_owned(), options.clone());
        let client = AsyncStore::new((), 1).call(move |()| Client::open(&location, &options)).await?;
        Ok(AsyncClient::new(client, max_calls))
    }

    /// Requests of `client`, at most `max_calls` at once.
    pub fn new(client: Client, max_calls: u32) -> AsyncClient {
        AsyncClient { store: AsyncStore::new(client, max_calls) }
    }

    /// As [`Client::changes`]. Waiting for lines, here and in [`AsyncLines::next`], occupies one
    /// of the `max_calls` requests; between calls none is occupied.
    ///
    /// # Errors
    ///
    /// As [`Client::changes`] and [`AsyncStore::call`].
    pub async fn changes(&self, since: Option<&str>, wait: Duration) -> Result<AsyncLines> {
        let since = since.map(str::to_owned);
        let lines = self.store.call(move |client| client.changes(since.as_deref(), wait)).await?;
        Ok(AsyncLines { store: self.store.clone(), read: VecDeque::new(), rest: Rest::Waits(Box::new(lines)) })
    }

    /// As [`Client::body_of`]; `read` gets the body, on a thread where it may block.
    ///
    /// # Errors
    ///
    /// As [`Client::body_of`] and [`AsyncStore::call`]; those of `read`.
    pub async fn body_of<T: Send + 'static>(
        &self,
        page: &Page,
        version: Version,
        read: impl FnOnce(&mut dyn Read) -> Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let page = Page { body: Vec::new(), ..page.clone() };
        let found = move |client: &Client| match client.body_of(&page, version)? {
            Some(mut body) => read(&mut body).map(Some),
            None => Ok(None),
        };
        self.store.call(found).await
    }

    /// As [`Client::import`].
    ///
    /// # Errors
    ///
    /// As [`Client::import`] and [`AsyncStore::call`].
    pub async fn import(
        &self,
        file: &str,
        form: ArchiveForm,
        mut source: impl Read + Send + 'static,
        options: ImportOptions,
    ) -> Result<Imported> {
        let file = file.to_owned();
        self.store.call(move |client| client.import(&file, form, &mut source, &options)).await
    }

    /// As [`AsyncStore::close`]: makes earlier puts durable; the store stays open on the server.
    ///
    /// # Errors
    ///
    /// As [`AsyncStore::close`].
    pub async fn close(self) -> Result<()> {
        self.store.close().await
    }
}

/// The change feed of [`AsyncClient::changes`]: the lines of [`Lines`], also as a [`Stream`].
///
/// Dropping a future of [`AsyncLines::next`] loses no line: the next one returns it. If this is
/// dropped while waiting for a line, its thread waits until the server sends something.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # use filemap_http::server::{Server, ServerOptions};
/// use std::time::Duration;
///
/// use filemap_http::{AsyncClient, ClientOptions, Said};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// # store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// # store.sync()?;
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
/// # let location = format!("http://{}", listener.local_addr()?);
/// # let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// # let server = Server::new(store, ServerOptions::new());
/// # let serving = runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
/// # runtime.block_on(async {
/// let store = AsyncClient::open(&location, &ClientOptions::new(), 32).await?;
/// let mut lines = store.changes(None, Duration::ZERO).await?;
/// let mut told = 0;
/// while let Some(line) = lines.next().await {
///     told += u32::from(matches!(line?.said, Said::Told(_)));
/// }
/// assert_eq!(told, 2, "a page, and that all is listed");
/// # Ok::<(), filemap::Error>(())
/// # })?;
/// # drop(stop);
/// # runtime.block_on(serving)??;
/// # Ok(())
/// # }
/// ```
pub struct AsyncLines {
    store: AsyncStore<Client>,
    /// Lines read, but not returned yet.
    read: VecDeque<Result<Line>>,
    rest: Rest,
}

/// Lines that were read, and those to come.
type Part = Result<(Box<Lines>, Vec<Result<Line>>)>;

/// The lines to come.
enum Rest {
    Waits(Box<Lines>),
    /// In a separate task: a queued call that nobody polls would block the others.
    IsRead(JoinHandle<Part>),
    Over,
}

impl std::fmt::Debug for AsyncLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncLines").field("is_over", &matches!(self.rest, Rest::Over)).finish_non_exhaustive()
    }
}

impl AsyncLines {
    /// The next line; `None` after the end.
    ///
    /// # Errors
    ///
    /// As those of [`Lines`], and of [`AsyncStore::call`].
    pub async fn next(&mut self) -> Option<Result<Line>> {
        poll_fn(|context| self.poll_line(context)).await
    }

    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Line>>> {
        loop {
            if let Some(line) = self.read.pop_front() {
                return Poll::Ready(Some(line));
            }
            match std::mem::replace(&mut self.rest, Rest::Over) {
                Rest::Over => return Poll::Ready(None),
                Rest::Waits(mut lines) => {
                    let store = self.store.clone();
                    let part = async move {
                        let part = move |_: &Client| {
                            let part = lines.part(LINES);
                            Ok((lines, part))
                        };
                        store.call(part).await
                    };
                    self.rest = Rest::IsRead(tokio::spawn(part));
                }
                Rest::IsRead(mut part) => {
                    let Poll::Ready(part) = Pin::new(&mut part).poll(context) else {
                        self.rest = Rest::IsRead(part);
                        return Poll::Pending;
                    };
                    let part = part.unwrap_or_else(|error| match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The runtime is shut down.
                        Err(_) => Err(filemap_core::Error::Closed.into()),
                    });
                    match part {
                        Ok((lines, part)) => {
                            if !part.is_empty() {
                                self.rest = Rest::Waits(lines);
                            }
                            self.read.extend(part);
                        }
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
            }
        }
    }
}

impl Drop for AsyncLines {
    fn drop(&mut self) {
        if let Rest::IsRead(part) = &self.rest {
            // Cancels a call that is still queued.
            part.abort();
        }
    }
}

impl Stream for AsyncLines {
    type Item = Result<Line>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Line>>> {
        self.poll_line(context)
    }
}

/// A seen set behind a server, for callers on tokio. Cheap to clone; clones share the bound.
///
/// Once the request has begun, URLs are added even if the future of [`AsyncSeenClient::add`] is
/// dropped. With the same id the request can be sent again, and gets the same answer.
///
/// ```no_run
/// # async fn add() -> filemap::Result<()> {
/// use filemap_http::{Ack, Added, AsyncSeenClient, ClientOptions};
/// use urlindex::idempotent::RequestId;
///
/// let set = AsyncSeenClient::open("http://127.0.0.1:8640/v1/seen/pages", &ClientOptions::new(), 8).await?;
/// let added = set.add(Some(RequestId::now()), vec!["https://example.com/"], Ack::Durable).await?;
/// assert!(matches!(added, Added::Verdicts(verdicts) if verdicts.len() == 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncSeenClient {
    set: AsyncStore<SeenClient>,
}

impl AsyncSeenClient {
    /// As [`SeenClient::open`], for at most `max_calls` requests at once.
    ///
    /// # Errors
    ///
    /// As [`SeenClient::open`].
    pub async fn open(location: &str, options: &ClientOptions, max_calls: u32) -> Result<AsyncSeenClient> {
        let (location, options) = (location.to_owned(), options.clone());
        let set = AsyncStore::new((), 1).call(move |()| SeenClient::open(&location, &options)).await?;
        Ok(AsyncSeenClient::new(set, max_calls))
    }

    /// As [`SeenClient::create`]; pass the created set to [`AsyncSeenClient::new`].
    ///
    /// # Errors
    ///
    /// As [`SeenClient::create`].
    pub async fn create(location: &str, set: &str, options: &ClientOptions) -> Result<Made> {
        let (location, set, options) = (location.to_owned(), set.to_owned(), options.clone());
        AsyncStore::new((), 1).call(move |()| SeenClient::create(&location, &set, &options)).await
    }

    /// Requests of `set`, at most `max_calls` at once.
    pub fn new(set: SeenClient, max_calls: u32) -> AsyncSeenClient {
        AsyncSeenClient { set: AsyncStore::new(set, max_calls) }
    }

    /// As [`SeenClient::writes`].
    pub fn writes(&self) -> bool {
        self.set.blocking().writes()
    }

    /// As [`SeenClient::rules`].
    pub fn rules(&self) -> (&str, u32) {
        self.set.blocking().rules()
    }

    /// As [`SeenClient::stats`].
    ///
    /// # Errors
    ///
    /// As [`SeenClient::stats`].
    pub async fn stats(&self) -> Result<SeenStats> {
        self.set.call(SeenClient::stats).await
    }

    /// As [`SeenClient::add`].
    ///
    /// # Errors
    ///
    /// As [`SeenClient::add`].
    pub async fn add<U>(&self, id: Option<RequestId>, urls: Vec<U>, ack: Ack) -> Result<Added>
    where
        U: AsRef<[u8]> + Send + 'static,
    {
        self.set.call(move |set| set.add(id, &urls, ack)).await
    }

    /// As [`SeenClient::check`].
    ///
    /// # Errors
    ///
    /// As [`SeenClient::check`].
    pub async fn check<U>(&self, urls: Vec<U>) -> Result<Vec<Option<Verdict>>>
    where
        U: AsRef<[u8]> + Send + 'static,
    {
        self.set.call(move |set| set.check(&urls)).await
    }
}
