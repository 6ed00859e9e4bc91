//! Converts rows to columns: one builder for each column, appended row by row.
//!
//! Texts are written directly into the builders or through one scratch buffer, so a row allocates
//! almost nothing.

use std::io::Write as _;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int32Builder, MapBuilder, StringBuilder, TimestampMillisecondBuilder, UInt16Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use filemap_core::Version;

use super::bodies::Bodies;
use super::column::{Column, UTC, header_field};
use super::url::Parts;
use crate::dump::index_key;
use crate::page::digest::{expected, sha1_of};
use crate::page::{Page, key, meta};

/// One row.
pub(super) struct Row<'a> {
    pub(super) key: &'a [u8],
    /// As stored.
    pub(super) page: &'a Page,
    pub(super) version: Version,
    pub(super) stored_bytes: u64,
    pub(super) body_bytes: u64,
    /// The body, if it exists and was read.
    pub(super) body: Option<&'a [u8]>,
}

/// A builder by its type.
enum Builder {
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Body(Bodies),
    Status(UInt16Builder),
    Port(Int32Builder),
    Number(UInt64Builder),
    Time(TimestampMillisecondBuilder),
    Headers(Box<MapBuilder<StringBuilder, StringBuilder>>),
}

impl Builder {
    fn new(column: Column) -> Builder {
        match column {
            Column::Variant => Builder::Binary(BinaryBuilder::new()),
            Column::Body => Builder::Body(Bodies::new()),
            Column::FetchStatus => Builder::Status(UInt16Builder::new()),
            Column::UrlPort => Builder::Port(Int32Builder::new()),
            Column::VersionSequence | Column::StoredBytes | Column::BodyBytes => Builder::Number(UInt64Builder::new()),
            Column::FetchTime => Builder::Time(TimestampMillisecondBuilder::new().with_timezone(UTC)),
            Column::Headers => {
                let map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
                let map = map.with_keys_field(header_field("key")).with_values_field(header_field("value"));
                Builder::Headers(Box::new(map))
            }
            _ => Builder::Text(StringBuilder::new()),
        }
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::Binary(builder) => Arc::new(builder.finish()),
            Builder::Body(bodies) => Arc::new(bodies.finish()?),
            Builder::Status(builder) => Arc::new(builder.finish()),
            Builder::Port(builder) => Arc::new(builder.finish()),
            Builder::Number(builder) => Arc::new(builder.finish()),
            Builder::Time(builder) => Arc::new(builder.finish()),
            Builder::Headers(builder) => Arc::new(builder.finish()),
        })
    }
}

