//! `POST /v1/pages/get`: URLs, a line each; pages as JSON Lines, in the same order. One that is
//! not there, or cannot be read, has a line that says so.

use std::io::Read;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use bytes::Bytes;
use filemap::dump::jsonl;
use filemap::{Error, Lookup, PageStore};
use futures_util::stream::try_unfold;
use http_body_util::{BodyExt, Limited};
use serde_json::json;

use super::super::backend::Backend;
use super::super::refusal::{Answer, Refusal};
use crate::query::Query;
use crate::wire::{LINES_TYPE, Url};

/// Bytes of the URLs of one request.
const MAX_URLS: usize = 64 << 20;
/// Bytes of a page's body in a line, and of the lines of one call of the store.
const MAX_BODY: u64 = 64 << 20;
const PART: usize = 1 << 20;

/// URLs, and how far they were answered.
struct Rest {
    urls: Bytes,
    at: usize,
}

impl Rest {
    fn next(&mut self) -> Option<Bytes> {
        loop {
            let left = &self.urls[self.at..];
            if left.is_empty() {
                return None;
            }
            let end = left.iter().position(|byte| *byte == b'\n').unwrap_or(left.len());
            let line = self.urls.slice(self.at..self.at + end);
            self.at += (end + 1).min(left.len());
            let line = line.strip_suffix(b"\r").map_or(line.clone(), |shorter| line.slice(..shorter.len()));
            if !line.is_empty() {
                return Some(line);
            }
        }
    }
}

/// The route's handler.
pub(crate) async fn fetch(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery, body: Body) -> Answer {
    Query::parse(raw.as_deref(), &[])?;
    let urls = Limited::new(body, MAX_URLS).collect().await.map_err(|error| {
        Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the URLs: {error}; at most {MAX_URLS} bytes in one request"),
        )
    })?;
    let rest = Rest { urls: urls.to_bytes(), at: 0 };
    let body = Body::from_stream(try_unfold(rest, move |rest| {
        let backend = Arc::clone(&backend);
        async move {
            backend.store.call(move |store| part(store, rest)).await.map_err(|error| {
                backend.log(&format!("an answer of /v1/pages/get is cut: {error}"));
                std::io::Error::other(error)
            })
        }
    }));
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(LINES_TYPE))], body).into_response())
}

fn part(store: &PageStore, mut rest: Rest) -> Result<Option<(Bytes, Rest)>, Error> {
    let mut out = Vec::new();
    while out.len() < PART {
        let Some(url) = rest.next() else { break };
        line(store, &url, &mut out)?;
    }
    Ok((!out.is_empty()).then(|| (out.into(), rest)))
}

fn line(store: &PageStore, url: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let said = match store.get_reader(Lookup::new(url)) {
        Ok(Some((mut page, mut reader))) if reader.remaining() <= MAX_BODY => {
            match reader.read_to_end(&mut page.body) {
                Ok(_) => return jsonl::write(&page, out),
                Err(error) => json!({ "error": error.to_string() }),
            }
        }
        Ok(Some((_, reader))) => {
            let bytes = reader.remaining();
            json!({ "error": format!("its body has {bytes} bytes, more than {MAX_BODY}: get it by /v1/page") })
        }
        Ok(None) => json!({ "is_absent": true }),
        Err(error) if error.is_damage() || error.concerns_one_page() => json!({ "error": error.to_string() }),
        Err(error) => return Err(error),
    };
    let mut line = serde_json::to_value(Url::new(url)).unwrap_or_default();
    if let (Some(line), Some(said)) = (line.as_object_mut(), said.as_object()) {
        line.extend(said.clone());
    }
    out.extend_from_slice(line.to_string().as_bytes());
    out.push(b'\n');
    Ok(())
}
