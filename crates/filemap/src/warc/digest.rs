//! Checks a block against its `WARC-Block-Digest`.
//!
//! The block digest is the only checksum of a plain WARC file, and it can prove the length of a
//! block whose `Content-Length` is wrong.

use sha1::{Digest, Sha1};

use crate::error::Result;
use crate::spool::Payload;

/// The SHA-1 of up to `count` bytes of a payload.
pub(crate) fn digest_of(payload: &mut Payload, count: u64) -> Result<[u8; 20]> {
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

/// Returns whether `block` has the digest `text`; `None` if that is not a digest, or its algorithm
/// is not supported.
pub(crate) fn matches(block: &mut Payload, text: &str) -> Result<Option<bool>> {
    crate::page::digest::Digest::parse(text).map_or(Ok(None), |digest| block.has_digest(&digest))
}

#[cfg(test)]
mod tests {
    use super::*;

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
