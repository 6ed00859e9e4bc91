//! The links of an HTML document, found by the HTML standard's tokenizer.
//!
//! The tokenizer streams and builds no tree: one pass over the bytes, and memory for the longest
//! tag, however deep or broken the document is.
//!
//! Links to pages are `a` (in SVG too), `area`, `iframe`, `frame`, `object`, `embed`, `meta`
//! refresh, and `link` elements except those for styles, icons, preloading and descriptions.
//! `base`, `rel=nofollow` and the robots directives of `meta` elements are obeyed. Requisites are
//! the images, scripts and styles of a page, also those in attributes; robots directives do not
//! apply to them.

use std::convert::Infallible;

use html5gum::{Emitter, Error, State, Tokenizer, naive_next_state};

use super::directives;
use super::edges::Anchors;
use super::elements::{BREAKS_OUT, HIDDEN, has_word, names_no_page, names_requisite, parts_words};
use super::{Bounds, Found, Gathered, css, requisites, text};
use crate::simhash::Fingerprint;

/// The syntax of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Html,
    /// In XHTML `<script/>` is a complete element.
    Xhtml,
}

/// Finds the links of a document, for a crawler with the product token `agent`.
pub fn find(body: &[u8], agent: &str, syntax: Syntax, bounds: Bounds) -> Found {
    let mut reading = Reading::new(agent, syntax, bounds);
    // Reading from memory cannot fail.
    let _ = Tokenizer::new_with_emitter(body, &mut reading).finish();
    reading.end_style();
    let mut found = reading.gathered.found;
    let beside = reading.beside.found;
    (found.requisites, found.more_requisites) = (beside.links, beside.more);
    if let Some(anchors) = reading.anchors {
        (found.anchors, found.more_anchors) = anchors.finish();
    }
    found.fingerprint = reading.fingerprint.and_then(Fingerprint::finish);
    if found.is_nofollow && !bounds.follow_nofollow {
        found.nofollow += found.links.len() as u64;
        found.links.clear();
    }
    found
}

/// The elements of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Anchor,
    Link,
    Frame,
    Object,
    Base,
    Meta,
    Image,
    Other,
}

/// The attributes of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attribute {
    Target,
    Rel,
    HttpEquiv,
    Name,
    Content,
    Alt,
}

/// The attributes of the current tag; the first of each name wins.
#[derive(Debug, Default)]
struct Held {
    target: Option<Vec<u8>>,
    rel: Option<Vec<u8>>,
    http_equiv: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    content: Option<Vec<u8>>,
    alt: Option<Vec<u8>>,
}

/// The tokenizer's emitter: takes tags and attributes, ignores the rest.
struct Reading<'a> {
    agent: &'a str,
    syntax: Syntax,
    gathered: Gathered,
    /// The requisites.
    beside: Gathered,
    /// The anchors, if edges are wanted.
    anchors: Option<Anchors>,
    /// The fingerprint of the visible text, if wanted; and the open element whose text is
    /// invisible.
    fingerprint: Option<Fingerprint>,
    hidden: Option<Vec<u8>>,
    /// The text of the style sheet being read.
    style: Option<Vec<u8>>,
    is_start: bool,
    is_self_closing: bool,
    /// Number of open SVG and MathML elements: in these, titles and scripts are ordinary elements.
    foreign: u32,
    /// The names of the current tag and of the last start tag, whose end tag ends a script or
    /// title.
    name: Vec<u8>,
    last_start: Vec<u8>,
    /// The kind of the current tag, once its name is known.
    tag: Option<Tag>,
    held: Held,
    attribute_name: Vec<u8>,
    attribute_value: Vec<u8>,
}

