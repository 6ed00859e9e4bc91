//! The text of a document as a stream: gunzipped, converted to UTF-8, and bounded.
//!
//! Invariant: memory is a few pieces, however long the text is. Everything before damage or a
//! limit is read; [`Source::stop`] says what ended the text early.

use std::io::{self, BufRead, Read};

use filemap::coding::{Coding, CodingError, Decoder};
use urlindex::canonical::Encoding;

use crate::settings::limits::RATIO_FROM_BYTES;

/// The size of a piece.
const PIECE_BYTES: usize = 16 << 10;
/// The first bytes, in which a document may declare its encoding.
const HEAD_BYTES: usize = 1024;
/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reason why a text ends before its document does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is longer than the limit.
    Full,
    /// The expansion exceeds the limit.
    Ratio,
    /// The gzip file is damaged or ends early.
    Damaged,
}

/// The bounds of a text.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The maximum length of the expanded document.
    pub bytes: u64,
    /// Largest expansion of a gzip file.
    pub ratio: u32,
}

/// The text of a document.
pub struct Source<'a> {
    /// The rest of the document, not read yet.
    rest: &'a [u8],
    gzip: Option<Decoder>,
    /// The remaining byte budget, counted before conversion to UTF-8.
    room: u64,
    /// The first bytes, until the encoding is known.
    head: Vec<u8>,
    content_type: Option<&'a [u8]>,
    decoder: Option<encoding_rs::Decoder>,
    text: String,
    at: usize,
    has_ended: bool,
    stop: Option<Stop>,
}

impl<'a> Source<'a> {
    /// The text of a document with this `Content-Type`; a gzip file is expanded.
    pub fn new(body: &'a [u8], content_type: Option<&'a [u8]>, size: Size) -> Source<'a> {
        let gzip = is_gzip(body).then(|| {
            let decoder = Decoder::new(Coding::Gzip).max_bytes(size.bytes);
            decoder.max_ratio(size.ratio, RATIO_FROM_BYTES)
        });
        Source {
            rest: body,
            gzip,
            room: size.bytes,
            head: Vec::new(),
            content_type,
            decoder: None,
            text: String::new(),
            at: 0,
            has_ended: false,
            stop: None,
        }
    }

    /// The reason why the text ended early, once it is read.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Reads the next piece.
    fn fill(&mut self) {
        self.text.clear();
        self.at = 0;
        let mut bytes = self.piece();
        self.has_ended = self.rest.is_empty() || self.stop.is_some();
        if self.decoder.is_none() {
            self.head.append(&mut bytes);
            if self.head.len() < HEAD_BYTES && !self.has_ended {
                return;
            }
            bytes = std::mem::take(&mut self.head);
            self.decoder = Some(encoding(&bytes, self.content_type).new_decoder());
        }
        if let Some(decoder) = &mut self.decoder {
            self.text.reserve(decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len() * 3 + 16));
            // The buffer has room for all of it.
            let _ = decoder.decode_to_string(&bytes, &mut self.text, self.has_ended);
        }
    }

    /// The next bytes of the expanded document.
    fn piece(&mut self) -> Vec<u8> {
        let (piece, rest) = self.rest.split_at(self.rest.len().min(PIECE_BYTES));
        self.rest = rest;
        let mut bytes = Vec::new();
        match &mut self.gzip {
            None => bytes.extend_from_slice(piece),
            Some(gzip) => {
                let pushed = gzip.push(piece, &mut bytes);
                let pushed = pushed.and_then(|()| if rest.is_empty() { gzip.finish() } else { Ok(()) });
                self.stop = match pushed {
                    Ok(()) => None,
                    // Files may be zero-padded; everything before the padding has been read.
                    Err(CodingError::GoesOn) => {
                        self.rest = &[];
                        None
                    }
                    Err(CodingError::TooLong) => Some(Stop::Full),
                    Err(CodingError::TooDense) => Some(Stop::Ratio),
                    Err(_) => Some(Stop::Damaged),
                };
            }
        }
        if bytes.len() as u64 > self.room {
            bytes.truncate(usize::try_from(self.room).unwrap_or(usize::MAX));
            self.stop = Some(Stop::Full);
        }
        self.room -= bytes.len() as u64;
        bytes
    }
}

/// Returns whether a body is a gzip file.
pub fn is_gzip(body: &[u8]) -> bool {
    body.starts_with(&GZIP)
}

