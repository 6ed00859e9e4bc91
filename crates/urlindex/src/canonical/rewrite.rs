//! The crawl rules: one function each, which returns whether it changed anything.
//!
//! A rule allocates only what it changes. Each is idempotent; together they run until none changes
//! anything (see `crawl`).

use std::borrow::Cow;

use super::parts::{EMPTY, INVALID, LISTED, PERCENT, Parts, SESSION, SLASHES, UNSORTED, UPPER};
use super::rule::Rule;
use super::{names, parameters};

/// Applies a rule; returns true if it changed anything. What an earlier rule introduced may wait
/// for the next round.
pub(super) fn apply(rule: Rule, parts: &mut Parts<'_>, dropped: &[String]) -> bool {
    match rule {
        Rule::DefaultPort => {
            let default = if parts.scheme == "http" { "80" } else { "443" };
            parts.port.take_if(|port| *port == default).is_some()
        }
        Rule::Fragment => parts.fragment.take().is_some(),
        Rule::UserInfo => parts.user.take().is_some(),
        Rule::HostDot => host_dot(parts),
        Rule::Www => www(parts),
        Rule::Scheme => {
            let is_https = parts.scheme == "https";
            // Each scheme has its own default port.
            let is_plain = is_https && parts.port.is_none();
            if is_plain {
                parts.scheme = "http";
            }
            is_plain
        }
        Rule::PercentCase => parts.has(PERCENT) && each_text(parts, percent_case),
        Rule::PercentUnreserved => parts.has(PERCENT) && each_text(parts, percent_unreserved),
        Rule::EmptySegments => parts.has(SLASHES) && put(&mut parts.path, empty_segments),
        Rule::RepeatedSegments => put(&mut parts.path, repeated_segments),
        Rule::SessionIds1 => sessions(parts, is_cookieless_1, names::is_session_1),
        Rule::SessionIds => sessions(parts, is_cookieless, names::is_session),
        Rule::Tracking => {
            if !parts.has(LISTED) && dropped.is_empty() {
                return false;
            }
            let is_dropped = |name: &str| dropped.iter().any(|dropped| dropped.eq_ignore_ascii_case(name));
            parameters::keep(parts, |name, _| !names::is_tracking(name) && !is_dropped(name))
        }
        Rule::EmptyParameters1 => parts.has(EMPTY) && parameters::drop_empty(parts, parameters::is_nameless),
        Rule::EmptyParameters => parts.has(EMPTY) && parameters::drop_empty(parts, parameters::is_nothing),
        Rule::SortedParameters => parts.has(UNSORTED) && parameters::sort(parts),
        Rule::Query => parts.query.take().is_some(),
        Rule::IndexFile => put(&mut parts.path, index_file),
        Rule::TrailingSlash => put(&mut parts.path, trailing_slash),
        Rule::LowerCase => parts.has(UPPER) && each_text(parts, lower_case),
        Rule::Surt => surt(parts),
        Rule::PercentInvalid => parts.has(PERCENT | INVALID) && each_text(parts, percent_invalid),
    }
}

fn put(part: &mut Cow<'_, str>, rule: impl Fn(&str) -> Option<String>) -> bool {
    let Some(new) = rule(part) else { return false };
    *part = Cow::Owned(new);
    true
}

fn each_text(parts: &mut Parts<'_>, rule: fn(&str) -> Option<String>) -> bool {
    let in_path = put(&mut parts.path, rule);
    parts.query.as_mut().is_some_and(|query| put(query, rule)) | in_path
}

fn host_dot(parts: &mut Parts<'_>) -> bool {
    put(&mut parts.host, |host| host.strip_suffix('.').filter(|rest| !rest.is_empty()).map(str::to_owned))
}

fn www(parts: &mut Parts<'_>) -> bool {
    put(&mut parts.host, |host| {
        let rest = host.strip_prefix("www")?.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix('.')?;
        let is_name = rest.trim_end_matches('.').contains('.') && !rest.starts_with('.');
        is_name.then(|| rest.to_owned())
    })
}

/// Whole escapes: position of the `%`, and its two hexadecimal digits.
fn escapes(text: &str) -> impl Iterator<Item = (usize, [u8; 2])> {
    let bytes = text.as_bytes();
    let is_hex = |pair: &[u8; 2]| pair.iter().all(u8::is_ascii_hexdigit);
    let percents = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%').map(|(at, _)| at);
    percents.filter_map(move |at| Some((at, *bytes[at + 1..].first_chunk::<2>().filter(|pair| is_hex(pair))?)))
}

fn percent_case(text: &str) -> Option<String> {
    let is_lower = |pair: [u8; 2]| pair.iter().any(u8::is_ascii_lowercase);
    escapes(text).find(|(_, pair)| is_lower(*pair))?;
    let mut new = text.to_owned();
    for (at, _) in escapes(text) {
        new[at..at + 3].make_ascii_uppercase();
    }
    Some(new)
}

