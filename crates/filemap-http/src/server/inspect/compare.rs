//! `/compare`: two captures of a page side by side: metadata, rendering, and the differences of
//! headers and body.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use filemap::Version;
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::lookup::Asked;
use super::super::refusal::Refusal;
use super::super::shown::Shown;
use super::capture::{Capture, SHOWN};
use super::diff::Diff;
use super::layout::{as_json, failed, size, text, time, view_of};
use crate::query::Query;
use crate::wire;

/// Two captures, with their neighbours.
struct Pair {
    old: Side,
    new: Side,
    /// The differences, as markup.
    headers: Markup,
    body: Markup,
}

/// A capture between its neighbours.
struct Side {
    capture: Capture,
    earlier: Option<Version>,
    later: Option<Version>,
}

/// Finds the pair: `a` defaults to the version before `b`, `b` to the newest.
fn find(shown: &Shown, asked: &Asked, a: Option<Version>, b: Option<Version>) -> Result<Option<Pair>, Refusal> {
    // Newest first.
    let all = shown.captures(asked.lookup())?;
    let Some(newest) = all.first().copied() else { return Ok(None) };
    let b = b.unwrap_or(newest);
    let place = |version: Version| all.iter().position(|other| *other == version);
    let before = |version: Version| place(version).and_then(|at| all.get(at + 1)).copied();
    let Some(a) = a.or_else(|| before(b)) else {
        let time = filemap::date::format(b.time_ms);
        return Err(Refusal::absent(format!("no capture before {time} to compare with")));
    };
    let side = |version: Version| {
        let later = place(version).and_then(|at| at.checked_sub(1)).and_then(|at| all.get(at)).copied();
        let capture = Capture::read(shown, asked, Some(version))?;
        Ok::<_, Refusal>(capture.map(|capture| Side { capture, earlier: before(version), later }))
    };
    let (Some(old), Some(new)) = (side(a)?, side(b)?) else { return Ok(None) };
    let headers = Diff::of(&header_lines(&old.capture), &header_lines(&new.capture)).shown("What differs in headers");
    let body = body(&old.capture, &new.capture);
    Ok(Some(Pair { old, new, headers, body }))
}

fn header_lines(capture: &Capture) -> String {
    let mut lines = String::new();
    for header in &capture.page.headers {
        let _ = writeln!(lines, "{}: {}", text(&header.name), text(&header.value));
    }
    lines
}

fn body(old: &Capture, new: &Capture) -> Markup {
    if old.bytes == new.bytes && old.digest == new.digest {
        return html! { p { "Both bodies are equal, byte for byte." } };
    }
    let (Some(old_text), Some(new_text)) = (old.text(), new.text()) else {
        let of =
            |capture: &Capture| html! { (size(capture.bytes)) ", digest " code { (wire::digest(&capture.digest)) } };
        return html! {
            p { "The bodies differ, and are not both text: they are not compared." }
            p { "Old: " (of(old)) ". New: " (of(new)) "." }
        };
    };
    let cut = |name: &str, capture: &Capture| {
        html! { @if capture.left_out() > 0 { p role="note" {
            "Of the " (name) " body the first " (size(SHOWN)) " are compared: " (size(capture.left_out())) " are not."
        } } }
    };
    html! { (cut("old", old)) (cut("new", new)) (Diff::of(&old_text, &new_text).shown("What differs in the body")) }
}

/// The view.
pub(crate) async fn compare(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let query = Query::parse(raw.as_deref(), &["url", "variant", "a", "b"])?;
        let version = |name| query.read(name, "a time in ms, a dot and a sequence", wire::read_version);
        let (asked, a, b) = (Asked::of(&query)?, version("a")?, version("b")?);
        backend.call(move |shown| Ok((find(shown, &asked, a, b)?, asked))).await
    };
    let (pair, asked) = match found.await {
        Ok((Some(pair), asked)) => (pair, asked),
        Ok((None, asked)) => return failed(backend.absent(asked.absent())),
        Err(refusal) => return failed(refusal),
    };
    let of_page = asked.query();
    let versions = (pair.old.capture.version, pair.new.capture.version);
    let content = html! {
        p {
            a href={ "/captures?" (of_page) } { "All versions" } " "
            a href=(of_two(&of_page, versions.1, versions.0)) { "The other way round" }
        }
        div class="pair" {
            (facts("Old", &pair.old, &of_page, |other| of_two(&of_page, other, versions.1)))
            (facts("New", &pair.new, &of_page, |other| of_two(&of_page, versions.0, other)))
        }
        h2 { "What differs in headers" }
        (pair.headers)
        h2 { "What differs in the body" }
        (pair.body)
        (as_json(&format!("/v1/history?{of_page}")))
    };
    let title = format!("Compared: {}", text(&asked.url));
    view_of(&title, &text(&asked.url), &content)
}

fn of_two(of_page: &str, a: Version, b: Version) -> String {
    format!("/compare?{of_page}&a={}&b={}", wire::version(a), wire::version(b))
}

/// Metadata of one side; `with` links to the view with another version in its place.
fn facts(name: &str, side: &Side, of_page: &str, with: impl Fn(Version) -> String) -> Markup {
    let (capture, page) = (&side.capture, &side.capture.page);
    html! {
        section aria-label=(name) {
            h2 { (name) ": " a href={ "/show?" (capture.query(of_page)) } { (time(page.fetched_at_ms)) } }
            p {
                @if let Some(earlier) = side.earlier { a href=(with(earlier)) { "Earlier" } " " }
                @if let Some(later) = side.later { a href=(with(later)) { "Later" } " " }
                a href={ "/v1/page?" (capture.query(of_page)) } { "Body" }
            }
            dl {
                div { dt { "status" } dd { (page.status.map_or("-".to_owned(), |status| status.to_string())) } }
                div { dt { "type" } dd { (capture.mime()) } }
                div { dt { "body" } dd { (size(capture.bytes)) } }
                div { dt { "digest" } dd class="long" { (wire::digest(&capture.digest)) } }
            }
            @if let Some(frame) = capture.frame(of_page, &format!("{name} capture as it looks")) { (frame) }
        }
    }
}
