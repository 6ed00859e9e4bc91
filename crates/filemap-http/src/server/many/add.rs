//! `POST /v1/pages`: uploads many pages, each answered by a line, so that a disconnected client
//! knows what to resend. JSON Lines are handled here, WARC, ARC and WACZ files in `file`.
//!
//! Invariant: a line with `stored` is sent when the page is durable, unless `durable=0`.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use axum::response::IntoResponse;
use bytes::Bytes;
use filemap::access::PutRule;
use filemap::dump::jsonl;
use filemap::{Error, Page, PageStore, PageWrite, Put};
use futures_util::stream::try_unfold;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;

use super::super::backend::Backend;
use super::super::guard::{Allowed, check_writes};
use super::super::lookup::{durable, rule};
use super::super::pages::upload::{self, Upload};
use super::super::refusal::{Answer, Refusal};
use super::super::tokens::Right;
use super::file::{self, Form};
use crate::query::Query;
use crate::wire::{self, LINES_TYPE};

/// Lines, and bytes of lines, per call of the store.
const LINES: usize = 1_024;
const PART: usize = 4 << 20;
/// The longest line, in bytes.
const MAX_LINE: u64 = 128 << 20;

/// State of an upload between two calls of the store.
struct Rest {
    lines: BufReader<Upload>,
    number: u64,
    stored: u64,
    unchanged: u64,
    refused: u64,
    rule: PutRule,
    durable: bool,
    is_done: bool,
    /// A page whose lock another put holds, and its key.
    waiting: Option<(Page, Vec<u8>)>,
}

/// The route's handler.
pub(crate) async fn add(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    check_writes(&backend)?;
    allowed.needs(Right::Write)?;
    let query = Query::parse(raw.as_deref(), &["rule", "durable", "as_received", "keep"])?;
    let rule = rule(&query)?;
    let durable = durable(&query)?;
    if headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        let words = "send the pages without a coding; send a compressed WARC file unchanged as `application/warc`";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let body = match kind.split(';').next().unwrap_or_default().trim() {
        LINES_TYPE | "application/jsonl" | "application/json" => {
            if query.bytes("as_received").or(query.bytes("keep")).is_some() {
                return Err(Refusal::bad("`as_received` and `keep` are for archive files"));
            }
            let lines = BufReader::with_capacity(256 << 10, upload::take(body).await?);
            let rule = rule.unwrap_or(PutRule::IfNew);
            let rest = Rest {
                lines,
                number: 0,
                stored: 0,
                unchanged: 0,
                refused: 0,
                rule,
                durable,
                is_done: false,
                waiting: None,
            };
            answered(&backend, rest)
        }
        "application/warc" | "application/wacz" if rule.is_some() => {
            return Err(Refusal::bad("`rule` is for JSON Lines: a file is imported once, however often it is sent"));
        }
        "application/warc" => file::take(&backend, body, Form::Warc, file::options(&query)?, durable).await?,
        "application/wacz" => file::take(&backend, body, Form::Wacz, file::options(&query)?, durable).await?,
        other => {
            let words = format!("send {LINES_TYPE}, application/warc or application/wacz, not `{other}`");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
        }
    };
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(LINES_TYPE))], body).into_response())
}

fn answered(backend: &Arc<Backend>, rest: Rest) -> Body {
    let backend = Arc::clone(backend);
    Body::from_stream(try_unfold(rest, move |mut rest| {
        let backend = Arc::clone(&backend);
        async move {
            while !rest.is_done {
                // Outside the pool, because the holder of the lock may be waiting for a turn
                // there.
                let alone = match &rest.waiting {
                    Some((_, key)) => Some(backend.putting(key).lock_owned().await),
                    None => None,
                };
                let of_call = Arc::clone(&backend);
                let done = backend.whole.call(move |store| part(&of_call, store, rest, alone)).await;
                let (out, after) = done.map_err(|error| {
                    backend.log(&format!("an upload of pages was stored only in part: {error}"));
                    std::io::Error::other(error)
                })?;
                if !out.is_empty() {
                    return Ok(Some((out, after)));
                }
                rest = after;
            }
            Ok::<_, std::io::Error>(None)
        }
    }))
}

