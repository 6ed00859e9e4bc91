//! `PUT` and `DELETE` of a page, and `sync`.
//!
//! Invariant: 201 and 200 mean that the change is on the device; 202 that it survives only as long
//! as the store's process lives.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, RawQuery, Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use filemap::access::PutRule;
use filemap::dump::jsonl;
use filemap::store::PageReader;
use filemap::{Error, Lookup, Page, PageStore, PageWrite, Put, Version};
use tokio::sync::OwnedMutexGuard;

use super::super::backend::Backend;
use super::super::guard::{Allowed, check_writes};
use super::super::lookup::{Asked, durable, rule, time};
use super::super::refusal::{Answer, Refusal};
use super::super::tokens::Right;
use super::upload::{self, Upload};
use super::{condition, read};
use crate::query::Query;
use crate::wire::{self, Done, PAGE_TYPE};

/// Longest body that a put rule compares with the stored one, in bytes: it is read into memory.
const MAX_COMPARED: u64 = 64 << 20;

/// `PUT /v1/page`.
pub(crate) async fn put(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    request: Request,
) -> Answer {
    check_writes(&backend)?;
    allowed.needs(Right::Write)?;
    let (Parts { uri, headers, .. }, body) = request.into_parts();
    let query = Query::parse(uri.query(), &["url", "variant", "time", "status", "rule", "durable"])?;
    let asked = Asked::of(&query)?;
    let rule = rule(&query)?.unwrap_or_default();
    let durable = durable(&query)?;
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Refusal::bad("a page must be put whole: `Content-Range` is not supported"));
    }
    if let Some(coding) = headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        let words =
            format!("send the body without a coding (this one has {coding:?}); for the page's own, send {PAGE_TYPE}");
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    let is_described = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == PAGE_TYPE);
    if is_described && (query.text("time")?.is_some() || query.text("status")?.is_some()) {
        return Err(Refusal::bad("give `time` and `status` in the description before the body"));
    }
    let page = if is_described { None } else { Some(page(&query, &asked, &headers)?) };
    // A client that expects `100 Continue` learns of a refused URL before it sends the body.
    let key = backend.key(&asked.url)?;
    let upload = upload::take(body).await?;
    if rule != PutRule::Always && upload.bytes > MAX_COMPARED {
        let words = format!("with a rule a body may have at most {MAX_COMPARED} bytes: put it without `rule`");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, words));
    }
    let put = PutCall { asked, page, upload, rule, conditions: headers };
    let alone = backend.putting(&key).lock_owned().await;
    let mut done = if put.is_plain() {
        backend.put(put.upload.bytes, move |store| put.run(store, alone)).await?
    } else {
        backend.whole.call(move |store| Ok(put.run(store, alone))).await??
    };
    if durable {
        backend.sync().await?;
        done.durable = true;
    }
    let status = if done.durable { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    Ok((status, Json(done)).into_response())
}

/// A page made from a query and headers, without its body.
fn page(query: &Query, asked: &Asked, headers: &HeaderMap) -> Result<Page, Refusal> {
    let status =
        query.read("status", "a status of 1 to 999", |text| text.parse().ok().filter(|s| (1..1000).contains(s)));
    let mut page =
        Page::new(asked.url.clone(), time(query, "time")?.unwrap_or_else(now_ms), status?.unwrap_or(200), "");
    page.variant = asked.variant.clone();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(read::ORIGINAL) {
            page.headers.push(name, value.as_bytes());
        }
    }
    if let Some(kind) = headers.get(CONTENT_TYPE).filter(|_| page.headers.get("content-type").is_none()) {
        page.headers.push("Content-Type", kind.as_bytes());
    }
    Ok(page)
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A put, complete with its body.
struct PutCall {
    asked: Asked,
    /// `None` if its description precedes its body.
    page: Option<Page>,
    upload: Upload,
    rule: PutRule,
    conditions: HeaderMap,
}

impl PutCall {
    /// Returns whether the put reads nothing of what is stored.
    fn is_plain(&self) -> bool {
        self.rule == PutRule::Always && !condition::is_conditional(&self.conditions)
    }

    fn run(mut self, store: &PageStore, alone: OwnedMutexGuard<()>) -> Result<Done, Refusal> {
        let page = match self.page.take() {
            Some(page) => page,
            None => self.described(store)?,
        };
        check(store, &self.asked, &self.conditions)?;
        let put = put_page(store, page, &mut self.upload, self.rule)?;
        drop(alone);
        let outcome = wire::outcome(put);
        let version = put.map(|put| put.version());
        Ok(Done {
            time_ms: version.map(|version| version.time_ms),
            sequence: version.map(|version| version.sequence),
            ..done(outcome, false)
        })
    }

