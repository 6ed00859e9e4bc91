//! Link discovery: recognises the kind of a document, and selects the links to follow.
//!
//! A sitemap or a feed is recognised by its root element, whatever its content type; a text
//! sitemap by the source of its link, or by its own name. Nothing else is guessed from a body,
//! except HTML without a content type, as in browsers.

use std::collections::{BTreeMap, HashSet};

use filemap::Page;
use memchr::memmem;

use super::parts::{Crawl, token};
use crate::clock::now_ms;
use crate::error::Error;
use crate::failure::{Failure, Reason};
use crate::fetch::Kind;
use crate::files::sitemaps::{LEVELS, OF_ROBOTS};
use crate::hooks;
use crate::links::edges::{self, Edge};
use crate::links::html::Syntax;
use crate::links::sitemap::Root;
use crate::links::source::{Size, Source, is_gzip};
use crate::links::{
    self, Bounds, Broken, Found, Gathered, Link, Links, css, directives, head, plain, requisites, sitemap, traps,
};
use crate::settings::Settings;
use crate::settings::limits::SITEMAP_LINKS;

/// The root element of an XML document must begin within these first bytes.
const ROOT_WITHIN: u64 = 64 << 10;
/// A document declared as HTML that is not has one of these marks within this many bytes.
const MARKS_WITHIN: usize = 2048;
const MARKS: [&[u8]; 6] = [b"<?xml", b"urlset", b"sitemapindex", b"<rss", b"RDF", b"<feed"];
/// Content types without information.
const UNKNOWN: [&[u8]; 4] = [b"", b"unknown/unknown", b"application/unknown", b"*/*"];

/// The links of a page to follow, and counts.
#[derive(Debug, Default)]
pub struct Discovered {
    /// The links.
    pub links: Vec<Link>,
    /// Limits that were exceeded, with counts.
    pub met: Vec<(Reason, u64)>,
    /// Links out of scope.
    pub out_of_scope: u64,
    /// The redirect target of a start page: a start page too.
    pub widens: Option<String>,
    /// Number of links with a sitemap's hint about changes.
    pub hints: u64,
    /// All links of the document, if wanted.
    pub edges: Vec<Edge>,
    /// The fingerprint of its text.
    pub fingerprint: Option<u64>,
    /// Errors of hooks.
    pub hooks_failed: Vec<String>,
}

impl Discovered {
    /// Counts a limit.
    fn count(&mut self, reason: Reason, times: u64) {
        match self.met.iter_mut().find(|(met, _)| *met == reason) {
            Some((_, before)) => *before += times,
            None if times > 0 => self.met.push((reason, times)),
            None => {}
        }
    }
}

/// The kind of a fetch of a URL.
pub fn kind(crawl: &Crawl, url: &str, requisite: Option<u8>) -> Kind {
    if requisite.is_some() {
        return Kind::Requisite;
    }
    let is_sitemap = crawl.settings.sitemaps && (crawl.sitemaps.level(url).is_some() || has_name_of_sitemap(url));
    if is_sitemap { Kind::Sitemap } else { Kind::Page }
}

