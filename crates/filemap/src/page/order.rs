//! The order in which a store lists its keys. Each key has an *ordered form*; the forms sort as
//! plain bytes, so an engine that knows no URLs can keep sorted runs of them.
//!
//! | key | ordered form |
//! |---|---|
//! | page, an `http` or `https` URL | labels of the host, last first, 2 between them; 1; path; end |
//! | variant of such a page | the form of the page, NUL, variant |
//! | any other page or variant | 0x80, key |
//! | mark, record beside a page | 0x81, key |
//!
//! "Path" is all that follows the authority: query and fragment too. The end is a byte for the
//! scheme and whether a port is written, 3 to 6, then the port in two bytes, high byte first. So
//! `https://www.example.com/a` is `com 2 example 2 www 1 /a 5`: two bytes longer than the URL
//! without its scheme.
//!
//! No byte of a host is below `!`, none of a path below TAB; the bytes above are lower. Hence:
//!
//! - a host stands before its subdomains, and both are one range;
//! - `http` and `https` of a path are neighbours, and stand before every longer path;
//! - a page's variants follow it directly.
//!
//! An address, of either version, is one label and is not reversed. A URL has the shape for the
//! first two rows if its scheme is in lower case, it has no user, its host is an address in its
//! shortest form or labels of printable ASCII of which the last is no number, its port is a
//! decimal number without leading zeros, and its path has no byte below TAB. Nearly every
//! canonical URL has it. Others keep their bytes: escapes could double the length of a key.
//!
//! Invariant: [`ordered`] and [`key`] are inverse to each other for all keys of one byte or more;
//! [`key`] refuses all else. No form is more than one byte longer than its key.

use std::io::Write;
use std::net::Ipv4Addr;
use std::ops::Range;

use urlindex::canonical::canonical_host;

use crate::page::key;

/// Ends the host: lower than [`DOT`], so that a host stands before its subdomains.
const HOST_END: u8 = 1;
/// Stands between two labels.
const DOT: u8 = 2;
/// The ends of a path.
const HTTP: u8 = 3;
const HTTP_WITH_PORT: u8 = 4;
const HTTPS: u8 = 5;
const HTTPS_WITH_PORT: u8 = 6;
/// The lowest byte of a path: 7 and 8 are left for more schemes.
const PATH_MIN: u8 = b'\t';
/// Leads pages and variants whose URLs have another shape: above every byte of a host.
const OTHER: u8 = 0x80;
/// Leads marks and records beside pages, which no listing gives.
const BESIDE: u8 = 0x81;

/// Appends the ordered form of a key.
pub(crate) fn ordered(key: &[u8], out: &mut Vec<u8>) {
    out.reserve(key.len() + 1);
    match Parts::of(key) {
        Ok(parts) => parts.push_form(out),
        Err(lead) => {
            out.push(lead);
            out.extend_from_slice(key);
        }
    }
}

/// Appends the key of an ordered form. False, and nothing appended, if these bytes are none.
pub(crate) fn key(ordered: &[u8], out: &mut Vec<u8>) -> bool {
    let before = out.len();
    let is_form = match ordered.split_first() {
        Some((&lead, key)) if lead >= OTHER => {
            out.extend_from_slice(key);
            !key.is_empty() && Parts::of(key).err() == Some(lead)
        }
        _ => push_key(ordered, out).is_some(),
    };
    if !is_form {
        out.truncate(before);
    }
    is_form
}

/// Pages and variants of `http` and `https` URLs of this host, given in any spelling; of any port.
///
/// Exact. Keys of other shapes with this host are in [`others`].
pub(crate) fn of_host(host: &str) -> Range<Vec<u8>> {
    of_labels(host, HOST_END)
}

/// As [`of_host`], with the host's subdomains.
pub(crate) fn of_domain(host: &str) -> Range<Vec<u8>> {
    of_labels(host, DOT)
}

