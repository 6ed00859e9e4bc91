//! Streaming decoder of one content coding, within bounds: gzip, deflate (zlib or raw), brotli,
//! zstd.
//!
//! Invariants: output never exceeds the bounds; output before an error is valid. Data after the
//! end of a coding is an error: the beginning of a text may look like a short stream.

use std::io::{self, Write};

pub use super::content::decode;
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use filemap_io::layout::try_get;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};

const BUFFER_BYTES: usize = 64 << 10;
/// The longest gzip header: 64 KiB of extra field, name and comment each.
const MAX_GZIP_HEADER_BYTES: usize = 256 << 10;
/// Windows of 8 MiB, the most that servers may use (RFC 9659): with larger ones a server could
/// make the reader allocate any amount of memory.
const ZSTD_WINDOW_LOG: u32 = 23;

/// A content coding. HTTP's `deflate` means [`Coding::Zlib`]; some servers send
/// [`Coding::Deflate`].
///
/// ```
/// use filemap::coding::{Coding, Decoder};
///
/// let mut body = Vec::new();
/// let mut decoder = Decoder::new(Coding::Deflate);
/// // One stored block.
/// decoder.push(b"\x01\x05\x00\xfa\xffhello", &mut body).and_then(|()| decoder.finish()).unwrap();
/// assert_eq!(body, b"hello");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Coding {
    /// gzip members (RFC 1952), one or several; checksum and length of each are verified.
    Gzip,
    /// A zlib stream (RFC 1950).
    Zlib,
    /// A raw deflate stream (RFC 1951).
    Deflate,
    /// A brotli stream (RFC 7932), without windows over 16 MiB.
    Brotli,
    /// zstd frames (RFC 8878), one or several.
    Zstd,
}

impl Coding {
    /// The codings that a lower-case name in `Content-Encoding` may stand for, the most likely
    /// first: empty if the name is unknown.
    pub fn named(name: &str) -> &'static [Coding] {
        match name {
            "gzip" | "x-gzip" => &[Coding::Gzip],
            "deflate" => &[Coding::Zlib, Coding::Deflate],
            "br" => &[Coding::Brotli],
            "zstd" => &[Coding::Zstd],
            _ => &[],
        }
    }
}

/// Reason why a body does not decode.
///
/// ```
/// use filemap::coding::{Coding, CodingError, Decoder};
///
/// let mut decoder = Decoder::new(Coding::Gzip);
/// let pushed = decoder.push(b"no gzip", &mut std::io::sink());
/// assert!(matches!(pushed, Err(CodingError::Damaged)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodingError {
    /// The data is not of this coding, or checksum mismatch.
    #[error("the data is damaged")]
    Damaged,
    /// The data ends inside the coding.
    #[error("the data ends early")]
    EndsEarly,
    /// There is data after the end of the coding.
    #[error("data follows the end of the coding")]
    GoesOn,
    /// The output exceeds [`Decoder::max_bytes`]; its beginning was written.
    #[error("the decoded body is over the limit")]
    TooLong,
    /// The name of the coding is unknown.
    #[error("the coding is unknown")]
    Unknown,
    /// There are more codings than the limit.
    #[error("there are too many codings")]
    TooMany,
    /// The output is larger than the input by more than [`Decoder::max_ratio`] allows.
    #[error("expansion ratio exceeded")]
    TooDense,
    /// The output cannot be written.
    #[error("the decoded body cannot be written: {0}")]
    Output(#[source] io::Error),
}

/// Decodes a body piece by piece.
///
/// ```
/// use filemap::coding::{Coding, CodingError, Decoder};
///
/// let frame = zstd::encode_all(&b"hello"[..], 3).unwrap();
/// let (first, rest) = frame.split_at(frame.len() / 2);
/// let mut body = Vec::new();
/// let mut decoder = Decoder::new(Coding::Zstd).max_bytes(1 << 20);
/// decoder.push(first, &mut body).unwrap();
/// assert!(matches!(decoder.finish(), Err(CodingError::EndsEarly)));
/// decoder.push(rest, &mut body).unwrap();
/// decoder.finish().unwrap();
/// assert_eq!(body, b"hello");
/// ```
pub struct Decoder {
    engine: Engine,
    buffer: Vec<u8>,
    bytes_in: u64,
    bytes_out: u64,
    max_bytes: u64,
    /// The maximum ratio of output to input, and the number of output bytes from which it applies.
    max_ratio: Option<(u32, u64)>,
}

/// Bytes read and written by one step of an engine.
#[derive(Default)]
struct Step {
    read: usize,
    written: usize,
    /// The stream has ended.
    has_ended: bool,
}

