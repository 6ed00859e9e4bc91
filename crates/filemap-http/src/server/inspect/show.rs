//! The page `/show`: one version: its headers, source, and rendering.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use filemap::{Error, Page, Version};
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::lookup::Asked;
use super::super::shown::Shown;
use super::capture::{Capture, SHOWN};
use super::highlight::{self, Language};
use super::layout::{as_json, failed, number, size, text, time, view_of};
use crate::query::Query;
use crate::wire;

/// The view.
pub(crate) async fn show(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let asked = Asked::of(&Query::parse(raw.as_deref(), &["url", "variant", "version"])?)?;
        let look = move |shown: &Shown| {
            let capture = Capture::read(shown, &asked, asked.version())?;
            // If this cannot be determined, the comparison says why.
            let has_earlier = |own| has_earlier(shown, &asked, own).unwrap_or(true);
            let capture = capture.map(|capture| (has_earlier(capture.version), capture));
            Ok((capture, asked))
        };
        backend.call(look).await
    };
    let (has_earlier, capture, asked) = match found.await {
        Ok((Some((has_earlier, capture)), asked)) => (has_earlier, capture, asked),
        Ok((None, asked)) => return failed(backend.absent(asked.absent())),
        Err(refusal) => return failed(refusal),
    };
    let page = &capture.page;
    let of_page = asked.query();
    let of_version = capture.query(&of_page);
    let content = html! {
        p {
            (time(page.fetched_at_ms)) ", "
            @if let Some(status) = page.status { "status " (status) ", " }
            (size(capture.bytes)) ". "
            a href={ "/captures?" (of_page) } { "All versions" } " "
            @if has_earlier {
                a href={ "/compare?" (of_page) "&b=" (wire::version(capture.version)) } { "Compared with the one before" } " "
            }
            a href={ "/v1/page?" (of_version) } { "Body" } " "
            a href={ "/v1/page?" (of_version) "&format=page" } { "Description and body" }
        }
        (headers(page))
        @if let Some(frame) = capture.frame(&of_page, "The page as it looks") {
            h2 { "How it looks" }
            p { "Without scripts and external resources." }
            (frame)
        }
        (source(&capture))
        (as_json(&format!("/v1/history?{of_page}")))
    };
    let title = text(&asked.url);
    view_of(&title, &title, &content)
}

/// Returns whether a page has a capture before this one.
fn has_earlier(shown: &Shown, asked: &Asked, own: Version) -> filemap::Result<bool> {
    for found in shown.history(asked.lookup().at(own.time_ms))? {
        let version = match found {
            Ok(found) => found.head.version,
            Err(Error::Unreadable { version, .. }) => version,
            Err(error) => return Err(error),
        };
        if (version.time_ms, version.sequence) < (own.time_ms, own.sequence) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn headers(page: &Page) -> Markup {
    html! {
        h2 { "Headers" }
        @if page.headers.is_empty() { p { "None." } } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Headers" {
                table {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Value" } } }
                    tbody {
                        @for header in &page.headers { tr { th scope="row" { (text(&header.name)) } td { (text(&header.value)) } } }
                    }
                }
            }
        }
    }
}

fn source(capture: &Capture) -> Markup {
    html! {
        h2 { "Source" }
        @if capture.page.lacks_body() { p role="alert" { "This version is a revisit, and its original is not in the store." } }
        @else if capture.bytes == 0 { p { "The body is empty." } }
        @else if let Some(text) = capture.text() {
            @let (source, left) = highlight::source(&text, Language::of(&capture.mime()));
            @if capture.left_out() > 0 { p { "The first " (size(SHOWN)) " of " (size(capture.bytes)) "." } }
            @if left > 0 { p { "The last " (number(left as u64)) " bytes of that are not highlighted." } }
            pre tabindex="0" role="region" aria-label="Source" { code { (source) } }
        } @else { p { "It is not text." } }
    }
}
