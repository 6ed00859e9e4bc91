//! The encoding of a document: from a byte order mark, `Content-Type`, a declaration in its first
//! bytes, or its bytes.
//!
//! Follows the HTML standard, except for the last resort. In the standard that depends on the
//! user's locale; here an undeclared document is UTF-8 if its bytes are valid, and windows-1252
//! otherwise.

use std::borrow::Cow;

use memchr::memmem;
use urlindex::canonical::Encoding;

/// Number of bytes in which a document may declare its encoding.
const PRESCAN_BYTES: usize = 1024;

/// The text of a document and its encoding; invalid bytes become U+FFFD. Borrowed if it is UTF-8.
///
/// ```
/// use filemap::page::encoding::decode;
///
/// let (text, encoding) = decode(b"caf\xe9", Some(b"text/html; charset=iso-8859-1"));
/// assert_eq!((&*text, encoding.name()), ("caf\u{e9}", "windows-1252"));
/// ```
pub fn decode<'a>(body: &'a [u8], content_type: Option<&[u8]>) -> (Cow<'a, str>, &'static Encoding) {
    let said = content_type.and_then(charset).and_then(Encoding::for_label);
    let encoding = said.or_else(|| prescan(&body[..body.len().min(PRESCAN_BYTES)]));
    let encoding = encoding.unwrap_or_else(|| {
        let label: &[u8] = if std::str::from_utf8(body).is_ok() { b"utf-8" } else { b"windows-1252" };
        Encoding::for_label(label).unwrap_or(urlindex::canonical::UTF_8)
    });
    // A byte order mark overrides declarations.
    let (text, encoding, _) = encoding.decode(body);
    (text, encoding)
}

/// The encoding that a document declares: `<meta charset=...>`, `<meta http-equiv=Content-Type
/// content="...charset=...">`, `<?xml encoding="..."?>`.
fn prescan(head: &[u8]) -> Option<&'static Encoding> {
    let lower = head.to_ascii_lowercase();
    let declared = lower.strip_prefix(b"<?xml").and_then(|rest| {
        let declaration = &rest[..rest.iter().position(|&byte| byte == b'>')?];
        value_of(declaration, b"encoding")
    });
    let label = match declared {
        Some(label) => Some(label),
        None => in_meta(&lower),
    };
    let encoding = Encoding::for_label(label?)?;
    // A declaration that can be read as ASCII is not UTF-16; the standard maps the names in this
    // way.
    Some(match encoding.name() {
        "UTF-16LE" | "UTF-16BE" => urlindex::canonical::UTF_8,
        "x-user-defined" => Encoding::for_label(b"windows-1252")?,
        _ => encoding,
    })
}

/// The label in the first `meta` that has one.
fn in_meta(lower: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    while at < lower.len() {
        let rest = &lower[at..];
        if let Some(comment) = rest.strip_prefix(b"<!--") {
            at += 4 + memmem::find(comment, b"-->")?;
        } else if let Some(tag) = rest.strip_prefix(b"<meta").filter(|tag| tag.first().is_some_and(is_gap)) {
            let tag = &tag[..tag.iter().position(|&byte| byte == b'>').unwrap_or(tag.len())];
            if let Some(label) = charset(tag) {
                return Some(label);
            }
            at += 5 + tag.len();
        } else {
            at += 1;
        }
    }
    None
}

fn is_gap(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == b'/'
}

/// The label after `charset=`.
fn charset(text: &[u8]) -> Option<&[u8]> {
    value_of(text, b"charset")
}

/// The value after `NAME=`, quoted or not; ignores case.
fn value_of<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut at = 0;
    while at + name.len() <= text.len() {
        if !text[at..at + name.len()].eq_ignore_ascii_case(name) {
            at += 1;
            continue;
        }
        at += name.len();
        let Some(value) = text[at..].trim_ascii_start().strip_prefix(b"=") else { continue };
        let value = value.trim_ascii_start();
        let (value, ends): (_, fn(u8) -> bool) = match value.first() {
            Some(b'"') => (&value[1..], |byte| byte == b'"'),
            Some(b'\'') => (&value[1..], |byte| byte == b'\''),
            _ => (value, |byte| byte.is_ascii_whitespace() || matches!(byte, b';' | b'"' | b'\'')),
        };
        return Some(value[..value.iter().position(|&byte| ends(byte)).unwrap_or(value.len())].trim_ascii());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_of_a_document_is_found_where_the_standard_looks_for_it() {
        type Row<'a> = (&'a [u8], Option<&'a str>, &'a str);
        let rows: [Row<'_>; 16] = [
            (b"<p>caf\xe9", None, "windows-1252"),
            (b"<p>caf\xc3\xa9", None, "UTF-8"),
            (b"<p>\xe9", Some("text/html; charset=KOI8-R"), "KOI8-R"),
            (b"<p>\xe9", Some("text/html;Charset=\"gbk\""), "GBK"),
            (b"<p>\xe9", Some("text/html; charset=nonsense"), "windows-1252"),
            (b"<meta charset=Shift_JIS>", None, "Shift_JIS"),
            (b"<META\nname=x /><meta http-equiv=Content-Type content='text/html; charset=euc-kr'>", None, "EUC-KR"),
            (b"<meta charset=gbk>", Some("text/html; charset=big5"), "Big5"),
            (b"<!-- <meta charset=gbk> --><p>\xe9", None, "windows-1252"),
            (b"<metal charset=gbk>\xe9", None, "windows-1252"),
            (b"<?xml version='1.0' encoding='iso-8859-2'?><html>", None, "ISO-8859-2"),
            (b"<meta charset=utf-16>", None, "UTF-8"),
            (b"<meta charset=x-user-defined>", None, "windows-1252"),
            (b"\xef\xbb\xbf<p>", Some("text/html; charset=gbk"), "UTF-8"),
            (b"\xff\xfe<\0p\0>\0", None, "UTF-16LE"),
            (b"", None, "UTF-8"),
        ];
        for (body, content_type, expected) in rows {
            let (_, encoding) = decode(body, content_type.map(str::as_bytes));
            assert_eq!(encoding.name(), expected, "{}", String::from_utf8_lossy(body));
        }
        let late = [&[b' '; 1024][..], b"<meta charset=gbk>\xe9"].concat();
        assert_eq!(decode(&late, None).1.name(), "windows-1252");
    }
}
