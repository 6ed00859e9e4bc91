//! The canonicaliser that changes nothing: keys are the URLs' bytes.
//!
//! For archives that must keep every difference, and for keys that are not URLs of the standard.
//! It rejects only an empty key and a NUL byte.

use super::{Canonicalizer, UrlError};

/// Bytes as they are (`exact`, version 1).
///
/// ```
/// use urlindex::{Canonicalizer, Exact};
///
/// assert_eq!(Exact.canonicalize(b"HTTP://Example.com").unwrap(), b"HTTP://Example.com");
/// assert!(Exact.canonicalize(b"").is_err());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Exact;

impl Canonicalizer for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn version(&self) -> u32 {
        1
    }

    fn canonicalize(&self, url: &[u8]) -> Result<Vec<u8>, UrlError> {
        if url.is_empty() {
            return Err(UrlError::Empty);
        }
        match url.iter().position(|&byte| byte == 0) {
            Some(at) => Err(UrlError::Nul { at }),
            None => Ok(url.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_as_they_are() {
        for url in [&b"HTTP://Example.com:80/#x"[..], b"\xff\xfe", b" ", b"no url"] {
            assert_eq!(Exact.canonicalize(url).expect("accepted"), url);
        }
    }

    #[test]
    fn nothing_and_nul_are_refused() {
        assert_eq!(Exact.canonicalize(b""), Err(UrlError::Empty));
        assert_eq!(Exact.canonicalize(b"http://a/\0"), Err(UrlError::Nul { at: 9 }));
    }
}
