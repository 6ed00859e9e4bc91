//! The canonicaliser for crawls: the URL standard, then named rules that can be switched; and an
//! explanation of each step.
//!
//! The rules run in order until none changes anything; their output is parsed again unless its
//! bytes prove that parsing changes nothing. So an answer is its own canonical form, whichever
//! rules are on. For most URLs the bytes also prove that no rule applies ([`settled`]); then none
//! runs.

use std::borrow::Cow;

use encoding_rs::Encoding;

use super::parts::Parts;
use super::rule::{Rule, RuleSet};
use super::{Canonicalizer, UrlError, fast, rewrite, settled, whatwg};

/// Step for a URL that is not UTF-8: percent-encodes each byte over 7F as it stands.
const PERCENT_BYTES: &str = "percent-bytes";
/// Step for a page's link: path in UTF-8, query in the page's encoding.
const PAGE_ENCODING: &str = "page-encoding";

/// Maximum rounds of rules. Each shortens or sorts the URL: real ones take one or two.
const ROUNDS_MAX: usize = 64;

/// The URL standard and a set of rules.
///
/// ```
/// use urlindex::canonical::{Rule, RuleSet};
/// use urlindex::{Canonicalizer, CrawlRules};
///
/// let rules = CrawlRules::new(RuleSet::CRAWL.with(Rule::Www));
/// let url = b"HTTP://www.Example.com:80//a%7eb?utm_source=x&b=2&a=1#top";
/// assert_eq!(rules.canonicalize(url).unwrap(), b"http://example.com/a~b?a=1&b=2");
///
/// let why: Vec<&str> = rules.explain(url).steps.iter().map(|step| step.rule).collect();
/// assert_eq!(why[..4], ["whatwg", "default-port", "fragment", "www"]);
/// assert_eq!(why[4..], ["percent-case", "percent-unreserved", "empty-segments", "tracking", "sorted-parameters"]);
/// ```
#[derive(Clone, Debug)]
pub struct CrawlRules {
    rules: RuleSet,
    dropped: Vec<String>,
}

/// The steps of a canonicaliser on a URL.
///
/// ```
/// use urlindex::CrawlRules;
///
/// let explanation = CrawlRules::crawl().explain(b"http://example.com/");
/// assert!(explanation.steps.is_empty());
/// assert_eq!(explanation.key.unwrap(), b"http://example.com/");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The key, or the error.
    pub key: Result<Vec<u8>, UrlError>,
    /// Changes in order; empty if there were none.
    pub steps: Vec<Step>,
}

/// A rule that changed a URL.
///
/// ```
/// use urlindex::CrawlRules;
///
/// let steps = CrawlRules::crawl().explain(b"http://example.com/?utm_source=x").steps;
/// assert_eq!((steps[0].rule, &steps[0].after[..]), ("tracking", "http://example.com/"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The rule's name; `whatwg` is parsing and serialising by the URL standard, `percent-bytes`
    /// and `page-encoding` handle bytes that are not UTF-8.
    pub rule: &'static str,
    /// The URL before.
    pub before: String,
    /// The URL after.
    pub after: String,
}

impl CrawlRules {
    /// A canonicaliser with these rules.
    pub fn new(rules: RuleSet) -> CrawlRules {
        CrawlRules { rules, dropped: Vec::new() }
    }

    /// The preset [`RuleSet::WHATWG`]: the answers of [`crate::Whatwg`].
    pub fn whatwg() -> CrawlRules {
        CrawlRules::new(RuleSet::WHATWG)
    }

    /// The preset [`RuleSet::CRAWL`].
    pub fn crawl() -> CrawlRules {
        CrawlRules::new(RuleSet::CRAWL)
    }

    /// The preset [`RuleSet::SURT`].
    pub fn surt() -> CrawlRules {
        CrawlRules::new(RuleSet::SURT)
    }

    /// Drops query parameters of these names too, and switches on [`Rule::Tracking`]. Such a
    /// canonicaliser is named `custom`, and no store can find it by name.
    #[must_use]
    pub fn dropping(self, names: impl IntoIterator<Item = String>) -> CrawlRules {
        let dropped = self.dropped.into_iter().chain(names).collect();
        CrawlRules { rules: self.rules.with(Rule::Tracking), dropped }
    }

