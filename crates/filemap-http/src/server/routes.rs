//! The routes of a server, and the layers that each request passes.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post, put};
use filemap::PageStore;
use tower_http::CompressionLevel;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;

use super::backend::Backend;
use super::measure::Measured;
use super::options::ServerOptions;
use super::refusal::Refusal;
use super::{
    archive, changes, crawl, figures, guard, hosts, inspect, links, lists, many, openapi, pages, patient, seen, space,
};

/// An HTTP server for the pages of a store.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::{Options, PageRead, PageStore};
/// use filemap_http::{Client, ClientOptions};
/// use filemap_http::server::{Server, ServerOptions};
///
/// # let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&filemap::Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
/// let address = listener.local_addr()?;
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let server = Server::new(store, ServerOptions::new());
/// let serving = runtime.spawn(server.serve(listener, None, async { drop(stopped.await) }));
///
/// let client = Client::open(&format!("http://{address}"), &ClientOptions::new())?;
/// let page = client.get(&"http://example.com/".into())?.expect("it was put");
/// assert_eq!(page.body, b"hello");
///
/// drop(stop);
/// runtime.block_on(serving)??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Server {
    pub(super) backend: Arc<Backend>,
}

impl Server {
    /// A server of `store`.
    pub fn new(store: PageStore, options: ServerOptions) -> Server {
        Server { backend: Arc::new(Backend::new(store, options)) }
    }

    /// The routes.
    pub(super) fn router(&self) -> Router {
        let backend = &self.backend;
        let panicked = Arc::clone(backend);
        Router::new()
            .route("/", get(inspect::overview::overview))
            .route("/hosts", get(inspect::find::hosts))
            .route("/list", get(inspect::find::list))
            .route("/tree", get(inspect::tree::tree))
            .route("/find", get(inspect::find::find))
            .route("/captures", get(inspect::captures::captures))
            .route("/compare", get(inspect::compare::compare))
            .route("/show", get(inspect::show::show))
            .route("/rendered", get(inspect::rendered::rendered))
            .route("/seen", get(inspect::sets::sets))
            .route("/crawl", get(inspect::crawl::crawl))
            .route("/segments", get(inspect::space::segments))
            .route("/dictionaries", get(inspect::space::dictionaries))
            .route("/style.css", get(inspect::style))
            .route("/charts.js", get(inspect::charts))
            .route("/v1/page", get(pages::read::get).put(pages::write::put).delete(pages::write::remove))
            .route("/v1/pages", post(many::add::add))
            .route("/v1/pages/get", post(many::fetch::fetch))
            .route("/v1/head", get(lists::head))
            .route("/v1/history", get(lists::history))
            .route("/v1/urls", get(lists::urls))
            .route("/v1/count", get(lists::count))
            .route("/v1/hosts", get(hosts::hosts))
            .route("/v1/key", get(lists::key))
            .route("/v1/changes", get(changes::changes))
            .route("/v1/seen", get(seen::manage::all))
            .route("/v1/seen/{name}", get(seen::manage::one).put(seen::manage::create))
            .route("/v1/seen/{name}/add", post(seen::ask::add))
            .route("/v1/seen/{name}/check", post(seen::ask::check))
            .route("/v1/links", get(links::owners::all).put(links::owners::create))
            .route("/v1/links/standing", post(links::owners::report))
            .route("/v1/links/{shard}", get(links::mail::read).post(links::mail::post).delete(links::mail::drop_to))
            .route("/v1/links/{shard}/owner", put(links::owners::take).delete(links::owners::free))
            .route("/v1/sync", post(pages::write::sync))
            .route("/v1/stat", get(figures::stat))
            .route("/v1/hour", get(figures::of_hour))
            .route("/v1/crawl", get(crawl::crawl))
            .route("/v1/segments", get(space::segments))
            .route("/v1/dictionaries", get(space::dictionaries))
            .route("/v1/openapi.json", get(openapi::description))
            .route("/cdx", get(archive::cdx::cdx))
            .route("/timegate/{*url}", get(archive::memento::gate))
            .route("/timemap/link/{*url}", get(archive::memento::link_format))
            .route("/timemap/json/{*url}", get(archive::memento::as_json))
            .route("/web/{*capture}", any(archive::replay::replay))
            .route("/metrics", get(figures::metrics))
            .route("/healthz", get(figures::alive))
            .route("/readyz", get(figures::ready))
            .fallback(guard::no_route)
            .method_not_allowed_fallback(guard::no_method)
            // One layer: each further one costs every request a box and a copy of the rest.
            .layer((
                from_fn_with_state(Arc::clone(backend), pass),
                CompressionLayer::new().quality(CompressionLevel::Fastest),
                CatchPanicLayer::custom(move |panic: Box<dyn Any + Send>| after_panic(&panicked, panic.as_ref())),
            ))
            .with_state(Arc::clone(backend))
    }
}

/// The way of a request: measured, admitted or refused, answered; and its response's headers.
async fn pass(State(backend): State<Arc<Backend>>, request: Request, next: Next) -> Response {
    let measured = Measured::begin(&request);
    let mut response = match guard::admitted(&backend, &request) {
        Ok(allowed) => {
            let mut request = request.map(|body| patient::body(body, backend.options.idle));
            request.extensions_mut().insert(allowed);
            let mut response = next.run(request).await;
            pages::condition::mark_coding(response.headers_mut());
            response
        }
        Err(refusal) => refusal.into_response(),
    };
    guard::restrict(response.headers_mut());
    measured.end(&backend, &response);
    response
}

/// The response to a request whose handler panicked.
fn after_panic(backend: &Backend, panic: &(dyn Any + Send)) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    backend.log(&format!("a handler panicked: {text}"));
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error; the server's log has the cause").into_response()
}