    /// Reads the description from the beginning of the body.
    fn described(&mut self, store: &PageStore) -> Result<Page, Refusal> {
        let bad = |words: String| Refusal::bad(format!("the description before the body: {words}"));
        let line = self.upload.take_line(wire::MAX_DESCRIPTION).map_err(|error| bad(error.to_string()))?;
        let page = jsonl::read_description(&line).map_err(|error| bad(error.to_string()))?;
        if store.key(&page.url)? != store.key(&self.asked.url)? || page.variant != self.asked.variant {
            return Err(bad("its page differs from the query's".to_owned()));
        }
        Ok(page)
    }
}

fn put_page(store: &PageStore, mut page: Page, upload: &mut Upload, rule: PutRule) -> Result<Option<Put>, Error> {
    if rule == PutRule::Always && upload.is_large() {
        return store.put_page_reader(&page, upload).map(|version| Some(Put::Stored(version)));
    }
    let body = upload.rest();
    page.body = body.map_err(|source| Error::Read { what: "the body set aside".to_owned(), offset: 0, source })?;
    PageWrite::put(store, &page, rule)
}

/// Checks the conditions of a request against what it concerns: the version that it names, each
/// version of exactly its time, or else the current page.
fn check(store: &PageStore, asked: &Asked, headers: &HeaderMap) -> Result<(), Refusal> {
    if !condition::is_conditional(headers) {
        return Ok(());
    }
    let lookup = asked.lookup();
    let one = |found: Option<(Page, PageReader)>| {
        let there = found.map(|(page, reader)| (condition::tag(reader.digest()), page.fetched_at_ms));
        condition::check(headers, there.as_ref().map(|(tag, time_ms)| (tag.as_str(), *time_ms)))
    };
    let Some(time_ms) = asked.version().map(|version| version.time_ms).or(asked.time_ms()) else {
        return one(store.get_reader(lookup)?);
    };
    let is_meant = |version: &Version| asked.version().map_or(version.time_ms == time_ms, |own| own == *version);
    let mut is_there = false;
    for version in store.versions_of(lookup.at(time_ms))?.into_iter().filter(is_meant) {
        is_there = true;
        one(store.get_version_reader(lookup, version)?)?;
    }
    if is_there { Ok(()) } else { one(None) }
}

/// `DELETE /v1/page`.
pub(crate) async fn remove(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
) -> Answer {
    check_writes(&backend)?;
    allowed.needs(Right::Admin)?;
    let query = Query::parse(raw.as_deref(), &[&Asked::PARAMETERS[..], &["durable"]].concat())?;
    let asked = Asked::of(&query)?;
    let durable = durable(&query)?;
    let key = backend.key(&asked.url)?;
    let alone = backend.putting(&key).lock_owned().await;
    let call = move |store: &PageStore| {
        if let Err(refusal) = check(store, &asked, &headers) {
            return Ok(Err(refusal));
        }
        let removed = removed(store, &asked)?;
        drop(alone);
        Ok(Ok((removed, asked)))
    };
    let (removed, asked) = backend.whole.call(call).await??;
    // Even if it was removed before: that response, and its sync, may have been lost.
    if durable {
        backend.sync().await?;
    }
    let Some(mut done) = removed else { return Err(backend.absent(asked.none_of_time())) };
    done.durable |= durable;
    let status = if done.durable { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(done)).into_response())
}

/// Removes a page with all its versions, those of a time, or one; `None` if there are none.
fn removed(store: &PageStore, asked: &Asked) -> filemap::Result<Option<Done>> {
    let of_page = Lookup::new(&asked.url).variant(asked.variant.as_ref());
    let some = match (asked.version(), asked.time_ms()) {
        (Some(version), _) => store.remove_version(of_page, version)?,
        (None, Some(time_ms)) => store.remove_at(of_page, time_ms)?,
        (None, None) => {
            let was_there = PageWrite::remove(store, &asked.url, asked.variant.as_ref())?;
            return Ok(was_there.then(|| done("removed", false)));
        }
    };
    Ok(some.map(|some| Done {
        versions: Some(some.versions),
        beside: Some(some.beside),
        parted: Some(some.parted),
        without_body: Some(some.without_body),
        // A removal of single versions is always durable.
        ..done("removed", true)
    }))
}

/// `POST /v1/sync`.
pub(crate) async fn sync(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
) -> Result<Response, Refusal> {
    check_writes(&backend)?;
    allowed.needs(Right::Write)?;
    backend.sync().await?;
    Ok(Json(done("synced", true)).into_response())
}

fn done(outcome: &str, durable: bool) -> Done {
    Done { outcome: outcome.to_owned(), durable, ..Done::default() }
}