/// The links of a page.
///
/// # Errors
/// Errors of the file of sitemaps.
pub fn of_page(crawl: &Crawl, url: &str, page: &Page, requisite: Option<u8>) -> Result<Discovered, Error> {
    let level = crawl.sitemaps.level(url);
    let (mut found, root) = find(crawl, url, page, level.is_some());
    let mut head = of_head(crawl, page, &found);
    let mut discovered = Discovered { fingerprint: found.fingerprint, ..Discovered::default() };
    [&found, &head].into_iter().for_each(|found| add_edges(crawl, found, url, &mut discovered));
    let beside_it = [&mut found, &mut head].map(requisites_of);
    let is_parsed = requisite.is_none() && level.is_none();
    if let Some(own) = is_parsed.then(|| of_parser(crawl, url, page, &mut discovered)).flatten() {
        let Found { broken, encoding, .. } = found;
        (found, head) = (Found { broken, encoding, ..own }, Found::default());
    }
    discovered.hints = found.hints.len() as u64;
    let more = beside_it.iter().map(|found| found.more).sum::<u64>();
    discovered.count(Reason::LinkLimit, found.more + head.more + more);
    discovered.met.extend(found.broken.map(|broken| (reason(broken), 1)));
    let mut links = resolved(crawl, &found, url, &mut discovered).links;
    if root == Some(Root::Index) {
        // An index that nobody named leads only to sitemaps in scope.
        let below = level.map_or(OF_ROBOTS, |level| level + 1);
        let may_lead_out = level.is_some_and(|level| level < LEVELS);
        let named =
            links.iter().map(|link| link.url.as_str()).filter(|link| may_lead_out || crawl.scope.contains(link));
        let refused = crawl.sitemaps.name(named, below.min(LEVELS))?;
        discovered.count(Reason::SitemapLimit, refused);
    }
    append(&mut links, resolved(crawl, &head, url, &mut discovered).links);
    // A requisite is followed like a page if it is in the crawl's scope.
    let leads_on = requisite.is_none() || crawl.scope.contains(url);
    discovered.count(Reason::Nofollow, if leads_on { found.nofollow + head.nofollow } else { 0 });
    follow(crawl, if leads_on { links } else { Vec::new() }, root == Some(Root::Index), &mut discovered);
    let is_style = essence(page.headers.get("Content-Type")) == b"text/css";
    let next = match requisite {
        Some(level) if is_style => Some(level + 1).filter(|level| *level <= requisites::LEVELS),
        Some(_) => leads_on.then_some(1),
        None => Some(1),
    };
    if let Some(level) = next {
        for found in beside_it {
            let links = resolved(crawl, &found, url, &mut discovered).links;
            beside(crawl, links, level, &mut discovered);
        }
    }
    Ok(discovered)
}

/// Takes the requisites out of the links of a document, or of its head.
fn requisites_of(found: &mut Found) -> Found {
    let (links, more) = (std::mem::take(&mut found.requisites), std::mem::take(&mut found.more_requisites));
    Found { links, more, base: found.base.clone(), encoding: found.encoding, ..Found::default() }
}

/// The links that the caller's parser finds; `None` for those of the document and its head.
fn of_parser(crawl: &Crawl, url: &str, page: &Page, discovered: &mut Discovered) -> Option<Found> {
    let parse = crawl.hooks.parse.as_ref()?;
    match hooks::guarded(|| parse.links(url, page)) {
        Ok(links) => links.map(|links| bounded(crawl, links)),
        Err(why) => {
            discovered.hooks_failed.push(why);
            None
        }
    }
}

/// Links of a caller: at most as many as a page may have.
fn bounded(crawl: &Crawl, mut links: Vec<String>) -> Found {
    let most = crawl.settings.limits.links;
    let more = links.len().saturating_sub(most) as u64;
    links.truncate(most);
    Found { links, more, ..Found::default() }
}

/// The links in the header fields of a page. Directives against following apply to them too.
fn of_head(crawl: &Crawl, page: &Page, found: &Found) -> Found {
    let mut head = head::find(&page.headers, bounds(crawl));
    if !crawl.settings.follow_nofollow && (found.is_nofollow || forbids_following(crawl, page)) {
        head.nofollow += head.links.len() as u64;
        head.links.clear();
    }
    head
}

/// Returns whether an `X-Robots-Tag` of a page forbids us to follow its links.
fn forbids_following(crawl: &Crawl, page: &Page) -> bool {
    let agent = token(&crawl.settings);
    page.headers.all("X-Robots-Tag").any(|tag| directives::tag_forbids_following(tag, agent))
}

/// Adds the edges of a document, or of its head.
fn add_edges(crawl: &Crawl, found: &Found, url: &str, discovered: &mut Discovered) {
    let (edges, more) = edges::resolve(found, url, &**crawl.pages.canonicalizer(), bounds(crawl));
    discovered.edges.extend(edges);
    discovered.count(Reason::EdgeLimit, more);
}