fn percent_invalid(text: &str) -> Option<String> {
    let begins_escape =
        |at: usize| text.as_bytes()[at + 1..].first_chunk::<2>().is_some_and(|p| p.iter().all(u8::is_ascii_hexdigit));
    let is_invalid = |(at, c): (usize, char)| match c {
        '%' => !begins_escape(at),
        c => matches!(c, '[' | ']' | '{' | '}' | '|' | '\\' | '^' | '`'),
    };
    text.char_indices().find(|&place| is_invalid(place))?;
    let mut new = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        match is_invalid((at, c)) {
            true => new.push_str(&format!("%{:02X}", c as u32)),
            false => new.push(c),
        }
    }
    Some(new)
}

fn percent_unreserved(text: &str) -> Option<String> {
    let unreserved = |pair: [u8; 2]| {
        let byte = u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?;
        (byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)).then_some(byte)
    };
    escapes(text).find(|(_, pair)| unreserved(*pair).is_some())?;
    let (mut new, mut done) = (String::with_capacity(text.len()), 0);
    for (at, pair) in escapes(text) {
        if let Some(byte) = unreserved(pair) {
            new.push_str(&text[done..at]);
            new.push(char::from(byte));
            done = at + 3;
        }
    }
    new.push_str(&text[done..]);
    Some(new)
}

fn empty_segments(path: &str) -> Option<String> {
    path.as_bytes().windows(2).find(|pair| pair[0] == b'/' && pair[1] == b'/')?;
    let mut new = String::with_capacity(path.len());
    for c in path.chars().filter(|c| c.is_ascii()) {
        if c != '/' || !new.ends_with('/') {
            new.push(c);
        }
    }
    Some(new)
}

/// Longest repeated run of segments, and minimum number of repetitions.
const RUN_SEGMENTS_MAX: usize = 4;
const RUN_TIMES: usize = 3;

fn repeated_segments(path: &str) -> Option<String> {
    let segments: Vec<&str> = path[1..].split('/').collect();
    let mut kept: Vec<&str> = Vec::with_capacity(segments.len());
    let mut at = 0;
    while at < segments.len() {
        let rest = &segments[at..];
        let times = |run: usize| rest.chunks_exact(run).take_while(|chunk| *chunk == &rest[..run]).count();
        let run = (1..=RUN_SEGMENTS_MAX.min(rest.len())).find(|&run| !rest[0].is_empty() && times(run) >= RUN_TIMES);
        let (run, times) = run.map_or((1, 1), |run| (run, times(run)));
        kept.extend_from_slice(&rest[..run]);
        at += run * times;
    }
    (kept.len() < segments.len()).then(|| format!("/{}", kept.join("/")))
}

/// Drops `;jsessionid=...` of segments, segments that are an id, and session parameters.
fn sessions(parts: &mut Parts<'_>, is_id: fn(&str) -> bool, is_session: fn(&str, &str) -> bool) -> bool {
    let in_path = parts.has(SESSION) && put(&mut parts.path, |path| path_sessions(path, is_id, is_session));
    parts.has(LISTED) && parameters::keep(parts, |name, value| !is_session(name, value)) || in_path
}

fn path_sessions(path: &str, is_id: fn(&str) -> bool, is_session: fn(&str, &str) -> bool) -> Option<String> {
    path.find([';', '('])?;
    let segments = path[1..].split('/').filter(|segment| !is_id(segment));
    let segments: Vec<Cow<'_, str>> = segments.map(|segment| without_session(segment, is_session)).collect();
    let new = format!("/{}", segments.join("/"));
    (new != path).then_some(new)
}

/// Length of an ASP.NET id: 120 bits in letters and digits.
const ASP_ID_BYTES: usize = 24;
/// Length of the shortest ticket (`A(...)`, `F(...)`).
const ASP_TICKET_BYTES: usize = 20;

/// Returns whether a segment is a cookieless session of ASP.NET: `(24 letters and digits)` of
/// version 1, `(S(...))` of later ones, with tickets (`A`, `F`) and the browser test (`X(1)`) in
/// any order.
fn is_cookieless(segment: &str) -> bool {
    let Some(inner) = segment.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return false };
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if inner.len() == ASP_ID_BYTES && inner.bytes().all(is_lower) {
        return true;
    }
    let (mut rest, mut has_id) = (inner, false);
    while let Some((value, after)) = rest.get(1..).and_then(|after| after.strip_prefix('(')?.split_once(')')) {
        let is_ticket = || value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        match rest.as_bytes()[0] {
            b'S' | b'A' | b'F' if value.len() >= ASP_TICKET_BYTES && is_ticket() => has_id = true,
            b'X' if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {}
            _ => return false,
        }
        rest = after;
    }
    rest.is_empty() && has_id
}

