//! Proves by bytes alone that no crawl rule would change a URL.
//!
//! Most links of a crawl pass, and running all rules would cost more than all else done with a
//! URL. Like [`super::fast`] it leaves other URLs undecided, and a property test compares it with
//! the rules.
//!
//! It starts from what [`super::fast`] proves: no user, port or fragment, no final dot of the
//! host, no character outside RFC 3986. What is left for the rules of the preset `crawl`: escapes
//! must be whole, upper-case, and needed; the path has no `//`, no `;` and no segment that begins
//! with `(`; parameters are sorted, none is empty or has an empty value, and none may be one of a
//! session or of tracking.

use super::names;
use super::parts::marked;
use super::rule::{Rule, RuleSet};

/// Rules that the proof covers.
const KNOWN: RuleSet = RuleSet::CRAWL
    .with(Rule::SessionIds1)
    .with(Rule::EmptyParameters1)
    .with(Rule::Www)
    .with(Rule::Scheme)
    .with(Rule::Query)
    .with(Rule::TrailingSlash);

/// Returns whether none of these rules would change `url`, which is canonical by
/// [`super::fast::canonical_part`].
#[inline]
pub(super) fn is_settled(url: &[u8], rules: RuleSet) -> bool {
    let start = host_start(url);
    let path = start + url[start..].iter().position(|byte| *byte == b'/').unwrap_or(0);
    let is_turned = url[start] == b'(';
    let rules = if is_turned { rules.without(Rule::Surt) } else { rules };
    if rules.bits() & !KNOWN.bits() != 0
        || rules.has(Rule::Www) && url[start..].starts_with(b"www")
        || rules.has(Rule::Scheme) && start == HTTPS.len()
    {
        return false;
    }
    let Some((query, mut marks)) = path_end(&url[path..]) else { return false };
    let end = path + query;
    if rules.has(Rule::TrailingSlash) && query > 1 && url[end - 1] == b'/' {
        return false;
    }
    if end < url.len() {
        match parameters_marks(&url[end + 1..]) {
            Some(more) if !rules.has(Rule::Query) => marks |= more,
            _ => return false,
        }
    }
    marks & PERCENT == 0 || escapes_are_needed(&url[path..])
}

/// Applies rule `surt` to a URL that is settled without it: reverses the host and nothing else.
pub(super) fn turned(url: &[u8]) -> Vec<u8> {
    let start = host_start(url);
    let path = start + url[start..].iter().position(|byte| *byte == b'/').unwrap_or(0);
    let mut new = Vec::with_capacity(url.len() + 3);
    new.extend_from_slice(&url[..start]);
    new.push(b'(');
    for label in url[start..path].rsplit(|byte| *byte == b'.') {
        new.extend_from_slice(label);
        new.push(b',');
    }
    new.push(b')');
    new.extend_from_slice(&url[path..]);
    new
}

const HTTPS: &[u8] = b"https://";

fn host_start(url: &[u8]) -> usize {
    if url.starts_with(HTTPS) { HTTPS.len() } else { HTTPS.len() - 1 }
}

/// A `%`; the end of a path; what a rule may change after a `/`; what it may change anywhere in a
/// path.
const PERCENT: u8 = 1;
const ENDS: u8 = 2;
const AFTER_SLASH: u8 = 4;
const NEVER: u8 = 8;
/// The end of a parameter; that of its name.
const AND: u8 = 16;
const EQUALS: u8 = 32;

const MARKS: [u8; 256] = {
    let marks = marked(marked([0; 256], b"%", PERCENT), b"?", ENDS);
    let marks = marked(marked(marks, b"/(", AFTER_SLASH), b";", NEVER);
    marked(marked(marks, b"&", AND), b"=", EQUALS)
};

