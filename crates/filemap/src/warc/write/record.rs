//! A version of a page as a WARC record (1.1): its header, the head of its block, and its entry in
//! an index.
//!
//! The record is valid for readers that do not know stores: no header claims chunks or a coding
//! that the body does not have, digests are of the bytes in the record, dates keep their
//! milliseconds. The field of [`crate::warc::stored`] lists what that changes. Every record is
//! parsed before it is written; if that does not restore the same page, the field gets the page's
//! whole description.

use std::fmt::Display;

use crate::date;
use crate::page::digest::{expected, sha1_of};
use crate::page::variant::Variant;
use crate::page::version::StoredVersion;
use crate::page::{HttpVersion, Page, RecordKind, RevisitProfile, meta};
use crate::warc::header::RecordHeader;
use crate::warc::stored::{self, FIELD, PageDigest, RENAMED, Stored};
use crate::warc::write::uri;

/// The longest description in a header, in bytes: readers bound headers, this one at 1 MiB.
const MAX_DESCRIPTION_BYTES: usize = 512 << 10;

/// Form in which a version is written.
pub(crate) enum Form {
    /// With its body.
    Full,
    /// As the revisit that it is, of this version if it was found.
    Revisit(Option<Reference>),
    /// As a revisit of a version of the same URL with the same body.
    Unchanged(Reference),
}

/// The record that a revisit refers to.
pub(crate) struct Reference {
    pub(crate) uri: String,
    pub(crate) time_ms: i64,
    pub(crate) record_id: String,
    /// SHA-1 of its payload.
    pub(crate) payload: [u8; 20],
}

impl Reference {
    /// A reference to the record of this version, whose body has this SHA-1.
    pub(crate) fn to(key: &[u8], sequence: u64, page: &Page, payload: [u8; 20]) -> Reference {
        Reference {
            uri: uri::target_uri(&page.url, crate::page::key::url(key)).into_owned(),
            time_ms: page.fetched_at_ms,
            record_id: record_id(key, sequence, page, &payload).0,
            payload,
        }
    }
}

/// A record without its body.
pub(crate) struct Draft {
    /// The record's id.
    pub(crate) id: String,
    /// The record's header, with the blank line.
    pub(crate) header: Vec<u8>,
    /// The block before the body.
    pub(crate) head: Vec<u8>,
    /// True if the body follows the head.
    pub(crate) has_body: bool,
    /// Its entry in an index; `None` for records beside pages, such as requests.
    pub(crate) entry: Option<Entry>,
    /// True if an import restores exactly the same page.
    pub(crate) is_exact: bool,
}

/// The entry of a record in an index.
pub(crate) struct Entry {
    pub(crate) uri: String,
    pub(crate) time_ms: i64,
    pub(crate) mime: String,
    pub(crate) status: Option<u16>,
    /// In base 32, without the algorithm's name.
    pub(crate) digest: String,
    pub(crate) variant: Option<Variant>,
}

/// The record of `version` in this form; `concurrent` is the id of the record of its request or
/// answer.
pub(crate) fn draft(version: &StoredVersion, form: &Form, concurrent: Option<&str>) -> Draft {
    let mut parts = Parts::of(version, form);
    parts.concurrent = concurrent;
    let header = parts.header();
    let mut page = version.page.description();
    if let Some(revisit) = &mut page.revisit {
        revisit.original = None;
    }
    let reads_back = |header: &[u8], parts: &Parts<'_>| {
        let parsed = RecordHeader::parse(header).ok();
        let back = parsed.and_then(|parsed| Stored::of(&parsed)?.page(&parsed, &parts.head));
        back.is_some_and(|back| back == page)
    };
    if reads_back(&header, &parts) {
        return parts.draft(header, true);
    }
    // Variant, kind and time have their own words beside a description.
    let description = stored::description(&page).filter(|bytes| bytes.len() <= MAX_DESCRIPTION_BYTES);
    let Stored { head_bytes, variant, kind, unchanged, time_ms, .. } = parts.stored;
    parts.stored = Stored { head_bytes, variant, kind, unchanged, time_ms, description, ..Stored::default() };
    let header = parts.header();
    let is_exact = reads_back(&header, &parts);
    parts.draft(header, is_exact)
}

/// The id of a version's record, and whether it is the page's own. Otherwise it is derived from
/// the record, so that repeated dumps of a store are equal.
pub(crate) fn record_id(key: &[u8], sequence: u64, page: &Page, payload: &[u8; 20]) -> (String, bool) {
    let is_uri = |id: &&String| {
        let inner = id.strip_prefix('<').and_then(|id| id.strip_suffix('>'));
        inner.is_some_and(|inner| {
            inner.contains(':') && inner.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>'))
        })
    };
    if let Some(id) = page.record_id.as_ref().filter(is_uri) {
        return (id.clone(), true);
    }
    let parts = [key, b"\0", &page.fetched_at_ms.to_le_bytes(), &sequence.to_le_bytes(), payload];
    (made_id(&parts), false)
}

