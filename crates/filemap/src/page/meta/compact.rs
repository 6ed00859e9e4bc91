//! Short forms of two texts that nearly every archived page has: a SHA-1 digest and a UUID record
//! id.
//!
//! A short form is used only if it decodes to the very same text: `sha1:` and 32 upper-case
//! base-32 letters become 20 bytes, `<urn:uuid:...>` in lower case becomes 16.

use crate::page::digest::{BASE32, expected, hex, hexadecimal};

/// The 20 bytes of `sha1:` and a base-32 digest; `None` for any other text.
pub(super) fn sha1(text: &str) -> Option<[u8; 20]> {
    expected(text).filter(|bytes| sha1_text(bytes) == text)
}

/// The text of [`sha1`]'s bytes.
pub(crate) fn sha1_text(digest: &[u8; 20]) -> String {
    let mut text = String::from("sha1:");
    for bytes in digest.chunks_exact(5) {
        let bits = bytes.iter().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        text.extend((0..8).map(|at| char::from(BASE32[(bits >> (35 - 5 * at)) as usize & 31])));
    }
    text
}

/// The 16 bytes of `<urn:uuid:...>`; `None` for any other text.
pub(super) fn uuid(text: &str) -> Option<[u8; 16]> {
    let inner = text.strip_prefix("<urn:uuid:")?.strip_suffix('>')?;
    let bytes = hexadecimal(&inner.replace('-', ""))?.try_into().ok()?;
    Some(bytes).filter(|bytes| uuid_text(bytes) == text)
}

/// The text of [`uuid`]'s bytes.
pub(crate) fn uuid_text(bytes: &[u8; 16]) -> String {
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..]];
    format!("<urn:uuid:{}>", parts.map(hex).join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::digest::sha1_of;

    #[test]
    fn a_digest_that_is_made_is_the_one_that_is_read() {
        let text = sha1_text(&sha1_of(&[b"a", b"", b"bc"]));
        assert_eq!(text, "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
        assert_eq!(expected(&text), Some(sha1_of(&[b"abc"])));
    }

    #[test]
    fn a_digest_of_a_real_archive_takes_twenty_bytes_and_reads_back() {
        let text = "sha1:G7HRM7BGOKSKMSXZAHMUQTTV53QOFSMK";
        let bytes = sha1(text).expect("base 32");
        assert_eq!(bytes[..4], [0x37, 0xcf, 0x16, 0x7c]);
        assert_eq!(sha1_text(&bytes), text);
    }

    #[test]
    fn only_texts_that_read_back_exactly_are_shortened() {
        for text in ["sha1:g7hrm7bgokskmsxzahmuqttv53qofsmk", "sha1:", "md5:x", "SHA1:G7HRM7BGOKSKMSXZAHMUQTTV53QOFSMK"]
        {
            assert_eq!(sha1(text), None, "{text}");
        }
        let id = "<urn:uuid:a9c51e3e-0221-11e7-bf66-0242ac120005>";
        assert_eq!(uuid_text(&uuid(id).expect("a uuid")), id);
        for text in [
            "urn:uuid:a9c51e3e-0221-11e7-bf66-0242ac120005",
            "<urn:uuid:A9C51E3E-0221-11e7-bf66-0242ac120005>",
            "<urn:uuid:a9c51e3e022111e7bf660242ac120005>",
            "<urn:uuid:é9c51e3e-0221-11e7-bf66-0242ac12005>",
        ] {
            assert_eq!(uuid(text), None, "{text}");
        }
    }
}
