//! SURT keys: the sort-friendly form of a URL in indexes of web archives
//! (`com,example)/path?query`).
//!
//! A player looks a page up under the key that *it* makes from the URL, so the keys must equal
//! those of the tools in use (the Python package `surt` with its default options, as in pywb and
//! the Wayback Machine): no scheme, user or fragment; the host reversed, without `www.`; escapes
//! decoded and encoded again; lower case; no session ids; the arguments of the query sorted. Many
//! URLs may share a key: it is an index's key, never the store's.
//!
//! Any bytes have a key. It contains no space and no line end, so it can come first in a line of
//! an index.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

/// ASCII that is escaped in a key.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'#').add(b'%');

/// The key of `url` in archive indexes.
///
/// ```
/// assert_eq!(filemap::dump::index_key(b"http://www.example.com/A?b=2&a=1"), b"com,example)/a?a=1&b=2");
/// ```
pub fn surt(url: &[u8]) -> Vec<u8> {
    of_plain(url).unwrap_or_else(|| of_any(url))
}

/// The key of a URL in which only the host's order and the case of letters change, as in most:
/// takes a tenth of the time. `None` if more may have to change.
fn of_plain(url: &[u8]) -> Option<Vec<u8>> {
    let rest = url.strip_prefix(b"http://").or_else(|| url.strip_prefix(b"https://"))?;
    let (host, path) = rest.split_at(memchr::memchr(b'/', rest)?);
    if !is_plain_name(host) || host.starts_with(b".") || memchr::memmem::find(host, b"..").is_some() {
        return None;
    }
    let mut before = b' ';
    for &byte in path {
        let is_plain = byte.is_ascii_graphic() && !matches!(byte, b'%' | b'#' | b'?' | b'(');
        if !is_plain || before == b'/' && matches!(byte, b'/' | b'.') {
            return None;
        }
        before = byte;
    }
    let mut key = Vec::with_capacity(url.len());
    for label in without_www(host).rsplit(|&byte| byte == b'.') {
        key.extend_from_slice(label);
        key.push(b',');
    }
    key.pop();
    key.push(b')');
    let from = key.len();
    key.extend_from_slice(path);
    key[from..].make_ascii_lowercase();
    if path.len() > 1 && before == b'/' {
        key.pop();
    }
    Some(key)
}

fn of_any(url: &[u8]) -> Vec<u8> {
    let url: Vec<u8> = url.trim_ascii().iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n' | b'\t')).collect();
    if url.is_empty() {
        return b"-".to_vec();
    }
    let (scheme, rest) = split_scheme(&url);
    let rest = rest.split(|&byte| byte == b'#').next().unwrap_or_default();
    let (before_query, query) = match rest.iter().position(|&byte| byte == b'?') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    let (authority, path) = split_authority(&scheme, before_query);
    let (host, port) = split_port(authority);
    let host = canonical_host(&host);
    let mut key = Vec::with_capacity(url.len());
    if host.is_empty() {
        key.extend_from_slice(&scheme);
        key.push(b':');
    } else {
        let labels: Vec<&[u8]> = host.split(|&byte| byte == b'.').rev().collect();
        key.extend_from_slice(&labels.join(&b','));
        let default: &[u8] = if scheme == b"http" { b"80" } else { b"443" };
        let is_usual = port.is_empty() || scheme.starts_with(b"http") && port == default;
        if !is_usual {
            key.push(b':');
            key.extend_from_slice(port);
        }
        key.push(b')');
    }
    key.extend_from_slice(&canonical_path(path, !host.is_empty()));
    let query = canonical_query(query);
    if !query.is_empty() {
        key.push(b'?');
        key.extend_from_slice(&query);
    }
    key
}

