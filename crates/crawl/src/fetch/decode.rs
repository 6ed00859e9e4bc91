//! Decodes an answer's body piece by piece. `Content-Encoding` and the first bytes decide the
//! coding.
//!
//! A deflate or brotli stream has no magic number: a text may look like one that ends after a
//! byte. So the received bytes are kept beside the decoded ones; if the stream ends before the
//! body does, the body is kept as received.
//!
//! Several codings are undone when the body is whole, or not at all; an unknown one stays.
//!
//! Invariants: a body never exceeds its limit, nor [`RATIO_FROM_BYTES`] plus `ratio` times the
//! received bytes; after each piece, received and decoded bytes together are within the limit.

use filemap::coding::{self, Coding, CodingError};
use hyper::header::{self, HeaderMap};

use crate::settings::limits::RATIO_FROM_BYTES;

/// Reason why decoding stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The body is longer than the limit; it is cut there.
    Full,
    /// The expansion exceeds the limit.
    Ratio,
    /// The coding is damaged; or a guessed coding ends early, and may be none.
    Damaged,
    /// A gzip or zstd coding ends early; what was decoded is valid.
    Early,
}

/// The result of decoding a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The bytes.
    pub body: Vec<u8>,
    /// True if a coding was removed.
    pub was_coded: bool,
    /// True if the body is kept as received: its coding ended before the body did, is unknown, or
    /// is one of several that cannot be undone.
    pub as_received: bool,
    /// True if bytes after the end of the coding were dropped.
    pub has_trailing: bool,
    /// Reason why the body is incomplete.
    pub stop: Option<Stop>,
}

/// The content codings of a body, from all its fields, in the order in which they were applied.
pub fn codings(fields: &HeaderMap) -> Vec<Vec<u8>> {
    let values = fields.get_all(header::CONTENT_ENCODING).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity")).map(<[u8]>::to_vec).collect()
}

impl Decoded {
    /// Undoes the codings that a streaming decoder leaves, within `most` bytes of memory and this
    /// ratio: several of a whole body. Otherwise they stay, as an unknown one does.
    pub fn undo_rest(&mut self, codings: &[Vec<u8>], is_whole: bool, (most, ratio): (u64, u32)) {
        let names: Vec<String> =
            codings.iter().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect();
        let is_done = match names.as_slice() {
            [] => true,
            [one] => !Coding::named(one).is_empty(),
            _ => false,
        };
        let received = self.body.len() as u64;
        if is_done || received == 0 {
            return;
        }
        let room = room(&names, received, (most, ratio)).filter(|_| is_whole);
        match room.map(|room| coding::decode(&names, self.body.clone(), room)) {
            Some(Ok(body)) => (self.body, self.was_coded) = (body, true),
            Some(Err(_)) | None => self.as_received = true,
        }
    }
}

/// The most bytes that a coding of a received body may produce within `most` bytes of memory;
/// `None` if there is no room, or a coding is unknown: then not even a copy is made.
fn room(names: &[String], received: u64, (most, ratio): (u64, u32)) -> Option<u64> {
    // In memory: the body twice, the output of one coding, and that of the one before.
    let room = most.saturating_sub(received.saturating_mul(2)) / 2;
    let room = room.min(RATIO_FROM_BYTES.max(received.saturating_mul(ratio.into())));
    let are_known = names.iter().all(|name| !Coding::named(name).is_empty());
    Some(room).filter(|room| *room > 0 && are_known)
}

/// A streaming decoder of a body.
pub struct Decoder {
    /// The codings that the announced one may mean.
    announced: &'static [Coding],
    /// The first bytes, held until there are enough to check the announced coding.
    held: Option<Vec<u8>>,
    /// `None`: the body has no coding.
    coding: Option<coding::Decoder>,
    body: Vec<u8>,
    /// The received bytes of a guessed coding, and whether they are complete.
    received: Option<(Vec<u8>, bool)>,
    is_guessed: bool,
    as_received: bool,
    has_trailing: bool,
    stop: Option<Stop>,
    max_bytes: u64,
    ratio: u32,
}

impl Decoder {
    /// A decoder for this `Content-Encoding`; an unknown coding, or several, stay.
    pub fn new(content_encoding: &[u8], max_bytes: u64, ratio: u32) -> Decoder {
        let name = String::from_utf8_lossy(content_encoding.trim_ascii()).to_ascii_lowercase();
        Decoder {
            announced: Coding::named(&name),
            held: Some(Vec::new()),
            coding: None,
            body: Vec::new(),
            received: None,
            is_guessed: false,
            as_received: false,
            has_trailing: false,
            stop: None,
            max_bytes,
            ratio,
        }
    }

