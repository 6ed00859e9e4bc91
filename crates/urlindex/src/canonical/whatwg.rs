//! The canonicaliser by the WHATWG URL standard: what a browser sends, without the fragment.
//!
//! A page's link is encoded as the standard says: path in UTF-8, query in the page's encoding.
//! Any other URL that is not UTF-8 has each byte over 7F percent-encoded as it stands, which is
//! what its server received.
//!
//! The `url` crate parses and serialises where [`fast`] cannot prove that this changes nothing.
//! The fragment never reaches a server. A URL that does not parse is an error: a store must not
//! hold two spellings of one page because one was broken.
//!
//! Invariant: the answer is ASCII without NUL, and canonicalising it again gives the same bytes.

use std::borrow::Cow;

use encoding_rs::{EncoderResult, Encoding, UTF_8};

use super::{Canonicalizer, UrlError, fast};

/// WHATWG serialisation without the fragment (`whatwg`, version 1).
///
/// ```
/// use urlindex::{Canonicalizer, Whatwg};
///
/// let key = Whatwg.canonicalize(b"HTTP://Example.com:80/a/../b#top").unwrap();
/// assert_eq!(key, b"http://example.com/b");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Whatwg;

impl Canonicalizer for Whatwg {
    fn name(&self) -> &'static str {
        "whatwg"
    }

    fn version(&self) -> u32 {
        1
    }

    fn canonicalize(&self, url: &[u8]) -> Result<Vec<u8>, UrlError> {
        self.canonical(url).map(Cow::into_owned)
    }

    fn canonical<'a>(&self, url: &'a [u8]) -> Result<Cow<'a, [u8]>, UrlError> {
        if let Some(part) = fast::canonical_part(url) {
            return Ok(Cow::Borrowed(part));
        }
        let mut parsed = url::Url::parse(&text(url)?).map_err(invalid)?;
        parsed.set_fragment(None);
        Ok(Cow::Owned(String::from(parsed).into_bytes()))
    }
}

/// The URL as text; if it is not UTF-8, each byte over 7F is percent-encoded.
pub(super) fn text(url: &[u8]) -> Result<Cow<'_, str>, UrlError> {
    if url.is_empty() {
        return Err(UrlError::Empty);
    }
    Ok(std::str::from_utf8(url).map_or_else(|_| Cow::Owned(percent_bytes(url)), Cow::Borrowed))
}

