//! `/captures`: the versions of a page, and of its variants, on a calendar and as a list.

use std::ops::Range;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use filemap::{Error, Variant, Version};
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::lookup::Asked;
use super::super::shown::{Capture, Shown};
use super::calendar::{Calendar, Day, parse_year, times_of};
use super::layout::{as_json, failed, number, of_url, size, text, time, view_of, warning};
use crate::query::{Query, encoded};
use crate::wire;

/// Maximum number of versions, and of variants, in a view.
const ROWS: usize = 500;

/// The versions that are listed.
struct Chosen {
    year: Option<i64>,
    day: Option<Day>,
    /// Lists versions before this one.
    before: Option<Version>,
}

/// Contents of the view of a URL.
struct Found {
    /// Calendar and number of all versions, or the reason why there is none.
    calendar: Result<(Calendar, u64), String>,
    versions: Vec<Result<Capture, Error>>,
    is_cut: bool,
    variants: Vec<Variant>,
}

impl Chosen {
    fn of(query: &Query) -> Result<Chosen, String> {
        Ok(Chosen {
            year: query.read("year", "a year", parse_year)?,
            day: query.read("day", "a day such as 2024-05-01", Day::parse)?,
            before: query.read("before", "a time in ms, a dot and a sequence", wire::read_version)?,
        })
    }

    fn times(&self) -> Range<i64> {
        self.day.map(Day::times).or(self.year.map(times_of)).unwrap_or(i64::MIN..i64::MAX)
    }

    /// The chosen versions of a page, newest first.
    fn select(&self, shown: &Shown, asked: &Asked) -> filemap::Result<Vec<Result<Capture, Error>>> {
        let times = self.times();
        let latest = self.before.map_or(i64::MAX, |before| before.time_ms);
        // The range of all times includes its end.
        let end = if times.end == i64::MAX { i64::MAX } else { times.end - 1 };
        let lookup = asked.lookup().at(latest.min(end));
        let mut found = Vec::new();
        for capture in shown.history(lookup)? {
            let version = version_of(&capture);
            if version.is_some_and(|version| version.time_ms < times.start) {
                break;
            }
            let is_behind = |before: Version| {
                version.is_none_or(|own| (own.time_ms, own.sequence) < (before.time_ms, before.sequence))
            };
            if self.before.is_none_or(is_behind) {
                found.push(capture);
            }
            if found.len() > ROWS {
                break;
            }
        }
        Ok(found)
    }

    fn find(&self, shown: &Shown, asked: &Asked) -> filemap::Result<Found> {
        let mut versions = self.select(shown, asked)?;
        let is_cut = versions.len() > ROWS;
        versions.truncate(ROWS);
        let mut variants = Vec::new();
        if asked.variant.is_none() && shown.may_have_variants(&asked.url)? {
            for variant in shown.variants(&asked.url)?.take(ROWS) {
                variants.push(variant?);
            }
        }
        let all = shown.captures(asked.lookup());
        let calendar = all.map(|all| (Calendar::of(&all), all.len() as u64)).map_err(|error| error.to_string());
        Ok(Found { calendar, versions, is_cut, variants })
    }

    /// The choice as text, after "captures".
    fn words(&self) -> String {
        let of = match (self.day, self.year) {
            (Some(day), _) => format!(" of {}", day.words()),
            (None, Some(year)) => format!(" of {year}"),
            (None, None) => String::new(),
        };
        let before =
            self.before.map_or(String::new(), |before| format!(" before {}", filemap::date::format(before.time_ms)));
        format!("{of}{before}")
    }

    /// Link to the versions older than `last`.
    fn older(&self, of_page: &str, last: Version) -> String {
        let of = match (self.day, self.year) {
            (Some(day), _) => format!("&day={}", day.text()),
            (None, Some(year)) => format!("&year={year}"),
            (None, None) => String::new(),
        };
        format!("/captures?{of_page}{of}&before={}#captures", wire::version(last))
    }
}

/// The version, if it is known.
fn version_of(capture: &Result<Capture, Error>) -> Option<Version> {
    match capture {
        Ok(capture) => Some(capture.head.version),
        Err(Error::Unreadable { version, .. }) => Some(*version),
        Err(_) => None,
    }
}