/// Appends links that are not there yet.
fn append(links: &mut Vec<Link>, mut more: Vec<Link>) {
    if !more.is_empty() {
        let known: HashSet<&str> = links.iter().map(|link| link.key.as_str()).collect();
        more.retain(|link| !known.contains(link.key.as_str()));
        links.extend(more);
    }
}

/// Links found by a hook, at most as many as a page may have. Invalid URLs are counted, as the
/// hook learns of them in no other way.
pub fn of_hook(crawl: &Crawl, url: &str, links: Vec<String>) -> Discovered {
    let (found, mut discovered) = (bounded(crawl, links), Discovered::default());
    discovered.count(Reason::LinkLimit, found.more);
    let Links { links, unusable, .. } = resolved(crawl, &found, url, &mut discovered);
    discovered.count(Reason::BadUrl, unusable);
    follow(crawl, links, false, &mut discovered);
    discovered
}

/// Adds the requisites of a page, on any host.
fn beside(crawl: &Crawl, links: Vec<Link>, level: u8, discovered: &mut Discovered) {
    let mut links = wanted(links, |url| crawl.refusal_of_requisite(url), discovered);
    // A URL that is also a link counts as a link.
    let known: HashSet<&String> = discovered.links.iter().map(|link| &link.key).collect();
    links.retain(|link| !known.contains(&link.key));
    links.iter_mut().for_each(|link| requisites::mark(link, level));
    discovered.links.extend(links);
}

/// The target of a redirect. A sitemap's target is a sitemap; a start page's is followed wherever
/// it leads.
///
/// # Errors
/// Errors of the file of sitemaps.
pub fn of_redirect(
    crawl: &Crawl,
    url: &str,
    location: &[u8],
    is_start: bool,
    requisite: Option<u8>,
) -> Result<Discovered, Error> {
    let found = Found { links: vec![links::text(location)], ..Found::default() };
    let mut discovered = Discovered::default();
    let Links { links, invalid, .. } = resolved(crawl, &found, url, &mut discovered);
    if links.is_empty() && invalid == 0 {
        discovered.count(Reason::BadUrl, 1);
    }
    if crawl.hooks.edges {
        let edge = |link: &Link| Edge { to: link.key.clone(), element: "redirect", rel: None, text: String::new() };
        discovered.edges = links.iter().map(edge).collect();
    }
    if let Some(level) = requisite {
        beside(crawl, links, level, &mut discovered);
        return Ok(discovered);
    }
    let level = crawl.sitemaps.level(url);
    if let Some(level) = level {
        crawl.sitemaps.name(links.iter().map(|link| link.url.as_str()), level)?;
    }
    if level.is_none() && is_start {
        discovered.links = wanted(links, |url| crawl.refusal(url, true), &mut discovered);
        discovered.widens = discovered.links.first().map(|link| link.url.clone());
    } else {
        follow(crawl, links, level.is_some(), &mut discovered);
    }
    Ok(discovered)
}

/// The target of a redirect.
pub fn target(crawl: &Crawl, url: &str, location: &[u8]) -> Option<Link> {
    let found = Found { links: vec![links::text(location)], ..Found::default() };
    links::resolve(&found, url, &**crawl.pages.canonicalizer(), bounds(crawl)).links.pop()
}

/// The sitemaps named by a robots.txt.
///
/// # Errors
/// Errors of the file of sitemaps.
pub fn of_robots(crawl: &Crawl, url: &str, sitemaps: &[String]) -> Result<Discovered, Error> {
    let found = Found { links: sitemaps.to_vec(), ..Found::default() };
    let mut discovered = Discovered::default();
    let Links { links, unusable, .. } = resolved(crawl, &found, url, &mut discovered);
    discovered.links = links;
    discovered.count(Reason::BadUrl, unusable);
    let refused = crawl.sitemaps.name(discovered.links.iter().map(|link| link.url.as_str()), OF_ROBOTS)?;
    discovered.count(Reason::SitemapLimit, refused);
    Ok(discovered)
}

