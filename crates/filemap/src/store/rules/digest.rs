//! Digests of bodies as people and archives write them, and which a body has.

use sha1::Digest as _;

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// How a digest is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    Sha1,
    Sha256,
}

/// A digest of a body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digest {
    pub(crate) algorithm: Algorithm,
    pub(crate) bytes: Vec<u8>,
}

impl Digest {
    /// Reads `sha1:` or `sha256:`, with a hyphen or without, and hexadecimal or base 32 behind it.
    pub(crate) fn parse(text: &str) -> Option<Digest> {
        let (label, value) = text.split_once(':')?;
        let algorithm = match label.to_ascii_lowercase().replace('-', "").as_str() {
            "sha1" => Algorithm::Sha1,
            "sha256" => Algorithm::Sha256,
            _ => return None,
        };
        let len = if algorithm == Algorithm::Sha1 { 20 } else { 32 };
        let value = value.trim_end_matches('=');
        let bytes = if value.len() == 2 * len { decode(value, 4)? } else { decode(value, 5)? };
        (bytes.len() == len).then_some(Digest { algorithm, bytes })
    }

    /// The one way in which a rule writes it.
    pub(crate) fn text(&self) -> String {
        let label = if self.algorithm == Algorithm::Sha1 { "sha1" } else { "sha256" };
        let hex: String = self.bytes.iter().map(|b| format!("{b:02x}")).collect();
        format!("{label}:{hex}")
    }
}

/// Hexadecimal (4 bits a letter) or base 32 (5 bits), in any case.
fn decode(text: &str, bits: u32) -> Option<Vec<u8>> {
    let (mut out, mut pending, mut count) = (Vec::new(), 0u32, 0);
    for letter in text.bytes() {
        let digit = match bits {
            4 => char::from(letter).to_digit(16)?,
            _ => BASE32.iter().position(|&known| known == letter.to_ascii_uppercase())? as u32,
        };
        pending = (pending << bits | digit) & 0xffff;
        count += bits;
        if count >= 8 {
            count -= 8;
            out.push((pending >> count) as u8);
        }
    }
    Some(out)
}

/// Takes the digests of a body that comes in pieces.
#[derive(Default)]
pub(crate) struct Hashers {
    sha1: Option<sha1::Sha1>,
    sha256: Option<sha2::Sha256>,
}

impl Hashers {
    pub(crate) fn new(of: impl Iterator<Item = Algorithm>) -> Hashers {
        let mut hashers = Hashers::default();
        for algorithm in of {
            match algorithm {
                Algorithm::Sha1 => hashers.sha1 = Some(sha1::Sha1::new()),
                Algorithm::Sha256 => hashers.sha256 = Some(sha2::Sha256::new()),
            }
        }
        hashers
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.sha1.iter_mut().for_each(|h| h.update(bytes));
        self.sha256.iter_mut().for_each(|h| h.update(bytes));
    }

    pub(crate) fn finish(self) -> Vec<Digest> {
        let sha1 = self.sha1.map(|h| Digest { algorithm: Algorithm::Sha1, bytes: h.finalize().to_vec() });
        let sha256 = self.sha256.map(|h| Digest { algorithm: Algorithm::Sha256, bytes: h.finalize().to_vec() });
        sha1.into_iter().chain(sha256).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_same_however_it_is_written() {
        let hex = "sha1:a9993e364706816aba3e25717850c26c9cd0d89d";
        let known = Digest::parse(hex).unwrap();
        assert_eq!(known.text(), hex);
        for text in ["SHA-1:A9993E364706816ABA3E25717850C26C9CD0D89D", "sha1:vgmt4nsha2awvor6evyxqugcnsonbwe5"] {
            assert_eq!(Digest::parse(text), Some(known.clone()), "{text}");
        }
        let mut hashers = Hashers::new([Algorithm::Sha1, Algorithm::Sha256].into_iter());
        [&b"a"[..], b"bc"].iter().for_each(|part| hashers.update(part));
        let made = hashers.finish();
        assert_eq!(made[0], known);
        assert_eq!(made[1].text(), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(
            Digest::parse("sha-256:XJ4BNP4PAHH6UQKBIDPF3LRCEOYAGYNDSYLXVHFUCD7WD4QACWWQ===="),
            Some(made[1].clone())
        );
        for text in ["", "sha1", "sha1:", "md5:900150983cd24fb0d6963f7d28e17f72", "sha1:xyz", "sha256:a9993e36"] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
    }
}
