//! `/web/TIMESTAMPid_/URL`: a capture as it was recorded: its status, its type, its bytes.
//!
//! Replay tools read it. Only the capture's `Content-Type` and `Location` keep their names; its
//! other headers are prefixed with `X-Archive-Orig-`, since a page's cookies and policies must not
//! become this server's. A replay tool repeats a form's `POST`, which finds the capture by the
//! body and changes nothing.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LINK, LOCATION};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use filemap::page::RecordKind;
use filemap::store::PageReader;
use filemap::{Error, Page, Variant, date};

use super::super::backend::Backend;
use super::super::pages::{read, send, upload};
use super::super::refusal::{Answer, Refusal};
use super::super::shown::Shown;
use super::captures::{Named, base, behind, first, named, nearest};
use super::memento;

/// Longest body of a replayed request.
const MAX_REQUEST: u64 = 16 << 20;

/// Result of the search for a time.
enum Found {
    Capture(Box<(Page, PageReader)>),
    /// The nearest capture has another time.
    Elsewhere(i64),
    Nothing,
}

/// `GET` and `POST` of `/web/...`.
pub(crate) async fn replay(
    State(backend): State<Arc<Backend>>,
    uri: Uri,
    method: Method,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let target = uri.path_and_query().map_or("", |target| target.as_str());
    let rest = behind(target, "/web/");
    let parsed = rest.split_once("id_/").and_then(|(stamp, url)| Some((first(stamp)?, stamp, url)));
    let Some((time_ms, stamp, url)) = parsed.filter(|(.., url)| !url.is_empty()) else {
        return Err(Refusal::bad(format!(
            "`/web/{rest}`: write /web/TIMESTAMPid_/URL, with 14 digits, or the first 4 to 12"
        )));
    };
    let request = match method {
        Method::GET | Method::HEAD => None,
        _ => Some(upload::take_up_to(body, MAX_REQUEST).await?),
    };
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_vec());
    let asked_url = url.as_bytes().to_vec();
    let exact = (stamp.len() == 14).then(|| stamp.to_owned());
    let find = move |shown: &Shown| {
        let Some(mut named) = named(shown, &asked_url)? else { return Ok(Found::Nothing) };
        if let Some(mut body) = request {
            let read = body.rest();
            let bytes =
                read.map_err(|source| Error::Read { what: "the request set aside".to_owned(), offset: 0, source })?;
            named.variant = Variant::of_request(method.as_str(), kind.as_deref(), &bytes);
        }
        find(shown, &named, time_ms, exact.as_deref())
    };
    let base = base(&backend, &headers)?;
    match backend.call(find).await? {
        Found::Capture(found) => {
            let (page, reader) = *found;
            answer(&backend, &base, url, &page, reader)
        }
        Found::Elsewhere(time_ms) => {
            let place = read::value(&memento::location(&base, time_ms, url))?;
            // A redirect that keeps the body, if any.
            Ok((StatusCode::TEMPORARY_REDIRECT, [(LOCATION, place)]).into_response())
        }
        Found::Nothing => Err(backend.absent(format!("the store has no capture of {url}"))),
    }
}

fn find(shown: &Shown, named: &Named, time_ms: i64, exact: Option<&str>) -> Result<Found, Refusal> {
    let Some(version) = nearest(&shown.captures(named.lookup())?, time_ms) else { return Ok(Found::Nothing) };
    if exact != Some(date::stamp(version.time_ms).as_str()) {
        return Ok(Found::Elsewhere(version.time_ms));
    }
    let found = shown.open(named.lookup(), Some(version))?.or_refused()?;
    Ok(found.map_or(Found::Nothing, |found| Found::Capture(Box::new(found))))
}

fn answer(backend: &Arc<Backend>, base: &str, url: &str, page: &Page, reader: PageReader) -> Answer {
    let bytes = reader.remaining();
    if bytes == 0 && page.lacks_body() {
        return Err(backend.absent(format!("{url}: this capture is a revisit, and its original is not in the store")));
    }
    let mut headers = read::about(page, &reader)?;
    if let Some(place) = page.headers.get("location").and_then(|place| HeaderValue::from_bytes(place).ok()) {
        headers.insert(LOCATION, place);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    headers.insert(LINK, read::value(&memento::links(base, url))?);
    // A revisit with status 304 has its original's body here.
    let status = page.status.filter(|status| *status != 304 || page.kind != RecordKind::Revisit);
    let status = status.and_then(|status| StatusCode::from_u16(status).ok()).filter(|status| status.as_u16() >= 200);
    let body = send::body(backend, &page.url, Vec::new(), reader, bytes);
    Ok((status.unwrap_or(StatusCode::OK), headers, body).into_response())
}
