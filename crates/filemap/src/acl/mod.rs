//! Access rules: which captures a store shows, by the rules of pywb.
//!
//! [`AccessRules`] holds `.aclj` files, a default and an embargo, and decides for a URL and a
//! time: allow, block (listed, but the body is refused) or exclude (as if it were not stored). A
//! rule of exactly the URL's SURT key decides; otherwise the longest prefix of the key. Pure: no
//! file is read here, and the time of the decision is an argument.
//!
//! Layers: `when` (conditions on a capture's time), `never` (keys that no URL has), `parse`
//! (files), this file.

mod never;
mod parse;
mod when;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::dump::surt::surt as index_key;
use crate::page::variant::Variant;
use when::When;

/// The key of a rule for every URL.
const EVERY_URL: &[u8] = b"*,";

/// Decision for a capture.
///
/// ```
/// use filemap::acl::Access;
/// assert!(Access::Allow < Access::Block && Access::Block < Access::Exclude, "the stricter is greater");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The capture is shown.
    Allow,
    /// The capture is listed; its body and headers are refused.
    Block,
    /// The capture is hidden, as if it were not stored.
    Exclude,
}

/// The decision of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Is(Access),
    AllowIgnoreEmbargo,
}

impl Word {
    const NAMES: [(&'static str, Word); 4] = [
        ("allow", Word::Is(Access::Allow)),
        ("block", Word::Is(Access::Block)),
        ("exclude", Word::Is(Access::Exclude)),
        ("allow_ignore_embargo", Word::AllowIgnoreEmbargo),
    ];

    fn access(self) -> Access {
        match self {
            Word::Is(access) => access,
            Word::AllowIgnoreEmbargo => Access::Allow,
        }
    }

    /// Returns whether an embargo cannot change the decision.
    fn is_final(self) -> bool {
        matches!(self, Word::AllowIgnoreEmbargo | Word::Is(Access::Exclude))
    }
}

/// A line of an `.aclj` file.
///
/// ```
/// use filemap::acl::{AccessRules, Cause};
///
/// let mut rules = AccessRules::new();
/// rules.add("rules.aclj", br#"com,example)/private - {"access": "block"}"#)?;
/// let ruling = rules.of_url(b"http://example.com/private", None).at(0, 0);
/// assert!(matches!(ruling.cause, Cause::Rule(_)) && ruling.place() == "rules.aclj:1");
/// # Ok::<(), filemap::acl::AccessError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    word: Word,
    when: Option<When>,
    reason: Option<String>,
    file: Arc<str>,
    line: u64,
    /// The line after its key: of several files' rules for one key pywb takes the greatest line.
    rest: Box<[u8]>,
}

/// An embargo: captures of a time range are withheld, whatever their URL.
///
/// ```
/// use filemap::acl::AccessRules;
///
/// let (mut rules, now_ms) = (AccessRules::new(), 1_800_000_000_000);
/// rules.configure("a.json", br#"{"embargo": {"newer": {"years": 1}, "access": "exclude"}}"#)?;
/// let of_url = rules.of_url(b"http://example.com/", None);
/// assert!(of_url.at(now_ms, now_ms).is_embargo() && !of_url.at(0, now_ms).is_embargo());
/// # Ok::<(), filemap::acl::AccessError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embargo {
    access: Access,
    when: When,
    reason: Option<String>,
    file: Arc<str>,
}

/// An error in the rules: file, line and reason.
///
/// ```
/// let mut rules = filemap::acl::AccessRules::new();
/// let error = rules.add("rules.aclj", b"com,example)/ - {\"access\": \"deny\"}\n").unwrap_err();
/// assert!(error.to_string().starts_with("rules.aclj:1: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessError {
    file: String,
    line: Option<u64>,
    what: String,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for AccessError {}

