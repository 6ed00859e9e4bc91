//! Finds the body that a revisit refers to.
//!
//! A revisit is a version with headers of its own and no body. Its original is looked for among the versions of the URL
//! that it names (else its own), of a variant among those of the same variant, in this order:
//!
//! 1. the version of the time that it names, unless both have payload digests and they differ;
//! 2. a version with the same payload digest: the newest that is not later than the revisit, else the oldest;
//! 3. if the server said "not modified": the newest version that is not later.
//!
//! If the URL that it names has none, its own URL's versions are tried. The page then has the original's body under the
//! revisit's own status and headers, which are brought into line with that body (`X-Crawler-*`, `Content-Length`), and
//! `Revisit::original` says where the body came from. If nothing is found it stays `None`, and the body the record's
//! own: another page's body is never guessed.

use std::cmp::Reverse;

use filemap_core::Version;

use super::{PageStore, StoredVersion};
use crate::error::Result;
use crate::http::body;
use crate::key;
use crate::page::{Original, Page, RecordKind, Revisit, RevisitProfile};

impl PageStore {
    /// Gives `page` the body of its original, if it is a revisit and that is in the store.
    pub(super) fn resolve(&self, own_key: &[u8], page: &mut Page) -> Result<()> {
        if let Some(original) = self.original_of(own_key, page)? {
            take_body(page, original);
        }
        Ok(())
    }

    /// The original of `page`, if it is a revisit and that is in the store.
    pub(crate) fn original_of(&self, own_key: &[u8], page: &Page) -> Result<Option<StoredVersion>> {
        let Some(revisit) = page.revisit.as_ref().filter(|_| page.kind == RecordKind::Revisit) else { return Ok(None) };
        let variant = key::variant(own_key);
        let of_variant = |url: &[u8]| self.key_of(url, RecordKind::Response, variant.as_ref()).ok();
        let named = revisit.refers_to_url.as_deref().and_then(of_variant);
        let named = named.filter(|key| key != own_key);
        for key in named.iter().map(Vec::as_slice).chain([own_key]) {
            let Some(version) = self.find_original(key, page, revisit)? else { continue };
            let Some(value) = self.engine().get_version(key, version)? else { continue };
            return self.stored_version(key.to_vec(), value).map(Some);
        }
        Ok(None)
    }

    /// The version of this key and sequence, without its body.
    pub(crate) fn version_of_sequence(&self, key: &[u8], sequence: u64) -> Result<Option<Page>> {
        let heads = self.engine().history(key)?;
        let head = heads.into_iter().find(|head| head.version.sequence == sequence);
        head.map(|head| self.describe(key, &head)).transpose()
    }

    /// The body of the version of this key and time that `is_it` knows; `None` if there is none.
    pub(crate) fn body_of_time(
        &self,
        key: &[u8],
        time_ms: i64,
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        for head in self.engine().history(key)?.into_iter().filter(|head| head.version.time_ms == time_ms) {
            let Some(value) = self.engine().get_version(key, head.version)? else { continue };
            let page = self.stored(key, value)?;
            if page.kind != RecordKind::Revisit && is_it(&page.body) {
                return Ok(Some(page.body));
            }
        }
        Ok(None)
    }

    fn find_original(&self, key: &[u8], page: &Page, revisit: &Revisit) -> Result<Option<Version>> {
        let mut candidates = Vec::new();
        for head in self.engine().history(key)? {
            let described = self.describe(key, &head)?;
            if described.kind != RecordKind::Revisit {
                candidates.push((head.version, described.digest));
            }
        }
        Ok(choose(&candidates, page, revisit))
    }
}

/// Puts the body of `original` under the revisit's own headers, which are brought into line with it.
pub(crate) fn take_body(page: &mut Page, original: StoredVersion) {
    body::align(&mut page.headers, &original.page.headers, original.page.body.len() as u64);
    page.body = original.page.body;
    if let Some(revisit) = &mut page.revisit {
        revisit.original = Some(Original { key: original.key, fetched_at_ms: original.version.time_ms });
    }
}

/// The original among `candidates` (versions and their payload digests).
fn choose(candidates: &[(Version, Option<String>)], page: &Page, revisit: &Revisit) -> Option<Version> {
    let agrees = |digest: &Option<String>| digest.is_none() || page.digest.is_none() || *digest == page.digest;
    if let Some(time_ms) = revisit.refers_to_ms {
        // The named time may be given in whole seconds where the version's is not.
        let distance = |version: &Version| version.time_ms.abs_diff(time_ms);
        let at_that_time = candidates.iter().filter(|(version, digest)| distance(version) < 1000 && agrees(digest));
        if let Some((version, _)) = at_that_time.min_by_key(|(version, _)| (distance(version), Reverse(*version))) {
            return Some(*version);
        }
    }
    let not_later = |version: &Version| version.time_ms <= page.fetched_at_ms;
    let same: Vec<Version> = candidates
        .iter()
        .filter(|(_, digest)| digest.is_some() && *digest == page.digest)
        .map(|(version, _)| *version)
        .collect();
    let newest_before = same.iter().copied().filter(|version| not_later(version)).max();
    let by_digest = newest_before.or_else(|| same.into_iter().min());
    if by_digest.is_some() || revisit.profile != RevisitProfile::ServerNotModified {
        return by_digest;
    }
    candidates.iter().map(|(version, _)| *version).filter(|version| not_later(version)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(time_ms: i64, digest: &str) -> (Version, Option<String>) {
        (Version { time_ms, sequence: time_ms as u64 }, Some(digest.to_owned()).filter(|text| !text.is_empty()))
    }

    fn run(
        candidates: &[(Version, Option<String>)],
        digest: &str,
        time: Option<i64>,
        not_modified: bool,
    ) -> Option<i64> {
        let profile = if not_modified { RevisitProfile::ServerNotModified } else { RevisitProfile::IdenticalPayload };
        let revisit = Revisit { profile, refers_to_url: None, refers_to_ms: time, refers_to_id: None, original: None };
        let digest = Some(digest.to_owned()).filter(|text| !text.is_empty());
        let page = Page { fetched_at_ms: 50_000, digest, ..Page::default() };
        choose(candidates, &page, &revisit).map(|version| version.time_ms)
    }

    #[test]
    fn the_named_time_comes_first_unless_digests_differ() {
        let all = [version(10_000, "a"), version(20_500, "a"), version(30_000, "b")];
        assert_eq!(run(&all, "a", Some(10_000), false), Some(10_000));
        assert_eq!(run(&all, "a", Some(20_000), false), Some(20_500));
        assert_eq!(run(&all, "a", Some(30_000), false), Some(20_500));
        assert_eq!(run(&all, "", Some(30_000), false), Some(30_000));
    }

    #[test]
    fn the_digest_comes_next_and_the_newest_not_later_is_taken() {
        let all = [version(10_000, "a"), version(20_000, "a"), version(60_000, "a"), version(70_000, "c")];
        assert_eq!(run(&all, "a", None, false), Some(20_000));
        assert_eq!(run(&all, "c", None, false), Some(70_000));
        assert_eq!(run(&all, "x", None, false), None);
    }

    #[test]
    fn only_not_modified_takes_the_version_before_it() {
        let all = [version(10_000, ""), version(20_000, ""), version(60_000, "")];
        assert_eq!(run(&all, "", None, true), Some(20_000));
        assert_eq!(run(&all, "", None, false), None);
    }
}