/// The scheme in lower case, and the rest after its colon; `http` if there is none.
fn split_scheme(url: &[u8]) -> (Vec<u8>, &[u8]) {
    let colon = url.iter().position(|&byte| byte == b':').filter(|&at| at > 0 && url[0].is_ascii_alphabetic());
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let Some(colon) = colon.filter(|&at| url[..at].iter().all(is_scheme)) else {
        // As in a browser's address bar.
        return (b"http".to_vec(), url);
    };
    let (scheme, rest) = (&url[..colon], &url[colon + 1..]);
    // `http://http://host/` is a common mistake.
    let is_web = |rest: &&[u8]| rest.starts_with(b"http://") || rest.starts_with(b"https://");
    match rest.strip_prefix(b"//").filter(is_web) {
        Some(inner) if matches!(scheme, b"http" | b"https") => split_scheme(inner),
        _ => (scheme.to_ascii_lowercase(), rest),
    }
}

fn split_authority<'a>(scheme: &[u8], rest: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let cut = |rest: &'a [u8]| rest.split_at(rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len()));
    let (authority, path) = rest.strip_prefix(b"//").map_or((&b""[..], rest), cut);
    if !authority.is_empty() || !scheme.starts_with(b"http") {
        return (authority, path);
    }
    // A missing host: `http:///host/path`.
    let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
    cut(&path[slashes..])
}

/// The host of an authority, without user, brackets and port; and its port.
fn split_port(authority: &[u8]) -> (Vec<u8>, &[u8]) {
    let after_user = authority.iter().rposition(|&byte| byte == b'@').map_or(0, |at| at + 1);
    let rest = &authority[after_user..];
    let (host, port) = match rest.strip_prefix(b"[") {
        Some(inner) => inner.split_at(inner.iter().position(|&byte| byte == b']').unwrap_or(inner.len())),
        None => rest.split_at(rest.iter().position(|&byte| byte == b':').unwrap_or(rest.len())),
    };
    let digits = port.iter().position(u8::is_ascii_digit).map_or(&b""[..], |at| &port[at..]);
    let is_number = digits.iter().all(u8::is_ascii_digit);
    (host.to_ascii_lowercase(), if is_number { digits } else { b"" })
}

fn canonical_host(host: &[u8]) -> Vec<u8> {
    let mut host = undone(host);
    if !is_plain_name(&host) {
        // Names in other scripts become punycode, addresses get their usual form.
        let text = std::str::from_utf8(&host).ok();
        if let Some(canonical) = text.and_then(urlindex::canonical::canonical_host).filter(|_| !host.contains(&b':')) {
            host = canonical.into_bytes();
        }
    }
    let labels: Vec<&[u8]> = host.split(|&byte| byte == b'.').filter(|label| !label.is_empty()).collect();
    without_www(&escaped(&labels.join(&b'.')).to_ascii_lowercase()).to_vec()
}

/// A host without `www.`, `www2.` and the like.
fn without_www(host: &[u8]) -> &[u8] {
    let Some(rest) = host.strip_prefix(b"www") else { return host };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b".").unwrap_or(host)
}

/// Returns whether a host is a name that is already canonical, as nearly all are: asking the
/// canonicaliser would take half of the time of a key.
fn is_plain_name(host: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    // An IP address ends with a number.
    let last = host.iter().rposition(|&byte| byte == b'.').map_or(0, |at| at + 1);
    host.iter().all(is_plain)
        && host.get(last).is_some_and(u8::is_ascii_lowercase)
        && memchr::memmem::find(host, b"xn--").is_none()
}

fn canonical_path(path: &[u8], has_host: bool) -> Vec<u8> {
    let mut path = undone(path);
    if has_host {
        path = without_dots(&path);
    }
    let mut path = without_path_session(escaped(&path).to_ascii_lowercase());
    if path.len() > 1 && path.last() == Some(&b'/') {
        path.pop();
    }
    path
}