    /// The rules that are on.
    pub fn rules(&self) -> RuleSet {
        self.rules
    }

    /// The key of `url`, and each rule that changed it: shows why two URLs have one key.
    pub fn explain(&self, url: impl AsRef<[u8]>) -> Explanation {
        let mut steps = Vec::new();
        let key = self.run(url.as_ref(), &mut Notes(Some(&mut steps)));
        Explanation { key: key.map(Cow::into_owned), steps }
    }

    /// [`CrawlRules::explain`] of a link in a page of this encoding, relative to the page `base`
    /// or absolute. Its first step is `page-encoding`.
    pub fn explain_in_page(&self, base: Option<&[u8]>, link: &[u8], encoding: &'static Encoding) -> Explanation {
        let (text, _) = encoding.decode_without_bom_handling(link);
        let joined = match base {
            Some(base) => whatwg::join(base, text.as_bytes(), encoding),
            None => whatwg::parse_in(None, &text, encoding),
        };
        let mut steps = Vec::new();
        let key = joined.and_then(|joined| {
            Notes(Some(&mut steps)).add(PAGE_ENCODING, &text, &joined);
            Ok(self.run(joined.as_bytes(), &mut Notes(Some(&mut steps)))?.into_owned())
        });
        Explanation { key, steps }
    }

    /// The key of a URL, if its bytes prove it canonical.
    pub(super) fn proved<'a>(&self, url: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if !self.rules.has(Rule::Fragment) || !self.dropped.is_empty() {
            return None;
        }
        let part = fast::canonical_part(url)?;
        if settled::is_settled(part, self.rules) {
            return Some(Cow::Borrowed(part));
        }
        let turns = self.rules.has(Rule::Surt) && settled::is_settled(part, self.rules.without(Rule::Surt));
        turns.then(|| Cow::Owned(settled::turned(part)))
    }

    /// Runs the rules. With notes, records every step and uses no proofs.
    fn run<'a>(&self, url: &'a [u8], notes: &mut Notes<'_>) -> Result<Cow<'a, [u8]>, UrlError> {
        let mut text = match fast::canonical_part(url).and_then(|part| std::str::from_utf8(part).ok()) {
            // A fragment that is kept must be parsed.
            Some(part) if self.rules.has(Rule::Fragment) => {
                if part.len() < url.len() {
                    notes.add(Rule::Fragment.name(), &String::from_utf8_lossy(url), part);
                }
                Cow::Borrowed(part)
            }
            _ => {
                let written = whatwg::text(url)?;
                notes.add(PERCENT_BYTES, &String::from_utf8_lossy(url), &written);
                let parsed = with_written_port(whatwg::parse(&written)?, &written);
                notes.add("whatwg", &written, &parsed);
                Cow::Owned(parsed)
            }
        };
        for _ in 0..ROUNDS_MAX {
            let Some(changed) = self.round(&text, notes) else { return Ok(into_bytes(text)) };
            text = match fast::canonical_part(changed.as_bytes()) {
                Some(part) if part.len() == changed.len() => {
                    if notes.0.is_none() && self.dropped.is_empty() && settled::is_settled(part, self.rules) {
                        return Ok(Cow::Owned(changed.into_bytes()));
                    }
                    Cow::Owned(changed)
                }
                _ => {
                    let parsed = with_written_port(whatwg::parse(&changed)?, &changed);
                    notes.add("whatwg", &changed, &parsed);
                    Cow::Owned(parsed)
                }
            };
        }
        Err(UrlError::Invalid { why: "the crawl rules do not reach a fixed point".to_owned() })
    }

    /// Runs all rules once. Returns the new text if any rule changed it.
    fn round(&self, text: &str, notes: &mut Notes<'_>) -> Option<String> {
        let Some(mut parts) = Parts::of(text) else { return self.other_scheme(text, notes) };
        let mut is_changed = false;
        let mut before = Cow::Borrowed(text);
        for rule in self.rules.iter() {
            if rewrite::apply(rule, &mut parts, &self.dropped) {
                is_changed = true;
                if notes.0.is_some() {
                    let after = parts.text();
                    notes.add(rule.name(), &before, &after);
                    before = Cow::Owned(after);
                }
            }
        }
        is_changed.then(|| parts.text())
    }

    /// URLs of other schemes only lose their fragment.
    fn other_scheme(&self, text: &str, notes: &mut Notes<'_>) -> Option<String> {
        let at = text.find('#').filter(|_| self.rules.has(Rule::Fragment))?;
        // Without its fragment an opaque path may need another serialisation.
        notes.add(Rule::Fragment.name(), text, &text[..at]);
        Some(text[..at].to_owned())
    }
}

