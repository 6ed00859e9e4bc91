//! Counts and times each request, and logs those that fail.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use super::backend::Backend;
use super::refusal::Cause;

/// Counts a request; logs the cause of a status of 500 and above.
pub(super) async fn measure(State(backend): State<Arc<Backend>>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = name(request.method());
    // Unknown paths count as one route: their number is unbounded.
    let route = request.extensions().get::<MatchedPath>().map_or("other".to_owned(), |path| path.as_str().to_owned());
    let target = request.uri().clone();
    let response = next.run(request).await;
    let status = response.status();
    // The status of a capture is not the server's.
    if status.is_server_error() && !response.headers().contains_key("memento-datetime") {
        let cause = response.extensions().get::<Cause>().map_or("unknown cause", |cause| &cause.0);
        backend.log(&format!("{method} {target}: {status}: {cause}"));
    }
    if route == "/v1/page" {
        backend.hour.add(method, begun.elapsed());
    }
    backend.counters.add(method, route, status.as_u16(), begun.elapsed());
    response
}

fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
