//! Lists and counts of URLs under access rules. A URL is listed if one of its versions is not
//! excluded: if that depends on capture times, the times are read.

use filemap::access::{Cursor, Listed, Scope};
use filemap::dump::index_key;
use filemap::store::Listing;
use filemap::{PageRead, Result};

use super::store::Shown;

/// A list of pages or variants.
pub(crate) struct ShownListing {
    listing: Listing,
    shown: Shown,
}

impl Iterator for ShownListing {
    type Item = Result<Listed>;

    fn next(&mut self) -> Option<Result<Listed>> {
        loop {
            let listed = match self.listing.next()? {
                Ok(listed) => listed,
                Err(error) => return Some(Err(error)),
            };
            match self.shown.lists(&listed.url, listed.variant.as_ref()) {
                Ok(true) => return Some(Ok(listed)),
                Ok(false) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Shown {
    /// The pages or variants of a scope.
    pub(crate) fn list(&self, scope: &Scope, after: Option<&Cursor>) -> Result<ShownListing> {
        Ok(ShownListing { listing: self.store.listing(scope, after)?, shown: self.clone() })
    }

    /// The number of pages or variants. If rules may exclude some, they are listed.
    pub(crate) fn count(&self, scope: &Scope) -> Result<u64> {
        let may_exclude = |rules: &filemap::acl::AccessRules| rules.may_exclude_within(&begin_of_keys(scope));
        if !self.rules.as_ref().is_some_and(|rules| may_exclude(rules)) {
            return PageRead::count(&self.store, scope);
        }
        let mut forwards = scope.clone();
        forwards.is_backwards = false;
        self.list(&forwards, None)?.try_fold(0, |number, listed| listed.map(|_| number + 1))
    }

    /// Returns whether an origin (scheme and host) can be named: no rule may exclude any of its
    /// pages.
    pub(crate) fn may_name(&self, site: &[u8]) -> bool {
        let scope = Scope::new().prefix([site, b"/"].concat());
        !self.rules.as_ref().is_some_and(|rules| rules.may_exclude_within(&begin_of_keys(&scope)))
    }

    /// The cursor after a URL, whether the store has it or not.
    pub(crate) fn cursor(&self, url: &[u8]) -> Result<Cursor> {
        PageRead::cursor(&self.store, url)
    }
}

/// Common prefix of the index keys of a scope; empty if there is no simple one.
fn begin_of_keys(scope: &Scope) -> Vec<u8> {
    let site = scope.host.as_ref().or(scope.domain.as_ref()).map(|host| format!("http://{host}/").into_bytes());
    let is_web = scope.prefix.starts_with(b"http://") || scope.prefix.starts_with(b"https://");
    let end = scope.prefix.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).nth(2);
    let site = site.or_else(|| end.filter(|_| is_web).map(|end| scope.prefix[..=end].to_vec()));
    let Some(key) = site.filter(|site| !site.contains(&b'(')).map(|site| index_key(&site)) else { return Vec::new() };
    let end = key.iter().position(|byte| matches!(byte, b')' | b':')).unwrap_or(0);
    key[..end].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_scope_begin_with_its_site_or_with_anything() {
        let of = |scope: Scope| String::from_utf8(begin_of_keys(&scope)).expect("text");
        assert_eq!(of(Scope::new().host("www.example.com")), "com,example");
        assert_eq!(of(Scope::new().domain("example.com")), "com,example");
        assert_eq!(of(Scope::new().prefix("https://example.com:8443/a/b")), "com,example");
        for scope in [
            Scope::new(),
            Scope::new().prefix("http://exam"),
            Scope::new().prefix("http://example.com"),
            Scope::new().prefix("dns:example.com"),
            Scope::new().prefix("http://(com,example,)/"),
            Scope::new().host("[::1]"),
        ] {
            assert_eq!(of(scope.clone()), "", "{scope:?}");
        }
    }
}
