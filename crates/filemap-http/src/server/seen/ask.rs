//! `POST /v1/seen/NAME/add` and `check`: one URL a line in, one verdict a line out, in order.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream::iter;
use tokio::task::spawn_blocking;
use urlindex::Verdict;
use urlindex::idempotent::{AddRequest, RequestId, Verdicts};

use super::sets::Served;
use super::worker::Room;
use crate::query::Query;
use crate::server::backend::Backend;
use crate::server::guard::{Allowed, check_writes};
use crate::server::lookup::durable;
use crate::server::pages::upload::{self, Upload};
use crate::server::refusal::{Answer, Refusal};
use crate::server::tokens::Right;
use crate::wire::INVALID;

/// Maximum number of bytes of the URLs of one request.
const MAX_URLS: u64 = 64 << 20;
/// Maximum number of URLs of one request, and the memory of each in addition to its bytes.
const MAX_LINES: u64 = 1_000_000;
const LINE_BYTES: u64 = 100;
/// Verdicts in one part of a response.
const PART: usize = 16 << 10;
/// Room for most verdicts of a line in a response, in bytes.
const WORD: usize = 8;
/// Number of bytes of URLs canonicalised inline: cheaper than waking another thread.
const QUICK: u64 = 8 << 10;
/// Header with the request's id.
const ID: HeaderName = HeaderName::from_static("idempotency-key");

/// `POST /v1/seen/NAME/add`.
pub(crate) async fn add(
    State(backend): State<Arc<Backend>>,
    Extension(allowed): Extension<Allowed>,
    Path(name): Path<String>,
    asked: Request,
) -> Answer {
    check_writes(&backend)?;
    allowed.needs(Right::Write)?;
    let (Parts { uri, headers, .. }, body) = asked.into_parts();
    let durable = durable(&Query::parse(uri.query(), &["durable"])?)?;
    let id = id(&headers)?;
    check_coding(&headers)?;
    let served = served(&backend, &name)?;
    let urls = upload::take_up_to(body, MAX_URLS).await?;
    let (urls, room) = counted(&backend, urls).await?;
    if served.shared().is_some() {
        return Ok((StatusCode::OK, words(add_there(served, id, urls, room).await?)).into_response());
    }
    let of_request = Arc::clone(&served);
    let made = quick(urls.bytes, move || (request(&of_request, id, urls), room)).await?;
    let (request, room) = (made.0?, made.1);
    let Some(worker) = served.worker() else { return Err(no_writer(&name)) };
    let Some(answer) = worker.add(request, durable, room).await else {
        let words = format!("seen set `{name}` takes no more requests; the server's log says why");
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words));
    };
    let answer = answer?;
    let status = if durable { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, words(answer)).into_response())
}

/// `POST /v1/seen/NAME/check`.
pub(crate) async fn check(
    State(backend): State<Arc<Backend>>,
    Path(name): Path<String>,
    RawQuery(raw): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Query::parse(raw.as_deref(), &[])?;
    check_coding(&headers)?;
    let served = served(&backend, &name)?;
    let urls = upload::take_up_to(body, MAX_URLS).await?;
    let (urls, room) = counted(&backend, urls).await?;
    let name = served.shared().map(|_| served.name.clone());
    let check = move || {
        let _room = room;
        checked(&served, urls)
    };
    let Some(name) = name else { return Ok(words(asking(&backend, check).await??).into_response()) };
    Ok(words(there(&name, check).await?).into_response())
}

/// Adds to an external set.
async fn add_there(served: Arc<Served>, id: Option<RequestId>, urls: Upload, room: Room) -> Result<Verdicts, Refusal> {
    let name = served.name.clone();
    let add = move || {
        let _room = room;
        answered(&served, urls, |keys| {
            let Some(set) = served.shared() else { return Ok(Vec::new()) };
            if let Some(id) = id {
                return set.add(id, keys);
            }
            let mut verdicts = Vec::with_capacity(keys.len());
            set.set().check_and_insert_batch(keys, &mut verdicts)?;
            Ok(verdicts)
        })
    };
    there(&name, add).await
}

/// Calls an external set, which may be slow: no other set waits for it.
async fn there(
    name: &str,
    call: impl FnOnce() -> Result<Verdicts, Refusal> + Send + 'static,
) -> Result<Verdicts, Refusal> {
    let done = spawn_blocking(call).await;
    let answer = done.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    answer.map_err(|refusal| refusal.of_others(&format!("seen set `{name}`")))
}

/// Reserves memory for the lines of a body.
///
/// # Errors
///
/// 413 if there are too many.
async fn counted(backend: &Backend, mut urls: Upload) -> Result<(Upload, Room), Refusal> {
    let (lines, urls) = quick(urls.bytes, move || urls.count_lines().map(|lines| (lines, urls)))
        .await?
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the URLs set aside: {error}")))?;
    if lines > MAX_LINES {
        let words = format!("a request may have at most {MAX_LINES} URLs, this one has {lines}: send parts");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, words));
    }
    let room = backend.room_for_urls(urls.bytes + lines * LINE_BYTES).await;
    Ok((urls, room))
}