enum Engine {
    Gzip(Box<Gzip>),
    Inflate {
        engine: Decompress,
        has_ended: bool,
    },
    Brotli {
        state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
        total: usize,
        has_ended: bool,
    },
    Zstd {
        engine: ZstdDecoder<'static>,
        at: ZstdAt,
    },
    /// The zstd library could not allocate a decoder.
    None,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ZstdAt {
    Start,
    Frame,
    End,
}

impl Decoder {
    /// A decoder for this coding, without bounds.
    pub fn new(coding: Coding) -> Decoder {
        let inflate = |zlib| Engine::Inflate { engine: Decompress::new(zlib), has_ended: false };
        let engine = match coding {
            Coding::Gzip => Engine::Gzip(Box::new(Gzip::new())),
            Coding::Zlib => inflate(true),
            Coding::Deflate => inflate(false),
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                let state = Box::new(BrotliState::new_strict(alloc(), alloc(), alloc()));
                Engine::Brotli { state, total: 0, has_ended: false }
            }
            Coding::Zstd => zstd_engine().unwrap_or(Engine::None),
        };
        let buffer = vec![0; BUFFER_BYTES];
        Decoder { engine, buffer, bytes_in: 0, bytes_out: 0, max_bytes: u64::MAX, max_ratio: None }
    }

    /// Limits the output to this number of bytes.
    pub fn max_bytes(mut self, max_bytes: u64) -> Decoder {
        self.max_bytes = max_bytes;
        self
    }

    /// Limits the output to `ratio` times the input, once it exceeds `from_bytes`.
    pub fn max_ratio(mut self, ratio: u32, from_bytes: u64) -> Decoder {
        self.max_ratio = Some((ratio, from_bytes));
        self
    }

    /// Decodes the next piece of a body to `out`.
    ///
    /// # Errors
    ///
    /// [`CodingError`]; after it nothing more can be decoded, but output written before is valid.
    pub fn push(&mut self, mut piece: &[u8], out: &mut dyn Write) -> Result<(), CodingError> {
        self.bytes_in += piece.len() as u64;
        let mut is_full = false;
        while !piece.is_empty() || is_full {
            let step = self.engine.step(piece, &mut self.buffer)?;
            piece = &piece[step.read..];
            self.write(step.written, out)?;
            if step.read == 0 && step.written == 0 && !step.has_ended && !piece.is_empty() {
                return Err(CodingError::Damaged);
            }
            is_full = step.written == self.buffer.len();
        }
        Ok(())
    }

    /// Checks that the body may end here.
    ///
    /// # Errors
    ///
    /// [`CodingError::EndsEarly`] inside the coding, [`CodingError::GoesOn`] after it.
    pub fn finish(&self) -> Result<(), CodingError> {
        match &self.engine {
            Engine::Gzip(gzip) => gzip.finish(),
            Engine::Inflate { has_ended: true, .. }
            | Engine::Brotli { has_ended: true, .. }
            | Engine::Zstd { at: ZstdAt::End, .. } => Ok(()),
            _ => Err(CodingError::EndsEarly),
        }
    }

    fn write(&mut self, count: usize, out: &mut dyn Write) -> Result<(), CodingError> {
        let room = usize::try_from(self.max_bytes - self.bytes_out).unwrap_or(usize::MAX);
        let taken = count.min(room);
        out.write_all(&self.buffer[..taken]).map_err(CodingError::Output)?;
        self.bytes_out += taken as u64;
        let is_over = |(ratio, from): (u32, u64)| {
            self.bytes_out > from && self.bytes_out > self.bytes_in.saturating_mul(u64::from(ratio))
        };
        if self.max_ratio.is_some_and(is_over) {
            return Err(CodingError::TooDense);
        }
        if taken < count { Err(CodingError::TooLong) } else { Ok(()) }
    }
}

fn zstd_engine() -> Option<Engine> {
    let mut engine = ZstdDecoder::new().ok()?;
    engine.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).ok()?;
    Some(Engine::Zstd { engine, at: ZstdAt::Start })
}

impl Engine {
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, CodingError> {
        match self {
            Engine::Gzip(gzip) => gzip.step(input, out),
            Engine::Inflate { has_ended: true, .. } | Engine::Brotli { has_ended: true, .. } if !input.is_empty() => {
                Err(CodingError::GoesOn)
            }
            Engine::Inflate { has_ended: true, .. } | Engine::Brotli { has_ended: true, .. } => Ok(Step::default()),
            Engine::Inflate { engine, has_ended } => {
                let step = inflate(engine, input, out)?;
                *has_ended = step.has_ended;
                Ok(step)
            }
            Engine::Brotli { state, total, has_ended } => {
                let (mut left, mut room) = (input.len(), out.len());
                let mut step = Step::default();
                let (read, written) = (&mut step.read, &mut step.written);
                match BrotliDecompressStream(&mut left, read, input, &mut room, written, out, total, state) {
                    BrotliResult::ResultFailure => return Err(CodingError::Damaged),
                    result => step.has_ended = matches!(result, BrotliResult::ResultSuccess),
                }
                *has_ended = step.has_ended;
                Ok(step)
            }
            Engine::Zstd { engine, at } => {
                if input.is_empty() && *at != ZstdAt::Frame {
                    return Ok(Step::default());
                }
                if *at == ZstdAt::End {
                    engine.reinit().map_err(|_| CodingError::Damaged)?;
                }
                let (mut source, mut sink) = (InBuffer::around(input), OutBuffer::around(out));
                let hint = engine.run(&mut source, &mut sink).map_err(|_| CodingError::Damaged)?;
                *at = if hint == 0 { ZstdAt::End } else { ZstdAt::Frame };
                Ok(Step { read: source.pos(), written: sink.pos(), has_ended: hint == 0 })
            }
            Engine::None => Err(CodingError::Damaged),
        }
    }
}

