//! The key scheme: where a page and the records beside it stand in the engine.
//!
//! A page's key is its canonical URL, byte for byte; all its versions (responses, resources, revisits) are versions of
//! that key. A record beside it (metadata, request, conversion) has the canonical URL, a NUL byte and the name of its
//! kind. No canonical URL holds a NUL, whatever the canonicaliser, so that no such record can stand in a page's place
//! or be listed as one.

use crate::page::RecordKind;

const SEPARATOR: u8 = 0;

/// The key of a record of this kind.
pub(crate) fn key(canonical_url: &[u8], kind: RecordKind) -> Vec<u8> {
    let mut key = canonical_url.to_vec();
    if !kind.is_page() {
        key.push(SEPARATOR);
        key.extend_from_slice(kind.name().as_bytes());
    }
    key
}

/// Whether a key is a page's.
pub(crate) fn is_page(key: &[u8]) -> bool {
    memchr::memchr(SEPARATOR, key).is_none()
}

/// The canonical URL in a key of any kind.
pub(crate) fn url(key: &[u8]) -> &[u8] {
    &key[..memchr::memchr(SEPARATOR, key).unwrap_or(key.len())]
}

/// The part of a key that names its site: scheme and host, `http://example.com`. Pages of one site share a dictionary.
pub(crate) fn site(key: &[u8]) -> &[u8] {
    let slashes = memchr::memchr_iter(b'/', key);
    slashes.take(3).nth(2).map_or(b"", |end| &key[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_scheme_and_host() {
        assert_eq!(site(b"https://example.com:8080/a/b?c"), b"https://example.com:8080");
        assert_eq!(site(b"http://a/\0request"), b"http://a");
        assert_eq!(site(b"urn:isbn:1"), b"");
    }

    #[test]
    fn pages_stand_under_their_url_and_other_records_beside_them() {
        assert_eq!(key(b"http://a/", RecordKind::Response), b"http://a/");
        assert_eq!(key(b"http://a/", RecordKind::Revisit), b"http://a/");
        assert_eq!(key(b"http://a/", RecordKind::Request), b"http://a/\0request");
        for kind in RecordKind::ALL {
            let key = key(b"http://a/", kind);
            assert_eq!((url(&key), is_page(&key)), (&b"http://a/"[..], kind.is_page()));
        }
    }
}
