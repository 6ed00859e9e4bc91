//! Parts of the pages of a host, a domain or a prefix: ranges of their URLs in order, whose pages
//! are looked up one by one. For a small share of a store they cost less than splits of its log
//! ([`filemap_core::Store::splits`]), which are read to the end.
//!
//! Invariant: every page of the scope is in exactly one part, in its newest version at the time
//! the parts were made.

use std::collections::HashSet;

use filemap_core::Head;
use filemap_core::list::Split;
use filemap_io::layout;

use super::{Listing, PageStore};
use crate::access::{ListKind, Scope, keys};
use crate::error::{Error, Result};
use crate::page::version::PageHead;

/// The layout of [`UrlPart::to_bytes`]: differs from that of a split.
const LAYOUT: u8 = 2;
/// Maximum number of parts, as for splits.
const MOST_PARTS: u128 = 1 << 20;

/// A part of the pages of a scope, for [`PageStore::heads_of_urls`] and tables: plain data that
/// can be sent to another process.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::Scope;
/// use filemap::store::UrlPart;
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// # store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let parts = store.url_parts(&Scope::new().host("example.com"), 4)?.expect("few pages");
/// let sent = parts[0].to_bytes();
/// // In another process:
/// let part = UrlPart::from_bytes(&sent)?.expect("a part by URL");
/// assert_eq!(store.heads_of_urls(&part)?.count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPart {
    scope: Scope,
    /// The ordered form of the last key before the part; empty if it begins with the first.
    after: Vec<u8>,
    /// The ordered form of its last key; empty if it ends with the last of the scope.
    through: Vec<u8>,
    /// The whole store at the time the parts were made.
    as_of: Split,
}

impl UrlPart {
    /// The part as bytes, to be sent to another process. Their first byte differs from that of a
    /// split.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
        let (host, domain) = (text(&self.scope.host), text(&self.scope.domain));
        let split = self.as_of.to_bytes();
        let mut bytes = vec![LAYOUT];
        for field in [&split, &self.after, &self.through, &host, &domain, &self.scope.prefix] {
            layout::push(&mut bytes, field.len() as u64);
            bytes.extend_from_slice(field);
        }
        bytes
    }

    /// The whole store at the time the parts were made.
    #[cfg(feature = "arrow")]
    pub(crate) fn as_of(&self) -> &Split {
        &self.as_of
    }

    /// Decodes the bytes of [`UrlPart::to_bytes`]; `None` if they are the bytes of a split.
    ///
    /// # Errors
    ///
    /// As [`Split::from_bytes`], for bytes that are neither.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<UrlPart>> {
        let Some([split, after, through, host, domain, prefix]) = fields(bytes) else {
            Split::from_bytes(bytes)?;
            return Ok(None);
        };
        let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned()).filter(|text| !text.is_empty());
        let scope = Scope { host: text(host), domain: text(domain), ..Scope::new().prefix(prefix) };
        let (after, through) = (after.to_vec(), through.to_vec());
        Ok(Some(UrlPart { scope, after, through, as_of: Split::from_bytes(split)? }))
    }
}

