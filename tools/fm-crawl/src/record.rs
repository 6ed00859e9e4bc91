//! From answers to pages, and what beside pages is put into the store.
//!
//! A page is stored with the head as it came and the body without its coding. A body that is there under another URL is stored as a
//! reference to it, an answer "not modified" as one to the version before; a failure leaves a note beside the page (a metadata
//! record in WARC's own form), so that `why` and every reader of a dump find it.

use filemap::{Page, PageHead, RecordKind, Revisit, RevisitProfile};

use crate::failure::{Failure, Reason};
use crate::fetch::{Answer, Validators};

/// The field of a note that names the failure.
const FAILURE_FIELD: &str = "fetchFailure";
/// The fields by which a server knows whether a page has changed.
const VALIDATORS: [&str; 2] = ["ETag", "Last-Modified"];

/// The page that an answer is.
pub fn page(url: &str, answer: Answer, fetched_at_ms: i64) -> Page {
    Page {
        status: Some(answer.status),
        reason: answer.reason,
        http_version: Some(answer.version),
        method: Some("GET".to_owned()),
        ip: answer.ip,
        headers: answer.headers,
        truncated: answer.cut.map(truncation),
        body: answer.body,
        ..Page::new(url, fetched_at_ms, 200, Vec::new())
    }
}

/// WARC's word for why a body is cut.
fn truncation(reason: Reason) -> String {
    match reason {
        Reason::BodyLimit => "length",
        Reason::TotalTimeout | Reason::TooSlow => "time",
        Reason::Incomplete => "disconnect",
        _ => "unspecified",
    }
    .to_owned()
}

/// A page as a reference to one with the same body, which it keeps itself.
pub fn duplicate(page: &mut Page, holder: &[u8], holder_ms: i64) -> Page {
    let body = std::mem::take(&mut page.body);
    let reference = refer(page.clone(), RevisitProfile::IdenticalPayload, holder, holder_ms);
    page.body = body;
    reference
}

/// The page as a reference to its own earlier version, whose validators it has where the answer does not repeat them: the next request asks
/// with those of the newest version (RFC 9111, 4.3.4: what an answer "not modified" does not say of a stored one stays).
pub fn not_modified(mut page: Page, url: &str, before: &PageHead) -> Page {
    for name in VALIDATORS {
        if page.headers.get(name).is_none()
            && let Some(value) = before.page.headers.get(name)
        {
            page.headers.push(name, value);
        }
    }
    refer(page, RevisitProfile::ServerNotModified, url.as_bytes(), before.page.fetched_at_ms)
}

fn refer(page: Page, profile: RevisitProfile, to: &[u8], to_ms: i64) -> Page {
    let revisit = Revisit {
        profile,
        refers_to_url: Some(to.to_vec()),
        refers_to_ms: Some(to_ms),
        refers_to_id: None,
        original: None,
    };
    Page { kind: RecordKind::Revisit, body: Vec::new(), revisit: Some(revisit), ..page }
}

/// What the newest version lets us ask with: only a whole page can be unchanged.
pub fn validators(known: &PageHead) -> Validators {
    let is_whole = matches!(known.page.status, Some(200 | 304)) && known.page.truncated.is_none();
    let value = |name| known.page.headers.get(name).filter(|_| is_whole).map(<[u8]>::to_vec);
    let [etag, last_modified] = VALIDATORS.map(value);
    Validators { etag, last_modified }
}

/// A note beside a page that a fetch of it failed.
pub fn failure(url: &str, failure: &Failure, at_ms: i64) -> Page {
    let mut note = Page::new(url, at_ms, 200, format!("{FAILURE_FIELD}: {failure}\r\n"));
    note.status = None;
    note.kind = RecordKind::Metadata;
    note.headers.push("Content-Type", "application/warc-fields");
    note
}

/// What a note says, if it is one of ours.
pub fn failure_in(note: &Page) -> Option<String> {
    let text = String::from_utf8_lossy(&note.body);
    text.lines().find_map(|line| line.strip_prefix(FAILURE_FIELD)?.strip_prefix(": ").map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_failed() {
        let note = failure("http://a/", &Failure::new(Reason::RatioLimit, "x\u{1}y"), 5);
        assert_eq!(failure_in(&note).as_deref(), Some("ratio-limit: x\u{1}y"));
        assert_eq!(failure_in(&Page::new("http://a/", 5, 200, "x")), None);
    }
}
