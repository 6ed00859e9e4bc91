//! `/rendered`: a body as a browser renders it, in the frame of `/show`. It runs no scripts,
//! submits nothing, and loads only what it contains.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::IntoResponse;

use super::super::backend::Backend;
use super::super::lookup::Asked;
use super::super::pages::send;
use super::super::refusal::Answer;
use super::super::shown::Shown;
use crate::query::Query;

/// No origin; only inline styles and `data:` images.
const POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; \
                      base-uri 'none'; frame-ancestors 'self'";

/// The frame's content.
pub(crate) async fn rendered(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let asked = Asked::of(&Query::parse(raw.as_deref(), &["url", "variant", "version"])?)?;
    let open = move |shown: &Shown| Ok((shown.open(asked.lookup(), asked.version())?.or_refused()?, asked));
    let (found, asked) = backend.read(open).await?;
    let Some((page, reader)) = found else { return Err(backend.absent(asked.absent())) };
    let mut headers = HeaderMap::new();
    let kind = page.headers.get("content-type").and_then(|value| HeaderValue::from_bytes(value).ok());
    headers.insert(CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(HeaderName::from_static("x-dns-prefetch-control"), HeaderValue::from_static("off"));
    let bytes = reader.remaining();
    Ok((headers, send::body(&backend, &page.url, Vec::new(), reader, bytes)).into_response())
}