/// [`is_cookieless`] of version 1.
fn is_cookieless_1(segment: &str) -> bool {
    let inner = segment.strip_prefix('(').and_then(|rest| rest.strip_suffix("))"));
    inner.is_some_and(|inner| {
        let form = inner.as_bytes().get(..2);
        matches!(form, Some(b"S(" | b"A(" | b"F(")) && inner.len() >= 22 && !inner.contains(['.', ','])
    })
}

fn without_session(segment: &str, is_session: fn(&str, &str) -> bool) -> Cow<'_, str> {
    if !segment.contains(';') {
        return Cow::Borrowed(segment);
    }
    let is_kept = |parameter: &&str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        !is_session(name, value)
    };
    let mut parts = segment.split(';');
    let first = parts.next().unwrap_or_default();
    Cow::Owned(std::iter::once(first).chain(parts.filter(is_kept)).collect::<Vec<_>>().join(";"))
}

/// Names of directory indexes, with their extensions.
const INDEX_FILES: [(&str, &[&str]); 2] = [
    ("index", &["html", "htm", "shtml", "xhtml", "php", "php3", "asp", "aspx", "jsp", "cgi"]),
    ("default", &["asp", "aspx", "htm", "html"]),
];

fn index_file(path: &str) -> Option<String> {
    let (directory, name) = path.rsplit_once('/')?;
    let (name, extension) = name.split_once('.')?;
    let is = |other: &&str| extension.eq_ignore_ascii_case(other);
    let is_index = INDEX_FILES.iter().any(|(index, all)| index.eq_ignore_ascii_case(name) && all.iter().any(is));
    is_index.then(|| format!("{directory}/"))
}

fn trailing_slash(path: &str) -> Option<String> {
    let kept = path.trim_end_matches('/');
    (kept.len() < path.len() && path.len() > 1).then(|| if kept.is_empty() { "/".to_owned() } else { kept.to_owned() })
}

/// Lower-cases all but escapes, which are left to `PercentCase`.
fn lower_case(text: &str) -> Option<String> {
    let mut new = text.to_ascii_lowercase();
    for (at, pair) in escapes(text) {
        new.replace_range(at + 1..at + 3, std::str::from_utf8(&pair).ok()?);
    }
    (new != text).then_some(new)
}

fn surt(parts: &mut Parts<'_>) -> bool {
    put(&mut parts.host, |host| {
        let is_address = host.parse::<std::net::Ipv4Addr>().is_ok();
        match host {
            host if host.starts_with(['(', '[']) => None,
            host if is_address => Some(format!("({host})")),
            host => {
                let labels: Vec<&str> = host.rsplit('.').collect();
                Some(format!("({},)", labels.join(",")))
            }
        }
    })
}

