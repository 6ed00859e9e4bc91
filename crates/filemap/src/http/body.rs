//! Decodes the body of an answer for the store, and adjusts its headers.
//!
//! Transfer codings are undone, and content codings too unless bodies are kept as received.
//! Headers lie: a coding is undone only if it covers exactly the whole body; otherwise the body
//! stays as received, and the caller gets the reason. Fields that no longer hold are renamed, as
//! Common Crawl does (`X-Crawler-Transfer-Encoding`, `X-Crawler-Content-Encoding`,
//! `X-Crawler-Content-Length`), and `Content-Length` gives the length of the body kept.
//!
//! Invariant: an unchanged body keeps its headers, except a `Transfer-Encoding: chunked` that the
//! archive had already undone.

use std::io::BufReader;

use crate::error::{Error, Result};
use crate::http::chunked::{self, End};
use crate::http::coding::{Coding, CodingError};
use crate::http::content;
use crate::page::headers::Headers;
use crate::spool::{Payload, Spool};

/// The chunked transfer coding.
const CHUNKED: &str = "chunked";

/// Form in which bodies are kept.
#[derive(Clone, Debug)]
pub(crate) struct BodyRules {
    /// Keep content codings.
    pub(crate) as_received: bool,
    /// The longest decoded body, in bytes.
    pub(crate) max_decoded_bytes: u64,
    pub(crate) spool: Spool,
}

impl BodyRules {
    /// Rules that decode bodies up to 256 MiB.
    pub(crate) fn decoded() -> BodyRules {
        BodyRules { as_received: false, max_decoded_bytes: 256 << 20, spool: Spool::default() }
    }
}

/// A body as kept.
pub(crate) struct Body {
    pub(crate) payload: Payload,
    /// A content coding was undone.
    pub(crate) decoded: bool,
    /// A coding could not be undone: the body is as received.
    pub(crate) as_received: bool,
    /// The chunked coding ends early: the body is incomplete.
    pub(crate) cut: bool,
}

/// Undoes the codings of `payload`, and adjusts `headers`.
pub(crate) fn undo(headers: &mut Headers, payload: Payload, rules: &BodyRules) -> Result<Body> {
    let received_bytes = payload.len();
    let mut body = Body { payload, decoded: false, as_received: false, cut: false };
    let transfer = undo_transfer(headers, &mut body, rules)?;
    if !rules.as_received && transfer != Transfer::Damaged {
        undo_content(headers, &mut body, rules)?;
    }
    if transfer == Transfer::Undone || body.decoded || body.payload.len() != received_bytes {
        headers.set_length(body.payload.len());
    }
    Ok(body)
}

/// Undoes the content codings of `payload`, and adjusts `headers`: for a body whose transfer
/// codings have been undone, whatever the headers say.
pub(crate) fn undo_content_only(headers: &mut Headers, payload: Payload, rules: &BodyRules) -> Result<Body> {
    let mut body = Body { payload, decoded: false, as_received: false, cut: false };
    if !rules.as_received {
        undo_content(headers, &mut body, rules)?;
    }
    if body.decoded {
        headers.set_length(body.payload.len());
    }
    Ok(body)
}

/// Adjusts the headers of a revisit whose body [`undo`] decoded as another record's.
pub(crate) fn undo_revisit(headers: &mut Headers) {
    let is_known = |coding: &String| coding == CHUNKED || !Coding::named(coding).is_empty();
    if headers.items("Transfer-Encoding").iter().any(is_known) {
        headers.rename("Transfer-Encoding", "X-Crawler-Transfer-Encoding");
    }
}

/// Result of undoing the transfer codings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transfer {
    /// They were undone.
    Undone,
    /// The body has none.
    Left,
    /// The headers are wrong: the body is as received.
    Damaged,
}

/// Undoes the transfer codings, the last one first: all of them, or none.
fn undo_transfer(headers: &mut Headers, body: &mut Body, rules: &BodyRules) -> Result<Transfer> {
    let mut codings = headers.items("Transfer-Encoding");
    codings.retain(|coding| coding != "identity");
    let is_chunked = codings.iter().any(|coding| coding == CHUNKED);
    if codings.is_empty() || body.payload.len() == 0 && !is_chunked {
        return Ok(Transfer::Left);
    }
    if codings.len() > content::MAX_CODINGS {
        body.as_received = true;
        return Ok(Transfer::Damaged);
    }
    let (mut current, mut trailers) = (None, Headers::new());
    for coding in codings.iter().rev() {
        let source = current.as_mut().unwrap_or(&mut body.payload);
        // Servers announce codings for empty bodies.
        if source.len() == 0 && coding != CHUNKED {
            continue;
        }
        let undone = if coding == CHUNKED {
            match unchunk(source, rules)? {
                // The archive had already undone it.
                (End::NotChunked, _) => continue,
                (End::Invalid, _) => Err(CodingError::Damaged),
                (End::Cut, _) => {
                    body.cut = true;
                    Err(CodingError::EndsEarly)
                }
                (End::Whole(fields), payload) => {
                    trailers.0.extend(fields.0);
                    Ok(payload)
                }
            }
        } else {
            content::undo_one(coding, source, &rules.spool, rules.max_decoded_bytes)?
        };
        match undone {
            Ok(payload) => current = Some(payload),
            Err(why) => {
                body.as_received = true;
                // An unknown word (such as `binary`) does not affect the content codings.
                let is_left = matches!(why, CodingError::Unknown) && !is_chunked;
                return Ok(if is_left { Transfer::Left } else { Transfer::Damaged });
            }
        }
    }
    headers.0.extend(trailers.0);
    headers.rename("Transfer-Encoding", "X-Crawler-Transfer-Encoding");
    let Some(payload) = current else { return Ok(Transfer::Left) };
    body.payload = payload;
    Ok(Transfer::Undone)
}

