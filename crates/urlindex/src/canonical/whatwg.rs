//! The canonicaliser by the WHATWG URL standard: what a browser would put on the wire, and no fragment.
//!
//! Parsing and serialisation are the `url` crate's, where [`fast`] cannot tell that they would change nothing. The fragment goes because it never reaches a server. A URL that
//! does not parse is an error, not a key: a store must not hold two spellings of one page because one was broken.
//!
//! Invariant: the answer is ASCII without NUL, and canonicalising it again gives the same bytes.

use std::borrow::Cow;

use super::{Canonicalizer, UrlError, fast};

/// WHATWG serialisation without the fragment (`whatwg`, version 1).
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
        let mut parsed = url::Url::parse(text(url)?).map_err(invalid)?;
        parsed.set_fragment(None);
        Ok(Cow::Owned(String::from(parsed).into_bytes()))
    }
}

/// The URL as text.
pub(super) fn text(url: &[u8]) -> Result<&str, UrlError> {
    if url.is_empty() {
        return Err(UrlError::Empty);
    }
    std::str::from_utf8(url).map_err(|error| UrlError::NotUtf8 { at: error.valid_up_to() })
}

/// The standard's serialisation, fragment included.
pub(super) fn parse(url: &str) -> Result<String, UrlError> {
    url::Url::parse(url).map(String::from).map_err(invalid)
}

/// What `link` names on the page `base`.
pub(super) fn join(base: &[u8], link: &[u8]) -> Result<String, UrlError> {
    let base = url::Url::parse(text(base)?).map_err(invalid)?;
    let link = if link.is_empty() { "" } else { text(link)? };
    let link = match base.scheme() {
        "http" | "https" | "ws" | "wss" | "ftp" => with_two_slashes(link),
        _ => Cow::Borrowed(link),
    };
    base.join(&link).map(String::from).map_err(invalid)
}

/// A link that begins with more than two slashes names a host all the same; the parser, as it is today, knows that only of absolute
/// URLs.
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
        assert_eq!(Whatwg.canonicalize(b"http://a/\xe9"), Err(UrlError::NotUtf8 { at: 9 }));
        assert_eq!(Whatwg.canonicalize(b""), Err(UrlError::Empty));
    }

    #[test]
    fn a_nul_in_a_url_never_reaches_a_key() {
        assert!(!key("http://a/x\0y").contains('\0'));
        assert!(!key("data:x\0y").contains('\0'));
    }
}