/// The URL of a key with a reversed host: `http://(com,example,www,)/x` is
/// `http://www.example.com/x`. Other bytes are returned unchanged.
pub fn url_of_surt<K: AsRef<[u8]> + ?Sized>(key: &K) -> Cow<'_, [u8]> {
    let key = key.as_ref();
    let turned = std::str::from_utf8(key).ok().and_then(|text| {
        let mut parts = Parts::of(text)?;
        let inner = parts.host.strip_prefix('(')?.strip_suffix(')')?.to_owned();
        let labels: Vec<&str> = inner.strip_suffix(',').map_or(vec![&*inner], |labels| labels.rsplit(',').collect());
        parts.host = Cow::Owned(labels.join("."));
        Some(parts.text().into_bytes())
    });
    turned.map_or(Cow::Borrowed(key), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rule: Rule, url: &str) -> String {
        let mut parts = Parts::of(url).expect("an http URL");
        let changed = apply(rule, &mut parts, &["mine".to_owned()]);
        let text = parts.text();
        assert_eq!(changed, text != url, "{url}: {text}");
        text
    }

    #[test]
    fn each_rule_changes_what_it_says_and_nothing_else() {
        let cases = [
            (Rule::DefaultPort, "https://a:443/", "https://a/"),
            (Rule::DefaultPort, "https://a:80/", "https://a:80/"),
            (Rule::Fragment, "http://a/?q#f", "http://a/?q"),
            (Rule::UserInfo, "http://u:p@a/", "http://a/"),
            (Rule::HostDot, "http://a.b./", "http://a.b/"),
            (Rule::Www, "http://www.a.b/", "http://a.b/"),
            (Rule::Www, "http://www12.a.b/", "http://a.b/"),
            (Rule::Www, "http://www.com/", "http://www.com/"),
            (Rule::Www, "http://wwwa.b.c/", "http://wwwa.b.c/"),
            (Rule::Scheme, "https://a/", "http://a/"),
            (Rule::Scheme, "https://a:80/", "https://a:80/"),
            (Rule::PercentCase, "http://a/%2f%zz%c3?%2f", "http://a/%2F%zz%C3?%2F"),
            (Rule::PercentUnreserved, "http://a/%41%7e%2F?%2D%25", "http://a/A~%2F?-%25"),
            (Rule::PercentInvalid, "http://a/%/%4/%zz%41?[x]=%", "http://a/%25/%254/%25zz%41?%5Bx%5D=%25"),
            (Rule::EmptySegments, "http://a//b///c//?d//e", "http://a/b/c/?d//e"),
            (Rule::RepeatedSegments, "http://a/x/y/x/y/x/y/z", "http://a/x/y/z"),
            (Rule::RepeatedSegments, "http://a/x/y/x/y/z", "http://a/x/y/x/y/z"),
            (Rule::RepeatedSegments, "http://a/q/x/x/x/x", "http://a/q/x"),
            (Rule::SessionIds, "http://a/b;jsessionid=12;v=1/c?PHPSESSID=x&y=1", "http://a/b;v=1/c?y=1"),
            (Rule::SessionIds, "http://a/(S(4hqa0555fwsecu455xqckv45))/b", "http://a/b"),
            (Rule::SessionIds, "http://a/(x)/b;c?sid=7", "http://a/(x)/b;c?sid=7"),
            (Rule::SessionIds, "http://a/(4hqa0555fwsecu455xqckv45)/b", "http://a/b"),
            (Rule::SessionIds, "http://a/(X(1)S(4hqa0555fwsecu455xqckv45))/b", "http://a/b"),
            (Rule::SessionIds, "http://a/(X(1)F(0123456789abcdefABCD-_)S(4hqa0555fwsecu455xqckv45))/", "http://a/"),
            (Rule::SessionIds, "http://a/(X(1))/(S(1))/(a.b)/", "http://a/(X(1))/(S(1))/(a.b)/"),
            (Rule::SessionIds, "http://a/(4HQA0555FWSECU455XQCKV45)/", "http://a/(4HQA0555FWSECU455XQCKV45)/"),
            (Rule::SessionIds, "http://a/(S(4hqa0555fwsecu455xqckv45)/", "http://a/(S(4hqa0555fwsecu455xqckv45)/"),
            (Rule::SessionIds, "http://a/?session_id=42", "http://a/?session_id=42"),
            (Rule::SessionIds, "http://a/?session_id=0123456789abcdef0123456789ABCDEF", "http://a/"),
            (Rule::SessionIds1, "http://a/?session_id=42", "http://a/"),
            (Rule::SessionIds1, "http://a/(4hqa0555fwsecu455xqckv45)/b", "http://a/(4hqa0555fwsecu455xqckv45)/b"),
            (Rule::Tracking, "http://a/?utm_source=x&b=1&fbclid=2&MINE=3", "http://a/?b=1"),
            (Rule::EmptyParameters1, "http://a/?&b=&=1&c=2&", "http://a/?b&c=2"),
            (Rule::EmptyParameters, "http://a/?&b=&=1&c=2&=", "http://a/?b&=1&c=2"),
            (Rule::EmptyParameters, "http://a/?=42", "http://a/?=42"),
            (Rule::EmptyParameters, "http://a/?", "http://a/"),
            (Rule::SortedParameters, "http://a/?b=2&a=2&b=1&a", "http://a/?a=2&a&b=2&b=1"),
            (Rule::Query, "http://a/?b", "http://a/"),
            (Rule::IndexFile, "http://a/b/Index.HTML?x", "http://a/b/?x"),
            (Rule::IndexFile, "http://a/b/index.html/", "http://a/b/index.html/"),
            (Rule::TrailingSlash, "http://a/b//", "http://a/b"),
            (Rule::TrailingSlash, "http://a/", "http://a/"),
            (Rule::LowerCase, "http://a/B%2F?C", "http://a/b%2F?c"),
            (Rule::Surt, "http://u@www.a.b:81/x", "http://u@(b,a,www,):81/x"),
            (Rule::Surt, "http://1.2.3.4/x", "http://(1.2.3.4)/x"),
            (Rule::Surt, "http://[::1]/x", "http://[::1]/x"),
        ];
        for (rule, url, expected) in cases {
            assert_eq!(after(rule, url), expected, "{}", rule.name());
            assert_eq!(after(rule, expected), expected, "{} twice", rule.name());
        }
    }

    #[test]
    fn a_key_in_the_order_of_domains_leads_back_to_its_url() {
        for url in ["http://www.a.b:81/x", "http://1.2.3.4/", "https://u@a.b/", "http://[::1]/"] {
            assert_eq!(&*url_of_surt(after(Rule::Surt, url).as_bytes()), url.as_bytes());
        }
        assert_eq!(&*url_of_surt(b"\xff"), b"\xff");
    }
}
