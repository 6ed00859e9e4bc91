//! `POST`, `GET`, `DELETE /v1/links/SHARD`: adds, reads and drops links.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use mailbox::{Link, Mailboxes};
use serde_json::json;

use crate::query::Query;
use crate::server::backend::Backend;
use crate::server::guard::{Allowed, check_writes};
use crate::server::pages::upload::{self, Upload};
use crate::server::refusal::{Answer, Refusal};
use crate::server::seen::ask::asking;
use crate::server::tokens::Right;
use crate::wire::links::{Entered, LinkLine, LinksPart, read_crawl_id};

/// Limits of one request: bytes and links.
const MAX_BYTES: u64 = 8 << 20;
const MAX_LINKS: usize = 100_000;
/// Links of a response, unless the request gives another number.
const LINKS: usize = 10_000;
/// Memory of a link in addition to its bytes.
const LINK_BYTES: u64 = 4;

/// The mailboxes of a server that writes, for senders with the right to write.
///
/// # Errors
///
/// 403; 404 if there are no mailboxes.
pub(super) fn boxes(backend: &Backend, allowed: Allowed) -> Result<Arc<Mailboxes>, Refusal> {
    check_writes(backend)?;
    allowed.needs(Right::Write)?;
    let words = "this server has no mailboxes: start it with --links, and create them with PUT /v1/links";
    let boxes = backend.options.links.as_ref().and_then(|links| links.get());
    boxes.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, words))
}

/// A number in a query.
pub(super) fn number(query: &Query, name: &str) -> Result<Option<u64>, String> {
    query.read(name, "a number", |text| text.parse().ok())
}

pub(super) fn needed_number(query: &Query, name: &str) -> Result<u64, String> {
    number(query, name)?.ok_or_else(|| format!("the parameter `{name}` is missing"))
}

/// The crawl's id in a query.
pub(super) fn crawl(query: &Query) -> Result<u128, String> {
    query.needed("crawl")?;
    let crawl = query.read("crawl", "an id of 32 hexadecimal digits", read_crawl_id)?;
    crawl.ok_or_else(|| "the parameter `crawl` is missing".to_owned())
}

/// A shard number in a path.
pub(super) fn shard(text: &str) -> Result<u32, Refusal> {
    text.parse().map_err(|_| Refusal::new(StatusCode::NOT_FOUND, format!("`{text}` is not a shard: give its number")))
}

/// `POST /v1/links/SHARD`: adds those links of a crawl that the mailbox does not have yet.
pub(crate) async fn post(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    Path(of): Path<String>,
    RawQuery(raw): RawQuery,
    body: Body,
) -> Answer {
    let (boxes, shard) = (boxes(&backend, allowed)?, shard(&of)?);
    let query = Query::parse(raw.as_deref(), &["crawl", "first"])?;
    let (crawl, first) = (crawl(&query)?, needed_number(&query, "first")?);
    let upload = upload::take_up_to(body, MAX_BYTES).await?;
    let room = backend.room_for_urls(upload.bytes * LINK_BYTES).await;
    let enter = move || {
        let _room = room;
        let links = links(upload)?;
        Ok::<_, Refusal>(boxes.post(shard, crawl, first, &links)?)
    };
    let posted = asking(&backend, enter).await??;
    Ok(Json(Entered { entered: posted.entered, next: posted.next }).into_response())
}

/// Parses the links of a body, one a line.
fn links(mut upload: Upload) -> Result<Vec<Link>, Refusal> {
    let failed = |error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the links set aside: {error}"));
    let bytes = upload.rest().map_err(failed)?;
    let mut links = Vec::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let bad = |words: String| Refusal::bad(format!("line {}: {words}; no link was entered", at + 1));
        let line: LinkLine = serde_json::from_slice(line).map_err(|error| {
            bad(format!("a link is such as {{\"url\":\"http://example.com/\",\"depth\":1}}: {error}"))
        })?;
        let link = Link::from(line);
        if !link.is_sound() {
            return Err(bad(format!("a URL of {} bytes: it must have 1 to 65,535", link.url.len())));
        }
        links.push(link);
    }
    if links.len() > MAX_LINKS {
        let words = format!("a request has at most {MAX_LINKS} links, this one {}: send parts", links.len());
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, words));
    }
    Ok(links)
}

/// `GET /v1/links/SHARD`: links from a cursor on.
pub(crate) async fn read(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    Path(of): Path<String>,
    RawQuery(raw): RawQuery,
) -> Answer {
    let (boxes, shard) = (boxes(&backend, allowed)?, shard(&of)?);
    let query = Query::parse(raw.as_deref(), &["cursor", "limit", "epoch"])?;
    let (cursor, epoch) = (number(&query, "cursor")?, number(&query, "epoch")?);
    let limit = number(&query, "limit")?.map_or(LINKS, |limit| (limit as usize).clamp(1, MAX_LINKS));
    let part = asking(&backend, move || {
        epoch.map_or(Ok(()), |epoch| boxes.check(shard, epoch))?;
        boxes.read(shard, cursor, limit)
    });
    let part = part.await??;
    let links = part.links.into_iter().map(LinkLine::from).collect();
    Ok(Json(LinksPart { links, cursor: part.cursor.to_string() }).into_response())
}

/// `DELETE /v1/links/SHARD`: drops the links that the owner has received.
pub(crate) async fn drop_to(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    Path(of): Path<String>,
    RawQuery(raw): RawQuery,
) -> Answer {
    let (boxes, shard) = (boxes(&backend, allowed)?, shard(&of)?);
    let query = Query::parse(raw.as_deref(), &["cursor", "epoch"])?;
    let (cursor, epoch) = (needed_number(&query, "cursor")?, needed_number(&query, "epoch")?);
    let dropped = asking(&backend, move || boxes.drop_to(shard, epoch, cursor)).await??;
    Ok(Json(json!({ "dropped": dropped })).into_response())
}
