//! `/crawl`: a crawl into the store: its queue by host, its failures by kind, and the latest ones.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value;

use super::super::backend::Backend;
use super::super::crawl::status;
use super::layout::{as_json, number, of_url, size, time, view};

/// Silence after which a crawl is considered dead.
const SILENT_MS: i64 = 30_000;

/// The view.
pub(crate) async fn crawl(State(backend): State<Arc<Backend>>) -> Response {
    let Some(status) = status(&backend).await else {
        let words = "No crawl has reported on this store. `fm-crawl run STORE` starts one.";
        return view("Crawl", &html! { p { (words) } });
    };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let content = html! {
        p { (state(&status, now_ms)) }
        (facts(&status))
        h2 { "Failures and limits by kind" }
        (by_kind(&status["run"]["reasons"]))
        @if status["names_are_left_out"] == true {
            p { "Hosts and failures by page are not shown under access rules." }
        } @else {
            h2 { "The latest failures" }
            (failures(&status["run"]["latest_failures"]))
            h2 { "The longest queues" }
            (queues(&status["hosts"]))
        }
        (as_json("/v1/crawl"))
    };
    view("Crawl", &content)
}

fn state(status: &Value, now_ms: i64) -> Markup {
    let at = status["time_ms"].as_i64().unwrap_or(0);
    html! {
        @match (status["is_running"] == true, now_ms.saturating_sub(at) > SILENT_MS) {
            (true, false) => { "It runs. As of " (time(at)) "." }
            (true, true) => { "It has not reported since " (time(at)) ": it was killed, or hangs." }
            (false, _) => { "It has ended, at " (time(at)) "." }
        }
        " The fate of a URL, and why: " code { "fm-crawl why STORE URL" } "."
    }
}

fn facts(status: &Value) -> Markup {
    let (run, frontier) = (&status["run"], &status["frontier"]);
    let seconds = status["run_ms"].as_u64().unwrap_or(0) / 1000;
    let counts = [
        ("fetched in this run", &run["fetched"]),
        ("found in this run", &run["discovered"]),
        ("unchanged", &run["unchanged"]),
        ("queued", &frontier["queued"]),
        ("due again", &frontier["due"]),
        ("known pages", &frontier["pages"]),
        ("given up", &frontier["gone"]),
        ("hosts", &frontier["hosts"]),
    ];
    html! {
        dl {
            div { dt { "seconds" } dd { (number(seconds)) } }
            @for (name, value) in counts {
                div { dt { (name) } dd { (number(value.as_u64().unwrap_or(0))) } }
            }
            div { dt { "received" } dd { (size(run["wire_bytes"].as_u64().unwrap_or(0))) } }
        }
    }
}

fn by_kind(reasons: &Value) -> Markup {
    let mut rows: Vec<(&String, u64)> =
        reasons.as_object().into_iter().flatten().map(|(name, times)| (name, times.as_u64().unwrap_or(0))).collect();
    rows.sort_by_key(|(name, times)| (std::cmp::Reverse(*times), *name));
    html! {
        @if rows.is_empty() { p { "None." } } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Failures by kind" {
                table {
                    thead { tr { th scope="col" { "Kind" } th scope="col" class="n" { "Times" } } }
                    tbody { @for (name, times) in rows { tr { th scope="row" { (name) } td class="n" { (number(times)) } } } }
                }
            }
        }
    }
}

fn failures(latest: &Value) -> Markup {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = latest.as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        @if rows.is_empty() { p { "None." } } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Latest failures" {
                table {
                    thead {
                        tr { th scope="col" { "Time" } th scope="col" { "Page" } th scope="col" { "Why" } th scope="col" { "Words" } }
                    }
                    tbody {
                        @for row in rows.iter().rev() {
                            @let url = text(row, "url");
                            tr {
                                td { (time(row["time_ms"].as_i64().unwrap_or(0))) }
                                td { a href={ "/captures?" (of_url(url.as_bytes())) } { (url) } }
                                td { (text(row, "reason")) }
                                td { (text(row, "detail")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn queues(hosts: &Value) -> Markup {
    let rows = hosts.as_array().map(Vec::as_slice).unwrap_or_default();
    let count = |row: &Value, name: &str| number(row[name].as_u64().unwrap_or(0));
    html! {
        @if rows.is_empty() { p { "None." } } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Queues" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Host" } th scope="col" class="n" { "Ready" }
                            th scope="col" class="n" { "Known" } th scope="col" class="n" { "In flight" }
                            th scope="col" class="n" { "Delay, ms" } th scope="col" { "Not before" }
                        }
                    }
                    tbody {
                        @for row in rows {
                            @let host = row["host"].as_str().unwrap_or_default();
                            tr {
                                th scope="row" { a href={ "/list?host=" (crate::query::encoded(host.as_bytes())) } { (host) } }
                                td class="n" { (count(row, "ready")) }
                                td class="n" { (count(row, "pages")) }
                                td class="n" { (count(row, "in_flight")) }
                                td class="n" { (count(row, "delay_ms")) }
                                td { @if let Some(at) = row["next_at_ms"].as_i64().filter(|at| *at > 0) { (time(at)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