fn percent_bytes(url: &[u8]) -> String {
    let mut text = String::with_capacity(url.len() + 16);
    for &byte in url {
        match byte.is_ascii() {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The standard's serialisation, fragment included.
pub(super) fn parse(url: &str) -> Result<String, UrlError> {
    url::Url::parse(url).map(String::from).map_err(invalid)
}

/// The URL of `link` on the page `base`, which has this encoding.
pub(super) fn join(base: &[u8], link: &[u8], encoding: &'static Encoding) -> Result<String, UrlError> {
    let base = url::Url::parse(&text(base)?).map_err(invalid)?;
    let link = if link.is_empty() { Cow::Borrowed("") } else { text(link)? };
    let link = match base.scheme() {
        "http" | "https" | "ws" | "wss" | "ftp" => with_two_slashes(&link),
        _ => Cow::Borrowed(&*link),
    };
    parse_in(Some(&base), &link, encoding)
}

/// The URL of `link` on the page `base`, or by itself, with the query in this encoding.
pub(super) fn parse_in(base: Option<&url::Url>, link: &str, encoding: &'static Encoding) -> Result<String, UrlError> {
    let in_page: &dyn Fn(&str) -> Cow<'_, [u8]> = &|query| Cow::Owned(in_encoding(query, encoding));
    let other = Some(in_page).filter(|_| encoding.output_encoding() != UTF_8);
    url::Url::options().base_url(base).encoding_override(other).parse(link).map(String::from).map_err(invalid)
}

/// Encodes a query; unmappable characters become, as the standard says, the escapes of
/// `&#NUMBER;`.
fn in_encoding(query: &str, encoding: &'static Encoding) -> Vec<u8> {
    let mut encoder = encoding.new_encoder();
    let (mut bytes, mut rest) = (Vec::new(), query);
    loop {
        bytes.reserve(encoder.max_buffer_length_from_utf8_without_replacement(rest.len()).unwrap_or(rest.len()));
        let (end, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut bytes, true);
        rest = &rest[read..];
        match end {
            EncoderResult::InputEmpty => return bytes,
            EncoderResult::Unmappable(c) => bytes.extend(format!("%26%23{}%3B", u32::from(c)).bytes()),
            EncoderResult::OutputFull => {}
        }
    }
}

/// A link that begins with more than two slashes still names a host; the parser knows that of
/// absolute URLs only.
fn with_two_slashes(link: &str) -> Cow<'_, str> {
    let is_ignored = |c: char| c <= ' ';
    let is_slash = |c: char| matches!(c, '/' | '\\' | '\t' | '\n' | '\r');
    let rest = link.trim_start_matches(is_ignored);
    let after = rest.trim_start_matches(is_slash);
    let slashes = rest[..rest.len() - after.len()].chars().filter(|c| matches!(c, '/' | '\\')).count();
    if slashes > 2 { Cow::Owned(format!("//{after}")) } else { Cow::Borrowed(link) }
}

fn invalid(error: url::ParseError) -> UrlError {
    UrlError::Invalid { why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(url: &str) -> String {
        String::from_utf8(Whatwg.canonicalize(url.as_bytes()).expect("a URL")).expect("ASCII")
    }

    #[test]
    fn spellings_that_a_browser_requests_alike_become_one_key() {
        let spellings = [
            "http://example.com/a b/%C3%A9?x=1",
            "HTTP://EXAMPLE.com:80/a%20b/é?x=1#part",
            "http://example.com/./c/../a b/é?x=1#",
            "  http://example.com/a b/é?x=1\n",
        ];
        for spelling in spellings {
            assert_eq!(key(spelling), "http://example.com/a%20b/%C3%A9?x=1", "{spelling:?}");
        }
    }

    #[test]
    fn differences_that_reach_the_server_stay() {
        assert_ne!(key("http://a/?"), key("http://a/"));
        assert_ne!(key("http://a/x"), key("http://a/X"));
        assert_ne!(key("http://a/%7Ex"), key("http://a/~x"));
        assert_ne!(key("http://a:81/"), key("http://a/"));
    }

    #[test]
    fn international_hosts_become_punycode() {
        assert_eq!(key("https://Bücher.example/"), "https://xn--bcher-kva.example/");
    }

    #[test]
    fn what_does_not_parse_is_an_error() {
        assert!(matches!(Whatwg.canonicalize(b"/relative"), Err(UrlError::Invalid { .. })));
        assert!(matches!(Whatwg.canonicalize(b"http://[::1/"), Err(UrlError::Invalid { .. })));
        assert_eq!(Whatwg.canonicalize(b""), Err(UrlError::Empty));
    }

    #[test]
    fn bytes_that_are_no_utf8_are_escaped_as_they_stand() {
        let rows: [(&[u8], &str); 4] = [
            (b"http://a/caf\xe9?q=\xe9#\xe9", "http://a/caf%E9?q=%E9"),
            // The whole URL is encoded byte by byte, not the character as UTF-8 and the byte as it
            // stands, which would give the same here.
            (b"http://a/\xc3\xa9/\xe9 b", "http://a/%C3%A9/%E9%20b"),
            (b"http://b\xc3\xbccher.example/\xff", "http://xn--bcher-kva.example/%FF"),
            (b"mailto:\xe9@b", "mailto:%E9@b"),
        ];
        for (url, expected) in rows {
            let key = Whatwg.canonicalize(url).expect("a URL");
            assert_eq!(String::from_utf8_lossy(&key), expected);
            assert_eq!(Whatwg.canonicalize(&key), Ok(key));
        }
        assert_eq!(Whatwg.resolve(b"http://a/\xe9/x", b"\xe8").expect("a URL"), b"http://a/%E9/%E8");
        // A host is not named by bytes that are not UTF-8.
        assert!(matches!(Whatwg.canonicalize(b"http://b\xfccher.example/"), Err(UrlError::Invalid { .. })));
    }

    /// The URL standard's own test rows for legacy encodings, and one for each kind of encoder.
    #[test]
    fn a_link_of_a_page_has_its_path_in_utf8_and_its_query_in_the_pages_encoding() {
        let rows = [
            ("windows-1252", "/é?é#é", "http://a/%C3%A9?%E9"),
            ("windows-1252", "?q=☃&r=é", "http://a/b?q=%26%239731%3B&r=%E9"),
            ("shift_jis", "/ｱ?日本", "http://a/%EF%BD%B1?%93%FA%96{"),
            ("euc-jp", "?日本", "http://a/b?%C6%FC%CB%DC"),
            ("gbk", "?中", "http://a/b?%D6%D0"),
            ("big5", "?中", "http://a/b?%A4%A4"),
            ("koi8-r", "?я", "http://a/b?%D1"),
            ("iso-2022-jp", "?日", "http://a/b?%1B$BF|%1B(B"),
            ("utf-16le", "?é", "http://a/b?%C3%A9"),
            ("utf-8", "/é?é", "http://a/%C3%A9?%C3%A9"),
            ("windows-1252", "https://bücher.example?ü", "https://xn--bcher-kva.example/?%FC"),
        ];
        for (label, link, expected) in rows {
            let encoding = Encoding::for_label(label.as_bytes()).expect("known");
            let key = Whatwg.resolve_in_page(b"http://a/b", link, encoding).expect("a URL");
            assert_eq!(String::from_utf8_lossy(&key), expected, "{label} {link}");
        }
    }

    #[test]
    fn a_nul_in_a_url_never_reaches_a_key() {
        assert!(!key("http://a/x\0y").contains('\0'));
        assert!(!key("data:x\0y").contains('\0'));
    }
}
