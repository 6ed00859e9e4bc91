//! The key scheme: engine keys of a page, its variants and the records beside them.
//!
//! | key | holds |
//! |---|---|
//! | URL | the versions of a page: responses, resources, revisits |
//! | URL, NUL, kind | records beside the page: `metadata`, `request`, `conversion` |
//! | URL, NUL, NUL, variant | the versions of a variant |
//! | URL, NUL, kind, NUL, variant | records beside a variant |
//! | NUL, `variants`, number | the mark that URLs with this number have variants; never listed |
//! | NUL, `archive`, number | name and location of a file with pages in place; never listed |
//! | NUL, `member` | the store over several folders that this one belongs to; never listed |
//!
//! The URL is canonical, byte for byte. No canonicaliser's output contains a NUL, so [`url`] of
//! any key is the part before the first NUL: no other record can replace a page or be listed as
//! one, and every key except the last three begins with its URL. A kind is not empty and contains
//! no NUL; a variant is not empty and may contain any bytes. So all these keys are distinct.
//!
//! A mark covers URLs of one scheme and host whose hashes end alike, so there are at most 256 for
//! each scheme and host. It contains no text of a URL, so an erasure may leave it.

use xxhash_rust::xxh3::xxh3_64;

use crate::page::variant::Variant;
use crate::page::{ArchiveId, RecordKind};

const SEPARATOR: u8 = 0;
/// Prefix of marks: no URL and no name of a kind begins like this.
const MARK: &[u8] = b"\0variants";
/// Prefix of the keys of archives.
pub(crate) const ARCHIVE: &[u8] = b"\0archive";

/// The key of the note of a member of a store over several folders.
pub(crate) const MEMBER: &[u8] = b"\0member";

/// The key of a record of this kind.
pub(crate) fn key(canonical_url: &[u8], kind: RecordKind, variant: Option<&Variant>) -> Vec<u8> {
    let mut key = canonical_url.to_vec();
    if !kind.is_page() {
        key.push(SEPARATOR);
        key.extend_from_slice(kind.name().as_bytes());
    } else if variant.is_some() {
        key.push(SEPARATOR);
    }
    if let Some(variant) = variant {
        key.push(SEPARATOR);
        key.extend_from_slice(variant.as_bytes());
    }
    key
}

/// The key of the mark of a URL with variants. Other URLs of its scheme and host may share it.
pub(crate) fn mark(canonical_url: &[u8]) -> Vec<u8> {
    let (of_site, of_url) = (xxh3_64(site(canonical_url)) as u16, xxh3_64(canonical_url) as u8);
    [MARK, format!("{of_site:04x}{of_url:02x}").as_bytes()].concat()
}

/// Returns whether a key is that of a page, not of a variant.
pub(crate) fn is_page(key: &[u8]) -> bool {
    memchr::memchr(SEPARATOR, key).is_none()
}

/// Returns whether a key is that of a variant.
pub(crate) fn is_variant(key: &[u8]) -> bool {
    beside(key).is_some_and(|beside| beside.first() == Some(&SEPARATOR))
}

/// The key of the mark that earlier versions of FileMap put beside a URL with variants.
pub(crate) fn old_mark(canonical_url: &[u8]) -> Vec<u8> {
    [canonical_url, MARK].concat()
}

/// The key of an archive's name and location.
pub(crate) fn archive(id: ArchiveId) -> Vec<u8> {
    [ARCHIVE, id.to_string().as_bytes()].concat()
}

/// The archive of a key that [`archive`] made.
pub(crate) fn archive_of(key: &[u8]) -> Option<ArchiveId> {
    let hex = std::str::from_utf8(key.strip_prefix(ARCHIVE)?).ok().filter(|hex| hex.len() == 16)?;
    u64::from_str_radix(hex, 16).ok().map(ArchiveId)
}

/// Returns whether a key is one of the store's own, without a URL: a mark, an archive, or the note
/// of a member.
pub(crate) fn is_own(key: &[u8]) -> bool {
    key.starts_with(MARK) || key.starts_with(ARCHIVE) || key == MEMBER
}

/// Returns whether a key is one of the store's own, or a mark of earlier versions of FileMap: such
/// keys are never listed.
pub(crate) fn is_hidden(key: &[u8]) -> bool {
    is_own(key) || beside(key) == Some(&MARK[1..])
}

/// The canonical URL in a key of a page, a variant or a record beside them.
///
/// ```
/// assert_eq!(filemap::canonical::url_of_key(b"http://example.com/\0request"), b"http://example.com/");
/// ```
pub fn url<K: AsRef<[u8]> + ?Sized>(key: &K) -> &[u8] {
    let key = key.as_ref();
    &key[..memchr::memchr(SEPARATOR, key).unwrap_or(key.len())]
}

/// The variant in a key of any kind.
pub(crate) fn variant(key: &[u8]) -> Option<Variant> {
    let beside = beside(key)?;
    memchr::memchr(SEPARATOR, beside).map(|at| Variant::of_key(&beside[at + 1..]))
}

