//! Splits a canonical `http` or `https` URL without parsing it again, and joins its parts.
//!
//! Invariant: an unchanged URL is joined to the same text.

use std::borrow::Cow;

use super::names;

/// Parts of a URL that the parser has serialised, all ASCII.
#[derive(Clone, Debug)]
pub(super) struct Parts<'a> {
    pub(super) scheme: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) host: Cow<'a, str>,
    pub(super) port: Option<&'a str>,
    /// With the `/` at its beginning.
    pub(super) path: Cow<'a, str>,
    /// Without the `?`.
    pub(super) query: Option<Cow<'a, str>>,
    /// Without the `#`.
    pub(super) fragment: Option<&'a str>,
    /// Marks of path and query before any rule.
    marks: u8,
}

/// A `%`; a character outside RFC 3986; a `;` or `(`; an upper-case letter.
pub(super) const PERCENT: u8 = 1;
pub(super) const INVALID: u8 = 2;
pub(super) const SESSION: u8 = 4;
pub(super) const UPPER: u8 = 8;
/// An empty path segment before the last; a parameter that may be one of a session or of tracking;
/// an empty parameter or value; unsorted parameters.
pub(super) const SLASHES: u8 = 16;
pub(super) const LISTED: u8 = 32;
pub(super) const EMPTY: u8 = 64;
pub(super) const UNSORTED: u8 = 128;

const MARKS: [u8; 256] = {
    let marks = marked([0; 256], b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", UPPER);
    let marks = marked(marks, b"[]{}|\\^`", INVALID);
    marked(marked(marks, b"%", PERCENT), b";(", SESSION)
};

/// The table with this mark added for these bytes.
pub(crate) const fn marked(mut table: [u8; 256], bytes: &[u8], mark: u8) -> [u8; 256] {
    let mut i = 0;
    while i < bytes.len() {
        table[bytes[i] as usize] |= mark;
        i += 1;
    }
    table
}

impl<'a> Parts<'a> {
    /// `None` for other schemes than `http` and `https`.
    pub(super) fn of(url: &'a str) -> Option<Parts<'a>> {
        let scheme = if url.starts_with("https:") { "https" } else { "http" };
        let rest = url.strip_prefix(scheme)?.strip_prefix("://")?;
        let (rest, fragment) = split(rest, b'#');
        let (rest, query) = split(rest, b'?');
        let (authority, path) = rest.split_at(rest.bytes().position(|byte| byte == b'/')?);
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let (host, port) = match host.rfind([':', ']']) {
            Some(colon) if host.as_bytes()[colon] == b':' => (&host[..colon], Some(&host[colon + 1..])),
            _ => (host, None),
        };
        let marks = path_marks(path.as_bytes()) | query.map_or(0, |query| query_marks(query.as_bytes()));
        let query = query.map(Cow::Borrowed);
        Some(Parts { scheme, user, host: host.into(), port, path: path.into(), query, fragment, marks })
    }

    /// Returns whether path or query had any of these marks before all rules: one pass over them
    /// saves most rules their own. What a rule introduces is found in the next round.
    pub(super) fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::with_capacity(self.path.len() + self.host.len() + 32);
        text.push_str(self.scheme);
        text.push_str("://");
        if let Some(user) = self.user {
            text.push_str(user);
            text.push('@');
        }
        text.push_str(&self.host);
        let optional =
            [(':', self.port), ('/', Some(&self.path[1..])), ('?', self.query.as_deref()), ('#', self.fragment)];
        for (mark, part) in optional {
            if let Some(part) = part {
                text.push(mark);
                text.push_str(part);
            }
        }
        text
    }
}

fn path_marks(path: &[u8]) -> u8 {
    let mut before = 0;
    path.iter().fold(0, |marks, &byte| {
        let is_second = byte == b'/' && before == b'/';
        before = byte;
        marks | MARKS[byte as usize] | if is_second { SLASHES } else { 0 }
    })
}

fn query_marks(query: &[u8]) -> u8 {
    let (mut marks, mut start, mut name_end) = (0, 0, None);
    let mut before: &[u8] = &[];
    for at in 0..=query.len() {
        let byte = query.get(at).copied().unwrap_or(b'&');
        marks |= MARKS[byte as usize];
        if byte == b'=' {
            name_end.get_or_insert(at);
        }
        if byte != b'&' {
            continue;
        }
        let name = &query[start..name_end.unwrap_or(at)];
        let is_empty = name.is_empty() || name_end.is_some_and(|end| end + 1 == at);
        marks |= if is_empty { EMPTY } else { 0 };
        marks |= if before > name { UNSORTED } else { 0 };
        marks |= if names::may_be_dropped(name) { LISTED } else { 0 };
        (before, start, name_end) = (name, at + 1, None);
    }
    marks
}

/// Splits at an ASCII byte, which is faster than at a character.
fn split(text: &str, mark: u8) -> (&str, Option<&str>) {
    match text.bytes().position(|byte| byte == mark) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_apart_is_put_together_as_it_was() {
        let urls = [
            "http://a/",
            "https://u:p@a.b:81/c/d?e#f",
            "http://[::1]/",
            "http://[::1]:8080/?#",
            "http://a/?x?y#z#w",
            "http://a/x@y:z",
        ];
        for url in urls {
            assert_eq!(Parts::of(url).expect("an http URL").text(), url);
        }
        assert!(Parts::of("mailto:a@b").is_none() && Parts::of("ftp://a/").is_none());
        let parts = Parts::of("http://u@[::1]:8080/x?q").expect("an http URL");
        assert_eq!((parts.user, &*parts.host, parts.port, &*parts.path), (Some("u"), "[::1]", Some("8080"), "/x"));
    }
}
