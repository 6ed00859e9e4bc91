//! The trait of every canonicaliser, and the error for bytes that are not a URL.
//!
//! The trait is object-safe and small: name, version, one function. Name and version are a promise
//! about bytes on disk: a changed canonicaliser gets a new version, and the old one can still be
//! found.

use std::borrow::Cow;
use std::fmt::Debug;

use encoding_rs::Encoding;

use super::whatwg;

/// A function from URLs to keys.
///
/// ```
/// use urlindex::{Canonicalizer, Whatwg};
///
/// let key = Whatwg.resolve(b"http://example.com/a/", b"../b#top").unwrap();
/// assert_eq!((&key[..], Whatwg.name()), (&b"http://example.com/b"[..], "whatwg"));
/// ```
pub trait Canonicalizer: Debug + Send + Sync {
    /// Name in stores: lower-case ASCII.
    fn name(&self) -> &'static str;

    /// Version: name and version stand for the same bytes for ever.
    fn version(&self) -> u32;

    /// The key of `url`: not empty, free of NUL bytes, its own canonical form.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if `url` is not a URL for this canonicaliser, which never guesses.
    fn canonicalize(&self, url: &[u8]) -> Result<Vec<u8>, UrlError>;

    /// The key without a copy, if it is part of `url`: most links of a crawl are canonical.
    ///
    /// # Errors
    ///
    /// As [`Canonicalizer::canonicalize`].
    fn canonical<'a>(&self, url: &'a [u8]) -> Result<Cow<'a, [u8]>, UrlError> {
        self.canonicalize(url).map(Cow::Owned)
    }

    /// The key of `link` on the page `base`; every canonicaliser resolves links by the URL
    /// standard.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if `base` is not an absolute URL, or `link` not a URL relative to it.
    fn resolve(&self, base: &[u8], link: &[u8]) -> Result<Vec<u8>, UrlError> {
        self.canonicalize(whatwg::join(base, link, encoding_rs::UTF_8)?.as_bytes())
    }

    /// [`Canonicalizer::resolve`] of a link in a page of this encoding, in which the URL standard
    /// encodes the query; the path is UTF-8.
    ///
    /// # Errors
    ///
    /// As [`Canonicalizer::resolve`].
    fn resolve_in_page(&self, base: &[u8], link: &str, encoding: &'static Encoding) -> Result<Vec<u8>, UrlError> {
        self.canonicalize(whatwg::join(base, link.as_bytes(), encoding)?.as_bytes())
    }
}

/// Reason why bytes are not a URL.
///
/// ```
/// use urlindex::{Canonicalizer, UrlError, Whatwg};
///
/// assert_eq!(Whatwg.canonicalize(b""), Err(UrlError::Empty));
/// assert!(matches!(Whatwg.canonicalize(b"/a"), Err(UrlError::Invalid { .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The URL is empty. Give an absolute URL.
    #[error("the URL is empty")]
    Empty,
    /// The URL holds a NUL byte, which no canonical URL may. Percent-encode it as `%00`.
    #[error("the URL holds a NUL byte at {at}: percent-encode it")]
    Nul {
        /// Position of the byte.
        at: usize,
    },
    /// The parser of the URL standard rejects it. Give an absolute URL, scheme included.
    #[error("not an absolute URL: {why}")]
    Invalid {
        /// The parser's reason.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_what_to_do() {
        let errors = [UrlError::Empty, UrlError::Nul { at: 4 }];
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(words[1].contains("at 4") && words[1].contains("percent-encode"));
    }
}