/// The kind in a key of records beside a page or a variant; `Response` for a key of a page or
/// variant. `None` for a kind that this program does not know.
pub(crate) fn kind(key: &[u8]) -> Option<RecordKind> {
    let name = beside(key).and_then(|beside| beside.split(|&byte| byte == SEPARATOR).next()).unwrap_or_default();
    if name.is_empty() {
        return Some(RecordKind::Response);
    }
    std::str::from_utf8(name).ok().and_then(RecordKind::named)
}

/// The part after the URL and its NUL.
fn beside(key: &[u8]) -> Option<&[u8]> {
    memchr::memchr(SEPARATOR, key).map(|at| &key[at + 1..])
}

/// The scheme and host of a key, `http://example.com`. Pages that share them share a dictionary.
pub(crate) fn site(key: &[u8]) -> &[u8] {
    let slashes = memchr::memchr_iter(b'/', key);
    let end = slashes.take(3).nth(2);
    // The part after the URL may have slashes, too.
    end.map(|end| &key[..end]).filter(|site| is_page(site)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_site_is_scheme_and_host() {
        assert_eq!(site(b"https://example.com:8080/a/b?c"), b"https://example.com:8080");
        assert_eq!(site(b"http://a/\0request"), b"http://a");
        assert_eq!(site(b"http://a/\0\0__wb_method=POST&u=http://b/"), b"http://a");
        assert_eq!(site(b"http://a\0\0x/y"), b"");
        assert_eq!(site(b"urn:isbn:1"), b"");
    }

    #[test]
    fn pages_stand_under_their_url_and_other_records_beside_them() {
        assert_eq!(key(b"http://a/", RecordKind::Response, None), b"http://a/");
        assert_eq!(key(b"http://a/", RecordKind::Revisit, None), b"http://a/");
        assert_eq!(key(b"http://a/", RecordKind::Request, None), b"http://a/\0request");
        let post = Variant::new("POST").expect("fits");
        assert_eq!(key(b"http://a/", RecordKind::Response, Some(&post)), b"http://a/\0\0POST");
        assert_eq!(key(b"http://a/", RecordKind::Request, Some(&post)), b"http://a/\0request\0POST");
        for kind in RecordKind::ALL {
            let key = key(b"http://a/", kind, None);
            assert_eq!((url(&key), is_page(&key)), (&b"http://a/"[..], kind.is_page()));
            assert_eq!(super::kind(&key), Some(if kind.is_page() { RecordKind::Response } else { kind }));
            assert!(!is_own(&key) && !kind.name().as_bytes().starts_with(&MARK[1..]));
        }
    }

    #[test]
    fn the_note_of_a_member_is_no_page_and_is_never_listed() {
        assert!(is_own(MEMBER) && is_hidden(MEMBER) && !is_page(MEMBER) && !is_variant(MEMBER));
        assert!(url(MEMBER).is_empty() && RecordKind::ALL.iter().all(|kind| kind.name() != "member"));
    }

    #[test]
    fn a_site_has_at_most_256_marks_without_its_text() {
        let marks = |site: &str| -> BTreeSet<Vec<u8>> {
            (0..5000).map(|page| mark(format!("http://{site}/page/{page}").as_bytes())).collect()
        };
        let (a, b) = (marks("a.example"), marks("b.example"));
        assert_eq!((a.len(), b.len(), a.intersection(&b).count()), (256, 256, 0));
        assert!(a.iter().all(|key| is_own(key) && key.len() == MARK.len() + 6));
    }

    proptest! {
        #[test]
        fn a_key_says_url_and_variant_and_no_two_are_one(
            url_bytes in proptest::collection::vec(1..=255u8, 0..6), bytes in proptest::collection::vec(any::<u8>(), 1..6), at in 0..6usize
        ) {
            let (kind, given) = (RecordKind::ALL[at], Variant::new(bytes).expect("fits"));
            let (plain, with) = (key(&url_bytes, kind, None), key(&url_bytes, kind, Some(&given)));
            prop_assert_eq!((url(&plain), variant(&plain)), (&url_bytes[..], None));
            prop_assert_eq!((url(&with), variant(&with)), (&url_bytes[..], Some(given)));
            prop_assert_eq!((is_page(&plain), is_page(&with)), (kind.is_page(), false));
            prop_assert_eq!((is_variant(&plain), is_variant(&with)), (false, kind.is_page()));
            prop_assert!(with.starts_with(&url_bytes) && plain != with);
            let mark = mark(&url_bytes);
            prop_assert!(is_own(&mark) && !is_page(&mark) && !is_variant(&mark) && variant(&mark).is_none());
            prop_assert!(![&plain, &with].iter().any(|key| is_own(key)));
            prop_assert!(url(&mark).is_empty() && mark == super::mark(&url_bytes) && is_hidden(&mark));
            let old = old_mark(&url_bytes);
            prop_assert!(is_hidden(&old) && !is_page(&old) && !is_variant(&old));
            prop_assert!(url_bytes.is_empty() || !is_own(&old));
            prop_assert!(![&plain, &with].iter().any(|key| is_hidden(key)));
        }
    }
}
