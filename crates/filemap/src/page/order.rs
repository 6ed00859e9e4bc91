//! The order in which a store lists its keys. Each key has an *ordered form*. Forms sort as plain
//! bytes, so the engine, which knows no URLs, can keep sorted runs of them.
//!
//! | key | ordered form |
//! |---|---|
//! | page, an `http` or `https` URL | labels of the host, last first, 2 between them; 1; path; end |
//! | any other page | 0x80, key |
//! | variant of a page of the first row | 0x81, form of the page, NUL, variant |
//! | any other variant | 0x82, key |
//! | record beside a page of the first row, or its variant | 0x83, form of the page, NUL, rest |
//! | any other record beside; a key of the store's own | 0x84, key |
//!
//! "Path" is everything after the authority, with query and fragment. The end is one byte, 3 to 6,
//! for the scheme and for the presence of a port, then the port in two bytes, high byte first. So
//! `https://www.example.com/a` is `com 2 example 2 www 1 /a 5`: two bytes longer than the URL
//! without its scheme.
//!
//! No byte of a host is below `!`, and no byte of a path is below TAB; separators and ends are
//! lower. Hence:
//!
//! - a host sorts before its subdomains, and both are one range;
//! - `http` and `https` of a path are neighbours, and sort before every longer path;
//! - pages, variants and the records beside them ([`Class`]) are three ranges: a range of pages
//!   contains only keys of pages, so they are counted without reading each.
//!
//! An address of IPv4 or IPv6 is one label and is not reversed. A URL has *the shape* for the
//! first row if its scheme is in lower case, it has no user, its host is an address in its
//! shortest form or consists of labels of printable ASCII with a last label that is not a number,
//! its port is a decimal number without leading zeros, and its path has no byte below TAB. Nearly
//! every canonical URL has it. Others keep their bytes: escaping could double the length of a key.
//!
//! Invariant: [`ordered`] and [`key`] are inverses for all non-empty keys; [`key`] rejects all
//! other bytes. A form is at most one byte longer than its key.

mod groups;

use std::io::Write;
use std::net::Ipv4Addr;
use std::ops::Range;

use filemap_core::list::KeyOrder;
use urlindex::canonical::canonical_host;

use crate::page::key;

/// Ends the host: lower than [`DOT`], so that a host sorts before its subdomains.
const HOST_END: u8 = 1;
/// Separates two labels.
const DOT: u8 = 2;
/// The ends of a path.
const HTTP: u8 = 3;
const HTTP_WITH_PORT: u8 = 4;
const HTTPS: u8 = 5;
const HTTPS_WITH_PORT: u8 = 6;
/// The lowest byte of a path: 7 and 8 are reserved for further schemes.
const PATH_MIN: u8 = b'\t';
/// First byte of the forms of pages without the shape, followed by the key: above every byte that
/// a host can begin with. The first bytes of the other classes follow; even ones are for keys
/// without the shape.
const OTHER: u8 = 0x80;

/// The class of a key. Each class is one range of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Pages,
    Variants,
    /// Records beside pages and variants, and marks: never listed.
    Beside,
}

/// The key order that the engine uses.
pub(crate) const ORDER: KeyOrder = KeyOrder { name: "urls 1", ordered, key, groups: Some(groups::GROUPS) };

/// Appends the ordered form of a key.
pub(crate) fn ordered(key: &[u8], out: &mut Vec<u8>) {
    out.reserve(key.len() + 1);
    let (class, url, tail) = split(key);
    if let Some(parts) = Parts::of_url(url) {
        out.extend(class.lead());
        parts.push_form(out);
        out.extend_from_slice(tail);
    } else {
        out.push(class.lead_of_others());
        out.extend_from_slice(key);
    }
}

