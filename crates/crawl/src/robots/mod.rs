//! robots.txt by RFC 9309: which paths our user agent may fetch. Also supports the common
//! `Crawl-delay` and `Sitemap`.
//!
//! Any bytes parse: unknown lines are skipped. Groups of one name are merged, the longest matching
//! rule decides, and among equal ones the allowing rule. Paths are compared with percent escapes
//! in canonical form.

pub mod cache;

use std::time::Duration;

use memchr::memmem;

use crate::settings::limits::ROBOTS_BYTES;

/// The maximum size read of a robots.txt: the minimum of the RFC.
pub const MAX_BYTES: usize = ROBOTS_BYTES;
/// The maximum number of sitemaps of one robots.txt.
const SITEMAPS_MAX: usize = 1000;

/// The rules of one robots.txt for us.
///
/// ```
/// let text = b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\n";
/// let robots = crawl::robots::Robots::parse(text, "example");
/// assert!(robots.allows("/") && !robots.allows("/private/page"));
/// assert_eq!(robots.crawl_delay, Some(std::time::Duration::from_secs(2)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Robots {
    rules: Vec<Rule>,
    /// The minimum time between two fetches.
    pub crawl_delay: Option<Duration>,
    /// Sitemaps, as written.
    pub sitemaps: Vec<String>,
    /// The number of sitemaps beyond the limit.
    pub more_sitemaps: u64,
    /// True if the file is longer than [`MAX_BYTES`]: the rest is ignored.
    pub is_cut: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allows: bool,
    /// `*` matches any characters, a final `$` the end of the path; escapes are normalised.
    pattern: Box<[u8]>,
}

/// The groups that apply to us.
#[derive(Default)]
struct Groups {
    named: Option<Robots>,
    star: Option<Robots>,
}

impl Robots {
    /// Parses a robots.txt for the product token `agent`.
    pub fn parse(text: &[u8], agent: &str) -> Robots {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let is_cut = text.len() > MAX_BYTES;
        // UTF-16 is not allowed by the RFC, but decoded all the same.
        let text = match text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
            true => filemap::page::encoding::decode(&text[..text.len().min(MAX_BYTES)], None).0,
            false => String::from_utf8_lossy(whole_lines(text)),
        };
        let (mut groups, mut sitemaps, mut more_sitemaps) = (Groups::default(), Vec::new(), 0);
        let (mut to_us, mut to_all, mut in_agents) = (false, false, false);
        for line in text.split(['\n', '\r']) {
            let line = line.split('#').next().unwrap_or("").trim();
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" | "useragent" | "user agent" => {
                    if !in_agents {
                        (to_us, to_all) = (false, false);
                    }
                    in_agents = true;
                    if value.split_ascii_whitespace().next() == Some("*") {
                        to_all = true;
                        groups.star.get_or_insert_default();
                    } else if product(value).eq_ignore_ascii_case(agent) {
                        to_us = true;
                        groups.named.get_or_insert_default();
                    }
                }
                "sitemap" => {
                    if sitemaps.len() >= SITEMAPS_MAX {
                        more_sitemaps += 1;
                    } else if !value.is_empty() {
                        sitemaps.push(value.to_owned());
                    }
                }
                _ => {
                    in_agents &= !matches!(key.as_str(), "allow" | "disallow" | "crawl-delay");
                    let spoken_to = [(to_us, &mut groups.named), (to_all, &mut groups.star)];
                    for (_, group) in spoken_to.into_iter().filter(|(is_spoken_to, _)| *is_spoken_to) {
                        group.get_or_insert_default().line(&key, value);
                    }
                }
            }
        }
        let ours = groups.named.or(groups.star).unwrap_or_default();
        Robots { sitemaps, more_sitemaps, is_cut, ..ours }
    }

    /// Approximate memory of the rules.
    pub fn memory_bytes(&self) -> usize {
        let rules: usize = self.rules.iter().map(|rule| rule.pattern.len() + size_of::<Rule>()).sum();
        rules + self.sitemaps.iter().map(|text| text.len() + size_of::<String>()).sum::<usize>()
    }

    fn line(&mut self, key: &str, value: &str) {
        match key {
            "allow" | "disallow" if !value.is_empty() => {
                self.rules.push(Rule { allows: key == "allow", pattern: normalised(value.as_bytes()).into() });
            }
            "crawl-delay" => {
                let seconds = value.parse::<f64>().ok().filter(|seconds| (0.0..1e6).contains(seconds));
                self.crawl_delay = self.crawl_delay.max(seconds.map(Duration::from_secs_f64));
            }
            _ => {}
        }
    }

    /// Returns whether this path with its query (`/a?b`) may be fetched. robots.txt itself always
    /// may.
    pub fn allows(&self, path: &str) -> bool {
        if path == "/robots.txt" {
            return true;
        }
        let path = normalised(path.as_bytes());
        let fitting = self.rules.iter().filter(|rule| fits(&rule.pattern, &path));
        fitting.max_by_key(|rule| (rule.pattern.len(), rule.allows)).is_none_or(|rule| rule.allows)
    }
}

