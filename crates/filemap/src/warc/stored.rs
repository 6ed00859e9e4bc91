//! `FileMap-Page`, a field of the records of a dump: the properties of a stored page that a WARC
//! record cannot express.
//!
//! A record must be valid WARC for every reader, so it cannot hold all that a store has: pages
//! without ids and digests get them, headers that would mislead a player are renamed, an unchanged
//! version becomes a revisit. This field lists these changes, in words separated by spaces, so
//! that an import restores exactly the same page:
//!
//! | word | meaning |
//! |---|---|
//! | `head=N` | the body begins N bytes into the block, and is as stored: no coding is to be undone |
//! | `variant=BASE64` | the page's variant |
//! | `kind=K` | the kind of the page, if the record's type is another |
//! | `id` | the record's id is the page's; without it, the page has none |
//! | `digest`, `digest=TEXT` | the page's digest: that of the payload, or another; without it, the page has none |
//! | `protocol=TEXT`, `protocol=-` | the protocol, if the first line of the block has another, or the page has none |
//! | `renamed=A,B,...` | these header fields, counted from 0, have got the prefix `X-Crawler-` |
//! | `unchanged` | the body was stored as a reference; in a revisit record, it is that of the version referred to |
//! | `time=MS` | the time in ms since 1970, if a date cannot express it |
//! | `page=BASE64` | the page without time, body and variant, in the layout of [`crate::page::meta`], in place of the other words |
//!
//! The writer parses each record before it is written, and uses `page` if the other words do not
//! restore the same page.
//!
//! Invariant: a field with an unknown word is ignored; the record is then treated like any other.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::http::head;
use crate::page::variant::Variant;
use crate::page::{HttpVersion, Page, RecordKind, meta};
use crate::warc::header::RecordHeader;

/// The field's name.
pub(crate) const FIELD: &str = "FileMap-Page";
/// Prefix for the names of headers that do not hold for the body as written.
pub(crate) const RENAMED: &str = "X-Crawler-";

/// The parsed field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) head_bytes: u64,
    pub(crate) variant: Option<Variant>,
    pub(crate) kind: Option<RecordKind>,
    pub(crate) has_id: bool,
    pub(crate) digest: PageDigest,
    /// `Some(None)`: the page has no protocol.
    pub(crate) protocol: Option<Option<HttpVersion>>,
    pub(crate) renamed: Vec<usize>,
    pub(crate) unchanged: bool,
    pub(crate) time_ms: Option<i64>,
    pub(crate) description: Option<Vec<u8>>,
}

/// The digest that a page has from its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageDigest {
    #[default]
    None,
    /// The digest of the record's payload.
    Payload,
    Other(String),
}

impl Stored {
    /// The field's value.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("head={}", self.head_bytes);
        let mut word = |word: std::fmt::Arguments<'_>| {
            let _ = write!(text, " {word}");
        };
        if let Some(variant) = &self.variant {
            word(format_args!("variant={}", STANDARD.encode(variant.as_bytes())));
        }
        if let Some(kind) = self.kind {
            word(format_args!("kind={}", kind.name()));
        }
        if self.has_id {
            word(format_args!("id"));
        }
        match &self.digest {
            PageDigest::None => {}
            PageDigest::Payload => word(format_args!("digest")),
            PageDigest::Other(digest) => word(format_args!("digest={digest}")),
        }
        if let Some(protocol) = &self.protocol {
            word(format_args!("protocol={}", protocol.as_ref().map_or("-", HttpVersion::as_str)));
        }
        if !self.renamed.is_empty() {
            let renamed: Vec<String> = self.renamed.iter().map(usize::to_string).collect();
            word(format_args!("renamed={}", renamed.join(",")));
        }
        if self.unchanged {
            word(format_args!("unchanged"));
        }
        if let Some(time_ms) = self.time_ms {
            word(format_args!("time={time_ms}"));
        }
        if let Some(description) = &self.description {
            word(format_args!("page={}", STANDARD.encode(description)));
        }
        text
    }

    /// Parses the field of a record; `None` if it is missing or not understood by this program.
    pub(crate) fn of(header: &RecordHeader) -> Option<Stored> {
        let mut stored = Stored::default();
        let mut has_head = false;
        for word in header.text(FIELD)?.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            match (name, value) {
                ("head", Some(value)) => {
                    stored.head_bytes = value.parse().ok()?;
                    has_head = true;
                }
                ("variant", Some(value)) => stored.variant = Some(Variant::new(STANDARD.decode(value).ok()?).ok()?),
                ("kind", Some(value)) => stored.kind = Some(RecordKind::named(value)?),
                ("id", None) => stored.has_id = true,
                ("digest", None) => stored.digest = PageDigest::Payload,
                ("digest", Some(value)) => stored.digest = PageDigest::Other(value.to_owned()),
                ("protocol", Some("-")) => stored.protocol = Some(None),
                ("protocol", Some(value)) => stored.protocol = Some(Some(HttpVersion::from_token(value))),
                ("renamed", Some(value)) => {
                    stored.renamed = value.split(',').map(|at| at.parse().ok()).collect::<Option<_>>()?;
                }
                ("unchanged", None) => stored.unchanged = true,
                ("time", Some(value)) => stored.time_ms = Some(value.parse().ok()?),
                ("page", Some(value)) => stored.description = Some(STANDARD.decode(value).ok()?),
                _ => return None,
            }
        }
        has_head.then_some(stored)
    }

    /// The page of a record with this header, without its body; `head` is the block before the
    /// body. `None` if header and head do not belong together.
    pub(crate) fn page(&self, header: &RecordHeader, head: &[u8]) -> Option<Page> {
        let kind = self.kind.or_else(|| header.kind())?;
        let fetched_at_ms = self.time_ms.or_else(|| header.date_ms())?;
        if let Some(description) = &self.description {
            let page = undescribed(description, fetched_at_ms)?;
            return (page.kind == kind).then_some(Page { variant: self.variant.clone(), ..page });
        }
        let mut page = described(header, kind);
        page.url = header.target_uri()?.to_vec();
        page.variant.clone_from(&self.variant);
        page.fetched_at_ms = fetched_at_ms;
        page.kind = kind;
        page.record_id = page.record_id.filter(|_| self.has_id);
        page.digest = match &self.digest {
            PageDigest::None => None,
            PageDigest::Payload => header.text("WARC-Payload-Digest").map(str::to_owned),
            PageDigest::Other(text) => Some(text.clone()),
        };
        if self.head_bytes > 0 {
            self.take_message(&mut page, head)?;
        } else if let Some(value) = header.fields.get("Content-Type").filter(|_| kind != RecordKind::Revisit) {
            page.headers.push("Content-Type", value);
        }
        Some(page)
    }

    fn take_message(&self, page: &mut Page, bytes: &[u8]) -> Option<()> {
        head::parse(bytes).filter(|head| head.bytes == bytes.len())?.describe(page);
        if let Some(protocol) = &self.protocol {
            page.http_version.clone_from(protocol);
        }
        for &at in &self.renamed {
            let name = &mut page.headers.0.get_mut(at)?.name;
            *name = name.strip_prefix(RENAMED.as_bytes())?.to_vec();
        }
        Some(())
    }
}

