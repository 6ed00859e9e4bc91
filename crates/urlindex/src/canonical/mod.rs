//! Canonicalisers, and the function that finds one by name.
//!
//! Stores use `whatwg` and `exact` by default; `crawl` adds named rules (`rule`), which `rewrite`
//! and `parameters` apply to the `parts` of a URL. `fast` proves by bytes alone that a URL is
//! canonical, `settled` that no rule would change it.

pub(crate) mod canonicalizer;
pub(crate) mod crawl;
pub(crate) mod exact;
mod fast;
pub(crate) mod host;
mod names;
mod parameters;
mod parts;
mod rewrite;
mod rule;
mod settled;
pub(crate) mod whatwg;

use std::sync::Arc;

pub use encoding_rs::{Encoding, UTF_8};

pub(crate) use canonicalizer::{Canonicalizer, UrlError};
pub(crate) use crawl::CrawlRules;
pub use crawl::{Explanation, Step};
pub(crate) use exact::Exact;
pub(crate) use host::host;
pub use host::{canonical_host, is_bare_host};
pub(crate) use parts::marked;
pub use rewrite::url_of_surt;
pub use rule::{Rule, RuleSet};
pub(crate) use whatwg::Whatwg;

/// The canonicaliser of this name and version; `None` if this program does not know it.
pub fn named(name: &str, version: u32) -> Option<Arc<dyn Canonicalizer>> {
    if name == "rules" {
        let rules = CrawlRules::new(RuleSet::from_bits(version)?);
        // A preset has its own name only.
        return (rules.name() == "rules").then(|| Arc::new(rules) as Arc<dyn Canonicalizer>);
    }
    let presets = [RuleSet::CRAWL, RuleSet::SURT, RuleSet::CRAWL_1, RuleSet::SURT_1];
    let presets = presets.into_iter().map(|rules| Arc::new(CrawlRules::new(rules)) as Arc<dyn Canonicalizer>);
    let mut known = [Arc::new(Whatwg) as Arc<dyn Canonicalizer>, Arc::new(Exact)].into_iter().chain(presets);
    known.find(|rule| rule.name() == name && rule.version() == version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonicaliser_is_found_by_name_and_version() {
        assert_eq!(named("whatwg", 1).expect("known").name(), "whatwg");
        assert_eq!(named("exact", 1).expect("known").version(), 1);
        assert!(named("whatwg", 2).is_none() && named("crawl", 3).is_none());
        for name in ["crawl", "surt"] {
            let versions = [1, 2].map(|version| named(name, version).expect("known").version());
            assert_eq!(versions, [1, 2], "{name}");
        }
        assert!(named("WHATWG", 1).is_none());
    }
}
