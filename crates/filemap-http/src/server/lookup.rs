//! Parses the page, or the pages, of a query.

use filemap::access::{PutRule, Scope};
use filemap::{Lookup, Variant, Version, date};

use crate::query::{Query, encoded};
use crate::wire;

/// Numbers of digits of a time that is a date rather than milliseconds.
const STAMPS: [usize; 2] = [4, 14];

/// The page that a query names.
pub(super) struct Asked {
    pub(super) url: Vec<u8>,
    pub(super) variant: Option<Variant>,
    time_ms: Option<i64>,
    version: Option<Version>,
}

impl Asked {
    /// The parameters that name a page.
    pub(super) const PARAMETERS: [&str; 4] = ["url", "variant", "at", "version"];

    /// The page that a query names.
    pub(super) fn of(query: &Query) -> Result<Asked, String> {
        let variant = query.bytes("variant").map(Variant::new).transpose();
        Ok(Asked {
            url: query.needed("url")?.to_vec(),
            variant: variant.map_err(|error| error.to_string())?,
            time_ms: time(query, "at")?,
            version: query.read("version", "a time in ms, a dot and a sequence", wire::read_version)?,
        })
    }

    pub(super) fn lookup(&self) -> Lookup<'_> {
        let lookup = Lookup::new(&self.url).variant(self.variant.as_ref());
        self.time_ms.map_or(lookup, |time_ms| lookup.at(time_ms))
    }

    /// The version, if the query names one.
    pub(super) fn version(&self) -> Option<Version> {
        self.version
    }

    /// The time, if the query names one.
    pub(super) fn time_ms(&self) -> Option<i64> {
        self.time_ms
    }

    /// The query for the page and its variant, without a time.
    pub(super) fn query(&self) -> String {
        let variant =
            self.variant.as_ref().map_or(String::new(), |variant| format!("&variant={}", encoded(variant.as_bytes())));
        format!("url={}{variant}", encoded(&self.url))
    }

    /// Returns whether a certain version is requested rather than the newest.
    pub(super) fn is_of_time(&self) -> bool {
        self.time_ms.is_some() || self.version.is_some()
    }

    /// Message that the page has no version of exactly this time.
    pub(super) fn none_of_time(&self) -> String {
        let Some(time_ms) = self.time_ms else { return self.absent() };
        let url = String::from_utf8_lossy(&self.url);
        format!("the store has no version of {url} of exactly {}; /v1/history has its times", date::format(time_ms))
    }

    /// Message that the page is missing.
    pub(super) fn absent(&self) -> String {
        let url = String::from_utf8_lossy(&self.url);
        let variant = self.variant.as_ref().map_or(String::new(), |variant| format!(", variant `{variant}`"));
        let when = self.time_ms.map_or(String::new(), |at| format!(", up to {}", date::format(at)));
        format!("the store has no page of {url}{variant}{when}")
    }
}

/// A time: a date, 14 digits, or milliseconds since 1970.
pub(super) fn time(query: &Query, name: &str) -> Result<Option<i64>, String> {
    let wanted = "a time such as 2024-05-01T12:00:00Z, 20240501120000 or milliseconds since 1970";
    query.read(name, wanted, |text| {
        let number = || text.parse::<i64>().ok().filter(|_| !STAMPS.contains(&text.len()));
        number().or_else(|| date::parse(text))
    })
}

/// The rule of a put, if given.
pub(super) fn rule(query: &Query) -> Result<Option<PutRule>, String> {
    query.read("rule", "always, if-changed, if-new, restore or restore-unchanged", wire::read_rule)
}

/// Returns whether the response waits until the change is durable.
pub(super) fn durable(query: &Query) -> Result<bool, String> {
    Ok(query.switch("durable")?.unwrap_or(true))
}

/// The parameters that name a part of a store.
pub(super) const SCOPE: [&str; 5] = ["host", "domain", "prefix", "kind", "reverse"];

/// The pages that a query names.
pub(super) fn scope(query: &Query) -> Result<Scope, String> {
    let mut scope = Scope::new();
    if let Some(host) = query.text("host")? {
        scope = scope.host(host);
    }
    if let Some(domain) = query.text("domain")? {
        scope = scope.domain(domain);
    }
    if let Some(prefix) = query.bytes("prefix") {
        scope = scope.prefix(prefix);
    }
    let is_of_variants = query.read("kind", "`pages` or `variants`", |kind| match kind {
        "pages" => Some(false),
        "variants" => Some(true),
        _ => None,
    })?;
    if is_of_variants == Some(true) {
        scope = scope.variants();
    }
    if query.switch("reverse")? == Some(true) {
        scope = scope.backwards();
    }
    Ok(scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_milliseconds() {
        let at = |text: &str| time(&Query::parse(Some(&format!("at={text}")), &["at"]).unwrap(), "at");
        assert_eq!(at("1700000000000"), Ok(Some(1_700_000_000_000)));
        assert_eq!(at("20231114221320"), Ok(Some(1_700_000_000_000)));
        assert_eq!(at("2023-11-14T22:13:20.001Z"), Ok(Some(1_700_000_000_001)));
        assert_eq!((at("-5"), at("2023")), (Ok(Some(-5)), Ok(Some(1_672_531_200_000))));
        assert!(at("yesterday").unwrap_err().contains("`yesterday`"));
    }
}
