//! An entry of Scrapy's HTTP cache as a page.
//!
//! The key is the URL of the request, with the variant `scrapy:`, the spider's name, `:` and the
//! request's fingerprint; without a name if the cache is shared. What a page cannot hold of a
//! Scrapy response (its class, its flags, the exact time) is JSON in the header
//! `X-Crawler-Scrapy`, in the form of the Python package: the entry reads back through it.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::data::{Node, View};
use super::json::tagged;
use super::page::{CacheError, CachedPage, Codings, fail, fields_of, shown, status, time_ms};
use super::{literal, pickle};
use crate::page::headers::{Header, Headers};
use crate::page::variant::Variant;
use crate::page::{HttpVersion, Page};

/// Header for what a page has no field for.
const NOTE: &str = "X-Crawler-Scrapy";
/// Longer spider names are in the variant as a digest.
const MAX_NAME_BYTES: usize = 1024 - 128;
/// Maximum number of attributes of a response that are read, and of bytes that are kept.
const MAX_ATTRIBUTES: usize = 1000;
const MAX_NOTE_BYTES: usize = 1 << 20;
/// The longest `meta` that is read, in bytes: it has two URLs.
const MAX_META_BYTES: usize = 1 << 20;

/// The files of an entry of `FilesystemCacheStorage`, decompressed.
///
/// ```
/// use filemap::import::cache::ScrapyFiles;
/// let files = ScrapyFiles::new(b"{'url': 'http://a.example/'}", b"", Vec::new());
/// assert!(files.data.is_none());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScrapyFiles<'a> {
    /// `meta`.
    pub meta: &'a [u8],
    /// `response_headers`.
    pub headers: &'a [u8],
    /// `response_body`.
    pub body: Vec<u8>,
    /// `response_data`, written since Scrapy 2.19.
    pub data: Option<&'a [u8]>,
}

impl<'a> ScrapyFiles<'a> {
    /// The files that every version of Scrapy writes.
    pub fn new(meta: &'a [u8], headers: &'a [u8], body: Vec<u8>) -> ScrapyFiles<'a> {
        ScrapyFiles { meta, headers, body, data: None }
    }
}

/// Reads an entry of `FilesystemCacheStorage`; `spider` is `None` for a shared store.
///
/// # Errors
///
/// The part of the entry that cannot be read.
pub fn scrapy_entry(spider: Option<&str>, fingerprint: &str, files: ScrapyFiles<'_>) -> Result<CachedPage, CacheError> {
    let Some(text) = std::str::from_utf8(files.meta).ok().filter(|text| text.len() <= MAX_META_BYTES) else {
        return fail("meta is not text");
    };
    let meta = literal::read(text).map_err(|what| CacheError(format!("meta: {what}")))?;
    let meta = meta.view();
    let field = |name: &str| meta.get(name).ok_or_else(|| CacheError(format!("meta has no {name}")));
    let (Some(url), Some(response_url)) = (field("url")?.text(), field("response_url")?.text()) else {
        return fail("the URL in meta is not text");
    };
    let Some(status) = status(field("status")?.int()) else { return fail("the status in meta is invalid") };
    let seconds = field("timestamp")?.number();
    let mut entry = new_entry(spider, fingerprint, (url, response_url), status, seconds)?;
    entry.page.method = meta.get("method").and_then(View::text).map(str::to_owned);
    entry.page.body = files.body;
    entry.page.headers = raw_fields(files.headers)?;
    mark_cut(&mut entry);
    let mut note = Note::new(seconds, (url, response_url));
    match files.data.map(pickle::read) {
        Some(Ok(data)) => note.take(data.view(), &mut entry),
        Some(Err(what)) => entry.lost.push(format!("response_data: {what}: the response's class is guessed")),
        None => {}
    }
    entry.note = Some(note.header());
    Ok(entry)
}

