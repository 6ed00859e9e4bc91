//! One page a line, as a JSON object (JSON Lines).
//!
//! | field | type | meaning |
//! |---|---|---|
//! | `url` | text | the URL as fetched |
//! | `variant` | text | the variant: see [`crate::Variant`]; absent for the page itself |
//! | `time` | text | when it was fetched: ISO 8601, UTC, with milliseconds where there are any |
//! | `time_ms` | number | the same in ms since 1970 |
//! | `kind` | text | `response`, `resource`, `revisit`, `metadata`, `request` or `conversion` |
//! | `status` | number | the status code |
//! | `reason` | text | the words after it |
//! | `http_version` | text | `HTTP/1.1` and the like |
//! | `method` | text | the request's method |
//! | `ip` | text | the server's address |
//! | `headers` | list | objects with `name` and `value`, in order |
//! | `truncated` | text | why the body is not all of it |
//! | `digest` | text | the payload digest as received |
//! | `record_id` | text | the source's record id |
//! | `revisit` | object | of a revisit, and of a former revisit that has its original's body here: `profile` (`identical-payload`, `server-not-modified` or a URI), `url`, `time_ms`, `id`, and, if the body was found, `original_url`, `original_variant` (if it has one) and `original_time_ms` |
//! | `unchanged` | true or false | in the dump of a store: whether the body is stored as a reference to an earlier version |
//! | `file` | text | in the list of a dump of plain files: the file that holds the body |
//! | `body_xxh3` | text | the XXH3-64 of the body's bytes, 16 hexadecimal digits: a line with another body is damaged, and refused |
//! | `body` | text | the body |
//!
//! Empty fields are absent; `url`, `time`, `time_ms`, `kind`, `headers` and the body are always
//! present. A line of another program needs the URL, one of the two times and the body; unknown
//! fields are refused. A program that changes a body must drop its `body_xxh3`. If the bytes of
//! `url`, `variant`, `reason`, a header's `name` or `value`, a revisit's `url`, `original_url` or
//! `original_variant`, or `body` are not UTF-8, the field is called `url_base64`, `reason_base64`
//! and so on, and holds them in base 64 (RFC 4648, with padding). Nothing is re-coded: [`read`]
//! returns exactly the page that [`write()`] was given.

use std::borrow::Cow;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use filemap_core::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::date;
use crate::error::{Error, Result};
use crate::page::headers::Header;
use crate::page::variant::Variant;
use crate::page::version::{BodyForm, PageHead};
use crate::page::{ArchiveId, HttpVersion, InPlace, Original, Page, RecordKind, Revisit, RevisitProfile, key};

