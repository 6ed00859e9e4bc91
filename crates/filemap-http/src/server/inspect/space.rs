//! `/segments` and `/dictionaries`: the store's disk use, and its compression dictionaries.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use filemap_core::compact::SegmentInfo;
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::refusal::Refusal;
use super::super::space::{Dictionaries, Dictionary, Segments, Space, after};
use super::layout::{as_json, failed, number, size, text, time, view, warning};

/// Rows per view.
const ROWS: usize = 200;
/// Number of units in the width of a bar.
const PARTS: u64 = 1000;

/// `/segments`.
pub(crate) async fn segments(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async {
        let after = after(raw.as_deref())?;
        Ok::<_, Refusal>(backend.whole.call(move |store| Ok(Segments::of(store, after, ROWS))).await?)
    };
    let found = match found.await {
        Ok(found) => found,
        Err(refusal) => return failed(refusal),
    };
    let fact = |name: &str, value: String| html! { div { dt { (name) } dd { (value) } } };
    let all = &found.all;
    let content = html! {
        (warning(backend.missed()))
        dl {
            (fact("segments", number(all.segments)))
            (fact("bytes", size(all.bytes)))
            (fact("live", size(all.live)))
            (fact("dead", size(all.dead)))
            (fact("tombstones", size(all.tombstones)))
            (fact("not counted yet", size(all.unindexed)))
        }
        p { "As of the last checkpoint; later records are not counted yet. Compaction takes the segments with the smallest live share first." }
        ul class="legend" aria-hidden="true" {
            @for (class, name) in [("live", "live"), ("dead", "dead"), ("tombstones", "tombstones"), ("unindexed", "not counted yet")] {
                li { svg class="bar" viewBox="0 0 1 1" { rect class=(class) width="1" height="1" {} } " " (name) }
            }
        }
        p { "All: " (bar(all, all.bytes)) }
        @if found.part.is_empty() { p { "No more segments." } } @else { (table(&found.part)) }
        @if let Some(after) = found.after { p { a href={ "/segments?after=" (after) } { "Next segments" } } }
        (as_json("/v1/segments"))
    };
    view("Segments", &content)
}

fn table(part: &[SegmentInfo]) -> Markup {
    let longest = part.iter().map(|segment| segment.bytes).max().unwrap_or(0);
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Segments" {
            table class="map" {
                thead {
                    tr {
                        th scope="col" { "File" } th scope="col" { "Map" }
                        th scope="col" class="n" { "Live share" } th scope="col" class="n" { "Bytes" }
                        th scope="col" class="n" { "Live" } th scope="col" class="n" { "Dead" }
                        th scope="col" class="n" { "Tombstones" } th scope="col" class="n" { "Not counted yet" }
                        th scope="col" { "Begun" }
                    }
                }
                tbody { @for segment in part { (row(segment, longest)) } }
            }
        }
    }
}

fn row(segment: &SegmentInfo, longest: u64) -> Markup {
    let space = Space::of(segment);
    html! {
        tr {
            th scope="row" { "value" (segment.id) ".dat" @if segment.is_compacted { ", compacted" } }
            td { (bar(&space, longest)) }
            td class="n" { (share(space.live_share())) }
            td class="n" { (size(space.bytes)) }
            td class="n" { (size(space.live)) }
            td class="n" { (size(space.dead)) }
            td class="n" { (size(space.tombstones)) }
            td class="n" { (size(space.unindexed)) }
            td { (time(segment.begun_ms)) }
        }
    }
}