/// Reads an entry of `DbmCacheStorage`: the values of `FINGERPRINT_data` and `FINGERPRINT_time`.
/// The URL is the response's: such a cache has no other.
///
/// # Errors
///
/// The part of the entry that cannot be read.
pub fn scrapy_dbm_entry(
    spider: Option<&str>,
    fingerprint: &str,
    data: &[u8],
    time: &[u8],
) -> Result<CachedPage, CacheError> {
    let pickled = pickle::read(data)?;
    let response = pickled.view();
    let Some(url) = response.get("url").and_then(View::text) else { return fail("it has no URL") };
    let Some(status) = status(response.get("status").and_then(View::int)) else { return fail("it has no status") };
    let text = std::str::from_utf8(time).ok();
    let Some(seconds) = text.and_then(|text| text.trim().parse::<f64>().ok()) else {
        return fail(format!("its time is not a number: {}", shown(time)));
    };
    let mut entry = new_entry(spider, fingerprint, (url, url), status, Some(seconds))?;
    let body = response.get("body").filter(|body| !body.is_none());
    match body.map(View::bytes) {
        Some(Some(bytes)) => entry.page.body = bytes.into_owned(),
        Some(None) => return fail("its body is not bytes"),
        None => {}
    }
    if let Some(headers) = response.get("headers").filter(|headers| !headers.is_none()) {
        entry.page.headers = fields_of(headers)?;
    }
    let mut note = Note::new(Some(seconds), (url, url));
    note.take(response, &mut entry);
    entry.note = Some(note.header());
    Ok(entry)
}

/// Marks a body that is shorter than its Content-Length: a killed crawl can leave such a file.
fn mark_cut(entry: &mut CachedPage) {
    let page = &mut entry.page;
    let has_body = page.method.as_deref() != Some("HEAD") && !matches!(page.status, Some(204 | 304));
    let said = page.headers.get("Content-Length").and_then(|value| std::str::from_utf8(value).ok());
    let said: Option<usize> = said.and_then(|value| value.trim().parse().ok());
    if let Some(length) = said.filter(|length| has_body && *length > page.body.len()) {
        entry.damage = Some(format!("its body has {} of {length} bytes", page.body.len()));
        page.truncated = Some("unspecified".to_owned());
    }
}

fn new_entry(
    spider: Option<&str>,
    fingerprint: &str,
    (url, _): (&str, &str),
    status: u16,
    seconds: Option<f64>,
) -> Result<CachedPage, CacheError> {
    let Some(time_ms) = seconds.and_then(time_ms) else { return fail("it has no time") };
    let variant = variant(spider, fingerprint)?;
    let stand_in = format!("urn:filemap:request:{}", fingerprint.to_ascii_lowercase());
    let page = Page { variant: Some(variant), ..Page::new(url, time_ms, status, "") };
    Ok(CachedPage {
        page,
        lost: Vec::new(),
        damage: None,
        codings: Codings::Received,
        note: None,
        stand_in: Some(stand_in.into_bytes()),
    })
}

/// The variant of a request.
fn variant(spider: Option<&str>, fingerprint: &str) -> Result<Variant, CacheError> {
    let is_hex = !fingerprint.is_empty() && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex {
        return fail(format!("`{fingerprint}` is not a fingerprint"));
    }
    let name = spider.unwrap_or_default();
    let name = match name.len() > MAX_NAME_BYTES {
        true => Sha256::digest(name.as_bytes()).iter().fold("~".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
        false => name.to_owned(),
    };
    let text = format!("scrapy:{name}:{}", fingerprint.to_ascii_lowercase());
    Variant::new(text).map_err(|error| CacheError(error.to_string()))
}

/// The fields of `response_headers`: `Name: value` lines.
fn raw_fields(text: &[u8]) -> Result<Headers, CacheError> {
    let mut headers = Headers::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match memchr::memchr(b':', line) {
            Some(at) => headers.push(line[..at].trim_ascii(), line[at + 1..].trim_ascii()),
            None if line.trim_ascii().is_empty() => {}
            None => return fail(format!("response_headers has a line without a colon: {}", shown(line))),
        }
    }
    Ok(headers)
}

