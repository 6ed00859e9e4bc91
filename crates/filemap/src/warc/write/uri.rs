//! URLs for the header of a WARC record: percent-encoded to URIs (RFC 3986).
//!
//! Legal bytes stay as fetched; spaces, bytes beyond ASCII and the like are escaped.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

/// ASCII that is illegal in a URI. `%` is legal: escapes must not be escaped again.
const ILLEGAL: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// The `WARC-Target-URI` of a page fetched from `url`.
///
/// Readers disagree on escapes in hosts of other scripts; the canonical URL has them in punycode.
pub(crate) fn target_uri<'a>(url: &'a [u8], canonical_url: &'a [u8]) -> Cow<'a, str> {
    let host_is_ascii = urlindex::host(url).is_none_or(<[u8]>::is_ascii);
    escaped(if host_is_ascii { url } else { canonical_url })
}

/// Escapes all bytes of `url` that are illegal in a URI.
pub(crate) fn escaped(url: &[u8]) -> Cow<'_, str> {
    percent_encode(url, ILLEGAL).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_legal_stays_and_the_rest_is_escaped() {
        let same = "http://user@a.example:81/x;y=1/%C3%A9?q=[1]&r=(2)#top";
        assert_eq!(escaped(same.as_bytes()), same);
        assert_eq!(escaped("http://a/é |\n".as_bytes()), "http://a/%C3%A9%20%7C%0A");
        assert_eq!(escaped(b"\xff"), "%FF");
    }

    #[test]
    fn a_host_in_another_script_is_that_of_the_canonical_url() {
        let canonical = b"http://xn--bcher-kva.example/%C3%A9";
        assert_eq!(
            target_uri("http://bücher.example/é#x".as_bytes(), canonical),
            "http://xn--bcher-kva.example/%C3%A9"
        );
        assert_eq!(target_uri("http://a.example/é".as_bytes(), b"-"), "http://a.example/%C3%A9");
    }
}
