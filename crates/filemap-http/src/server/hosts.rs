//! Hosts with their numbers of pages, in the order of their labels from the last: for `/v1/hosts`
//! and its view. Each takes one look-up: its pages are counted, not listed.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use filemap::Error;
use filemap::access::{Cursor, Scope};
use serde_json::{Value, json};

use super::backend::Backend;
use super::refusal::Answer;
use super::shown::Shown;
use crate::query::Query;
use crate::wire;

/// Most hosts of a response, and their number if `limit` is not given.
const MOST: usize = 1_000;
const LIMIT: usize = 100;

/// Hosts, and the cursor of the next part.
pub(super) struct Hosts {
    pub(super) rows: Vec<(String, u64)>,
    pub(super) next: Option<Cursor>,
    /// True if only URLs without a host follow.
    pub(super) has_rest: bool,
}

/// `GET /v1/hosts`.
pub(super) async fn hosts(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref(), &["cursor", "limit"])?;
    let after = query.read("cursor", "a cursor from an earlier answer", wire::read_cursor)?;
    let wanted = format!("a number of 1 to {MOST}");
    let limit = query.read("limit", &wanted, |text| text.parse().ok().filter(|n| (1..=MOST).contains(n)))?;
    let found = backend.call(move |shown| Ok(next_hosts(shown, after, limit.unwrap_or(LIMIT))?)).await?;
    let row = |(host, pages): &(String, u64)| json!({ "host": host, "pages": pages });
    let mut answer = json!({
        "hosts": found.rows.iter().map(row).collect::<Vec<Value>>(),
        "cursor": found.next.as_ref().map(wire::cursor),
        "has_rest": found.has_rest,
    });
    if let Some(missed) = backend.missed() {
        answer["incomplete"] = json!(missed);
    }
    Ok(Json(answer).into_response())
}

/// Up to `most` hosts after a cursor.
pub(super) fn next_hosts(shown: &Shown, after: Option<Cursor>, most: usize) -> filemap::Result<Hosts> {
    if !shown.capabilities().lists_from_cursor {
        return Err(Error::Unsupported { what: "order of keys, by which hosts are listed" });
    }
    let mut hosts = Hosts { rows: Vec::new(), next: None, has_rest: false };
    let mut place = after;
    loop {
        let Some(listed) = shown.list(&Scope::new(), place.as_ref())?.next().transpose()? else { return Ok(hosts) };
        let Some(host) = host_of(&listed.url) else {
            hosts.has_rest = true;
            return Ok(hosts);
        };
        if hosts.rows.len() == most {
            hosts.next = place;
            return Ok(hosts);
        }
        let of_host = Scope::new().host(&host);
        let pages = shown.count(&of_host)?;
        // Continue after the host's last page in host order: its other pages may be elsewhere.
        let mut end = listed.cursor;
        for last in shown.list(&of_host.backwards(), None)? {
            let last = last?;
            if host_of(&last.url).as_deref() == Some(&host) {
                end = last.cursor;
                break;
            }
        }
        if place == end || end.is_none() {
            return Ok(hosts);
        }
        hosts.rows.push((host, pages));
        place = end;
    }
}

/// The host of a URL that is in host order.
fn host_of(url: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(url);
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.contains('@'))?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => format!("[{}]", rest.split(']').next()?),
        None => authority.split(':').next()?.to_owned(),
    };
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_where_the_order_has_it() {
        for (url, host) in [
            ("http://a.example/x", Some("a.example")),
            ("https://a.example:8443/", Some("a.example")),
            ("http://[::1]:80/", Some("[::1]")),
            ("http://user@a.example/", None),
            ("dns:a.example", None),
            ("http:///x", None),
        ] {
            assert_eq!(host_of(url.as_bytes()).as_deref(), host, "{url}");
        }
    }
}