/// The JSON of the header `X-Crawler-Scrapy`, while it is built.
struct Note {
    fields: Map<String, Value>,
    /// Number of bytes still allowed.
    room: usize,
}

impl Note {
    fn new(seconds: Option<f64>, (url, response_url): (&str, &str)) -> Note {
        let mut note = Map::new();
        note.insert("time".to_owned(), json!(seconds));
        if url != response_url {
            note.insert("url".to_owned(), json!(response_url));
        }
        Note { fields: note, room: MAX_NOTE_BYTES }
    }

    /// Takes the other attributes of a response.
    fn take(&mut self, response: View<'_>, entry: &mut CachedPage) {
        let pairs = response.pairs().into_iter().flatten();
        for (number, (name, value)) in pairs.enumerate() {
            if number >= MAX_ATTRIBUTES {
                entry.lost.push(format!("its attributes after the first {MAX_ATTRIBUTES} are not kept"));
                return;
            }
            let Some(name) = name.text() else {
                entry.lost.push("an attribute whose name is not text is not kept".to_owned());
                continue;
            };
            let is_empty = value.is_none() || value.items().is_some_and(|items| items.len() == 0);
            if is_empty || matches!(name, "url" | "status" | "headers" | "body" | "request" | "certificate" | "time") {
                continue;
            }
            match name {
                "protocol" if value.text().is_some_and(is_known_protocol) => {
                    entry.page.http_version = value.text().map(HttpVersion::from_token);
                }
                "ip_address" if entry.page.ip.is_none() && ip_of(value).is_some() => entry.page.ip = ip_of(value),
                _ => match tagged(value, &mut self.room).filter(|_| name.len() <= MAX_NAME_BYTES) {
                    Some(value) => drop(self.fields.insert(name.to_owned(), value)),
                    None => {
                        let name = shown(name.as_bytes());
                        entry.lost.push(format!("its {name} is an object of a class or too large, and is not kept"));
                    }
                },
            }
        }
    }

    fn header(self) -> Header {
        Header::new(NOTE, Value::Object(self.fields).to_string())
    }
}

/// Returns whether a page's own field restores the protocol unchanged.
fn is_known_protocol(token: &str) -> bool {
    matches!(token, "HTTP/1.0" | "HTTP/1.1" | "HTTP/2" | "HTTP/3")
}