impl Reading<'_> {
    fn new(agent: &str, syntax: Syntax, bounds: Bounds) -> Reading<'_> {
        Reading {
            agent,
            syntax,
            gathered: Gathered::new(bounds),
            beside: Gathered::new(bounds),
            anchors: bounds.edges.then(|| Anchors::new(bounds.links)),
            fingerprint: bounds.fingerprint.then(Fingerprint::default),
            hidden: None,
            style: None,
            is_start: false,
            is_self_closing: false,
            foreign: 0,
            name: Vec::new(),
            last_start: Vec::new(),
            tag: None,
            held: Held::default(),
            attribute_name: Vec::new(),
            attribute_value: Vec::new(),
        }
    }

    fn begin(&mut self, is_start: bool) {
        (self.is_start, self.is_self_closing) = (is_start, false);
        self.name.clear();
        self.tag = None;
        self.attribute_name.clear();
    }

    /// Tracks the beginning and end of SVG and MathML.
    fn enter_or_leave_foreign(&mut self) {
        let is_root = matches!(self.name.as_slice(), b"svg" | b"math");
        match (is_root, self.is_start) {
            (true, true) if !self.is_self_closing => self.foreign += 1,
            (true, false) => self.foreign = self.foreign.saturating_sub(1),
            (false, true) if BREAKS_OUT.contains(&self.name.as_slice()) => self.foreign = 0,
            _ => {}
        }
    }

    fn tag(&mut self) -> Tag {
        if let Some(tag) = self.tag {
            return tag;
        }
        let tag = match self.name.as_slice() {
            _ if !self.is_start => Tag::Other,
            b"a" | b"area" => Tag::Anchor,
            b"link" => Tag::Link,
            b"iframe" | b"frame" | b"embed" => Tag::Frame,
            b"object" => Tag::Object,
            b"base" => Tag::Base,
            b"meta" => Tag::Meta,
            b"img" if self.anchors.as_ref().is_some_and(Anchors::is_open) => Tag::Image,
            _ => Tag::Other,
        };
        self.tag = Some(tag);
        tag
    }

    /// Returns whether the attributes of the current tag are needed.
    fn matters(&mut self) -> bool {
        self.tag() != Tag::Other || self.is_start && self.beside.bounds.requisites
    }

    /// Takes the last attribute as a requisite, if it is one.
    fn take_requisite(&mut self) {
        if !self.is_start || !self.beside.bounds.requisites {
            return;
        }
        let (beside, value) = (&mut self.beside, self.attribute_value.as_slice());
        match (self.name.as_slice(), self.attribute_name.as_slice()) {
            (b"img" | b"script" | b"input" | b"embed", b"src")
            | (b"video", b"poster")
            | (b"image", b"href" | b"xlink:href")
            | (b"body" | b"table" | b"td" | b"th", b"background") => {
                beside.add(value);
            }
            (b"img" | b"source", b"srcset") | (b"link", b"imagesrcset") => {
                requisites::candidates(value).for_each(|url| {
                    beside.add(url);
                });
            }
            (_, b"style") => css::find(value, |url| {
                beside.add(url);
            }),
            _ => {}
        }
    }

    /// Extracts the requisites of the style sheet that ends.
    fn end_style(&mut self) {
        let beside = &mut self.beside;
        if let Some(style) = self.style.take() {
            css::find(&style, |url| {
                beside.add(url);
            });
        }
    }

    /// Takes the last attribute; the first of a name wins.
    fn take_attribute(&mut self) {
        self.take_requisite();
        let held = match attribute(self.tag(), &self.attribute_name) {
            Some(Attribute::Target) => &mut self.held.target,
            Some(Attribute::Rel) => &mut self.held.rel,
            Some(Attribute::HttpEquiv) => &mut self.held.http_equiv,
            Some(Attribute::Name) => &mut self.held.name,
            Some(Attribute::Content) => &mut self.held.content,
            Some(Attribute::Alt) => &mut self.held.alt,
            None => return,
        };
        if held.is_none() {
            *held = Some(std::mem::take(&mut self.attribute_value));
        }
    }

    fn close(&mut self) {
        let held = std::mem::take(&mut self.held);
        match self.tag() {
            Tag::Anchor | Tag::Frame | Tag::Object => self.link(&held),
            Tag::Link if !names_no_page(held.rel.as_deref()) => self.link(&held),
            Tag::Link if self.beside.bounds.requisites && names_requisite(held.rel.as_deref()) => {
                held.target.and_then(|target| self.beside.add(&target));
            }
            Tag::Base => {
                if let Some(target) = held.target.filter(|_| self.gathered.found.base.is_none()) {
                    self.gathered.found.base = Some(text(target.trim_ascii()));
                }
            }
            Tag::Meta => self.meta(&held),
            Tag::Image => self.text(held.alt.as_deref().unwrap_or_default()),
            Tag::Link | Tag::Other => {}
        }
    }

    fn link(&mut self, held: &Held) {
        let Some(target) = &held.target else { return };
        self.anchor(target, held);
        if !self.gathered.bounds.follow_nofollow && held.rel.as_deref().is_some_and(|rel| has_word(rel, b"nofollow")) {
            self.gathered.found.nofollow += 1;
            return;
        }
        self.gathered.add(target);
    }

    /// Records the link of the current tag as an edge.
    fn anchor(&mut self, target: &[u8], held: &Held) {
        let has_base = self.gathered.found.base.is_some();
        if let Some(anchors) = &mut self.anchors {
            anchors.begin(&self.name, target, held.rel.as_deref(), has_base);
            anchors.text(held.alt.as_deref().unwrap_or_default());
        }
    }

    /// Appends text to the open anchor.
    fn text(&mut self, text: &[u8]) {
        if let Some(anchors) = &mut self.anchors {
            anchors.text(text);
        }
    }

    /// Ends an anchor, or separates its words; tracks which text is invisible.
    fn mark_text(&mut self) {
        if let Some(fingerprint) = &mut self.fingerprint {
            if parts_words(&self.name) {
                fingerprint.part();
            }
            if !self.is_start {
                self.hidden.take_if(|hidden| *hidden == self.name);
            } else if self.hidden.is_none() && !self.is_self_closing && HIDDEN.contains(&self.name.as_slice()) {
                self.hidden = Some(self.name.clone());
            }
        }
        if let Some(anchors) = &mut self.anchors {
            match (self.name.as_slice(), self.is_start) {
                (b"a", _) => anchors.end(),
                (name, _) if parts_words(name) => anchors.text(b" "),
                _ => {}
            }
        }
    }

    fn meta(&mut self, held: &Held) {
        let Some(content) = &held.content else { return };
        let is = |attribute: &Option<Vec<u8>>, word: &[u8]| {
            attribute.as_deref().is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(word))
        };
        if is(&held.http_equiv, b"refresh")
            && let Some(target) = refresh_target(content)
        {
            self.anchor(target, held);
            self.gathered.add(target);
        }
        if held.name.as_deref().is_some_and(|name| directives::speaks_to(name, self.agent)) {
            self.gathered.found.is_nofollow |= directives::forbids_following(content);
        }
    }
}