/// The page that a record's header describes.
pub(crate) fn described(header: &RecordHeader, kind: RecordKind) -> Page {
    let text = |name: &str| header.text(name).map(str::to_owned);
    let segment = || header.segment().map(|_| "segment 1".to_owned());
    let block_is_payload = matches!(kind, RecordKind::Resource | RecordKind::Metadata | RecordKind::Conversion);
    let block_digest = || text("WARC-Block-Digest").filter(|_| block_is_payload);
    Page {
        ip: header.ip(),
        truncated: text("WARC-Truncated").or_else(segment),
        digest: text("WARC-Payload-Digest").or_else(block_digest),
        record_id: text("WARC-Record-ID"),
        revisit: (kind == RecordKind::Revisit).then(|| header.revisit()),
        ..Page::default()
    }
}

/// A page without time, body and variant, encoded; `None` if it is over the limit.
pub(crate) fn description(page: &Page) -> Option<Vec<u8>> {
    let encoded = meta::encode(page, b"").ok()?;
    Some([encoded.meta, encoded.spill].concat())
}

fn undescribed(description: &[u8], time_ms: i64) -> Option<Page> {
    let fixed = description.get(..meta::FIXED_BYTES)?;
    let spilled = meta::spill_bytes(fixed).ok()? > 0;
    let (meta, spill) = description.split_at(if spilled { meta::FIXED_BYTES } else { description.len() });
    // A file must not claim that a page is in another file: readers of the page would get that
    // file's bytes.
    meta::decode(meta, spill, b"", time_ms).ok().filter(|page| page.in_place.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(field: &str) -> RecordHeader {
        RecordHeader::parse(format!("WARC/1.1\r\n{FIELD}: {field}\r\n\r\n").as_bytes()).expect("a header")
    }

    #[test]
    fn the_field_reads_back_as_it_was_written() {
        let full = Stored {
            head_bytes: 17,
            variant: Some(Variant::new("a b").expect("fits")),
            kind: Some(RecordKind::Response),
            has_id: true,
            digest: PageDigest::Other("sha1:X".to_owned()),
            protocol: Some(Some(HttpVersion::Http2)),
            renamed: vec![0, 12],
            unchanged: true,
            time_ms: Some(-5),
            description: Some(vec![0, 255]),
        };
        let text = "head=17 variant=YSBi kind=response id digest=sha1:X protocol=HTTP/2 renamed=0,12 unchanged time=-5 page=AP8=";
        assert_eq!(full.text(), text);
        for stored in
            [full, Stored::default(), Stored { digest: PageDigest::Payload, protocol: Some(None), ..Stored::default() }]
        {
            assert_eq!(Stored::of(&header(&stored.text())), Some(stored));
        }
    }

    #[test]
    fn a_field_that_is_not_understood_whole_is_none() {
        for text in [
            "",
            "id",
            "head=x",
            "head=1 novelty",
            "head=1 id=2",
            "head=1 renamed=a",
            "head=1 page=%",
            "head=1 kind=x",
            "head=1 variant=",
        ] {
            assert_eq!(Stored::of(&header(text)), None, "{text}");
        }
        assert_eq!(Stored::of(&RecordHeader::default()), None);
    }

    #[test]
    fn descriptions_of_any_size_read_back() {
        let mut page = Page::new(&b"\xff"[..], 7, 200, "");
        for bytes in [0, 100_000] {
            page.headers.push("A", vec![b'\n'; bytes]);
            let description = description(&page).expect("fits");
            assert_eq!(undescribed(&description, 7), Some(page.clone()));
            assert_eq!(undescribed(&description[..description.len() - 1], 7), None);
        }
        assert_eq!(undescribed(b"", 7), None);
    }
}
