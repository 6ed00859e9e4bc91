//! Undoes a content coding as the body comes, within bounds.
//!
//! Each piece is expanded as it arrives, into a body that never grows beyond its limit: what a few bytes may expand to is
//! decided by us, not by who sent them. The decoders write into [`Bounded`], which stops them.
//!
//! A deflate or brotli stream has no magic number: a text may pass for one that ends after a byte. So the received
//! bytes are kept beside the decoded ones, and if the stream ends before the body does, the body is kept as received.
//!
//! Invariants: a body never has more bytes than its limit, and never over [`RATIO_FROM_BYTES`] more than `ratio` times
//! what came; after each piece, received and decoded bytes together are within the limit.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use crate::limits::RATIO_FROM_BYTES;

/// Servers must not use windows over 8 MiB (RFC 9659); a frame that asks for more asks for our memory.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Buffer of the brotli decoder.
const BROTLI_BUFFER_BYTES: usize = 16 << 10;

/// Why a body stops before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is longer than the limit; what fits is there.
    Full,
    /// It expands too much.
    Ratio,
    /// The coding is damaged or ends early.
    Damaged,
}

/// A body with a bound.
#[derive(Debug)]
pub struct Bounded {
    bytes: Vec<u8>,
    max_bytes: u64,
    /// Coded bytes so far, and how many times as many may come of them; `None` without a coding.
    ratio: Option<(u64, u32)>,
    stop: Option<Stop>,
}

impl Bounded {
    fn new(max_bytes: u64, ratio: Option<u32>) -> Bounded {
        Bounded { bytes: Vec::new(), max_bytes, ratio: ratio.map(|ratio| (0, ratio)), stop: None }
    }
}

impl Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let room = self.max_bytes.saturating_sub(self.bytes.len() as u64);
        let taken = usize::try_from(room).unwrap_or(usize::MAX).min(piece.len());
        self.bytes.extend_from_slice(&piece[..taken]);
        let length = self.bytes.len() as u64;
        let over_ratio = |(coded, ratio): (u64, u32)| length > coded.saturating_mul(u64::from(ratio));
        if length > RATIO_FROM_BYTES && self.ratio.is_some_and(over_ratio) {
            self.stop = Some(Stop::Ratio);
        } else if taken < piece.len() {
            self.stop = Some(Stop::Full);
        }
        if self.stop.is_some() { Err(io::Error::other("the body's bound")) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Coding {
    Identity(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
    Zlib(Box<ZlibDecoder<Bounded>>),
    Deflate(Box<DeflateDecoder<Bounded>>),
    Brotli(Box<DecompressorWriter<Bounded>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Bounded>>),
}

/// What came of a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The bytes.
    pub body: Vec<u8>,
    /// Whether a coding was undone.
    pub was_coded: bool,
    /// Whether the body is kept as received because its coding ended before it.
    pub as_received: bool,
    /// Why it is not all of it.
    pub stop: Option<Stop>,
}

/// A body that comes in pieces.
pub struct Decoder {
    name: &'static str,
    /// The first bytes, until there are enough to tell whether the coding is what it is said to be.
    held: Vec<u8>,
    coding: Option<Coding>,
    /// The received bytes of a coding that may prove to be none.
    received: Option<Bounded>,
    as_received: bool,
    max_bytes: u64,
    ratio: u32,
}

impl Decoder {
    /// For a body with this `Content-Encoding`. One that is unknown, or several, are left as they are.
    pub fn new(content_encoding: &[u8], max_bytes: u64, ratio: u32) -> Decoder {
        let name = match content_encoding.trim_ascii().to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => "gzip",
            b"deflate" => "deflate",
            b"br" => "br",
            b"zstd" => "zstd",
            _ => "",
        };
        Decoder { name, held: Vec::new(), coding: None, received: None, as_received: false, max_bytes, ratio }
    }

    /// Takes a piece. `false`: no more is wanted.
    pub fn push(&mut self, piece: &[u8]) -> bool {
        if self.coding.is_none() {
            self.held.extend_from_slice(piece);
            if self.held.len() < 4 && !self.name.is_empty() {
                return true;
            }
            let held = std::mem::take(&mut self.held);
            self.begin(&held);
            return self.write(&held);
        }
        self.write(piece)
    }

    /// Bytes held, received and decoded.
    pub fn len(&self) -> usize {
        let received = self.received.as_ref().map_or(0, |received| received.bytes.len());
        received + self.coding.as_ref().map_or(self.held.len(), |coding| coding.sink().bytes.len())
    }

    /// Chooses the decoder by what is announced and what has come: servers announce codings of bodies that have none.
    fn begin(&mut self, first: &[u8]) {
        let sink = |ratio| Bounded::new(self.max_bytes, ratio);
        let coded = || sink(Some(self.ratio));
        let is_zlib =
            first.len() >= 2 && first[0] & 0xf == 8 && u16::from_be_bytes([first[0], first[1]]).is_multiple_of(31);
        let is_text = first.trim_ascii_start().starts_with(b"<");
        self.coding = Some(match self.name {
            "gzip" if first.starts_with(&[0x1f, 0x8b]) => Coding::Gzip(Box::new(MultiGzDecoder::new(coded()))),
            "deflate" if is_zlib => Coding::Zlib(Box::new(ZlibDecoder::new(coded()))),
            "deflate" if !is_text => Coding::Deflate(Box::new(DeflateDecoder::new(coded()))),
            "br" if !is_text => Coding::Brotli(Box::new(DecompressorWriter::new(coded(), BROTLI_BUFFER_BYTES))),
            "zstd" if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || first.get(1..4) == Some(&[0x2a, 0x4d, 0x18]) => {
                match zstd_decoder(coded()) {
                    Some(decoder) => Coding::Zstd(Box::new(decoder)),
                    None => Coding::Identity(sink(None)),
                }
            }
            _ => Coding::Identity(sink(None)),
        });
        let is_guessed = matches!(self.coding, Some(Coding::Zlib(_) | Coding::Deflate(_) | Coding::Brotli(_)));
        self.received = is_guessed.then(|| sink(None));
    }

    fn write(&mut self, piece: &[u8]) -> bool {
        let max_bytes = self.max_bytes;
        let Some(coding) = &mut self.coding else { return true };
        // What it holds beyond its bound is missed only if it becomes the body, which then says `Full`.
        let _ = self.received.as_mut().map(|received| received.write_all(piece));
        if let Some((coded, _)) = &mut coding.sink_mut().ratio {
            *coded += piece.len() as u64;
        }
        let written = coding.writer().write_all(piece);
        // A decoder that takes no more has come to its end.
        let has_ended = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WriteZero);
        if let Some(received) = self.received.take_if(|_| has_ended) {
            self.as_received = true;
            *coding = Coding::Identity(received);
        } else if written.is_err() {
            coding.sink_mut().stop.get_or_insert(Stop::Damaged);
        }
        let sink = coding.sink();
        let decoded_bytes = sink.bytes.len() as u64;
        self.received.take_if(|received| received.bytes.len() as u64 + decoded_bytes > max_bytes);
        sink.stop.is_none()
    }

    /// The body, when all pieces were taken (`is_whole`) or no more are to come.
    pub fn finish(mut self, is_whole: bool) -> Decoded {
        if self.coding.is_none() {
            let held = std::mem::take(&mut self.held);
            self.begin(&held);
            self.write(&held);
        }
        let as_received = self.as_received;
        let Some(mut coding) = self.coding else {
            return Decoded { body: Vec::new(), was_coded: false, as_received, stop: None };
        };
        let was_coded = !matches!(coding, Coding::Identity(_));
        let stopped = coding.sink().stop;
        let ended = if stopped.is_none() && is_whole { coding.end() } else { true };
        let sink = coding.sink_mut();
        let stop = sink.stop.or((!ended).then_some(Stop::Damaged));
        Decoded { body: std::mem::take(&mut sink.bytes), was_coded, as_received, stop }
    }
}