/// Resolves links; counts those that are too long, or not valid.
fn resolved(crawl: &Crawl, found: &Found, url: &str, discovered: &mut Discovered) -> Links {
    let links = links::resolve(found, url, &**crawl.pages.canonicalizer(), bounds(crawl));
    discovered.count(Reason::UrlLimit, links.too_long);
    discovered.count(Reason::BadUrl, links.invalid);
    links
}

/// Keeps links in scope, and named sitemaps where these are possible.
fn follow(crawl: &Crawl, links: Vec<Link>, may_be_sitemaps: bool, discovered: &mut Discovered) {
    let all = links.len();
    discovered.links = links;
    discovered
        .links
        .retain(|link| crawl.scope.contains(&link.url) || may_be_sitemaps && crawl.sitemaps.level(&link.url).is_some());
    discovered.out_of_scope = (all - discovered.links.len()) as u64;
    let in_scope = std::mem::take(&mut discovered.links);
    let (limits, now_ms) = (&crawl.settings.limits, now_ms());
    let endless = |url: &str| traps::refusal(url, limits.path_repeats, limits.years_ahead, now_ms);
    let refusal = |url: &str| crawl.refusal(url, false).or_else(|| endless(url).filter(|_| !crawl.scope.is_start(url)));
    discovered.links = wanted(in_scope, refusal, discovered);
}

/// Drops and counts links that a pattern of the crawl refuses.
fn wanted(mut links: Vec<Link>, refusal: impl Fn(&str) -> Option<Failure>, discovered: &mut Discovered) -> Vec<Link> {
    let mut refused = BTreeMap::new();
    links.retain(|link| match refusal(&link.url) {
        Some(failure) => {
            *refused.entry(failure.reason).or_insert(0) += 1;
            false
        }
        None => true,
    });
    refused.into_iter().for_each(|(reason, times)| discovered.count(reason, times));
    links
}

fn reason(broken: Broken) -> Reason {
    match broken {
        Broken::Damaged => Reason::SitemapBroken,
        Broken::TooLong => Reason::BodyLimit,
        Broken::TooDense => Reason::RatioLimit,
    }
}

/// The fingerprint of the text of an HTML document.
pub fn fingerprint(page: &Page) -> Option<u64> {
    let content_type = page.headers.get("Content-Type");
    if !has(&essence(content_type), b"html") {
        return None;
    }
    let (text, _) = filemap::page::encoding::decode(&page.body, content_type);
    let bounds =
        Bounds { links: 0, url_bytes: 0, follow_nofollow: false, requisites: false, edges: false, fingerprint: true };
    links::html::find(text.as_bytes(), "", Syntax::Html, bounds).fingerprint
}

/// The limits on a document's links.
fn bounds(crawl: &Crawl) -> Bounds {
    let Settings { limits, follow_nofollow, requisites, .. } = &crawl.settings;
    Bounds {
        links: limits.links,
        url_bytes: limits.url_bytes,
        follow_nofollow: *follow_nofollow,
        requisites: *requisites,
        edges: crawl.hooks.edges,
        fingerprint: limits.near_bits.is_some(),
    }
}

