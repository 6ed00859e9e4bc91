//! The links of a document: extracted, resolved, canonicalised and deduplicated.
//!
//! Extraction ([`html`], [`head`], [`sitemap`], [`plain`]) knows little of URLs, and resolution
//! nothing of documents. Number and length of links are bounded.
//!
//! Invariant: every resolved link is an absolute http or https URL without a fragment, otherwise
//! as written; its key is the canonical form by the store's rules.

pub mod css;
pub mod directives;
pub mod edges;
pub mod elements;
pub mod head;
pub mod html;
pub mod plain;
pub mod requisites;
pub mod sitemap;
pub mod source;
pub mod traps;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use filemap::canonical::{Canonicalizer, Whatwg};
use frontier::Frontier;
use urlindex::canonical::Encoding;

/// The options and limits of link extraction.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The maximum number of links of one document.
    pub links: usize,
    /// The maximum length of a URL.
    pub url_bytes: usize,
    /// True if nofollow links are followed.
    pub follow_nofollow: bool,
    /// True if requisites are extracted.
    pub requisites: bool,
    /// True if edges are extracted.
    pub edges: bool,
    /// True if the text's fingerprint is computed.
    pub fingerprint: bool,
}

/// The links of a document as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The links to follow, without duplicates, in order.
    pub links: Vec<String>,
    /// The requisites of the document, as links.
    pub requisites: Vec<String>,
    /// All its links as edges, if these are wanted; and the number beyond the limit.
    pub anchors: Vec<edges::Anchor>,
    pub more_anchors: u64,
    /// The fingerprint of an HTML document's text.
    pub fingerprint: Option<u64>,
    /// The base of the links, if the document has one.
    pub base: Option<String>,
    /// The encoding of an HTML document, used for the queries of its links; `None` is UTF-8.
    pub encoding: Option<&'static Encoding>,
    /// Number of nofollow links.
    pub nofollow: u64,
    /// True if the whole document is nofollow.
    pub is_nofollow: bool,
    /// True if a link is empty except for a fragment: it leads to the base, if there is one.
    pub has_empty: bool,
    /// The numbers of links, and of requisites, beyond the limit, repeated ones among them.
    pub more: u64,
    pub more_requisites: u64,
    /// Reason why a sitemap or a feed was not read to its end.
    pub broken: Option<Broken>,
    /// A sitemap's hints about changes of its pages, by the link's index.
    pub hints: BTreeMap<usize, Hint>,
}

impl Found {
    /// The base URL for the links of a document at this URL.
    fn base_at(&self, url: &str) -> Vec<u8> {
        let base = self.base.as_deref().and_then(|base| self.resolve(url.as_bytes(), base));
        base.filter(|base| is_web(base)).unwrap_or_else(|| url.as_bytes().to_vec())
    }

    fn resolve(&self, base: &[u8], link: &str) -> Option<Vec<u8>> {
        Whatwg.resolve_in_page(base, link, self.encoding.unwrap_or(urlindex::canonical::UTF_8)).ok()
    }

    /// Resolves a link; `None` if it is not http or https.
    fn absolute(&self, base: &[u8], link: &str) -> Option<Vec<u8>> {
        let url = match joined(base, link) {
            Some(absolute) => Whatwg.canonicalize(absolute.as_bytes()).ok(),
            None => self.resolve(base, link),
        };
        url.filter(|url| is_web(url))
    }
}

/// Reason why a document was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Its XML or gzip file is damaged or ends early, or it has lines that are not URLs.
    Damaged,
    /// It is longer than the limit.
    TooLong,
    /// Its expansion exceeds the limit.
    TooDense,
}

/// A sitemap's hint about a page's changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// The time of the last change (`lastmod`), in ms since 1970.
    pub changed_ms: Option<i64>,
    /// The frequency of changes (`changefreq`).
    pub change: Option<Change>,
}

/// The frequency of a page's changes, in a sitemap's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Always,
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
    Never,
}

impl Hint {
    /// The time between two changes, in ms.
    pub fn every_ms(&self) -> Option<u64> {
        const HOUR: u64 = 3_600_000;
        Some(match self.change? {
            // The protocol's meaning: at each access.
            Change::Always => 1,
            Change::Hourly => HOUR,
            Change::Daily => 24 * HOUR,
            Change::Weekly => 7 * 24 * HOUR,
            Change::Monthly => 30 * 24 * HOUR,
            Change::Yearly | Change::Never => 365 * 24 * HOUR,
        })
    }
}