/// A path without `.`, `..` and empty segments; the last segment stays, even if it is empty.
fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in path.split(|&byte| byte == b'/').skip(1) {
        match segment {
            b"." => {}
            b".." if !kept.is_empty() => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let last = kept.pop().unwrap_or_default();
    let mut out = vec![b'/'];
    for segment in kept.into_iter().filter(|segment| !segment.is_empty()) {
        out.extend_from_slice(segment);
        out.push(b'/');
    }
    out.extend_from_slice(last);
    out
}

/// A path without the session ids of ASP.NET: `/(S(24 letters))/page.aspx` and `/(24
/// letters)/page.aspx`.
fn without_path_session(path: Vec<u8>) -> Vec<u8> {
    if !path.contains(&b'(') {
        return path;
    }
    let is_letters = |bytes: &[u8]| bytes.len() == 24 && bytes.iter().all(u8::is_ascii_alphanumeric);
    let is_session = |segment: &[u8]| {
        let Some(inner) = segment.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")")) else { return false };
        let mut parts = inner.chunks(27);
        let is_named = |part: &[u8]| {
            part.len() == 27
                && part[0].is_ascii_alphabetic()
                && part[1] == b'('
                && part[26] == b')'
                && is_letters(&part[2..26])
        };
        is_letters(inner) || !inner.is_empty() && parts.all(is_named)
    };
    let segments: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    let last = segments.len().saturating_sub(1);
    let session = (1..last).rev().find(|&at| is_session(segments[at]));
    let aspx =
        |at: &usize| memchr::memmem::find(&segments[at + 1..].join(&b'/'), b".aspx").is_some_and(|found| found > 0);
    match session.filter(aspx) {
        Some(at) => [&segments[..at], &segments[at + 1..]].concat().join(&b'/'),
        None => path,
    }
}

fn canonical_query(query: &[u8]) -> Vec<u8> {
    let query = without_query_session(escaped(&undone(query))).to_ascii_lowercase();
    if query.len() <= 1 {
        return query;
    }
    let mut arguments: Vec<Vec<&[u8]>> =
        query.split(|&byte| byte == b'&').map(|argument| argument.splitn(2, |&byte| byte == b'=').collect()).collect();
    arguments.sort();
    arguments.into_iter().map(|argument| argument.join(&b'=')).collect::<Vec<_>>().join(&b'&')
}

/// A query without the session ids of well-known servers.
fn without_query_session(mut query: Vec<u8>) -> Vec<u8> {
    for (name, letters, value) in
        [("jsessionid=", 0, 32), ("phpsessid=", 0, 32), ("sid=", 0, 32), ("aspsessionid", 8, 24)]
    {
        cut_session(&mut query, |rest| {
            let after = strip_name(rest, name)?;
            let (named, after) = after.split_at_checked(letters)?;
            let after = if letters > 0 { after.strip_prefix(b"=")? } else { after };
            let id = after.get(..value)?;
            let fits = |bytes: &[u8], digits: bool| {
                bytes.iter().all(|byte| byte.is_ascii_alphabetic() || digits && byte.is_ascii_digit())
            };
            (fits(named, false) && fits(id, letters == 0)).then_some(rest.len() - after.len() + value)
        });
    }
    cut_session(&mut query, |rest| {
        let value = |bytes: &[u8]| bytes.iter().position(|&byte| byte == b'&').unwrap_or(bytes.len());
        let after = strip_name(rest, "cfid=")?;
        let id = value(after);
        let token = strip_name(after.get(id..)?, "&cftoken=")?;
        let length = value(token);
        (id > 0 && length > 0).then_some(rest.len() - token.len() + length)
    });
    query
}

fn strip_name<'a>(rest: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (head, after) = rest.split_at_checked(name.len())?;
    head.eq_ignore_ascii_case(name.as_bytes()).then_some(after)
}

/// Removes the last session id, with the `&` after it. `session` returns the length of a session
/// id at the start of its argument; it must end an argument.
fn cut_session(query: &mut Vec<u8>, session: impl Fn(&[u8]) -> Option<usize>) {
    for at in (0..query.len()).rev() {
        let Some(length) = session(&query[at..]) else { continue };
        match query.get(at + length) {
            None => return query.truncate(at),
            Some(b'&') => return drop(query.drain(at..=at + length)),
            Some(_) => {}
        }
    }
}