impl Emitter for &mut Reading<'_> {
    type Token = Infallible;

    fn init_start_tag(&mut self) {
        self.begin(true);
    }

    fn init_end_tag(&mut self) {
        self.begin(false);
    }

    fn push_tag_name(&mut self, name: &[u8]) {
        self.name.extend_from_slice(name);
    }

    fn init_attribute(&mut self) {
        self.take_attribute();
        self.attribute_name.clear();
        self.attribute_value.clear();
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        if self.matters() {
            self.attribute_name.extend_from_slice(name);
        }
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        if self.matters() {
            self.attribute_value.extend_from_slice(value);
        }
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        self.enter_or_leave_foreign();
        self.end_style();
        self.mark_text();
        if !self.is_start {
            return None;
        }
        if self.name == b"style" && self.beside.bounds.requisites {
            self.style = Some(Vec::new());
        }
        self.take_attribute();
        if self.tag() != Tag::Other {
            self.close();
        }
        if self.foreign > 0 || self.syntax == Syntax::Xhtml && self.is_self_closing {
            return None;
        }
        let Reading { last_start, name, .. } = &mut **self;
        last_start.clone_from(name);
        // Scripts are not run, so `noscript` is part of the page.
        if self.name == b"noscript" { None } else { naive_next_state(&self.name) }
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        !self.is_start && !self.last_start.is_empty() && self.name == self.last_start
    }

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn pop_token(&mut self) -> Option<Infallible> {
        None
    }

    fn set_last_start_tag(&mut self, name: Option<&[u8]>) {
        self.last_start = name.unwrap_or_default().to_vec();
    }

    // Comments and doctypes clear the current tag.
    fn init_comment(&mut self) {
        self.begin(false);
    }

    fn init_doctype(&mut self) {
        self.begin(false);
    }

    fn emit_eof(&mut self) {}
    fn emit_error(&mut self, _: Error) {}
    fn emit_string(&mut self, text: &[u8]) {
        if let Some(style) = &mut self.style {
            style.extend_from_slice(text);
        }
        if !(self.is_start && matches!(self.name.as_slice(), b"script" | b"style")) {
            self.text(text);
        }
        if let Some(fingerprint) = self.fingerprint.as_mut().filter(|_| self.hidden.is_none()) {
            fingerprint.add(&String::from_utf8_lossy(text));
        }
    }
    fn emit_current_comment(&mut self) {}
    fn emit_current_doctype(&mut self) {}
    fn set_self_closing(&mut self) {
        self.is_self_closing = true;
    }

    fn set_force_quirks(&mut self) {}
    fn push_comment(&mut self, _: &[u8]) {}
    fn push_doctype_name(&mut self, _: &[u8]) {}
    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}
}

