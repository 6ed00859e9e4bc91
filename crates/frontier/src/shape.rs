//! The shape of a URL and the site of a host: features common to pages of one kind, from their
//! URLs alone. [`crate::shares`] counts pages by them.
//!
//! Pages that a program generates without end (a calendar, a search, a shop's filters) differ in
//! numbers, file names and values of parameters, not in shape.

use xxhash_rust::xxh3::Xxh3;

/// Leading folders that count for the shape. Deeper ones are not told apart.
const FOLDERS: usize = 2;
/// Longest name of a second-level domain under which others are registered, as in `co.uk`.
const REGISTRY_BYTES_MAX: usize = 3;

/// The shape of a URL, in 8 bits: a hash of its first two folders, whether there are more, the
/// file's extension and the names of parameters. A run of digits counts as one digit.
pub(crate) fn shape(url: &str) -> u8 {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.find('/').map_or("", |at| &path[at..]);
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", ""));
    let mut hash = Xxh3::new();
    for (depth, folder) in folders.split('/').skip(1).enumerate() {
        hash.update(b"/");
        if depth == FOLDERS {
            break;
        }
        without_numbers(&mut hash, folder);
    }
    if let Some((_, extension)) = file.rsplit_once('.') {
        hash.update(b".");
        without_numbers(&mut hash, extension);
    }
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        hash.update(b"&");
        without_numbers(&mut hash, parameter.split('=').next().unwrap_or(""));
    }
    hash.digest() as u8
}

fn without_numbers(hash: &mut Xxh3, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        hash.update(&rest.as_bytes()[..at]);
        hash.update(b"0");
        rest = rest[at..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    hash.update(rest.as_bytes());
}

/// The site of a host: its last two labels, or three if the second is a registry's (`co.uk`); an
/// IP address is its own site. It uses no list of registries: sites that it merges share their
/// counts.
pub(crate) fn site(host: &str) -> &str {
    if host.ends_with(|c: char| c.is_ascii_digit() || c == ']') {
        return host;
    }
    let mut labels = host.rmatch_indices('.').map(|(at, _)| at);
    let (Some(top), Some(second)) = (labels.next(), labels.next()) else { return host };
    let is_registry = host.len() - top == 3 && top - second - 1 <= REGISTRY_BYTES_MAX;
    match (is_registry, labels.next()) {
        (true, Some(third)) => &host[third + 1..],
        (true, None) => host,
        (false, _) => &host[second + 1..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_program_have_one_shape_and_others_have_another() {
        let same = [
            ["http://a.example/calendar/2026/11/29", "http://a.example/calendar/31/1/2"],
            ["http://a.example/shop/list?color=red&size=3", "http://a.example/shop/other?color=blue&size=40"],
            ["http://a.example/a/b/c/d/x.html", "http://a.example/a/b/e/f/g/h/y.html"],
            ["http://a.example/x1.html", "http://b.example:81/y22.html"],
        ];
        for [one, other] in same {
            assert_eq!(shape(one), shape(other), "{one} {other}");
        }
        let apart = [
            "http://a.example/calendar/x",
            "http://a.example/news/x",
            "http://a.example/news/x.html",
            "http://a.example/news/x?page=1",
            "http://a.example/news/x?page=1&sort=2",
            "http://a.example/news/a/x",
            "http://a.example/news/a/b/x",
            "http://a.example",
        ];
        let shapes: std::collections::HashSet<u8> = apart.iter().map(|url| shape(url)).collect();
        assert_eq!(shapes.len(), apart.len());
    }

    #[test]
    fn a_site_is_what_somebody_has_registered() {
        for (host, wanted) in [
            ("a.b.example.com", "example.com"),
            ("example.com", "example.com"),
            ("localhost", "localhost"),
            ("a.example.co.uk", "example.co.uk"),
            ("example.co.uk", "example.co.uk"),
            ("co.uk", "co.uk"),
            ("www.example.de", "example.de"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(site(host), wanted, "{host}");
        }
    }
}
