//! ARC files, the Internet Archive's format before WARC: parses a record's line to WARC fields.
//!
//! A record is one line and a block: `URL IP date type length` (version 1, of ARC 1.0 and 1.1), or
//! with result code, checksum, location, offset and file name before the length (version 2). The
//! first record of a file, with the URL `filedesc://...`, has the version. Fields are separated by
//! spaces, but old writers left spaces in URLs and types: so the line is split around the address
//! and the date in its middle.
//!
//! Invariant: only a line with all its fields begins a record. A line found by a search must have
//! a date of eight digits or more; a line that must follow a whole record may have any word for a
//! date.

use std::net::IpAddr;

use crate::page::headers::Headers;
use crate::warc::header::{RecordHeader, record_begins};

/// The longest line: the longest URL and the fields after it, in bytes.
pub(crate) const LINE_BYTES: usize = 68 << 10;
/// The beginning of a plain file.
pub(crate) const FILE_MAGIC: &[u8] = b"filedesc://";

/// Fields of a line of version 1, and of version 2.
const LEAST_FIELDS: usize = 5;
const MOST_FIELDS: usize = 10;

/// A record's line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    url: &'a [u8],
    ip: &'a [u8],
    date: &'a [u8],
    media_type: &'a [u8],
    /// The length of the block; `None` if it is not a number.
    pub(crate) length: Option<u64>,
    /// Length of the line with its line end, in bytes.
    pub(crate) bytes: usize,
}

/// The record's line at the start of `bytes`; `None` if there is none.
pub(crate) fn line(bytes: &[u8]) -> Option<Line<'_>> {
    let (text, bytes) = text_of(bytes)?;
    let (middle, fields) = middle(text)?;
    let rest = &text[fields.end..];
    let (media_type, length) = rest.split_at(rest.iter().rposition(|&byte| byte == b' ')?);
    let media_type = media_type.trim_ascii().split(|&byte| byte == b' ').next().unwrap_or_default();
    Some(Line {
        url: text[..fields.start].trim_ascii_end(),
        ip: text[fields.start..middle].trim_ascii(),
        date: text[middle..fields.end].trim_ascii(),
        media_type,
        length: number(length.trim_ascii()),
        bytes,
    })
}

/// As [`line`], for a place where a record's line must be: if the number of fields is right, any
/// word is accepted as the date.
pub(crate) fn expected(bytes: &[u8]) -> Option<Line<'_>> {
    line(bytes).or_else(|| {
        let (text, bytes) = text_of(bytes)?;
        let words: Vec<&[u8]> = text.split(|&byte| byte == b' ').take(MOST_FIELDS + 1).collect();
        let [url, ip, date, media_type, .., length] = words[..] else { return None };
        let is_one = [LEAST_FIELDS, MOST_FIELDS].contains(&words.len()) && words.iter().all(|word| !word.is_empty());
        let length = number(length).filter(|_| is_one && is_address(ip));
        length.map(|length| Line { url, ip, date, media_type, length: Some(length), bytes })
    })
}

/// Returns whether these bytes begin with a known scheme, rather than with the end of one.
pub(crate) fn has_known_scheme(bytes: &[u8]) -> bool {
    let schemes: [&[u8]; 9] =
        [b"http:", b"https:", b"ftp:", b"dns:", b"filedesc:", b"whois:", b"gopher:", b"rtsp:", b"mms:"];
    schemes.iter().any(|scheme| bytes.get(..scheme.len()).is_some_and(|text| text.eq_ignore_ascii_case(scheme)))
}

/// The line at the start of `bytes` if it begins like a URL: its text without the line end, and
/// its length with the line end.
fn text_of(bytes: &[u8]) -> Option<(&[u8], usize)> {
    bytes.first().filter(|first| first.is_ascii_alphabetic())?;
    let bytes = &bytes[..bytes.len().min(LINE_BYTES)];
    let end = memchr::memchr(b'\n', bytes)?;
    let text = bytes[..end].trim_ascii_end();
    let colon = memchr::memchr(b':', &text[..text.len().min(32)])?;
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text[..colon].iter().all(is_scheme).then_some((text, end + 1))
}

fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    text?.parse().ok()
}

/// The start of the date, and the range of address and date: the last such pair of the line.
fn middle(text: &[u8]) -> Option<(usize, std::ops::Range<usize>)> {
    let mut end = text.len();
    while let Some(space) = text[..end].iter().rposition(|&byte| byte == b' ') {
        let date = &text[space + 1..end];
        if (8..=20).contains(&date.len()) && date.iter().all(u8::is_ascii_digit) && end < text.len() {
            let ip = text[..space].iter().rposition(|&byte| byte == b' ')?;
            if is_address(&text[ip + 1..space]) {
                return Some((space + 1, ip + 1..end));
            }
        }
        end = space;
    }
    None
}

fn is_address(text: &[u8]) -> bool {
    text == b"-" || std::str::from_utf8(text).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
}

