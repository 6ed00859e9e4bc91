//! `/captures`: the versions of a page, and of its variants.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use filemap::{Error, Variant};
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::lookup::Asked;
use super::super::shown::{Capture, Shown};
use super::layout::{as_json, failed, number, of_url, size, text, time, view_of, warning};
use crate::query::{Query, encoded};
use crate::wire;

/// Versions, and variants, of a view.
const ROWS: usize = 500;

/// What a view shows of a URL.
struct Found {
    versions: Vec<Result<Capture, Error>>,
    is_cut: bool,
    variants: Vec<Variant>,
}

/// The view.
pub(crate) async fn captures(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let asked = Asked::of(&Query::parse(raw.as_deref(), &["url", "variant"])?)?;
        let look = move |shown: &Shown| {
            let mut versions: Vec<_> = shown.history(asked.lookup())?.take(ROWS + 1).collect();
            let is_cut = versions.len() > ROWS;
            versions.truncate(ROWS);
            let mut variants = Vec::new();
            if asked.variant.is_none() && shown.may_have_variants(&asked.url)? {
                for variant in shown.variants(&asked.url)?.take(ROWS) {
                    variants.push(variant?);
                }
            }
            Ok((asked, Found { versions, is_cut, variants }))
        };
        backend.call(look).await
    };
    let (asked, found) = match found.await {
        Ok(found) => found,
        Err(refusal) => return failed(refusal),
    };
    if found.versions.is_empty() && found.variants.is_empty() {
        return failed(backend.absent(asked.absent()));
    }
    let of_page = match &asked.variant {
        Some(variant) => format!("{}&variant={}", of_url(&asked.url), encoded(variant.as_bytes())),
        None => of_url(&asked.url),
    };
    let content = html! {
        @if let Some(variant) = &asked.variant { p { "Variant: " code { (variant.to_string()) } } }
        (warning(backend.missed()))
        p { (number(found.versions.len() as u64)) @if found.is_cut { " newest" } @if found.versions.len() == 1 { " version" } @else { " versions" } }
        (table(&of_page, &found.versions))
        @if !found.variants.is_empty() {
            h2 { "Answers to other requests" }
            @if found.variants.len() == ROWS { p { "The first " (ROWS) "; there may be more." } }
            ul {
                @for variant in &found.variants {
                    li { a href={ "/captures?" (of_url(&asked.url)) "&variant=" (encoded(variant.as_bytes())) } { (variant.to_string()) } }
                }
            }
        }
        (as_json(&format!("/v1/history?{of_page}")))
    };
    let title = text(&asked.url);
    view_of(&title, &title, &content)
}

fn table(of_page: &str, versions: &[Result<Capture, Error>]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Versions" {
            table {
                thead {
                    tr {
                        th scope="col" { "Fetched" }
                        th scope="col" { "Status" }
                        th scope="col" { "Type" }
                        th scope="col" class="n" { "Body" }
                        th scope="col" class="n" { "Stored" }
                        th scope="col" { "Remarks" }
                    }
                }
                tbody { @for version in versions { (row(of_page, version)) } }
            }
        }
    }
}

fn row(of_page: &str, version: &Result<Capture, Error>) -> Markup {
    let head = match version {
        Ok(Capture { head, blocked: None }) => head,
        Ok(Capture { head, blocked: Some(why) }) => {
            return html! { tr { td { (time(head.page.fetched_at_ms)) } td colspan="5" { (why) } } };
        }
        Err(error) => return html! { tr { td colspan="6" { span role="alert" { (error.to_string()) } } } },
    };
    let page = &head.page;
    let status = page.status.map_or("-".to_owned(), |status| status.to_string());
    html! {
        tr {
            td { a href={ "/show?" (of_page) "&version=" (wire::version(head.version)) } { (time(page.fetched_at_ms)) } }
            td { (status) }
            td { (page.headers.mime().unwrap_or_default()) }
            td class="n" { (size(head.body_bytes)) }
            td class="n" { (size(head.stored_bytes)) }
            td {
                (page.kind.name())
                @if head.unchanged_since.is_some() { ", body unchanged" }
                @if let Some(why) = &page.truncated { ", truncated: " (why) }
            }
        }
    }
}
