//! Variants: several responses of one URL.
//!
//! The key of a page is its canonical URL. A form or an API has as many responses under one URL as
//! there are different requests. A response to anything but a plain `GET` has a key made of the
//! canonical URL *and* a variant, with its own versions; a lookup of the URL alone never finds
//! it.
//!
//! A variant is any text ([`Variant::new`]): the fingerprint of a request, a session, a language.
//! [`Variant::of_request`] makes variants of HTTP requests by the rules by which web archives
//! index them, so that the index of a dump has the keys that replay tools look up.
//!
//! Layers: `json`, `form` (bodies as queries); `request` (a request as text).
//!
//! Invariants: a variant has 1 to [`Variant::MAX_BYTES`] bytes; equal requests have equal
//! variants.

mod form;
mod json;
mod request;

use std::fmt;

use crate::error::{Error, Result};
use crate::limits;

/// A text that distinguishes one response of a URL from others, such as the response to a `POST`.
///
/// ```
/// use filemap::Variant;
/// let search = Variant::of_request("POST", Some(b"application/x-www-form-urlencoded"), b"q=a+b").unwrap();
/// assert_eq!(search.as_bytes(), b"__wb_method=POST&q=a b");
/// assert_eq!(Variant::of_request("GET", None, b""), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant(Vec<u8>);

impl Variant {
    /// Maximum length of a variant, in bytes.
    pub const MAX_BYTES: usize = limits::VARIANT_BYTES;
    /// Maximum length of a request body that is parsed. A longer one is identified by its digest
    /// only.
    pub(crate) const MAX_PARSED_BYTES: u64 = request::MAX_PARSED_BYTES;

    /// A variant of any bytes, compared byte by byte.
    ///
    /// # Errors
    ///
    /// [`Error::Variant`] if there are no bytes, or more than [`Variant::MAX_BYTES`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Variant> {
        let bytes = bytes.into();
        match bytes.len() {
            1..=Self::MAX_BYTES => Ok(Variant(bytes)),
            len => Err(Error::Variant { len }),
        }
    }

    /// The variant of an HTTP request; `None` for a `GET` without a body, whose response is the
    /// page itself.
    ///
    /// It is `__wb_method=METHOD`, then `&` and the body as a query: a form's fields with decoded
    /// escapes; the values of a JSON document by name; other bodies as `__wb_post_data=` in base
    /// 64. This is the IIPC's guideline "CDX for non-GET requests" as implemented by pywb 2.10
    /// (`true`, `null`, `44` for 44.0), with these additions: every method may have a body; the
    /// query of an AMF body is in base 64; the SHA-1 of the body is appended where the rules cut a
    /// query at 4,096 characters or drop the body, and for a body over a mebibyte, so that
    /// requests stay distinct.
    ///
    /// `body` must have its chunked coding removed.
    pub fn of_request(method: &str, content_type: Option<&[u8]>, body: &[u8]) -> Option<Variant> {
        request::text(method, content_type.unwrap_or_default(), body).map(Variant)
    }

    /// As [`Variant::of_request`], for a body over [`Variant::MAX_PARSED_BYTES`] with this SHA-1.
    pub(crate) fn of_large_request(method: &str, sha1: [u8; 20]) -> Variant {
        Variant(request::large(method, sha1))
    }

    /// The variant in a key.
    pub(crate) fn of_key(bytes: &[u8]) -> Variant {
        Variant(bytes.to_vec())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The method of its request; `None` if it was not made from one.
    pub fn method(&self) -> Option<&str> {
        let text = request::known(&self.0)?;
        text.split('&').next()?.strip_prefix(request::METHOD)
    }

    /// The body of its request, as the query under which archives index it.
    pub fn query(&self) -> Option<&str> {
        let text = request::known(&self.0)?;
        Some(text.split_once('&').map_or("", |(_, query)| query))
    }

    /// The URL under which archives index the response: `url` with the variant as its last
    /// argument.
    pub fn index_url(&self, url: impl AsRef<[u8]>) -> Vec<u8> {
        let url = url.as_ref();
        let end = memchr::memchr(b'#', url).unwrap_or(url.len());
        let mut out = url[..end].to_vec();
        out.push(if out.contains(&b'?') { b'&' } else { b'?' });
        match request::known(&self.0) {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => {
                out.extend_from_slice(b"__filemap_variant=");
                out.extend_from_slice(form::quoted(&self.0).as_bytes());
            }
        }
        out
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_has_some_bytes_and_not_too_many() {
        assert!(Variant::new("").is_err());
        assert!(Variant::new(vec![0; Variant::MAX_BYTES + 1]).is_err());
        assert_eq!(Variant::new(vec![0; Variant::MAX_BYTES]).expect("fits").as_bytes().len(), Variant::MAX_BYTES);
    }

    #[test]
    fn an_index_has_the_variant_behind_the_query() {
        let post = Variant::of_request("post", Some(b"application/json"), br#"{"a": [1, true]}"#).expect("no GET");
        assert_eq!((post.method(), post.query()), (Some("POST"), Some("a=1&a.2_=true")));
        assert_eq!(post.index_url(b"http://a/x#top"), b"http://a/x?__wb_method=POST&a=1&a.2_=true");
        assert_eq!(post.index_url(b"http://a/x?"), b"http://a/x?&__wb_method=POST&a=1&a.2_=true");
        let own = Variant::new(&b"\x00fr &"[..]).expect("fits");
        assert_eq!((own.method(), own.query()), (None, None));
        assert_eq!(own.index_url(b"http://a/"), b"http://a/?__filemap_variant=%00fr+%26");
    }
}