/// The steps of an explanation, if wanted.
struct Notes<'a>(Option<&'a mut Vec<Step>>);

impl Notes<'_> {
    fn add(&mut self, rule: &'static str, before: &str, after: &str) {
        if let Some(steps) = self.0.as_mut().filter(|_| before != after) {
            steps.push(Step { rule, before: before.to_owned(), after: after.to_owned() });
        }
    }
}

fn into_bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// Restores a default port that the parser dropped: dropping it is a rule's task here.
fn with_written_port(parsed: String, written: &str) -> String {
    let rest = written.trim_start_matches(|c: char| c <= ' ').split_once(':').map_or("", |(_, rest)| rest);
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let Some((_, port)) = host.rsplit_once(':').filter(|(host, _)| !host.is_empty()) else { return parsed };
    let Some(parts) = Parts::of(&parsed).filter(|parts| parts.port.is_none()) else { return parsed };
    let default = if parts.scheme == "http" { "80" } else { "443" };
    if port == default { with_port(parts, default) } else { parsed }
}

fn with_port<'a>(mut parts: Parts<'a>, port: &'a str) -> String {
    parts.port = Some(port);
    parts.text()
}

impl Canonicalizer for CrawlRules {
    /// The preset's name; `rules`, with the rules' bits as version; or `custom`, with added
    /// parameters.
    fn name(&self) -> &'static str {
        match self.rules {
            _ if !self.dropped.is_empty() => "custom",
            RuleSet::WHATWG => "whatwg",
            RuleSet::CRAWL | RuleSet::CRAWL_1 => "crawl",
            RuleSet::SURT | RuleSet::SURT_1 => "surt",
            _ => "rules",
        }
    }

    fn version(&self) -> u32 {
        match self.name() {
            "rules" => self.rules.bits(),
            "crawl" | "surt" if !self.rules.has(Rule::SessionIds1) => 2,
            _ => 1,
        }
    }

    fn canonicalize(&self, url: &[u8]) -> Result<Vec<u8>, UrlError> {
        self.canonical(url).map(Cow::into_owned)
    }

    fn canonical<'a>(&self, url: &'a [u8]) -> Result<Cow<'a, [u8]>, UrlError> {
        match self.proved(url) {
            Some(key) => Ok(key),
            None => self.run(url, &mut Notes(None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(rules: &CrawlRules, url: &str) -> String {
        String::from_utf8(rules.canonicalize(url.as_bytes()).expect("a URL")).expect("ASCII")
    }

    #[test]
    fn a_rule_that_is_off_changes_nothing() {
        let none = CrawlRules::new(RuleSet::from_bits(0).expect("the empty set"));
        let url = "https://u@www.a.b:443//x/index.html?utm_id=1&b&a&#f";
        assert_eq!(key(&none, url), url);
        assert_eq!(none.explain(url.as_bytes()).steps, []);
    }

    #[test]
    fn an_explanation_leads_from_the_url_to_its_key() {
        let rules = CrawlRules::crawl();
        let url = "HTTP://Example.com:80/a;jsessionid=1/../b?gclid=1#x";
        let explained = rules.explain(url.as_bytes());
        let names: Vec<&str> = explained.steps.iter().map(|step| step.rule).collect();
        assert_eq!(names, ["whatwg", "default-port", "fragment", "tracking"]);
        assert_eq!(explained.steps[0].before, url);
        assert!(explained.steps.windows(2).all(|pair| pair[0].after == pair[1].before));
        assert_eq!(explained.key.as_deref(), Ok(&b"http://example.com/b"[..]));
        assert_eq!(rules.explain(b"http://example.com/b").steps, []);
        assert!(rules.explain(b"nothing").key.is_err());
    }

    #[test]
    fn an_explanation_says_how_bytes_that_are_no_utf8_were_written() {
        let rules = CrawlRules::crawl();
        let bare = rules.explain(b"http://a/caf\xe9?q=\xe9");
        assert_eq!(bare.steps[0].rule, "percent-bytes");
        assert_eq!(bare.key.as_deref(), Ok(&b"http://a/caf%E9?q=%E9"[..]));
        let encoding = encoding_rs::WINDOWS_1252;
        for (base, link) in
            [(None, &b"http://a/caf\xe9?q=\xe9"[..]), (Some(&b"http://a/b"[..]), &b"caf\xe9?q=\xe9"[..])]
        {
            let in_page = rules.explain_in_page(base, link, encoding);
            assert_eq!(in_page.steps[0].rule, "page-encoding");
            assert_eq!(in_page.key.as_deref(), Ok(&b"http://a/caf%C3%A9?q=%E9"[..]));
        }
        assert!(rules.explain_in_page(None, b"nothing", encoding).key.is_err());
    }

    #[test]
    fn what_a_rule_uncovers_is_parsed_again() {
        assert_eq!(key(&CrawlRules::crawl(), "http://a/x/..;jsessionid=1/y"), "http://a/y");
        let both = CrawlRules::new(RuleSet::CRAWL.with(Rule::IndexFile).with(Rule::TrailingSlash));
        assert_eq!(key(&both, "http://a/b/index.html/index.php/"), "http://a/b");
    }

    #[test]
    fn names_and_versions_say_which_rules_are_on() {
        let found = |rules: &CrawlRules| super::super::named(rules.name(), rules.version()).map(|r| format!("{r:?}"));
        let odd = CrawlRules::new(RuleSet::CRAWL.with(Rule::Www));
        for rules in [CrawlRules::crawl(), CrawlRules::surt(), odd] {
            assert_eq!(found(&rules), Some(format!("{rules:?}")));
        }
        assert_eq!(CrawlRules::whatwg().name(), "whatwg");
        assert_eq!(found(&CrawlRules::crawl().dropping(["q".to_owned()])), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_key_is_its_own_key_and_the_way_to_it_is_explained(
            bits in 0u32..1 << Rule::ALL.len(),
            pieces in proptest::collection::vec(proptest::sample::select(vec![
                "a", "B", "/", "/", "//", "..", ".", "%2e", "%41", "%2f", "?", "&", "=", "b=1", "a=", "utm_x=1", "#", ";", "jsessionid=1",
                "index.html", "/x/x/x", "(S(4hqa0555fwsecu455xqckv45))", "/(4hqa0555fwsecu455xqckv45)/", "/(X(1)", "S(4hqa0555fwsecu455xqckv45))", "sid=0123456789abcdef0123456789abcdef", "é", " ", "'", "\\", "[", "%",
            ]), 0..14),
            host in proptest::sample::select(vec!["www.a.b", "A.b:80", "u:p@a.b.", "www.1.2.3.4", "1.2.3", "[::1]:443", "(b,a,)", "é.x", "www.a", "www..a.b."]),
            scheme in proptest::sample::select(vec!["http://", "https://", "HTTPS:", "ftp://", "data:"]),
        ) {
            let rules = CrawlRules::new(RuleSet::from_bits(bits).expect("known rules"));
            let url = format!("{scheme}{host}/{}", pieces.concat());
            let explained = rules.explain(url.as_bytes());
            if let Ok(key) = &explained.key {
                prop_assert_eq!(&rules.canonicalize(key), &Ok(key.clone()), "{} {:?}", url, rules);
                let end = explained.steps.last().map_or(url.as_bytes(), |step| step.after.as_bytes());
                prop_assert_eq!(end, &key[..], "{}", url);
            }
            let whatwg = crate::Whatwg.canonicalize(url.as_bytes());
            prop_assert_eq!(CrawlRules::whatwg().canonicalize(url.as_bytes()), whatwg, "{}", url);
        }
    }
}