/// Undoes the chunked coding. Returns its ending, and the decoded body.
fn unchunk(body: &mut Payload, rules: &BodyRules) -> Result<(End, Payload)> {
    let mut out = rules.spool.writer(u64::MAX);
    let mut source = BufReader::with_capacity(64 << 10, body.reader()?);
    let end = chunked::decode::<SpoolFailure>(&mut source, |bytes| out.push(bytes).map_err(SpoolFailure::Write));
    match end {
        Ok(end) => Ok((end, out.finish())),
        Err(SpoolFailure::Read(source)) => Err(Error::Spool { dir: rules.spool.dir.clone(), source }),
        Err(SpoolFailure::Write(error)) => Err(error),
    }
}

/// A failure while chunks are copied from one spool to another.
enum SpoolFailure {
    Read(std::io::Error),
    Write(Error),
}

impl From<std::io::Error> for SpoolFailure {
    fn from(error: std::io::Error) -> SpoolFailure {
        SpoolFailure::Read(error)
    }
}

fn undo_content(headers: &mut Headers, body: &mut Body, rules: &BodyRules) -> Result<()> {
    let mut codings = headers.items("Content-Encoding");
    codings.retain(|coding| coding != "identity" && coding != "none");
    if codings.is_empty() || body.payload.len() == 0 {
        return Ok(());
    }
    match content::undo(&codings, &mut body.payload, &rules.spool, rules.max_decoded_bytes)? {
        Ok(payload) => {
            body.payload = payload;
            body.decoded = true;
            headers.rename("Content-Encoding", "X-Crawler-Content-Encoding");
        }
        Err(_) => body.as_received = true,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn rules(as_received: bool) -> BodyRules {
        BodyRules { as_received, max_decoded_bytes: 1 << 20, spool: Spool::default() }
    }

    fn headers(fields: &[(&str, &str)]) -> Headers {
        fields.iter().map(|(name, value)| crate::page::headers::Header::new(*name, *value)).collect()
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).expect("memory");
        out.finish().expect("memory")
    }

    fn chunked(bytes: &[u8]) -> Vec<u8> {
        [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n0\r\n\r\n"].concat()
    }

    fn run(fields: &[(&str, &str)], body: &[u8], as_received: bool) -> (Headers, Vec<u8>, Body) {
        let mut headers = headers(fields);
        let mut body = undo(&mut headers, Payload::Memory(body.to_vec()), &rules(as_received)).expect("memory");
        let bytes = body.payload.prefix(usize::MAX).expect("memory");
        (headers, bytes, body)
    }

    #[test]
    fn codings_go_and_headers_tell_in_common_crawls_way() {
        let wire = chunked(&gz(b"hello"));
        let fields =
            [("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip"), ("Content-Length", "99"), ("B", "")];
        let (told, bytes, body) = run(&fields, &wire, false);
        assert_eq!(bytes, b"hello");
        assert!(body.decoded);
        let expected = [
            ("X-Crawler-Transfer-Encoding", "chunked"),
            ("X-Crawler-Content-Encoding", "gzip"),
            ("X-Crawler-Content-Length", "99"),
            ("B", ""),
            ("Content-Length", "5"),
        ];
        assert_eq!(told, headers(&expected));
    }

    #[test]
    fn as_received_only_the_chunks_go() {
        let wire = chunked(&gz(b"hello"));
        let fields = [("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")];
        let (told, bytes, body) = run(&fields, &wire, true);
        assert_eq!(bytes, gz(b"hello"));
        assert!(!body.decoded && !body.as_received);
        assert_eq!(told.get("Content-Encoding"), Some(&b"gzip"[..]));
        assert_eq!(told.get("Content-Length"), Some(bytes.len().to_string().as_bytes()));
    }

    #[test]
    fn an_untouched_body_keeps_its_headers() {
        for fields in [&[("Content-Length", "7")][..], &[("Content-Encoding", "gzip")], &[("Content-Encoding", "none")]]
        {
            let (told, bytes, _) = run(fields, b"plain", false);
            assert_eq!((told, bytes), (headers(fields), b"plain".to_vec()));
        }
    }

    #[test]
    fn a_body_that_the_archive_had_unchunked_is_left_alone() {
        let (told, bytes, body) = run(&[("transfer-encoding", "Chunked")], b"<html>", false);
        assert_eq!(bytes, b"<html>");
        assert_eq!(told, headers(&[("X-Crawler-Transfer-Encoding", "Chunked")]));
        assert!(!body.as_received);
    }

    #[test]
    fn damaged_chunks_are_kept_as_received() {
        let wire = b"3\r\nabc\r\nzz\r\n";
        let (told, bytes, body) = run(&[("Transfer-Encoding", "chunked")], wire, false);
        assert_eq!((told, &bytes[..]), (headers(&[("Transfer-Encoding", "chunked")]), &wire[..]));
        assert!(body.as_received && !body.cut);
        let wire = b"3\r\nabc\r\n9\r\nde";
        let (told, bytes, body) = run(&[("Transfer-Encoding", "chunked")], wire, false);
        assert_eq!((told, &bytes[..]), (headers(&[("Transfer-Encoding", "chunked")]), &wire[..]));
        assert!(body.as_received && body.cut);
    }

    #[test]
    fn a_text_that_is_declared_chunked_and_is_not_keeps_every_byte() {
        for text in ["0\nhello", "0\n", "f\nhello", "5\nhello world", "1\na\n0\nthe rest"] {
            let (_, bytes, body) = run(&[("Transfer-Encoding", "chunked")], text.as_bytes(), false);
            assert_eq!(bytes, text.as_bytes());
            assert!(body.as_received, "{text:?}");
        }
    }

    #[test]
    fn a_transfer_coding_under_the_chunks_goes_too() {
        let (_, bytes, _) = run(&[("Transfer-Encoding", "gzip, chunked")], &chunked(&gz(b"hello")), true);
        assert_eq!(bytes, b"hello");
        let fields = [("Transfer-Encoding", "gzip, chunked")];
        let (told, bytes, body) = run(&fields, &chunked(b"no gzip"), true);
        assert_eq!((told, bytes), (headers(&fields), chunked(b"no gzip")));
        assert!(body.as_received);
    }

    #[test]
    fn transfer_codings_go_without_chunks_too_the_last_one_first() {
        let zlib = |bytes: &[u8]| {
            let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            out.write_all(bytes).expect("memory");
            out.finish().expect("memory")
        };
        for (codings, wire) in [
            ("gzip", gz(b"hello")),
            ("GZIP, identity", gz(b"hello")),
            ("gzip, deflate", zlib(&gz(b"hello"))),
            ("gzip, chunked", chunked(&gz(b"hello"))),
            // The archive had undone the chunks.
            ("gzip, chunked", gz(b"hello")),
            ("deflate, gzip, chunked", chunked(&gz(&zlib(b"hello")))),
        ] {
            for as_received in [false, true] {
                let fields = [("Transfer-Encoding", codings), ("Content-Length", "99")];
                let (told, bytes, body) = run(&fields, &wire, as_received);
                assert_eq!(bytes, b"hello", "{codings}");
                assert!(!body.as_received && !body.decoded, "{codings}");
                let expected = [
                    ("X-Crawler-Transfer-Encoding", codings),
                    ("X-Crawler-Content-Length", "99"),
                    ("Content-Length", "5"),
                ];
                assert_eq!(told, headers(&expected), "{codings}");
            }
        }
        let fields = [("Transfer-Encoding", "gzip"), ("Content-Encoding", "deflate")];
        let (_, bytes, body) = run(&fields, &gz(&zlib(b"hello")), false);
        assert!(bytes == b"hello" && body.decoded);
    }

    #[test]
    fn transfer_codings_that_lie_leave_the_body_as_received_and_are_counted() {
        let behind = [gz(b"hello"), b"more".to_vec()].concat();
        for (codings, wire) in [
            ("gzip", &b"hello"[..]),
            ("gzip", &behind),
            ("gzip", &gz(b"hello")[..12]),
            ("gzip, chunked", b"hello"),
            ("gzip, deflate", &gz(b"hello")),
            ("novel", b"hello"),
            ("gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip, gzip", b"hello"),
        ] {
            let fields = [("Transfer-Encoding", codings), ("Content-Length", "99")];
            let (told, bytes, body) = run(&fields, wire, false);
            assert_eq!((told, &bytes[..]), (headers(&fields), wire), "{codings}");
            assert!(body.as_received && !body.cut, "{codings}");
        }
        // A word that is not a coding does not affect the one below it; an empty body is valid.
        let fields = [("Transfer-Encoding", "binary"), ("Content-Encoding", "gzip")];
        let (_, bytes, body) = run(&fields, &gz(b"hello"), false);
        assert!(bytes == b"hello" && body.decoded && body.as_received);
        let fields = [("Transfer-Encoding", "gzip")];
        let (told, bytes, body) = run(&fields, b"", false);
        assert!(told == headers(&fields) && bytes.is_empty() && !body.as_received);
    }
}
