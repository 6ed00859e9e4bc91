//! Parses the head of an HTTP message, the first line and the header fields, leniently.
//!
//! Accepted are: bare LF, a status line without a reason, unknown protocol tokens, names with
//! spaces, values in any bytes, a head that ends with the message. Folded lines are joined by a
//! space; a line without a colon becomes a field with that name and no value, so that nothing is
//! lost. A message that begins neither like an answer nor like a request is not HTTP: `None`.

use memchr::{memchr, memchr2};

use crate::page::headers::{self, Header, Headers};
use crate::page::{HttpVersion, Page};

/// The longest head, in bytes; a message with a longer one is kept unparsed.
pub(crate) const MAX_HEAD_BYTES: usize = 1 << 20;

/// Maximum number of fields of a head, of HTTP or of WARC: a field of two bytes takes a hundred in
/// memory.
pub(crate) const MAX_FIELDS: usize = 10_000;

/// A longer token is not a method.
const MAX_METHOD_BYTES: usize = 1024;

/// The first line of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FirstLine {
    Response { version: HttpVersion, status: u16, reason: Vec<u8> },
    Request { method: String, version: Option<HttpVersion> },
}

/// A parsed head; its body begins at `bytes`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) first: FirstLine,
    pub(crate) headers: Headers,
    pub(crate) bytes: usize,
}

impl Head {
    pub(crate) fn is_request(&self) -> bool {
        matches!(self.first, FirstLine::Request { .. })
    }

    /// Moves the first line and the fields to a page.
    pub(crate) fn describe(self, page: &mut Page) {
        match self.first {
            FirstLine::Response { version, status, reason } => {
                page.http_version = Some(version);
                page.status = Some(status).filter(|&status| status > 0);
                page.reason = reason;
            }
            FirstLine::Request { method, version } => {
                page.method = Some(method);
                page.http_version = version;
            }
        }
        page.headers = self.headers;
    }
}

/// Parses the head at the start of `message`: at least its first [`MAX_HEAD_BYTES`], or all of it.
/// `None` if it is not HTTP, or its head is longer or has more than [`MAX_FIELDS`].
pub(crate) fn parse(message: &[u8]) -> Option<Head> {
    let (line, mut at) = headers::line(message, 0)?;
    let first = first_line(line)?;
    let mut headers = Headers::new();
    loop {
        let Some((text, next)) = headers::line(message, at) else {
            // The head may end with the message, unless it was cut off at the bound.
            return (message.len() < MAX_HEAD_BYTES).then_some(Head { first, headers, bytes: message.len() });
        };
        at = next;
        if text.is_empty() {
            return Some(Head { first, headers, bytes: at });
        }
        if headers.len() == MAX_FIELDS {
            return None;
        }
        push_field(&mut headers, text);
    }
}

/// Returns whether a line is a strict header field (RFC 9110): a token and a colon.
pub(crate) fn is_field(line: &[u8]) -> bool {
    memchr(b':', line).is_some_and(|colon| colon > 0 && line[..colon].iter().all(is_token))
}

/// Returns whether a byte may be part of a token (RFC 9110, section 5.6.2).
fn is_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Adds one line of a header section: a field, or the continuation of the last one.
pub(crate) fn push_field(headers: &mut Headers, line: &[u8]) {
    let folded = matches!(line.first(), Some(b' ' | b'\t'));
    if let (true, Some(last)) = (folded, headers.0.last_mut()) {
        last.value.push(b' ');
        last.value.extend_from_slice(trim(line));
        return;
    }
    let (name, value) = match memchr(b':', line) {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => (line, &b""[..]),
    };
    headers.0.push(Header::new(trim(name), trim(value)));
}

fn first_line(line: &[u8]) -> Option<FirstLine> {
    status_line(line).or_else(|| request_line(line))
}

fn status_line(line: &[u8]) -> Option<FirstLine> {
    let (token, rest) = split_word(line);
    let is_protocol = token.len() >= 3 && (token.starts_with(b"HTTP") || token == b"ICY");
    let (code, reason) = split_word(rest);
    let status = std::str::from_utf8(code).ok()?.parse::<u16>().ok().filter(|_| is_protocol && code.len() == 3)?;
    let version = HttpVersion::from_token(std::str::from_utf8(token).ok()?);
    Some(FirstLine::Response { version, status, reason: trim(reason).to_vec() })
}