/// Reason why a line is not a page.
///
/// ```
/// use filemap::dump::jsonl::{LineError, read};
/// assert!(matches!(read(br#"{"url":"http://example.com/"}"#), Err(LineError::Lacks("time"))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line is not JSON, or has a field of the wrong type, or an unknown field.
    #[error("not a page in JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The line is from the list of a dump of plain files: its body is in one of those files.
    #[error("its body is in a file, `{0}`: a list of plain files cannot be loaded")]
    InFile(String),
    /// The line lacks a required field.
    #[error("it lacks the field `{0}`")]
    Lacks(&'static str),
    /// Hash mismatch of the body.
    #[error("{url}: the body is damaged: its XXH3-64 is {found:016x}, and `body_xxh3` says {noted:016x}")]
    Body {
        /// The page's URL, with replacement characters for bytes that are not text.
        url: String,
        /// The hash in the line.
        noted: u64,
        /// The hash of the body.
        found: u64,
    },
    /// The two fields for the time differ.
    #[error("`time` is {0} and `time_ms` is {1}: not the same time")]
    Times(String, i64),
    /// A field has an invalid value.
    #[error("the field `{0}` has an invalid value")]
    Field(&'static str),
}

/// Declares a JSON object: optional fields, omitted where `None`, around one that is always
/// present.
macro_rules! object {
    ($name:ident { $($before:ident: $Before:ty,)* } $({ $always:ident: $Always:ty } { $($after:ident: $After:ty,)* })?) => {
        #[derive(Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct $name<'a> {
            $(#[serde(skip_serializing_if = "Option::is_none")] $before: Option<$Before>,)*
            $($always: $Always, $(#[serde(skip_serializing_if = "Option::is_none")] $after: Option<$After>,)*)?
        }
    };
}

object!(Line {
    file: Cow<'a, str>,
    url: Cow<'a, str>,
    url_base64: Cow<'a, str>,
    variant: Cow<'a, str>,
    variant_base64: Cow<'a, str>,
    time: String,
    time_ms: i64,
    kind: String,
    status: u16,
    reason: Cow<'a, str>,
    reason_base64: Cow<'a, str>,
    http_version: String,
    method: String,
    ip: std::net::IpAddr,
} { headers: Vec<Field<'a>> } {
    truncated: String,
    digest: String,
    record_id: String,
    revisit: RefersTo<'a>,
    unchanged: bool,
    body_xxh3: String,
    body: Cow<'a, str>,
    body_base64: Cow<'a, str>,
});

object!(Field {
    name: Cow<'a, str>,
    name_base64: Cow<'a, str>,
    value: Cow<'a, str>,
    value_base64: Cow<'a, str>,
});

object!(RefersTo {
} { profile: String } {
    url: Cow<'a, str>,
    url_base64: Cow<'a, str>,
    time_ms: i64,
    id: String,
    original_url: Cow<'a, str>,
    original_url_base64: Cow<'a, str>,
    original_variant: Cow<'a, str>,
    original_variant_base64: Cow<'a, str>,
    original_time_ms: i64,
});

const IDENTICAL: &str = "identical-payload";
const NOT_MODIFIED: &str = "server-not-modified";

/// Writes `page` as one line.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::Page;
/// use filemap::dump::jsonl;
///
/// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// let mut line = Vec::new();
/// jsonl::write(&page, &mut line)?;
/// assert_eq!(jsonl::read(&line)?, page);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Write`].
pub fn write(page: &Page, out: &mut impl Write) -> Result<()> {
    end(&with_body(page), out)
}

/// As [`write()`], with the form in which the store holds the body.
///
/// # Errors
///
/// [`Error::Write`].
pub fn write_stored(page: &Page, form: BodyForm, out: &mut impl Write) -> Result<()> {
    end(&Line { unchanged: Some(form == BodyForm::Reference), ..with_body(page) }, out)
}

/// Writes `page` as one line without its body, for a protocol that sends the body separately.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::Page;
/// use filemap::dump::jsonl;
///
/// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// let mut line = Vec::new();
/// jsonl::write_description(&page, &mut line)?;
/// let description = jsonl::read_description(&line)?;
/// assert_eq!(Page { body: page.body.clone(), ..description }, page);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::Write`].
pub fn write_description(page: &Page, out: &mut impl Write) -> Result<()> {
    end(&line(page), out)
}

/// A version without its body: the fields of a description, and the store's own: `sequence`,
/// `body_bytes`, `stored_bytes` and, for a reference, `unchanged_since`.
///
/// # Errors
///
/// [`Error::Write`].
pub fn head(head: &PageHead) -> Result<Value> {
    let mut line = serde_json::to_value(line(&head.page)).map_err(|error| Error::Write(error.into()))?;
    line["sequence"] = json!(head.version.sequence);
    line["body_bytes"] = json!(head.body_bytes);
    line["stored_bytes"] = json!(head.stored_bytes);
    if let Some(sequence) = head.unchanged_since {
        line["unchanged_since"] = json!(sequence);
    }
    if let Some(InPlace { archive, offset, length }) = head.page.in_place {
        line["in_place"] = json!({ "archive": archive.to_string(), "offset": offset, "length": length });
    }
    Ok(line)
}

/// Reads the output of [`head()`]; `None` for anything else.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// use filemap::dump::jsonl;
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let head = store.head("http://example.com/")?.expect("just put");
/// assert_eq!(jsonl::read_head(jsonl::head(&head)?), Some(head));
/// # Ok(())
/// # }
/// ```
pub fn read_head(mut line: Value) -> Option<PageHead> {
    let fields = line.as_object_mut()?;
    let mut number = |name| fields.remove(name).as_ref().and_then(Value::as_u64);
    let (sequence, body_bytes, stored_bytes) = (number("sequence")?, number("body_bytes")?, number("stored_bytes")?);
    let unchanged_since = number("unchanged_since");
    let in_place = match fields.remove("in_place") {
        Some(place) => Some(read_place(&place)?),
        None => None,
    };
    let page = Page { in_place, ..read_description(&serde_json::to_vec(&line).ok()?).ok()? };
    let version = Version { time_ms: page.fetched_at_ms, sequence };
    Some(PageHead { page, version, body_bytes, stored_bytes, unchanged_since })
}

fn read_place(place: &Value) -> Option<InPlace> {
    let archive = ArchiveId(u64::from_str_radix(place["archive"].as_str()?, 16).ok()?);
    Some(InPlace { archive, offset: place["offset"].as_u64()?, length: place["length"].as_u64()? })
}

/// Writes `page` without its body, which is in `file` if given.
pub(super) fn write_listed(page: &Page, file: Option<&str>, out: &mut impl Write) -> Result<()> {
    end(&Line { file: file.map(Cow::Borrowed), ..line(page) }, out)
}

fn end(line: &Line<'_>, out: &mut impl Write) -> Result<()> {
    serde_json::to_writer(&mut *out, line).map_err(|error| Error::Write(error.into()))?;
    out.write_all(b"\n").map_err(Error::Write)
}

fn with_body(page: &Page) -> Line<'_> {
    let (body, body_base64) = split(&page.body);
    let body_xxh3 = Some(format!("{:016x}", xxh3_64(&page.body)));
    Line { body_xxh3, body, body_base64, ..line(page) }
}

fn line(page: &Page) -> Line<'_> {
    let (url, url_base64) = split(&page.url);
    let (variant, variant_base64) = page.variant.as_ref().map_or((None, None), |variant| split(variant.as_bytes()));
    let (reason, reason_base64) = split(&page.reason);
    Line {
        url,
        url_base64,
        variant,
        variant_base64,
        time: Some(date::format(page.fetched_at_ms)),
        time_ms: Some(page.fetched_at_ms),
        kind: Some(page.kind.name().to_owned()),
        status: page.status,
        reason: reason.filter(|reason| !reason.is_empty()),
        reason_base64,
        http_version: page.http_version.as_ref().map(|version| version.as_str().to_owned()),
        method: page.method.clone(),
        ip: page.ip,
        headers: page.headers.iter().map(field).collect(),
        truncated: page.truncated.clone(),
        digest: page.digest.clone(),
        record_id: page.record_id.clone(),
        revisit: page.revisit.as_ref().map(refers_to),
        ..Line::default()
    }
}

/// Reads the page of one line.
///
/// # Errors
///
/// [`LineError`] if the line is not a page.
pub fn read(line: &[u8]) -> std::result::Result<Page, LineError> {
    read_stored(line).map(|(page, _)| page)
}

/// As [`read`], with the form in which a store held the body; `None` if the line has none.
///
/// # Errors
///
/// [`LineError`] if the line is not a page.
pub fn read_stored(line: &[u8]) -> std::result::Result<(Page, Option<BodyForm>), LineError> {
    of_line(serde_json::from_slice(line)?)
}

/// Reads the output of [`write_description`], with an empty body.
///
/// # Errors
///
/// [`LineError`] if the line is not a page, or has a body.
pub fn read_description(line: &[u8]) -> std::result::Result<Page, LineError> {
    let line: Line<'_> = serde_json::from_slice(line)?;
    if line.body.is_some() || line.body_base64.is_some() {
        return Err(LineError::Field("body"));
    }
    of_line(Line { body: Some("".into()), ..line }).map(|(page, _)| page)
}

fn of_line(line: Line<'_>) -> std::result::Result<(Page, Option<BodyForm>), LineError> {
    if let Some(file) = line.file {
        return Err(LineError::InFile(file.into_owned()));
    }
    let time_ms = time(line.time, line.time_ms)?;
    let kind = line.kind.as_deref().map_or(Some(RecordKind::Response), RecordKind::named);
    let headers = line.headers.into_iter().map(|field| {
        let name = join(field.name, field.name_base64, "name")?.ok_or(LineError::Field("name"))?;
        let value = join(field.value, field.value_base64, "value")?.ok_or(LineError::Field("value"))?;
        Ok(Header { name, value })
    });
    let variant = join(line.variant, line.variant_base64, "variant")?.map(Variant::new);
    let page = Page {
        variant: variant.transpose().map_err(|_| LineError::Field("variant"))?,
        url: join(line.url, line.url_base64, "url")?.ok_or(LineError::Lacks("url"))?,
        fetched_at_ms: time_ms,
        kind: kind.ok_or(LineError::Field("kind"))?,
        status: line.status,
        reason: join(line.reason, line.reason_base64, "reason")?.unwrap_or_default(),
        http_version: line.http_version.as_deref().map(HttpVersion::from_token),
        method: line.method,
        ip: line.ip,
        headers: headers.collect::<std::result::Result<_, LineError>>()?,
        body: join(line.body, line.body_base64, "body")?.ok_or(LineError::Lacks("body"))?,
        truncated: line.truncated,
        digest: line.digest,
        record_id: line.record_id,
        revisit: line.revisit.map(revisit).transpose()?,
        in_place: None,
    };
    if let Some(noted) = line.body_xxh3 {
        check_body(&page, &noted)?;
    }
    Ok((page, line.unchanged.map(|unchanged| if unchanged { BodyForm::Reference } else { BodyForm::Whole })))
}

/// Compares the body with the hash in its line.
fn check_body(page: &Page, noted: &str) -> std::result::Result<(), LineError> {
    let is_hex = noted.len() == 16 && noted.bytes().all(|digit| digit.is_ascii_hexdigit());
    let noted = u64::from_str_radix(noted, 16).ok().filter(|_| is_hex).ok_or(LineError::Field("body_xxh3"))?;
    let found = xxh3_64(&page.body);
    if found == noted {
        return Ok(());
    }
    Err(LineError::Body { url: String::from_utf8_lossy(&page.url).into_owned(), noted, found })
}

/// The time of a line, which may be in either of two fields, or in both: then they must agree to
/// the precision of the text.
fn time(text: Option<String>, time_ms: Option<i64>) -> std::result::Result<i64, LineError> {
    let (text, time_ms) = match (text, time_ms) {
        (None, time_ms) => return time_ms.ok_or(LineError::Lacks("time")),
        (Some(text), None) => return date::parse(&text).ok_or(LineError::Field("time")),
        (Some(text), Some(time_ms)) => (text, time_ms),
    };
    // Years of more than four digits are written but not parsed.
    if text == date::format(time_ms) {
        return Ok(time_ms);
    }
    let told = date::parse(&text).ok_or(LineError::Field("time"))?;
    let is_cut = !text.contains(['.', ',']) && told == time_ms - time_ms.rem_euclid(1000);
    if told == time_ms || is_cut { Ok(time_ms) } else { Err(LineError::Times(text, time_ms)) }
}

type Text<'a> = Option<Cow<'a, str>>;

/// Text as text, other bytes in base 64.
fn split(bytes: &[u8]) -> (Text<'_>, Text<'_>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes).into())),
    }
}