/// The fields of a part's bytes; `None` for other bytes.
fn fields(bytes: &[u8]) -> Option<[&[u8]; 6]> {
    let mut rest = bytes.strip_prefix(&[LAYOUT])?;
    let mut fields = [&[][..]; 6];
    for field in &mut fields {
        let length = layout::take::<u64>(&mut rest)?;
        (*field, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    }
    rest.is_empty().then_some(fields)
}

/// Returns whether a scope can be listed from the keys of some hosts alone.
fn is_of_hosts(scope: &Scope) -> bool {
    let behind_scheme = memchr::memmem::find(&scope.prefix, b"://").map_or(&[][..], |at| &scope.prefix[at + 3..]);
    scope.host.is_some() || scope.domain.is_some() || behind_scheme.contains(&b'/')
}

impl PageStore {
    /// Cuts the current pages in `scope` into disjoint parts: that share of `number` that the
    /// pages are of all keys, at least one. Lists the URLs.
    ///
    /// `None` if a pass over the value log reads less: for all pages, for a prefix that ends
    /// within a host, in a store without key order, or for many pages (more than 4,096, and more
    /// than one key in 32). `None` also if the key order is damaged: the pass does not read it.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::count`] and of [`filemap_core::Store::splits`].
    pub fn url_parts(&self, scope: &Scope, number: usize) -> Result<Option<Vec<UrlPart>>> {
        let scope = Scope { kind: ListKind::Pages, is_backwards: false, ..scope.clone() };
        if !is_of_hosts(&scope) || !self.engine().has_key_order() {
            return Ok(None);
        }
        match self.cut(&scope, number) {
            // The pass over the log finds the keys that the order has lost.
            Err(error) if error.is_damage() => Ok(None),
            parts => parts,
        }
    }

    fn cut(&self, scope: &Scope, number: usize) -> Result<Option<Vec<UrlPart>>> {
        // One split covers the whole store; 0 is refused.
        let as_of = self.engine().splits(number.min(1))?.pop();
        let keys = self.count(scope)?;
        let Some(as_of) = as_of.filter(|_| self.is_worth_looking_up(keys)) else { return Ok(None) };
        let number = u128::try_from(number).unwrap_or(u128::MAX).min(MOST_PARTS);
        let parts = (number * u128::from(keys)).div_ceil(u128::from(self.keys().max(1))).clamp(1, number) as u64;
        let of_part = keys.div_ceil(parts).max(1);
        let mut bounds = vec![Vec::new()];
        // All are listed, even for one part: damage of the order must show here, not to a reader.
        for (nth, listed) in (1..).zip(self.listing(scope, None)?) {
            let url = listed?.url;
            if nth < keys && nth.is_multiple_of(of_part) {
                bounds.push(keys::form(&url));
            }
        }
        bounds.push(Vec::new());
        let part = |between: &[Vec<u8>]| UrlPart {
            scope: scope.clone(),
            after: between[0].clone(),
            through: between[1].clone(),
            as_of: as_of.clone(),
        };
        Ok(Some(bounds.windows(2).map(part).collect()))
    }

    /// The pages of a part without their bodies, in the order of their URLs, as of the time the
    /// parts were made. A page comes in the newest version that existed then and is still kept;
    /// without one it is omitted. A failed item does not end the iteration; it ends with an error
    /// for each missing file. Bodies are not read, so damage of a body alone is not found: a pass
    /// over the log finds it. Each page costs a lookup.
    ///
    /// # Errors
    ///
    /// As [`filemap_core::Store::heads_in`]; those of [`PageStore::listing`].
    pub fn heads_of_urls(&self, part: &UrlPart) -> Result<impl Iterator<Item = Result<PageHead>> + Send + use<>> {
        let store = self.clone();
        let heads = self.found_of_urls(part, true)?;
        Ok(heads.map(move |found| found.and_then(|(key, head)| store.page_head(&key, head))))
    }

    /// As [`PageStore::heads_of_urls`], with keys; without `newest_only`, with every version that
    /// existed then.
    pub(crate) fn found_of_urls(&self, part: &UrlPart, newest_only: bool) -> Result<Found> {
        // Refuses a part of another store, or of a state of the store that this handle cannot see.
        drop(self.engine().heads_in(&part.as_of)?);
        let after = Some(&part.after).filter(|form| !form.is_empty()).map(|form| keys::cursor(form));
        Ok(Found {
            store: self.clone(),
            listing: self.listing(&part.scope, after.as_ref())?,
            through: part.through.clone(),
            before: part.as_of.sequences().end,
            newest_only,
            of_page: Vec::new().into_iter(),
            lost: None,
        })
    }
}

/// Versions of a part, with their keys, page by page.
pub(crate) struct Found {
    store: PageStore,
    listing: Listing,
    /// The last ordered form of the part; empty if it is unbounded.
    through: Vec<u8>,
    /// The first sequence put after the parts were made.
    before: u64,
    newest_only: bool,
    /// The remaining versions of the current page.
    of_page: std::vec::IntoIter<Result<(Vec<u8>, Head)>>,
    /// Keys whose lookup found damage; `None` if damage is returned as errors.
    lost: Option<HashSet<Vec<u8>>>,
}

impl Found {
    /// For a key whose lookup finds damage, returns no version and no error, but keeps the key for
    /// [`Found::take_lost`].
    #[cfg(feature = "arrow")]
    pub(crate) fn keeping_lost(self) -> Found {
        Found { lost: Some(HashSet::new()), ..self }
    }

    /// Takes the keys kept so far.
    #[cfg(feature = "arrow")]
    pub(crate) fn take_lost(&mut self) -> HashSet<Vec<u8>> {
        self.lost.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The versions of a page when the parts were made, newest first.
    fn versions(&mut self, key: &[u8]) -> Vec<Result<(Vec<u8>, Head)>> {
        let before = self.before;
        let heads = self.store.each_head(key.to_vec());
        let of_then = heads.filter(|(version, _)| version.is_none_or(|version| version.sequence < before));
        let most = if self.newest_only { 1 } else { usize::MAX };
        let found: Vec<_> = of_then.take(most).map(|(_, head)| head.map(|head| (key.to_vec(), head))).collect();
        let is_damaged = found.iter().any(|version| version.as_ref().is_err_and(Error::is_damage));
        match &mut self.lost {
            Some(lost) if is_damaged => {
                lost.insert(key.to_vec());
                Vec::new()
            }
            _ => found,
        }
    }
}

impl Iterator for Found {
    type Item = Result<(Vec<u8>, Head)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.of_page.next() {
                return Some(found);
            }
            match self.listing.next()? {
                // The last page of the part may have been removed.
                Ok(listed) if !self.through.is_empty() && keys::form(&listed.url) > self.through => return None,
                Ok(listed) => self.of_page = self.versions(&listed.url).into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use filemap_core::Options;

    use super::*;
    use crate::page::Page;

    fn store(pages: usize) -> (tempfile::TempDir, PageStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = PageStore::create(dir.path().join("pages.fm"), Options::new().free_space_floor(0)).unwrap();
        for n in 0..pages {
            put(&store, &format!("http://{}.example/{n}", ["a", "www.a", "b"][n % 3]), 1000);
        }
        (dir, store)
    }

    fn put(store: &PageStore, url: &str, time_ms: i64) {
        store.put_page(&Page::new(url, time_ms, 200, "body")).unwrap();
    }

    fn parts(store: &PageStore, scope: &Scope, number: usize) -> Vec<UrlPart> {
        let parts = store.url_parts(scope, number).unwrap().expect("few pages");
        let sent = parts.iter().map(|part| UrlPart::from_bytes(&part.to_bytes()).unwrap());
        assert!(sent.eq(parts.iter().cloned().map(Some)), "bytes say all of a part");
        parts
    }

    fn rows(store: &PageStore, parts: &[UrlPart]) -> Vec<(String, i64)> {
        let row = |head: PageHead| (String::from_utf8(head.page.url.to_vec()).unwrap(), head.version.time_ms);
        parts.iter().flat_map(|part| store.heads_of_urls(part).unwrap()).map(|head| row(head.unwrap())).collect()
    }

    fn urls(store: &PageStore, scope: &Scope) -> Vec<String> {
        store.listing(scope, None).unwrap().map(|listed| String::from_utf8(listed.unwrap().url).unwrap()).collect()
    }

    #[test]
    fn parts_are_as_many_as_the_share_and_have_each_page_once() {
        let (_dir, store) = store(300);
        for (scope, number, expected) in [
            (Scope::new().host("a.example"), 6, 2),
            (Scope::new().domain("a.example"), 6, 4),
            (Scope::new().domain("A.example").prefix("http://www.a.example/1"), 30, 4),
            (Scope::new().prefix("http://b.example/"), 1, 1),
            (Scope::new().host("none.example"), 9, 1),
            (Scope::new().domain("example"), 7, 7),
        ] {
            let parts = parts(&store, &scope, number);
            assert_eq!(parts.len(), expected, "{scope:?}");
            let found: Vec<String> = rows(&store, &parts).into_iter().map(|row| row.0).collect();
            assert_eq!(found, urls(&store, &scope), "{scope:?}");
        }
        let none = |scope: Scope| store.url_parts(&scope, 4).unwrap().is_none();
        assert!(none(Scope::new()) && none(Scope::new().prefix("http://a.ex")) && none(Scope::new().prefix("http:")));
        assert!(store.url_parts(&Scope::new().host("a.example"), 0).is_err());
    }

    #[test]
    fn parts_are_of_the_moment_when_they_were_made() {
        let (_dir, store) = store(90);
        let scope = Scope::new().host("a.example");
        let all = urls(&store, &scope);
        let parts = parts(&store, &scope, 9);
        assert_eq!(parts.len(), 3);
        for url in all.iter().step_by(2) {
            put(&store, url, 2000);
        }
        (0..50).for_each(|n| put(&store, &format!("http://a.example/new/{n}"), 2000));
        // The last page of the first part, and its neighbour.
        let gone: Vec<&String> = all[9..11].iter().collect();
        for url in &gone {
            assert!(store.remove(url.as_str()).unwrap());
        }
        store.engine().compact().unwrap();
        let expected: Vec<(String, i64)> =
            all.iter().filter(|url| !gone.contains(url)).map(|url| (url.clone(), 1000)).collect();
        assert_eq!(rows(&store, &parts), expected);
    }

    #[test]
    fn a_damaged_order_leaves_its_scope_to_the_pass() {
        let (dir, store) = store(6000);
        store.close().unwrap();
        let path = dir.path().join("pages.fm");
        let files = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let order = files.filter(|file| file.extension().is_some_and(|end| end == "run"));
        let order = order.max_by_key(|file| file.metadata().unwrap().len()).expect("its order");
        let mut bytes = std::fs::read(&order).unwrap();
        // A block within the first host: its ends, by which its pages are counted, are whole.
        bytes[2 * 4096 + 100] ^= 1;
        std::fs::write(&order, bytes).unwrap();
        let store = PageStore::open_read_only(&path, Options::new()).unwrap();
        let damaged = Scope::new().host("a.example");
        assert!(store.listing(&damaged, None).unwrap().any(|listed| listed.is_err()));
        assert_eq!(store.count(&damaged).unwrap(), 2000);
        for number in [1, 6] {
            assert_eq!(store.url_parts(&damaged, number).unwrap(), None, "{number}");
        }
    }

    #[test]
    fn bytes_of_nothing_else_are_a_part() {
        let (_dir, store) = store(9);
        let (split, part) = (store.engine().splits(1).unwrap(), parts(&store, &Scope::new().host("a.example"), 1));
        assert_eq!(UrlPart::from_bytes(&split[0].to_bytes()).unwrap(), None);
        let bytes = part[0].to_bytes();
        for end in 0..bytes.len() {
            assert!(UrlPart::from_bytes(&bytes[..end]).is_err(), "{end}");
        }
        assert!(UrlPart::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        let (_other_dir, other) = self::store(9);
        assert!(other.heads_of_urls(&part[0]).is_err(), "a part of another store");
    }
}