/// A decision, with its cause.
///
/// ```
/// use filemap::acl::{Access, AccessRules};
///
/// let mut rules = AccessRules::new();
/// rules.add("rules.aclj", br#"com,example)/ - {"access": "block", "reason": "asked for"}"#)?;
/// let ruling = rules.of_url(b"http://example.com/", None).at(0, 0);
/// assert_eq!((ruling.access, ruling.reason()), (Access::Block, Some("asked for")));
/// # Ok::<(), filemap::acl::AccessError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ruling<'r> {
    /// The decision for the capture.
    pub access: Access,
    /// The cause of the decision.
    pub cause: Cause<'r>,
}

/// Cause of a decision.
///
/// ```
/// use filemap::acl::{AccessRules, Cause};
///
/// let rules = AccessRules::new();
/// let ruling = rules.of_url(b"http://example.com/", None).at(0, 0);
/// assert!(matches!(ruling.cause, Cause::Default));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Cause<'r> {
    /// The default: no rule applies.
    Default,
    /// A rule.
    Rule(&'r Rule),
    /// The embargo.
    Embargo(&'r Embargo),
}

impl Ruling<'_> {
    /// The reason given in the file, under `reason`.
    pub fn reason(&self) -> Option<&str> {
        match self.cause {
            Cause::Default => None,
            Cause::Rule(rule) => rule.reason.as_deref(),
            Cause::Embargo(embargo) => embargo.reason.as_deref(),
        }
    }

    /// The cause of the decision, for a log: file and line of a rule.
    pub fn place(&self) -> String {
        match self.cause {
            Cause::Default => "the default".to_owned(),
            Cause::Rule(rule) => format!("{}:{}", rule.file, rule.line),
            Cause::Embargo(embargo) => format!("the embargo of {}", embargo.file),
        }
    }

    /// Returns whether the embargo decided.
    pub fn is_embargo(&self) -> bool {
        matches!(self.cause, Cause::Embargo(_))
    }
}

/// Access rules, a default, and an embargo. Without any of them, everything is allowed.
///
/// ```
/// use filemap::acl::{Access, AccessRules};
///
/// let mut rules = AccessRules::new();
/// rules.add("rules.aclj", br#"
/// com,example)/private/press - {"access": "allow"}
/// com,example)/private - {"access": "block", "reason": "at the owner's request"}
/// "#)?;
/// let of = |url: &str| rules.of_url(url.as_bytes(), None).at(1_700_000_000_000, 1_800_000_000_000).access;
/// assert_eq!(of("http://www.example.com/private/letters"), Access::Block);
/// assert_eq!(of("http://example.com/private/press/1"), Access::Allow);
/// assert_eq!(of("http://example.com/"), Access::Allow);
/// # Ok::<(), filemap::acl::AccessError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AccessRules {
    /// By the prefix of a SURT key.
    prefixes: BTreeMap<Box<[u8]>, Rule>,
    /// By a whole SURT key.
    exact: BTreeMap<Box<[u8]>, Rule>,
    every: Option<Rule>,
    default: Word,
    embargo: Option<Embargo>,
    of_users: u64,
    out_of_order: Vec<String>,
    warnings: Vec<String>,
}

