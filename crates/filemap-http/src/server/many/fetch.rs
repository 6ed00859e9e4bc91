//! `POST /v1/pages/get`: one URL a line in; pages as JSON Lines or a WARC stream out, in the same
//! order. A missing or unreadable page has a line or record to that effect.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use bytes::Bytes;
use filemap::dump::{jsonl, warc_begin, warc_note};
use filemap::{Error, Lookup};
use futures_util::stream::try_unfold;
use serde_json::json;

use super::super::backend::Backend;
use super::super::pages::upload::{self, Upload};
use super::super::refusal::Answer;
use super::super::shown::{Found, Shown};
use crate::query::Query;
use crate::wire::{LINES_TYPE, Url};

/// Media type of a WARC stream.
const WARC_TYPE: &str = "application/warc";

/// Name of the stream, in its records about other records.
const STREAM: &str = "pages.warc";

/// Maximum number of bytes of URLs in one request.
const MAX_URLS: u64 = 64 << 20;
/// Maximum number of bytes of a page's body in a line, and of lines from one call of the store.
const MAX_BODY: u64 = 64 << 20;
const PART: usize = 1 << 20;

/// Format of the pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Warc,
}

/// URLs not answered yet.
struct Rest {
    urls: BufReader<Upload>,
    form: Form,
    has_begun: bool,
}

impl Rest {
    fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let mut line = Vec::new();
            let read = self.urls.read_until(b'\n', &mut line);
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
pub(crate) async fn fetch(
    State(backend): State<Arc<Backend>>,
    RawQuery(raw): RawQuery,
    head: HeaderMap,
    body: Body,
) -> Answer {
    Query::parse(raw.as_deref(), &[])?;
    let accepts = head.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let (form, kind) = if accepts.split([',', ';']).any(|kind| kind.trim() == WARC_TYPE) {
        (Form::Warc, WARC_TYPE)
    } else {
        (Form::Lines, LINES_TYPE)
    };
    let urls = BufReader::new(upload::take_up_to(body, MAX_URLS).await?);
    let rest = Rest { urls, form, has_begun: false };
    let body = Body::from_stream(try_unfold(rest, move |rest| {
        let backend = Arc::clone(&backend);
        async move {
            let of_call = Arc::clone(&backend);
            backend.call(move |shown| Ok(part(&of_call, shown, rest)?)).await.map_err(|error| {
                backend.log(&format!("an answer of /v1/pages/get is cut: {}", error.detail()));
                std::io::Error::other(error.detail())
            })
        }
    }));
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response())
}

fn part(backend: &Backend, shown: &Shown, mut rest: Rest) -> Result<Option<(Bytes, Rest)>, Error> {
    let mut out = Vec::new();
    if rest.form == Form::Warc && !rest.has_begun {
        out.extend(warc_begin(STREAM, now_ms()));
    }
    rest.has_begun = true;
    while out.len() < PART {
        let Some(url) = rest.next()? else { break };
        let missed = match written(shown, &url, rest.form, &mut out) {
            Ok(Written::Whole) => continue,
            Ok(Written::Absent) => match backend.missed() {
                Some(missed) => json!({ "error": missed }),
                None => json!({ "is_absent": true }),
            },
            Ok(Written::Not(why)) => json!({ "error": why }),
            Ok(Written::Blocked(why)) => json!({ "error": why, "access": "block" }),
            Err(error) if error.is_damage() || error.concerns_one_page() => json!({ "error": error.to_string() }),
            Err(error) => return Err(error),
        };
        let mut line = serde_json::to_value(Url::new(&url)).unwrap_or_default();
        if let (Some(line), Some(missed)) = (line.as_object_mut(), missed.as_object()) {
            line.extend(missed.clone());
        }
        match rest.form {
            Form::Lines => out.extend_from_slice(format!("{line}\n").as_bytes()),
            Form::Warc => out.extend(warc_note(STREAM, now_ms(), &line)),
        }
    }
    Ok((!out.is_empty()).then(|| (out.into(), rest)))
}

/// Outcome of writing a page.
enum Written {
    Whole,
    Absent,
    Not(String),
    Blocked(String),
}

/// Writes the page of a URL.
fn written(shown: &Shown, url: &[u8], form: Form, out: &mut Vec<u8>) -> Result<Written, Error> {
    let (mut page, mut reader) = match shown.open(Lookup::new(url), None)? {
        Found::Here(found) => found,
        Found::Blocked(why) => return Ok(Written::Blocked(why)),
        Found::Absent => return Ok(Written::Absent),
    };
    let bytes = reader.remaining();
    if bytes > MAX_BODY {
        let why = format!("its body has {bytes} bytes, more than {MAX_BODY}: get it from /v1/page");
        return Ok(Written::Not(why));
    }
    if form == Form::Warc {
        let Some(record) = shown.record(Lookup::new(url), reader.version())? else { return Ok(Written::Absent) };
        out.extend(record);
        return Ok(Written::Whole);
    }
    match reader.read_to_end(&mut page.body) {
        Ok(_) => jsonl::write(&page, out).map(|()| Written::Whole),
        Err(error) => Ok(Written::Not(error.to_string())),
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
