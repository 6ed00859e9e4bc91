//! Holds the crawl rules against the pairs of crawler-commons and against real URLs.
//!
//! Pairs that we answer differently, on purpose or by the URL standard, are listed by name: any
//! other difference fails.

use std::path::{Path, PathBuf};

use urlindex::canonical::{Rule, RuleSet};
use urlindex::{Canonicalizer, CrawlRules, Whatwg};

/// Broken URLs that stay errors (the rules never guess), and `file:` URLs, which the rules leave
/// to the URL standard.
const ANSWERED_OTHERWISE: [&str; 9] = [
    "ftp:/",
    "http:////",
    "http:///////",
    "foo.com/index.html",
    "file:/path/index.html",
    "file:/var/www/html/////./bar/index.html",
    "file:/var/www/html/foo/../bar/index.html",
    // A parameter without a name may be all that tells two pages apart: it stays.
    "http://foo.com/index?&=1&a=1",
    "http://foo.com/index?=1&b=1&a=1",
];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

/// The fields of a line, which may be quoted, with `""` for a quotation mark.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut rest) = (Vec::new(), line);
    loop {
        rest = rest.trim_start_matches(' ');
        let mut field = String::new();
        if let Some(mut quoted) = rest.strip_prefix('"') {
            loop {
                let end = quoted.find('"').expect("the quotation ends");
                field.push_str(&quoted[..end]);
                quoted = &quoted[end + 1..];
                let Some(more) = quoted.strip_prefix('"') else { break };
                field.push('"');
                quoted = more;
            }
            rest = quoted.trim_start_matches(' ');
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            field.push_str(rest[..end].trim_end_matches(' '));
            rest = &rest[end..];
        }
        fields.push(field);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None => return fields,
        }
    }
}

fn lines(name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(data(name)).expect("the pairs are in the repository");
    let told = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    told.map(fields).collect()
}

fn key(rules: &dyn Canonicalizer, url: &str) -> String {
    match rules.canonicalize(url.as_bytes()) {
        Ok(key) => String::from_utf8(key).expect("ASCII"),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn the_pairs_of_crawler_commons_are_answered_alike_but_for_the_listed() {
    let rules = CrawlRules::crawl();
    let pairs = lines("canon/weirdToNormalizedUrls.csv");
    let differing = pairs.iter().filter(|pair| key(&rules, &pair[0]) != pair[1]).map(|pair| pair[0].as_str());
    assert_eq!(differing.collect::<Vec<_>>(), ANSWERED_OTHERWISE);
    assert_eq!(pairs.len(), 112);
}

#[test]
fn links_are_resolved_as_crawler_commons_does() {
    let cases = lines("canon/url-resolve.csv");
    // Our keys have no fragments.
    let rules = CrawlRules::new(RuleSet::WHATWG.without(Rule::Fragment));
    for case in &cases {
        let [link, base, expected] = &case[..] else { panic!("three fields: {case:?}") };
        let resolved = match base.as_str() {
            "" => rules.canonicalize(link.as_bytes()),
            base => rules.resolve(base.as_bytes(), link.as_bytes()),
        };
        assert_eq!(
            resolved.map(|key| String::from_utf8(key).expect("ASCII")).as_ref(),
            Ok(expected),
            "{link} on {base}"
        );
    }
    assert_eq!(cases.len(), 22);
}

#[test]
fn real_urls_have_keys_that_are_their_own() {
    let text = std::fs::read_to_string(data("urls/wiki-urls-10000.txt")).expect("the URLs are in the repository");
    let presets: [&dyn Canonicalizer; 3] = [&Whatwg, &CrawlRules::crawl(), &CrawlRules::surt()];
    for url in text.lines() {
        for rules in presets {
            let once = key(rules, url);
            assert_eq!(key(rules, &once), once, "{url} by {}", rules.name());
        }
    }
    let is_unchanged = |url: &&str| matches!(Whatwg.canonical(url.as_bytes()), Ok(std::borrow::Cow::Borrowed(_)));
    let without_copy = text.lines().filter(is_unchanged).count();
    assert!(without_copy > 9_000, "{without_copy} of 10,000");
}
