//! Memento (RFC 7089): `/timegate/URL` redirects to the capture nearest to `Accept-Datetime`,
//! `/timemap/link/URL` and `/timemap/json/URL` list all captures of a URL.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LINK, LOCATION, VARY};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use filemap::{Version, date};
use serde_json::{Value, json};

use super::super::backend::Backend;
use super::super::pages::read;
use super::super::refusal::{Answer, Refusal};
use super::super::shown::Shown;
use super::captures::{MOST, base, behind, named, nearest};

const ACCEPT_DATETIME: HeaderName = HeaderName::from_static("accept-datetime");

/// The address of a capture.
pub(super) fn location(base: &str, time_ms: i64, url: &str) -> String {
    format!("{base}/web/{}id_/{}", date::stamp(time_ms), ascii(url))
}

/// A URL from a request's target, escaped to ASCII for a header.
fn ascii(url: &str) -> String {
    read::escaped(url.as_bytes()).to_str().unwrap_or_default().to_owned()
}

/// The `Link` header of a capture or a timegate.
pub(super) fn links(base: &str, url: &str) -> String {
    let url = ascii(url);
    format!(
        "<{url}>; rel=\"original\", <{base}/timegate/{url}>; rel=\"timegate\", \
         <{base}/timemap/link/{url}>; rel=\"timemap\"; type=\"application/link-format\""
    )
}

/// The versions of the page that a URL names, newest first, one per second.
async fn versions(backend: &Backend, url: &str) -> Result<Vec<Version>, Refusal> {
    let asked = url.as_bytes().to_vec();
    let find = move |shown: &Shown| {
        let Some(named) = named(shown, &asked)? else { return Ok(Vec::new()) };
        Ok(shown.captures(named.lookup())?)
    };
    let mut versions = backend.call(find).await?;
    versions.dedup_by_key(|version| version.time_ms.div_euclid(1000));
    if versions.is_empty() {
        return Err(backend.absent(format!("the store has no capture of {url}")));
    }
    Ok(versions)
}

/// `GET /timegate/URL`.
pub(crate) async fn gate(State(backend): State<Arc<Backend>>, uri: Uri, headers: HeaderMap) -> Answer {
    let url = behind(uri.path_and_query().map_or("", |target| target.as_str()), "/timegate/");
    let wanted = match headers.get(ACCEPT_DATETIME) {
        None => i64::MAX,
        Some(text) => {
            let time = text.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok());
            let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let since = since.and_then(|since| i64::try_from(since.as_millis()).ok());
            since.ok_or_else(|| Refusal::bad("`Accept-Datetime` is a date such as Tue, 14 Nov 2023 22:13:20 GMT"))?
        }
    };
    let versions = versions(&backend, url).await?;
    let found = nearest(&versions, wanted).map_or(wanted, |version| version.time_ms);
    let base = base(&backend, &headers)?;
    let mut answer = HeaderMap::new();
    answer.insert(LOCATION, read::value(&location(&base, found, url))?);
    answer.insert(VARY, HeaderValue::from_static("accept-datetime"));
    answer.insert(LINK, read::value(&links(&base, url))?);
    Ok((StatusCode::FOUND, answer).into_response())
}

/// `GET /timemap/link/URL`.
pub(crate) async fn link_format(State(backend): State<Arc<Backend>>, uri: Uri, headers: HeaderMap) -> Answer {
    let url = behind(uri.path_and_query().map_or("", |target| target.as_str()), "/timemap/link/");
    let versions = listed(&backend, url).await?;
    let base = base(&backend, &headers)?;
    let [first, last] = ends(&versions).map(|version| rfc_date(version.time_ms));
    let mut text = format!(
        "<{url}>; rel=\"original\",\n<{base}/timegate/{url}>; rel=\"timegate\",\n<{base}/timemap/link/{url}>; rel=\"self\"; \
         type=\"application/link-format\"; from=\"{first}\"; until=\"{last}\""
    );
    let count = versions.len();
    for (nth, version) in versions.iter().rev().enumerate() {
        let rel = match (nth == 0, nth + 1 == count) {
            (true, true) => "first last memento",
            (true, false) => "first memento",
            (false, true) => "last memento",
            (false, false) => "memento",
        };
        let (place, when) = (location(&base, version.time_ms, url), rfc_date(version.time_ms));
        text.push_str(&format!(",\n<{place}>; rel=\"{rel}\"; datetime=\"{when}\""));
    }
    text.push('\n');
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/link-format"))], text).into_response())
}

/// `GET /timemap/json/URL`.
pub(crate) async fn as_json(State(backend): State<Arc<Backend>>, uri: Uri, headers: HeaderMap) -> Answer {
    let url = behind(uri.path_and_query().map_or("", |target| target.as_str()), "/timemap/json/");
    let versions = listed(&backend, url).await?;
    let base = base(&backend, &headers)?;
    let row = |version: &Version| -> Value {
        json!({ "datetime": date::format(version.time_ms), "uri": location(&base, version.time_ms, url) })
    };
    let [first, last] = ends(&versions);
    Ok(Json(json!({
        "original_uri": url,
        "timegate_uri": format!("{base}/timegate/{url}"),
        "timemap_uri": {
            "link_format": format!("{base}/timemap/link/{url}"),
            "json_format": format!("{base}/timemap/json/{url}"),
        },
        "mementos": {
            "first": row(first),
            "last": row(last),
            "list": versions.iter().rev().map(row).collect::<Vec<_>>(),
        },
    }))
    .into_response())
}

/// The versions for a timemap, which is complete or refused.
async fn listed(backend: &Backend, url: &str) -> Result<Vec<Version>, Refusal> {
    let versions = versions(backend, url).await?;
    if versions.len() > MOST {
        let words =
            format!("{url} has {} captures, more than {MOST}: ask `/cdx` for those of a time range", versions.len());
        return Err(Refusal::bad(words));
    }
    Ok(versions)
}

/// The oldest and the newest version. There must be at least one.
fn ends(versions: &[Version]) -> [&Version; 2] {
    const NONE: &Version = &Version { time_ms: 0, sequence: 0 };
    [versions.last().unwrap_or(NONE), versions.first().unwrap_or(NONE)]
}

fn rfc_date(time_ms: i64) -> String {
    read::http_date(time_ms).and_then(|date| Some(date.to_str().ok()?.to_owned())).unwrap_or_default()
}