/// The view.
pub(crate) async fn captures(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let query = Query::parse(raw.as_deref(), &["url", "variant", "year", "day", "before"])?;
        let (asked, chosen) = (Asked::of(&query)?, Chosen::of(&query)?);
        backend.call(move |shown| Ok((chosen.find(shown, &asked)?, asked, chosen))).await
    };
    let (found, asked, chosen) = match found.await {
        Ok(found) => found,
        Err(refusal) => return failed(refusal),
    };
    let has_none = found.calendar.as_ref().map_or(found.versions.is_empty(), |(_, all)| *all == 0);
    if has_none && found.variants.is_empty() {
        return failed(backend.absent(asked.absent()));
    }
    let of_page = asked.query();
    let content = html! {
        @if let Some(variant) = &asked.variant { p { "Variant: " code { (variant.to_string()) } } }
        (warning(backend.missed()))
        (overall(&found.calendar, &of_page, &chosen))
        (listed(&found, &asked, &of_page, &chosen))
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

/// Number of all captures, and the calendar.
fn overall(calendar: &Result<(Calendar, u64), String>, of_page: &str, chosen: &Chosen) -> Markup {
    let (calendar, all) = match calendar {
        Ok(found) => found,
        Err(error) => return html! { p role="alert" { "The calendar is not available: " (error) } },
    };
    let year = chosen.day.map(|day| day.year).or(chosen.year).or(calendar.latest());
    html! {
        p {
            (number(*all)) @if *all == 1 { " version" } @else { " versions" }
            " in all"
            @if chosen.day.is_some() || chosen.year.is_some() || chosen.before.is_some() {
                ". " a href={ "/captures?" (of_page) "#captures" } { "The newest of all" }
            }
        }
        @if let Some(year) = year.filter(|_| *all > 0) { (calendar.shown(of_page, year, chosen.day)) }
    }
}

fn listed(found: &Found, asked: &Asked, of_page: &str, chosen: &Chosen) -> Markup {
    let last = found.versions.iter().rev().find_map(version_of);
    html! {
        h2 id="captures" { "Captures" (chosen.words()) }
        @if found.versions.is_empty() { p { "None." } } @else {
            @if found.is_cut { p { "The newest " (number(ROWS as u64)) " of them; there are older ones." } }
            (table(asked, of_page, &found.versions))
        }
        @if let Some(last) = last.filter(|_| found.is_cut) { p { a href=(chosen.older(of_page, last)) { "Older captures" } } }
    }
}

/// The list of versions; two can be chosen for comparison.
fn table(asked: &Asked, of_page: &str, versions: &[Result<Capture, Error>]) -> Markup {
    let readable = versions.iter().flatten().filter(|capture| capture.blocked.is_none());
    let readable: Vec<Version> = readable.map(|capture| capture.head.version).take(2).collect();
    // A form can send only text.
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    let can_choose = is_text(&asked.url) && asked.variant.as_ref().is_none_or(|variant| is_text(variant.as_bytes()));
    let chosen = <[Version; 2]>::try_from(readable).ok().filter(|_| can_choose);
    html! {
        form class="choice" action="/compare" method="get" {
            input type="hidden" name="url" value=(text(&asked.url));
            @if let Some(variant) = &asked.variant { input type="hidden" name="variant" value=(variant.to_string()); }
            @if chosen.is_some() { p { button type="submit" { "Compare" } " the two that are chosen as old and new." } }
            (rows(of_page, versions, chosen))
        }
    }
}

fn rows(of_page: &str, versions: &[Result<Capture, Error>], chosen: Option<[Version; 2]>) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Versions" {
            table {
                thead {
                    tr {
                        @if chosen.is_some() { th scope="col" { "Old" } th scope="col" { "New" } }
                        th scope="col" { "Fetched" }
                        th scope="col" { "Status" }
                        th scope="col" { "Type" }
                        th scope="col" class="n" { "Body" }
                        th scope="col" class="n" { "Stored" }
                        th scope="col" { "Remarks" }
                    }
                }
                tbody { @for version in versions { (row(of_page, version, chosen)) } }
            }
        }
    }
}

fn row(of_page: &str, version: &Result<Capture, Error>, chosen: Option<[Version; 2]>) -> Markup {
    let head = match version {
        Ok(Capture { head, blocked: None }) => head,
        Ok(Capture { head, blocked: Some(why) }) => {
            return html! { tr {
                @if chosen.is_some() { td colspan="2" {} }
                td { (time(head.page.fetched_at_ms)) }
                td colspan="5" { (why) }
            } };
        }
        Err(error) => {
            return html! { tr { td colspan=(if chosen.is_some() { "8" } else { "6" }) { span role="alert" { (error.to_string()) } } } };
        }
    };
    let page = &head.page;
    let status = page.status.map_or("-".to_owned(), |status| status.to_string());
    let when = filemap::date::format(page.fetched_at_ms);
    html! {
        tr {
            @if let Some([newest, before]) = chosen {
                (choice("a", "Old", &when, head.version, before))
                (choice("b", "New", &when, head.version, newest))
            }
            td { a href={ "/show?" (of_page) "&version=" (wire::version(head.version)) } { (time(page.fetched_at_ms)) } }
            td { (status) }
            td { (page.headers.mime().unwrap_or_default()) }
            td class="n" { @if page.in_place.is_some() { "in place" } @else { (size(head.body_bytes)) } }
            td class="n" { (size(head.stored_bytes)) }
            td {
                (page.kind.name())
                @if head.unchanged_since.is_some() { ", body unchanged" }
                @if let Some(why) = &page.truncated { ", truncated: " (why) }
            }
        }
    }
}

fn choice(name: &str, label: &str, when: &str, version: Version, chosen: Version) -> Markup {
    html! {
        td { label class="box" {
            input type="radio" name=(name) value=(wire::version(version)) checked[version == chosen] aria-label={ (label) ": " (when) };
        } }
    }
}