/// The complete lines within the limit: half a rule may forbid or allow more than the whole.
fn whole_lines(text: &[u8]) -> &[u8] {
    let Some(within) = text.get(..MAX_BYTES) else { return text };
    let ends = |at: usize| matches!(text.get(at), None | Some(b'\n' | b'\r'));
    let end = if ends(MAX_BYTES) { MAX_BYTES } else { memchr::memrchr2(b'\n', b'\r', within).unwrap_or(0) };
    &within[..end]
}

/// The product token at the start of a `User-agent` value.
fn product(value: &str) -> &str {
    let is_token = |c: char| c.is_ascii_alphabetic() || c.is_ascii_digit() || matches!(c, '_' | '-');
    &value[..value.find(|c| !is_token(c)).unwrap_or(value.len())]
}

/// The product token of a user agent, as matched in robots.txt.
pub fn token(user_agent: &str) -> &str {
    product(user_agent.trim())
}

/// Normalises escapes: upper case, unreserved characters unescaped, non-ASCII bytes escaped.
fn normalised(path: &[u8]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        at += 1;
        let (byte, was_escaped) = match (byte, digit(path.get(at)), digit(path.get(at + 1))) {
            (b'%', Some(high), Some(low)) => {
                at += 2;
                (high << 4 | low, true)
            }
            _ => (byte, false),
        };
        let is_unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        if byte.is_ascii_graphic() && (is_unreserved || !was_escaped) {
            out.push(byte);
        } else {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    out
}

/// Returns whether a pattern matches a prefix of a path; linear in the path for each `*`.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    let (pattern, to_end) = match pattern.strip_suffix(b"$") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let middle: Vec<&[u8]> = parts.collect();
    let Some((last, middle)) = middle.split_last() else { return !to_end || rest.is_empty() };
    for part in middle.iter().filter(|part| !part.is_empty()) {
        let Some(at) = memmem::find(rest, part) else { return false };
        rest = &rest[at + part.len()..];
    }
    if to_end { rest.ends_with(last) } else { last.is_empty() || memmem::find(rest, last).is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn robots(text: &str) -> Robots {
        Robots::parse(text.as_bytes(), "ExampleBot")
    }

    #[test]
    fn the_simple_example_of_the_rfc() {
        let text = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
                    User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
                    User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\nUser-Agent: quxbot\n";
        let of = |agent: &str| Robots::parse(text.as_bytes(), agent);
        let all = of("somebot");
        assert!(!all.allows("/a/b.gif") && all.allows("/a/b.gif?x") && !all.allows("/example/") && all.allows("/x"));
        let foo = of("FooBot");
        assert!(foo.allows("/example/page.html") && foo.allows("/example/allowed.gif") && !foo.allows("/x.gif"));
        for agent in ["barbot", "bazbot"] {
            assert!(!of(agent).allows("/example/page.html") && of(agent).allows("/a.gif"));
        }
        assert!(of("quxbot").allows("/example/"));
    }

    #[test]
    fn the_longest_match_decides_as_in_the_rfc() {
        let rules = robots(
            "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n\
             User-Agent: ExampleBot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n",
        );
        assert!(!rules.allows("/example/page/disallowed.gif") && rules.allows("/example/page/x") && rules.allows("/"));
        let tie = robots("User-agent: *\nDisallow: /a\nAllow: /a\n");
        assert!(tie.allows("/a"));
    }

    #[test]
    fn escapes_are_compared_as_the_rfc_has_it() {
        let rows = [
            ("/foo/bar?baz=quz", "/foo/bar?baz=quz", true),
            ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", false),
            ("/foo/bar/\u{30c4}", "/foo/bar/%E3%83%84", true),
            ("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84", true),
            ("/foo/bar/%62%61%7A", "/foo/bar/baz", true),
            ("/path/file-with-a-%2A.html", "/path/file-with-a-%2a.html", true),
            ("/path/foo-%24", "/path/foo-%24", true),
        ];
        for (rule, path, is_forbidden) in rows {
            let rules = robots(&format!("User-agent: *\nDisallow: {rule}"));
            assert_eq!(!rules.allows(path), is_forbidden, "{rule} {path}");
        }
    }

    #[test]
    fn wildcards_and_ends_fit_where_they_should() {
        let rows = [
            ("/a*b", "/axxb", true),
            ("/a*b", "/ab/c", true),
            ("/a*b", "/a", false),
            ("/a*b$", "/axbxb", true),
            ("/a*b$", "/axbx", false),
            ("/a$", "/a", true),
            ("/a$", "/ab", false),
            ("/*", "/x", true),
            ("*", "/x", true),
            ("/**x", "/yx", true),
            ("/a*$", "/ab", true),
            ("/*/c", "/a/b/c", true),
            ("$", "/", false),
        ];
        for (pattern, path, is_fitting) in rows {
            assert_eq!(fits(pattern.as_bytes(), path.as_bytes()), is_fitting, "{pattern} {path}");
        }
    }

    #[test]
    fn groups_of_one_name_are_joined_and_other_lines_do_not_end_them() {
        let rules = robots(
            "\u{feff}user-agent: examplebot/2.1\r\nSitemap: http://a/s.xml\r\nDisallow: /a # why\r\nUser-agent: other\rDisallow: /b\r\
             User-agent: ExampleBot\nnonsense\nDisallow: /c\nUser-agent: *\nDisallow: /\n",
        );
        assert!(!rules.allows("/a") && rules.allows("/b") && !rules.allows("/c") && rules.allows("/d"));
        assert_eq!(rules.sitemaps, ["http://a/s.xml"]);
    }

    #[test]
    fn nothing_or_an_empty_rule_forbids_nothing_and_robots_txt_is_always_allowed() {
        assert!(robots("").allows("/x"));
        assert!(robots("User-agent: *\nDisallow:\n").allows("/x"));
        assert!(robots("Disallow: /\n").allows("/x"), "a rule before any group speaks to nobody");
        let none = robots("User-agent: *\nDisallow: /\n");
        assert!(!none.allows("/x") && none.allows("/robots.txt"));
    }

    #[test]
    fn agents_that_share_a_group_and_groups_that_share_an_agent_are_told_apart() {
        let text = "User-agent: first\nUser-agent: EXAMPLEBOT/1.0\nSitemap: /s\nUser-agent: third\nDisallow: /a\n\n\
                    User-agent: * # all\nDisallow: /b\nUser-agent: * everybody\nDisallow: /c\n\
                    User-agent: example\nUser-agent: examplebot-images\nUser-agent:\nDisallow: /d\n";
        let ours = robots(text);
        assert!(!ours.allows("/a") && ours.allows("/b") && ours.allows("/c") && ours.allows("/d"));
        let other = Robots::parse(text.as_bytes(), "somebody");
        assert!(other.allows("/a") && !other.allows("/b") && !other.allows("/c") && other.allows("/d"));
    }

    #[test]
    fn half_a_rule_at_the_limit_is_no_rule() {
        let begin = "User-agent: *\nDisallow: /a\n";
        for cut in 0..12 {
            let filler = "#".repeat(MAX_BYTES - begin.len() - 1 - cut);
            let text = format!("{begin}{filler}\nDisallow: /bbbb\nDisallow: /c\n");
            let rules = robots(&text);
            assert!(!rules.allows("/a") && rules.allows("/bb") && rules.allows("/bbbb") && rules.allows("/c"), "{cut}");
            assert!(rules.is_cut, "{cut}");
        }
        let exact = format!("{begin}{}\nDisallow: /c", "#".repeat(MAX_BYTES - begin.len() - 13));
        assert!(exact.len() == MAX_BYTES && !robots(&exact).allows("/c") && !robots(&exact).is_cut);
    }

    #[test]
    fn sitemaps_over_the_limit_are_counted() {
        let rules = robots(&"Sitemap: /s\n".repeat(SITEMAPS_MAX + 7));
        assert_eq!((rules.sitemaps.len(), rules.more_sitemaps), (SITEMAPS_MAX, 7));
    }

    #[test]
    fn the_delay_and_the_token_are_read() {
        let rules = robots("User-agent: *\nCrawl-delay: 2.5\nCrawl-delay: x\n");
        assert_eq!(rules.crawl_delay, Some(Duration::from_millis(2500)));
        assert_eq!(token("fm-crawl/0.1 (+mailto:x@y)"), "fm-crawl");
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_long_time() {
        let pattern = "/".to_owned() + &"a*".repeat(2000) + "b";
        let path = "/".to_owned() + &"a".repeat(5000);
        assert!(!fits(pattern.as_bytes(), path.as_bytes()));
    }
}