    /// Decodes a piece. Returns false if no more are needed.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        let Some(mut held) = self.held.take() else { return self.write(piece) };
        held.extend_from_slice(piece);
        if held.len() < 4 && !self.announced.is_empty() {
            self.held = Some(held);
            return true;
        }
        self.begin(&held);
        self.write(&held)
    }

    /// Bytes held, received and decoded.
    pub fn len(&self) -> usize {
        let received = self.received.as_ref().map_or(0, |(received, _)| received.len());
        received + self.held.as_ref().map_or(self.body.len(), Vec::len)
    }

    /// Chooses the decoder by the announced coding and the first bytes: servers announce codings
    /// that the body does not have.
    fn begin(&mut self, first: &[u8]) {
        let is_zlib =
            first.len() >= 2 && first[0] & 0xf == 8 && u16::from_be_bytes([first[0], first[1]]).is_multiple_of(31);
        // An empty body has no coding, whatever is announced.
        if first.is_empty() {
            return;
        }
        let is_text = first.trim_ascii_start().starts_with(b"<");
        let is_zstd = first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || first.get(1..4) == Some(&[0x2a, 0x4d, 0x18]);
        let fits = |coding: &&Coding| match coding {
            Coding::Gzip => first.starts_with(&[0x1f, 0x8b]),
            Coding::Zlib => is_zlib,
            Coding::Deflate | Coding::Brotli => !is_text,
            Coding::Zstd => is_zstd,
            _ => false,
        };
        let Some(&coding) = self.announced.iter().find(fits) else { return };
        self.is_guessed = !matches!(coding, Coding::Gzip | Coding::Zstd);
        let decoder = coding::Decoder::new(coding).max_bytes(self.max_bytes);
        self.coding = Some(decoder.max_ratio(self.ratio, RATIO_FROM_BYTES));
        self.received = self.is_guessed.then(|| (Vec::new(), true));
    }

    fn write(&mut self, piece: &[u8]) -> bool {
        if self.stop.is_some() || self.has_trailing {
            return false;
        }
        let max_bytes = self.max_bytes;
        let Some(coding) = &mut self.coding else {
            self.stop = (!push_within(&mut self.body, piece, max_bytes)).then_some(Stop::Full);
            return self.stop.is_none();
        };
        if let Some((received, is_all)) = &mut self.received {
            *is_all &= push_within(received, piece, max_bytes);
        }
        match coding.push(piece, &mut self.body) {
            Ok(()) => {}
            Err(CodingError::TooLong) => self.stop = Some(Stop::Full),
            Err(CodingError::TooDense) => self.stop = Some(Stop::Ratio),
            Err(error) => match self.received.take().filter(|_| matches!(error, CodingError::GoesOn)) {
                Some((received, is_all)) => {
                    (self.body, self.coding, self.as_received) = (received, None, true);
                    self.stop = (!is_all).then_some(Stop::Full);
                }
                // Bytes after a complete gzip file are not part of it, as in browsers.
                None if matches!(error, CodingError::GoesOn) && !self.is_guessed => self.has_trailing = true,
                None => self.stop = Some(Stop::Damaged),
            },
        }
        let decoded = self.body.len();
        self.received.take_if(|(received, _)| (received.len() + decoded) as u64 > max_bytes);
        self.stop.is_none() && !self.has_trailing
    }

    /// The body, after all pieces (`is_whole`) or after breaking off.
    pub fn finish(mut self, is_whole: bool) -> Decoded {
        if let Some(held) = self.held.take() {
            self.begin(&held);
            self.write(&held);
        }
        let end = self.coding.as_ref().filter(|_| is_whole).map(coding::Decoder::finish);
        self.has_trailing |= !self.is_guessed && matches!(end, Some(Err(CodingError::GoesOn)));
        let ends_early = || matches!(end, Some(Err(_))) && !self.has_trailing;
        let early = if self.is_guessed { Stop::Damaged } else { Stop::Early };
        let stop = self.stop.or_else(|| ends_early().then_some(early));
        Decoded {
            body: self.body,
            was_coded: self.coding.is_some(),
            as_received: self.as_received,
            has_trailing: self.has_trailing,
            stop,
        }
    }
}