/// Pages and variants of `http` and `https` URLs that begin with these bytes. `None` if the prefix
/// ends within scheme or authority: such URLs are no one range.
///
/// The range has the same path under any scheme and port: `Scope::filter` picks those asked for.
/// Keys of other shapes are in [`others_with_prefix`].
pub(crate) fn with_prefix(prefix: &[u8]) -> Option<Range<Vec<u8>>> {
    let Some((_, rest)) = split_scheme(prefix) else {
        let may_go_on = [&b"http://"[..], b"https://"].iter().any(|scheme| scheme.starts_with(prefix));
        return (!may_go_on).then(Range::default);
    };
    if !rest.iter().any(|&byte| ends_authority(byte)) {
        return None;
    }
    let Some(Parts { host, path, .. }) = Parts::of_url(prefix) else { return Some(Range::default()) };
    let mut from = Vec::with_capacity(host.len() + 1 + path.len());
    push_labels(host, &mut from);
    from.push(HOST_END);
    from.extend_from_slice(path);
    Some(beginning_with(from))
}

/// Pages and variants whose URLs have no place among `http` and `https` URLs: few, as a rule.
///
/// A list of a host or domain goes over these too; `Scope::filter` picks those asked for.
pub(crate) fn others() -> Range<Vec<u8>> {
    others_with_prefix(b"")
}

/// Those of [`others`] whose keys begin with these bytes.
///
/// Exact unless the prefix has a NUL: then `Scope::filter` leaves out all, as no URL has one.
pub(crate) fn others_with_prefix(prefix: &[u8]) -> Range<Vec<u8>> {
    beginning_with([&[OTHER], prefix].concat())
}

/// A key of a page or variant whose URL has the shape to be taken apart.
struct Parts<'k> {
    host: &'k [u8],
    path: &'k [u8],
    is_https: bool,
    port: Option<u16>,
    /// Empty for a page; else NUL and the variant.
    variant: &'k [u8],
}

impl<'k> Parts<'k> {
    /// The parts of a key, or what leads the form of one that has none.
    fn of(key: &'k [u8]) -> Result<Parts<'k>, u8> {
        let url = key::url(key);
        let variant = key.get(url.len() + 1..).unwrap_or_default();
        if url.len() < key.len() && variant.first() != Some(&0) {
            return Err(BESIDE);
        }
        let parts = Parts::of_url(url).ok_or(OTHER)?;
        Ok(Parts { variant, ..parts })
    }

    fn of_url(url: &'k [u8]) -> Option<Parts<'k>> {
        let (is_https, rest) = split_scheme(url)?;
        let (host, rest) = rest.split_at(host_bytes(rest));
        if !is_name(host) && !is_address(host) {
            return None;
        }
        let (port, path) = match rest.strip_prefix(b":") {
            None => (None, rest),
            Some(rest) => {
                let (digits, path) = rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
                (Some(port(digits)?), path)
            }
        };
        is_path(path).then_some(Parts { host, path, is_https, port, variant: &[] })
    }

    fn push_form(&self, out: &mut Vec<u8>) {
        push_labels(self.host, out);
        out.push(HOST_END);
        out.extend_from_slice(self.path);
        out.push(match (self.is_https, self.port.is_some()) {
            (false, false) => HTTP,
            (false, true) => HTTP_WITH_PORT,
            (true, false) => HTTPS,
            (true, true) => HTTPS_WITH_PORT,
        });
        if let Some(port) = self.port {
            out.extend_from_slice(&port.to_be_bytes());
        }
        out.extend_from_slice(self.variant);
    }
}

/// Whether a URL is of `https`, and what follows `://`; `None` with another scheme.
fn split_scheme(url: &[u8]) -> Option<(bool, &[u8])> {
    let rest = url.strip_prefix(b"http")?;
    let (is_https, rest) = rest.strip_prefix(b"s").map_or((false, rest), |rest| (true, rest));
    Some((is_https, rest.strip_prefix(b"://")?))
}

/// Whether a byte ends the authority of a URL, as for [`urlindex::host`].
fn ends_authority(byte: u8) -> bool {
    matches!(byte, b'/' | b'?' | b'#' | b'\\')
}

/// Whether this may follow the authority of a URL of the shape.
fn is_path(path: &[u8]) -> bool {
    path.first().is_none_or(|&first| ends_authority(first)) && lowest(path) >= PATH_MIN
}

/// The lowest byte. No way out of the loop: the compiler looks at many bytes at a time.
fn lowest(bytes: &[u8]) -> u8 {
    bytes.iter().fold(u8::MAX, |low, &byte| low.min(byte))
}

/// The length of the path that an ordered form has after [`HOST_END`].
fn path_bytes(rest: &[u8]) -> Option<usize> {
    let chunk_bytes = 16;
    let whole = rest.chunks_exact(chunk_bytes).take_while(|chunk| lowest(chunk) >= PATH_MIN).count() * chunk_bytes;
    Some(whole + rest[whole..].iter().position(|&byte| byte < PATH_MIN)?)
}

/// The length of the host that a URL has after `://`, if its host has the shape.
fn host_bytes(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'[') => memchr::memchr(b']', rest).map_or(0, |at| at + 1),
        _ => rest.iter().position(|&byte| !IS_OF_NAME[usize::from(byte)]).unwrap_or(rest.len()),
    }
}