/// Length and marks of the path at the start of `rest`; `None` if a rule may change it.
#[inline]
fn path_end(rest: &[u8]) -> Option<(usize, u8)> {
    let (mut all, mut after_slash) = (0, 0);
    for (i, &byte) in rest.iter().enumerate() {
        let marks = MARKS[byte as usize];
        if marks & (ENDS | NEVER | after_slash) != 0 {
            return (marks & ENDS != 0).then_some((i, all));
        }
        all |= marks;
        after_slash = if byte == b'/' { AFTER_SLASH } else { 0 };
    }
    Some((rest.len(), all))
}

/// Marks of a query; `None` if a rule may change it.
#[inline]
fn parameters_marks(query: &[u8]) -> Option<u8> {
    let (mut all, mut start, mut before): (u8, usize, &[u8]) = (0, 0, &[]);
    loop {
        let (mut end, mut name_end) = (query.len(), None);
        for (i, &byte) in query.iter().enumerate().skip(start) {
            let marks = MARKS[byte as usize];
            if marks & (AND | EQUALS) != 0 {
                if marks & AND != 0 {
                    end = i;
                    break;
                }
                name_end.get_or_insert(i);
            }
            all |= marks;
        }
        let name = &query[start..name_end.unwrap_or(end)];
        let is_fine = !name.is_empty() && name_end.is_none_or(|at| at + 1 < end) && before <= name;
        if !is_fine || names::may_be_dropped(name) {
            return None;
        }
        if end == query.len() {
            return Some(all);
        }
        (before, start) = (name, end + 1);
    }
}

/// Returns whether each `%` begins an escape that no rule would rewrite.
fn escapes_are_needed(text: &[u8]) -> bool {
    let is_needed = |at: usize| {
        let Some([high, low]) = text[at + 1..].first_chunk::<2>() else { return false };
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return false };
        let byte = high << 4 | low;
        !byte.is_ascii_alphanumeric() && !b"-._~".contains(&byte)
    };
    text.iter().enumerate().filter(|(_, byte)| **byte == b'%').all(|(at, _)| is_needed(at))
}