fn owned<'a>((text, base64): (Text<'_>, Text<'_>)) -> (Text<'a>, Text<'a>) {
    let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
    (text.map(own), base64.map(own))
}

fn join(text: Text<'_>, base64: Text<'_>, field: &'static str) -> std::result::Result<Option<Vec<u8>>, LineError> {
    match (text, base64) {
        (text, None) => Ok(text.map(|text| text.into_owned().into_bytes())),
        (None, Some(encoded)) => STANDARD.decode(encoded.as_bytes()).map(Some).map_err(|_| LineError::Field(field)),
        (Some(_), Some(_)) => Err(LineError::Field(field)),
    }
}

fn field(header: &Header) -> Field<'_> {
    let (name, name_base64) = split(&header.name);
    let (value, value_base64) = split(&header.value);
    Field { name, name_base64, value, value_base64 }
}

fn refers_to(revisit: &Revisit) -> RefersTo<'_> {
    let (url, url_base64) = revisit.refers_to_url.as_deref().map_or((None, None), split);
    let original = revisit.original.as_ref();
    let (original_url, original_url_base64) = original.map_or((None, None), |original| split(key::url(&original.key)));
    let variant = original.and_then(|original| key::variant(&original.key));
    let (original_variant, original_variant_base64) =
        variant.as_ref().map_or((None, None), |variant| owned(split(variant.as_bytes())));
    RefersTo {
        profile: match &revisit.profile {
            RevisitProfile::IdenticalPayload => IDENTICAL.to_owned(),
            RevisitProfile::ServerNotModified => NOT_MODIFIED.to_owned(),
            RevisitProfile::Other(uri) => uri.clone(),
        },
        url,
        url_base64,
        time_ms: revisit.refers_to_ms,
        id: revisit.refers_to_id.clone(),
        original_url,
        original_url_base64,
        original_variant,
        original_variant_base64,
        original_time_ms: original.map(|original| original.fetched_at_ms),
    }
}

