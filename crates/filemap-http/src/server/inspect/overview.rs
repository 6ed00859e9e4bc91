//! `/`: what the store holds, and how it is.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use filemap::PageStore;
use filemap_core::{StatValue, Stats};
use maud::{Markup, html};

use super::super::backend::Backend;
use super::layout::{as_json, failed, live_view, number, size};
use crate::following::FollowingFigures;

/// The view.
pub(crate) async fn overview(State(backend): State<Arc<Backend>>) -> Response {
    let look = |store: &PageStore| {
        let pages = store.count_pages()?;
        Ok((pages, store.engine().stats(), store.engine().path().display().to_string(), store.engine().absent()))
    };
    let (pages, stats, path, absent) = match backend.whole.call(look).await {
        Ok(found) => found,
        Err(error) => return failed(error.into()),
    };
    let fact = |name: &str, value: String| html! { div { dt { (name) } dd { (value) } } };
    let content = html! {
        p { (path) @if backend.options.writes { ", written by this server" } @else { ", read by this server" } }
        @if let Some(following) = &backend.options.following {
            p { (replica(&following.figures())) }
        }
        @if !absent.is_empty() {
            div role="alert" {
                p { "Files are absent: what they held cannot be read." }
                ul { @for file in &absent { li { (file.file) ": " (file.why.to_string()) } } }
            }
        }
        h2 { "Contents" }
        dl {
            (fact("pages", number(pages)))
            (fact("versions ever", number(stats.indexed_versions + stats.memtable_entries)))
            (fact("on disk", size(stats.disk_bytes)))
            (fact("value log", size(stats.value_bytes)))
            (fact("segments", number(stats.segments)))
            (fact("index", size(stats.index_bytes)))
            (fact("key log", size(stats.key_bytes)))
            (fact("keys in order", size(stats.key_run_bytes)))
            (fact("dictionaries", number(stats.dictionaries)))
        }
        h2 { "Since this server began" }
        (rates(&stats, backend.begun.elapsed()))
        dl {
            (fact("read from memory", share(stats.value_cache_hits, stats.value_cache_hits + stats.value_cache_misses)))
        }
        (as_json("/v1/stat?figures=1"))
        h2 { "Every figure" }
        (figures(&stats))
    };
    live_view("Overview", &content)
}

/// What is counted, in all and a second; the script adds what is so now, and a chart.
fn rates(stats: &Stats, since: Duration) -> Markup {
    let counted = [
        ("gets", "reads", stats.gets),
        ("hits", "found", stats.hits),
        ("puts", "puts", stats.puts),
        ("unchanged_puts", "puts unchanged", stats.unchanged_puts),
        ("removes", "removals", stats.removes),
    ];
    let average = |number: u64| format!("{:.1}", number as f64 / since.as_secs_f64().max(1.0));
    html! {
        p { (number(since.as_secs())) " s ago. " span id="live" {} }
        div class="scroll" tabindex="0" role="region" aria-label="Since this server began" {
            table {
                thead {
                    tr {
                        th scope="col" { "Calls" } th scope="col" class="n" { "In all" }
                        th scope="col" class="n" { "A second, on average" }
                        th scope="col" class="n" data-live hidden { "A second, now" }
                        th scope="col" data-live hidden { "The last hour" }
                    }
                }
                tbody {
                    @for (figure, name, all) in counted {
                        tr data-figure=(figure) {
                            th scope="row" { (name) }
                            td class="n" { (number(all)) }
                            td class="n" { (average(all)) }
                            td class="n now" data-live hidden {}
                            td class="chart-of" data-live hidden {}
                        }
                    }
                }
            }
        }
    }
}

/// How a replica gets on, in words.
fn replica(figures: &FollowingFigures) -> String {
    let state = match (figures.up_to_date, figures.is_complete, &figures.error) {
        (_, _, Some(error)) => format!("which does not answer: {error}"),
        (Some(ago), ..) => format!("all of it {} s ago", ago.as_secs()),
        (None, true, None) => "going on where it was".to_owned(),
        (None, false, None) => "not complete yet".to_owned(),
    };
    format!("A replica of {}, {state}", figures.location)
}

fn share(part: u64, of: u64) -> String {
    if of == 0 { "-".to_owned() } else { format!("{:.0} %", 100.0 * part as f64 / of as f64) }
}

fn figures(stats: &Stats) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Every figure" {
            table {
                thead { tr { th scope="col" { "Figure" } th scope="col" class="n" { "Value" } th scope="col" { "What it is" } } }
                tbody {
                    @for (name, value, help) in stats.fields() {
                        tr {
                            th scope="row" { (name) }
                            td class="n" { (shown(name, &value)) }
                            td { (help) }
                        }
                    }
                }
            }
        }
    }
}

fn shown(name: &str, value: &StatValue) -> String {
    match value {
        StatValue::Counter(bytes) | StatValue::Gauge(bytes) if name.ends_with("_bytes") => size(*bytes),
        StatValue::Counter(found) | StatValue::Gauge(found) => number(*found),
        StatValue::Text(text) => text.clone(),
    }
}