/// The columns of the batch being built.
pub(super) struct Columns {
    schema: SchemaRef,
    builders: Vec<(Column, Builder)>,
    has_url_parts: bool,
    scratch: Vec<u8>,
    /// Number of rows in the batch so far, and their approximate bytes.
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// Approximate bytes of a row without its texts.
const ROW_BYTES: usize = 64;

impl Columns {
    pub(super) fn new(columns: &[Column], schema: SchemaRef) -> Columns {
        Columns {
            schema,
            builders: columns.iter().map(|column| (*column, Builder::new(*column))).collect(),
            has_url_parts: columns.iter().any(|column| column.is_of_url()),
            scratch: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Appends a row.
    pub(super) fn push(&mut self, row: &Row<'_>) -> Result<(), ArrowError> {
        let parts = if self.has_url_parts { Parts::of(key::url(row.key)) } else { Parts::default() };
        for (column, builder) in &mut self.builders {
            self.bytes += match builder {
                Builder::Text(builder) => text(*column, row, &parts, builder, &mut self.scratch),
                Builder::Binary(builder) => {
                    let variant = row.page.variant.as_ref().map(|variant| variant.as_bytes());
                    builder.append_option(variant);
                    variant.map_or(0, <[u8]>::len)
                }
                Builder::Body(bodies) => bodies.push(row.body),
                Builder::Status(builder) => {
                    builder.append_option(row.page.status);
                    0
                }
                Builder::Port(builder) => {
                    builder.append_option(parts.port);
                    0
                }
                Builder::Number(builder) => {
                    builder.append_value(match column {
                        Column::StoredBytes => row.stored_bytes,
                        Column::BodyBytes => row.body_bytes,
                        _ => row.version.sequence,
                    });
                    0
                }
                Builder::Time(builder) => {
                    builder.append_value(row.version.time_ms);
                    0
                }
                Builder::Headers(builder) => headers(row.page, builder, &mut self.scratch)?,
            };
        }
        self.bytes += ROW_BYTES;
        self.rows += 1;
        Ok(())
    }

    /// Returns the batch, and begins a new one.
    pub(super) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let arrays: Vec<ArrayRef> =
            self.builders.iter_mut().map(|(_, builder)| builder.finish()).collect::<Result<_, _>>()?;
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
    }
}

/// Appends the value of a text column. Returns its length as text.
fn text(column: Column, row: &Row<'_>, parts: &Parts<'_>, to: &mut StringBuilder, scratch: &mut Vec<u8>) -> usize {
    let page = row.page;
    let mut put = |bytes: Option<&[u8]>| put_text(bytes, to);
    match column {
        Column::Url => put(Some(key::url(row.key))),
        Column::UrlFetched => put(Some(&page.url)),
        Column::UrlSurtkey => put(Some(&index_key(key::url(row.key)))),
        Column::UrlHostName => put(parts.host),
        Column::UrlHostTld => put(parts.tld()),
        Column::UrlProtocol => put(parts.protocol),
        Column::UrlPath => put(Some(parts.path)),
        Column::UrlQuery => put(parts.query),
        Column::ContentDigest => put(digest(row).as_deref().map(str::as_bytes)),
        Column::ContentMimeType => put(declared(page, scratch).map(|_| scratch.as_slice())),
        Column::ContentMimeDetected => match row.body.and_then(infer::get) {
            Some(found) => put(Some(found.mime_type().as_bytes())),
            None => put(declared(page, scratch).map(|_| scratch.as_slice())),
        },
        Column::ContentCharset => put(charset(page, scratch).map(|_| scratch.as_slice())),
        Column::ContentTruncated => put(page.truncated.as_deref().map(str::as_bytes)),
        Column::Kind => put(Some(page.kind.name().as_bytes())),
        Column::Method => put(page.method.as_deref().map(str::as_bytes)),
        Column::Ip => {
            scratch.clear();
            // Writing to a Vec does not fail.
            let shown = page.ip.map(|ip| write!(scratch, "{ip}"));
            put(shown.map(|_| scratch.as_slice()))
        }
        _ => put(None),
    }
}

/// Appends bytes as text. Bytes that are not UTF-8 are percent-encoded, as in URLs. Returns the
/// length of the text, up to three times that of the bytes: the offsets of a batch have 31 bits.
fn put_text(bytes: Option<&[u8]>, to: &mut StringBuilder) -> usize {
    let Some(bytes) = bytes else {
        to.append_null();
        return 0;
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            to.append_value(text);
            text.len()
        }
        Err(_) => {
            let mut text = String::with_capacity(bytes.len() + 32);
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                chunk.invalid().iter().for_each(|byte| text.push_str(percent_encoding::percent_encode_byte(*byte)));
            }
            to.append_value(&text);
            text.len()
        }
    }
}

/// SHA-1 in base 32: as received, or of the body.
fn digest(row: &Row<'_>) -> Option<String> {
    let sha1 = received(row.page).or_else(|| row.body.map(|body| sha1_of(&[body])))?;
    meta::sha1_text(&sha1).split_once(':').map(|(_, text)| text.to_owned())
}

/// The SHA-1 that came with the version.
pub(super) fn received(page: &Page) -> Option<[u8; 20]> {
    page.digest.as_deref().and_then(expected)
}