/// A record id made from these bytes: a UUID of version 8 (RFC 9562).
pub(crate) fn made_id(parts: &[&[u8]]) -> String {
    let mut id = [0; 16];
    id.copy_from_slice(&sha1_of(parts)[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    meta::uuid_text(&id)
}

/// The parts of a record.
struct Parts<'a> {
    version: &'a StoredVersion,
    form: &'a Form,
    record_type: &'static str,
    uri: String,
    record_id: String,
    concurrent: Option<&'a str>,
    head: Vec<u8>,
    is_message: bool,
    has_body: bool,
    payload: [u8; 20],
    knows_payload: bool,
    has_payload_digest: bool,
    block: [u8; 20],
    stored: Stored,
}

impl<'a> Parts<'a> {
    fn of(version: &'a StoredVersion, form: &'a Form) -> Parts<'a> {
        let page = &version.page;
        let uri = uri::target_uri(&page.url, version.canonical_url()).into_owned();
        let is_message = is_message(page);
        let is_web = uri.starts_with("http:") || uri.starts_with("https:");
        let kind = match form {
            Form::Revisit(_) | Form::Unchanged(_) => RecordKind::Revisit,
            // Readers expect an HTTP message in a response; this is not one.
            Form::Full if page.kind == RecordKind::Response && !is_message && is_web => RecordKind::Resource,
            Form::Full => page.kind,
        };
        let has_body = !matches!(form, Form::Unchanged(_));
        let body = if has_body { page.body.as_slice() } else { b"" };
        let renamed = if is_message { misleading(page, form) } else { Vec::new() };
        let head = if is_message { message_head(page, &renamed) } else { Vec::new() };
        // A revisit without its original has its own payload digest or none.
        let known = match form {
            Form::Full => None,
            Form::Unchanged(reference) | Form::Revisit(Some(reference)) => Some(reference.payload),
            Form::Revisit(None) => page.digest.as_deref().and_then(expected),
        };
        let payload = known.unwrap_or_else(|| sha1_of(&[body]));
        let knows_payload = match kind {
            RecordKind::Request | RecordKind::Metadata => false,
            RecordKind::Revisit => known.is_some(),
            RecordKind::Response | RecordKind::Resource | RecordKind::Conversion => true,
        };
        // Readers parse messages of http and https only; otherwise the payload is the whole block.
        let has_payload_digest = knows_payload && (is_web || !is_message || kind == RecordKind::Revisit);
        let (record_id, has_id) = record_id(&version.key, version.version.sequence, page, &payload);
        let is_payload = has_payload_digest && page.digest.as_deref() == Some(&meta::sha1_text(&payload));
        let is_written = match &page.http_version {
            Some(version) => is_message && written_version(Some(version)) == version.as_str(),
            None => !is_message,
        };
        let stored = Stored {
            head_bytes: head.len() as u64,
            variant: page.variant.clone(),
            kind: Some(page.kind).filter(|&page_kind| page_kind != kind),
            has_id,
            digest: match &page.digest {
                None => PageDigest::None,
                Some(_) if is_payload => PageDigest::Payload,
                Some(text) => PageDigest::Other(text.clone()),
            },
            protocol: (!is_written).then(|| page.http_version.clone()),
            renamed,
            unchanged: version.unchanged_since.is_some(),
            time_ms: Some(page.fetched_at_ms).filter(|&time_ms| !date::has_four_digit_year(time_ms)),
            description: None,
        };
        let block = sha1_of(&[&head, body]);
        Parts {
            version,
            form,
            record_type: kind.name(),
            uri,
            record_id,
            concurrent: None,
            head,
            is_message,
            has_body,
            payload,
            knows_payload,
            has_payload_digest,
            block,
            stored,
        }
    }

    fn header(&self) -> Vec<u8> {
        let page = &self.version.page;
        let body_bytes = if self.has_body { page.body.len() } else { 0 };
        let mut fields = Fields(b"WARC/1.1\r\n".to_vec());
        fields.add("WARC-Type", self.record_type);
        fields.add("WARC-Record-ID", &self.record_id);
        fields.add("WARC-Date", date::format(date::nearest_with_four_digit_year(page.fetched_at_ms)));
        fields.add("WARC-Target-URI", &self.uri);
        if let Some(ip) = page.ip {
            fields.add("WARC-IP-Address", ip);
        }
        if let Some(protocol) = page.http_version.as_ref().and_then(protocol_id).filter(|_| self.is_message) {
            fields.add("WARC-Protocol", protocol);
        }
        if let Some(why) = &page.truncated {
            let is_token = why.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && !why.is_empty();
            fields.add("WARC-Truncated", if is_token { why } else { "unspecified" });
        }
        if let Some(id) = self.concurrent {
            fields.add("WARC-Concurrent-To", id);
        }
        self.add_references(&mut fields);
        if self.has_payload_digest {
            fields.add("WARC-Payload-Digest", meta::sha1_text(&self.payload));
        }
        fields.add("WARC-Block-Digest", meta::sha1_text(&self.block));
        let text = self.stored.text();
        fields.add(FIELD, if is_clean(&text) { &text } else { "-" });
        if self.is_message {
            let message = if page.kind == RecordKind::Request { "request" } else { "response" };
            fields.add("Content-Type", format_args!("application/http;msgtype={message}"));
        } else if let Some(mime) = clean_type(page) {
            fields.add("Content-Type", mime);
        }
        fields.add("Content-Length", self.head.len() + body_bytes);
        fields.0.extend_from_slice(b"\r\n");
        fields.0
    }

    fn add_references(&self, fields: &mut Fields) {
        let own = self.version.page.revisit.as_ref();
        let (profile, reference) = match self.form {
            Form::Full => return,
            Form::Unchanged(reference) => (&RevisitProfile::IdenticalPayload, Some(reference)),
            Form::Revisit(reference) => {
                (own.map_or(&RevisitProfile::IdenticalPayload, |own| &own.profile), reference.as_ref())
            }
        };
        match profile {
            RevisitProfile::IdenticalPayload => {
                fields.add("WARC-Profile", format_args!("{PROFILES}identical-payload-digest"))
            }
            RevisitProfile::ServerNotModified => {
                fields.add("WARC-Profile", format_args!("{PROFILES}server-not-modified"))
            }
            RevisitProfile::Other(uri) => fields.add("WARC-Profile", uri::escaped(uri.as_bytes())),
        }
        if let Some(reference) = reference {
            fields.add("WARC-Refers-To", &reference.record_id);
            fields.add("WARC-Refers-To-Target-URI", &reference.uri);
            let time_ms = date::nearest_with_four_digit_year(reference.time_ms);
            fields.add("WARC-Refers-To-Date", date::format(time_ms));
        } else if let Some(own) = own {
            if let Some(id) = own.refers_to_id.as_deref().filter(|id| is_clean(id) && !id.is_empty()) {
                fields.add("WARC-Refers-To", id);
            }
            if let Some(url) = &own.refers_to_url {
                fields.add("WARC-Refers-To-Target-URI", uri::escaped(url));
            }
            if let Some(time_ms) = own.refers_to_ms.filter(|&time_ms| date::has_four_digit_year(time_ms)) {
                fields.add("WARC-Refers-To-Date", date::format(time_ms));
            }
        }
    }

    fn draft(self, header: Vec<u8>, is_exact: bool) -> Draft {
        let page = &self.version.page;
        let entry = page.kind.is_page().then(|| Entry {
            uri: self.uri.clone(),
            time_ms: page.fetched_at_ms,
            mime: match self.form {
                Form::Full => page.headers.mime().unwrap_or_else(|| "unk".to_owned()),
                Form::Revisit(_) | Form::Unchanged(_) => "warc/revisit".to_owned(),
            },
            // Other indexes also give files without a status the status 200.
            status: page.status.or((self.record_type == "resource").then_some(200)),
            digest: match self.knows_payload {
                true => meta::sha1_text(&self.payload)["sha1:".len()..].to_owned(),
                false => "-".to_owned(),
            },
            variant: page.variant.clone(),
        });
        Draft { id: self.record_id, header, head: self.head, has_body: self.has_body, entry, is_exact }
    }
}

