//! Canonicalisers on the command line: a preset with rules switched on and off, as in
//! `crawl,+www,-tracking`.
//!
//! The printed form is accepted back: what `seen stat` prints can be given to `seen add`.

use std::sync::Arc;

use urlindex::canonical::{Encoding, Explanation, Rule, RuleSet};
use urlindex::{Canonicalizer, CrawlRules, Exact, Whatwg};

/// The presets with their rules; the other canonicalisers have no rules.
const PRESETS: [(&str, RuleSet); 3] = [("whatwg", RuleSet::WHATWG), ("crawl", RuleSet::CRAWL), ("surt", RuleSet::SURT)];

/// A named canonicaliser.
#[derive(Clone, Debug)]
pub enum Canonical {
    /// Bytes as they are.
    Exact,
    /// The URL standard and these rules.
    Rules(CrawlRules),
}

impl Canonical {
    /// Parses a name; the error is a sentence for the user.
    pub fn parse(text: &str) -> Result<Canonical, String> {
        let mut words = text.split(',');
        let preset = words.next().unwrap_or_default();
        if text == "exact" {
            return Ok(Canonical::Exact);
        }
        let base = PRESETS.iter().find(|(name, _)| *name == preset);
        let Some((_, mut rules)) = base.copied() else {
            return Err("give whatwg, crawl, surt or exact; rules are switched as in crawl,+www,-tracking".to_owned());
        };
        for word in words {
            let rule = |name: &str| Rule::named(name).ok_or_else(|| no_rule(name));
            rules = match word.split_at_checked(1) {
                Some(("+", name)) => rules.with(rule(name)?),
                Some(("-", name)) => rules.without(rule(name)?),
                _ => return Err(format!("`{word}` switches no rule on or off; write +{word} or -{word}")),
            };
        }
        Ok(Canonical::Rules(CrawlRules::new(rules)))
    }

    /// The canonicaliser, under the name that a set records for it.
    pub fn canonicalizer(&self) -> Arc<dyn Canonicalizer> {
        match self {
            Canonical::Exact => Arc::new(Exact),
            // The same result, faster.
            Canonical::Rules(rules) if rules.rules() == RuleSet::WHATWG => Arc::new(Whatwg),
            Canonical::Rules(rules) => Arc::new(rules.clone()),
        }
    }

    /// Explains each rule's effect on a link of a page in this encoding.
    pub fn explain_in_page(&self, base: Option<&[u8]>, link: &[u8], encoding: &'static Encoding) -> Explanation {
        let none = CrawlRules::new(RuleSet::WHATWG.without(Rule::Fragment).without(Rule::DefaultPort));
        let rules = if let Canonical::Rules(rules) = self { rules } else { &none };
        rules.explain_in_page(base, link, encoding)
    }

    /// Explains each rule's effect on a URL.
    pub fn explain(&self, url: &[u8]) -> Explanation {
        match self {
            Canonical::Exact => Explanation { key: Exact.canonicalize(url), steps: Vec::new() },
            Canonical::Rules(rules) => rules.explain(url),
        }
    }
}

fn no_rule(name: &str) -> String {
    let all: Vec<&str> = Rule::ALL.into_iter().map(Rule::name).collect();
    format!("there is no rule `{name}`; there are {}", all.join(", "))
}

/// The printed form of a canonicaliser.
pub fn words(canonicalizer: &dyn Canonicalizer) -> String {
    let rules = match (canonicalizer.name(), canonicalizer.version()) {
        ("rules", bits) => RuleSet::from_bits(bits),
        ("crawl", 1) => Some(RuleSet::CRAWL_1),
        ("surt", 1) => Some(RuleSet::SURT_1),
        _ => None,
    };
    let Some(rules) = rules else { return canonicalizer.name().to_owned() };
    let differences = |base: RuleSet| -> Vec<String> {
        let switched = Rule::ALL.into_iter().filter(|rule| rules.has(*rule) != base.has(*rule));
        switched.map(|rule| format!(",{}{}", if rules.has(rule) { '+' } else { '-' }, rule.name())).collect()
    };
    let all = PRESETS.iter().map(|(name, base)| (name, differences(*base)));
    let nearest = all.min_by_key(|(_, differences)| differences.len());
    nearest.map_or_else(String::new, |(name, differences)| format!("{name}{}", differences.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_is_read() {
        for text in
            ["whatwg", "crawl", "surt", "exact", "crawl,+www", "surt,-tracking,+trailing-slash", "whatwg,-fragment"]
        {
            let canonicalizer = Canonical::parse(text).unwrap().canonicalizer();
            assert_eq!(words(&*canonicalizer), text);
            assert!(urlindex::canonical::named(canonicalizer.name(), canonicalizer.version()).is_some(), "{text}");
        }
        let old = urlindex::canonical::named("crawl", 1).expect("known");
        let again = Canonical::parse(&words(&*old)).expect("parsed").canonicalizer();
        assert_eq!((again.name(), again.version()), ("crawl", 1), "{}", words(&*old));
        let whatwg = Canonical::parse("crawl,-www,+www,-www").unwrap().canonicalizer();
        assert_eq!(words(&*whatwg), "crawl");
    }

    #[test]
    fn other_words_are_refused_with_an_advice() {
        let rows = [
            ("", "whatwg"),
            ("CRAWL", "whatwg"),
            ("crawl,www", "+www"),
            ("crawl,+nonsense", "tracking"),
            ("exact,+www", "exact"),
        ];
        for (text, advice) in rows {
            let refused = Canonical::parse(text).unwrap_err();
            assert!(refused.contains(advice), "{text}: {refused}");
        }
    }
}