fn share(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// Bytes as a bar; `longest` bytes fill it.
fn bar(space: &Space, longest: u64) -> Markup {
    let label = format!("{} live of {}", share(space.live_share()), size(space.bytes));
    html! {
        svg class="bar" viewBox={ "0 0 " (PARTS) " 1" } preserveAspectRatio="none" role="img" aria-label=(label) {
            rect class="room" width=(place(space.bytes, longest)) height="1" {}
            @for (class, begin, width) in stacked(space, longest) { rect class=(class) x=(begin) width=(width) height="1" {} }
        }
    }
}

/// Position in the bar after `bytes` bytes, where `longest` bytes fill it.
fn place(bytes: u64, longest: u64) -> u64 {
    let parts = u128::from(bytes) * u128::from(PARTS) / u128::from(longest.max(1));
    u64::try_from(parts).unwrap_or(PARTS).min(PARTS)
}

/// Start and width of each kind of bytes in a bar.
fn stacked(space: &Space, longest: u64) -> [(&'static str, u64, u64); 4] {
    let mut before = 0_u64;
    let of =
        [("live", space.live), ("dead", space.dead), ("tombstones", space.tombstones), ("unindexed", space.unindexed)];
    of.map(|(class, bytes)| {
        let begin = place(before, longest);
        before = before.saturating_add(bytes);
        (class, begin, place(before, longest) - begin)
    })
}

/// `/dictionaries`.
pub(crate) async fn dictionaries(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Response {
    let found = async { Dictionaries::of(&backend, after(raw.as_deref())?, ROWS).await };
    let found = match found.await {
        Ok(found) => found,
        Err(refusal) => return failed(refusal),
    };
    let content = html! {
        p { (number(found.all)) @if found.all == 1 { " dictionary" } @else { " dictionaries" } " in all" }
        @if !found.part.is_empty() {
            p class="quiet" { "Ratios are compressed to plain bytes, measured at training on hold-out pages." }
            (list(&found.part))
        }
        @if let Some(after) = found.after { p { a href={ "/dictionaries?after=" (after) } { "Next dictionaries" } } }
        (as_json("/v1/dictionaries"))
    };
    view("Dictionaries", &content)
}

fn list(part: &[Dictionary]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Dictionaries" {
            table class="map" {
                thead {
                    tr {
                        th scope="col" { "File" } th scope="col" { "For" } th scope="col" { "Made" }
                        th scope="col" class="n" { "Pages sampled" }
                        th scope="col" class="n" { "For bodies" } th scope="col" class="n" { "Ratio" }
                        th scope="col" class="n" { "For descriptions" } th scope="col" class="n" { "Ratio" }
                        th scope="col" { "State" }
                    }
                }
                tbody { @for told in part { (dictionary(told)) } }
            }
        }
    }
}

fn dictionary(told: &Dictionary) -> Markup {
    let facts = &told.facts;
    let ratio = |bytes: u32, ratio: f64| if bytes == 0 { "-".to_owned() } else { share(Some(ratio)) };
    html! {
        tr {
            th scope="row" { "dict" (facts.id) ".zdict" }
            @if let Some(problem) = &facts.problem {
                td colspan="8" { span role="alert" { (problem.to_string()) } }
            } @else {
                td {
                    @if told.is_kept_back { "a host hidden by access rules" }
                    @else if facts.group.is_empty() { "all pages" } @else { (text(&facts.group)) }
                }
                td { (time(facts.created_ms)) }
                td class="n" { (number(u64::from(facts.pages))) }
                td class="n" { (size(u64::from(facts.body_bytes))) }
                td class="n" { (ratio(facts.body_bytes, facts.body_ratio)) }
                td class="n" { (size(u64::from(facts.meta_bytes))) }
                td class="n" { (ratio(facts.meta_bytes, facts.meta_ratio)) }
                td { @if facts.is_current { "compresses new pages" } @else { "only for stored pages" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use filemap_core::dictionaries::DictionaryFacts;

    use super::*;

    #[test]
    fn the_kinds_of_a_bar_join_and_fill_their_share_of_it() {
        let space = Space { segments: 1, bytes: 400, live: 100, dead: 50, tombstones: 1, unindexed: 249 };
        assert_eq!(
            stacked(&space, 800).map(|(_, begin, width)| (begin, width)),
            [(0, 125), (125, 62), (187, 1), (188, 312)]
        );
        assert_eq!((place(400, 800), place(0, 0)), (500, 0));
        let most = Space { live: u64::MAX, dead: u64::MAX, bytes: u64::MAX, ..Space::default() };
        let kinds = stacked(&most, 1);
        assert!(kinds.iter().all(|(_, begin, width)| begin + width <= PARTS), "{kinds:?}");
        assert_eq!(place(u64::MAX, 1), PARTS);
    }

    #[test]
    fn a_group_is_text_and_a_damaged_dictionary_is_named() {
        let told = |facts, is_kept_back| dictionary(&Dictionary { facts, is_kept_back }).into_string();
        let facts = DictionaryFacts { id: 1, group: b"<script>\xff".to_vec(), ..DictionaryFacts::default() };
        assert!(told(facts, false).contains("&lt;script&gt;\u{fffd}"));
        assert!(told(DictionaryFacts::default(), true).contains("access rules"));
        let damaged =
            DictionaryFacts { id: 2, problem: Some(filemap_core::Error::Closed), ..DictionaryFacts::default() };
        let shown = told(damaged, false);
        assert!(shown.contains("dict2.zdict") && shown.contains("role=\"alert\""), "{shown}");
    }
}