/// Parses a request line. Any token is a method. Without a protocol at the end of the line, as the
/// oldest clients sent it, the method must be in capitals: it could be the first word of any text.
fn request_line(line: &[u8]) -> Option<FirstLine> {
    let (token, rest) = split_word(line);
    if token.is_empty() || token.len() > MAX_METHOD_BYTES || !token.iter().all(is_token) || rest.is_empty() {
        return None;
    }
    let last = trim(rest).rsplit(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    let version = std::str::from_utf8(last).ok().filter(|last| last.starts_with("HTTP/")).map(HttpVersion::from_token);
    if version.is_none() && !token.iter().all(u8::is_ascii_uppercase) {
        return None;
    }
    Some(FirstLine::Request { method: String::from_utf8(token.to_vec()).ok()?, version })
}

fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr2(b' ', b'\t', line) {
        Some(at) => (&line[..at], trim_start(&line[at + 1..])),
        None => (line, &[]),
    }
}

fn trim_start(text: &[u8]) -> &[u8] {
    let from = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    &text[from..]
}

pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let text = trim_start(text);
    let to = text.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |at| at + 1);
    &text[..to]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(head: &Head) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        head.headers.iter().map(|h| (text(&h.name), text(&h.value))).collect()
    }

    #[test]
    fn an_answer_and_its_fields_are_read() {
        let message = b"HTTP/1.1 404 Not  Found\r\nA: 1\r\nset-cookie:x\r\nA:  \t2 \r\n\r\nbody";
        let head = parse(message).expect("HTTP");
        let expected =
            FirstLine::Response { version: HttpVersion::Http11, status: 404, reason: b"Not  Found".to_vec() };
        assert_eq!(head.first, expected);
        assert_eq!(&message[head.bytes..], b"body");
        let pairs = [("A", "1"), ("set-cookie", "x"), ("A", "2")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(fields(&head), pairs);
    }

    #[test]
    fn what_servers_send_instead_of_http_is_taken() {
        let lenient: [(&[u8], u16, usize); 6] = [
            (b"HTTP/1.0 200\n\nx", 200, 0),
            (b"HTTP/2 204\r\n\r\n", 204, 0),
            (b"ICY 200 OK\r\nname : a\r\n\r\n", 200, 1),
            (b"HTTP/1.1 200 OK\r\nA: 1\r\n  folded\r\n\tagain\r\n\r\n", 200, 1),
            (b"HTTP/1.1 200 OK\r\nno colon\r\nB: \xe9\r\n\r\n", 200, 2),
            (b"HTTP/1.1 200 OK\r\nA: cut off", 200, 1),
        ];
        for (message, expected, count) in lenient {
            let head = parse(message).expect("HTTP");
            assert!(matches!(head.first, FirstLine::Response { status, .. } if status == expected), "{head:?}");
            assert_eq!(head.headers.len(), count, "{head:?}");
        }
        let folded = parse(lenient[3].0).expect("HTTP");
        assert_eq!(folded.headers.get("a"), Some(&b"1 folded again"[..]));
    }

    #[test]
    fn a_request_has_a_method() {
        let head = parse(b"GET /a b HTTP/1.0\r\nHost: x\r\n\r\n").expect("HTTP");
        assert_eq!(head.first, FirstLine::Request { method: "GET".into(), version: Some(HttpVersion::Http10) });
    }

    #[test]
    fn any_token_is_a_method() {
        for method in
            ["M-SEARCH", "patch", "X.y_1~", "!#$%&'*+-.^_`|~09azAZ", "HTTPS", "ICY", "CONNECT", &"A".repeat(100)]
        {
            let head = parse(format!("{method} /a HTTP/1.1\r\n\r\n").as_bytes()).expect("HTTP");
            assert_eq!(head.first, FirstLine::Request { method: method.into(), version: Some(HttpVersion::Http11) });
        }
        let head = parse(b"POST /a\r\n\r\n").expect("HTTP");
        assert_eq!(head.first, FirstLine::Request { method: "POST".into(), version: None });
        for line in ["P(ST / HTTP/1.1", "P\u{e9}ST / HTTP/1.1", " / HTTP/1.1", "POST", "post /a", &"A".repeat(2000)] {
            assert_eq!(parse(format!("{line}\r\n\r\n").as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn what_is_not_http_is_nothing() {
        for message in [&b""[..], b"\r\n", b"<html>", b"HTTP/1.1 OK\r\n\r\n", b"HTTP/1.1 20 x\r\n\r\n", b"hello world"]
        {
            assert_eq!(parse(message), None, "{message:?}");
        }
    }

    #[test]
    fn a_head_over_the_bound_is_not_cut() {
        let mut message = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
        message.resize(MAX_HEAD_BYTES, b'x');
        assert_eq!(parse(&message), None);
        let of = |fields: usize| [&b"HTTP/1.1 200 OK\r\n"[..], &b"a\n".repeat(fields), b"\r\n"].concat();
        assert_eq!(parse(&of(MAX_FIELDS)).map(|head| head.headers.len()), Some(MAX_FIELDS));
        assert_eq!(parse(&of(MAX_FIELDS + 1)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_head_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let answer = [b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat();
            let head = parse(&answer).expect("begins as HTTP");
            prop_assert!(head.bytes <= answer.len());
        }
    }
}
