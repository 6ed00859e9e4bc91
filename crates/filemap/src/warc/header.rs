//! The header of a WARC record: its version line and named fields (WARC 1.0, 1.1 and the drafts
//! before them).
//!
//! Parsing is strict where the framing depends on it (a length must be a number) and lenient where
//! writers differ (bare LF, case of names, `<` and `>` around a URL). A line that is not a field
//! is kept and reported.

use std::net::IpAddr;

use crate::date;
use crate::http::head;
use crate::page::headers::{Headers, line};
use crate::page::{RecordKind, Revisit, RevisitProfile};

/// The first bytes of every record.
pub(crate) const RECORD_MAGIC: &[u8] = b"WARC/";

/// The longest line that [`record_begins`] examines: `WARC/00.00` and its line end.
pub(crate) const VERSION_LINE_BYTES: usize = 11;

/// Returns whether a record may begin here: a line like `WARC/1.0`, with nothing else on it.
pub(crate) fn record_begins(bytes: &[u8]) -> bool {
    let line = &bytes[..bytes.len().min(VERSION_LINE_BYTES)];
    let Some(version) = line.strip_prefix(RECORD_MAGIC) else { return false };
    let Some(end) = version.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else { return false };
    let mut numbers = version[..end].split(|&byte| byte == b'.');
    let is_number = |part: Option<&[u8]>| {
        part.is_some_and(|digits| (1..=2).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit))
    };
    is_number(numbers.next()) && is_number(numbers.next()) && numbers.next().is_none()
}

/// Position of a segment in a record that its writer split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// The first segment, with the type and the head of the whole record.
    First,
    /// A later segment.
    Later,
}

/// The header of one record.
///
/// ```
/// # fn main() -> filemap::Result<()> {
/// use filemap::page::RecordKind;
/// use filemap::warc::{Item, Reader};
///
/// let file = b"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: <http://example.com/>\r\n\
///     Content-Length: 0\r\n\r\n\r\n\r\n";
/// let mut reader = Reader::new(&file[..], "file.warc", filemap::warc::Spool::default())?;
/// let Some(Item::Record(record)) = reader.next_item()? else { panic!("a record") };
/// assert_eq!(record.header.kind(), Some(RecordKind::Resource));
/// assert_eq!(record.header.target_uri(), Some(&b"http://example.com/"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// All named fields, in order.
    pub fields: Headers,
    /// True if a line is not a field; it is kept as a name without a value.
    pub(crate) has_odd_line: bool,
}

