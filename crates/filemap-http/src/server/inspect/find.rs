//! `/hosts`, `/list`, `/find`: navigation from all hosts to one page.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use filemap::access::{Listed, Scope};
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::hosts::next_hosts;
use super::super::refusal::Refusal;
use super::layout::{as_json, failed, number, of_url, text, view, view_of, warning};
use crate::query::{Query, encoded};
use crate::wire;

/// Rows per view.
const ROWS: usize = 100;

/// `/hosts`.
pub(crate) async fn hosts(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let query = Query::parse(raw.as_deref(), &["cursor"])?;
        let after = query.read("cursor", "a cursor from an earlier view", wire::read_cursor)?;
        let of_part = after.as_ref().map_or(String::new(), |after| format!("&cursor={}", wire::cursor(after)));
        let hosts = backend.call(move |shown| Ok(next_hosts(shown, after, ROWS)?)).await?;
        Ok::<_, Refusal>((hosts, of_part))
    };
    let (found, of_part) = match found.await {
        Ok(found) => found,
        Err(refusal) => return failed(refusal),
    };
    let content = html! {
        (warning(backend.missed()))
        @if found.rows.is_empty() { p { "There are no more hosts." } } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Hosts" {
                table {
                    thead { tr { th scope="col" { "Host" } th scope="col" class="n" { "Pages" } th scope="col" { "By path" } } }
                    tbody {
                        @for (host, pages) in &found.rows {
                            tr {
                                td { a href={ "/list?host=" (encoded(host.as_bytes())) } { (host) } }
                                td class="n" { (number(*pages)) }
                                td { a href={ "/tree?host=" (encoded(host.as_bytes())) } aria-label={ (host) " by path" } { "By path" } }
                            }
                        }
                    }
                }
            }
        }
        @if let Some(next) = &found.next { p { a href={ "/hosts?cursor=" (wire::cursor(next)) } { "Next hosts" } } }
        @if found.has_rest { p { "URLs without a host, or with a user, come after these: find them by their prefix, such as dns:*." } }
        (as_json(&format!("/v1/hosts?limit={ROWS}{of_part}")))
    };
    view("Hosts", &content)
}

/// `/list`: the pages of a host, or those that begin with a prefix.
pub(crate) async fn list(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let query = Query::parse(raw.as_deref(), &["host", "prefix", "cursor"])?;
        let mut scope = Scope::new();
        if let Some(host) = query.text("host")? {
            scope = scope.host(host);
        }
        if let Some(prefix) = query.bytes("prefix") {
            scope = scope.prefix(prefix);
        }
        if scope.host.is_some() && !scope.prefix.is_empty() {
            return Err(Refusal::bad("give `host` or `prefix`, not both"));
        }
        let after = query.read("cursor", "a cursor from an earlier view", wire::read_cursor)?;
        let of_call = scope.clone();
        let listed = backend.call(move |shown| {
            let mut listed: Vec<Listed> =
                shown.list(&of_call, after.as_ref())?.take(ROWS + 1).collect::<filemap::Result<_>>()?;
            let is_cut = listed.len() > ROWS;
            listed.truncate(ROWS);
            let pages = shown.count(&of_call)?;
            Ok((listed, is_cut, pages))
        });
        Ok::<_, Refusal>((scope, listed.await?))
    };
    let (scope, (listed, is_cut, pages)) = match found.await {
        Ok(found) => found,
        Err(refusal) => return failed(refusal),
    };
    let mut of_scope = scope.host.as_ref().map_or(String::new(), |host| format!("host={}", encoded(host.as_bytes())));
    if !scope.prefix.is_empty() {
        of_scope = format!("prefix={}", encoded(&scope.prefix));
    }
    let title = scope.host.clone().unwrap_or_else(|| format!("{}*", text(&scope.prefix)));
    let next = listed.last().and_then(|last| last.cursor.as_ref()).filter(|_| is_cut);
    let content = html! {
        (warning(backend.missed()))
        p { (number(pages)) @if pages == 1 { " page" } @else { " pages" } }
        @if let Some(host) = &scope.host { p { a href={ "/tree?host=" (encoded(host.as_bytes())) } { "By path" } } }
        (urls(&listed))
        @if let Some(next) = next { p { a href={ "/list?" (of_scope) "&cursor=" (wire::cursor(next)) } { "Next pages" } } }
        (as_json(&format!("/v1/urls?{of_scope}")))
    };
    view_of(&title, &title, &content)
}

fn urls(listed: &[Listed]) -> Markup {
    html! {
        ul { @for entry in listed { li { a href={ "/captures?" (of_url(&entry.url)) } { (text(&entry.url)) } } } }
    }
}

/// `/find`: resolves typed input: a URL, a host, or a prefix followed by a star.
pub(crate) async fn find(RawQuery(raw): RawQuery) -> Response {
    let found = || {
        let query = Query::parse(raw.as_deref(), &["q"])?;
        let sought = query.text("q")?.unwrap_or_default().trim().to_owned();
        if sought.is_empty() {
            return Ok::<_, Refusal>("/hosts".to_owned());
        }
        if let Some(prefix) = sought.strip_suffix('*') {
            let has_scheme = prefix.contains(':') || prefix.is_empty();
            let prefix = if has_scheme { prefix.to_owned() } else { format!("http://{prefix}") };
            return Ok(format!("/list?prefix={}", encoded(prefix.as_bytes())));
        }
        if !sought.contains("://") && !sought.contains('/') {
            return Ok(format!("/list?host={}", encoded(sought.as_bytes())));
        }
        let with_scheme = if sought.contains("://") { sought } else { format!("http://{sought}") };
        Ok(format!("/captures?{}", of_url(with_scheme.as_bytes())))
    };
    match found() {
        Ok(place) => match HeaderValue::try_from(place) {
            Ok(place) => (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response(),
            Err(error) => failed(Refusal::bad(error.to_string())),
        },
        Err(refusal) => failed(refusal),
    }
}