fn attribute(tag: Tag, name: &[u8]) -> Option<Attribute> {
    match (tag, name) {
        (Tag::Anchor | Tag::Link | Tag::Base, b"href") | (Tag::Frame, b"src") => Some(Attribute::Target),
        (Tag::Anchor, b"xlink:href") | (Tag::Object, b"data") => Some(Attribute::Target),
        (Tag::Anchor | Tag::Link, b"rel") => Some(Attribute::Rel),
        (Tag::Meta, b"http-equiv") => Some(Attribute::HttpEquiv),
        (Tag::Meta, b"name") => Some(Attribute::Name),
        (Tag::Meta, b"content") => Some(Attribute::Content),
        (Tag::Anchor | Tag::Image, b"alt") => Some(Attribute::Alt),
        _ => None,
    }
}

/// The URL of a refresh such as `5; url='...'`; without a URL it reloads the page.
pub(super) fn refresh_target(content: &[u8]) -> Option<&[u8]> {
    let content = content.trim_ascii_start();
    let after_time = content.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let rest = content[after_time..].trim_ascii_start();
    let rest = rest.strip_prefix(b";").or_else(|| rest.strip_prefix(b",")).unwrap_or(rest).trim_ascii();
    let named = rest.len() >= 3 && rest[..3].eq_ignore_ascii_case(b"url");
    let after_name = if named { rest[3..].trim_ascii_start().strip_prefix(b"=") } else { None };
    let target = after_name.map_or(rest, <[u8]>::trim_ascii_start);
    let target = match target.first() {
        Some(quote @ (b'"' | b'\'')) => {
            let inner = &target[1..];
            &inner[..inner.iter().position(|byte| byte == quote).unwrap_or(inner.len())]
        }
        _ => target,
    };
    Some(target).filter(|target| !target.is_empty())
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

    fn links(html: &str) -> Vec<String> {
        find(html.as_bytes(), "our-bot", Syntax::Html, BOUNDS).links
    }

    #[test]
    fn every_kind_of_link_to_a_page_is_found() {
        let html = "<a href=1>x</a><AREA HREF='2'><link rel=next href=\"3\"><iframe src=4></iframe>\
                    <meta http-equiv=Refresh content='0; URL=5'><frame src=6><object type=text/html data=7></object>\
                    <embed src=8><svg><a xlink:href=9><a href=10></svg><object src=no><iframe data=no><a href=11";
        let wanted: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
        assert_eq!(links(html), wanted);
    }

    #[test]
    fn what_a_page_needs_to_be_shown_is_no_page() {
        let html = "<link rel=stylesheet href=s><link rel='shortcut icon' href=i><link rel=preload href=p><img src=x>\
                    <script src=y></script><link rel=canonical href=c>";
        assert_eq!(links(html), ["c"]);
    }

    #[test]
    fn requisites_are_found_beside_the_links_whatever_is_not_to_be_followed() {
        let html = "<meta name=robots content=nofollow><link rel=stylesheet href=1><link rel='Shortcut Icon' href=2>\
                    <link rel=preload href=3><img src=4 srcset='5 1x, 6 2x'><picture><source srcset=7></picture>\
                    <script src=8></script><video poster=9 src=no></video><p style='background:url(10)'>\
                    <style>@import '11';p{x:url(12)}</style><body background=13><a href=no><img src=data:,x>\
                    <script>'<img src=no>'</script><!-- <img src=no> --><link rel=manifest href=no><svg><image href=14>\
                    <style>y{x:url(15)}";
        let found = find(html.as_bytes(), "our-bot", Syntax::Html, Bounds { requisites: true, ..BOUNDS });
        let wanted: Vec<String> = (1..=15).map(|n| n.to_string()).collect();
        let taken: Vec<_> = found.requisites.iter().filter(|link| !link.starts_with("data:")).cloned().collect();
        assert_eq!((taken, found.links.len()), (wanted, 0));
        assert!(find(html.as_bytes(), "our-bot", Syntax::Html, BOUNDS).requisites.is_empty());
    }

    #[test]
    fn references_are_decoded_and_scripts_and_comments_hold_no_links() {
        let html = "<a href='?a=1&amp;b=2&copy=3'>x</a><script>'<a href=no>'</script><!-- <a href=no> --><a href=yes>\
                    <noscript><a href=plain></noscript><textarea><a href=no></textarea><title><a href=no></title><style><a href=no></style>";
        assert_eq!(links(html), ["?a=1&b=2&copy=3", "yes", "plain"]);
    }

    #[test]
    fn the_wish_not_to_be_followed_is_kept() {
        let html = "<a rel='external NoFollow' href=1><a rel=external href=2>";
        let found = find(html.as_bytes(), "our-bot", Syntax::Html, BOUNDS);
        assert_eq!((found.links, found.nofollow), (vec!["2".to_owned()], 1));
        let page = format!("{html}<meta name=ROBOTS content='noindex,NOFOLLOW'>");
        let found = find(page.as_bytes(), "our-bot", Syntax::Html, BOUNDS);
        assert_eq!((found.links.len(), found.nofollow, found.is_nofollow), (0, 2, true));
        assert_eq!(
            find(page.as_bytes(), "our-bot", Syntax::Html, Bounds { follow_nofollow: true, ..BOUNDS }).links,
            ["1", "2"]
        );
    }

    #[test]
    fn directives_for_another_agent_do_not_bind_and_ours_do() {
        for (name, links) in [("googlebot", 1), ("Our-Bot", 0), ("robots", 0), ("our", 1)] {
            let html = format!("<meta name={name} content=nofollow><a href=1>");
            assert_eq!(find(html.as_bytes(), "our-bot", Syntax::Html, BOUNDS).links.len(), links, "{name}");
        }
    }

    #[test]
    fn the_first_base_and_the_first_attribute_of_a_name_count() {
        let found = find(
            b"<base target=_top><base href=' /a/ '><base href=/b/><a href=1 href=2>",
            "our-bot",
            Syntax::Html,
            BOUNDS,
        );
        assert_eq!((found.base.as_deref(), found.links), (Some("/a/"), vec!["1".to_owned()]));
    }

    #[test]
    fn empty_elements_hide_nothing_where_they_are_whole() {
        let links = |html: &str, syntax| find(html.as_bytes(), "bot", syntax, BOUNDS).links;
        let script = "<title>t</title><script src='x.js'/><a href=1>";
        assert_eq!(links(script, Syntax::Xhtml), ["1"]);
        assert!(links(script, Syntax::Html).is_empty(), "a script in HTML ends with its end tag");
        for foreign in [
            "<svg><title/><path/></svg><a href=1>",
            "<svg><style/><script/></svg><a href=1>",
            "<svg><title>x</title></svg><title><a href=0></title><a href=1>",
            "<svg><p><title><a href=0></title><a href=1>",
            "<svg/><title><a href=0></title><a href=1>",
        ] {
            assert_eq!(links(foreign, Syntax::Html), ["1"], "{foreign}");
        }
    }

    #[test]
    fn the_forms_of_a_refresh_are_read() {
        let rows = [
            ("0;url=a", Some("a")),
            (" 5 ; URL = 'a b' x", Some("a b")),
            ("5,\"a\"", Some("a")),
            ("0.5;a", Some("a")),
            ("5", None),
            ("5;", None),
            ("0;url='a", Some("a")),
            ("0; urls", Some("urls")),
        ];
        for (content, target) in rows {
            assert_eq!(refresh_target(content.as_bytes()), target.map(str::as_bytes), "{content}");
        }
    }

    #[test]
    fn no_bytes_are_a_panic() {
        let mut seed = 1_u64;
        for _ in 0..2000 {
            let html: Vec<u8> = (0..200)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    b"<a href='\"=>/&#; \xff\0basemt!-"[(seed >> 33) as usize % 27]
                })
                .collect();
            assert!(find(&html, "our-bot", Syntax::Html, BOUNDS).links.len() <= 100);
        }
    }

    const EDGES: Bounds = Bounds { url_bytes: 200, edges: true, ..BOUNDS };

    fn edges(html: &str, bounds: Bounds) -> (Vec<String>, u64) {
        let found = find(html.as_bytes(), "our-bot", Syntax::Html, bounds);
        let (edges, more) =
            super::super::edges::resolve(&found, "http://a.example/dir/", &filemap::canonical::Whatwg, bounds);
        let words = |edge: super::super::edges::Edge| {
            let rel = edge.rel.map_or(String::new(), |rel| format!(" rel={rel}"));
            format!("{} {}{rel} [{}]", edge.element, edge.to, edge.text)
        };
        (edges.into_iter().map(words).collect(), more)
    }

    #[test]
    fn every_link_is_an_edge_with_its_text() {
        let html = "<link rel=next href=2><link rel=stylesheet href=x.css>\
            <a href=/x>One <b>b</b>ig<br>text\n &amp; <img alt='a picture' src=i.png></a> not this\
            <a href=/x rel='nofollow  UGC'>again</a><a href=mailto:x@y>mail</a><a href=#top>top</a>\
            <a href=/y>open <a href=z#part>next<script>var no = 1;</script></a> <area href=/map alt=Map>\
            <iframe src=http://b.example/></iframe><meta http-equiv=refresh content='0; url=/later'>";
        let (found, more) = edges(html, EDGES);
        let wanted = [
            "link http://a.example/dir/2 rel=next []",
            "a http://a.example/x [One big text & a picture]",
            "a http://a.example/x rel=nofollow UGC [again]",
            "a http://a.example/y [open]",
            "a http://a.example/dir/z [next]",
            "area http://a.example/map [Map]",
            "iframe http://b.example/ []",
            "meta http://a.example/later []",
        ];
        assert_eq!((found, more), (wanted.map(str::to_owned).to_vec(), 0));
    }

    #[test]
    fn edges_of_a_page_that_is_not_to_be_followed_are_there_and_those_over_a_limit_are_counted() {
        let html = "<base href=http://b.example/c/><meta name=robots content=nofollow><a href=x>1</a><a href=#>2</a>";
        let (found, more) = edges(html, EDGES);
        assert_eq!(found, ["a http://b.example/c/x [1]", "a http://b.example/c/ [2]"]);
        assert_eq!(more, 0);
        let long = format!("<a href=/{}>long</a><a href=/1>1</a><a href=/1>1</a><a href=/2>2</a>", "l".repeat(300));
        let (found, more) = edges(&long, Bounds { links: 3, ..EDGES });
        assert_eq!((found.len(), more), (2, 2));
        let text = format!("<a href=/>{}</a>", "é".repeat(2000));
        let (found, _) = edges(&text, EDGES);
        assert_eq!(found[0].matches('é').count(), 512);
    }

    #[test]
    fn without_edges_nothing_is_kept() {
        assert_eq!(edges("<a href=/x>x</a>", Bounds { edges: false, ..EDGES }), (vec![], 0));
    }
}