/// The port of these digits, if they are as its number is written.
fn port(digits: &[u8]) -> Option<u16> {
    if !matches!(digits, [b'0'] | [b'1'..=b'9', ..]) || digits.len() > 5 {
        return None;
    }
    u16::try_from(digits.iter().fold(0, |number: u32, digit| number * 10 + u32::from(digit - b'0'))).ok()
}

/// Whether a host is an address, in its shortest form if it is one of IPv4.
fn is_address(host: &[u8]) -> bool {
    if let Some(inside) = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
        // No dot: `[1.1]` would be a subdomain of `1]`, as listings compare hosts.
        return inside.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b':'));
    }
    // The parser takes only octets without leading zeros.
    host.last().is_some_and(u8::is_ascii_digit)
        && str::from_utf8(host).is_ok_and(|host| host.parse::<Ipv4Addr>().is_ok())
}

/// Whether a host is labels with dots between them, of which the last is no number: after a number
/// that is no address, no domain's hosts would be one range.
fn is_name(host: &[u8]) -> bool {
    if host.is_empty() || !host.iter().all(|&byte| IS_OF_NAME[usize::from(byte)]) {
        return false;
    }
    let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    digits == 0 || host[..host.len() - digits].last().is_some_and(|&byte| byte != b'.')
}

/// The bytes of labels, and the dot.
const IS_OF_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        table[byte as usize] = !matches!(byte, b'/' | b'?' | b'#' | b'\\' | b':' | b'@' | b'[' | b']');
        byte += 1;
    }
    table
};

/// The labels of a host of the shape, last first.
fn push_labels(host: &[u8], out: &mut Vec<u8>) {
    match is_address(host) {
        true => out.extend_from_slice(host),
        false => push_reversed(host, b'.', DOT, out),
    }
}

fn push_reversed(labels: &[u8], between: u8, new_between: u8, out: &mut Vec<u8>) {
    for (at, label) in labels.rsplit(|&byte| byte == between).enumerate() {
        if at > 0 {
            out.push(new_between);
        }
        out.extend_from_slice(label);
    }
}

/// Appends the key of an ordered form of a URL. `None` if the bytes are none; then part of a key
/// may be appended.
fn push_key(form: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.reserve(form.len() + b"https://:65535".len());
    let (host, rest) = form.split_at(memchr::memchr(HOST_END, form)?);
    let rest = &rest[1..];
    let (path, rest) = rest.split_at(path_bytes(rest)?);
    let (&end, rest) = rest.split_first()?;
    let (scheme, has_port) = match end {
        HTTP => (&b"http://"[..], false),
        HTTP_WITH_PORT => (&b"http://"[..], true),
        HTTPS => (&b"https://"[..], false),
        HTTPS_WITH_PORT => (&b"https://"[..], true),
        _ => return None,
    };
    out.extend_from_slice(scheme);
    push_host(host, out)?;
    let mut variant = rest;
    if has_port {
        let (port, rest) = rest.split_first_chunk()?;
        write!(out, ":{}", u16::from_be_bytes(*port)).ok()?;
        variant = rest;
    }
    if path.first().is_some_and(|&first| !ends_authority(first)) {
        return None;
    }
    out.extend_from_slice(path);
    match variant.first() {
        None => Some(()),
        Some(0) => {
            out.push(0);
            out.extend_from_slice(variant);
            Some(())
        }
        Some(_) => None,
    }
}

/// Appends the host of these labels. `None` if they are none of [`push_labels`].
fn push_host(labels: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // Only in an address labels have dots or brackets.
    if memchr::memchr2(b'.', b'[', labels).is_some() {
        out.extend_from_slice(labels);
        return is_address(labels).then_some(());
    }
    let before = out.len();
    push_reversed(labels, DOT, b'.', out);
    is_name(&out[before..]).then_some(())
}

