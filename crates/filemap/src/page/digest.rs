//! Payload and block digests in every notation that archives use.
//!
//! A digest is an algorithm and its bytes. `sha1:`, `SHA-1:`, `sha-256=` and `urn:sha1:` are
//! labels. The length distinguishes hexadecimal, base 32 and base 64, upper or lower case, padded
//! or not. Without a label, it also identifies the algorithm.
//!
//! Invariant: two texts of one digest parse to equal values. For a text of a known algorithm but
//! another length, [`Digest::parse`] returns `None`.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use md5::Md5;
use sha1::{Digest as _, Sha1};
use sha2::{Sha256, Sha512};

pub(crate) const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Length of each known algorithm, in bytes, by its label in lower case without punctuation.
const LENGTHS: [(&str, usize); 7] =
    [("md5", 16), ("sha1", 20), ("sha224", 28), ("sha256", 32), ("blake3", 32), ("sha384", 48), ("sha512", 64)];

/// Computes a digest.
pub(crate) type Hasher = Box<dyn sha1::digest::DynDigest>;

/// A digest, whatever its notation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Digest {
    /// Lower case, without `-` and `_`.
    algorithm: String,
    bytes: Vec<u8>,
}

impl Digest {
    /// Parses a digest; `None` if the text is not a digest, or is truncated.
    pub(crate) fn parse(text: &str) -> Option<Digest> {
        let text = text.trim();
        let text = if text.get(..4).is_some_and(|urn| urn.eq_ignore_ascii_case("urn:")) { &text[4..] } else { text };
        let Some((label, value)) = text.split_once([':', '=']).filter(|(label, value)| is_label(label, value)) else {
            return unlabelled(text);
        };
        let algorithm: String = label.chars().filter(char::is_ascii_alphanumeric).collect();
        let algorithm = algorithm.to_ascii_lowercase();
        let value = value.trim_matches(':').trim_end_matches('=');
        let bytes = match LENGTHS.iter().find(|(name, _)| *name == algorithm) {
            Some((_, bytes)) => decode(value, *bytes)?,
            None if value.is_empty() => return None,
            None => hexadecimal(value).unwrap_or_else(|| value.to_ascii_lowercase().into_bytes()),
        };
        Some(Digest { algorithm, bytes })
    }

    /// A digest of the same algorithm with these bytes.
    pub(crate) fn with_bytes(&self, bytes: &[u8]) -> Digest {
        Digest { algorithm: self.algorithm.clone(), bytes: bytes.to_vec() }
    }

    /// Its label and its bytes in hexadecimal.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}", self.algorithm, hex(&self.bytes))
    }

    /// Returns whether two digests are of one algorithm, so that they can be compared.
    pub(crate) fn is_comparable(&self, other: &Digest) -> bool {
        self.algorithm == other.algorithm
    }

    /// Returns whether it is the digest of no bytes; false for algorithms that this crate does not
    /// compute.
    pub(crate) fn is_of_nothing(&self) -> bool {
        self.is_of(b"") == Some(true)
    }

    /// The bytes of a SHA-1.
    pub(crate) fn sha1(&self) -> Option<[u8; 20]> {
        if self.algorithm == "sha1" { self.bytes.as_slice().try_into().ok() } else { None }
    }

    /// A hasher of this algorithm; `None` if this crate does not compute it.
    pub(crate) fn hasher(&self) -> Option<Hasher> {
        Some(match self.algorithm.as_str() {
            "md5" => Box::new(Md5::new()),
            "sha1" => Box::new(Sha1::new()),
            "sha256" => Box::new(Sha256::new()),
            "sha512" => Box::new(Sha512::new()),
            _ => return None,
        })
    }

    /// The digest of `content` by this algorithm; `None` if this crate does not compute it.
    pub(crate) fn of(&self, content: &[u8]) -> Option<Digest> {
        let mut hasher = self.hasher()?;
        hasher.update(content);
        Some(self.with_bytes(&hasher.finalize()))
    }

    /// Returns whether `content` has this digest; `None` if this crate does not compute the
    /// algorithm.
    pub(crate) fn is_of(&self, content: &[u8]) -> Option<bool> {
        self.of(content).map(|digest| digest == *self)
    }

    /// Returns whether it is a SHA-1 or a SHA-256, the algorithms that erase rules may use.
    pub(crate) fn is_for_rules(&self) -> bool {
        matches!(self.algorithm.as_str(), "sha1" | "sha256")
    }

    /// Returns whether these are its bytes.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes
    }
}

/// The 20 bytes of a SHA-1 digest in any notation; `None` for other texts.
pub(crate) fn expected(text: &str) -> Option<[u8; 20]> {
    Digest::parse(text)?.sha1()
}