impl Default for AccessRules {
    fn default() -> AccessRules {
        AccessRules {
            prefixes: BTreeMap::new(),
            exact: BTreeMap::new(),
            every: None,
            default: Word::Is(Access::Allow),
            embargo: None,
            of_users: 0,
            out_of_order: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl AccessRules {
    /// No rule: everything is allowed.
    pub fn new() -> AccessRules {
        AccessRules::default()
    }

    /// Number of rules that can apply.
    pub fn len(&self) -> usize {
        self.prefixes.len() + self.exact.len() + usize::from(self.every.is_some())
    }

    /// Returns whether there is no rule; there may still be a default and an embargo.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rules with a `user`, which apply to nobody here.
    pub fn of_users(&self) -> u64 {
        self.of_users
    }

    /// The first line of each file that violates pywb's order, as `FILE:LINE`. Order does not
    /// matter here, but pywb may miss such rules.
    pub fn out_of_order(&self) -> &[String] {
        &self.out_of_order
    }

    /// Rules that may not do what their author expects, each with file and line: two rules with
    /// one key (one applies); several conditions (the first applies); a path with
    /// a slash at its end.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The rule for a URL. For a variant, both the rule for the variant's key in indexes and the
    /// rule for its URL apply: the stricter decision counts. Costs the SURT keys and some steps in
    /// an ordered map.
    pub fn of_url(&self, url: &[u8], variant: Option<&Variant>) -> OfUrl<'_> {
        self.of_keys(&RuleKeys::new(url, variant))
    }

    /// As [`AccessRules::of_url`], for keys already made.
    pub fn of_keys(&self, keys: &RuleKeys) -> OfUrl<'_> {
        let rule = |key: &[u8]| self.exact.get(key).or_else(|| self.longest(key)).or(self.every.as_ref());
        OfUrl { rules: self, rule: rule(&keys.own), beside: keys.beside.as_deref().map(rule) }
    }

    /// The rule with the longest prefix of a key. The greatest rule not after the key is either a
    /// prefix of it, or no prefix is longer than what the two share.
    fn longest(&self, key: &[u8]) -> Option<&Rule> {
        let mut rest = key;
        loop {
            let (found, rule) =
                self.prefixes.range::<[u8], _>((Bound::Unbounded, Bound::Included(rest))).next_back()?;
            if rest.starts_with(found) {
                return Some(rule);
            }
            let shared = rest.iter().zip(found.iter()).take_while(|(own, other)| own == other).count();
            rest = &rest[..shared];
        }
    }

    /// Returns whether a capture whose SURT key begins with `prefix` may be excluded. If not,
    /// counts made without the rules are right. Costs the rules of such keys.
    pub fn may_exclude_within(&self, prefix: &[u8]) -> bool {
        let excludes = |rule: &Rule| rule.word == Word::Is(Access::Exclude);
        let is_within = |rules: &BTreeMap<Box<[u8]>, Rule>| {
            let from = rules.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
            from.take_while(|(key, _)| key.starts_with(prefix)).any(|(_, rule)| excludes(rule))
        };
        self.default == Word::Is(Access::Exclude)
            || self.embargo.as_ref().is_some_and(|embargo| embargo.access == Access::Exclude)
            || self.every.as_ref().is_some_and(excludes)
            || (0..=prefix.len()).any(|len| self.prefixes.get(&prefix[..len]).is_some_and(excludes))
            || is_within(&self.prefixes)
            || is_within(&self.exact)
    }

    /// A digest of the decisions of the rules: different rules have different digests, the same
    /// rules in another file or order have the same.
    pub fn fingerprint(&self) -> u64 {
        let mut text = format!("{:?} {:?}", self.default, self.embargo.as_ref().map(|e| (e.access, &e.when)));
        let named = |rules: &BTreeMap<Box<[u8]>, Rule>, text: &mut String| {
            text.push('\n');
            for (key, rule) in rules {
                text.push_str(&format!("{} {:?} {:?}\n", key.escape_ascii(), rule.word, rule.when));
            }
        };
        named(&self.prefixes, &mut text);
        named(&self.exact, &mut text);
        text.push_str(&format!("{:?}", self.every.as_ref().map(|rule| (rule.word, &rule.when))));
        xxh3_64(text.as_bytes())
    }
}

/// The SURT keys under which rules are looked up for a URL: its own; for a variant that of its URL
/// with the request; and for what a crawler keeps beside a page (`urn:text:URL`,
/// `urn:pageinfo:URL`) that of the page.
///
/// ```
/// use filemap::acl::{Access, AccessRules, RuleKeys};
///
/// let mut rules = AccessRules::new();
/// rules.add("rules.aclj", br#"com,example)/ - {"access": "exclude"}"#)?;
/// let text_of_page = RuleKeys::new(b"urn:text:http://example.com/", None);
/// assert_eq!(rules.of_keys(&text_of_page).at(0, 0).access, Access::Exclude);
/// # Ok::<(), filemap::acl::AccessError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RuleKeys {
    own: Vec<u8>,
    beside: Option<Vec<u8>>,
}

