//! Lists over HTTP: URLs, page counts, a page's versions, a URL's canonical form. Each response
//! has a bounded part of a list, and the cursor of the next.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use filemap::dump::jsonl;
use filemap::{Error, Version};
use serde_json::{Value, json};

use super::backend::Backend;
use super::lookup::{Asked, SCOPE, scope};
use super::refusal::{Answer, Refusal};
use super::shown::{Capture, Shown};
use crate::query::Query;
use crate::wire::{self, Entry, History, Listing, Url};

/// Entries of a response: default and upper bound of `limit`; and the maximum number of versions,
/// which carry their headers.
const LIMIT: usize = 1_000;
const MAX_LIMIT: usize = 100_000;
const MAX_VERSIONS: usize = 1_000;

fn limit(query: &Query, most: usize) -> Result<usize, String> {
    let wanted = format!("a number of 1 to {most}");
    let limit = query.read("limit", &wanted, |text| text.parse().ok().filter(|n| (1..=most).contains(n)))?;
    Ok(limit.unwrap_or(LIMIT))
}

/// `GET /v1/urls`.
pub(super) async fn urls(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref(), &[&SCOPE[..], &["cursor", "after", "limit", "cursors"]].concat())?;
    let (scope, limit) = (scope(&query)?, limit(&query, MAX_LIMIT)?);
    let cursor = query.read("cursor", "a cursor from an earlier answer", wire::read_cursor)?;
    let after = query.bytes("after").map(<[u8]>::to_vec);
    let with_cursors = query.switch("cursors")?.unwrap_or(false);
    if cursor.is_some() && after.is_some() {
        return Err(Refusal::bad("give `cursor` or `after`, not both"));
    }
    let list = move |shown: &Shown| {
        let after = match after {
            Some(url) => Some(shown.cursor(&url)?),
            None => cursor,
        };
        let mut listed = shown.list(&scope, after.as_ref())?;
        let (mut urls, mut last) = (Vec::new(), None);
        for entry in listed.by_ref().take(limit) {
            let entry = entry?;
            urls.push(Entry::new(&entry, with_cursors));
            last = entry.cursor;
        }
        let is_cut = urls.len() == limit && listed.next().transpose()?.is_some();
        match (is_cut, last) {
            (true, None) => {
                let what = "order of keys, so that a list is given whole or not: raise `limit`";
                Err(Error::Unsupported { what }.into())
            }
            (is_cut, last) => {
                let cursor = last.filter(|_| is_cut).map(|last| wire::cursor(&last));
                Ok(Listing { urls, cursor, incomplete: None })
            }
        }
    };
    let mut listing = backend.call(list).await?;
    listing.incomplete = backend.missed();
    Ok(Json(listing).into_response())
}

/// `GET /v1/count`.
pub(super) async fn count(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let scope = scope(&Query::parse(raw.as_deref(), &SCOPE)?)?;
    let number = backend.call(move |shown| Ok(shown.count(&scope)?)).await?;
    if let Some(missed) = backend.missed() {
        return Err(Refusal::damage(format!("{number} or more: {missed}")));
    }
    Ok(Json(json!({ "count": number })).into_response())
}

/// `GET /v1/key`: the canonical form of a URL, and the cursor after it.
pub(super) async fn key(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref(), &["url"])?;
    let url = query.needed("url")?.to_vec();
    let find = move |shown: &Shown| {
        let key = shown.key(&url)?;
        let cursor = if shown.capabilities().lists_from_cursor { Some(shown.cursor(&url)?) } else { None };
        let has_variants = shown.may_have_variants(&url)?;
        Ok((key, cursor, has_variants))
    };
    let (key, cursor, has_variants) = backend.call(find).await?;
    let mut found = serde_json::to_value(Url::new(&key)).unwrap_or_default();
    found["cursor"] = json!(cursor.map(|cursor| wire::cursor(&cursor)));
    found["may_have_variants"] = json!(has_variants);
    Ok(Json(found).into_response())
}

/// `GET /v1/head`: a version without its body.
pub(super) async fn head(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref(), &["url", "variant", "at"])?;
    let asked = Asked::of(&query)?;
    let is_of_time = asked.is_of_time();
    let look = move |shown: &Shown| Ok((shown.head(asked.lookup())?.or_refused()?, asked));
    let (head, asked) = if is_of_time { backend.call(look).await? } else { backend.read(look).await? };
    let head = head.ok_or_else(|| backend.absent(asked.absent()))?;
    Ok(Json(jsonl::head(&head)?).into_response())
}

/// `GET /v1/history`: versions, newest first. One that cannot be read, or that an access rule
/// blocks, keeps its place, with its version and the error.
pub(super) async fn history(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref(), &["url", "variant", "at", "after", "limit"])?;
    let (asked, limit) = (Asked::of(&query)?, limit(&query, MAX_VERSIONS)?);
    let after = query.read("after", "a value from an earlier answer", wire::read_version)?;
    let list = move |shown: &Shown| {
        let mut history = History { versions: Vec::new(), after: None };
        let mut last = None;
        // Up to the time of the last version that the client has.
        let lookup = after.map_or(asked.lookup(), |after| asked.lookup().at(after.time_ms));
        for found in shown.history(lookup)? {
            let (version, row) = row(found)?;
            // Newest first: by time, then by sequence.
            let is_behind = |after: Version| (version.time_ms, version.sequence) < (after.time_ms, after.sequence);
            if !after.is_none_or(is_behind) {
                continue;
            }
            if history.versions.len() == limit {
                history.after = last.map(wire::version);
                break;
            }
            history.versions.push(row);
            last = Some(version);
        }
        Ok((history, asked))
    };
    let (history, asked) = backend.call(list).await?;
    if history.versions.is_empty() && after.is_none() {
        return Err(backend.absent(asked.absent()));
    }
    Ok(Json(history).into_response())
}

/// A version of a history, as JSON.
fn row(found: filemap::Result<Capture>) -> filemap::Result<(Version, Value)> {
    match found {
        Ok(Capture { head, blocked: None }) => Ok((head.version, jsonl::head(&head)?)),
        Ok(Capture { head, blocked: Some(why) }) => {
            let (time_ms, sequence) = (head.version.time_ms, head.version.sequence);
            let row = json!({ "time_ms": time_ms, "sequence": sequence, "error": why, "access": "block" });
            Ok((head.version, row))
        }
        Err(error) => match &error {
            Error::Unreadable { version, source, .. } => {
                let (time_ms, sequence) = (version.time_ms, version.sequence);
                Ok((*version, json!({ "time_ms": time_ms, "sequence": sequence, "error": source.to_string() })))
            }
            _ => Err(error),
        },
    }
}
