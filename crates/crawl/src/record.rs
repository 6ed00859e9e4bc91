//! Converts answers to pages, and failures to notes.
//!
//! A page is stored with its head as received and its body decoded. A body stored under another
//! URL becomes a reference to it, an answer "not modified" a reference to the previous version. A
//! failure leaves a note beside the page (a WARC metadata record), which `why` and readers of a
//! dump can find.

use filemap::page::{RecordKind, Revisit, RevisitProfile};
use filemap::{Page, PageHead};

use crate::failure::{Failure, Reason};
use crate::fetch::{Answer, Validators};
use crate::hooks::page::Fields;

/// The field of a note that names the failure.
const FAILURE_FIELD: &str = "fetchFailure";
/// The header fields that serve as validators of a conditional request.
const VALIDATORS: [&str; 2] = ["ETag", "Last-Modified"];
/// The other header fields that an answer "not modified" has from the version before, if it does
/// not repeat them: by these links are read, and followed or not.
const READ_BY: [&str; 5] = ["Content-Type", "Content-Language", "Link", "Refresh", "X-Robots-Tag"];

/// The page of an answer.
pub fn page(url: &str, answer: Answer, fetched_at_ms: i64) -> Page {
    Page {
        status: Some(answer.status),
        reason: answer.reason,
        http_version: Some(answer.version),
        method: Some("GET".to_owned()),
        ip: answer.ip,
        headers: answer.headers,
        truncated: answer.cut.map(|cut| truncation(cut.reason)),
        body: answer.body,
        ..Page::new(url, fetched_at_ms, 200, Vec::new())
    }
}

/// WARC's name of the reason why a body is truncated.
fn truncation(reason: Reason) -> String {
    match reason {
        Reason::BodyLimit => "length",
        Reason::TotalTimeout | Reason::TooSlow => "time",
        Reason::Incomplete => "disconnect",
        _ => "unspecified",
    }
    .to_owned()
}

/// A reference to a page with the same body; `page` itself is unchanged.
pub fn duplicate(page: &mut Page, holder: &[u8], holder_ms: i64) -> Page {
    let body = std::mem::take(&mut page.body);
    let reference = refer(page.clone(), RevisitProfile::IdenticalPayload, holder, holder_ms);
    page.body = body;
    reference
}

/// A reference to the page's earlier version. It copies fields that the answer does not repeat
/// (RFC 9111, 4.3.4): validators, because the next request uses those of the newest version, and
/// what the body is read by.
pub fn not_modified(mut page: Page, url: &str, before: &PageHead) -> Page {
    for name in VALIDATORS.into_iter().chain(READ_BY) {
        if page.headers.get(name).is_none() {
            before.page.headers.all(name).for_each(|value| page.headers.push(name, value));
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

/// The validators of the newest version, if that is a complete page.
pub fn validators(known: &PageHead) -> Validators {
    let is_whole = matches!(known.page.status, Some(200 | 304)) && known.page.truncated.is_none();
    let value = |name| known.page.headers.get(name).filter(|_| is_whole).map(<[u8]>::to_vec);
    let [etag, last_modified] = VALIDATORS.map(value);
    Validators { etag, last_modified }
}

/// A note beside a page about its failed fetch.
pub fn failure(url: &str, failure: &Failure, at_ms: i64) -> Page {
    note(url, format!("{FAILURE_FIELD}: {failure}\r\n"), at_ms)
}

/// Returns whether a name is valid for a field of a note: ASCII without blanks and colons.
pub fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name != FAILURE_FIELD && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

/// A note beside a page with its fields, except those with an invalid name ([`is_field_name`]).
/// `None` if no field is left.
pub fn fields(url: &str, fields: &Fields, at_ms: i64) -> Option<Page> {
    let one_line = |value: &str| value.replace(char::is_control, " ");
    let kept = fields.iter().filter(|(name, _)| is_field_name(name));
    let lines: String = kept.map(|(name, value)| format!("{name}: {}\r\n", one_line(value))).collect();
    (!lines.is_empty()).then(|| note(url, lines, at_ms))
}

/// The fields in a note.
pub fn fields_in(note: &Page) -> Fields {
    let text = String::from_utf8_lossy(&note.body);
    let of = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().filter_map(of).filter(|(name, _)| name != FAILURE_FIELD).collect()
}

fn note(url: &str, lines: String, at_ms: i64) -> Page {
    let mut note = Page::new(url, at_ms, 200, lines);
    note.status = None;
    note.kind = RecordKind::Metadata;
    note.headers.push("Content-Type", "application/warc-fields");
    note
}

/// The failure in a note, if this crawler wrote it.
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

    #[test]
    fn a_page_that_is_not_modified_keeps_the_fields_that_it_is_read_by() {
        let folder = tempfile::tempdir().unwrap();
        let store = filemap::PageStore::create(folder.path().join("s"), filemap::Options::new()).unwrap();
        let mut first = Page::new("http://a/", 5, 200, "x");
        let fields =
            [("ETag", "1"), ("X-Robots-Tag", "bot: none"), ("x-robots-tag", "noindex"), ("Content-Type", "a/b")];
        fields.iter().for_each(|(name, value)| first.headers.push(*name, *value));
        first.headers.push("Date", "now");
        store.put_page(&first).unwrap();
        let before = store.head("http://a/").unwrap().unwrap();
        let mut again = Page::new("http://a/", 6, 304, "");
        again.headers.push("etag", "2");
        again.headers.push("Link", "<b>; rel=next");
        let again = not_modified(again, "http://a/", &before);
        let text = |name| again.headers.all(name).map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!(text("ETag").collect::<Vec<_>>(), ["2"]);
        assert_eq!(text("X-Robots-Tag").collect::<Vec<_>>(), ["bot: none", "noindex"]);
        assert_eq!((text("Content-Type").count(), text("Link").count(), text("Date").count()), (1, 1, 0));
    }

    #[test]
    fn fields_come_back_a_line_each_and_none_forges_another() {
        let given = [("lang", "de"), ("note", "a\r\nlang: fr"), ("fetchFailure", "x"), ("a b", "x"), ("", "x")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let note = fields("http://a/", &given, 5).unwrap();
        let kept = [("lang", "de"), ("note", "a  lang: fr")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((fields_in(&note), failure_in(&note)), (kept.into(), None));
        assert_eq!(fields("http://a/", &Fields::new(), 5), None);
    }
}
