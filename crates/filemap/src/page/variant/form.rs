//! Forms as queries: with escapes decoded (`a=b c`), and the fields of a multipart body.
//!
//! Follows the rules of Python's `urllib.parse` (`unquote_plus`, `urlencode`), which the archives'
//! tools use.

use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Bytes that are escaped in a query.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~');

/// Decodes the escapes of a form: `+` is a space, escapes are UTF-8, invalid bytes are replaced.
pub(super) fn unquoted(form: &str) -> String {
    let mut out = String::with_capacity(form.len());
    let mut rest = form;
    while !rest.is_empty() {
        // Escapes before and after a non-ASCII character are decoded separately.
        let ascii = rest.find(|c: char| !c.is_ascii()).unwrap_or(rest.len());
        out.push_str(&percent_decode_str(&rest[..ascii].replace('+', " ")).decode_utf8_lossy());
        rest = &rest[ascii..];
        let other = rest.find(|c: char| c.is_ascii()).unwrap_or(rest.len());
        out.push_str(&rest[..other]);
        rest = &rest[other..];
    }
    out
}

/// Encodes bytes as a name or value of a query.
pub(super) fn quoted(bytes: &[u8]) -> String {
    percent_encode(bytes, RESERVED).to_string().replace("%20", "+")
}

/// The fields of a multipart body, including files; `None` for other bodies.
pub(super) fn multipart(content_type: &str, body: &[u8]) -> Option<String> {
    let boundary = parameter(content_type.as_bytes(), b"boundary").filter(|boundary| !boundary.is_empty())?;
    let delimiter = [b"--", &boundary[..]].concat();
    let begin = [b"\n", &delimiter[..]].concat();
    let mut rest = match body.strip_prefix(&delimiter[..]) {
        Some(rest) => rest,
        None => &body[memmem::find(body, &begin)? + begin.len()..],
    };
    let mut query = String::new();
    while !rest.starts_with(b"--") {
        let part = &rest[memchr::memchr(b'\n', rest)? + 1..];
        let Some(end) = memmem::find(part, &begin) else { return Some(query).filter(|query| !query.is_empty()) };
        let content = &part[..end];
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(&field(content.strip_suffix(b"\r").unwrap_or(content)));
        rest = &part[end + begin.len()..];
    }
    Some(query)
}

/// One part, with its headers, as `name=value`.
fn field(part: &[u8]) -> String {
    let mut name = None;
    let mut at = 0;
    while let Some((line, next)) = crate::page::headers::line(part, at) {
        at = next;
        if line.is_empty() {
            break;
        }
        if line.len() > 20 && line[..20].eq_ignore_ascii_case(b"content-disposition:") {
            name = parameter(line, b"name");
        }
    }
    let name = name.map_or_else(|| "None".to_owned(), |name| quoted(&name));
    format!("{name}={}", quoted(&part[at..]))
}

/// A parameter of a header's value, without its quotes.
fn parameter(value: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut rest = &value[memchr::memchr(b';', value)?..];
    while let Some(text) = rest.strip_prefix(b";").map(<[u8]>::trim_ascii_start) {
        let equals = memchr::memchr(b'=', text)?;
        let is_it = text[..equals].trim_ascii().eq_ignore_ascii_case(name);
        let text = &text[equals + 1..];
        let (value, end) = match text.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = memchr::memchr(b'"', quoted).unwrap_or(quoted.len());
                (&quoted[..end], (end + 2).min(text.len()))
            }
            None => {
                let end = memchr::memchr(b';', text).unwrap_or(text.len());
                (text[..end].trim_ascii(), end)
            }
        };
        if is_it {
            return Some(value.to_vec());
        }
        rest = &text[end..];
        rest = &rest[memchr::memchr(b';', rest).unwrap_or(rest.len())..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_without_an_end_or_a_name_costs_nothing_else() {
        let multi = |body: &[u8]| multipart("multipart/form-data; charset=x; boundary=b", body);
        assert_eq!(multi(b"preamble\r\n--b\r\nX: y\r\n\r\nv\r\n--b--").as_deref(), Some("None=v"));
        assert_eq!(multi(b"--b\ncontent-disposition: form-data; name=a\n\n1\n--b\r\n\r\n2"), Some("a=1".to_owned()));
        assert_eq!(multi(b"--b--").as_deref(), Some(""));
        for none in [&b""[..], b"--b", b"--b\r\n\r\nx", b"no parts"] {
            assert_eq!(multi(none), None, "{}", String::from_utf8_lossy(none));
        }
        assert_eq!(multipart("multipart/form-data; boundary", b"--b--"), None);
    }

    proptest! {
        #[test]
        fn what_was_quoted_comes_back(text in "\\PC{0,20}") {
            prop_assert_eq!(unquoted(&quoted(text.as_bytes())), text);
        }

        #[test]
        fn any_bytes_are_taken(content_type in "multipart/[a-z;=\" ]{0,12}(boundary=[ab\"]{0,3})?", body in "[-ab\r\n:;=\"]{0,40}") {
            let _ = multipart(&content_type, body.as_bytes());
        }
    }
}