/// Writes the media type of `Content-Type`, in lower case and without parameters.
fn declared(page: &Page, to: &mut Vec<u8>) -> Option<()> {
    let value = page.headers.get("Content-Type")?;
    let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    if !essence.contains(&b'/') || !essence.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    to.clear();
    to.extend_from_slice(essence);
    to.make_ascii_lowercase();
    Some(())
}

/// Writes the `charset` of `Content-Type`, in upper case.
fn charset(page: &Page, to: &mut Vec<u8>) -> Option<()> {
    let value = page.headers.get("Content-Type")?;
    let named = value.split(|&byte| byte == b';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_at(memchr::memchr(b'=', parameter)?);
        name.trim_ascii().eq_ignore_ascii_case(b"charset").then(|| value[1..].trim_ascii())
    })?;
    let quoted = named.strip_prefix(b"\"").map(|rest| rest.strip_suffix(b"\"").unwrap_or(rest));
    let named = quoted.unwrap_or(named);
    if named.is_empty() || !named.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    to.clear();
    to.extend_from_slice(named);
    to.make_ascii_uppercase();
    Some(())
}

fn headers(
    page: &Page,
    to: &mut MapBuilder<StringBuilder, StringBuilder>,
    scratch: &mut Vec<u8>,
) -> Result<usize, ArrowError> {
    let (names, values) = to.entries();
    let mut bytes = 0;
    for header in &page.headers {
        bytes += put_latin1(&header.name, names, scratch) + put_latin1(&header.value, values, scratch) + 8;
    }
    to.append(true)?;
    Ok(bytes)
}

/// Appends bytes as the characters of ISO-8859-1. Returns the length of the text.
fn put_latin1(bytes: &[u8], to: &mut StringBuilder, scratch: &mut Vec<u8>) -> usize {
    if let Some(text) = bytes.is_ascii().then(|| std::str::from_utf8(bytes).ok()).flatten() {
        to.append_value(text);
        return text.len();
    }
    scratch.clear();
    bytes.iter().for_each(|&byte| {
        let mut utf8 = [0; 2];
        scratch.extend_from_slice(char::from(byte).encode_utf8(&mut utf8).as_bytes());
    });
    to.append_value(std::str::from_utf8(scratch).unwrap_or_default());
    scratch.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound on a batch is one of the text in its columns.
    #[test]
    fn texts_count_by_their_length_in_the_column() {
        for bytes in [&b"plain"[..], "\u{e4}".as_bytes(), &[b'a', 0xff, 0xfe], b""] {
            let (mut text, mut latin1) = (StringBuilder::new(), StringBuilder::new());
            let counted = (put_text(Some(bytes), &mut text), put_latin1(bytes, &mut latin1, &mut Vec::new()));
            let (text, latin1) = (text.finish(), latin1.finish());
            assert_eq!(counted, (text.value(0).len(), latin1.value(0).len()), "{bytes:?}");
        }
        assert_eq!(put_text(Some(&[0xff; 10]), &mut StringBuilder::new()), 30);
        assert_eq!(put_text(None, &mut StringBuilder::new()), 0);
    }

    #[test]
    fn types_and_charsets_are_as_declared() {
        let of = |value: &str| {
            let mut page = Page::new("http://a/", 0, 200, "");
            page.headers.push("content-type", value);
            let (mut mime, mut name) = (Vec::new(), Vec::new());
            let found = (declared(&page, &mut mime), charset(&page, &mut name));
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (found.0.map(|()| text(mime)), found.1.map(|()| text(name)))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of("Text/HTML; Charset=\"utf-8\""), (some("text/html"), some("UTF-8")));
        assert_eq!(of("text/html;x=1; charset = iso-8859-1 "), (some("text/html"), some("ISO-8859-1")));
        assert_eq!(of("html; charset="), (None, None));
        assert_eq!(of("text/html; charset"), (some("text/html"), None));
    }
}
