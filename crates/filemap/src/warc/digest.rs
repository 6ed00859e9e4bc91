//! Digests of WARC headers: a block checked against its `WARC-Block-Digest`, and SHA-1 digests made.
//!
//! The block digest is the only check that a plain WARC file has, and it can prove a block whole whose `Content-Length`
//! is wrong.

use sha1::{Digest, Sha1};

use crate::error::Result;
use crate::spool::Payload;

/// The 20 bytes of a SHA-1 digest as a header gives it; `None` if it is none.
pub(crate) fn expected(text: &str) -> Option<[u8; 20]> {
    crate::digest::Digest::parse(text)?.sha1()
}

/// The SHA-1 of `parts`, one after the other.
pub(crate) fn sha1_of(parts: &[&[u8]]) -> [u8; 20] {
    let mut hasher = Sha1::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// The SHA-1 of up to `count` bytes of a payload.
pub(super) fn digest_of(payload: &mut Payload, count: u64) -> Result<[u8; 20]> {
    let mut hasher = Sha1::new();
    let mut left = count;
    payload.chunks(|bytes| {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        hasher.update(&bytes[..taken]);
        left -= taken as u64;
        Ok(())
    })?;
    Ok(hasher.finalize().into())
}

/// Whether `block` has the digest `text`; `None` if that is no digest, or of an algorithm that is not computed.
pub(super) fn matches(block: &mut Payload, text: &str) -> Result<Option<bool>> {
    crate::digest::Digest::parse(text).map_or(Ok(None), |digest| digest.matches(block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_that_is_made_is_the_one_that_is_read() {
        let text = crate::meta::sha1_text(&sha1_of(&[b"a", b"", b"bc"]));
        assert_eq!(text, "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
        assert_eq!(expected(&text), Some(sha1_of(&[b"abc"])));
    }

    #[test]
    fn digests_are_read_in_both_alphabets() {
        let abc = || Payload::Memory(b"abc".to_vec());
        for text in [
            "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5",
            "SHA1:vgmt4nsha2awvor6evyxqugcnsonbwe5",
            "sha1:a9993e364706816aba3e25717850c26c9cd0d89d",
            "md5:900150983cd24fb0d6963f7d28e17f72",
            "SHA-256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ] {
            assert_eq!(matches(&mut abc(), text).expect("memory"), Some(true), "{text}");
            assert_eq!(matches(&mut Payload::Memory(vec![]), text).expect("memory"), Some(false), "{text}");
        }
        for text in ["", "sha1", "xxh3:00", "sha1:xyz", "sha1:1GMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"] {
            assert_eq!(matches(&mut abc(), text).expect("memory"), None, "{text}");
        }
    }
}