/// Appends the key of an ordered form. Returns false, and appends nothing, if these bytes are not
/// a form.
pub(crate) fn key(form: &[u8], out: &mut Vec<u8>) -> bool {
    let before = out.len();
    let is_form = match class(form) {
        Some(class) if form.first() == Some(&class.lead_of_others()) => {
            let key = &form[1..];
            out.extend_from_slice(key);
            let (of_key, url, _) = split(key);
            !key.is_empty() && of_key == class && Parts::of_url(url).is_none()
        }
        Some(class) => push_key(class, form, out).is_some(),
        None => false,
    };
    if !is_form {
        out.truncate(before);
    }
    is_form
}

/// The class of the key with this form; `None` if these bytes are not a form. Does not detect
/// every invalid form: [`key`] does.
pub(crate) fn class(form: &[u8]) -> Option<Class> {
    match form.first()? {
        0..=OTHER => Some(Class::Pages),
        0x81 | 0x82 => Some(Class::Variants),
        0x83 | 0x84 => Some(Class::Beside),
        _ => None,
    }
}

/// The pages on the host of the page with this form; `None` if its URL lacks the shape.
pub(crate) fn of_same_host(form: &[u8]) -> Option<Range<Vec<u8>>> {
    let labels = memchr::memchr(HOST_END, form).map(|end| &form[..end]).filter(|_| form.first() < Some(&OTHER))?;
    Some([labels, &[HOST_END]].concat()..[labels, &[HOST_END + 1]].concat())
}

/// The keys of archives.
pub(crate) fn of_archives() -> Range<Vec<u8>> {
    let form = [&[Class::Beside.lead_of_others()], key::ARCHIVE].concat();
    let end = [form.as_slice(), &[u8::MAX]].concat();
    form..end
}

impl Class {
    /// All classes, in their order.
    pub(crate) const ALL: [Class; 3] = [Class::Pages, Class::Variants, Class::Beside];

    /// First byte of the forms of keys with the shape.
    fn lead(self) -> Option<u8> {
        match self {
            Class::Pages => None,
            Class::Variants => Some(0x81),
            Class::Beside => Some(0x83),
        }
    }

    fn lead_of_others(self) -> u8 {
        self.lead().map_or(OTHER, |lead| lead + 1)
    }

    /// All keys of the class.
    pub(crate) fn all(self) -> Range<Vec<u8>> {
        self.lead().into_iter().collect()..vec![self.lead_of_others() + 1]
    }

    /// The keys of the class with the shape.
    pub(crate) fn shaped(self) -> Range<Vec<u8>> {
        self.lead().into_iter().collect()..vec![self.lead_of_others()]
    }

    /// `http` and `https` URLs of this host, in any spelling and with any port.
    ///
    /// Exact. Keys without the shape are in [`Class::others_with_prefix`], whatever their host.
    pub(crate) fn of_host(self, host: &str) -> Range<Vec<u8>> {
        self.led(of_labels(host, HOST_END))
    }

    /// As [`Class::of_host`], including the host's subdomains.
    pub(crate) fn of_domain(self, host: &str) -> Range<Vec<u8>> {
        self.led(of_labels(host, DOT))
    }

    /// `http` and `https` URLs that begin with these bytes. `None` if the prefix ends within
    /// scheme or authority: these URLs are not one range.
    ///
    /// The range contains the path with any scheme and port: `Scope::filter` selects the wanted
    /// ones. Keys without the shape are in [`Class::others_with_prefix`].
    pub(crate) fn with_prefix(self, prefix: &[u8]) -> Option<Range<Vec<u8>>> {
        with_prefix(prefix).map(|range| self.led(range))
    }

    /// Keys without the shape that begin with these bytes: usually few. Exact unless the prefix
    /// contains a NUL: then `Scope::filter` rejects all, as no URL has one.
    ///
    /// A list of a host or domain reads all of these, too; `Scope::filter` selects the wanted
    /// ones.
    pub(crate) fn others_with_prefix(self, prefix: &[u8]) -> Range<Vec<u8>> {
        beginning_with([&[self.lead_of_others()], prefix].concat())
    }

