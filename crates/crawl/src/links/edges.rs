//! The links of an HTML document, and of a head, as edges of a graph: each with its anchor text
//! and its `rel`, whether it is followed or not.
//!
//! An edge leads to a canonical URL, so that both ends of edges match. Links to schemes other than
//! http or https, and links within the page (`#top`), are not edges. Number and length are
//! bounded.

use filemap::canonical::Canonicalizer;

use super::{Bounds, Found, Link, text};

/// The maximum length of an edge's text, and of its `rel`.
const TEXT_BYTES: usize = 1024;
/// The elements of links in header fields.
pub(super) const LINK_FIELD: &str = "http-link";
pub(super) const REFRESH_FIELD: &str = "http-refresh";

/// A link of a page.
///
/// ```
/// use crawl::Edge;
/// fn is_followed(edge: &Edge) -> bool {
///     edge.rel.as_deref().is_none_or(|rel| !rel.contains("nofollow"))
/// }
/// let (to, text) = ("http://example.com/".to_owned(), "Home".to_owned());
/// let edge = Edge { to, element: "a", rel: Some("nofollow".to_owned()), text };
/// assert!(!is_followed(&edge));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The canonical URL of the target.
    pub to: String,
    /// The element: `a`, `area`, `iframe`, `frame`, `object`, `embed`, `link`, `meta` (a refresh),
    /// `redirect`; of a link in a header field `http-link`, `http-refresh`.
    pub element: &'static str,
    /// Its `rel`, as written.
    pub rel: Option<String>,
    /// The text between its tags, with the `alt` of images there and single blanks; at most 1,024
    /// bytes.
    pub text: String,
}

/// A link as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    target: String,
    element: &'static str,
    rel: Option<String>,
    text: String,
}

/// Collects the links of a document with their texts.
#[derive(Debug)]
pub(crate) struct Anchors {
    found: Vec<Anchor>,
    most: usize,
    more: u64,
    /// True while text is added to the last link.
    is_open: bool,
}

impl Anchors {
    /// A collector of at most `most` links.
    pub(crate) fn new(most: usize) -> Anchors {
        Anchors { found: Vec::new(), most, more: 0, is_open: false }
    }

    /// The links found, and the number beyond the limit.
    pub(crate) fn finish(mut self) -> (Vec<Anchor>, u64) {
        self.end();
        (self.found, self.more)
    }

    /// Returns whether a link is open, to which text is added.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Opens a link. An empty target leads elsewhere only if the document has a base.
    pub(crate) fn begin(&mut self, tag: &[u8], target: &[u8], rel: Option<&[u8]>, has_base: bool) {
        self.end();
        let target = target.trim_ascii();
        let target = &target[..target.iter().position(|&byte| byte == b'#').unwrap_or(target.len())];
        if target.is_empty() && !has_base {
            return;
        }
        if self.found.len() >= self.most {
            self.more += 1;
            return;
        }
        let rel = rel.map(|rel| {
            let mut kept = String::new();
            push(&mut kept, rel);
            kept.trim_end().to_owned()
        });
        self.found.push(Anchor { target: text(target), element: element(tag), rel, text: String::new() });
        self.is_open = tag == b"a" || tag == b"area";
    }

    /// Appends text to the open link.
    pub(crate) fn text(&mut self, text: &[u8]) {
        if let Some(last) = self.found.last_mut().filter(|_| self.is_open) {
            push(&mut last.text, text);
        }
    }

    /// Closes the open link.
    pub(crate) fn end(&mut self) {
        if let Some(last) = self.found.last_mut().filter(|_| self.is_open) {
            last.text.truncate(last.text.trim_end().len());
        }
        self.is_open = false;
    }
}

/// Appends text with blanks collapsed, up to the limit.
fn push(kept: &mut String, text: &[u8]) {
    for letter in String::from_utf8_lossy(text).chars() {
        let letter = if letter.is_whitespace() || letter.is_control() { ' ' } else { letter };
        if letter == ' ' && (kept.is_empty() || kept.ends_with(' ')) {
            continue;
        }
        if kept.len() + letter.len_utf8() > TEXT_BYTES {
            return;
        }
        kept.push(letter);
    }
}

fn element(tag: &[u8]) -> &'static str {
    match tag {
        b"area" => "area",
        b"iframe" => "iframe",
        b"frame" => "frame",
        b"object" => "object",
        b"embed" => "embed",
        b"link" => "link",
        b"meta" => "meta",
        _ if tag == LINK_FIELD.as_bytes() => LINK_FIELD,
        _ if tag == REFRESH_FIELD.as_bytes() => REFRESH_FIELD,
        _ => "a",
    }
}

/// The edges of a document at a URL, in order; and the number dropped by a limit.
pub fn resolve(found: &Found, url: &str, canonicalizer: &dyn Canonicalizer, bounds: Bounds) -> (Vec<Edge>, u64) {
    let (mut edges, mut more) = (Vec::with_capacity(found.anchors.len()), found.more_anchors);
    let base = found.base_at(url);
    for Anchor { target, element, rel, text } in &found.anchors {
        if target.len() > bounds.url_bytes {
            more += 1;
            continue;
        }
        match found.absolute(&base, target).and_then(|url| Link::new(url, canonicalizer)) {
            Some(link) if link.is_too_long(bounds.url_bytes) => more += 1,
            Some(link) => edges.push(Edge { to: link.key, element, rel: rel.clone(), text: text.clone() }),
            None => {}
        }
    }
    (edges, more)
}
