//! The crawl rules by name, and sets of them.
//!
//! A rule's bit is a promise: stores record a set of rules as a number. Changed behaviour gets a
//! new bit.

use std::fmt;

filemap_io::named_enum! {
    /// A named rule that removes one difference between URLs of a page, for `http` and `https`
    /// URLs. Declared in order of application.
    ///
    /// ```
    /// use urlindex::canonical::Rule;
    ///
    /// assert_eq!(Rule::named("www"), Some(Rule::Www));
    /// assert_eq!(Rule::Www.name(), "www");
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    #[repr(u8)]
    pub enum Rule {
        /// Drops `:80` of `http` and `:443` of `https`.
        DefaultPort = 0 => "default-port",
        /// Drops `#...`, which never reaches a server.
        Fragment = 1 => "fragment",
        /// Drops `user:password@`.
        UserInfo = 2 => "user-info",
        /// Drops the final dot of a host: `example.com.`.
        HostDot = 3 => "host-dot",
        /// Drops `www.`, `www2.` and so on, if two labels or more are left.
        Www = 4 => "www",
        /// Turns `https` into `http`.
        Scheme = 5 => "scheme",
        /// Encodes a `%` that begins no escape as `%25`, and characters that RFC 3986 allows in no
        /// URL (`[]{}|\\^` and the backquote).
        PercentInvalid = 19 => "percent-invalid",
        /// Upper-case escapes: `%2f` becomes `%2F`.
        PercentCase = 6 => "percent-case",
        /// Decodes escaped letters, digits, `-`, `.`, `_` and `~`.
        PercentUnreserved = 7 => "percent-unreserved",
        /// Turns `//` in a path into `/`.
        EmptySegments = 8 => "empty-segments",
        /// Collapses one to four path segments repeated three times or more: `/a/b/a/b/a/b/` (a
        /// trap of wrong relative links; a few real pages have such paths).
        RepeatedSegments = 9 => "repeated-segments",
        /// [`Rule::SessionIds`] of `crawl` version 1: `session_id` with any value, and of
        /// ASP.NET's forms only `(S(...))`.
        SessionIds1 = 10 => "session-ids-1",
        /// Drops session ids: `;jsessionid=...` and ASP.NET's `(S(...))`, `(X(1)S(...))` and `(24
        /// letters)` in paths; parameters such as `PHPSESSID`, and `sid` or `session_id` with an
        /// id of 32 hexadecimal digits or more.
        SessionIds = 20 => "session-ids",
        /// Drops tracking parameters: `utm_...`, `gclid`, `fbclid` and others.
        Tracking = 11 => "tracking",
        /// [`Rule::EmptyParameters`] of `crawl` version 1: drops parameters without a name
        /// (`?=42`) too.
        EmptyParameters1 = 12 => "empty-parameters-1",
        /// Drops empty parameters, and a `=` or `?` with nothing after it. A value without a name
        /// (`?=42`) stays.
        EmptyParameters = 21 => "empty-parameters",
        /// Sorts parameters by name, stably.
        SortedParameters = 13 => "sorted-parameters",
        /// Drops the whole query.
        Query = 14 => "query",
        /// Drops file names of directory indexes: `index.html`, `default.asp` and others.
        IndexFile = 15 => "index-file",
        /// Drops the final slash of a path other than `/`.
        TrailingSlash = 16 => "trailing-slash",
        /// Lower-cases path and query.
        LowerCase = 17 => "lower-case",
        /// Reverses the host: `http://(com,example,www,)/`, so that keys sort by domain.
        Surt = 18 => "surt",
    }
}

impl Rule {
    /// The rule with this name.
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
    /// The URL standard, without the fragment: the same keys as `Whatwg`.
    pub const WHATWG: RuleSet = RuleSet::of(&[Rule::DefaultPort, Rule::Fragment]);

    /// Rules that lose no pages: all but those that may merge two pages (`www`, `scheme`, index
    /// files, trailing slashes, repeated segments, whole queries, lower case).
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

    /// `CRAWL` with the host reversed.
    pub const SURT: RuleSet = RuleSet::CRAWL.with(Rule::Surt);

    /// `crawl` version 1, for older sets.
    pub const CRAWL_1: RuleSet = RuleSet::CRAWL
        .without(Rule::SessionIds)
        .without(Rule::EmptyParameters)
        .with(Rule::SessionIds1)
        .with(Rule::EmptyParameters1);

    /// `surt` version 1, for older sets.
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

    /// The set of these bits, from [`RuleSet::bits`]; `None` if a bit belongs to no rule.
    pub fn from_bits(bits: u32) -> Option<RuleSet> {
        (bits >> Rule::ALL.len() == 0).then_some(RuleSet(bits))
    }

    /// A bit for each rule.
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

    /// Returns whether a rule is on.
    pub const fn has(self, rule: Rule) -> bool {
        self.0 >> rule as u8 & 1 == 1
    }

    /// The rules that are on, in order of application.
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