/// The address in a call of `ipaddress`.
fn ip_of(value: View<'_>) -> Option<std::net::IpAddr> {
    let number = |name: &str| match value.made("ipaddress", name)?.items()?.next()?.node() {
        Node::Int(number) => *number,
        _ => None,
    };
    let four = number("IPv4Address").and_then(|bits| u32::try_from(bits).ok());
    let six = || number("IPv6Address").and_then(|bits| u128::try_from(bits).ok());
    let four = four.map(|bits| std::net::Ipv4Addr::from_bits(bits).into());
    four.or_else(|| six().map(|bits| std::net::Ipv6Addr::from_bits(bits).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pickle.dumps` of a response with an address, a tuple and a class, protocol 4.
    const PICKLED: &[u8] = b"\x80\x04\x95\xaf\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x03url\x94\x8c\x11http://a.example/\x94\x8c\x06status\
        \x94K\xc8\x8c\x07headers\x94}\x94C\x06Server\x94]\x94C\x01a\x94as\x8c\x04body\x94C\x05hello\x94\x8c\nip_address\x94\x8c\tipaddress\
        \x94\x8c\x0bIPv4Address\x94\x93\x94J\x01\x00\x00\x7f\x85\x94R\x94\x8c\x01x\x94K\x01C\x01\xff\x94\x86\x94\x8c\x03cls\x94\x8c\x07_pickle\
        \x94\x8c\x07Pickler\x94\x93\x94u.";

    fn note(entry: &CachedPage) -> Value {
        let note = entry.note.as_ref().expect("a note");
        serde_json::from_slice(&note.value).expect("JSON")
    }

    #[test]
    fn what_a_response_knows_is_in_the_page_or_its_note_and_the_rest_is_told() {
        let entry = scrapy_dbm_entry(Some("d\u{f6}cs"), "0A", PICKLED, b"1700000000.25").expect("a response");
        let page = &entry.page;
        assert_eq!((page.status, &*page.body, page.fetched_at_ms), (Some(200), &b"hello"[..], 1_700_000_000_250));
        assert_eq!(
            (page.headers.get("Server"), page.ip.map(|ip| ip.to_string())),
            (Some(&b"a"[..]), Some("127.0.0.1".into()))
        );
        assert_eq!(page.variant.as_ref().map(Variant::as_bytes), Some("scrapy:d\u{f6}cs:0a".as_bytes()));
        assert_eq!(note(&entry), json!({ "time": 1_700_000_000.25, "x": { "tuple": [1, { "bytes": "/w==" }] } }));
        assert!(entry.lost.len() == 1 && entry.lost[0].contains("cls"), "{:?}", entry.lost);
        let long = scrapy_dbm_entry(Some(&"x".repeat(1000)), "0a", PICKLED, b"1").expect("a response");
        assert_eq!(long.page.variant.expect("one").as_bytes().len(), "scrapy:~:0a".len() + 64);
    }

    #[test]
    fn a_body_that_is_shorter_than_it_says_is_damaged_and_kept() {
        let meta = "{'url': 'http://a/', 'method': 'M', 'response_url': 'http://a/', 'status': 200, 'timestamp': 1.5}";
        let entry = |method: &str, status: &str, headers: &[u8]| {
            let meta = meta.replace("'M'", &format!("'{method}'")).replace("200", status);
            scrapy_entry(None, "0a", ScrapyFiles::new(meta.as_bytes(), headers, b"four".to_vec())).expect("an entry")
        };
        let cut = entry("GET", "200", b"Content-Length: 9");
        assert_eq!(cut.damage.as_deref(), Some("its body has 4 of 9 bytes"));
        assert_eq!((cut.page.truncated.as_deref(), &*cut.page.body), (Some("unspecified"), &b"four"[..]));
        for (method, status, headers) in [
            ("GET", "200", "Content-Length: 4"),
            ("GET", "200", "Content-Length: many"),
            ("GET", "200", ""),
            ("HEAD", "200", "Content-Length: 9"),
            ("GET", "304", "Content-Length: 9"),
        ] {
            let whole = entry(method, status, headers.as_bytes());
            assert_eq!((whole.damage, whole.page.truncated), (None, None), "{method} {status} {headers}");
        }
    }

    #[test]
    fn entries_that_lack_something_are_errors_that_name_it() {
        let meta = |text: &str| scrapy_entry(None, "0a", ScrapyFiles::new(text.as_bytes(), b"A: b", Vec::new()));
        let whole = "{'url': 'http://a/', 'response_url': 'http://b/', 'status': 200, 'timestamp': 1.5}";
        assert_eq!(note(&meta(whole).expect("an entry"))["url"], "http://b/");
        for (from, to, words) in [
            ("'url'", "'u'", "no url"),
            ("'timestamp': 1.5", "'timestamp': None", "no time"),
            ("1.5", "1e300", "no time"),
            ("200", "0", "status"),
            ("'http://a/'", "b'x'", "not text"),
            ("1.5", "f()", "not a Python literal"),
        ] {
            assert!(meta(&whole.replace(from, to)).is_err_and(|error| error.to_string().contains(words)), "{words}");
        }
        for (time, fingerprint) in [(&b"soon"[..], "0a"), (b"1.5", "x"), (b"1.5", ""), (b"nan", "0a")] {
            assert!(scrapy_dbm_entry(None, fingerprint, PICKLED, time).is_err());
        }
        let bad = ScrapyFiles::new(whole.as_bytes(), b"no colon", Vec::new());
        assert!(scrapy_entry(None, "0a", bad).is_err_and(|error| error.to_string().contains("no colon")));
    }
}