impl Line<'_> {
    /// The line as the header of a WARC record.
    pub(crate) fn header(&self) -> RecordHeader {
        let is_http = self.url.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http"));
        let kind = match self.url {
            url if url.starts_with(FILE_MAGIC) => "warcinfo",
            _ if is_http => "response",
            _ => "resource",
        };
        let mut fields = Headers::new();
        fields.push("WARC-Type", kind);
        fields.push("WARC-Target-URI", self.url);
        fields.push("WARC-Date", self.date);
        if self.ip != b"-" && self.ip != b"0.0.0.0" {
            fields.push("WARC-IP-Address", self.ip);
        }
        fields.push("Content-Type", self.media_type);
        fields.push("Content-Length", self.length.unwrap_or(0).to_string());
        RecordHeader { fields, has_odd_line: false }
    }
}

/// Returns whether a compressed member decodes to the beginning of a WARC record (or of an ARC
/// record, if `is_arc`), or to nothing. `trial` decodes it while its callback returns true; it
/// returns false if the data is invalid.
pub(crate) fn member_begins(is_arc: bool, trial: impl FnOnce(&mut dyn FnMut(&[u8]) -> bool) -> bool) -> bool {
    let mut first = Vec::new();
    let ahead = if is_arc { LINE_BYTES } else { 16 };
    let decodes = trial(&mut |out| {
        first.extend_from_slice(out);
        first.len() < ahead
    });
    !decodes || record_begins(&first) || is_arc && expected(&first).is_some()
}

/// Offset of the first record line in `bytes`, at their start or after a line end.
pub(crate) fn find(bytes: &[u8]) -> Option<usize> {
    let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', bytes).map(|end| end + 1));
    starts.filter(|&at| at < bytes.len()).find(|&at| line(&bytes[at..]).is_some_and(|line| line.length.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(text: &str) -> Option<(String, String, Option<u64>)> {
        let line = line(text.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((text(line.url), format!("{} {} {}", text(line.ip), text(line.date), text(line.media_type)), line.length))
    }

    #[test]
    fn lines_of_both_versions_are_read() {
        for (text, url, rest, length) in [
            (
                "http://a/ 1.2.3.4 20140216050221 text/html 1591\n",
                "http://a/",
                "1.2.3.4 20140216050221 text/html",
                1591,
            ),
            ("http://a/b c d ::1 20140216050221 text/html 1\r\n", "http://a/b c d", "::1 20140216050221 text/html", 1),
            ("dns:a.example 1.2.3.4 20140216 text/dns 57\n", "dns:a.example", "1.2.3.4 20140216 text/dns", 57),
            ("http://a/ - 20140216050221 text/html; charset=x 9\n", "http://a/", "- 20140216050221 text/html;", 9),
            (
                "http://a/ 1.2.3.4 20140216050221 text/html 200 fac069150613fe55599cc7fa88aa089d - 209 IA-1.arc 202\n",
                "http://a/",
                "1.2.3.4 20140216050221 text/html",
                202,
            ),
        ] {
            assert_eq!(fields(text), Some((url.to_owned(), rest.to_owned(), Some(length))), "{text}");
        }
        assert_eq!(fields("http://a/ 1.2.3.4 20140216050221 text/html -1\n").expect("a line").2, None);
    }

    #[test]
    fn where_a_line_must_stand_its_date_may_be_any_word() {
        for date in ["abcdefghijklmn", "2014", "20140216O50221", "-", "\u{fc}"] {
            for rest in ["", "200 fac069150613fe55599cc7fa88aa089d - 209 IA-1.arc "] {
                let text = format!("http://a/ 1.2.3.4 {date} text/html {rest}1591\r\nX");
                let line = expected(text.as_bytes()).expect("a line");
                assert_eq!((line.url, line.date, line.length), (&b"http://a/"[..], date.as_bytes(), Some(1591)));
                assert_eq!((line.bytes, fields(&text), find(text.as_bytes())), (text.len() - 1, None, None));
            }
        }
        for text in [
            "http://a/ 1.2.3.4 soon text/html\n",
            "http://a/ 1.2.3.4 soon text/html x 5\n",
            "http://a/ 1.2.3.4 soon text/html x\n",
            "http://a/ 1.2.3.4  text/html 5\n",
            "http://a/ host soon text/html 5\n",
            "see: 1.2.3.4 for more of 5 words than ten of them in all\n",
            "http://a/ 1.2.3.4 soon text/html 5",
        ] {
            assert_eq!(expected(text.as_bytes()), None, "{text}");
        }
        assert_eq!(expected(b"http://a/ - 20140216050221 a 1\n"), line(b"http://a/ - 20140216050221 a 1\n"));
    }

    #[test]
    fn what_lacks_a_field_is_no_line() {
        for text in [
            "",
            "\n",
            "http://a/ 1.2.3.4 20140216050221 text/html 1591",
            "http://a/ 1.2.3.4 20140216050221\n",
            "http://a/ 1.2.3.4 2014 text/html 1\n",
            "http://a/ host 20140216050221 text/html 1\n",
            "1 0 InternetArchive\n",
            "URL IP-address Archive-date Content-type Archive-length\n",
        ] {
            assert_eq!(fields(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_line_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[a-z:/ 0-9.\n-]{0,200}") {
            let _ = (line(&bytes), find(&bytes), line(text.as_bytes()), find(text.as_bytes()));
            let _ = (expected(&bytes), expected(text.as_bytes()));
        }
    }
}
