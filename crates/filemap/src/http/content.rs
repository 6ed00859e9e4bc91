//! Undoes the content codings of a body: gzip, deflate (zlib, or raw as some servers send it), br
//! and zstd.
//!
//! A body decodes whole or not at all. An unknown coding, data that is damaged, ends early or
//! continues after the end of the coding, and output over the limit (a decompression bomb) leave
//! the body as received, with the reason. Headers lie: the first byte of a text can be a complete
//! brotli or deflate stream, and the page would be the rest.

use std::io::{self, Read, Write};

use super::coding::{Coding, CodingError, Decoder};
use crate::error::{Error, Result};
use crate::spool::{Payload, PayloadWriter, Spool};

const STEP_BYTES: usize = 64 << 10;
/// Maximum number of stacked codings that are undone: each costs a pass over a possible bomb.
pub(crate) const MAX_CODINGS: usize = 8;

/// The decoded body, or the reason why there is none.
pub(crate) type Attempt = std::result::Result<Payload, CodingError>;

/// Undoes the content codings of a body in memory. Their names are those of `Content-Encoding`, in
/// the order in which they were applied; `identity` is ignored. Each may produce up to
/// `max_bytes`.
///
/// ```
/// use filemap::coding::{CodingError, decode};
///
/// let body = zstd::encode_all(&b"hello"[..], 3).unwrap();
/// assert_eq!(decode(&["identity", "zstd"], body, 1 << 20).unwrap(), b"hello");
/// assert!(matches!(decode(&["rot13"], b"uryyb".to_vec(), 1 << 20), Err(CodingError::Unknown)));
/// ```
///
/// # Errors
///
/// [`CodingError`]: the body does not decode to its very end, or has more than eight codings.
pub fn decode(codings: &[impl AsRef<str>], body: Vec<u8>, max_bytes: u64) -> std::result::Result<Vec<u8>, CodingError> {
    let output = |error| CodingError::Output(io::Error::other(error));
    let codings: Vec<String> = codings.iter().map(|name| name.as_ref().trim().to_ascii_lowercase()).collect();
    let spool = Spool::default().memory_bytes(usize::MAX);
    let decoded = undo(&codings, &mut Payload::Memory(body), &spool, max_bytes).map_err(output)?;
    decoded?.into_bytes().map_err(output)
}

/// Undoes `codings`, names in lower case in the order in which they were applied; each may produce
/// up to `limit` bytes. Takes the body if it decodes.
pub(crate) fn undo(codings: &[String], body: &mut Payload, spool: &Spool, limit: u64) -> Result<Attempt> {
    if codings.len() > MAX_CODINGS {
        return Ok(Err(CodingError::TooMany));
    }
    let mut decoded = None;
    for coding in codings.iter().rev().filter(|coding| !matches!(coding.as_str(), "" | "identity")) {
        match undo_one(coding, decoded.as_mut().unwrap_or(body), spool, limit)? {
            Ok(payload) => decoded = Some(payload),
            failed => return Ok(failed),
        }
    }
    Ok(Ok(decoded.unwrap_or_else(|| std::mem::take(body))))
}

/// Undoes one coding, which may produce up to `limit` bytes.
pub(crate) fn undo_one(coding: &str, body: &mut Payload, spool: &Spool, limit: u64) -> Result<Attempt> {
    let mut attempt = Err(CodingError::Unknown);
    for coding in Coding::named(coding) {
        attempt = decode_as(*coding, body, spool, limit)?;
        if !matches!(attempt, Err(CodingError::Damaged)) {
            break;
        }
    }
    Ok(attempt)
}

fn decode_as(coding: Coding, body: &mut Payload, spool: &Spool, limit: u64) -> Result<Attempt> {
    let mut out = spool.writer(limit);
    let mut decoder = Decoder::new(coding).max_bytes(limit);
    let mut source = body.reader()?;
    let mut piece = vec![0; STEP_BYTES];
    let decoded = loop {
        match source.read(&mut piece) {
            Ok(0) => break decoder.finish(),
            Ok(count) => match decoder.push(&piece[..count], &mut Spooled(&mut out)) {
                Ok(()) => {}
                failed => break failed,
            },
            Err(_) => break Err(CodingError::EndsEarly),
        }
    };
    match decoded {
        Err(CodingError::Output(source)) => Err(spool_error(source, spool)),
        decoded => Ok(decoded.map(|()| out.finish())),
    }
}

