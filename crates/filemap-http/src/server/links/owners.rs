//! `/v1/links`, `/v1/links/standing` and `/v1/links/SHARD/owner`: the number of shards, their
//! owners, and whether the fleet is finished.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use mailbox::{Mailboxes, ShardStats};
use serde_json::{Value, json};

use super::mail::{boxes, crawl, shard};
use crate::query::Query;
use crate::server::backend::Backend;
use crate::server::guard::{Allowed, check_writes};
use crate::server::refusal::{Answer, Refusal};
use crate::server::seen::ask::asking;
use crate::server::tokens::Right;
use crate::wire::links::{FleetStanding, Report, Shards, Taken, crawl_id, read_crawl_id};

fn standing(boxes: &Mailboxes, fenced: Vec<u32>) -> FleetStanding {
    let standing = boxes.standing();
    FleetStanding {
        shards: boxes.shards(),
        lease_ms: boxes.lease().as_millis() as u64,
        is_over: standing.is_over,
        waiting: standing.waiting,
        working: standing.working,
        silent: standing.silent,
        free: standing.free,
        fenced,
    }
}

/// `PUT /v1/links`: creates the mailboxes of a fleet, unless they exist.
pub(crate) async fn create(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Answer {
    check_writes(&backend)?;
    allowed.needs(Right::Write)?;
    Query::parse(raw.as_deref(), &[])?;
    let Shards { shards } = serde_json::from_slice(&body)
        .map_err(|error| Refusal::bad(format!("send the number of shards as JSON, {{\"shards\":4}}: {error}")))?;
    let Some(links) = backend.options.links.clone() else {
        return Err(Refusal::new(StatusCode::NOT_FOUND, "this server has no mailboxes: start it with --links"));
    };
    let (standing, is_new) = asking(&backend, move || {
        let (boxes, is_new) = links.of(shards)?;
        Ok::<_, mailbox::Error>((standing(&boxes, Vec::new()), is_new))
    })
    .await??;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(standing)).into_response())
}

/// `GET /v1/links`: the shards.
pub(crate) async fn all(State(backend): State<Arc<Backend>>, RawQuery(raw): RawQuery) -> Answer {
    Query::parse(raw.as_deref(), &[])?;
    let boxes = backend.options.links.as_ref().and_then(|links| links.get());
    let boxes = boxes.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "there are no mailboxes here"))?;
    let answer = asking(&backend, move || {
        let shards: Vec<Value> = boxes.stats().iter().map(of_shard).collect();
        json!({ "standing": standing(&boxes, Vec::new()), "shards": shards })
    });
    Ok(Json(answer.await?).into_response())
}

fn of_shard(shard: &ShardStats) -> Value {
    let owner = shard.owner.map(|owner| {
        let heard = owner.heard.as_secs();
        json!({ "crawl": crawl_id(owner.crawl), "heard_seconds_ago": heard, "is_idle": owner.is_idle })
    });
    json!({
        "shard": shard.shard,
        "waiting": shard.waiting,
        "bytes": shard.bytes,
        "entered": shard.entered,
        "epoch": shard.epoch,
        "owner": owner,
    })
}

/// `POST /v1/links/standing`: a crawl reports its shards and whether it is idle, and gets the
/// state of the fleet.
pub(crate) async fn report(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Answer {
    let boxes = boxes(&backend, allowed)?;
    Query::parse(raw.as_deref(), &[])?;
    let bad = |words: String| {
        let such = r#"{"crawl":"ID","owned":[{"shard":0,"epoch":1}],"is_idle":false}"#;
        Refusal::bad(format!("send a report as JSON, {such}: {words}"))
    };
    let report: Report = serde_json::from_slice(&body).map_err(|error| bad(error.to_string()))?;
    let crawl =
        read_crawl_id(&report.crawl).ok_or_else(|| bad("`crawl` must be an id of 32 hexadecimal digits".to_owned()))?;
    let owned: Vec<(u32, u64)> = report.owned.iter().map(|owned| (owned.shard, owned.epoch)).collect();
    let told = asking(&backend, move || {
        let fenced = boxes.report(crawl, &owned, report.does())?;
        Ok::<_, mailbox::Error>(standing(&boxes, fenced))
    });
    Ok(Json(told.await??).into_response())
}

/// `PUT /v1/links/SHARD/owner`: a crawl takes a shard that is free, or already its own.
pub(crate) async fn take(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    Path(of): Path<String>,
    RawQuery(raw): RawQuery,
) -> Answer {
    let (boxes, shard) = (boxes(&backend, allowed)?, shard(&of)?);
    let crawl = crawl(&Query::parse(raw.as_deref(), &["crawl"])?)?;
    let epoch = asking(&backend, move || boxes.claim(shard, crawl)).await??;
    Ok(Json(Taken { epoch }).into_response())
}

/// `DELETE /v1/links/SHARD/owner`: frees a shard whose owner has ended.
pub(crate) async fn free(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    Path(of): Path<String>,
    RawQuery(raw): RawQuery,
) -> Answer {
    let (boxes, shard) = (boxes(&backend, allowed)?, shard(&of)?);
    allowed.needs(Right::Admin)?;
    Query::parse(raw.as_deref(), &[])?;
    asking(&backend, move || boxes.free(shard)).await??;
    Ok(Json(json!({ "shard": shard })).into_response())
}
