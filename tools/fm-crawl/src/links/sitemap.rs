//! The links of a sitemap: the `loc` elements of a `urlset` or a `sitemapindex`.
//!
//! For the crawl a sitemap is a page: queued, fetched and stored, with links. It is recognised by
//! its root element, whatever its content type.

use memchr::memmem;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::{Bounds, Found, Gathered};

/// The element of a URL, in any namespace.
const LOC: &str = "loc";

/// The root element must begin within these first bytes.
const ROOT_WITHIN: usize = 2048;

/// Whether a body is a sitemap in XML.
pub fn is_sitemap(body: &[u8]) -> bool {
    let head = &body[..body.len().min(ROOT_WITHIN)];
    let has = |tag: &[u8]| memmem::find(head, tag).is_some();
    let is_markup = head.trim_ascii_start().starts_with(b"<") || head.starts_with(b"\xef\xbb\xbf");
    is_markup && (has(b"<urlset") || has(b"<sitemapindex"))
}

/// Finds the links of a sitemap, up to the first error in the XML.
pub fn find(body: &[u8], bounds: Bounds) -> Found {
    let mut gathered = Gathered::new(bounds);
    let mut reader = Reader::from_reader(body);
    reader.config_mut().check_end_names = false;
    let (mut buffer, mut loc) = (Vec::new(), None::<String>);
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Start(tag)) if tag.local_name().as_ref() == LOC => loc = Some(String::new()),
            Ok(Event::End(tag)) if tag.local_name().as_ref() == LOC => {
                if let Some(link) = loc.take() {
                    gathered.add(link.as_bytes());
                }
            }
            Ok(event) => {
                if let Some(text) = &mut loc {
                    append(text, &event, bounds.url_bytes);
                }
                if matches!(event, Event::Eof) {
                    break;
                }
            }
            Err(_) => break,
        }
        if gathered.found.is_cut {
            break;
        }
    }
    gathered.found
}

/// Appends an event's text to that of a `loc`, up to the length limit.
fn append(text: &mut String, event: &Event<'_>, max_bytes: usize) {
    match event {
        Event::Text(piece) => text.push_str(piece),
        Event::CData(piece) => text.push_str(piece),
        Event::GeneralRef(name) => match name.resolve_char_ref() {
            Ok(Some(c)) => text.push(c),
            _ => text.extend(predefined(name)),
        },
        _ => {}
    }
    if text.len() > max_bytes + 64 {
        text.truncate(text.floor_char_boundary(max_bytes + 64));
    }
}

fn predefined(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { links: 3, url_bytes: 100, follow_nofollow: false };

    #[test]
    fn locations_are_found_in_both_kinds_and_in_any_namespace() {
        let set = b"\xef\xbb\xbf<?xml version='1.0'?><urlset xmlns='x'><url><loc> http://a/?x=1&amp;y=&#50; </loc>\
                    <lastmod>2024</lastmod></url><url><loc><![CDATA[http://a/b]]></loc></url></urlset>";
        assert!(is_sitemap(set));
        assert_eq!(find(set, BOUNDS).links, ["http://a/?x=1&y=2", "http://a/b"]);
        let index = b"<sitemapindex xmlns:s='x'><s:sitemap><s:loc>http://a/1.xml</s:loc></s:sitemap></sitemapindex>";
        assert!(is_sitemap(index));
        assert_eq!(find(index, BOUNDS).links, ["http://a/1.xml"]);
    }

    #[test]
    fn what_is_no_sitemap_is_not_taken_for_one() {
        assert!(!is_sitemap(b"<html><a href='<urlse'>"));
        assert!(!is_sitemap(b"a text about <urlset>"));
        assert!(!is_sitemap(b""));
    }

    #[test]
    fn a_broken_or_endless_sitemap_gives_what_came_before() {
        let broken = b"<urlset><url><loc>http://a/1</loc></url><url><loc>http://a/2</lo <<";
        assert_eq!(find(broken, BOUNDS).links, ["http://a/1"]);
        let long = format!("<urlset>{}</urlset>", "<loc>http://a/</loc>".repeat(9));
        assert_eq!(find(long.as_bytes(), BOUNDS).links.len(), 1);
        let many: String = (0..9).map(|n| format!("<loc>http://a/{n}</loc>")).collect();
        let found = find(format!("<urlset>{many}").as_bytes(), BOUNDS);
        assert_eq!((found.links.len(), found.is_cut), (3, true));
    }
}
