//! The frontier's state of a page, as JSON.

use frontier::{PageState, PageStatus};
use serde_json::{Value, json};

use crate::failure::kind_name;

/// A page's state; `null` if there is none.
pub fn page(state: Option<&PageState>) -> Value {
    let Some(state) = state else { return Value::Null };
    let status = match state.status {
        PageStatus::Queued => "queued",
        PageStatus::Retrying => "waits for another attempt",
        PageStatus::InFlight => "in flight",
        PageStatus::Fetched => "fetched",
        PageStatus::Due => "due again",
        PageStatus::Gone => "given up",
        _ => "unknown",
    };
    let rests = state.host_failing.filter(|_| state.status != PageStatus::Gone);
    json!({
        "url": state.url, "status": status, "is_seed": state.is_seed, "is_vouched_for": state.is_vouched_for,
        "depth": state.depth, "credit": state.credit, "importance": state.importance,
        "failed_attempts": state.failed_attempts, "last_failure": state.last_failure.map(kind_name),
        "due": state.due_ms.map(filemap::date::format),
        "host_silent_since": rests.map(|rests| filemap::date::format(rests.since_ms)),
        "host_rests_until": rests.map(|rests| filemap::date::format(rests.until_ms)),
    })
}
