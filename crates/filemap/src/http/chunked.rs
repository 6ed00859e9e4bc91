//! Streaming decoder of the chunked transfer coding (RFC 9112, section 7.1).
//!
//! Accepts sizes with spaces or leading zeros, bare LF, extensions, a missing line end after the
//! last chunk. Many archives keep the header `Transfer-Encoding: chunked` on a body that is no
//! longer chunked: such a body mostly fails at its first size line, and the caller keeps it
//! unchanged.
//!
//! Invariant: [`End::Whole`] means that every byte of the body was part of the coding. An empty
//! body (`0`) must be coded strictly, since a short text can look like one.

use std::io::{self, BufRead};

use crate::http::head;
use crate::page::headers::Headers;

/// The longest size line or trailer line.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Maximum number of lines of a trailer.
const MAX_TRAILERS: usize = 256;

/// Ending of a chunked body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With its last chunk, these trailer fields, and nothing after them.
    Whole(Headers),
    /// In the middle of a chunk, or before the last one.
    Cut,
    /// It was never chunked: even the first size line is invalid.
    NotChunked,
    /// It stops being chunked in the middle, or continues after its end.
    Invalid,
}

/// Copies the chunks of `source` to `sink`.
///
/// # Errors
///
/// Those of `source` and `sink`; bytes that are not chunked are an [`End`], not an error.
pub(crate) fn decode<E: From<io::Error>>(
    source: &mut impl BufRead,
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<End, E> {
    let mut first = true;
    loop {
        let line = read_line(source)?;
        let size = line.as_ref().and_then(|line| chunk_size(&line.text));
        let (Some(line), Some(size)) = (line.as_ref(), size) else {
            let cut = line.is_some_and(|line| line.text.is_empty() && !line.ended);
            return Ok(if first {
                End::NotChunked
            } else if cut {
                End::Cut
            } else {
                End::Invalid
            });
        };
        if !line.ended {
            return Ok(if first { End::NotChunked } else { End::Cut });
        }
        if size == 0 {
            let end = if first { nothing(source, line.has_cr) } else { trailers(source) };
            return end.map_err(E::from);
        }
        first = false;
        if copy(source, size, &mut sink)? < size {
            return Ok(End::Cut);
        }
        if !after_chunk(source)? {
            return Ok(End::Invalid);
        }
    }
}

struct Line {
    text: Vec<u8>,
    /// True if the line ended with LF.
    ended: bool,
    /// True if a CR came before the LF.
    has_cr: bool,
}

/// A line without its line end; `None` if it is too long.
fn read_line(source: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut text = Vec::new();
    let mut limited = io::Read::take(source, MAX_LINE_BYTES as u64);
    limited.read_until(b'\n', &mut text)?;
    let ended = text.last() == Some(&b'\n');
    if !ended && text.len() == MAX_LINE_BYTES {
        return Ok(None);
    }
    let has_cr = text.ends_with(b"\r\n");
    while matches!(text.last(), Some(b'\n' | b'\r')) {
        text.pop();
    }
    Ok(Some(Line { text, ended, has_cr }))
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    let digits = head::trim(digits);
    if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn copy<E: From<io::Error>>(
    source: &mut impl BufRead,
    size: u64,
    sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<u64, E> {
    let mut done = 0;
    while done < size {
        let available = source.fill_buf()?;
        if available.is_empty() {
            break;
        }
        let take = available.len().min(usize::try_from(size - done).unwrap_or(usize::MAX));
        sink(&available[..take])?;
        source.consume(take);
        done += take as u64;
    }
    Ok(done)
}

/// Reads the line end after a chunk: CRLF, LF, or the end of the body. Returns false for other
/// bytes.
fn after_chunk(source: &mut impl BufRead) -> io::Result<bool> {
    for expected in [b'\r', b'\n'] {
        match source.fill_buf()?.first() {
            Some(&byte) if byte == expected => source.consume(1),
            Some(_) if expected == b'\r' => {}
            Some(_) => return Ok(false),
            None => return Ok(true),
        }
    }
    Ok(true)
}

/// Reads the end of an empty body: one blank line.
fn nothing(source: &mut impl BufRead, has_cr: bool) -> io::Result<End> {
    let line = read_line(source)?;
    let is_blank = line.is_some_and(|line| line.text.is_empty() && line.ended && line.has_cr);
    Ok(if has_cr && is_blank && is_at_end(source)? { End::Whole(Headers::new()) } else { End::Invalid })
}

/// Reads the fields after the last chunk, up to a blank line and the end of the body.
fn trailers(source: &mut impl BufRead) -> io::Result<End> {
    let mut headers = Headers::new();
    for _ in 0..MAX_TRAILERS {
        let Some(line) = read_line(source)? else { return Ok(End::Invalid) };
        if line.text.is_empty() {
            return Ok(if is_at_end(source)? { End::Whole(headers) } else { End::Invalid });
        }
        if !head::is_field(&line.text) {
            return Ok(End::Invalid);
        }
        if !line.ended {
            return Ok(End::Cut);
        }
        head::push_field(&mut headers, &line.text);
    }
    Ok(End::Invalid)
}

fn is_at_end(source: &mut impl BufRead) -> io::Result<bool> {
    source.fill_buf().map(<[u8]>::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(body: &[u8]) -> (Vec<u8>, End) {
        let mut out = Vec::new();
        let end = decode::<io::Error>(&mut &body[..], |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        });
        (out, end.expect("memory does not fail"))
    }

    fn whole() -> End {
        End::Whole(Headers::new())
    }

    #[test]
    fn chunks_are_joined() {
        assert_eq!(run(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), (b"abcde".to_vec(), whole()));
        assert_eq!(run(b"0\r\n\r\n"), (Vec::new(), whole()));
    }

    #[test]
    fn what_servers_write_is_taken() {
        assert_eq!(run(b"00003 \r\nabc\r\n0;x=y\r\n\r\n"), (b"abc".to_vec(), whole()));
        assert_eq!(run(b"3;ext\nabc\n0\n\n"), (b"abc".to_vec(), whole()));
        assert_eq!(run(b"1\r\na\r\n0\r\n"), (b"a".to_vec(), whole()));
        assert_eq!(run(b"1\r\na\r\n0"), (b"a".to_vec(), End::Cut));
    }

    #[test]
    fn trailers_are_kept() {
        let (body, end) = run(b"1\r\na\r\n0\r\nDigest: x\r\n\r\n");
        assert_eq!(body, b"a");
        assert!(matches!(end, End::Whole(trailers) if trailers.get("digest") == Some(b"x")));
    }

    #[test]
    fn what_stands_behind_the_end_makes_the_coding_invalid() {
        for rest in [&b"x"[..], b"\r\n", b"<html>", b"0\r\n\r\n"] {
            assert_eq!(run(&[b"1\r\na\r\n0\r\n\r\n", rest].concat()).1, End::Invalid, "{rest:?}");
            assert_eq!(run(&[b"0\r\n\r\n", rest].concat()).1, End::Invalid, "{rest:?}");
        }
        assert_eq!(run(b"1\r\na\r\n0\r\nno field\r\n\r\n").1, End::Invalid);
        assert_eq!(run(b"1\r\na\r\n0\r\nDigest: x").1, End::Cut);
    }

    #[test]
    fn a_text_that_begins_with_a_nought_is_not_an_empty_body() {
        for text in ["0\nhello", "0\n", "0\r\n", "00\n\n", "0\nkey: value\n\n", "0\r\nkey: value\r\n\r\n", "0;x\nhello"]
        {
            assert_eq!(run(text.as_bytes()).1, End::Invalid, "{text:?}");
        }
    }

    #[test]
    fn a_body_cut_off_gives_its_beginning() {
        let body = b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
        for cut in 3..body.len() - 4 {
            let (out, end) = run(&body[..cut]);
            assert_eq!(end, End::Cut, "cut at {cut}");
            assert!(b"abcdefg".starts_with(&out), "cut at {cut}");
        }
    }

    #[test]
    fn a_body_that_is_not_chunked_is_found_out() {
        for body in [&b""[..], b"<html>", b"\x1f\x8b\x08", b"3", b"fffffffffffffffff\r\n", &[b'0'; 20_000]] {
            assert_eq!(run(body).1, End::NotChunked, "{body:?}");
        }
        for body in [&b"3\r\nabcX\r\n0\r\n\r\n"[..], b"3\r\nabc\r\nxyz\r\n", b"3\r\nabc\r\n\r\n0\r\n\r\n"] {
            assert_eq!(run(body).1, End::Invalid, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_somehow(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = run(&body);
        }

        #[test]
        fn chunks_of_any_size_read_back(parts in proptest::collection::vec("[a-z]{1,40}", 0..20)) {
            let mut body = Vec::new();
            for part in &parts {
                body.extend_from_slice(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes());
            }
            body.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(run(&body), (parts.concat().into_bytes(), whole()));
        }
    }
}