impl RecordHeader {
    /// Parses the lines of a header, the version line first. An error is the reason, in words.
    pub(crate) fn parse(text: &[u8]) -> Result<RecordHeader, &'static str> {
        let Some((_, mut at)) = line(text, 0) else { return Err("its header is empty") };
        let mut header = RecordHeader::default();
        while let Some((line, next)) = line(text, at) {
            if line.is_empty() {
                break;
            }
            if header.fields.len() == head::MAX_FIELDS {
                return Err("its header has too many fields");
            }
            at = next;
            let is_folded = matches!(line[0], b' ' | b'\t') && !header.fields.is_empty();
            let is_field = memchr::memchr(b':', line).is_some_and(|colon| is_name(&line[..colon]));
            header.has_odd_line |= !is_folded && !is_field;
            head::push_field(&mut header.fields, line);
        }
        Ok(header)
    }

    /// A field's value as text; `None` if the field is missing or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.text(name)
    }

    /// The record's type (`response`, `warcinfo`, ...), as written.
    pub fn record_type(&self) -> &str {
        self.text("WARC-Type").unwrap_or("")
    }

    /// The record's kind; `None` if a store cannot keep it.
    pub fn kind(&self) -> Option<RecordKind> {
        RecordKind::named(self.record_type())
    }

    /// Returns whether the record's type is one of the standard's.
    pub(crate) fn has_known_type(&self) -> bool {
        let other = ["warcinfo", "continuation"];
        self.kind().is_some() || other.iter().any(|name| self.record_type().eq_ignore_ascii_case(name))
    }

    /// Position of the segment in its record; `None` for a whole record.
    pub(crate) fn segment(&self) -> Option<Segment> {
        if self.record_type().eq_ignore_ascii_case("continuation") {
            return Some(Segment::Later);
        }
        let number = self.text("WARC-Segment-Number")?.trim();
        let total = || self.text("WARC-Segment-Total-Length").and_then(|total| total.trim().parse().ok());
        match number.parse::<u64>() {
            Ok(2..) => Some(Segment::Later),
            // The only segment.
            Ok(1) if total().is_some_and(|total: u64| self.content_length() == Some(total)) => None,
            // The number is invalid: the block can still be kept.
            _ => Some(Segment::First),
        }
    }

    /// The length of the block; `None` if the field is missing or not a number.
    pub fn content_length(&self) -> Option<u64> {
        let text = self.text("Content-Length")?;
        if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
    }

    /// The URL of the capture.
    pub fn target_uri(&self) -> Option<&[u8]> {
        self.fields.get("WARC-Target-URI").map(bare_uri).filter(|uri| !uri.is_empty())
    }

    /// The record's date, in ms since 1970.
    pub fn date_ms(&self) -> Option<i64> {
        self.text("WARC-Date").and_then(date::parse)
    }

    /// The IP address of the server.
    pub fn ip(&self) -> Option<IpAddr> {
        self.text("WARC-IP-Address")?.trim_matches(['[', ']']).parse().ok()
    }

    /// The capture that a revisit record refers to.
    pub fn revisit(&self) -> Revisit {
        let uri = self.text("WARC-Profile").unwrap_or_default();
        let profile = match uri.rsplit('/').next().unwrap_or_default() {
            "identical-payload-digest" | "uri-agnostic-identical-payload-digest" => RevisitProfile::IdenticalPayload,
            "server-not-modified" => RevisitProfile::ServerNotModified,
            _ => RevisitProfile::Other(uri.to_owned()),
        };
        Revisit {
            profile,
            refers_to_url: self.fields.get("WARC-Refers-To-Target-URI").map(|uri| bare_uri(uri).to_vec()),
            refers_to_ms: self
                .text("WARC-Refers-To-Date")
                .and_then(|text| date::parse(text).or_else(|| date::mend(text).map(|(time_ms, _)| time_ms))),
            refers_to_id: self.text("WARC-Refers-To").map(str::to_owned),
            original: None,
        }
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

/// The URL without the angle brackets that some writers put around it.
fn bare_uri(uri: &[u8]) -> &[u8] {
    uri.strip_prefix(b"<").and_then(|uri| uri.strip_suffix(b">")).unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RecordHeader {
        RecordHeader::parse(text.as_bytes()).expect("a header")
    }

    #[test]
    fn fields_are_found_by_name_whatever_the_writer_did() {
        let header = parse(
            "WARC/1.0\nwarc-type: Response\r\nWARC-Target-URI: <http://a/>\r\ncontent-length:12\r\n\
             WARC-Date: 2017-03-06T04:02:06Z\r\nWARC-IP-Address: ::1\r\nX: folded\r\n  value\r\n\r\n",
        );
        assert_eq!(header.kind(), Some(RecordKind::Response));
        assert_eq!(header.target_uri(), Some(&b"http://a/"[..]));
        assert_eq!(header.content_length(), Some(12));
        assert_eq!(header.date_ms(), Some(1_488_772_926_000));
        assert_eq!(header.ip(), "::1".parse().ok());
        assert_eq!(header.text("x"), Some("folded value"));
    }

    #[test]
    fn lengths_that_are_no_numbers_are_none() {
        for length in ["", "-1", "+1", "1 2", "0x10", "99999999999999999999999", "\u{661}"] {
            assert_eq!(
                parse(&format!("WARC/1.0\r\nContent-Length: {length}\r\n\r\n")).content_length(),
                None,
                "{length}"
            );
        }
    }

    #[test]
    fn a_line_that_is_no_field_is_kept_and_told() {
        for line in ["no colon", ": no name", "\u{e9}: x"] {
            let header = parse(&format!("WARC/1.0\r\nA: b\r\n{line}\r\nC: d\r\n\r\n"));
            assert!(header.has_odd_line && header.fields.len() == 3 && header.text("C") == Some("d"), "{line}");
        }
        assert!(!parse("WARC/1.0\r\nA: b\r\n folded\r\n\r\n").has_odd_line);
    }

    #[test]
    fn revisits_say_what_they_refer_to() {
        let header = parse(
            "WARC/1.0\r\nWARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
             WARC-Refers-To-Target-URI: http://b/\r\nWARC-Refers-To-Date: 2017-03-06T04:02:06Z\r\n\r\n",
        );
        let revisit = header.revisit();
        assert_eq!(revisit.profile, RevisitProfile::IdenticalPayload);
        assert_eq!(revisit.refers_to_url.as_deref(), Some(&b"http://b/"[..]));
        assert_eq!(revisit.refers_to_ms, Some(1_488_772_926_000));
    }
}
