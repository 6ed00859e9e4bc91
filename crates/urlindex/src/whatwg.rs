//! The canonicaliser by the WHATWG URL standard: what a browser would put on the wire, and no fragment.
//!
//! Parsing and serialisation are the `url` crate's. The fragment goes because it never reaches a server. A URL that
//! does not parse is an error, not a key: a store must not hold two spellings of one page because one was broken.
//!
//! Invariant: the answer is ASCII without NUL, and canonicalising it again gives the same bytes.

use crate::{Canonicalizer, UrlError};

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
        if url.is_empty() {
            return Err(UrlError::Empty);
        }
        let text = std::str::from_utf8(url).map_err(|error| UrlError::NotUtf8 { at: error.valid_up_to() })?;
        let mut parsed = url::Url::parse(text).map_err(|error| UrlError::Invalid { why: error.to_string() })?;
        parsed.set_fragment(None);
        Ok(String::from(parsed).into_bytes())
    }
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
