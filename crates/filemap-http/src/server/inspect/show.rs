//! `/show`: one version: headers, source, and how it looks.

use std::io::Read;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use filemap::Page;
use filemap::page::encoding;
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::lookup::Asked;
use super::super::shown::Shown;
use super::layout::{failed, of_url, size, text, time, view_of};
use crate::query::{Query, encoded};
use crate::wire;

/// Bytes of a source that are shown.
const SHOWN: u64 = 256 << 10;

/// The view.
pub(crate) async fn show(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let asked = Asked::of(&Query::parse(raw.as_deref(), &["url", "variant", "version"])?)?;
        let look = move |shown: &Shown| {
            let found = shown.open(asked.lookup(), asked.version())?.or_refused()?;
            let Some((mut page, mut reader)) = found else { return Ok((asked, None)) };
            let bytes = reader.remaining();
            let read = (&mut reader).take(SHOWN).read_to_end(&mut page.body);
            read.map_err(|source| filemap::Error::Read { what: text(&page.url), offset: 0, source })?;
            let version = reader.version();
            Ok((asked, Some((page, bytes, version))))
        };
        backend.call(look).await
    };
    let (asked, (page, bytes, version)) = match found.await {
        Ok((asked, Some(found))) => (asked, found),
        Ok((asked, None)) => return failed(backend.absent(asked.absent())),
        Err(refusal) => return failed(refusal),
    };
    let variant =
        asked.variant.as_ref().map_or(String::new(), |variant| format!("&variant={}", encoded(variant.as_bytes())));
    let of_page = format!("{}{variant}", of_url(&asked.url));
    let of_version = format!("{of_page}&version={}", wire::version(version));
    let content = html! {
        p {
            (time(page.fetched_at_ms)) ", "
            @if let Some(status) = page.status { "status " (status) ", " }
            (size(bytes)) ". "
            a href={ "/captures?" (of_page) } { "All versions" } " "
            a href={ "/v1/page?" (of_version) } { "Body" } " "
            a href={ "/v1/page?" (of_version) "&format=page" } { "Description and body" }
        }
        (headers(&page))
        (looks(&page, &of_version))
        (source(&page, bytes))
    };
    let title = text(&asked.url);
    view_of(&title, &title, &content)
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

/// The page in a frame, if a browser would show it as one.
fn looks(page: &Page, of_version: &str) -> Markup {
    let mime = page.headers.mime().unwrap_or_default();
    let is_shown = matches!(mime.as_str(), "text/html" | "application/xhtml+xml" | "text/plain")
        || (mime.starts_with("image/") && mime != "image/svg+xml");
    html! {
        @if is_shown {
            h2 { "How it looks" }
            p { "Without scripts, and without what it would fetch." }
            iframe sandbox="" referrerpolicy="no-referrer" title="The page as it looks" src={ "/rendered?" (of_version) } {}
        }
    }
}

fn source(page: &Page, bytes: u64) -> Markup {
    let is_text = !page.body.iter().take(4096).any(|byte| *byte == 0);
    html! {
        h2 { "Source" }
        @if page.lacks_body() { p role="alert" { "This version is a revisit, and its original is not in the store." } }
        @else if bytes == 0 { p { "The body is empty." } }
        @else if is_text {
            @if bytes > SHOWN { p { "The first " (size(SHOWN)) " of " (size(bytes)) "." } }
            pre tabindex="0" { code { (shown(page)) } }
        } @else { p { "It is not text." } }
    }
}

/// The body as text, in its own character set.
fn shown(page: &Page) -> String {
    encoding::decode(&page.body, page.headers.get("content-type")).0.into_owned()
}
