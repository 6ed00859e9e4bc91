//! What a canonicaliser is, how one is found by name, and how a URL can fail.
//!
//! The trait is object-safe and small: a name, a version, one function. Name and version are a promise about bytes on
//! disk: whoever changes what a canonicaliser answers gives it a new version and keeps the old one findable.

use std::fmt::Debug;
use std::sync::Arc;

use crate::{Exact, Whatwg};

/// One rule by which URLs become keys.
pub trait Canonicalizer: Debug + Send + Sync {
    /// The name under which stores remember this rule: lower-case ASCII.
    fn name(&self) -> &'static str;

    /// The version of this rule; the same name and version answer the same bytes for ever.
    fn version(&self) -> u32;

    /// The key of `url`: never empty, free of NUL bytes, and its own canonical form.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if `url` is no URL by this rule; nothing is guessed.
    fn canonicalize(&self, url: &[u8]) -> Result<Vec<u8>, UrlError>;
}

/// Why bytes are no URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// There is nothing. Give an absolute URL.
    #[error("the URL is empty")]
    Empty,
    /// The URL is not text. Percent-encode the byte, or use a store with the `exact` canonicaliser.
    #[error("the URL is not UTF-8 from byte {at} on: percent-encode it, or use the canonicaliser `exact`")]
    NotUtf8 {
        /// The first byte that does not belong to a character.
        at: usize,
    },
    /// The URL holds a NUL byte, which no canonical URL may. Percent-encode it as `%00`.
    #[error("the URL holds a NUL byte at {at}: percent-encode it")]
    Nul {
        /// Where the byte stands.
        at: usize,
    },
    /// The URL standard does not parse it. Give an absolute URL, scheme included.
    #[error("not an absolute URL: {why}")]
    Invalid {
        /// The parser's reason.
        why: String,
    },
}

/// The canonicaliser that a store says it was written with; `None` if this build does not know that name and version.
pub fn named(name: &str, version: u32) -> Option<Arc<dyn Canonicalizer>> {
    let known: [Arc<dyn Canonicalizer>; 2] = [Arc::new(Whatwg), Arc::new(Exact)];
    known.into_iter().find(|rule| rule.name() == name && rule.version() == version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonicaliser_is_found_by_name_and_version() {
        assert_eq!(named("whatwg", 1).expect("known").name(), "whatwg");
        assert_eq!(named("exact", 1).expect("known").version(), 1);
        assert!(named("whatwg", 2).is_none());
        assert!(named("WHATWG", 1).is_none());
    }

    #[test]
    fn every_error_says_what_to_do() {
        let errors = [UrlError::Empty, UrlError::NotUtf8 { at: 3 }, UrlError::Nul { at: 4 }];
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(words[1].contains("byte 3") && words[1].contains("percent-encode"));
        assert!(words[2].contains("at 4"));
    }
}
