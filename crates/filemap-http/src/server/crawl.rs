//! The latest status of a crawl into the store.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::backend::Backend;
use super::refusal::{Answer, Refusal};

/// Fields that name hosts and pages: left out if there are access rules, which are not applied
/// here.
const NAMING: [(&str, &str); 2] = [("", "hosts"), ("run", "latest_failures")];

/// The status; `None` if there is no crawl.
pub(super) async fn status(backend: &Arc<Backend>) -> Option<Value> {
    let read = backend.options.crawl.clone()?;
    let mut status = spawn_blocking(move || read()).await.ok()?.filter(Value::is_object)?;
    if backend.options.access.is_some() {
        for (within, name) in NAMING {
            let fields = if within.is_empty() { Some(&mut status) } else { status.get_mut(within) };
            if let Some(fields) = fields.and_then(Value::as_object_mut) {
                fields.remove(name);
            }
        }
        status["names_are_left_out"] = json!(true);
    }
    Some(status)
}

/// `GET /v1/crawl`.
pub(super) async fn crawl(State(backend): State<Arc<Backend>>) -> Answer {
    let none = || Refusal::new(StatusCode::NOT_FOUND, "no crawl has reported on this store");
    Ok(Json(status(&backend).await.ok_or_else(none)?).into_response())
}