    /// The variants of a URL, or the records beside it and its variants; for `Pages`, the page
    /// itself.
    pub(crate) fn of_url(self, url: &[u8]) -> Range<Vec<u8>> {
        let end: &[u8] = match self {
            Class::Pages => b"",
            Class::Variants => b"\0\0",
            Class::Beside => b"\0",
        };
        let mut from = Vec::new();
        ordered(&[url, end].concat(), &mut from);
        match self {
            Class::Pages => from.clone()..[&from[..], &[0]].concat(),
            Class::Variants | Class::Beside => beginning_with(from),
        }
    }

    /// The range of this class that corresponds to a range of pages.
    fn led(self, pages: Range<Vec<u8>>) -> Range<Vec<u8>> {
        let led = |form: Vec<u8>| self.lead().into_iter().chain(form).collect();
        led(pages.start)..led(pages.end)
    }
}

/// The range of [`Class::with_prefix`] for pages.
fn with_prefix(prefix: &[u8]) -> Option<Range<Vec<u8>>> {
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

/// The class of a key, its URL, and the part that follows the page's form in its own form: empty,
/// or NUL and more.
fn split(key: &[u8]) -> (Class, &[u8], &[u8]) {
    let (url, rest) = key.split_at(key::url(key).len());
    match rest {
        [] => (Class::Pages, url, rest),
        [_, 0, ..] => (Class::Variants, url, &rest[1..]),
        _ => (Class::Beside, url, rest),
    }
}

/// The parts of a URL with the shape.
struct Parts<'k> {
    host: &'k [u8],
    path: &'k [u8],
    is_https: bool,
    port: Option<u16>,
}

impl<'k> Parts<'k> {
    fn of_url(url: &'k [u8]) -> Option<Parts<'k>> {
        let (is_https, rest) = split_scheme(url)?;
        let (host, rest) = rest.split_at(host_bytes(rest));
        // Without a bracket all bytes of the host are those of names.
        let is_host = host.first() != Some(&b'[') && ends_in_name(host) || is_address(host);
        if !is_host {
            return None;
        }
        let (port, path) = match rest.strip_prefix(b":") {
            None => (None, rest),
            Some(rest) => {
                let (digits, path) = rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
                (Some(port(digits)?), path)
            }
        };
        is_path(path).then_some(Parts { host, path, is_https, port })
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
    }
}

/// Returns true for `https`, and the part after `://`; `None` for another scheme.
fn split_scheme(url: &[u8]) -> Option<(bool, &[u8])> {
    let rest = url.strip_prefix(b"http")?;
    let (is_https, rest) = rest.strip_prefix(b"s").map_or((false, rest), |rest| (true, rest));
    Some((is_https, rest.strip_prefix(b"://")?))
}

/// Returns whether a byte ends the authority of a URL, as for [`urlindex::host`].
fn ends_authority(byte: u8) -> bool {
    matches!(byte, b'/' | b'?' | b'#' | b'\\')
}

/// Returns whether this may follow the authority of a URL with the shape.
fn is_path(path: &[u8]) -> bool {
    path.first().is_none_or(|&first| ends_authority(first)) && lowest(path) >= PATH_MIN
}

/// The lowest byte. The loop has no early exit, so that the compiler vectorises it.
fn lowest(bytes: &[u8]) -> u8 {
    bytes.iter().fold(u8::MAX, |low, &byte| low.min(byte))
}

/// Length of the path after [`HOST_END`] in an ordered form.
fn path_bytes(rest: &[u8]) -> Option<usize> {
    let chunk_bytes = 16;
    let whole = rest.chunks_exact(chunk_bytes).take_while(|chunk| lowest(chunk) >= PATH_MIN).count() * chunk_bytes;
    Some(whole + rest[whole..].iter().position(|&byte| byte < PATH_MIN)?)
}

/// Length of the host after `://` in a URL with the shape.
fn host_bytes(rest: &[u8]) -> usize {
    match rest.first() {
        Some(b'[') => memchr::memchr(b']', rest).map_or(0, |at| at + 1),
        _ => rest.iter().position(|&byte| !IS_OF_NAME[usize::from(byte)]).unwrap_or(rest.len()),
    }
}

/// Parses a port; `None` unless the digits are in canonical form.
fn port(digits: &[u8]) -> Option<u16> {
    if !matches!(digits, [b'0'] | [b'1'..=b'9', ..]) || digits.len() > 5 {
        return None;
    }
    u16::try_from(digits.iter().fold(0, |number: u32, digit| number * 10 + u32::from(digit - b'0'))).ok()
}

/// Returns whether a host is an address; an IPv4 address must be in its shortest form.
fn is_address(host: &[u8]) -> bool {
    if let Some(inside) = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
        // Dots are not allowed: listings would take `[1.1]` for a subdomain of `1]`.
        return inside.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b':'));
    }
    // The parser takes only octets without leading zeros.
    host.last().is_some_and(u8::is_ascii_digit)
        && str::from_utf8(host).is_ok_and(|host| host.parse::<Ipv4Addr>().is_ok())
}

