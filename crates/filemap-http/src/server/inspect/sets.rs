//! `/seen`: the seen sets of the server: their size, and the error rate of their answers.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::super::backend::Backend;
use super::super::seen::ask::asking;
use super::super::seen::sets::Served;
use super::layout::{as_json, failed, number, size, view};

/// The view.
pub(crate) async fn sets(State(backend): State<Arc<Backend>>) -> Response {
    let all = backend.options.seen.all();
    let rows = asking(&backend, move || all.iter().map(|served| row(served)).collect::<Vec<Markup>>()).await;
    let rows = match rows {
        Ok(rows) => rows,
        Err(refusal) => return failed(refusal),
    };
    let content = html! {
        @if rows.is_empty() {
            p { "This server serves no seen sets: add some with `--seen NAME=SET` or `--seen-dir`." }
        } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Seen sets" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Set" } th scope="col" { "Kind" } th scope="col" { "Rules" }
                            th scope="col" class="n" { "URLs" } th scope="col" class="n" { "Memory" }
                            th scope="col" class="n" { "On disk" }
                            th scope="col" class="n" { "False positive rate" }
                            th scope="col" class="n" { "URLs lost so far, expected" }
                            th scope="col" class="n" { "Requests remembered" }
                        }
                    }
                    tbody { @for row in &rows { (row) } }
                }
            }
        }
        (as_json("/v1/seen"))
    };
    view("Seen sets", &content)
}

fn row(served: &Served) -> Markup {
    let stats = served.stats();
    let kept = served.worker().map(|worker| worker.set().kept_requests());
    html! {
        tr {
            th scope="row" { a href={ "/v1/seen/" (served.name) } { (served.name) } }
            td { (served.kind()) @if !served.is_writable() { ", read" } }
            td { (served.canonicalizer.name()) }
            td class="n" { (number(stats.urls)) }
            td class="n" { (size(stats.memory_bytes)) }
            td class="n" { (size(stats.disk_bytes)) }
            td class="n" { (format!("{:.1e}", stats.false_positive_rate)) }
            td class="n" { (format!("{:.1e}", stats.expected_loss)) }
            td class="n" { @if let Some(kept) = kept { (number(kept)) } @else { "-" } }
        }
    }
}
