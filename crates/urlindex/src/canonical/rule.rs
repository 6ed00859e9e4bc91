//! The crawl rules by name, and sets of them.
//!
//! A rule's bit is a promise: stores remember a set of rules by the number that its bits make. A
//! rule that is to do anything else gets a new bit.

use std::fmt;

/// One named way in which URLs of one page differ. Rules apply to `http` and `https` URLs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Rule {
    /// Drops `:80` of `http` and `:443` of `https`.
    DefaultPort = 0,
    /// Drops `#...`: it never reaches a server.
    Fragment = 1,
    /// Drops `user:password@`.
    UserInfo = 2,
    /// Drops the dot at the end of a host: `example.com.`.
    HostDot = 3,
    /// Drops `www.`, `www2.` and so on, where two labels or more are left.
    Www = 4,
    /// Makes `https` to `http`.
    Scheme = 5,
    /// Writes escapes in upper case: `%2f` as `%2F`.
    PercentCase = 6,
    /// Writes escaped letters, digits, `-`, `.`, `_` and `~` as they are.
    PercentUnreserved = 7,
    /// Makes `//` in a path to `/`.
    EmptySegments = 8,
    /// Makes one of a run of one to four path segments that stands there three times or more in
    /// turn: `/a/b/a/b/a/b/` (a trap of wrong relative links; a few real pages have such paths).
    RepeatedSegments = 9,
    /// As [`Rule::SessionIds`] was in `crawl` version 1: `session_id` with any value, and of
    /// ASP.NET's forms `(S(...))` alone.
    SessionIds1 = 10,
    /// Drops parameters that say where a visitor came from: `utm_...`, `gclid`, `fbclid` and
    /// others.
    Tracking = 11,
    /// As [`Rule::EmptyParameters`] was in `crawl` version 1: parameters without a name (`?=42`)
    /// go too.
    EmptyParameters1 = 12,
    /// Sorts parameters by name; those of one name stay in order.
    SortedParameters = 13,
    /// Drops the whole query.
    Query = 14,
    /// Drops the file name that servers give for a directory: `index.html`, `default.asp` and
    /// others.
    IndexFile = 15,
    /// Drops the slash at the end of a path that is not `/`.
    TrailingSlash = 16,
    /// Writes path and query in lower case.
    LowerCase = 17,
    /// Turns the host around: `http://(com,example,www,)/`, so that keys in order are pages by
    /// domain.
    Surt = 18,
    /// Writes a `%` that begins no escape as `%25`, and characters that RFC 3986 knows in no URL
    /// (`[]{}|\\^` and the backquote) as escapes.
    PercentInvalid = 19,
    /// Drops session ids: `;jsessionid=...` and ASP.NET's `(S(...))`, `(X(1)S(...))` and `(24
    /// letters)` in paths; parameters such as `PHPSESSID`, and `sid` or `session_id` where the
    /// value is an id of 32 hexadecimal digits or more.
    SessionIds = 20,
    /// Drops parameters that hold nothing, and the `=` and `?` after which nothing comes. A value
    /// without a name (`?=42`) stays.
    EmptyParameters = 21,
}

impl Rule {
    /// All rules, in the order in which they are applied.
    pub const ALL: [Rule; 22] = [
        Rule::DefaultPort,
        Rule::Fragment,
        Rule::UserInfo,
        Rule::HostDot,
        Rule::Www,
        Rule::Scheme,
        Rule::PercentInvalid,
        Rule::PercentCase,
        Rule::PercentUnreserved,
        Rule::EmptySegments,
        Rule::RepeatedSegments,
        Rule::SessionIds1,
        Rule::SessionIds,
        Rule::Tracking,
        Rule::EmptyParameters1,
        Rule::EmptyParameters,
        Rule::SortedParameters,
        Rule::Query,
        Rule::IndexFile,
        Rule::TrailingSlash,
        Rule::LowerCase,
        Rule::Surt,
    ];