/// The encoding of a document with this head; XML is also detected by its first character.
fn encoding(head: &[u8], content_type: Option<&[u8]>) -> &'static Encoding {
    let named = |label: &[u8]| Encoding::for_label(label).unwrap_or(urlindex::canonical::UTF_8);
    match head {
        [b'<', 0, ..] => return named(b"utf-16le"),
        [0, b'<', ..] => return named(b"utf-16be"),
        _ => {}
    }
    // A character cut off at the end of the head is not evidence against UTF-8.
    let head = &head[..head.len().min(HEAD_BYTES)];
    let whole = head.iter().rposition(u8::is_ascii).map_or(0, |at| at + 1);
    filemap::page::encoding::decode(&head[..whole], content_type).1
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at >= self.text.len() && !self.has_ended {
            self.fill();
        }
        Ok(self.text.as_bytes().get(self.at..).unwrap_or_default())
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

impl Read for Source<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let text = self.fill_buf()?;
        let count = text.len().min(out.len());
        out[..count].copy_from_slice(&text[..count]);
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SIZE: Size = Size { bytes: 50 << 20, ratio: 100 };

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn read(body: &[u8], kind: Option<&str>, size: Size) -> (String, Option<Stop>) {
        let mut source = Source::new(body, kind.map(str::as_bytes), size);
        let mut text = String::new();
        source.read_to_string(&mut text).unwrap();
        (text, source.stop())
    }

    fn numbers(count: usize) -> String {
        (0..count).map(|n| format!("line {n} of a text that is {}\n", n * n)).collect()
    }

    #[test]
    fn a_gzip_file_is_read_to_its_last_byte() {
        for count in [0, 1, 100, 3000, 40_000] {
            let text = numbers(count);
            assert_eq!(read(&gzip(text.as_bytes()), None, SIZE), (text.clone(), None), "{count}");
            let members = [gzip(text.as_bytes()), gzip(b"and more")].concat();
            assert_eq!(read(&members, None, SIZE), (text.clone() + "and more", None), "{count}");
            let filled_up = [gzip(text.as_bytes()), vec![0; 700]].concat();
            assert_eq!(read(&filled_up, None, SIZE), (text, None), "{count}");
        }
    }

    #[test]
    fn a_gzip_file_of_any_making_is_read_to_its_last_byte() {
        let lines = numbers(100);
        for level in 0..10 {
            let builder = flate2::GzBuilder::new().filename("sitemap.xml").comment("made").extra(vec![1, 2, 3, 4]);
            let mut out = builder.write(Vec::new(), flate2::Compression::new(level));
            for line in lines.split_inclusive('\n') {
                out.write_all(line.as_bytes()).unwrap();
                out.flush().unwrap();
            }
            assert_eq!(read(&out.finish().unwrap(), None, SIZE), (lines.clone(), None), "{level}");
        }
    }

    #[test]
    fn of_a_gzip_file_that_is_cut_all_is_read_that_is_there() {
        let text = numbers(40_000);
        let coded = gzip(text.as_bytes());
        for cut in [coded.len() / 2, coded.len() - 8, coded.len() - 1] {
            let (read, stop) = read(&coded[..cut], None, SIZE);
            assert!(text.starts_with(&read) && read.len() >= text.len() / 3, "{} at {cut}", read.len());
            assert_eq!(stop, Some(Stop::Damaged));
            assert!(cut < coded.len() - 8 || read == text, "only the trailer is missing");
        }
    }

    #[test]
    fn the_bounds_are_kept_and_named() {
        let text = numbers(1000);
        let small = Size { bytes: 100, ..SIZE };
        assert_eq!(read(text.as_bytes(), None, small), (text[..100].to_owned(), Some(Stop::Full)));
        assert_eq!(read(&gzip(text.as_bytes()), None, small), (text[..100].to_owned(), Some(Stop::Full)));
        let (read, stop) = read(&gzip(&vec![b' '; 32 << 20]), None, SIZE);
        assert!(stop == Some(Stop::Ratio) && read.len() < 4 << 20, "{}", read.len());
    }

    #[test]
    fn the_encoding_is_that_of_the_mark_the_declaration_or_the_head() {
        let utf16 = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        let long = "<?xml version='1.0'?>".to_owned() + &"é".repeat(2000);
        type Row<'a> = (Vec<u8>, Option<&'a str>, &'a str);
        let cases: [Row<'_>; 6] = [
            (utf16(&format!("\u{feff}{long}")), None, &long),
            (utf16(&long), None, &long),
            (long.as_bytes().to_vec(), None, &long),
            (b"\xef\xbb\xbf<a>\xc3\xa9".to_vec(), None, "<a>é"),
            (b"<a>\xe9".to_vec(), Some("text/xml; charset=iso-8859-1"), "<a>é"),
            (
                b"<?xml version='1.0' encoding='ISO-8859-1'?>\xe9".to_vec(),
                None,
                "<?xml version='1.0' encoding='ISO-8859-1'?>é",
            ),
        ];
        for (body, kind, text) in cases {
            assert_eq!(read(&body, kind, SIZE), (text.to_owned(), None), "{kind:?}");
        }
    }
}