/// The SHA-1 of the concatenated `parts`.
pub(crate) fn sha1_of(parts: &[&[u8]]) -> [u8; 20] {
    let mut hasher = Sha1::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// Returns whether `label` names an algorithm; it could also be digits before the padding.
fn is_label(label: &str, value: &str) -> bool {
    let is_name = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    is_name && !label.is_empty() && label.len() <= 16 && value.bytes().any(|byte| byte != b'=')
}

/// A digest without a label: its length gives the algorithm.
fn unlabelled(text: &str) -> Option<Digest> {
    let value = text.trim_end_matches('=');
    // 32 characters are a SHA-1 in base 32 or an MD5 in hexadecimal; only the latter has 0, 1, 8,
    // 9.
    for algorithm in ["sha1", "md5", "sha256", "sha512"] {
        let bytes = LENGTHS.iter().find(|(name, _)| *name == algorithm).map_or(0, |(_, bytes)| *bytes);
        if let Some(bytes) = decode(value, bytes) {
            return Some(Digest { algorithm: algorithm.to_owned(), bytes });
        }
    }
    None
}

/// Decodes `value`, without its padding, to `bytes` bytes.
fn decode(value: &str, bytes: usize) -> Option<Vec<u8>> {
    let decoded = match value.len() {
        length if length == 2 * bytes => hexadecimal(value),
        length if length == (8 * bytes).div_ceil(5) => base32(value),
        length if length == (8 * bytes).div_ceil(6) => base64_of(value),
        _ => None,
    };
    decoded.filter(|decoded| decoded.len() == bytes)
}

/// Formats bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a hexadecimal text, in any case; `None` for other texts.
pub(crate) fn hexadecimal(value: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        value.chars().map(|sign| sign.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn base32(value: &str) -> Option<Vec<u8>> {
    let (mut pending, mut count, mut out) = (0u32, 0, Vec::with_capacity(value.len() * 5 / 8));
    for sign in value.bytes() {
        let digit = BASE32.iter().position(|&known| known == sign.to_ascii_uppercase())?;
        pending = pending << 5 | digit as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push((pending >> count) as u8);
        }
    }
    Some(out)
}

fn base64_of(value: &str) -> Option<Vec<u8>> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let url_safe = GeneralPurpose::new(&alphabet::URL_SAFE, config);
    let standard = GeneralPurpose::new(&alphabet::STANDARD, config);
    standard.decode(value).or_else(|_| url_safe.decode(value)).ok()
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    /// The digest of `abc` in every notation of one algorithm.
    fn forms(label: &str, digest: &[u8]) -> Vec<String> {
        let hex = hex(digest);
        let mut base32 = String::new();
        for bits in digest.chunks(5) {
            let group = bits.iter().chain(&[0; 4]).take(5).fold(0u64, |group, &byte| group << 8 | u64::from(byte));
            let signs = (8 * bits.len()).div_ceil(5);
            base32.extend((0..signs).map(|at| char::from(BASE32[(group >> (35 - 5 * at)) as usize & 31])));
            base32.extend(std::iter::repeat_n('=', 8 - signs));
        }
        let base64 = BASE64_STANDARD.encode(digest);
        let bare = |text: &str| text.trim_end_matches('=').to_owned();
        let signs = [
            hex.to_uppercase(),
            hex.clone(),
            base32.to_lowercase(),
            bare(&base32).to_lowercase(),
            bare(&base32),
            base32.clone(),
            bare(&base64),
            base64,
        ];
        let (name, number) = label.split_at(label.len() - label.trim_start_matches(char::is_alphabetic).len());
        let labels = [
            format!("{name}{number}:"),
            format!("{name}-{number}:"),
            format!("{}-{number}:", name.to_uppercase()),
            format!("{}{number}:", name.to_uppercase()),
            format!("urn:{name}{number}:"),
            format!("{name}-{number}="),
        ];
        labels.iter().flat_map(|label| signs.iter().map(move |sign| format!("{label}{sign}"))).collect()
    }

    #[test]
    fn every_label_encoding_and_case_is_the_same_digest() {
        let mut all = 0;
        for label in ["md5", "sha1", "sha256", "sha512"] {
            let mut hasher = Digest { algorithm: label.to_owned(), bytes: Vec::new() }.hasher().expect("known");
            hasher.update(b"abc");
            let digest = hasher.finalize().to_vec();
            let expected = Digest { algorithm: label.to_owned(), bytes: digest.clone() };
            for text in forms(label, &digest) {
                assert_eq!(Digest::parse(&text), Some(expected.clone()), "{text}");
                all += 1;
            }
            assert_eq!(expected.is_of(b"abc"), Some(true));
            assert_eq!(expected.is_of(b"abd"), Some(false));
        }
        assert_eq!(all, 4 * 6 * 8);
    }

    #[test]
    fn a_digest_without_a_label_is_told_by_its_length() {
        for (bare, labelled) in [
            ("VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5", "sha1:a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("A9993E364706816ABA3E25717850C26C9CD0D89D", "sha1:a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("900150983cd24fb0d6963f7d28e17f72", "md5:900150983CD24FB0D6963F7D28E17F72"),
        ] {
            assert_eq!(Digest::parse(bare), Digest::parse(labelled), "{bare}");
            assert!(Digest::parse(bare).is_some(), "{bare}");
        }
    }

    #[test]
    fn what_is_cut_short_or_no_digest_is_none() {
        for text in ["", ":", "-", "sha1", "sha1:", "sha1:VGMT4NSHA2", "sha256:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5", "abc"]
        {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
        for text in ["sha1:1GMT4NSHA2AWVOR6EVYXQUGCNSONBWE5", "sha1:\u{e9}GMT4NSHA2AWVOR6EVYXQUGCNSONBWE5"] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
    }

    #[test]
    fn algorithms_that_are_not_computed_are_compared() {
        let parse = |text| Digest::parse(text).expect("a digest");
        assert_eq!(parse("xxh3:00FF"), parse("XXH-3:00ff"));
        assert_ne!(parse("xxh3:00FF"), parse("xxh3:00FE"));
        assert!(!parse("xxh3:00FF").is_comparable(&parse("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5")));
        assert_eq!(parse("xxh3:00ff").is_of(b""), None);
    }

    #[test]
    fn the_digest_of_nothing_is_known() {
        for text in [
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            "sha-256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
        ] {
            assert!(Digest::parse(text).expect("a digest").is_of_nothing(), "{text}");
        }
        assert!(!Digest::parse("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5").expect("a digest").is_of_nothing());
    }
}
