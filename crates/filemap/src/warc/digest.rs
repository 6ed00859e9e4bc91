//! SHA-1 digests in the form of WARC headers: a block checked against its `WARC-Block-Digest`, and digests made.
//!
//! The block digest is the only check that a plain WARC file has, and it can prove a block whole whose `Content-Length`
//! is wrong. Writers give SHA-1 in base 32, some in hexadecimal; other algorithms are not checked.

use sha1::{Digest, Sha1};

use crate::error::Result;
use crate::spool::Payload;

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The 20 bytes of a SHA-1 digest as a header gives it; `None` if it is none.
pub(crate) fn expected(text: &str) -> Option<[u8; 20]> {
    let (algorithm, value) = text.split_once(':')?;
    if !algorithm.eq_ignore_ascii_case("sha1") && !algorithm.eq_ignore_ascii_case("sha-1") {
        return None;
    }
    let (bits, letters): (u32, Vec<u8>) = match value.len() {
        32 => (5, value.bytes().map(|byte| byte.to_ascii_uppercase()).collect()),
        40 => (4, value.bytes().collect()),
        _ => return None,
    };
    let mut out = [0; 20];
    let (mut pending, mut count, mut at) = (0u32, 0, 0);
    for letter in letters {
        let digit = match bits {
            5 => BASE32.iter().position(|&known| known == letter)? as u32,
            _ => char::from(letter).to_digit(16)?,
        };
        pending = pending << bits | digit;
        count += bits;
        if count >= 8 {
            count -= 8;
            out[at] = (pending >> count) as u8;
            at += 1;
        }
    }
    Some(out)
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

/// Whether `block` has the digest `text`; `None` if that is not SHA-1.
pub(super) fn matches(block: &mut Payload, text: &str) -> Result<Option<bool>> {
    let Some(expected) = expected(text) else { return Ok(None) };
    Ok(Some(digest_of(block, u64::MAX)? == expected))
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
        ] {
            assert_eq!(matches(&mut abc(), text).expect("memory"), Some(true), "{text}");
            assert_eq!(matches(&mut Payload::Memory(vec![]), text).expect("memory"), Some(false), "{text}");
        }
        for text in
            ["", "sha1", "md5:900150983cd24fb0d6963f7d28e17f72", "sha1:xyz", "sha1:1GMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"]
        {
            assert_eq!(matches(&mut abc(), text).expect("memory"), None, "{text}");
        }
    }
}