fn revisit(line: RefersTo<'_>) -> std::result::Result<Revisit, LineError> {
    let original = join(line.original_url, line.original_url_base64, "original_url")?;
    let variant = join(line.original_variant, line.original_variant_base64, "original_variant")?.map(Variant::new);
    let variant = variant.transpose().map_err(|_| LineError::Field("original_variant"))?;
    let original = original.map(|url| key::key(&url, RecordKind::Response, variant.as_ref()));
    Ok(Revisit {
        profile: match line.profile.as_str() {
            IDENTICAL => RevisitProfile::IdenticalPayload,
            NOT_MODIFIED => RevisitProfile::ServerNotModified,
            _ => RevisitProfile::Other(line.profile),
        },
        refers_to_url: join(line.url, line.url_base64, "url")?,
        refers_to_ms: line.time_ms,
        refers_to_id: line.id,
        original: original.zip(line.original_time_ms).map(|(key, fetched_at_ms)| Original { key, fetched_at_ms }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_of(page: &Page) -> String {
        let mut out = Vec::new();
        write(page, &mut out).expect("memory");
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn a_line_reads_as_its_schema_says() {
        let mut page = Page::new("http://a/", 1_488_772_926_000, 200, "h\u{e9}\n");
        page.reason = b"OK".to_vec();
        page.headers.push("A", b"\xff".to_vec());
        let expected = concat!(
            r#"{"url":"http://a/","time":"2017-03-06T04:02:06Z","time_ms":1488772926000,"kind":"response","#,
            r#""status":200,"reason":"OK","headers":[{"name":"A","value_base64":"/w=="}],"body_xxh3":"c02b06bad84f9457","body":"hé\n"}"#,
            "\n"
        );
        assert_eq!(text_of(&page), expected);
        page.body = b"\xff\x00".to_vec();
        assert!(text_of(&page).contains(r#""body_base64":"/wA=""#));
    }

    #[test]
    fn a_line_that_is_no_page_says_why() {
        for text in ["", "{}", r#"{"url":"a"}"#, r#"{"url":"a","time":"soon"}"#, r#"{"url":1,"time_ms":0}"#] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        let listed = read(br#"{"file":"x/y","url":"a","time_ms":1}"#).expect_err("no body");
        assert!(listed.to_string().contains("`x/y`"), "{listed}");
        let least = read(br#"{"url":"a","time":"1970-01-01T00:00:01Z","body":""}"#).expect("enough");
        assert_eq!((least.fetched_at_ms, least.kind), (1000, RecordKind::Response));
    }

    #[test]
    fn a_body_that_is_not_the_one_that_was_written_is_told_and_one_without_a_note_is_taken() {
        let text = text_of(&Page::new("http://a/", 0, 200, "as it was"));
        let damaged = text.replace("as it was", "as it wax");
        let error = read(damaged.as_bytes()).expect_err("damaged");
        assert!(matches!(&error, LineError::Body { url, .. } if url == "http://a/"), "{error}");
        let noted = format!("\"body_xxh3\":\"{:016x}\",", xxh3_64(b"as it was"));
        assert!(text.contains(&noted), "{text}");
        assert_eq!(read(damaged.replace(&noted, "").as_bytes()).expect("none to compare").body, b"as it wax");
        let other_case = noted.to_ascii_uppercase().replace("BODY_XXH3", "body_xxh3");
        assert!(read(text.replace(&noted, &other_case).as_bytes()).is_ok());
        for bad in ["\"\"", "\"+123456789abcdef\"", "\"123\"", "7"] {
            assert!(read(text.replace(&noted, &format!("\"body_xxh3\":{bad},")).as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_page_reads_back_byte_for_byte(
            url: Vec<u8>, body: Vec<u8>, reason: Vec<u8>, time: i64, text: String, bytes: Option<Vec<u8>>, key: Vec<u8>,
            variant in proptest::option::of(proptest::collection::vec(any::<u8>(), 1..9))
        ) {
            let variant = variant.map(|bytes| Variant::new(bytes).expect("fits"));
            let key = key::key(key::url(&key), RecordKind::Response, variant.as_ref());
            let revisit = Revisit {
                profile: RevisitProfile::Other(format!("x{text}")),
                refers_to_url: bytes,
                refers_to_ms: Some(time),
                refers_to_id: Some(text.clone()),
                original: Some(Original { key, fetched_at_ms: 1 }),
            };
            let mut page = Page::new(url, time, 404, body);
            page.headers.push(reason.clone(), text.clone());
            page.reason = reason;
            page.revisit = Some(revisit);
            page.digest = Some(text);
            page.variant = variant;
            prop_assert_eq!(read(text_of(&page).as_bytes()).expect("a page"), page.clone());
            let mut out = Vec::new();
            let form = if time > 0 { BodyForm::Reference } else { BodyForm::Whole };
            write_stored(&page, form, &mut out).expect("memory");
            prop_assert_eq!(read_stored(&out).expect("a page"), (page, Some(form)));
        }
    }
}