impl Change {
    /// Parses the name of a frequency.
    pub fn parse(name: &str) -> Option<Change> {
        Some(match name.to_ascii_lowercase().as_str() {
            "always" => Change::Always,
            "hourly" => Change::Hourly,
            "daily" => Change::Daily,
            "weekly" => Change::Weekly,
            "monthly" => Change::Monthly,
            "yearly" => Change::Yearly,
            "never" => Change::Never,
            _ => return None,
        })
    }
}

/// A resolved link.
///
/// ```
/// use filemap::canonical::Whatwg;
/// let link = crawl::Link::named("HTTP://Example.com:80/a#top", &Whatwg, 2000)?;
/// assert_eq!(link.url, "http://example.com/a");
/// assert!(crawl::Link::named("ftp://example.com/", &Whatwg, 2000).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The URL to request.
    pub url: String,
    /// Its canonical form, which identifies the page.
    pub key: String,
    /// A sitemap's hint about its changes.
    pub hint: Option<Hint>,
}

impl Link {
    /// A link to a URL already normalised by the URL standard; `None` if it has no canonical form
    /// in UTF-8.
    pub fn new(url: Vec<u8>, canonicalizer: &dyn Canonicalizer) -> Option<Link> {
        let key = String::from_utf8(canonicalizer.canonicalize(&url).ok()?).ok()?;
        Some(Link { url: String::from_utf8(url).ok()?, key, hint: None })
    }

    /// A link from a URL given by a person, or the error in it.
    pub fn named(url: &str, canonicalizer: &dyn Canonicalizer, url_bytes: usize) -> Result<Link, String> {
        let standard = Whatwg.canonicalize(url.as_bytes()).map_err(|error| format!("{url}: {error}"))?;
        if !is_web(&standard) {
            return Err(format!("{url}: only http and https are crawled"));
        }
        let link = Link::new(standard, canonicalizer);
        let link = link.ok_or_else(|| format!("{url}: it has no canonical form by the rules of the store"))?;
        match link.is_too_long(url_bytes) {
            true => Err(format!("a URL of {} bytes: {url_bytes} are taken", link.url.len())),
            false => Ok(link),
        }
    }

    /// Returns whether its URL is over this length, or URL and key together are too long for the
    /// frontier.
    pub fn is_too_long(&self, url_bytes: usize) -> bool {
        self.url.len() > url_bytes || self.text().len() > Frontier::URL_BYTES_MAX
    }

    /// Its representation in the frontier.
    pub fn text(&self) -> Cow<'_, str> {
        frontier::link(&self.url, &self.key)
    }
}

/// The links of a document, resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The links, one for each canonical form, in order.
    pub links: Vec<Link>,
    /// Links to other schemes than http and https.
    pub unusable: u64,
    /// Links that are not valid URLs, or have no canonical form.
    pub invalid: u64,
    /// Links over the length limit.
    pub too_long: u64,
}

/// Collects links as written, without duplicates.
pub(crate) struct Gathered {
    pub(crate) found: Found,
    texts: HashSet<String>,
    pub(crate) bounds: Bounds,
}

impl Gathered {
    pub(crate) fn new(bounds: Bounds) -> Gathered {
        Gathered { found: Found::default(), texts: HashSet::new(), bounds }
    }

    /// Adds a link without its fragment: most links of a long page differ only in that. Returns
    /// its index if it is new.
    pub(crate) fn add(&mut self, link: &[u8]) -> Option<usize> {
        let link = link.trim_ascii();
        let link = &link[..link.iter().position(|&byte| byte == b'#').unwrap_or(link.len())];
        if link.is_empty() {
            self.found.has_empty = true;
            return None;
        }
        let text = text(link);
        if self.texts.contains(&text) {
            return None;
        }
        if self.found.links.len() >= self.bounds.links {
            self.found.more += 1;
            return None;
        }
        self.texts.insert(text.clone());
        self.found.links.push(text);
        Some(self.found.links.len() - 1)
    }
}

