//! Counts and times each request, and logs those that fail.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{Method, Uri};
use axum::response::Response;

use super::backend::Backend;
use super::refusal::Cause;

/// A request under way.
pub(super) struct Measured {
    begun: Instant,
    method: &'static str,
    path: Option<MatchedPath>,
    target: Uri,
}

impl Measured {
    pub(super) fn begin(request: &Request) -> Measured {
        let path = request.extensions().get::<MatchedPath>().cloned();
        Measured { begun: Instant::now(), method: name(request.method()), path, target: request.uri().clone() }
    }

    /// Counts the request; logs the cause of a status of 500 and above.
    pub(super) fn end(self, backend: &Backend, response: &Response) {
        let Measured { begun, method, path, target } = self;
        // Unknown paths count as one route: their number is unbounded.
        let route = path.as_ref().map_or("other", MatchedPath::as_str);
        let status = response.status();
        // The status of a capture is not the server's.
        if status.is_server_error() && !response.headers().contains_key("memento-datetime") {
            let cause = response.extensions().get::<Cause>().map_or("unknown cause", |cause| &cause.0);
            backend.log(&format!("{method} {target}: {status}: {cause}"));
        }
        let took = begun.elapsed();
        if route == "/v1/page" {
            backend.hour.add(method, took);
        }
        backend.counters.add(method, route, status.as_u16(), took);
    }
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
