//! Detached revisits: stored with the body of their original, and imported again without it.
//!
//! If an original is erased or left out of a dump, its revisit becomes a version with the body.
//! The archive that it came from still has it without one. Stored again from there, it would be
//! the newer of two versions of one time, hide the body, and have it pruned. So an import counts
//! it as stored already.
//!
//! Invariant: a detached revisit says that it was a revisit, and keeps its URL, time and digest.

use filemap_core::Head;

use super::PageStore;
use crate::error::Result;
use crate::page::digest::Digest;
use crate::page::{Page, RecordKind, Revisit};

impl PageStore {
    /// Length of the body that the store has for `page`, a revisit without one; `None` if no such
    /// body can be read, or if `page` is not a revisit.
    pub(crate) fn given_bytes(&self, page: &Page, body_bytes: u64) -> Result<Option<u64>> {
        if page.kind != RecordKind::Revisit || body_bytes > 0 {
            return Ok(None);
        }
        let key = self.key_of_page(page)?;
        // No version of that time, or a damaged one: put it again.
        let Some(newest) = self.head_of_time(&key, page.fetched_at_ms)? else { return Ok(None) };
        if let Some(bytes) = self.given_by(&key, &newest, page)? {
            return Ok(Some(bytes));
        }
        for (_, head) in self.each_head(key.clone()) {
            let given = match head {
                Ok(head) if head.version.time_ms < page.fetched_at_ms => break,
                Ok(head) if head.version.time_ms > page.fetched_at_ms || head.version == newest.version => continue,
                Ok(head) => self.given_by(&key, &head, page),
                Err(error) => Err(error),
            };
            match given {
                Ok(Some(bytes)) => return Ok(Some(bytes)),
                Err(error) if !error.is_damage() => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Length of a version's body, if the version is `page` with a body.
    fn given_by(&self, key: &[u8], head: &Head, page: &Page) -> Result<Option<u64>> {
        let bytes = match self.body_bytes(key, head) {
            Ok(0) => return Ok(None),
            bytes => bytes?,
        };
        let stored = self.describe(key, head)?;
        let Some(was) = &stored.revisit else { return Ok(None) };
        let digest = |page: &Page| page.digest.as_deref().and_then(Digest::parse);
        let is_it = match (digest(page), digest(&stored)) {
            (Some(wanted), Some(own)) if wanted.is_comparable(&own) => wanted == own,
            (Some(wanted), _) => self.has_digest(key, head, &wanted)?,
            // Without a digest, the reference identifies the revisit.
            (None, _) => page.revisit.as_ref() == Some(&Revisit { original: None, ..was.clone() }),
        };
        Ok((is_it && self.engine().can_read(key, head.version)?).then_some(bytes))
    }

    fn has_digest(&self, key: &[u8], head: &Head, digest: &Digest) -> Result<bool> {
        let Some(value) = self.value_of(key, head.version)? else { return Ok(false) };
        let body = self.stored(key, value)?.body;
        Ok(digest.is_of(&body) == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use filemap_core::Options;

    use super::*;
    use crate::page::RevisitProfile;

    /// A SHA-1 that no body stored here has.
    const DIGEST: &str = "sha1:f9862b9d2d3dd8e4b5ee6a0d4d4d3b3a5b6c7d8e";

    fn revisit(digest: Option<&str>, refers_to_ms: i64) -> Page {
        let revisit = Revisit {
            profile: RevisitProfile::IdenticalPayload,
            refers_to_url: None,
            refers_to_ms: Some(refers_to_ms),
            refers_to_id: None,
            original: None,
        };
        let page = Page::new("http://a.example/", 5000, 200, "");
        Page { kind: RecordKind::Revisit, revisit: Some(revisit), digest: digest.map(str::to_owned), ..page }
    }

    fn given(page: &Page) -> Page {
        Page { kind: RecordKind::Response, body: b"the body".to_vec(), ..page.clone() }
    }

    #[test]
    fn only_the_same_revisit_with_a_body_is_one_that_was_given_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = PageStore::create(dir.path().join("a.fm"), Options::new()).expect("a store");
        let (told, untold) = (revisit(Some(DIGEST), 1000), revisit(None, 1000));
        let bytes = |page: &Page| store.given_bytes(page, page.body.len() as u64).expect("readable");
        assert_eq!(bytes(&told), None, "nothing is there");
        store.put_page(&Page { revisit: None, ..given(&told) }).expect("stored");
        store.put_page(&told).expect("stored");
        assert_eq!(bytes(&told), None, "its own answer, and the revisit itself");
        store.put_page(&given(&told)).expect("stored");
        store.put_page(&Page::new("http://a.example/", 5000, 200, "of the same time")).expect("stored");
        store.put_page(&Page::new("http://a.example/", 6000, 200, "newer")).expect("stored");
        assert_eq!(bytes(&told), Some(8));
        let same = told.digest.as_deref().map(|text| text.to_uppercase().replace("SHA1", "sha-1"));
        assert_eq!(bytes(&Page { digest: same, ..told.clone() }), Some(8), "however it is written");
        assert_eq!(bytes(&revisit(Some(&DIGEST.replace('9', "8")), 1000)), None, "another digest");
        assert_eq!(bytes(&Page { fetched_at_ms: 5001, ..told.clone() }), None, "another time");
        assert_eq!(bytes(&given(&told)), None, "no revisit");
        assert_eq!((bytes(&untold), bytes(&revisit(None, 2000))), (Some(8), None), "by what it refers to");
        let of_another_kind = |bytes: &str| {
            use sha2::Digest as _;
            format!("sha256:{}", crate::page::digest::hex(&sha2::Sha256::digest(bytes)))
        };
        assert_eq!(bytes(&revisit(Some(&of_another_kind("the body")), 1000)), Some(8), "by the body");
        assert_eq!(bytes(&revisit(Some(&of_another_kind("another")), 1000)), None);
    }
}