/// Returns whether a host consists of labels separated by dots, with a last label that is not a
/// number. Addresses are not reversed, so the hosts of a domain that ends in a number would not be
/// one range.
fn is_name(host: &[u8]) -> bool {
    ends_in_name(host) && host.iter().all(|&byte| IS_OF_NAME[usize::from(byte)])
}

/// Returns whether a host is not empty and its last label is not a number.
fn ends_in_name(host: &[u8]) -> bool {
    let digits = host.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = host[..host.len() - digits].last();
    before.is_some_and(|&byte| digits == 0 || byte != b'.')
}

/// Bytes of labels, and the dot.
const IS_OF_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        table[byte as usize] = !matches!(byte, b'/' | b'?' | b'#' | b'\\' | b':' | b'@' | b'[' | b']');
        byte += 1;
    }
    table
};

/// Appends the labels of a host with the shape, last first.
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

/// Appends the key of an ordered form of this class with the shape. Returns `None` if the bytes
/// are not such a form; part of a key may then be appended.
fn push_key(class: Class, form: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let form = &form[usize::from(class.lead().is_some())..];
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
    let mut tail = rest;
    if has_port {
        let (port, rest) = rest.split_first_chunk()?;
        write!(out, ":{}", u16::from_be_bytes(*port)).ok()?;
        tail = rest;
    }
    if path.first().is_some_and(|&first| !ends_authority(first)) {
        return None;
    }
    out.extend_from_slice(path);
    match (class, tail) {
        (Class::Pages, []) => {}
        (Class::Variants, [0, ..]) => out.push(0),
        (Class::Beside, [0] | [0, 1..=u8::MAX, ..]) => {}
        _ => return None,
    }
    out.extend_from_slice(tail);
    Some(())
}

/// Appends the host of these labels. Returns `None` if [`push_labels`] does not produce them.
fn push_host(labels: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // Labels contain dots or brackets only in an address.
    if memchr::memchr2(b'.', b'[', labels).is_some() {
        out.extend_from_slice(labels);
        return is_address(labels).then_some(());
    }
    let before = out.len();
    push_reversed(labels, DOT, b'.', out);
    is_name(&out[before..]).then_some(())
}

/// The forms that begin with the labels of a host, then [`HOST_END`] or a byte up to `last`.
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

/// All forms that begin with these bytes, which are not all 0xff.
fn beginning_with(from: Vec<u8>) -> Range<Vec<u8>> {
    let mut until = from.clone();
    while until.pop_if(|last| *last == u8::MAX).is_some() {}
    if let Some(last) = until.last_mut() {
        *last += 1;
    }
    from..until
}

#[cfg(test)]
mod tests;