/// Calls a set that may read from the device.
pub(crate) async fn asking<T: Send + 'static>(
    backend: &Backend,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let turn = Arc::clone(&backend.asking).acquire_owned().await;
    let done = spawn_blocking(move || {
        // Held until the call is done, even if its client has disconnected.
        let _turn = turn;
        call()
    });
    done.await.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

pub(super) fn served(backend: &Backend, name: &str) -> Result<Arc<Served>, Refusal> {
    let served = backend.options.seen.get(name);
    served.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, format!("there is no seen set `{name}` here")))
}

fn no_writer(name: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, format!("seen set `{name}` is read-only here"))
}

fn check_coding(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
        None => Ok(()),
        Some(_) => Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the URLs without a coding")),
    }
}

/// The request's id, in quotes as in the draft of the header, or without.
fn id(headers: &HeaderMap) -> Result<Option<RequestId>, Refusal> {
    let mut values = headers.get_all(ID).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::bad("a request must have one `Idempotency-Key`"));
    }
    let text = value.to_str().unwrap_or_default().trim();
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    bare.parse().map(Some).map_err(|words: String| Refusal::bad(format!("`Idempotency-Key`: {words}")))
}

/// Runs work over `bytes` bytes: inline if it is small, otherwise on a blocking thread.
async fn quick<T: Send + 'static>(bytes: u64, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    if bytes <= QUICK {
        return Ok(work());
    }
    let done = spawn_blocking(work).await;
    done.map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn read(mut urls: Upload) -> Result<Vec<u8>, Refusal> {
    let failed = |error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the URLs set aside: {error}"));
    urls.rest().map_err(failed)
}

/// The lines of a body. An empty line is an invalid URL, except after the last line end.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_none = bytes.is_empty();
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.split(|byte| *byte == b'\n').skip(usize::from(is_none)).map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn request(served: &Served, id: Option<RequestId>, urls: Upload) -> Result<AddRequest, Refusal> {
    let Some(worker) = served.worker() else { return Err(no_writer(&served.name)) };
    let bytes = read(urls)?;
    let mut request = worker.set().request(id);
    for line in lines(&bytes) {
        let key = served.canonicalizer.canonical(line).ok();
        worker.set().push(&mut request, key.as_deref());
    }
    Ok(request)
}

fn checked(served: &Served, urls: Upload) -> Result<Verdicts, Refusal> {
    answered(served, urls, |keys| served.contains(keys))
}

/// Verdicts for the lines of a body; `ask` returns those of the valid URLs.
fn answered(
    served: &Served,
    urls: Upload,
    ask: impl FnOnce(&[&[u8]]) -> urlindex::Result<Vec<Verdict>>,
) -> Result<Verdicts, Refusal> {
    let bytes = read(urls)?;
    let is_taken = |key: &Cow<'_, [u8]>| key.len() <= usize::from(u16::MAX);
    let keys: Vec<Option<Cow<'_, [u8]>>> =
        lines(&bytes).map(|line| served.canonicalizer.canonical(line).ok().filter(is_taken)).collect();
    let known: Vec<&[u8]> = keys.iter().flatten().map(|key| &**key).collect();
    let mut verdicts = ask(&known)?.into_iter();
    Ok(keys.iter().map(|key| key.as_ref().and_then(|_| verdicts.next())).collect())
}

/// The verdicts as words, one a line; expanded from two bits each while they are sent.
fn words(verdicts: Verdicts) -> Response {
    let kind = [(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))];
    if verdicts.len() <= PART {
        return (kind, words_of(&verdicts, 0)).into_response();
    }
    let parts = (0..verdicts.len()).step_by(PART);
    let parts = parts.map(move |from| Ok::<_, Infallible>(words_of(&verdicts, from)));
    (kind, Body::from_stream(iter(parts))).into_response()
}

/// The words of one part, beginning at `from`.
fn words_of(verdicts: &Verdicts, from: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity((verdicts.len() - from).min(PART) * WORD);
    for verdict in (from..verdicts.len()).take(PART).map(|place| verdicts.get(place)) {
        out.extend_from_slice(verdict.map_or(INVALID, Verdict::name).as_bytes());
        out.push(b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_one_answer_and_the_last_end_makes_none() {
        let of = |text: &str| lines(text.as_bytes()).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!((of("").len(), of("\n").len(), of("\n\n").len()), (0, 1, 2));
        assert_eq!(of("a\r\nb"), [b"a", b"b"]);
        assert_eq!(of("a\n\nb\n"), [&b"a"[..], b"", b"b"]);
    }
}