/// A payload as the output of a decoder.
struct Spooled<'a>(&'a mut PayloadWriter);

impl Write for Spooled<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes).map(|()| bytes.len()).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Extracts the error of [`PayloadWriter::push`] from an I/O error.
fn spool_error(error: io::Error, spool: &Spool) -> Error {
    error.downcast().unwrap_or_else(|source| Error::Spool { dir: spool.dir.clone(), source })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = b"The quick brown fox jumps over the lazy dog. The quick brown fox again, and again.";
    /// [`TEXT`] as `brotli -q 11` writes it.
    const BROTLI: &[u8] = include_bytes!("../../tests/bodies/fox.br");

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).expect("memory");
        out.finish().expect("memory")
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).expect("memory");
        out.finish().expect("memory")
    }

    const DAMAGED: &str = "the data is damaged";
    const GOES_ON: &str = "data follows the end of the coding";

    fn run(codings: &[&str], body: &[u8], limit: u64) -> std::result::Result<Vec<u8>, &'static str> {
        let names: Vec<String> = codings.iter().map(|&coding| coding.to_owned()).collect();
        let mut received = Payload::Memory(body.to_vec());
        let decoded = undo(&names, &mut received, &Spool::default(), limit).expect("memory");
        let text = |why: CodingError| &*why.to_string().leak();
        let decoded = decoded.map(|body| body.into_bytes().expect("memory")).map_err(text);
        let in_memory = decode(codings, body.to_vec(), limit).map_err(text);
        assert_eq!(in_memory, decoded);
        if decoded.is_err() {
            assert_eq!(received.prefix(usize::MAX).expect("memory"), body);
        }
        decoded
    }

    #[test]
    fn every_coding_is_undone() {
        let raw_deflate = zlib(TEXT)[2..zlib(TEXT).len() - 4].to_vec();
        let zstd = zstd::encode_all(TEXT, 3).expect("memory");
        let cases: [(&str, &[u8]); 6] = [
            ("gzip", &gz(TEXT)),
            ("x-gzip", &gz(TEXT)),
            ("deflate", &zlib(TEXT)),
            ("deflate", &raw_deflate),
            ("br", BROTLI),
            ("zstd", &zstd),
        ];
        for (coding, body) in cases {
            assert_eq!(run(&[coding], body, 1 << 20).as_deref(), Ok(TEXT), "{coding}");
        }
    }

    #[test]
    fn codings_are_undone_from_the_last_to_the_first() {
        assert_eq!(run(&["gzip", "identity", "deflate"], &zlib(&gz(TEXT)), 1 << 20).as_deref(), Ok(TEXT));
        assert!(run(&["deflate", "gzip"], &zlib(&gz(TEXT)), 1 << 20).is_err());
    }

    #[test]
    fn a_body_cut_anywhere_is_kept_as_received() {
        let zstd = zstd::encode_all(TEXT, 3).expect("memory");
        for (coding, body) in [("gzip", &gz(TEXT)[..]), ("deflate", &zlib(TEXT)), ("br", BROTLI), ("zstd", &zstd)] {
            for cut in 1..body.len() {
                assert!(run(&[coding], &body[..cut], 1 << 20).is_err(), "{coding} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_body_that_is_not_coded_at_all_is_kept_as_received() {
        for coding in ["gzip", "deflate", "br", "zstd", "compress", "utf-8"] {
            assert!(run(&[coding], b"<!doctype html><p>plain text", 1 << 20).is_err(), "{coding}");
        }
    }

    #[test]
    fn members_and_frames_may_follow_each_other() {
        let twice = [gz(TEXT), gz(b"more")].concat();
        assert_eq!(run(&["gzip"], &twice, 1 << 20), Ok([TEXT, b"more"].concat()));
        let zst = |bytes| zstd::encode_all(bytes, 3).expect("memory");
        assert_eq!(run(&["zstd"], &[zst(TEXT), zst(b"more")].concat(), 1 << 20), Ok([TEXT, b"more"].concat()));
    }

    /// A coding, its encoding of [`TEXT`], and its shortest complete stream: of no bytes.
    type Case = (&'static str, Vec<u8>, Vec<u8>);

    fn coded() -> Vec<Case> {
        let zst = |bytes| zstd::encode_all(bytes, 3).expect("memory");
        vec![
            ("gzip", gz(TEXT), gz(b"")),
            ("deflate", zlib(TEXT), zlib(b"")),
            ("deflate", zlib(TEXT)[2..zlib(TEXT).len() - 4].to_vec(), vec![3, 0]),
            ("br", BROTLI.to_vec(), vec![0x3b]),
            ("zstd", zst(TEXT), zst(b"")),
        ]
    }

    #[test]
    fn what_follows_the_end_of_a_coding_leaves_the_body_as_received() {
        for (coding, body, nothing) in coded() {
            for rest in [&b"\0"[..], b"\n", b"\r\nrest", b"\x1f", b"\x1f\x8b", &[0; 100_000]] {
                for stream in [&body, &nothing] {
                    let lie = [&stream[..], rest].concat();
                    assert!(run(&[coding], &lie, 1 << 20).is_err(), "{coding} with {} bytes behind it", rest.len());
                }
            }
        }
    }

    #[test]
    fn a_text_that_begins_with_a_whole_stream_is_kept() {
        for (coding, _, nothing) in coded() {
            let text = [&nothing[..], TEXT].concat();
            assert_eq!(
                run(&[coding], &text, 1 << 20),
                Err(if coding == "zstd" { DAMAGED } else { GOES_ON }),
                "{coding}"
            );
        }
        // `;` is 0x3b, which brotli reads as the last, empty block.
        assert_eq!(run(&["br"], b"; a comment\n", 1 << 20), Err(GOES_ON));
    }

    #[test]
    fn every_coding_over_the_bytes_of_every_other_is_kept() {
        for (said, ..) in coded() {
            for (is, body, _) in coded().into_iter().filter(|(is, ..)| *is != said) {
                assert!(run(&[said], &body, 1 << 20).is_err(), "{said} over {is}");
            }
        }
    }

    #[test]
    fn a_wrong_length_behind_a_gzip_member_is_damage() {
        let mut body = gz(TEXT);
        let at = body.len() - 4;
        body[at] ^= 1;
        assert_eq!(run(&["gzip"], &body, 1 << 20), Err(DAMAGED));
    }

    #[test]
    fn no_more_than_so_many_codings_are_undone() {
        let nest = |times: usize| (0..times).fold(TEXT.to_vec(), |body, _| gz(&body));
        let most = vec!["gzip"; MAX_CODINGS];
        assert_eq!(run(&most, &nest(MAX_CODINGS), 1 << 20).as_deref(), Ok(TEXT));
        let more = vec!["gzip"; MAX_CODINGS + 1];
        assert_eq!(run(&more, &nest(MAX_CODINGS + 1), 1 << 20), Err("there are too many codings"));
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let zeros = vec![0; 1 << 20];
        let bombs = [("gzip", gz(&zeros)), ("zstd", zstd::encode_all(&zeros[..], 3).expect("memory"))];
        for (coding, bomb) in bombs {
            assert_eq!(run(&[coding], &bomb, 1 << 19), Err("the decoded body is over the limit"));
            assert_eq!(run(&[coding], &bomb, 1 << 20).map(|body| body.len()), Ok(1 << 20));
        }
    }

    #[test]
    fn a_zstd_frame_that_asks_for_a_large_window_is_kept_as_received() {
        // A frame of one raw block, whose window is 2^(10 + n) bytes.
        let frame = |n: u8| [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, n << 3][..], &[8 * 4 + 1, 0, 0], b"page"].concat();
        assert_eq!(run(&["zstd"], &frame(13), 1 << 20).as_deref(), Ok(&b"page"[..]));
        for n in [14, 17, 21] {
            assert_eq!(run(&["zstd"], &frame(n), 1 << 20), Err("the data is damaged"), "window 2^{}", 10 + n);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_stay(body in proptest::collection::vec(any::<u8>(), 0..300), at in 0..4usize) {
            let coding = ["gzip", "deflate", "br", "zstd"][at];
            let _ = run(&[coding], &body, 1 << 16);
        }

        #[test]
        fn a_flipped_byte_is_never_a_panic(at: prop::sample::Index, bit in 0..8u8) {
            let zstd = zstd::encode_all(TEXT, 3).expect("memory");
            for (coding, body) in [("gzip", &gz(TEXT)[..]), ("deflate", &zlib(TEXT)), ("br", BROTLI), ("zstd", &zstd)] {
                let mut body = body.to_vec();
                let at = at.index(body.len());
                body[at] ^= 1 << bit;
                let _ = run(&[coding], &body, 1 << 16);
            }
        }
    }
}