    /// The name by which people switch it on and off.
    pub fn name(self) -> &'static str {
        match self {
            Rule::DefaultPort => "default-port",
            Rule::Fragment => "fragment",
            Rule::UserInfo => "user-info",
            Rule::HostDot => "host-dot",
            Rule::Www => "www",
            Rule::Scheme => "scheme",
            Rule::PercentCase => "percent-case",
            Rule::PercentUnreserved => "percent-unreserved",
            Rule::EmptySegments => "empty-segments",
            Rule::RepeatedSegments => "repeated-segments",
            Rule::SessionIds1 => "session-ids-1",
            Rule::SessionIds => "session-ids",
            Rule::Tracking => "tracking",
            Rule::EmptyParameters1 => "empty-parameters-1",
            Rule::EmptyParameters => "empty-parameters",
            Rule::SortedParameters => "sorted-parameters",
            Rule::Query => "query",
            Rule::IndexFile => "index-file",
            Rule::TrailingSlash => "trailing-slash",
            Rule::LowerCase => "lower-case",
            Rule::Surt => "surt",
            Rule::PercentInvalid => "percent-invalid",
        }
    }

    /// The rule of this name.
    pub fn named(name: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// A set of rules.
///
/// ```
/// use urlindex::canonical::{Rule, RuleSet};
///
/// let rules = RuleSet::CRAWL.without(Rule::Www).with(Rule::TrailingSlash);
/// assert!(rules.has(Rule::Fragment) && !rules.has(Rule::Www));
/// assert_eq!(RuleSet::from_bits(rules.bits()), Some(rules));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleSet(u32);

impl RuleSet {
    /// What the URL standard does by itself, and no fragment: `Whatwg`'s answers.
    pub const WHATWG: RuleSet = RuleSet::of(&[Rule::DefaultPort, Rule::Fragment]);

    /// What crawlers drop without losing pages: all but those that may make one key of two pages
    /// (`www`, `scheme`, index files, trailing slashes, repeated segments, whole queries, lower
    /// case).
    pub const CRAWL: RuleSet = RuleSet::of(&[
        Rule::DefaultPort,
        Rule::Fragment,
        Rule::UserInfo,
        Rule::HostDot,
        Rule::PercentInvalid,
        Rule::PercentCase,
        Rule::PercentUnreserved,
        Rule::EmptySegments,
        Rule::SessionIds,
        Rule::Tracking,
        Rule::EmptyParameters,
        Rule::SortedParameters,
    ]);

    /// As `CRAWL`, with the host turned around.
    pub const SURT: RuleSet = RuleSet::CRAWL.with(Rule::Surt);

    /// `crawl` version 1, for sets that were made with it.
    pub const CRAWL_1: RuleSet = RuleSet::CRAWL
        .without(Rule::SessionIds)
        .without(Rule::EmptyParameters)
        .with(Rule::SessionIds1)
        .with(Rule::EmptyParameters1);

    /// `surt` version 1, for sets that were made with it.
    pub const SURT_1: RuleSet = RuleSet::CRAWL_1.with(Rule::Surt);

    const fn of(rules: &[Rule]) -> RuleSet {
        let mut set = RuleSet(0);
        let mut i = 0;
        while i < rules.len() {
            set = set.with(rules[i]);
            i += 1;
        }
        set
    }

    /// The set of these bits, as [`RuleSet::bits`] gave them; `None` if there are bits that no
    /// rule has.
    pub fn from_bits(bits: u32) -> Option<RuleSet> {
        (bits >> Rule::ALL.len() == 0).then_some(RuleSet(bits))
    }

    /// One bit for each rule.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Switches a rule on.
    #[must_use]
    pub const fn with(self, rule: Rule) -> RuleSet {
        RuleSet(self.0 | 1 << rule as u8)
    }

    /// Switches a rule off.
    #[must_use]
    pub const fn without(self, rule: Rule) -> RuleSet {
        RuleSet(self.0 & !(1 << rule as u8))
    }

    /// Whether a rule is on.
    pub const fn has(self, rule: Rule) -> bool {
        self.0 >> rule as u8 & 1 == 1
    }

    /// The rules that are on, in the order in which they are applied.
    pub fn iter(self) -> impl Iterator<Item = Rule> {
        Rule::ALL.into_iter().filter(move |rule| self.has(*rule))
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Rule::name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_own_name_and_bit() {
        let mut all = 0;
        for rule in Rule::ALL {
            assert_eq!(Rule::named(rule.name()), Some(rule));
            all |= RuleSet::of(&[rule]).bits();
        }
        assert_eq!(all, (1 << 22) - 1);
        assert_eq!(RuleSet::from_bits(1 << 22), None);
    }

    #[test]
    fn the_presets_keep_their_bits_for_ever() {
        assert_eq!(RuleSet::WHATWG.bits(), 0b11);
        assert_eq!(RuleSet::CRAWL_1.bits(), 1 << 19 | 0b11_1101_1100_1111);
        assert_eq!(RuleSet::CRAWL.bits(), 0b111 << 19 | 0b10_1001_1100_1111);
        assert_eq!(RuleSet::SURT_1.bits(), RuleSet::CRAWL_1.bits() | 1 << 18);
        assert_eq!(RuleSet::SURT.bits(), RuleSet::CRAWL.bits() | 1 << 18);
    }
}