/// Puts the next lines. An error that concerns more than one page ends the response, with a line
/// that reports it: no later line was put.
fn part(
    backend: &Backend,
    store: &PageStore,
    mut rest: Rest,
    mut alone: Option<OwnedMutexGuard<()>>,
) -> Result<(Bytes, Rest), Error> {
    let mut out = Vec::new();
    let first = rest.number + u64::from(rest.waiting.is_none());
    let (mut bytes, mut line) = (0, Vec::new());
    let mut load = store.load();
    for _ in 0..LINES {
        let waited = rest.waiting.take().map(|(page, _)| Ok(page));
        let Some(found) = waited.map_or_else(|| rest.next(&mut line, &mut out), |page| Ok(Some(page)))? else { break };
        bytes += line.len();
        let put = match found {
            Ok(page) => {
                // A page without a key is refused below.
                let key = store.key(&page.url).ok();
                let lock = key.as_ref().filter(|_| alone.is_none()).map(|key| backend.putting(key).try_lock_owned());
                let _alone = match (lock, key) {
                    (Some(Err(_)), Some(key)) => {
                        rest.waiting = Some((page, key));
                        break;
                    }
                    (lock, _) => alone.take().or(lock.and_then(Result::ok)),
                };
                load(&page, rest.rule).map_err(|error| (error.concerns_one_page(), error.to_string()))
            }
            Err(error) => Err((true, error)),
        };
        match put {
            Ok(put) => {
                rest.stored += u64::from(matches!(put, Some(Put::Stored(_))));
                rest.unchanged += u64::from(matches!(put, Some(Put::Unchanged(_))));
                say(&mut out, json!({ "line": rest.number, "outcome": wire::outcome(put) }));
            }
            Err((is_its_own, words)) => {
                rest.refused += 1;
                say(&mut out, json!({ "line": rest.number, "error": words }));
                if !is_its_own {
                    backend.log(&format!("an upload of pages was stored only up to line {}", rest.number));
                    rest.is_done = true;
                    break;
                }
            }
        }
        if bytes >= PART {
            break;
        }
    }
    drop(load);
    rest.end_part(backend, store, first, &mut out);
    Ok((out.into(), rest))
}

impl Rest {
    /// The next line's page, or its error; `None` at the end.
    fn next(&mut self, line: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<Option<Result<Page, String>>, Error> {
        loop {
            line.clear();
            let read = (&mut self.lines).take(MAX_LINE + 1).read_until(b'\n', line);
            read.map_err(|source| Error::Read { what: "the lines set aside".to_owned(), offset: 0, source })?;
            if line.is_empty() {
                self.is_done = true;
                return Ok(None);
            }
            self.number += 1;
            if line.len() as u64 > MAX_LINE {
                self.refused += 1;
                self.is_done = true;
                let words = format!("a line has at most {MAX_LINE} bytes; the rest was not read");
                say(out, json!({ "line": self.number, "error": words }));
                return Ok(None);
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(jsonl::read(line).map_err(|error| error.to_string())));
            }
        }
    }

    /// Syncs a part; after the last part, writes the sums.
    fn end_part(&mut self, backend: &Backend, store: &PageStore, first: u64, out: &mut Vec<u8>) {
        if self.durable
            && let Err(error) = store.sync()
        {
            let words = format!("lines {first} to {} are not durable, and have no answer: {error}", self.number);
            backend.log(&format!("an upload of pages: {words}"));
            // No line of the part may be called stored.
            out.clear();
            say(out, json!({ "error": words }));
            self.is_done = true;
            return;
        }
        if self.is_done {
            let (lines, stored, unchanged, refused) = (self.number, self.stored, self.unchanged, self.refused);
            let durable = self.durable;
            let sums = json!({ "lines": lines, "stored": stored, "unchanged": unchanged, "refused": refused, "durable": durable });
            say(out, sums);
        }
    }
}

fn say(out: &mut Vec<u8>, line: Value) {
    out.extend_from_slice(line.to_string().as_bytes());
    out.push(b'\n');
}
