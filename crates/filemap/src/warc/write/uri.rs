//! URLs as the header of a WARC record may have them: percent-encoded, so that they are URIs (RFC
//! 3986).
//!
//! What is legal stays as it was fetched, byte for byte; a space, a letter beyond ASCII and the
//! like are escaped.

use std::borrow::Cow;

/// `url`, fetched from the page of this canonical URL, as the value of `WARC-Target-URI`.
///
/// A host in another script cannot be escaped in a way that all readers take; the canonical URL
/// has it in punycode.
pub(crate) fn target_uri<'a>(url: &'a [u8], canonical_url: &'a [u8]) -> Cow<'a, str> {
    let host_is_ascii = urlindex::host(url).is_none_or(<[u8]>::is_ascii);
    escaped(if host_is_ascii { url } else { canonical_url })
}

/// `url` with everything escaped that no URI holds.
pub(crate) fn escaped(url: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(url) {
        Ok(text) if url.iter().all(|&byte| is_legal(byte)) => Cow::Borrowed(text),
        _ => {
            let mut out = String::with_capacity(url.len() + 16);
            for &byte in url {
                if is_legal(byte) {
                    out.push(char::from(byte));
                } else {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
            Cow::Owned(out)
        }
    }
}

/// Whether a URI may hold this byte somewhere; `%` is left alone, since what is escaped already
/// must not be again.
fn is_legal(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
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