/// Decodes the escapes of `text` until none is left.
fn undone(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    while text.contains(&b'%') {
        let out: Vec<u8> = percent_decode(&text).collect();
        if out.len() == text.len() {
            return out;
        }
        text = out;
    }
    text
}

/// Escapes all bytes of `text` that are not printable ASCII, and the space, `#` and `%`.
fn escaped(text: &[u8]) -> Vec<u8> {
    if text.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'%')) {
        return text.to_vec();
    }
    percent_encode(text, ESCAPED).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(url: &str) -> String {
        String::from_utf8(surt(url.as_bytes())).expect("ASCII")
    }

    #[test]
    fn the_shorter_way_is_taken_by_plain_urls() {
        for url in ["http://www.example.com/", "https://a.example/A/b.html", "http://a.example/x/y/~z;v=1&2/"] {
            assert_eq!(of_plain(url.as_bytes()), Some(of_any(url.as_bytes())), "{url}");
        }
        for url in ["http://a.example", "http://A.example/", "http://a.example/?", "http://a.example/a//b", "a/b"] {
            assert_eq!(of_plain(url.as_bytes()), None, "{url}");
        }
    }

    proptest! {
        #[test]
        fn the_shorter_way_to_a_key_gives_the_same(
            host in "(www[0-9]?\\.)?[a-zA-Z0-9.:@-]{0,12}(\\.[a-z]{1,3})?",
            path in "(/|[a-zA-Z0-9./%#?;=&()~\\\\é-]){0,16}",
            scheme in "(https?|ftp|HTTP)",
        ) {
            let url = format!("{scheme}://{host}{path}");
            if let Some(key) = of_plain(url.as_bytes()) {
                prop_assert_eq!(key, of_any(url.as_bytes()), "{}", url);
            }
        }
    }

    #[test]
    fn keys_are_those_of_the_tools_in_use() {
        // Keys of the Python package surt 0.3.1.
        let cases = [
            ("http://www.Example.com:80/A/../b/?z=1&a=2#top", "com,example)/b?a=2&z=1"),
            ("https://www2.example.co.uk:8443/x%2fy", "uk,co,example:8443)/x/y"),
            ("http://example.com", "com,example)/"),
            ("http://user:pw@example.com/a//b/./c/", "com,example)/a/b/c"),
            ("http://example.com/?", "com,example)/"),
            ("http://example.com/a b?q=é", "com,example)/a%20b?q=%c3%a9"),
            ("http://127.0.0.1/x", "1,0,0,127)/x"),
            ("http://example.com/?jsessionid=0123456789abcdefghijklemopqrstuv&x=y", "com,example)/?x=y"),
            ("http://example.com/(s(123456789012345678901234))/default.aspx", "com,example)/default.aspx"),
            ("dns:www.example.com", "dns:www.example.com"),
            ("mailto:A@b.c", "mailto:a@b.c"),
            ("example.com/x", "com,example)/x"),
            ("http://http://example.com/", "com,example)/"),
            ("", "-"),
        ];
        for (url, expected) in cases {
            assert_eq!(key(url), expected, "{url}");
        }
    }

    #[test]
    fn international_hosts_are_in_punycode() {
        assert_eq!(key("http://bücher.example/"), "example,xn--bcher-kva)/");
    }

    proptest! {
        #[test]
        fn a_plain_name_is_its_canonical_form(host in "[a-z0-9.-]{1,12}|([a-z][a-z0-9-]{0,5}\\.){0,3}[a-z0-9]{1,5}") {
            let canonical = urlindex::canonical::canonical_host(&host);
            if let Some(canonical) = canonical.filter(|_| is_plain_name(host.as_bytes())) {
                prop_assert_eq!(canonical, host);
            }
        }

        #[test]
        fn any_bytes_have_a_key_of_one_word(url: Vec<u8>) {
            for url in [url.clone(), [b"http://", &url[..]].concat()] {
                let key = surt(&url);
                prop_assert!(!key.is_empty() && key.iter().all(u8::is_ascii_graphic), "{:?}", key);
            }
        }
    }
}
