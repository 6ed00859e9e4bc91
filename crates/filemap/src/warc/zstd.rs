//! One zstd frame (RFC 8878) of a WARC file, decoded step by step, and the dictionary frame before
//! it.
//!
//! A `.warc.zst` may begin with a skippable frame with the magic number 0x184D2A5D. Its content is
//! a dictionary, raw or as a zstd frame, for the following frames up to the next dictionary (files
//! may be concatenated).
//!
//! Invariant: a dictionary is bounded, before and after it is decompressed.

use std::io::{self, Read};

use ::zstd::dict::DecoderDictionary;
use ::zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};
use filemap_io::layout::try_get;

use crate::warc::arc;
use crate::warc::input::Input;
use crate::warc::step::{Broken, Step};

const STEP_BYTES: usize = 64 << 10;
const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const DICTIONARY_MAGIC: [u8; 4] = [0x5d, 0x2a, 0x4d, 0x18];
/// The longest dictionary frame, and the longest decompressed dictionary.
const MAX_DICTIONARY_FRAME_BYTES: usize = 16 << 20;
const MAX_DICTIONARY_BYTES: usize = 64 << 20;
/// The longest skippable frame; a greater length is damage.
const MAX_SKIPPED_BYTES: u32 = 16 << 20;

/// Kind of frame that begins here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    Frame,
    Dictionary,
    Skippable,
    Nothing,
}

/// Examines the next bytes.
pub(crate) fn begins(bytes: &[u8]) -> Begins {
    match bytes.get(..4) {
        Some(magic) if magic == FRAME_MAGIC => Begins::Frame,
        Some(magic) if magic == DICTIONARY_MAGIC => Begins::Dictionary,
        Some([low, 0x2a, 0x4d, 0x18]) if low & 0xf0 == 0x50 => Begins::Skippable,
        _ => Begins::Nothing,
    }
}

/// The dictionary frame at the start of a file, verbatim; empty if there is none.
pub(crate) fn dictionary_frame(file: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut frame = Vec::new();
    file.take(8).read_to_end(&mut frame)?;
    let length = frame.strip_prefix(&DICTIONARY_MAGIC).and_then(|length| try_get::<u32>(length, 0));
    let Some(length) = length else { return Ok(Vec::new()) };
    let length = u64::from(length).min(MAX_DICTIONARY_FRAME_BYTES as u64);
    file.take(length).read_to_end(&mut frame)?;
    Ok(frame)
}

/// Decodes frames, one after the other.
pub(crate) struct Zstd {
    decoder: Decoder<'static>,
    /// Prepared once: trials at many offsets must not copy a dictionary of megabytes.
    dictionary: DecoderDictionary<'static>,
    out: Vec<u8>,
}

impl Zstd {
    pub(crate) fn new(dictionary: Vec<u8>) -> io::Result<Zstd> {
        let decoder = Decoder::with_dictionary(&dictionary)?;
        let dictionary = DecoderDictionary::copy(&dictionary);
        Ok(Zstd { decoder, dictionary, out: vec![0; STEP_BYTES] })
    }

    /// Prepares for the next frame; the dictionary is kept.
    pub(crate) fn reset(&mut self) -> io::Result<()> {
        self.decoder.reinit()
    }

    /// Returns whether `bytes` are the beginning of a frame that decodes.
    pub(crate) fn decodes(&self, bytes: &[u8]) -> bool {
        self.trial(bytes, |_| true)
    }

    /// See [`arc::member_begins`].
    pub(crate) fn starts_with_record(&self, bytes: &[u8], is_arc: bool) -> bool {
        arc::member_begins(is_arc, |go_on| self.trial(bytes, go_on))
    }

    /// Decodes a frame while `go_on` returns true. Returns false if the frame is invalid.
    fn trial(&self, bytes: &[u8], mut go_on: impl FnMut(&[u8]) -> bool) -> bool {
        let Ok(mut decoder) = Decoder::with_prepared_dictionary(&self.dictionary) else { return false };
        let mut out = vec![0; STEP_BYTES];
        let mut input = InBuffer::around(bytes);
        loop {
            let mut output = OutBuffer::around(&mut out[..]);
            let before = input.pos();
            let result = decoder.run(&mut input, &mut output);
            let written = output.pos();
            match result {
                Err(_) => return false,
                _ if !go_on(&out[..written]) => return true,
                Ok(0) => return true,
                Ok(_) if written == 0 && input.pos() == before => return input.pos() == bytes.len(),
                Ok(_) => {}
            }
        }
    }

    /// Decodes the next bytes, and appends them to `out`.
    pub(crate) fn step<R: Read>(&mut self, input: &mut Input<R>, out: &mut Vec<u8>) -> io::Result<Step> {
        let available = input.ensure(1)?;
        let at_end = available.is_empty();
        let mut source = InBuffer::around(available);
        let mut sink = OutBuffer::around(&mut self.out[..]);
        let result = self.decoder.run(&mut source, &mut sink);
        let (read, written) = (source.pos(), sink.pos());
        out.extend_from_slice(&self.out[..written]);
        input.consume(read);
        Ok(match result {
            Err(_) => Step::Broken(Broken::damaged("the zstd data is invalid")),
            Ok(0) => Step::End,
            Ok(_) if at_end && written == 0 => Step::Broken(Broken::cut("inside the zstd data")),
            Ok(_) => Step::More,
        })
    }
}