/// Value of an upper-case hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::CrawlRules;
    use super::*;

    /// Pieces that rules act on, and lookalikes.
    const PIECES: [&str; 61] = [
        "/",
        "//",
        "/(",
        "(",
        ")",
        "/(S(4hqa0555fwsecu455xqckv45))",
        "/(4hqa0555fwsecu455xqckv45)/",
        "/(X(1)S(4hqa0555fwsecu455xqckv45))/",
        "?session_id=0123456789abcdef0123456789abcdef",
        ";",
        ";jsessionid=1",
        "?",
        "??",
        "&",
        "&&",
        "=",
        "==",
        "&a=1",
        "&b=2",
        "?a=1",
        "?b=2&a=1",
        "?a",
        "&z",
        "&=1",
        "&a=",
        "?sid=0123456789abcdef0123456789abcdef",
        "&s=1",
        "&S=x",
        "&utm_x=1",
        "&UTM_SOURCE=y",
        "&utm",
        "&phpsessid=2",
        "&ASPSESSIONIDQ=3",
        "&aspsession=3",
        "&fbclid=1",
        "&_ga=2",
        "&zenid=1",
        "&igsh=1",
        "%",
        "%4",
        "%41",
        "%7e",
        "%2f",
        "%2F",
        "%C3%A9",
        "%c3",
        "%zz",
        "%2e",
        "%25",
        ".",
        "..",
        "/./",
        "/../",
        "#x",
        "#",
        "www.",
        "https://",
        "\u{e9}",
        "[",
        "|",
        "/a/a/a/",
    ];

    const FLAVOURS: [RuleSet; 10] = [
        RuleSet::CRAWL,
        RuleSet::SURT,
        RuleSet::WHATWG,
        RuleSet::CRAWL.with(Rule::Www),
        RuleSet::SURT.with(Rule::Scheme),
        RuleSet::CRAWL.with(Rule::Query),
        RuleSet::CRAWL.with(Rule::TrailingSlash),
        RuleSet::CRAWL.with(Rule::LowerCase),
        RuleSet::CRAWL.without(Rule::Fragment),
        RuleSet::CRAWL_1,
    ];

    /// Returns whether the bytes prove the key; asserts that it is the key by the rules.
    #[track_caller]
    fn holds(rules: &CrawlRules, url: &[u8]) -> bool {
        let Some(key) = rules.proved(url) else { return false };
        let url = String::from_utf8_lossy(url);
        assert_eq!(rules.explain(url.as_bytes()).key.as_deref(), Ok(&*key), "{url} by {rules:?}");
        true
    }

    fn real_urls() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/urls/wiki-urls-10000.txt");
        std::fs::read_to_string(path).expect("the URLs are in the repository")
    }

    #[test]
    fn what_is_proved_of_real_urls_is_what_the_rules_give() {
        let urls = real_urls();
        let rules = FLAVOURS.map(CrawlRules::new);
        let proved = |rules: &CrawlRules| urls.lines().filter(|url| holds(rules, url.as_bytes())).count();
        let counts: Vec<usize> = rules.iter().map(proved).collect();
        assert!(counts[0] > 8_000 && counts[1] == counts[0], "{counts:?} of 10,000");
        assert_eq!(counts[8], 0, "without that rule nothing is proved");
    }

    #[test]
    fn what_is_proved_of_real_urls_with_pieces_put_in_is_what_the_rules_give() {
        let urls = real_urls();
        let urls: Vec<&str> = urls.lines().collect();
        let rules = FLAVOURS.map(CrawlRules::new);
        let mut rng = fastrand::Rng::with_seed(5);
        let mut proved = 0;
        for _ in 0..60_000 {
            let mut url = urls[rng.usize(..urls.len())].to_owned();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..=url.len());
                if url.is_char_boundary(at) {
                    url.insert_str(at, PIECES[rng.usize(..PIECES.len())]);
                }
            }
            proved += usize::from(holds(&rules[rng.usize(..rules.len())], url.as_bytes()));
        }
        assert!(proved > 5_000, "{proved}");
    }

    #[test]
    fn what_is_proved_of_urls_made_of_pieces_alone_is_what_the_rules_give() {
        let mut rng = fastrand::Rng::with_seed(6);
        let hosts = ["a.b", "www.a.b", "(b,a,)", "(b,a,www,)", "www", "a"];
        let mut proved = 0;
        for _ in 0..60_000 {
            let scheme = if rng.bool() { "http" } else { "https" };
            let mut url = format!("{scheme}://{}/", hosts[rng.usize(..hosts.len())]);
            (0..rng.usize(0..8)).for_each(|_| url.push_str(PIECES[rng.usize(..PIECES.len())]));
            let rules = match rng.bool() {
                true => FLAVOURS[rng.usize(..FLAVOURS.len())],
                false => RuleSet::from_bits(rng.u32(..1 << Rule::ALL.len())).expect("known rules"),
            };
            proved += usize::from(holds(&CrawlRules::new(rules), url.as_bytes()));
        }
        assert!(proved > 3_000, "{proved}");
    }

    #[test]
    fn plain_urls_are_proved_and_what_a_rule_changes_is_not() {
        let rules = CrawlRules::crawl();
        for url in [
            "http://a.b/",
            "https://www.a.b/x/y.html?a=1&b=%C3%A9&b=2&c",
            "http://a.b/x_(y)/%2F?q=a=b",
            "http://(b,a,)/x",
            "http://a.b/?utm=1&v=2#top",
        ] {
            assert!(holds(&rules, url.as_bytes()), "{url}");
        }
        for url in [
            "http://a.b//",
            "http://a.b/?b&a",
            "http://a.b/?a=",
            "http://a.b/%41",
            "http://a.b/?sid=1",
            "http://a.b/;x",
        ] {
            assert!(!holds(&rules, url.as_bytes()), "{url}");
        }
    }
}