fn inflate(engine: &mut Decompress, input: &[u8], out: &mut [u8]) -> Result<Step, CodingError> {
    let (read, written) = (engine.total_in(), engine.total_out());
    let status = engine.decompress(input, out, FlushDecompress::None).map_err(|_| CodingError::Damaged)?;
    let (read, written) = ((engine.total_in() - read) as usize, (engine.total_out() - written) as usize);
    Ok(Step { read, written, has_ended: status == Status::StreamEnd })
}

/// gzip members, one after the other.
struct Gzip {
    part: Part,
    /// The bytes of an incomplete header or trailer.
    held: Vec<u8>,
    engine: Decompress,
    crc: crc32fast::Hasher,
    bytes_out: u32,
    /// True after the first member.
    is_later: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Data,
    Trailer,
}

impl Gzip {
    fn new() -> Gzip {
        let (engine, crc) = (Decompress::new(false), crc32fast::Hasher::new());
        Gzip { part: Part::Header, held: Vec::new(), engine, crc, bytes_out: 0, is_later: false }
    }

    fn finish(&self) -> Result<(), CodingError> {
        match self.part {
            Part::Header if self.is_later && self.held.is_empty() => Ok(()),
            Part::Header if self.is_later => Err(CodingError::GoesOn),
            _ => Err(CodingError::EndsEarly),
        }
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, CodingError> {
        match self.part {
            Part::Header => self.header(input),
            Part::Data => {
                let step = inflate(&mut self.engine, input, out)?;
                self.crc.update(&out[..step.written]);
                self.bytes_out = self.bytes_out.wrapping_add(step.written as u32);
                if step.has_ended {
                    self.part = Part::Trailer;
                }
                Ok(step)
            }
            Part::Trailer => self.trailer(input),
        }
    }

    fn header(&mut self, input: &[u8]) -> Result<Step, CodingError> {
        let held = self.held.len();
        self.held.extend_from_slice(&input[..input.len().min(MAX_GZIP_HEADER_BYTES - held)]);
        let is_none = !begins(&self.held) || self.held.len() == MAX_GZIP_HEADER_BYTES;
        if let Some(bytes) = header_bytes(&self.held).filter(|_| begins(&self.held)) {
            self.held.clear();
            self.engine.reset(false);
            self.part = Part::Data;
            return Ok(Step { read: bytes - held, ..Step::default() });
        }
        match self.is_later {
            _ if !is_none => Ok(Step { read: input.len(), ..Step::default() }),
            true => Err(CodingError::GoesOn),
            false => Err(CodingError::Damaged),
        }
    }

    fn trailer(&mut self, input: &[u8]) -> Result<Step, CodingError> {
        let read = input.len().min(8 - self.held.len());
        self.held.extend_from_slice(&input[..read]);
        if self.held.len() == 8 {
            let crc = std::mem::take(&mut self.crc).finalize();
            if self.held[..4] != crc.to_le_bytes() || self.held[4..] != self.bytes_out.to_le_bytes() {
                return Err(CodingError::Damaged);
            }
            self.held.clear();
            (self.part, self.bytes_out, self.is_later) = (Part::Header, 0, true);
        }
        Ok(Step { read, ..Step::default() })
    }
}

/// Returns whether these may be the first bytes of a gzip member.
fn begins(bytes: &[u8]) -> bool {
    let magic = [0x1f, 0x8b, 8];
    let known = bytes.len().min(magic.len());
    bytes[..known] == magic[..known] && bytes.get(3).is_none_or(|flags| flags & 0xe0 == 0)
}

/// The length of the gzip header at the start of `bytes`; `None` if it does not end within them.
pub(crate) fn header_bytes(bytes: &[u8]) -> Option<usize> {
    let flags = *bytes.get(3)?;
    let mut at = 10;
    if flags & 4 != 0 {
        at += 2 + usize::from(try_get::<u16>(bytes, at)?);
    }
    for text in [8, 16] {
        if flags & text != 0 {
            at += memchr::memchr(0, bytes.get(at..)?)? + 1;
        }
    }
    at += usize::from(flags & 2);
    (at <= bytes.len()).then_some(at)
}