fn zstd_decoder(sink: Bounded) -> Option<zstd::stream::write::Decoder<'static, Bounded>> {
    let mut decoder = zstd::stream::write::Decoder::new(sink).ok()?;
    decoder.window_log_max(ZSTD_WINDOW_LOG).ok()?;
    Some(decoder)
}

impl Coding {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Coding::Identity(sink) => sink,
            Coding::Gzip(decoder) => decoder,
            Coding::Zlib(decoder) => decoder,
            Coding::Deflate(decoder) => decoder,
            Coding::Brotli(decoder) => decoder,
            Coding::Zstd(decoder) => decoder,
        }
    }

    fn sink(&self) -> &Bounded {
        match self {
            Coding::Identity(sink) => sink,
            Coding::Gzip(decoder) => decoder.get_ref(),
            Coding::Zlib(decoder) => decoder.get_ref(),
            Coding::Deflate(decoder) => decoder.get_ref(),
            Coding::Brotli(decoder) => decoder.get_ref(),
            Coding::Zstd(decoder) => decoder.get_ref(),
        }
    }

    fn sink_mut(&mut self) -> &mut Bounded {
        match self {
            Coding::Identity(sink) => sink,
            Coding::Gzip(decoder) => decoder.get_mut(),
            Coding::Zlib(decoder) => decoder.get_mut(),
            Coding::Deflate(decoder) => decoder.get_mut(),
            Coding::Brotli(decoder) => decoder.get_mut(),
            Coding::Zstd(decoder) => decoder.get_mut(),
        }
    }

    /// Whether the coding came to its end.
    fn end(&mut self) -> bool {
        match self {
            Coding::Identity(_) => true,
            Coding::Gzip(decoder) => decoder.try_finish().is_ok(),
            Coding::Zlib(decoder) => decoder.try_finish().is_ok(),
            Coding::Deflate(decoder) => decoder.try_finish().is_ok(),
            Coding::Brotli(decoder) => decoder.close().is_ok(),
            Coding::Zstd(decoder) => decoder.flush().is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"<p>The quick brown fox jumps over the lazy dog. The quick brown fox again, and again.";
    /// A text about a fox as `brotli -q 11` writes it.
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
                Decoded { body: TEXT.to_vec(), was_coded: false, as_received: false, stop: None },
                "{coding}"
            );
        }
        assert_eq!(run("gzip", &[b"x"], 10).body, b"x");
    }

    #[test]
    fn a_body_that_goes_on_after_its_coding_ends_is_kept_as_received() {
        // A brotli stream of nothing is one byte, which a text may begin with.
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
        // Bytes that do not compress.
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
        assert_eq!(run("gzip", &[&coded[..coded.len() - 4]], 1 << 20).stop, Some(Stop::Damaged));
    }
}
