//! The text of a request: its method, and its body as a query.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{form, json};
use crate::page::digest::{hex, sha1_of};

/// The beginning of a request's text.
pub(super) const METHOD: &str = "__wb_method=";
/// The last field of the text: the digest of a body that the query does not contain whole.
const DIGEST: &str = "&__filemap_sha1=";
/// Maximum length of a body that is parsed, in bytes. A longer one is identified by its digest
/// only.
pub(super) const MAX_PARSED_BYTES: u64 = 1 << 20;
/// Number of characters of a query that archives index.
const MAX_QUERY_CHARS: usize = 4096;

/// The text of a request; `None` for a `GET` without a body.
pub(super) fn text(method: &str, content_type: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    let method = method.trim().to_ascii_uppercase();
    if body.is_empty() && matches!(method.as_str(), "GET" | "") {
        return None;
    }
    if body.len() as u64 > MAX_PARSED_BYTES {
        return Some(large(&method, sha1_of(&[body])));
    }
    let query = if body.is_empty() { String::new() } else { query(content_type, body) };
    let end = query.char_indices().nth(MAX_QUERY_CHARS).map_or(query.len(), |(at, _)| at);
    let mut text = named(&method);
    if end > 0 {
        text.push('&');
        text.push_str(&query[..end]);
    }
    match unnamed(&method) {
        Some(method) => push_digest(&mut text, sha1_of(&[method, b" ", body])),
        None if end < query.len() || query.is_empty() && !body.is_empty() => push_digest(&mut text, sha1_of(&[body])),
        None => {}
    }
    Some(text.into_bytes())
}

/// The text of a request whose body is identified by its SHA-1 only.
pub(super) fn large(method: &str, sha1: [u8; 20]) -> Vec<u8> {
    let mut text = named(method);
    let method = method.trim().to_ascii_uppercase();
    push_digest(&mut text, unnamed(&method).map_or(sha1, |method| sha1_of(&[method, b" ", &sha1])));
    text.into_bytes()
}

/// The method, if [`named`] shortens it and a digest must keep it distinct.
fn unnamed(method: &str) -> Option<&[u8]> {
    (named(method).len() != METHOD.len() + method.len()).then_some(method.as_bytes())
}

/// The field with the method: upper case, at most 32 characters.
fn named(method: &str) -> String {
    let method = method.trim().to_ascii_uppercase();
    let method = method.chars().filter(|c| c.is_ascii_graphic() && *c != '&').take(32);
    METHOD.chars().chain(method).collect()
}

fn push_digest(text: &mut String, sha1: [u8; 20]) {
    text.push_str(DIGEST);
    text.push_str(&hex(&sha1));
}

/// The text of a request as archives index it, without the digest; `None` for other variants.
pub(super) fn known(variant: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(variant).ok().filter(|text| text.starts_with(METHOD))?;
    let is_digest = |hex: &str| hex.len() == 40 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(text.rsplit_once(DIGEST).filter(|(_, hex)| is_digest(hex)).map_or(text, |(text, _)| text))
}