/// The links of a document as written, and its root if it is XML.
fn find(crawl: &Crawl, url: &str, page: &Page, was_named: bool) -> (Found, Option<Root>) {
    let limits = &crawl.settings.limits;
    let whole = Size { bytes: limits.sitemap_bytes(), ratio: limits.ratio };
    let content_type = page.headers.get("Content-Type");
    let kind = essence(content_type);
    let source = |size| Source::new(&page.body, content_type, size);
    let root = match may_be_xml(&page.body, &kind) {
        true => sitemap::root(source(Size { bytes: ROOT_WITHIN, ..whole })),
        false => None,
    };
    let is_xml = kind.ends_with(b"xml");
    let is_html = has(&kind, b"html") || is_xml && root == Some(Root::Html);
    let ours = bounds(crawl);
    let many = Bounds { links: ours.links.max(SITEMAP_LINKS), ..ours };
    match root {
        Some(root @ (Root::Set | Root::Index)) => return (sitemap::find(source(whole), root, url, many), Some(root)),
        Some(root @ (Root::Rss | Root::Atom)) => {
            let bounds = if was_named { many } else { ours };
            return (sitemap::find(source(whole), root, url, bounds), Some(root));
        }
        Some(Root::Html) | None => {}
    }
    if (was_named || has_name_of_sitemap(url)) && !is_html && !is_xml {
        let is_text = kind == b"text/plain" && was_named && !is_gzip(&page.body);
        if is_text || plain::looks_like_one(source(whole)) {
            return (plain::find(source(whole), many), None);
        }
    }
    if kind == b"text/css" && ours.requisites {
        let mut gathered = Gathered::new(ours);
        css::find(&page.body, |url| {
            gathered.add(url);
        });
        let Found { links: requisites, more: more_requisites, .. } = gathered.found;
        return (Found { requisites, more_requisites, ..Found::default() }, root);
    }
    // Named as a sitemap, but not one.
    let broken = was_named.then_some(Broken::Damaged);
    let may_be_html = is_html || UNKNOWN.contains(&kind.as_slice()) && looks_like_markup(&page.body);
    if !may_be_html || is_gzip(&page.body) {
        return (Found { broken, ..Found::default() }, root);
    }
    let agent = token(&crawl.settings);
    let is_nofollow = forbids_following(crawl, page) && !crawl.settings.follow_nofollow;
    let (text, encoding) = filemap::page::encoding::decode(&page.body, content_type);
    let syntax = if is_xml { Syntax::Xhtml } else { Syntax::Html };
    let mut found = links::html::find(text.as_bytes(), agent, syntax, ours);
    if is_nofollow {
        found.nofollow += found.links.len() as u64;
        found.links.clear();
    }
    (Found { encoding: Some(encoding), broken, ..found }, root)
}

/// A content type without parameters, in lower case.
fn essence(content_type: Option<&[u8]>) -> Vec<u8> {
    let value = content_type.unwrap_or_default();
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase()
}

fn has(text: &[u8], part: &[u8]) -> bool {
    memmem::find(text, part).is_some()
}

/// Returns whether looking for a root element is worthwhile.
fn may_be_xml(body: &[u8], kind: &[u8]) -> bool {
    if is_gzip(body) {
        return true;
    }
    let head = &body[..body.len().min(MARKS_WITHIN)];
    let is_wide = head.iter().take(4).any(|byte| *byte == 0);
    let is_plain_html = has(kind, b"html") && !kind.ends_with(b"xml");
    looks_like_markup(body) && (is_wide || !is_plain_html || MARKS.iter().any(|mark| has(head, mark)))
}

/// Returns whether a body begins with a tag, after a byte order mark or blanks.
fn looks_like_markup(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let is_wide = [&b"\xff\xfe"[..], b"\xfe\xff", b"<\0", b"\0<"].iter().any(|mark| body.starts_with(mark));
    is_wide || body.trim_ascii_start().starts_with(b"<")
}

/// Returns whether a URL is named like a sitemap: `/sitemap.xml`, `/sitemap-2.txt.gz`.
fn has_name_of_sitemap(url: &str) -> bool {
    let path = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    name.contains("sitemap") && [".xml", ".txt"].iter().any(|ending| plain.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sitemap_is_known_by_its_name() {
        for (url, is_one) in [
            ("http://a/sitemap.xml", true),
            ("http://a/b/Product-SiteMap-7.txt.gz?x", true),
            ("http://a/sitemap.xml/x", false),
            ("http://a/sitemap", false),
            ("http://sitemap.xml/", false),
            ("http://a/notes.txt", false),
        ] {
            assert_eq!(has_name_of_sitemap(url), is_one, "{url}");
        }
    }

    #[test]
    fn markup_is_known_behind_marks_and_blanks() {
        for body in [&b" \n<p>"[..], b"\xef\xbb\xbf\n<!-- x -->", b"\xff\xfe<\0", b"\xfe\xff\0<", b"<\0?\0"] {
            assert!(looks_like_markup(body), "{body:?}");
        }
        assert!(!looks_like_markup(b"x <p>") && !looks_like_markup(b""));
    }
}
