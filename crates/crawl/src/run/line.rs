//! A visit as a line of JSON: for the crawl log, and for callers waiting for the page.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::clock::now_ms;
use crate::visit::{Told, Visit};

/// The line of a visit.
pub fn of(visit: &Visit, new_links: u32) -> Value {
    let mut line = json!({
        "time_ms": now_ms(),
        "event": match &visit.told {
            Told::Fetched(_) => "fetched",
            Told::Failed(_) => "failed",
            Told::Later => "later",
        },
        "url": visit.url,
        "depth": visit.depth,
        "took_ms": visit.took.as_millis() as u64,
    });
    let mut set = |name: &str, value: Value| line[name] = value;
    if let Some(status) = visit.status {
        set("status", status.into());
        set("wire_bytes", visit.wire_bytes.into());
        set("body_bytes", visit.body_bytes.into());
    }
    match &visit.told {
        Told::Fetched(fetched) => {
            set("links", fetched.links.len().into());
            set("new_links", new_links.into());
            set("out_of_scope", visit.out_of_scope.into());
            if visit.hints > 0 {
                set("hints", visit.hints.into());
            }
            if let Some(changed) = fetched.changed {
                set("changed", changed.into());
            }
        }
        Told::Failed(failure) => {
            set("reason", failure.reason.name().into());
            set("detail", failure.detail.as_str().into());
        }
        Told::Later => {}
    }
    if let Some(holder) = &visit.duplicate_of {
        set("duplicate_of", holder.as_str().into());
    }
    if !visit.met.is_empty() {
        let mut names: Vec<&str> = visit.met.iter().map(|(reason, _)| reason.name()).collect();
        let mut known = HashSet::new();
        names.retain(|name| known.insert(*name));
        set("limits", names.into());
    }
    line
}