/// A body as a query; empty if the rules define none.
fn query(content_type: &[u8], body: &[u8]) -> String {
    let content_type = String::from_utf8_lossy(content_type);
    let mime = content_type.trim_start().to_ascii_lowercase();
    let binary = || format!("__wb_post_data={}", STANDARD.encode(body));
    if mime.starts_with("application/x-www-form-urlencoded") {
        return std::str::from_utf8(body).map_or_else(|_| binary(), form::unquoted);
    }
    if mime.starts_with("multipart/") {
        return form::multipart(&content_type, body).unwrap_or_else(binary);
    }
    if mime.starts_with("application/json") {
        return json::query(body).unwrap_or_default();
    }
    if mime.starts_with("text/plain") {
        return json::query(body).unwrap_or_else(binary);
    }
    binary()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(method: &str, content_type: &str, body: &[u8]) -> Option<String> {
        text(method, content_type.as_bytes(), body).map(|text| String::from_utf8(text).expect("text"))
    }

    /// The expected texts are those that pywb 2.10 appends to the URL, by
    /// `MethodQueryCanonicalizer`.
    #[test]
    fn requests_are_told_apart_as_pywb_does() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        let cases: [(&str, &str, &[u8], &str); 12] = [
            ("POST", form, b"q=a+b%26c&x=%C3%BC&bad=%FF%", "__wb_method=POST&q=a b&c&x=\u{fc}&bad=\u{fffd}%"),
            ("POST", form, b"\xff", "__wb_method=POST&__wb_post_data=/w=="),
            ("put", "", b"\x00\x01", "__wb_method=PUT&__wb_post_data=AAE="),
            ("POST", "text/plain", b"hello", "__wb_method=POST&__wb_post_data=aGVsbG8="),
            ("POST", "text/plain;charset=UTF-8", br#"{"a":"b c"}"#, "__wb_method=POST&a=b+c"),
            ("POST", "application/json", br#"{"a":{"b":1,"a":null},"b":[2,2.50,3.0]}"#, "__wb_method=POST&b=1&a=null&b.2_=2&b.3_=2.5&b.4_=3"),
            ("POST", "application/json", b"", "__wb_method=POST"),
            ("OPTIONS", "", b"", "__wb_method=OPTIONS"),
            ("HEAD", "", b"", "__wb_method=HEAD"),
            ("POST", "multipart/form-data; boundary=\"x y\"", b"--x y\r\nContent-Disposition: form-data; name=\"a b\"\r\n\r\n1&2\r\n--x y\r\nContent-Disposition: form-data; name=f; filename=\"n\"\r\nContent-Type: image/png\r\n\r\n\xff\r\n\r\n--x y--\r\n", "__wb_method=POST&a+b=1%262&f=%FF%0D%0A"),
            ("POST", "multipart/form-data", b"hello", "__wb_method=POST&__wb_post_data=aGVsbG8="),
            ("DELETE", "", b"x", "__wb_method=DELETE&__wb_post_data=eA=="),
        ];
        for (method, content_type, body, expected) in cases {
            assert_eq!(run(method, content_type, body).as_deref(), Some(expected), "{method} {content_type}");
        }
        assert_eq!(run("GET", form, b""), None);
        assert_eq!(run("GET", "", b"q").as_deref(), Some("__wb_method=GET&__wb_post_data=cQ=="));
    }

    #[test]
    fn what_is_dropped_of_a_method_a_digest_holds() {
        let (long, longer) = ("M".repeat(33), "M".repeat(34));
        let texts = ["AB", "A&B", "AB&", &long, &longer].map(|method| run(method, "", b"").expect("no GET"));
        assert_eq!(texts.iter().collect::<std::collections::BTreeSet<_>>().len(), texts.len(), "{texts:?}");
        assert_eq!(texts.each_ref().map(|text| known(text.as_bytes()).expect("a request").len()), [14, 14, 14, 44, 44]);
        assert_ne!(large("A&B", [7; 20]), large("AB", [7; 20]));
    }

    #[test]
    fn what_the_rules_drop_of_a_body_its_digest_holds() {
        let long = |last: char| format!("q={}{last}", "\u{fc}".repeat(5000));
        let form = "application/x-www-form-urlencoded";
        let (one, two) = (run("POST", form, long('1').as_bytes()), run("POST", form, long('2').as_bytes()));
        assert_ne!(one, two);
        for text in [one, two].into_iter().flatten() {
            let known = known(text.as_bytes()).expect("a request").to_owned();
            assert_eq!(known.chars().count(), "__wb_method=POST&".len() + MAX_QUERY_CHARS);
            assert_eq!(text.len(), known.len() + DIGEST.len() + 40);
            assert!(text.len() <= crate::limits::VARIANT_BYTES);
        }
        let (one, two) = (run("POST", "application/json", b"{"), run("POST", "application/json", b"["));
        assert_ne!(one, two);
        assert_eq!(known(one.expect("no GET").as_bytes()), Some("__wb_method=POST"));
        let body = vec![b'x'; MAX_PARSED_BYTES as usize + 1];
        assert_eq!(text("post", b"", &body), Some(large("POST", sha1_of(&[&body]))));
    }

    #[test]
    fn only_the_texts_of_requests_are_known() {
        assert_eq!(known(b"fingerprint"), None);
        assert_eq!(known(b"__wb_method=\xff"), None);
        assert_eq!(known(b"__wb_method=POST&__filemap_sha1=x"), Some("__wb_method=POST&__filemap_sha1=x"));
    }
}
