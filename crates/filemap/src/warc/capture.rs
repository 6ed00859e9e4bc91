//! Turns a WARC record into a page: parses the HTTP message in its block and decodes the body.
//!
//! A block that should be HTTP but is not (or whose head is longer than a mebibyte) is kept whole
//! as the body, with the record's own `Content-Type`. A record from the dump of a store becomes
//! the original page (see `stored`).

use crate::error::Result;
use crate::http::body::{self, BodyRules};
use crate::http::head::{self, MAX_HEAD_BYTES};
use crate::page::digest::expected;
use crate::page::version::BodyForm;
use crate::page::{Page, RecordKind, Revisit};
use crate::spool::Payload;
use crate::warc::header::RecordHeader;
use crate::warc::payload::{Check, DigestCount};
use crate::warc::record::Record;
use crate::warc::stored::{Stored, described};

/// A page and its body, which may be on disk; `page.body` is empty.
#[derive(Default)]
pub(crate) struct Capture {
    pub(crate) page: Page,
    pub(crate) body: Payload,
    pub(crate) decoded: bool,
    pub(crate) kept_as_received: bool,
    /// Result of checking the record's payload digest.
    pub(crate) digests: DigestCount,
    /// For a record from a dump: how the store held the page.
    pub(crate) stored: Option<AsStored>,
    /// True if the record can be read from its offset alone, without the bytes before it.
    pub(crate) reads_alone: bool,
}

impl Capture {
    /// The page as other programs read the file: an unchanged version of a dump, whose body is in
    /// another record, is a revisit.
    pub(crate) fn for_any_reader(mut self) -> Capture {
        if let Some(original) = self.stored.take().and_then(|stored| stored.original) {
            self.page.kind = RecordKind::Revisit;
            self.page.revisit = Some(original.revisit);
        }
        self
    }
}

/// Form in which a store held the page that it wrote as a record.
pub(crate) struct AsStored {
    pub(crate) body_form: BodyForm,
    /// Set if the body is not in the record but in the store: see [`Original`].
    pub(crate) original: Option<Original>,
}

/// Reference to the version that has the body of an unchanged one.
pub(crate) struct Original {
    /// The time of the version of the same URL that has it.
    pub(crate) time_ms: i64,
    /// Its SHA-1.
    pub(crate) payload: [u8; 20],
    /// The revisit that the page becomes if the store lacks that version.
    pub(crate) revisit: Revisit,
}

/// Result of converting a record.
pub(crate) enum Captured {
    Page(Box<Capture>),
    /// The record is whole but cannot be kept, for this reason.
    Unusable(&'static str),
}

/// Converts a record of this kind to a page.
pub(crate) fn capture(record: Record, kind: RecordKind, rules: &BodyRules) -> Result<Captured> {
    let Record { header, mut block, .. } = record;
    if let Some(captured) = as_stored(&header, &mut block)? {
        return Ok(Captured::Page(Box::new(Capture { body: block, ..captured })));
    }
    let Some(url) = header.target_uri() else {
        return Ok(Captured::Unusable("the record names no URL (WARC-Target-URI)"));
    };
    let Some(fetched_at_ms) = header.date_ms() else {
        return Ok(Captured::Unusable("the record has no valid date (WARC-Date)"));
    };
    let mut page = Page { url: url.to_vec(), fetched_at_ms, kind, ..described(&header, kind) };
    let message = match kind {
        RecordKind::Response | RecordKind::Revisit | RecordKind::Request => http_message(&mut page, &mut block)?,
        _ => false,
    };
    let mut capture = Capture { page, ..Capture::default() };
    let is_whole_page = kind.is_page() && kind != RecordKind::Revisit;
    let check = is_whole_page.then(|| Check::as_received(&capture.page, &mut block, rules)).transpose()?;

    if !message {
        if let Some(value) = header.fields.get("Content-Type").filter(|_| kind != RecordKind::Revisit) {
            capture.page.headers.push("Content-Type", value);
        }
        capture.body = block;
    } else if kind == RecordKind::Revisit {
        body::undo_revisit(&mut capture.page.headers);
        capture.body = block;
    } else {
        let undone = body::undo(&mut capture.page.headers, block, rules)?;
        if undone.cut && capture.page.truncated.is_none() {
            capture.page.truncated = Some("unspecified".to_owned());
        }
        capture.decoded = undone.decoded;
        capture.kept_as_received = undone.as_received;
        capture.body = undone.payload;
    }
    if let Some(check) = check {
        capture.digests = check.with_kept(&capture.page, &mut capture.body)?;
    }
    Ok(Captured::Page(Box::new(capture)))
}

/// The page of a record from a dump, without its body, which is then the rest of the block; `None`
/// for other records.
fn as_stored(header: &RecordHeader, block: &mut Payload) -> Result<Option<Capture>> {
    let Some(stored) = Stored::of(header).filter(|stored| stored.head_bytes <= block.len()) else { return Ok(None) };
    let head = block.prefix(usize::try_from(stored.head_bytes).unwrap_or(usize::MAX))?;
    let Some(page) = stored.page(header, &head) else { return Ok(None) };
    let body_form = if stored.unchanged { BodyForm::Reference } else { BodyForm::Whole };
    let mut as_stored = AsStored { body_form, original: None };
    if header.kind() == Some(RecordKind::Revisit) && page.kind != RecordKind::Revisit {
        let revisit = header.revisit();
        let payload = header.text("WARC-Payload-Digest").and_then(expected);
        let Some((time_ms, payload)) = revisit.refers_to_ms.zip(payload) else { return Ok(None) };
        as_stored.original = Some(Original { time_ms, payload, revisit });
    }
    block.skip(stored.head_bytes);
    Ok(Some(Capture { page, stored: Some(as_stored), ..Capture::default() }))
}

/// Moves the head of an HTTP message from the block to the page. Returns false if the block is not
/// an HTTP message.
fn http_message(page: &mut Page, block: &mut Payload) -> Result<bool> {
    let parsed = match &*block {
        Payload::Memory(bytes) => head::parse(&bytes[..bytes.len().min(MAX_HEAD_BYTES)]),
        Payload::Disk { .. } => head::parse(&block.prefix(MAX_HEAD_BYTES)?),
    };
    let Some(head) = parsed else { return Ok(false) };
    if head.is_request() != (page.kind == RecordKind::Request) {
        return Ok(false);
    }
    block.skip(head.bytes as u64);
    head.describe(page);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Spool;
    use crate::warc::reader::Reader;
    use crate::warc::record::Item;

    fn rules() -> BodyRules {
        BodyRules { as_received: false, max_decoded_bytes: 1 << 20, spool: Spool::default() }
    }

    fn run(fields: &str, block: &str) -> std::result::Result<(Page, Vec<u8>), &'static str> {
        let text = format!("WARC/1.0\r\n{fields}Content-Length: {}\r\n\r\n{block}\r\n\r\n", block.len());
        let mut reader = Reader::new(text.as_bytes(), "t", Spool::default()).expect("a reader");
        let Some(Item::Record(record)) = reader.next_item().expect("memory") else { panic!("a record") };
        let kind = record.header.kind().expect("a kind");
        match capture(record, kind, &rules()).expect("memory") {
            Captured::Unusable(why) => Err(why),
            Captured::Page(mut capture) => {
                let body = capture.body.prefix(usize::MAX).expect("memory");
                Ok((capture.page, body))
            }
        }
    }

