//! Requisites: what a page needs for display. They are pages to the frontier, marked in the
//! fragment of the URL to request, which no other link has.
//!
//! The mark contains the distance from the page: 1 from a page, 2 from its style sheet.

use super::Link;

const MARK: &str = "#requisite-";
/// The maximum distance from a page: its style sheets, their imports, and the images and fonts of
/// those.
pub const LEVELS: u8 = 3;

/// Marks a link.
pub fn mark(link: &mut Link, level: u8) {
    link.url += &format!("{MARK}{level}");
}

/// Returns whether a link is marked.
pub fn is_marked(link: &Link) -> bool {
    level(&link.url).is_some()
}

/// A URL without its mark.
pub fn bare(url: &str) -> &str {
    url.split_once(MARK).map_or(url, |(url, _)| url)
}

/// The distance of a requisite from its page; `None` for a page.
pub fn level(url: &str) -> Option<u8> {
    let (_, level) = url.split_once(MARK)?;
    Some(level.parse().unwrap_or(LEVELS))
}

/// The URLs of a `srcset`: comma-separated candidates, each a URL and its width or density.
pub fn candidates(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let skipped = rest.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != b',')?;
        rest = &rest[skipped..];
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let (url, after) = rest.split_at(end);
        let bare = url.strip_suffix(b",").unwrap_or(url);
        // A comma at the URL's end ends the candidate; else the next one outside brackets does.
        let mut depth = 0_u32;
        let next = after.iter().position(|byte| {
            match byte {
                b'(' => depth += 1,
                b')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            *byte == b',' && depth == 0
        });
        rest = if bare.len() < url.len() { after } else { &after[next.unwrap_or(after.len())..] };
        Some(bare)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_taken_off_again() {
        let mut link = Link { url: "http://a/b?c".to_owned(), key: "http://a/b?c".to_owned(), hint: None };
        assert!(!is_marked(&link) && level(&link.url).is_none());
        mark(&mut link, 2);
        assert_eq!((level(&link.url), bare(&link.url), bare("http://a/")), (Some(2), "http://a/b?c", "http://a/"));
        assert_eq!(level("http://a/#requisite-900"), Some(LEVELS));
    }

    #[test]
    fn the_candidates_of_a_set_are_read() {
        let read = |list: &str| {
            candidates(list.as_bytes()).map(|url| String::from_utf8_lossy(url).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(read("a.png 1x, b.png 2x ,c,png 3w,  d.png"), ["a.png", "b.png", "c,png", "d.png"]);
        assert_eq!(read("a.png, b.png"), ["a.png", "b.png"]);
        assert_eq!(read("a.png x(1,2), b.png"), ["a.png", "b.png"]);
        assert_eq!(read(" , ,"), [""; 0]);
    }
}
