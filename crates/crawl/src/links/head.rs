//! The links in the header fields of an answer: `Refresh`, which browsers obey like the `meta`
//! element of that name, and `Link` (RFC 8288), which counts like the `link` element. So documents
//! of every type have them, a PDF with a canonical page too.
//!
//! Their targets are relative to the document's URL, whatever its `base`.

use filemap::page::Headers;
use memchr::memchr;

use super::edges::{Anchors, LINK_FIELD, REFRESH_FIELD};
use super::elements::{has_word, names_no_page, names_requisite};
use super::html::refresh_target;
use super::{Bounds, Found, Gathered};

/// The target of a redirect: as in browsers, of the first `Location` that is not empty.
pub fn location(headers: &Headers) -> Option<&[u8]> {
    headers.all("Location").map(<[u8]>::trim_ascii).find(|location| !location.is_empty())
}

/// The target of a refresh.
pub fn refresh(headers: &Headers) -> Option<&[u8]> {
    headers.get("Refresh").and_then(refresh_target)
}

/// Finds the links of a head.
pub fn find(headers: &Headers, bounds: Bounds) -> Found {
    let (mut pages, mut requisites) = (Gathered::new(bounds), Gathered::new(bounds));
    let mut anchors = bounds.edges.then(|| Anchors::new(bounds.links));
    let mut anchor = |field: &'static str, target: &[u8], rel: Option<&[u8]>| {
        if let Some(anchors) = &mut anchors {
            anchors.begin(field.as_bytes(), target, rel, false);
        }
    };
    if let Some(target) = refresh(headers) {
        anchor(REFRESH_FIELD, target, None);
        pages.add(target);
    }
    for value in headers.all("Link") {
        each(value, |target, rel| {
            if names_no_page(rel) {
                if bounds.requisites && names_requisite(rel) {
                    requisites.add(target);
                }
                return;
            }
            anchor(LINK_FIELD, target, rel);
            if !bounds.follow_nofollow && rel.is_some_and(|rel| has_word(rel, b"nofollow")) {
                pages.found.nofollow += 1;
            } else {
                pages.add(target);
            }
        });
    }
    let mut found = pages.found;
    (found.requisites, found.more_requisites) = (requisites.found.links, requisites.found.more);
    if let Some(anchors) = anchors {
        (found.anchors, found.more_anchors) = anchors.finish();
    }
    found
}

/// Passes the links of a `Link` field to `take`: each target, and its `rel`. A link that is not
/// closed ends the field.
fn each(value: &[u8], mut take: impl FnMut(&[u8], Option<&[u8]>)) {
    let mut rest = value;
    while let Some(open) = memchr(b'<', rest) {
        let inner = &rest[open + 1..];
        let Some(close) = memchr(b'>', inner) else { return };
        let (parameters, next) = until(&inner[close + 1..], b',');
        take(&inner[..close], rel(parameters));
        rest = next;
    }
}

/// The `rel` of a link's parameters; the first one counts.
fn rel(parameters: &[u8]) -> Option<&[u8]> {
    let mut rest = parameters;
    while !rest.is_empty() {
        let (parameter, next) = until(rest, b';');
        rest = next;
        let Some(equals) = memchr(b'=', parameter) else { continue };
        if parameter[..equals].trim_ascii().eq_ignore_ascii_case(b"rel") {
            let value = parameter[equals + 1..].trim_ascii();
            let quoted = value.strip_prefix(b"\"").map(|value| value.strip_suffix(b"\"").unwrap_or(value));
            return Some(quoted.unwrap_or(value));
        }
    }
    None
}

/// Splits a text at the first `end` outside quotes, which belongs to neither part.
fn until(text: &[u8], end: u8) -> (&[u8], &[u8]) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match byte {
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == end && !is_quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        links: 100,
        url_bytes: 2000,
        follow_nofollow: false,
        requisites: false,
        edges: false,
        fingerprint: false,
    };

    fn of(fields: &[(&str, &[u8])], bounds: Bounds) -> Found {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.push(*name, *value));
        find(&headers, bounds)
    }

    #[test]
    fn a_refresh_and_the_pages_of_link_fields_are_links() {
        let fields: [(&str, &[u8]); 5] = [
            ("refresh", b"0; url='/next'"),
            ("Link", b"</a,b>; title=\"x, <no>; rel=\\\"y\"; REL = \"prev canonical\" , <c#part>"),
            ("link", b" <d>;rel=next;rel=nofollow, <s.css>; rel=stylesheet, <f>;rel=\"preload\", <n>; rel=NoFollow"),
            ("Link", b"no link, <open"),
            ("Link", b"<\xe9>; rel=next"),
        ];
        let found = of(&fields, BOUNDS);
        assert_eq!(found.links, ["/next", "/a,b", "c", "d", "%E9"]);
        assert_eq!((found.nofollow, found.requisites.len(), found.anchors.len()), (1, 0, 0));
        let all = of(&fields, Bounds { requisites: true, follow_nofollow: true, edges: true, ..BOUNDS });
        assert_eq!(all.requisites, ["s.css", "f"]);
        assert_eq!((all.links.len(), all.nofollow, all.anchors.len()), (6, 0, 6));
        assert_eq!(of(&[("Refresh", b"5")], BOUNDS), Found::default());
    }

    #[test]
    fn an_empty_location_is_none() {
        let of = |values: &[&str]| {
            let mut headers = Headers::new();
            values.iter().for_each(|value| headers.push("location", value.as_bytes()));
            location(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!((of(&[]), of(&[""]), of(&[" ", ""])), (None, None, None));
        assert_eq!(of(&["", " /a "]), Some(b"/a".to_vec()));
        assert_eq!(of(&["/a", "/b"]), Some(b"/a".to_vec()));
    }

    #[test]
    fn links_over_the_limit_are_cut_and_no_bytes_are_a_panic() {
        let many: String = (0..200).map(|n| format!("<{n}>; rel=next, ")).collect();
        let found = of(&[("Link", many.as_bytes())], BOUNDS);
        assert_eq!((found.links.len(), found.more), (100, 100));
        let mut seed = 1_u64;
        for _ in 0..2000 {
            let value: Vec<u8> = (0..60)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    b"<>;=,\"\\ rel\xff"[(seed >> 33) as usize % 12]
                })
                .collect();
            of(&[("Link", &value), ("Refresh", &value)], BOUNDS);
        }
    }
}
