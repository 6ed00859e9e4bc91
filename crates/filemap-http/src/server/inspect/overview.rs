//! The page `/`: contents and state of the store.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::response::Response;
use filemap::PageStore;
use filemap_core::dictionaries::CompressionSample;
use filemap_core::{StatValue, Stats};
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::hour::{EVERY, Point};
use super::charts;
use super::layout::{as_json, failed, live_view, number, size, time};
use crate::following::FollowingFigures;

/// The view.
pub(crate) async fn overview(State(backend): State<Arc<Backend>>) -> Response {
    let look = |store: &PageStore| {
        let (pages, engine) = (store.count_pages()?, store.engine());
        let path = engine.path().display().to_string();
        Ok((pages, engine.stats(), path, engine.absent(), engine.free_bytes().ok()))
    };
    let (pages, stats, path, absent, free) = match backend.whole.call(look).await {
        Ok(found) => found,
        Err(error) => return failed(error.into()),
    };
    let points = backend.hour.points();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let fact = |name: &str, value: String| html! { div { dt { (name) } dd { (value) } } };
    let content = html! {
        p { (path) @if backend.options.writes { ", written by this server" } @else { ", read by this server" } }
        @if let Some(following) = &backend.options.following {
            p { (replica(&following.figures())) }
        }
        @if !absent.is_empty() {
            div role="alert" {
                p { "Files are missing: their content cannot be read." }
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
        h2 { "Bodies by compression" }
        (compression(backend.sample().map(|(at, sample)| (at.elapsed().as_secs(), sample))))
        (as_json("/v1/stat?figures=1"))
        h2 { "State" }
        dl id="state" { (state(&stats, free, &points, now_ms)) }
        h2 { "Since this server began" }
        p { (number(backend.begun.elapsed().as_secs())) " s ago. " span id="live" {} }
        (charts::rates(&stats, &points, backend.begun.elapsed()))
        (charts::times(&points))
        (as_json("/v1/hour"))
        dl {
            (fact("read from memory", share(stats.value_cache_hits, stats.value_cache_hits + stats.value_cache_misses)))
            (fact("value cache", size(stats.value_cache_bytes)))
            (fact("value cache, at most", size(stats.value_cache_bound_bytes)))
        }
        (as_json("/v1/stat?figures=1"))
        h2 { "Every figure" }
        (figures(&stats))
    };
    live_view("Overview", &content)
}

/// Compression of bodies in a sample, with its age in seconds.
fn compression(sample: Option<(u64, CompressionSample)>) -> Markup {
    let Some((ago, sample)) = sample else { return html! { p { "No sample yet." } } };
    let kinds = [
        ("zstd with a dictionary", sample.with_dictionary),
        ("zstd", sample.without_dictionary),
        ("as they are", sample.raw),
    ];
    let all: u64 = kinds.iter().map(|(_, kind)| kind.stored_bytes).sum();
    html! {
        p class="quiet" {
            "Of a sample, " (ago / 60) " minutes ago: " (size(sample.read_bytes)) " of the " (size(sample.log_bytes))
            " of the value log. Large bodies are counted by chunk; dead records are included."
            @if sample.missed > 0 { " Left out: " (number(sample.missed)) " places that could not be read." }
        }
        div class="scroll" tabindex="0" role="region" aria-label="Bodies by compression" {
            table {
                thead {
                    tr {
                        th scope="col" { "Stored" } th scope="col" class="n" { "Bodies" } th scope="col" class="n" { "Bytes" }
                        th scope="col" class="n" { "Stored bytes" } th scope="col" class="n" { "Share of these" }
                        th scope="col" class="n" { "Ratio" }
                    }
                }
                tbody {
                    @for (name, kind) in kinds {
                        tr {
                            th scope="row" { (name) }
                            td class="n" { (number(kind.bodies)) }
                            td class="n" { (size(kind.bytes)) }
                            td class="n" { (size(kind.stored_bytes)) }
                            td class="n" { (share(kind.stored_bytes, all)) }
                            td class="n" { (share(kind.stored_bytes, kind.bytes)) }
                        }
                    }
                }
            }
        }
    }
}

/// State of the store: space, background work, damage.
fn state(stats: &Stats, free: Option<u64>, points: &[Point], now_ms: i64) -> Markup {
    let fact = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    let plain = |text: String| html! { (text) };
    let amplification = stats.space_amplification_permille as f64 / 1000.0;
    let checked = match stats.verified_ms {
        0 => html! { "never" },
        at => html! { (time(at as i64)) ", " (number(stats.verified_problems)) " damaged places" },
    };
    html! {
        (fact("free on its disk", plain(free.map_or("not known".to_owned(), size))))
        (fact("full in", plain(full_in(free, points))))
        (fact("value log for each live byte", plain(format!("{amplification:.2}"))))
        (fact("dead bytes", plain(size(stats.dead_bytes))))
        (fact("not in the index yet", plain(size(stats.unindexed_bytes))))
        (fact("work in the background", plain(background(stats))))
        (fact("verified", checked))
        (fact("last error", plain(stats.last_error.clone().unwrap_or_else(|| "none".to_owned()))))
        (fact("as of", time(now_ms)))
    }
}

/// Describes the background work done, and why it is paused.
fn background(stats: &Stats) -> String {
    if stats.checkpoints + stats.compactions == 0 {
        let why = if stats.puts == 0 { "this server has put nothing" } else { "nothing is due yet" };
        return format!("idle: {why}");
    }
    let freed = size(stats.compaction_freed_bytes);
    let (checkpoints, compactions) = (number(stats.checkpoints), number(stats.compactions));
    format!("{checkpoints} checkpoints, {compactions} compactions, which freed {freed}")
}

/// Estimates when the disk will be full, if the store grows as in the last hour.
fn full_in(free: Option<u64>, points: &[Point]) -> String {
    let (Some(free), Some(first), Some(last)) = (free, points.first(), points.last()) else {
        return "not known yet".to_owned();
    };
    let seconds = EVERY.as_secs() * (points.len() as u64 - 1);
    match last.disk_bytes.saturating_sub(first.disk_bytes) {
        _ if seconds == 0 => "not known yet".to_owned(),
        0 => "never, at the current growth".to_owned(),
        grown => {
            let hours = free as f64 / (grown as f64 / seconds as f64) / 3600.0;
            if hours < 48.0 { format!("{hours:.1} hours") } else { format!("{:.0} days", hours / 24.0) }
        }
    }
}

/// State of a replica, as text.
fn replica(figures: &FollowingFigures) -> String {
    let state = match (figures.up_to_date, figures.is_complete, &figures.error) {
        (_, _, Some(error)) => format!("failing: {error}"),
        (Some(ago), ..) => format!("up to date {} s ago", ago.as_secs()),
        (None, true, None) => "resuming".to_owned(),
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