/// The length of the skippable frame at the start of `input`; `None` if it is cut or longer than
/// [`MAX_SKIPPED_BYTES`].
pub(crate) fn skippable_bytes<R: Read>(input: &mut Input<R>) -> io::Result<Option<usize>> {
    let Some(size) = frame_size(input)?.filter(|size| *size <= MAX_SKIPPED_BYTES) else { return Ok(None) };
    let bytes = 8 + size as usize;
    Ok((input.ensure(bytes)?.len() >= bytes).then_some(bytes))
}

/// Reads the dictionary frame at the start of `input`. Returns `None` if it is damaged; then only
/// its magic number is consumed.
pub(crate) fn read_dictionary<R: Read>(input: &mut Input<R>) -> io::Result<Option<Vec<u8>>> {
    let size = frame_size(input)?.map_or(usize::MAX, |bytes| bytes as usize);
    if size <= MAX_DICTIONARY_FRAME_BYTES {
        let content = input.ensure(8 + size)?.get(8..8 + size);
        if let Some(dictionary) = content.and_then(dictionary) {
            input.consume(8 + size);
            return Ok(Some(dictionary));
        }
    }
    input.consume(DICTIONARY_MAGIC.len());
    Ok(None)
}

fn frame_size<R: Read>(input: &mut Input<R>) -> io::Result<Option<u32>> {
    Ok(try_get(input.ensure(8)?, DICTIONARY_MAGIC.len()))
}

fn dictionary(content: &[u8]) -> Option<Vec<u8>> {
    if begins(content) != Begins::Frame {
        return Some(content.to_vec());
    }
    let mut out = Vec::new();
    let decoder = ::zstd::stream::read::Decoder::with_buffer(content).ok()?;
    decoder.take(MAX_DICTIONARY_BYTES as u64 + 1).read_to_end(&mut out).ok()?;
    Some(out).filter(|out| out.len() <= MAX_DICTIONARY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: &[u8], dictionary: &[u8]) -> (Vec<u8>, std::result::Result<u64, Broken>) {
        let mut zstd = Zstd::new(dictionary.to_vec()).expect("a decoder");
        let (mut input, mut out) = (Input::new(bytes), Vec::new());
        loop {
            match zstd.step(&mut input, &mut out).expect("memory") {
                Step::More => {}
                Step::End => return (out, Ok(input.offset())),
                Step::Broken(broken) => return (out, Err(broken)),
            }
        }
    }

    #[test]
    fn a_frame_ends_at_its_exact_offset() {
        let text = b"text ".repeat(100_000);
        let one = ::zstd::encode_all(&text[..], 3).expect("memory");
        let two = [&one[..], &one].concat();
        assert_eq!(run(&two, b""), (text, Ok(one.len() as u64)));
    }

    #[test]
    fn a_frame_cut_anywhere_is_a_cut() {
        let one = ::zstd::encode_all(&b"some text"[..], 3).expect("memory");
        for cut in 0..one.len() {
            assert!(run(&one[..cut], b"").1.expect_err("cut").is_cut, "cut at {cut}");
        }
    }

    #[test]
    fn a_dictionary_is_read_as_it_is_and_compressed() {
        let words = b"a dictionary of words that come again".to_vec();
        let packed = ::zstd::encode_all(&words[..], 3).expect("memory");
        for content in [&words, &packed] {
            let frame = [&DICTIONARY_MAGIC[..], &(content.len() as u32).to_le_bytes(), content, b"rest"].concat();
            assert_eq!(begins(&frame), Begins::Dictionary);
            let mut input = Input::new(&frame[..]);
            assert_eq!(read_dictionary(&mut input).expect("memory"), Some(words.clone()));
            assert_eq!(input.offset(), frame.len() as u64 - 4);
            let mut input = Input::new(&frame[..frame.len() - 5]);
            assert_eq!(read_dictionary(&mut input).expect("memory"), None);
        }
    }

    #[test]
    fn a_skippable_frame_has_a_length_if_all_of_it_is_there() {
        let frame = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc", b"rest"].concat();
        assert_eq!(begins(&frame), Begins::Skippable);
        for (end, expected) in [(frame.len(), Some(11)), (11, Some(11)), (10, None), (8, None), (7, None), (4, None)] {
            assert_eq!(skippable_bytes(&mut Input::new(&frame[..end])).expect("memory"), expected, "{end}");
        }
        let mut long = [&frame[..4], &(MAX_SKIPPED_BYTES + 1).to_le_bytes()].concat();
        long.resize(MAX_SKIPPED_BYTES as usize + 100, 0);
        assert_eq!(skippable_bytes(&mut Input::new(&long[..])).expect("memory"), None);
    }
}
