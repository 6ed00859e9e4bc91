//! The routes in OpenAPI 3.1. A test checks paths, methods and parameters against the server.

use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;

/// `GET /v1/openapi.json`.
pub(super) async fn description() -> impl IntoResponse {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], include_str!("openapi.json"))
}