    const SOME: &str = "WARC-Target-URI: http://a/\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n";

    #[test]
    fn an_answer_becomes_a_page() {
        let fields = format!(
            "WARC-Type: response\r\n{SOME}WARC-IP-Address: 1.2.3.4\r\nWARC-Truncated: length\r\n\
             WARC-Payload-Digest: sha1:X\r\nWARC-Record-ID: <urn:x>\r\n"
        );
        let (page, body) = run(&fields, "HTTP/1.1 200 OK\r\nA: b\r\n\r\nhello").expect("a page");
        assert_eq!((page.status, &page.reason[..], &body[..]), (Some(200), &b"OK"[..], &b"hello"[..]));
        assert_eq!((page.truncated.as_deref(), page.digest.as_deref()), (Some("length"), Some("sha1:X")));
        assert_eq!((page.ip, page.record_id.as_deref()), ("1.2.3.4".parse().ok(), Some("<urn:x>")));
        assert_eq!(page.fetched_at_ms, 1_577_836_800_000);
    }

    #[test]
    fn a_block_that_is_not_http_is_kept_whole() {
        let fields = format!("WARC-Type: response\r\n{SOME}Content-Type: text/dns\r\n");
        let (page, body) = run(&fields, "20200101\na. 300 IN A 1.2.3.4\n").expect("a page");
        assert_eq!(body, b"20200101\na. 300 IN A 1.2.3.4\n");
        assert_eq!((page.status, page.headers.get("content-type")), (None, Some(&b"text/dns"[..])));
    }

    #[test]
    fn resources_have_their_type_and_requests_their_method() {
        let fields = format!("WARC-Type: resource\r\n{SOME}Content-Type: image/png\r\n");
        let (page, body) = run(&fields, "HTTP/1.1 200 OK\r\n\r\nnot taken apart").expect("a page");
        assert_eq!((page.headers.get("Content-Type"), body.len()), (Some(&b"image/png"[..]), 34));
        let (page, body) =
            run(&format!("WARC-Type: request\r\n{SOME}"), "POST / HTTP/1.0\r\nH: x\r\n\r\nq").expect("a page");
        assert_eq!((page.method.as_deref(), page.status, &body[..]), (Some("POST"), None, &b"q"[..]));
    }

    #[test]
    fn a_chunked_body_without_its_end_is_a_truncated_page_as_received() {
        let block = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nwo";
        let (page, body) = run(&format!("WARC-Type: response\r\n{SOME}"), block).expect("a page");
        assert_eq!((&body[..], page.truncated.as_deref()), (&b"5\r\nhello\r\n5\r\nwo"[..], Some("unspecified")));
    }

    #[test]
    fn a_record_without_url_or_date_cannot_be_kept() {
        assert!(run("WARC-Type: response\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n", "x").is_err());
        assert!(run("WARC-Type: response\r\nWARC-Target-URI: http://a/\r\nWARC-Date: soon\r\n", "x").is_err());
    }
}