/// Appends what fits. Returns whether everything did.
fn push_within(body: &mut Vec<u8>, piece: &[u8], max_bytes: u64) -> bool {
    let room = max_bytes.saturating_sub(body.len() as u64);
    let taken = usize::try_from(room).unwrap_or(usize::MAX).min(piece.len());
    body.extend_from_slice(&piece[..taken]);
    taken == piece.len()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TEXT: &[u8] = b"<p>The quick brown fox jumps over the lazy dog. The quick brown fox again, and again.";
    /// A text about a fox, compressed by `brotli -q 11`.
    const BROTLI: &[u8] = include_bytes!("../../../../crates/filemap/tests/bodies/fox.br");

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    /// A deflate stream without zlib's head and checksum.
    fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
        let coded = zlib(bytes);
        coded[2..coded.len() - 4].to_vec()
    }

    fn run(coding: &str, pieces: &[&[u8]], max_bytes: u64) -> Decoded {
        let mut decoder = Decoder::new(coding.as_bytes(), max_bytes, 100);
        let whole = pieces.iter().all(|piece| decoder.push(piece));
        decoder.finish(whole)
    }

    #[test]
    fn several_codings_are_undone_within_the_limits_or_stay_as_an_unknown_one_does() {
        let rest = |names: &[&str], body: &[u8], is_whole, limits| {
            let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            let mut decoded = run("", &[body], 1 << 20);
            decoded.undo_rest(&names, is_whole, limits);
            (decoded.body, decoded.was_coded, decoded.as_received)
        };
        let (twice, limits) = (gzip(&zlib(TEXT)), (1 << 20, 100));
        assert_eq!(rest(&["Deflate", "gzip"], &twice, true, limits), (TEXT.to_vec(), true, false));
        assert_eq!(rest(&["deflate", "gzip"], &twice, false, limits), (twice.clone(), false, true));
        assert_eq!(rest(&["gzip", "gzip"], &twice, true, limits), (twice.clone(), false, true));
        assert!(rest(&["deflate", "gzip"], &twice, true, (2 * twice.len() as u64 + 20, 100)).2);
        let bomb = gzip(&gzip(&vec![0; 4 << 20]));
        assert_eq!(rest(&["gzip", "gzip"], &bomb, true, (64 << 20, 100)), (bomb.clone(), false, true));
        assert_eq!(rest(&["gzip", "gzip"], &bomb, true, (64 << 20, 1 << 30)).0.len(), 4 << 20);
        assert_eq!(rest(&["dcb"], TEXT, true, limits), (TEXT.to_vec(), false, true));
        assert_eq!(rest(&["br"], TEXT, true, limits), (TEXT.to_vec(), false, false));
        assert_eq!(rest(&["dcb"], b"", true, limits), (Vec::new(), false, false));
    }

    #[test]
    fn a_body_that_cannot_be_undone_within_its_memory_is_not_copied() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let limits = (16 << 20, 100);
        assert_eq!(room(&names(&["gzip", "br"]), 1000, limits), Some(1 << 20));
        assert_eq!(room(&names(&["gzip", "br"]), 7 << 20, limits), Some(1 << 20));
        for received in [8 << 20, 16 << 20, 50 << 20, u64::MAX] {
            assert_eq!(room(&names(&["gzip", "br"]), received, limits), None, "{received}");
        }
        assert_eq!(room(&names(&["gzip", "dcb"]), 1000, limits), None);
        assert_eq!(room(&names(&["utf-8"]), 1000, limits), None);
    }

    #[test]
    fn every_coding_is_undone_however_it_is_cut_into_pieces() {
        let zstd = zstd::encode_all(TEXT, 3).unwrap();
        let raw = raw_deflate(TEXT);
        let cases: [(&str, &[u8]); 6] = [
            ("gzip", &gzip(TEXT)),
            ("X-GZIP", &gzip(TEXT)),
            ("deflate", &zlib(TEXT)),
            ("deflate", &raw),
            ("zstd", &zstd),
            ("", TEXT),
        ];
        for (coding, coded) in cases {
            for cut in 0..coded.len() {
                let decoded = run(coding, &[&coded[..cut], &coded[cut..]], 1 << 20);
                assert_eq!((decoded.body.as_slice(), decoded.stop), (TEXT, None), "{coding} cut at {cut}");
                assert_eq!(decoded.was_coded, !coding.is_empty());
            }
        }
        let decoded = run("br", &[BROTLI], 1 << 20);
        assert!(decoded.stop.is_none() && decoded.body.starts_with(b"The quick brown fox"));
    }

    #[test]
    fn a_body_that_is_not_what_is_announced_is_kept_as_it_came() {
        for coding in ["gzip", "deflate", "br", "zstd", "compress", "gzip, br"] {
            let decoded = run(coding, &[TEXT], 1 << 20);
            assert_eq!(
                decoded,
                Decoded { body: TEXT.to_vec(), was_coded: false, as_received: false, has_trailing: false, stop: None },
                "{coding}"
            );
        }
        assert_eq!(run("gzip", &[b"x"], 10).body, b"x");
    }

    #[test]
    fn a_body_that_goes_on_after_its_coding_ends_is_kept_as_received() {
        // An empty brotli stream is one byte, which a text may begin with.
        let cases: [(&str, Vec<u8>); 4] = [
            ("br", [b"\x06", TEXT].concat()),
            ("br", [BROTLI, b"and more"].concat()),
            ("deflate", [&zlib(TEXT)[..], b"and more"].concat()),
            ("deflate", [&raw_deflate(TEXT)[..], b"and more"].concat()),
        ];
        for (coding, sent) in cases {
            for cut in 0..=sent.len() {
                let decoded = run(coding, &[&sent[..cut], &sent[cut..]], 1 << 20);
                assert_eq!((&decoded.body, decoded.stop), (&sent, None), "{coding} cut at {cut}");
                assert!(decoded.as_received && !decoded.was_coded);
            }
        }
        let long = run("br", &[b"\x06abc", b"def", b"ghi"], 5);
        assert_eq!((long.body.as_slice(), long.stop), (&b"\x06abcd"[..], Some(Stop::Full)));
    }

    #[test]
    fn received_and_decoded_bytes_together_stay_within_the_limit() {
        // Incompressible bytes.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let noise: Vec<u8> = (0..1 << 20).map(|_| next()).collect();
        let coded = zlib(&noise);
        assert!(coded.len() > 1 << 19, "{} bytes", coded.len());
        for (limit, trailing, stop) in
            [(3 << 20, "", None), (3 << 20, "more", None), (5 << 18, "", None), (5 << 18, "more", Some(Stop::Damaged))]
        {
            let mut decoder = Decoder::new(b"deflate", limit, 100);
            for piece in coded.chunks(4096).chain([trailing.as_bytes()]) {
                decoder.push(piece);
                assert!(decoder.len() as u64 <= limit, "{} of {limit}", decoder.len());
            }
            let decoded = decoder.finish(true);
            assert_eq!((decoded.stop, decoded.as_received), (stop, stop.is_none() && !trailing.is_empty()), "{limit}");
            assert!(decoded.as_received || decoded.body == noise);
        }
    }

    #[test]
    fn a_long_body_stops_at_the_limit_and_its_beginning_is_kept() {
        for (coding, coded) in [("", TEXT.to_vec()), ("gzip", gzip(TEXT))] {
            let decoded = run(coding, &[&coded], 20);
            assert_eq!((decoded.body.as_slice(), decoded.stop), (&TEXT[..20], Some(Stop::Full)), "{coding}");
            assert_eq!(run(coding, &[&coded], TEXT.len() as u64).stop, None);
        }
    }

    #[test]
    fn a_bomb_stops_at_the_ratio_and_takes_no_memory() {
        let zeros = vec![0; 64 << 20];
        for (coding, bomb) in
            [("gzip", gzip(&zeros)), ("deflate", zlib(&zeros)), ("zstd", zstd::encode_all(&zeros[..], 3).unwrap())]
        {
            let decoded = run(coding, &[&bomb], 1 << 30);
            assert_eq!(decoded.stop, Some(Stop::Ratio), "{coding}");
            assert!(
                decoded.body.len() as u64 <= RATIO_FROM_BYTES.max(100 * bomb.len() as u64) + (256 << 10),
                "{coding}"
            );
        }
    }

    #[test]
    fn damage_is_found_and_never_a_panic() {
        let coded = gzip(TEXT);
        for at in 2..coded.len() {
            let mut damaged = coded.clone();
            damaged[at] ^= 0x55;
            for coding in ["gzip", "deflate", "br", "zstd"] {
                let _ = run(coding, &[&damaged], 1 << 20);
            }
        }
    }

    #[test]
    fn of_a_coding_that_ends_early_what_is_there_is_kept_unless_it_was_guessed() {
        let zstd = zstd::encode_all(TEXT, 3).unwrap();
        let cases: [(&str, &[u8], usize, Stop); 4] = [
            ("gzip", &gzip(TEXT), TEXT.len(), Stop::Early),
            ("zstd", &zstd, 0, Stop::Early),
            ("deflate", &zlib(TEXT), TEXT.len(), Stop::Damaged),
            ("br", BROTLI, 1, Stop::Damaged),
        ];
        for (coding, coded, bytes, stop) in cases {
            let decoded = run(coding, &[&coded[..coded.len() - 3]], 1 << 20);
            assert!(decoded.stop == Some(stop) && decoded.body.len() >= bytes, "{coding} {decoded:?}");
        }
    }
}