/// Bytes of a URL as text: UTF-8, else with each byte over 7F percent-encoded.
pub(crate) fn text(bytes: &[u8]) -> String {
    let escaped = |byte: &u8| if byte.is_ascii() { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    std::str::from_utf8(bytes).map_or_else(|_| bytes.iter().map(escaped).collect(), str::to_owned)
}

/// Resolves the links of the page `url`. Of links with the same canonical form the first wins.
pub fn resolve(found: &Found, url: &str, canonicalizer: &dyn Canonicalizer, bounds: Bounds) -> Links {
    let mut links = Links::default();
    let mut seen: HashSet<String> = HashSet::with_capacity(found.links.len());
    let base = found.base_at(url);
    for (at, link) in found.links.iter().enumerate() {
        if link.len() > bounds.url_bytes {
            links.too_long += 1;
            continue;
        }
        match found.absolute(&base, link).and_then(|url| Link::new(url, canonicalizer)) {
            Some(link) if link.is_too_long(bounds.url_bytes) => links.too_long += 1,
            Some(link) => {
                if !seen.contains(&link.key) {
                    seen.insert(link.key.clone());
                    links.links.push(Link { hint: found.hints.get(&at).copied(), ..link });
                }
            }
            None if names_other_scheme(link) => links.unusable += 1,
            None => links.invalid += 1,
        }
    }
    if found.has_empty && found.base.is_some() && base != url.as_bytes() {
        let to_base = Link::new(base, canonicalizer);
        links.links.extend(to_base.filter(|link| !seen.contains(&link.key)));
    }
    links
}

/// Returns whether a link names a scheme other than http and https. Parsers ignore tabs and line
/// ends in it.
fn names_other_scheme(link: &str) -> bool {
    let Some((scheme, _)) = link.split_once(':') else { return false };
    let scheme: String = scheme.chars().filter(|letter| !matches!(letter, '\t' | '\n' | '\r')).collect();
    let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(is_scheme)
        && !["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web))
}

/// Fast path: resolves a link that is a plain path on the base's host or below its folder. `None`
/// for others.
fn joined(base: &[u8], link: &str) -> Option<String> {
    let base = std::str::from_utf8(base).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%?=&+,;".contains(&byte);
    if link.is_empty() || link.starts_with('?') || link.starts_with("//") || !link.bytes().all(is_plain) {
        return None;
    }
    let host_at = base.find("://")? + 3;
    let path_at = base[host_at..].find('/')? + host_at;
    let path_end = base.find(['?', '#']).unwrap_or(base.len());
    let folder_end = base.get(path_at..path_end)?.rfind('/')? + path_at + 1;
    Some([&base[..if link.starts_with('/') { path_at } else { folder_end }], link].concat())
}

/// The host of a URL, in the frontier's form; empty if it has none.
pub fn host(url: &str) -> &str {
    urlindex::host(url.as_bytes()).and_then(|host| std::str::from_utf8(host).ok()).unwrap_or("")
}

/// Parses a start page by the URL standard.
///
/// # Errors
/// An error message, if it cannot be crawled.
pub fn check_start(seed: &[u8], url_bytes: usize) -> Result<String, String> {
    let url = Whatwg.canonicalize(seed).map_err(|error| error.to_string())?;
    if !is_web(&url) {
        return Err("only http and https are crawled".to_owned());
    }
    if url.len() > url_bytes {
        return Err(format!("it is longer than {url_bytes} bytes"));
    }
    String::from_utf8(url).map_err(|_| "it is not UTF-8".to_owned())
}

/// Returns whether a canonical URL is http or https.
pub fn is_web(key: &[u8]) -> bool {
    key.starts_with(b"http://") || key.starts_with(b"https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(links: &Links) -> Vec<&str> {
        links.links.iter().map(|link| link.url.as_str()).collect()
    }

    const BOUNDS: Bounds = Bounds {
        links: 100,
        url_bytes: 60,
        follow_nofollow: false,
        requisites: false,
        edges: false,
        fingerprint: false,
    };

    fn resolved(links: &[&str], base: Option<&str>) -> Links {
        let mut gathered = Gathered::new(BOUNDS);
        for link in links {
            gathered.add(link.as_bytes());
        }
        gathered.found.base = base.map(str::to_owned);
        resolve(&gathered.found, "http://a.example/dir/page?q", &Whatwg, BOUNDS)
    }

    #[test]
    fn links_are_resolved_and_each_comes_once() {
        let links = resolved(&["x", "./x#top", "/y", "//b.example", "?z", "#top", " HTTP://A.example:80/y "], None);
        let wanted =
            ["http://a.example/dir/x", "http://a.example/y", "http://b.example/", "http://a.example/dir/page?z"];
        assert_eq!(urls(&links), wanted);
    }

    #[test]
    fn a_link_is_asked_for_as_it_was_written_and_known_by_its_canonical_form() {
        let mut gathered = Gathered::new(BOUNDS);
        for link in ["/x//", "?z&y=1", "/proxy/http://b.example/x", "?y=1&z", "/x//#top"] {
            gathered.add(link.as_bytes());
        }
        let links = resolve(&gathered.found, "http://a.example/", &urlindex::CrawlRules::crawl(), BOUNDS);
        let wanted = ["http://a.example/x//", "http://a.example/?z&y=1", "http://a.example/proxy/http://b.example/x"];
        assert_eq!(urls(&links), wanted);
        assert_eq!(links.links[1].key, "http://a.example/?y=1&z");
    }

    #[test]
    fn an_empty_link_leads_to_the_base_of_a_page_that_has_one() {
        assert_eq!(
            urls(&resolved(&["", "x"], Some("/other/"))),
            ["http://a.example/other/x", "http://a.example/other/"]
        );
        assert_eq!(urls(&resolved(&["#top"], None)), [""; 0]);
    }

    #[test]
    fn what_no_crawler_can_fetch_is_counted_and_left() {
        let long = "l".repeat(61);
        let links = ["mailto:a@b", "java\nscript:void(0)", "http://[", "//a:b:c/", "ftp://a/", long.as_str(), "ok"];
        let links = resolved(&links, None);
        assert_eq!((links.links.len(), links.unusable, links.invalid, links.too_long), (1, 3, 2, 1));
    }

    #[test]
    fn a_base_holds_for_all_links_and_an_unusable_one_for_none() {
        assert_eq!(urls(&resolved(&["x"], Some("/other/"))), ["http://a.example/other/x"]);
        assert_eq!(urls(&resolved(&["x"], Some("data:,"))), ["http://a.example/dir/x"]);
    }

    #[test]
    fn links_that_are_joined_without_parsing_are_what_the_parser_makes_of_them() {
        let bases =
            ["http://a.example/", "https://a.example:8080/b/c/d?e=/f/", "http://127.0.0.1/b/", "http://a.example/?b"];
        let mut seed = 7_u64;
        let mut joins = 0;
        for round in 0..20_000 {
            let mut next = |below: usize| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) as usize % below
            };
            let pieces =
                ["a", "B", ".", "..", "/", "/", "?", "=", "%2e", "%", "&", ";", "~", "x.html", ":", "http:", "\\\\"];
            let link: String = (0..1 + next(6)).map(|_| pieces[next(pieces.len())]).collect();
            let base = bases[round % bases.len()].as_bytes();
            let Some(absolute) = joined(base, &link) else { continue };
            joins += 1;
            let parsed = Whatwg.resolve(base, link.as_bytes()).ok();
            assert_eq!(Whatwg.canonicalize(absolute.as_bytes()).ok(), parsed, "{link}");
        }
        assert!(joins > 5000, "{joins}");
    }

    #[test]
    fn a_document_with_too_many_links_is_cut_and_says_so() {
        let mut gathered = Gathered::new(Bounds { links: 3, ..BOUNDS });
        for n in 0..10 {
            gathered.add(format!("p{n}").as_bytes());
        }
        assert_eq!((gathered.found.links.len(), gathered.found.more), (3, 7));
    }

    #[test]
    fn bytes_that_are_no_utf8_stay_what_they_are() {
        assert_eq!(text(b"/caf\xe9?\xff"), "/caf%E9?%FF");
        assert_eq!(text("/café".as_bytes()), "/café");
    }

    /// A character reference is independent of the page's encoding; a byte of a multi-byte
    /// character may look like markup.
    #[test]
    fn links_of_a_page_are_written_by_its_encoding() {
        type Row<'a> = (&'a [u8], &'a str, [&'a str; 2]);
        let rows: [Row<'_>; 3] = [
            (
                b"<a href='/caf\xe9?q=\xe9&eacute;'><a href='?\x80'>",
                "windows-1252",
                ["caf%C3%A9?q=%E9%E9", "dir/page?%80"],
            ),
            (b"<a href='/\x83\x5c'><a href='?\x83\x5c'>", "shift_jis", ["%E3%82%BD", "dir/page?%83\\"]),
            ("<a href='/é'><a href='?é'>".as_bytes(), "utf-8", ["%C3%A9", "dir/page?%C3%A9"]),
        ];
        for (body, label, expected) in rows {
            let kind = format!("text/html; charset={label}");
            let (text, encoding) = filemap::page::encoding::decode(body, Some(kind.as_bytes()));
            let found =
                Found { encoding: Some(encoding), ..html::find(text.as_bytes(), "bot", html::Syntax::Html, BOUNDS) };
            let links = resolve(&found, "http://a.example/dir/page", &Whatwg, BOUNDS);
            assert_eq!(urls(&links), expected.map(|rest| format!("http://a.example/{rest}")), "{label}");
        }
    }
}
