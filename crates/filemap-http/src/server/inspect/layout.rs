//! Shared by all views: page frame, content security policy, and formats of numbers and times.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use filemap::date;
use maud::{DOCTYPE, Markup, html};

use super::super::refusal::Refusal;
use crate::query::encoded;

/// Policy of a view: it loads its own style and frames its own captures, nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Policy of the overview, which also runs its own script to fetch figures.
const LIVE_POLICY: &str = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; \
                           form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The views in the navigation.
const VIEWS: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/hosts", "Hosts"),
    ("/seen", "Seen sets"),
    ("/segments", "Segments"),
    ("/dictionaries", "Dictionaries"),
    ("/crawl", "Crawl"),
];

/// A view.
pub(super) fn view(title: &str, content: &Markup) -> Response {
    page(StatusCode::OK, title, "", content)
}

/// A view with live charts.
pub(super) fn live_view(title: &str, content: &Markup) -> Response {
    let content = html! { (content) script src="/charts.js" defer {} };
    let mut response = page(StatusCode::OK, title, "", &content);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(LIVE_POLICY));
    response
}

/// A view of search results.
pub(super) fn view_of(title: &str, sought: &str, content: &Markup) -> Response {
    page(StatusCode::OK, title, sought, content)
}

/// A view of an error.
pub(super) fn failed(refusal: Refusal) -> Response {
    let (status, detail) = (refusal.status(), refusal.detail().to_owned());
    // With the cause, for the log.
    let mut response = page(status, "Not shown", "", &html! { p role="alert" { (detail) } });
    *response.extensions_mut() = std::mem::take(refusal.into_response().extensions_mut());
    response
}

fn page(status: StatusCode, title: &str, sought: &str, content: &Markup) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - FileMap" }
                link rel="stylesheet" href="/style.css";
                link rel="icon" href="data:,";
            }
            body {
                a class="skip" href="#content" { "To the content" }
                header {
                    nav aria-label="Views" {
                        @for (target, name) in VIEWS { a href=(target) { (name) } " " }
                    }
                    form action="/find" method="get" role="search" {
                        label for="q" { "URL, host or prefix*" }
                        input id="q" name="q" type="search" value=(sought) autocomplete="off" spellcheck="false";
                        button type="submit" { "Find" }
                    }
                }
                main id="content" tabindex="-1" { h1 { (title) } (content) }
            }
        }
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    ];
    (status, headers, markup.into_string()).into_response()
}

/// The style of all views.
pub(crate) async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"))], include_str!("style.css"))
}

/// The script of live charts.
pub(crate) async fn charts() -> impl IntoResponse {
    ([(CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8"))], include_str!("charts.js"))
}

/// Warns that a view may be incomplete.
pub(super) fn warning(missed: Option<String>) -> Markup {
    html! { @if let Some(missed) = missed { p role="alert" { (missed) } } }
}

/// A link to the same view as JSON.
pub(super) fn as_json(target: &str) -> Markup {
    html! { p class="json" { a href=(target) { "JSON" } } }
}

/// Bytes as text; invalid UTF-8 is replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The query for a page.
pub(super) fn of_url(url: &[u8]) -> String {
    format!("url={}", encoded(url))
}

/// A number in groups of three.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A size in a fitting unit.
pub(super) fn size(bytes: u64) -> String {
    let mut left = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if left < 1000.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{left:.1} {unit}") };
        }
        left /= 1000.0;
    }
    format!("{left:.2} TB")
}

/// A time, readable for people and programs.
pub(super) fn time(time_ms: i64) -> Markup {
    let full = date::format(time_ms);
    let shown = full.get(..19).map_or(full.clone(), |begin| begin.replace('T', " "));
    html! { time datetime=(full) { (shown) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_are_read_at_a_glance() {
        let numbers = [0, 999, 1_000, 1_234_567].map(number);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        let sizes = [0, 999, 1_000, 1_500_000, 2_000_000_000, 3_210_000_000_000].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 kB", "1.5 MB", "2.0 GB", "3.21 TB"]);
        assert_eq!(
            time(1_700_000_000_123).into_string(),
            "<time datetime=\"2023-11-14T22:13:20.123Z\">2023-11-14 22:13:20</time>"
        );
    }

    #[test]
    fn stored_text_never_becomes_markup() {
        let evil = "<script>alert(1)</script>\"'";
        let shown = html! { p title=(evil) { (evil) } }.into_string();
        assert!(!shown.contains("<script") && !shown.contains("\"'"), "{shown}");
    }
}