/// The common prefix of revisit profiles.
const PROFILES: &str = "http://netpreserve.org/warc/1.1/revisit/";

struct Fields(Vec<u8>);

impl Fields {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
}

/// Returns whether a page is written as an HTTP message.
fn is_message(page: &Page) -> bool {
    match page.kind {
        RecordKind::Response | RecordKind::Revisit => page.status.is_some(),
        RecordKind::Request => page.method.is_some(),
        RecordKind::Resource | RecordKind::Metadata | RecordKind::Conversion => false,
    }
}

/// Returns whether a text can be a field's value: one line of printable characters.
fn is_clean(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// The `Content-Type` of a page, if it is valid in a record's header.
fn clean_type(page: &Page) -> Option<&str> {
    let mime = std::str::from_utf8(page.headers.get("Content-Type")?).ok()?;
    Some(mime).filter(|mime| !mime.is_empty() && is_clean(mime))
}

/// Indices of the header fields that do not hold for the body as written.
fn misleading(page: &Page, form: &Form) -> Vec<usize> {
    let is_full = matches!(form, Form::Full) && !page.body.is_empty();
    let bytes = page.body.len().to_string();
    let misleads = |header: &crate::page::headers::Header| {
        let value = String::from_utf8_lossy(&header.value).to_ascii_lowercase();
        let names = |coding: &str| value.split(',').any(|item| item.trim() == coding);
        if header.is("Transfer-Encoding") {
            return names("chunked");
        }
        if header.is("Content-Encoding") && is_full {
            let gzip = names("gzip") || names("x-gzip");
            return value.split(',').count() == 1
                && (gzip && !page.body.starts_with(&[0x1f, 0x8b])
                    || names("zstd") && !page.body.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
        }
        header.is("Content-Length") && is_full && page.truncated.is_none() && value.trim() != bytes
    };
    let fields = page.headers.iter().enumerate();
    fields.filter(|(_, header)| misleads(header)).map(|(at, _)| at).collect()
}

/// The first line and the header fields of a message, with the blank line.
fn message_head(page: &Page, renamed: &[usize]) -> Vec<u8> {
    let mut head = Vec::with_capacity(1024);
    let version = written_version(page.http_version.as_ref());
    match (page.status, &page.method) {
        (Some(status), _) => {
            head.extend_from_slice(format!("{version} {status:03} ").as_bytes());
            put_line(&mut head, &page.reason);
        }
        (None, method) => {
            let method = method.as_deref().unwrap_or_default();
            let target = uri::escaped(request_target(&page.url));
            put_line(&mut head, format!("{method} {target} {version}").as_bytes());
        }
    }
    for (at, header) in page.headers.iter().enumerate() {
        if renamed.contains(&at) {
            head.extend_from_slice(RENAMED.as_bytes());
        }
        put_text(&mut head, &header.name);
        head.extend_from_slice(b": ");
        put_line(&mut head, &header.value);
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn put_line(head: &mut Vec<u8>, text: &[u8]) {
    put_text(head, text);
    head.extend_from_slice(b"\r\n");
}

/// Appends text as one line: a page may hold any bytes, which must not inject headers.
fn put_text(head: &mut Vec<u8>, text: &[u8]) {
    head.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n' | 0) { b' ' } else { byte }));
}

/// The protocol in a first line: readers accept only these two.
fn written_version(version: Option<&HttpVersion>) -> &'static str {
    match version {
        Some(HttpVersion::Http10) => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

/// The `WARC-Protocol` of a protocol that the first line cannot have, in the form of other
/// writers.
fn protocol_id(version: &HttpVersion) -> Option<&'static str> {
    match version {
        HttpVersion::Http2 => Some("h2"),
        HttpVersion::Http3 => Some("h3"),
        _ => None,
    }
}

/// The request target of `url`; the original one is not kept.
fn request_target(url: &[u8]) -> &[u8] {
    let url = &url[..memchr::memchr(b'#', url).unwrap_or(url.len())];
    let Some(at) = memchr::memmem::find(url, b"://") else { return url };
    let rest = &url[at + 3..];
    rest.iter().position(|&byte| matches!(byte, b'/' | b'?')).map_or(b"/", |at| &rest[at..])
}

/// The first record of a file. Its date is that of the first page in the file, so that repeated
/// dumps of a store are equal.
pub(crate) fn warcinfo(file: &str, time_ms: i64) -> Vec<u8> {
    let block = format!(
        "software: FileMap/{}\r\nformat: WARC File Format 1.1\r\n\
         conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n",
        env!("CARGO_PKG_VERSION")
    );
    info(file, time_ms, "application/warc-fields", &block)
}

/// A record about others, without a URL.
pub(crate) fn info(file: &str, time_ms: i64, kind: &str, block: &str) -> Vec<u8> {
    let date = date::format(date::nearest_with_four_digit_year(time_ms));
    let mut parts: Vec<&[u8]> = vec![b"warcinfo\0", file.as_bytes(), b"\0"];
    let time = time_ms.to_le_bytes();
    parts.push(&time);
    if kind != "application/warc-fields" {
        parts.push(block.as_bytes());
    }
    let id = made_id(&parts);
    let digest = meta::sha1_text(&sha1_of(&[block.as_bytes()]));
    format!(
        "WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: {id}\r\nWARC-Date: {date}\r\nWARC-Filename: {file}\r\n\
         WARC-Block-Digest: {digest}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n\
         {block}\r\n\r\n",
        block.len()
    )
    .into_bytes()
}