impl RuleKeys {
    /// The keys of a URL, or a variant of it.
    pub fn new(url: &[u8], variant: Option<&Variant>) -> RuleKeys {
        let of_variant = variant.map(|variant| index_key(&variant.index_url(url)));
        RuleKeys { own: index_key(url), beside: of_variant.or_else(|| page_of(url).map(index_key)) }
    }
}

/// The URL in `urn:NAME:URL`.
fn page_of(url: &[u8]) -> Option<&[u8]> {
    let (urn, rest) = url.split_at_checked(4)?;
    let at = rest.iter().position(|byte| *byte == b':').filter(|_| urn.eq_ignore_ascii_case(b"urn:"))?;
    let page = &rest[at + 1..];
    let is_web = |scheme: &[u8]| page.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    (is_web(b"http://") || is_web(b"https://")).then_some(page)
}

/// The decisions for the captures of one URL.
///
/// ```
/// use filemap::acl::{Access, AccessRules};
///
/// let mut rules = AccessRules::new();
/// rules.add("rules.aclj", br#"com,example)/ - {"access": "block"}"#)?;
/// let of_url = rules.of_url(b"http://example.com/a", None);
/// // The rule has no condition, and there is no embargo.
/// assert_eq!(of_url.whenever().map(|ruling| ruling.access), Some(Access::Block));
/// # Ok::<(), filemap::acl::AccessError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OfUrl<'r> {
    rules: &'r AccessRules,
    rule: Option<&'r Rule>,
    /// The rule for the other key, if there is one.
    beside: Option<Option<&'r Rule>>,
}

impl<'r> OfUrl<'r> {
    /// The decision for a capture of this time, in ms since 1970, at the time `now_ms`.
    pub fn at(&self, time_ms: i64, now_ms: i64) -> Ruling<'r> {
        let ruling = self.by(self.rule, time_ms, now_ms);
        stricter(ruling, self.beside.map(|rule| self.by(rule, time_ms, now_ms)))
    }

    fn by(&self, rule: Option<&'r Rule>, time_ms: i64, now_ms: i64) -> Ruling<'r> {
        let rule = rule.filter(|rule| rule.when.as_ref().is_none_or(|when| when.holds(time_ms, now_ms)));
        let (word, cause) = self.of_rule(rule);
        let embargo = self.rules.embargo.as_ref().filter(|_| !word.is_final());
        match embargo.filter(|embargo| embargo.when.holds(time_ms, now_ms)) {
            Some(embargo) => Ruling { access: embargo.access, cause: Cause::Embargo(embargo) },
            None => Ruling { access: word.access(), cause },
        }
    }

    /// The decision, if it is the same for captures of all times.
    pub fn whenever(&self) -> Option<Ruling<'r>> {
        let ruling = self.always_by(self.rule);
        let Some(beside) = self.beside.map(|rule| self.always_by(rule)) else { return ruling };
        match (ruling, beside) {
            (Some(ruling), Some(other)) => Some(stricter(ruling, Some(other))),
            // Nothing is stricter.
            (one, other) => one.or(other).filter(|ruling| ruling.access == Access::Exclude),
        }
    }

    fn always_by(&self, rule: Option<&'r Rule>) -> Option<Ruling<'r>> {
        if rule.is_some_and(|rule| rule.when.is_some()) {
            return None;
        }
        let (word, cause) = self.of_rule(rule);
        let is_open = self.rules.embargo.is_some() && !word.is_final();
        (!is_open).then_some(Ruling { access: word.access(), cause })
    }

    fn of_rule(&self, rule: Option<&'r Rule>) -> (Word, Cause<'r>) {
        rule.map_or((self.rules.default, Cause::Default), |rule| (rule.word, Cause::Rule(rule)))
    }
}

fn stricter<'r>(ruling: Ruling<'r>, other: Option<Ruling<'r>>) -> Ruling<'r> {
    other.filter(|other| other.access > ruling.access).unwrap_or(ruling)
}

#[cfg(test)]
mod tests;
