//! `POST /v1/pages/get`: URLs, a line each; pages as JSON Lines, in the same order. One that is
//! not there, or cannot be read, has a line that says so.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use bytes::Bytes;
use filemap::dump::jsonl;
use filemap::{Error, Lookup, PageStore};
use futures_util::stream::try_unfold;
use serde_json::json;

use super::super::backend::Backend;
use super::super::pages::upload::{self, Upload};
use super::super::refusal::Answer;
use crate::query::Query;
use crate::wire::{LINES_TYPE, Url};

/// Bytes of the URLs of one request.
const MAX_URLS: u64 = 64 << 20;
/// Bytes of a page's body in a line, and of the lines of one call of the store.
const MAX_BODY: u64 = 64 << 20;
const PART: usize = 1 << 20;

/// URLs that were not answered yet.
struct Rest(BufReader<Upload>);

impl Rest {
    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let mut line = Vec::new();
            let read = self.0.read_until(b'\n', &mut line);
            let read =
                read.map_err(|source| Error::Read { what: "the URLs set aside".to_owned(), offset: 0, source })?;
            if read == 0 {
                return Ok(None);
            }
            let url = line.trim_ascii_end();
            if !url.is_empty() {
                return Ok(Some(url.to_vec()));
            }
        }
    }
}

/// The route's handler.
pub(crate) async fn fetch(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery, body: Body) -> Answer {
    Query::parse(raw.as_deref(), &[])?;
    let rest = Rest(BufReader::new(upload::take_up_to(body, MAX_URLS).await?));
    let body = Body::from_stream(try_unfold(rest, move |rest| {
        let backend = Arc::clone(&backend);
        async move {
            let of_call = Arc::clone(&backend);
            backend.store.call(move |store| part(&of_call, store, rest)).await.map_err(|error| {
                backend.log(&format!("an answer of /v1/pages/get is cut: {error}"));
                std::io::Error::other(error)
            })
        }
    }));
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(LINES_TYPE))], body).into_response())
}

fn part(backend: &Backend, store: &PageStore, mut rest: Rest) -> Result<Option<(Bytes, Rest)>, Error> {
    let mut out = Vec::new();
    while out.len() < PART {
        let Some(url) = rest.next()? else { break };
        line(backend, store, &url, &mut out)?;
    }
    Ok((!out.is_empty()).then(|| (out.into(), rest)))
}

fn line(backend: &Backend, store: &PageStore, url: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
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
        Ok(None) => match backend.missed() {
            Some(missed) => json!({ "error": missed }),
            None => json!({ "is_absent": true }),
        },
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