/// The forms that begin with the labels of a host and then [`HOST_END`] or, up to this byte, more.
fn of_labels(host: &str, last: u8) -> Range<Vec<u8>> {
    let host = canonical_host(host).map_or_else(|| host.as_bytes().to_vec(), String::into_bytes);
    // The subdomains of the empty host are the hosts that end with a dot.
    if !host.is_empty() && !is_address(&host) && !is_name(&host) {
        return Range::default();
    }
    let mut from = Vec::with_capacity(host.len() + 1);
    push_labels(&host, &mut from);
    let mut until = from.clone();
    from.push(HOST_END);
    until.push(last + 1);
    from..until
}

/// All forms that begin with these bytes. Not all of these bytes are 0xff.
fn beginning_with(from: Vec<u8>) -> Range<Vec<u8>> {
    let mut until = from.clone();
    while until.pop_if(|last| *last == u8::MAX).is_some() {}
    if let Some(last) = until.last_mut() {
        *last += 1;
    }
    from..until
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::LazyLock;

    use fastrand::Rng;
    use regex::bytes::Regex;

    use super::*;

    /// Wikipedia's, and hosts and paths of the WHATWG URL tests.
    const REAL: &str = include_str!("order/urls.txt");

    /// What sorts keys, spelled out: the shape, labels, path, scheme, port, variant. All keys
    /// without the shape stand behind those with it.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum Slow {
        Url { labels: Vec<Vec<u8>>, path: Vec<u8>, scheme: Vec<u8>, port: Option<u16>, variant: Option<Vec<u8>> },
        Other(Vec<u8>),
        Beside(Vec<u8>),
    }

    static SHAPE: LazyLock<Regex> = LazyLock::new(|| {
        let host = r"(?<host>\[[0-9a-f:]*\]|[!-~&&[^:/?#@\\\[\]]]+)";
        let shape =
            format!(r"(?s-u)^(?<scheme>https?)://{host}(?<colon>:(?<port>0|[1-9][0-9]*))?(?<path>[/?#\\][\t-\xff]*)?$");
        Regex::new(&shape).expect("a regex")
    });

    fn slow(key: &[u8]) -> Slow {
        let (url, variant) = match key.iter().position(|&byte| byte == 0) {
            None => (key, None),
            Some(at) if key.get(at + 1) == Some(&0) => (&key[..at], Some(key[at + 2..].to_vec())),
            Some(_) => return Slow::Beside(key.to_vec()),
        };
        let Some(parts) = SHAPE.captures(url) else { return Slow::Other(key.to_vec()) };
        let text = |name: &str| parts.name(name).map_or("", |part| str::from_utf8(part.as_bytes()).expect("ASCII"));
        let host = text("host");
        let mut labels: Vec<Vec<u8>> = host.split('.').rev().map(|label| label.as_bytes().to_vec()).collect();
        if host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok() {
            labels = vec![host.as_bytes().to_vec()];
        } else if !labels[0].is_empty() && labels[0].iter().all(u8::is_ascii_digit) {
            return Slow::Other(key.to_vec());
        }
        let port = text("port").parse().ok();
        if port.is_none() && !text("colon").is_empty() {
            return Slow::Other(key.to_vec());
        }
        let path = parts.name("path").map_or(Vec::new(), |path| path.as_bytes().to_vec());
        Slow::Url { labels, path, scheme: text("scheme").into(), port, variant }
    }

    fn form(key: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        ordered(key, &mut out);
        out.split_off(6)
    }

    fn checked_form(key: &[u8]) -> Vec<u8> {
        let form = form(key);
        let mut back = b"before".to_vec();
        assert!(super::key(&form, &mut back), "{}", key.escape_ascii());
        assert_eq!(back.split_off(6).escape_ascii().to_string(), key.escape_ascii().to_string());
        assert!(form.len() <= key.len() + 1);
        form
    }

    const HOSTS: [&str; 32] = [
        "a",
        "b",
        "com",
        "a.com",
        "b.a.com",
        "c.b.a.com",
        "a-b.com",
        "aa.com",
        "com.a",
        "a.com.",
        ".",
        "..",
        "a..com",
        ".com",
        "1.2.3.4",
        "1.2.3.40",
        "2.3.4",
        "4",
        "3.4",
        "0.0.0.4",
        "x.1.2.3.4",
        "1.2.3.04",
        "1.a",
        "a.1",
        "[::1]",
        "[1:2::3]",
        "[1.1]",
        "1]",
        "[",
        "A.com",
        "a_!~.com",
        "",
    ];
    const AFTER_HOST: [&str; 14] =
        ["", "", "", "", ":", ":0", ":80", ":443", ":080", ":65535", ":65536", ":1x", "x:1", ":99999999999999999999"];
    const PATHS: [&[u8]; 24] = [
        b"",
        b"/",
        b"/a",
        b"/a",
        b"/a/",
        b"/a/b",
        b"/ab",
        b"/a?b",
        b"/a?b#c",
        b"/a#",
        b"/\xff",
        b"/\xff\xff",
        b"/a\t",
        b"/a b",
        b"/a\x08",
        b"/\x01",
        b"?",
        b"#",
        b"\\",
        b"x",
        b"/a\xff",
        b"/A",
        b"/@:",
        b"/http://a.com/",
    ];
    const TAILS: [&[u8]; 14] = [
        b"",
        b"",
        b"",
        b"",
        b"",
        b"\0\0POST",
        b"\0\0POST 2",
        b"\0\0\0",
        b"\0\0\x01",
        b"\0\0\xff",
        b"\0\0",
        b"\0",
        b"\0request",
        b"\0request\0POST",
    ];
    const SCHEMES: [&str; 12] = [
        "http://",
        "http://",
        "http://",
        "https://",
        "https://",
        "https://",
        "ftp://",
        "http:/",
        "HTTP://",
        "httpx://",
        "http://u@",
        "https://u:p@",
    ];

    /// Keys of parts that are right, nearly right, or anything.
    fn random_key(rng: &mut Rng) -> Vec<u8> {
        let mut pick = |parts: &[&[u8]]| parts[rng.usize(..parts.len())].to_vec();
        let mut key = pick(&SCHEMES.map(str::as_bytes));
        key.extend(pick(&HOSTS.map(str::as_bytes)));
        key.extend(pick(&AFTER_HOST.map(str::as_bytes)));
        key.extend(pick(&PATHS));
        key.extend(pick(&TAILS));
        spoil(rng, &mut key);
        key
    }

    /// Changes, inserts and removes bytes, of one in four; of these, one in eight is all random.
    fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>) {
        const ODD: &[u8] = b"\0\x01\x02\x03\x04\x05\x06\x07\x08\t\x80\x81\x82\xff./:@[]0a";
        if rng.u8(..4) > 0 {
            return;
        }
        if rng.u8(..8) == 0 {
            *bytes = (0..rng.usize(1..20)).map(|_| rng.u8(..)).collect();
        }
        for _ in 0..rng.usize(1..3) {
            let byte = if rng.bool() { rng.u8(..) } else { ODD[rng.usize(..ODD.len())] };
            let at = rng.usize(..=bytes.len());
            match rng.u8(..3) {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() && bytes.len() > 1 => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] = byte,
                _ => bytes.push(byte),
            }
        }
    }

    fn random_keys(seed: u64, count: usize) -> BTreeSet<Vec<u8>> {
        let mut rng = Rng::with_seed(seed);
        let real = REAL.lines().map(|url| url.as_bytes().to_vec());
        real.chain((0..count).map(|_| random_key(&mut rng))).collect()
    }

    #[test]
    fn urls_stand_by_host_path_scheme_port_and_variant() {
        let in_order: [&[u8]; 36] = [
            b"http://1.2.3.4/",
            b"http://1.2.3.40/",
            b"http://[::1]/",
            b"http://com/",
            b"http://example.com",
            b"http://example.com/",
            b"http://example.com/\0\0POST a",
            b"http://example.com/\0\0POST b",
            b"http://example.com:80/",
            b"http://example.com:8080/",
            b"https://example.com/",
            b"https://example.com/\0\0POST",
            b"https://example.com:443/",
            b"https://example.com:443/\0\0POST",
            b"http://example.com/\t",
            b"http://example.com/#top",
            b"http://example.com/?q",
            b"http://example.com/a",
            b"https://example.com/a",
            b"http://example.com/a/b",
            b"http://example.com/a?b",
            b"http://example.com/ab",
            b"http://example.com/\xff",
            b"https://a.example.com/",
            b"http://b.a.example.com/",
            b"http://www.example.com/",
            b"http://example-a.com/",
            b"http://example.org/",
            b"ftp://example.com/",
            b"http://example.com:080/",
            b"http://user@example.com/",
            b"urn:isbn:1",
            b"\0variants1234",
            b"http://example.com/\0request",
            b"http://example.com/\0request\0POST",
            b"http://example.com/\0variants",
        ];
        for pair in in_order.windows(2) {
            let (low, high) = (checked_form(pair[0]), checked_form(pair[1]));
            assert!(low < high, "{} {}", pair[0].escape_ascii(), pair[1].escape_ascii());
        }
        assert_eq!(form(b"https://www.example.com/a"), b"com\x02example\x02www\x01/a\x05");
        assert_eq!(form(b"http://[::1]:8080/\0\0v"), b"[::1]\x01/\x04\x1f\x90\0v");
        assert_eq!(form(b"http://a@b/"), b"\x80http://a@b/");
    }

    #[test]
    fn the_forms_of_real_urls_are_short_and_give_them_back() {
        let mut ordered = 0;
        for url in REAL.lines() {
            let form = checked_form(url.as_bytes());
            if form[0] < OTHER {
                let (_, rest) = url.split_once("://").expect("a scheme");
                assert!(form.len() <= rest.len() + 2, "{url}");
                ordered += 1;
            }
        }
        // All but those with a user or another scheme.
        assert_eq!((REAL.lines().count(), ordered), (64, 59));
    }

    #[test]
    fn forms_of_any_keys_give_them_back_and_sort_as_spelled_out() {
        let mut sorted: Vec<(Vec<u8>, Slow, Vec<u8>)> =
            random_keys(1, 60_000).into_iter().map(|key| (checked_form(&key), slow(&key), key)).collect();
        sorted.sort();
        for pair in sorted.windows(2) {
            assert!(pair[0].0 < pair[1].0);
            assert!(pair[0].1 < pair[1].1, "{} {}", pair[0].2.escape_ascii(), pair[1].2.escape_ascii());
        }
        let of = |wanted: fn(&Slow) -> bool| sorted.iter().filter(|(_, slow, _)| wanted(slow)).count();
        assert!(of(|slow| matches!(slow, Slow::Url { .. })) > 2000);
        assert!(of(|slow| matches!(slow, Slow::Other(_))) > 2000);
        assert!(of(|slow| matches!(slow, Slow::Beside(_))) > 2000);
    }

    #[test]
    fn marks_and_records_beside_pages_stand_behind_all_that_is_listed() {
        for key in random_keys(2, 20_000) {
            let is_listed = key::is_page(&key) || key::is_variant(&key);
            assert_eq!(form(&key)[0] == BESIDE, !is_listed, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn the_longest_keys_have_forms() {
        let mut rng = Rng::with_seed(3);
        for beginning in [&b"http://"[..], b"https://a/", b"http://a:1/\0\0", b"", b"\0"] {
            for byte in [Some(b'a'), Some(b'.'), Some(0), Some(1), Some(0xff), None] {
                let mut key = beginning.to_vec();
                key.resize_with(65_536, || byte.unwrap_or_else(|| rng.u8(..)));
                checked_form(&key);
            }
        }
        for byte in 0..=255 {
            checked_form(&[byte]);
        }
    }

    #[test]
    fn a_range_has_what_its_filter_takes_and_the_others_the_rest() {
        let keys: Vec<(Vec<u8>, Vec<u8>)> = random_keys(4, 20_000)
            .into_iter()
            .filter(|key| key::is_page(key) || key::is_variant(key))
            .map(|key| (form(&key), key))
            .collect();
        let within = |host: &[u8], domain: &[u8]| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."))
        };
        let mut hosts: BTreeSet<String> = HOSTS.map(str::to_owned).into();
        hosts.extend(["1.4".into(), "COM".into(), "bücher.example".into(), "\u{7f}".into(), "a.com:80".into()]);
        for (_, key) in &keys {
            let Some(host) = urlindex::host(key::url(key)) else { continue };
            hosts.extend(str::from_utf8(host).ok().map(str::to_owned));
        }
        assert!(hosts.len() > 200);
        for host in hosts {
            let canonical = canonical_host(&host).unwrap_or_else(|| host.clone());
            let (of_host, of_domain) = (of_host(&host), of_domain(&host));
            for (form, key) in &keys {
                let found = urlindex::host(key::url(key));
                let wanted = (
                    found == Some(canonical.as_bytes()),
                    found.is_some_and(|found| within(found, canonical.as_bytes())),
                );
                let in_others = others().contains(form);
                let listed = (of_host.contains(form), of_domain.contains(form));
                let expected = (wanted.0 && !in_others, wanted.1 && !in_others);
                assert_eq!(listed, expected, "{host:?} {}", key.escape_ascii());
            }
        }
    }

    #[test]
    fn a_prefix_has_a_range_from_its_path_on() {
        let keys: Vec<(Vec<u8>, Slow, Vec<u8>)> = random_keys(5, 1000)
            .into_iter()
            .filter(|key| key::is_page(key) || key::is_variant(key))
            .map(|key| (form(&key), slow(&key), key))
            .collect();
        let all_prefixes = keys.iter().flat_map(|(_, _, key)| (0..=key.len()).map(|end| &key[..end]));
        let mut ranges = 0;
        for prefix in all_prefixes.collect::<BTreeSet<_>>() {
            let (range, among_others) = (with_prefix(prefix), others_with_prefix(prefix));
            ranges += usize::from(range.as_ref().is_some_and(|range| !range.is_empty()));
            let parts = slow(prefix);
            for (form, slow, key) in &keys {
                let is_url = matches!(slow, Slow::Url { .. });
                assert_eq!(among_others.contains(form), !is_url && key.starts_with(prefix));
                let Some(range) = &range else { continue };
                let shares = match (&parts, slow) {
                    (Slow::Url { labels: a, path: begin, .. }, Slow::Url { labels: b, path, .. }) => {
                        a == b && path.starts_with(begin)
                    }
                    _ => false,
                };
                let said = || format!("{} {}", prefix.escape_ascii(), key.escape_ascii());
                assert_eq!(range.contains(form), shares && !prefix.contains(&0), "{}", said());
                let is_wanted = is_url && key::url(key).starts_with(prefix);
                assert!(!is_wanted || range.contains(form), "{}", said());
            }
        }
        assert!(ranges > 500, "{ranges}");
        for none in
            ["", "h", "http", "https:/", "http://", "https://", "http://a", "http://a:80", "http://[::1]", "http://u@a"]
        {
            assert_eq!(with_prefix(none.as_bytes()), None, "{none}");
        }
        for empty in ["ftp://a/", "x", "http://u@a/", "http:///", "http://a/\x01", "http://a:080/"] {
            assert_eq!(with_prefix(empty.as_bytes()), Some(Range::default()), "{empty}");
        }
        let range = with_prefix(b"https://b.a:8080/x\xff").expect("a range");
        assert_eq!(range, b"a\x02b\x01/x\xff".to_vec()..b"a\x02b\x01/y".to_vec());
    }

    #[test]
    fn bytes_that_are_no_form_are_refused() {
        let mut rng = Rng::with_seed(6);
        let (mut taken, mut refused) = (0, 0);
        for round in 0..300_000 {
            let mut bytes = match round % 4 {
                0 => (0..rng.usize(..12)).map(|_| rng.u8(..)).collect(),
                1 => (0..rng.usize(..12)).map(|_| b"\0\x01\x02\x03\x04\x05\x06a1./[]:"[rng.usize(..14)]).collect(),
                _ => form(&random_key(&mut rng)),
            };
            spoil(&mut rng, &mut bytes);
            let mut out = b"before".to_vec();
            if super::key(&bytes, &mut out) {
                assert_eq!(form(&out[6..]).escape_ascii().to_string(), bytes.escape_ascii().to_string());
                taken += 1;
            } else {
                assert_eq!(out, b"before");
                refused += 1;
            }
        }
        assert!(taken > 50_000 && refused > 50_000, "{taken} {refused}");
        for bytes in
            [&b""[..], b"\x80", b"\x81", b"a\x01/\x07", b"4\x023\x022\x021\x01/\x03", b"a.b\x01/\x03", b"\x80http://a/"]
        {
            assert!(!super::key(bytes, &mut Vec::new()), "{}", bytes.escape_ascii());
        }
    }
}
