//! The links of XML documents that list pages: sitemaps, sitemap indexes, and feeds (RSS 0.9 to
//! 2.0, Atom).
//!
//! The crawl treats such a document as a page: queued, fetched and stored, with links. Its root
//! element identifies it, whatever its content type, and it is read as a stream. Links to images
//! and videos are ignored, as in HTML.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use url::Url;

use super::source::{Source, Stop};
use super::{Bounds, Broken, Change, Found, Gathered, Hint};

/// The kind of a document's root element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A sitemap.
    Set,
    /// A sitemap index.
    Index,
    /// RSS of any version.
    Rss,
    /// Atom.
    Atom,
    /// XHTML.
    Html,
}

/// Values of `rel` by which an Atom link leads to a page or a feed.
const RELATIONS: [&str; 13] = [
    "alternate",
    "related",
    "via",
    "self",
    "next",
    "previous",
    "prev",
    "first",
    "last",
    "next-archive",
    "prev-archive",
    "current",
    "replies",
];

/// The maximum nesting of `xml:base`; deeper ones are ignored.
const BASES_MAX: usize = 16;

/// The maximum length of a `lastmod` or another short text.
const SHORT_BYTES: usize = 64;

/// The root of an XML document, if it is a known one.
pub fn root(source: Source<'_>) -> Option<Root> {
    let mut reader = reader(source);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Start(tag) | Event::Empty(tag)) => {
                return Some(match tag.local_name().as_ref() {
                    "urlset" => Root::Set,
                    "sitemapindex" => Root::Index,
                    "rss" | "RDF" => Root::Rss,
                    "feed" => Root::Atom,
                    "html" => Root::Html,
                    _ => return None,
                });
            }
            Ok(Event::Text(text)) if !text.trim().is_empty() => return None,
            Ok(Event::Eof | Event::End(_) | Event::CData(_) | Event::GeneralRef(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// A lenient reader, like browsers and other crawlers: accepts a bare `&` and wrong end tags.
fn reader(source: Source<'_>) -> Reader<Source<'_>> {
    let mut reader = Reader::from_reader(source);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    reader
}

/// Extracts the links of the document `url`, up to its first error.
pub fn find(source: Source<'_>, root: Root, url: &str, bounds: Bounds) -> Found {
    let mut reading = Reading::new(root, url, bounds);
    let mut reader = reader(source);
    let mut buffer = Vec::new();
    let is_whole = loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Eof) => break reading.depth == 0,
            Ok(event) => reading.take(&event),
            Err(_) => break false,
        }
    };
    let source = reader.get_ref();
    let mut found = reading.gathered.found;
    found.broken = match source.stop() {
        Some(Stop::Full) => Some(Broken::TooLong),
        Some(Stop::Ratio) => Some(Broken::TooDense),
        Some(Stop::Damaged) => Some(Broken::Damaged),
        None => (!is_whole).then_some(Broken::Damaged),
    };
    found
}

/// The kind of a text node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    /// A URL.
    Link,
    /// A URL, if it looks like one.
    MaybeLink,
    /// The time of the last change.
    Changed,
    /// The frequency of changes.
    Often,
}

struct Reading {
    root: Root,
    gathered: Gathered,
    document: Option<Url>,
    depth: usize,
    /// The depth of the element of an image or a video.
    skipped: Option<usize>,
    /// `xml:base` of the open elements that have one, with their depths.
    bases: Vec<(usize, Url)>,
    text: Option<(Field, usize, String)>,
    /// The index of the current entry's link, and its hint.
    entry: Option<usize>,
    hint: Hint,
}

impl Reading {
    fn new(root: Root, url: &str, bounds: Bounds) -> Reading {
        Reading {
            root,
            gathered: Gathered::new(bounds),
            document: Url::parse(url).ok(),
            depth: 0,
            skipped: None,
            bases: Vec::new(),
            text: None,
            entry: None,
            hint: Hint::default(),
        }
    }

    fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(tag) => self.open(tag),
            Event::Empty(tag) => {
                self.open(tag);
                self.close();
            }
            Event::End(_) => self.close(),
            event => {
                let most = self.gathered.bounds.url_bytes + SHORT_BYTES;
                if let Some((_, _, text)) = &mut self.text {
                    append(text, event, most);
                }
            }
        }
    }

    fn open(&mut self, tag: &BytesStart<'_>) {
        self.depth += 1;
        if let Some(base) = attribute(tag, "xml:base") {
            let outer = self.base().or(self.document.as_ref());
            let base = outer.map_or_else(|| Url::parse(&base), |outer| outer.join(&base));
            let fits =
                |base: &Url| self.bases.len() < BASES_MAX && base.as_str().len() <= self.gathered.bounds.url_bytes;
            if let Some(base) = base.ok().filter(fits) {
                self.bases.push((self.depth, base));
            }
        }
        if self.skipped.is_some() {
            return;
        }
        let name = tag.local_name();
        let field = match (self.root, name.as_ref()) {
            (Root::Set | Root::Index, "image" | "video") => {
                self.skipped = Some(self.depth);
                None
            }
            (Root::Set | Root::Index, "url" | "sitemap") => {
                (self.entry, self.hint) = (None, Hint::default());
                None
            }
            (Root::Set | Root::Index, "loc") => Some(Field::Link),
            (Root::Set | Root::Index, "lastmod") => Some(Field::Changed),
            (Root::Set | Root::Index, "changefreq") => Some(Field::Often),
            (Root::Rss, "link") if attribute(tag, "href").is_none() => Some(Field::Link),
            (Root::Rss, "guid") if attribute(tag, "isPermaLink").as_deref() != Some("false") => Some(Field::MaybeLink),
            (Root::Rss, "comments") => Some(Field::MaybeLink),
            (_, "link") => {
                self.reference(tag);
                None
            }
            _ => None,
        };
        if let Some(field) = field {
            self.text = Some((field, self.depth, String::new()));
        }
    }

    fn close(&mut self) {
        if let Some((field, _, text)) = self.text.take_if(|(_, depth, _)| *depth == self.depth) {
            self.field(field, text.trim());
        }
        self.bases.pop_if(|(depth, _)| *depth == self.depth);
        self.skipped.take_if(|depth| *depth == self.depth);
        self.depth = self.depth.saturating_sub(1);
    }

    fn field(&mut self, field: Field, text: &str) {
        match field {
            Field::Link => self.entry = self.link(text).or(self.entry),
            Field::MaybeLink if text.starts_with("http://") || text.starts_with("https://") => {
                self.link(text);
            }
            Field::MaybeLink => {}
            Field::Changed => self.hint.changed_ms = filemap::date::parse(text),
            Field::Often => self.hint.change = Change::parse(text),
        }
        if let Some(entry) = self.entry.filter(|_| self.hint != Hint::default()) {
            self.gathered.found.hints.insert(entry, self.hint);
        }
    }

    /// A link in an attribute: in Atom, or an alternate language in a sitemap.
    fn reference(&mut self, tag: &BytesStart<'_>) {
        let relation = attribute(tag, "rel").map(|relation| relation.to_ascii_lowercase());
        let leads = relation.is_none_or(|relation| RELATIONS.contains(&relation.trim()));
        if let Some(target) = attribute(tag, "href").filter(|_| leads) {
            self.link(&target);
        }
    }

    /// Adds a link; returns its index if it is new.
    fn link(&mut self, link: &str) -> Option<usize> {
        match self.base().map(|base| base.join(link.trim())) {
            Some(Ok(link)) => self.gathered.add(link.as_str().as_bytes()),
            _ => self.gathered.add(link.as_bytes()),
        }
    }

    fn base(&self) -> Option<&Url> {
        self.bases.last().map(|(_, base)| base)
    }
}

/// The value of an attribute by its name as written.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = tag.attributes().with_checks(false).flatten().find(|attribute| attribute.key.as_ref() == name)?;
    // A bare `&` stays as it is.
    let value = attribute.normalized_value(XmlVersion::Implicit1_0);
    Some(value.map_or_else(|_| attribute.value.to_string(), |value| value.to_string()))
}

/// Appends an event's text, up to the length limit.
fn append(text: &mut String, event: &Event<'_>, max_bytes: usize) {
    match event {
        Event::Text(piece) => text.push_str(piece),
        Event::CData(piece) => text.push_str(piece),
        Event::GeneralRef(name) => match name.resolve_char_ref() {
            Ok(Some(c)) => text.push(c),
            _ => match predefined(name) {
                Some(c) => text.push(c),
                None => text.extend(["&", name, ";"]),
            },
        },
        _ => {}
    }
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
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
mod tests;
