//! One gzip member (RFC 1952) of a WARC file, inflated step by step.
//!
//! Header and trailer are parsed here, because recovery needs what a stream adapter hides: the
//! exact offset where a member ends, and whether its data, its checksum or only its trailer is
//! missing.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};

use crate::http::coding::header_bytes;
use crate::warc::arc;
use crate::warc::input::Input;
use crate::warc::step::{Broken, Step};

/// Maximum number of bytes inflated by a step.
const STEP_BYTES: usize = 64 << 10;
/// The longest header, with extra field, name and comment.
const MAX_HEADER_BYTES: usize = 128 << 10;
const TRAILER_BYTES: usize = 8;
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// Returns whether a member may begin here.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) && bytes.get(3).is_none_or(|flags| flags & 0xe0 == 0)
}

/// Returns whether `bytes` are the beginning of a member that inflates.
pub(crate) fn inflates(bytes: &[u8]) -> bool {
    trial(bytes, |_| true)
}

/// See [`arc::member_begins`].
pub(crate) fn starts_with_record(bytes: &[u8], is_arc: bool) -> bool {
    arc::member_begins(is_arc, |go_on| trial(bytes, go_on))
}

/// Inflates a member while `go_on` returns true. Returns false if the member is invalid.
fn trial(bytes: &[u8], mut go_on: impl FnMut(&[u8]) -> bool) -> bool {
    let Some(header) = header_bytes(bytes) else { return false };
    let mut engine = Decompress::new(false);
    let mut out = Vec::with_capacity(STEP_BYTES);
    let mut rest = &bytes[header..];
    loop {
        out.clear();
        let before = engine.total_in();
        let status = engine.decompress_vec(rest, &mut out, FlushDecompress::None);
        let read = (engine.total_in() - before) as usize;
        rest = &rest[read..];
        match status {
            Err(_) => return false,
            _ if !go_on(&out) => return true,
            Ok(Status::StreamEnd) => return true,
            Ok(_) if out.is_empty() && rest.is_empty() => return true,
            Ok(_) if out.is_empty() && read == 0 => return false,
            Ok(_) => {}
        }
    }
}

/// Inflates members, one after the other.
pub(crate) struct Gzip {
    engine: Decompress,
    crc: crc32fast::Hasher,
    bytes_out: u32,
    in_header: bool,
}

impl Gzip {
    pub(crate) fn new() -> Gzip {
        Gzip { engine: Decompress::new(false), crc: crc32fast::Hasher::new(), bytes_out: 0, in_header: true }
    }

    /// Prepares for the next member.
    pub(crate) fn reset(&mut self) {
        self.engine.reset(false);
        self.crc = crc32fast::Hasher::new();
        self.bytes_out = 0;
        self.in_header = true;
    }

    /// Inflates the next bytes, and appends them to `out`.
    pub(crate) fn step<R: Read>(&mut self, input: &mut Input<R>, out: &mut Vec<u8>) -> io::Result<Step> {
        if self.in_header {
            let mut header = header_bytes(input.ensure(512)?);
            if header.is_none() {
                header = header_bytes(input.ensure(MAX_HEADER_BYTES)?);
            }
            let Some(header) = header else { return Ok(Step::Broken(Broken::cut("inside the gzip header"))) };
            input.consume(header);
            self.in_header = false;
        }
        out.reserve(STEP_BYTES);
        let from = out.len();
        let available = input.ensure(1)?;
        let at_end = available.is_empty();
        let before = self.engine.total_in();
        let status = self.engine.decompress_vec(available, out, FlushDecompress::None);
        input.consume((self.engine.total_in() - before) as usize);
        self.crc.update(&out[from..]);
        self.bytes_out = self.bytes_out.wrapping_add((out.len() - from) as u32);
        match status {
            Err(_) => Ok(Step::Broken(Broken::damaged("the gzip data is invalid"))),
            Ok(Status::StreamEnd) => self.trailer(input),
            Ok(_) if at_end && out.len() == from => Ok(Step::Broken(Broken::cut("inside the gzip data"))),
            Ok(_) => Ok(Step::More),
        }
    }

    fn trailer<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<Step> {
        let trailer = input.ensure(TRAILER_BYTES)?;
        if trailer.len() < TRAILER_BYTES {
            let missing = trailer.len();
            input.consume(missing);
            return Ok(Step::Broken(Broken { complete: true, ..Broken::cut("inside the gzip trailer") }));
        }
        let crc = std::mem::replace(&mut self.crc, crc32fast::Hasher::new()).finalize();
        let whole = trailer[..4] == crc.to_le_bytes() && trailer[4..TRAILER_BYTES] == self.bytes_out.to_le_bytes();
        input.consume(TRAILER_BYTES);
        Ok(if whole { Step::End } else { Step::Broken(Broken::damaged("gzip checksum mismatch")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn member(bytes: &[u8]) -> Vec<u8> {
        let builder = flate2::GzBuilder::new().filename("name").comment("words").extra(vec![1, 2, 3]);
        let mut out = builder.write(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).expect("memory");
        out.finish().expect("memory")
    }

    fn run(bytes: &[u8]) -> (Vec<u8>, std::result::Result<u64, Broken>) {
        let (mut input, mut gzip, mut out) = (Input::new(bytes), Gzip::new(), Vec::new());
        loop {
            match gzip.step(&mut input, &mut out).expect("memory") {
                Step::More => {}
                Step::End => return (out, Ok(input.offset())),
                Step::Broken(broken) => return (out, Err(broken)),
            }
        }
    }

    #[test]
    fn a_member_ends_at_its_exact_offset() {
        let text = b"text ".repeat(100_000);
        let one = member(&text);
        let two = [&one[..], b"what follows"].concat();
        assert_eq!(run(&two), (text, Ok(one.len() as u64)));
    }

    #[test]
    fn a_cut_is_told_from_damage() {
        let one = member(b"some text");
        for cut in 4..one.len() {
            let (out, end) = run(&one[..cut]);
            let broken = end.expect_err("cut");
            assert!(broken.is_cut, "cut at {cut}");
            assert_eq!(broken.complete, cut + TRAILER_BYTES >= one.len(), "cut at {cut}");
            assert!(!broken.complete || out == b"some text");
        }
        let mut flipped = one.clone();
        flipped[one.len() - 1] ^= 1;
        assert!(!run(&flipped).1.expect_err("damaged").is_cut);
    }

    #[test]
    fn only_what_inflates_is_taken_for_a_member() {
        let one = member(&b"text ".repeat(100));
        assert!(begins(&one) && inflates(&one) && inflates(&one[..one.len() - 20]));
        assert!(!inflates(&[&MAGIC[..], b"\0\0\0\0\0\0\0 and then plain text, which does not inflate"].concat()));
        assert!(!begins(b"\x1f\x8b\x08\xff") && !begins(b"\x1f\x8b\x07") && !begins(b""));
    }
}
