//! The links of a text sitemap: one URL a line.
//!
//! Any text could be a sitemap, so the caller decides, by the source of the link or by the file's
//! name.

use std::io::BufRead;

use super::source::{Source, Stop};
use super::{Bounds, Broken, Found, Gathered};

/// Returns whether the first non-empty line is a URL.
pub fn looks_like_one(source: Source<'_>) -> bool {
    let first = source.lines().map_while(Result::ok).find(|line| !line.trim().is_empty());
    first.is_some_and(|line| is_url(line.trim()))
}

/// Extracts the links of a text sitemap. A line that is not a URL is skipped, and makes it broken.
pub fn find(mut source: Source<'_>, bounds: Bounds) -> Found {
    let mut gathered = Gathered::new(bounds);
    let (mut line, mut is_strange) = (Vec::new(), false);
    // Reading from memory cannot fail.
    while source.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
        let text = String::from_utf8_lossy(&line);
        for url in text.split('\r').map(str::trim).filter(|url| !url.is_empty() && !url.starts_with('#')) {
            if is_url(url) {
                gathered.add(url.as_bytes());
            } else {
                is_strange = true;
            }
        }
        line.clear();
    }
    let mut found = gathered.found;
    found.broken = match source.stop() {
        Some(Stop::Full) => Some(Broken::TooLong),
        Some(Stop::Ratio) => Some(Broken::TooDense),
        Some(Stop::Damaged) => Some(Broken::Damaged),
        None => is_strange.then_some(Broken::Damaged),
    };
    found
}

fn is_url(line: &str) -> bool {
    ["http://", "https://"].iter().any(|start| {
        line.len() > start.len()
            && line.is_char_boundary(start.len())
            && line[..start.len()].eq_ignore_ascii_case(start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::source::Size;

    const BOUNDS: Bounds = Bounds {
        links: 3,
        url_bytes: 100,
        follow_nofollow: false,
        requisites: false,
        edges: false,
        fingerprint: false,
    };

    fn source(body: &[u8]) -> Source<'_> {
        Source::new(body, Some(b"text/plain"), Size { bytes: 1000, ratio: 100 })
    }

    #[test]
    fn each_line_is_a_link_and_other_lines_are_named() {
        let found = find(source(b"\xef\xbb\xbfhttp://a/1\r\n\n HTTPS://a/2 \rhttp://a/3?x#y"), BOUNDS);
        assert_eq!((found.links.len(), found.broken, found.more), (3, None, 0));
        assert_eq!(found.links, ["http://a/1", "HTTPS://a/2", "http://a/3?x"]);
        let found = find(source(b"# ours\nhttp://a/1\nnonsense\nhttp://a/2\n"), BOUNDS);
        assert_eq!((found.links.len(), found.broken), (2, Some(Broken::Damaged)));
        assert!(find(source(&b"http://a/\n".repeat(9)), BOUNDS).links.len() == 1);
        let many: String = (0..9).map(|n| format!("http://a/{n}\n")).collect();
        let found = find(source(many.as_bytes()), BOUNDS);
        assert_eq!((found.links.len(), found.more, found.broken), (3, 6, None));
        let found = find(source(format!("{many}nonsense").as_bytes()), BOUNDS);
        assert_eq!((found.more, found.broken), (6, Some(Broken::Damaged)));
    }

    #[test]
    fn a_text_looks_like_one_by_its_first_line() {
        for (text, is_one) in [("\n\nhttp://a/\nx", true), ("see http://a/", false), ("", false), ("http://", false)] {
            assert_eq!(looks_like_one(source(text.as_bytes())), is_one, "{text}");
        }
    }
}
