//! Puts many pages that the store may hold already: for importers.
//!
//! A version that the store holds adds nothing, so an interrupted import is simply repeated. Time
//! is linear in the number of pages, however many versions one URL has (see [`Known`]).

use filemap_core::{Head, Put};
use xxhash_rust::xxh3::Xxh3;

use super::PageStore;
use super::known::{Heat, Known, Prints, print};
use super::put::BodySource;
use crate::error::Result;
use crate::page::digest::sha1_of;
use crate::page::version::BodyForm;
use crate::page::{Page, RecordKind, key, meta};

/// The criterion by which versions of the same URL and time count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sameness {
    /// The same body and status; without a body, the same description except for the record's id:
    /// another record of the same visit.
    Visit,
    /// The same body and description, except for the record's id.
    Description,
    /// The same body and description.
    Everything,
}

impl Sameness {
    fn without_body(self) -> Sameness {
        if self == Sameness::Visit { Sameness::Description } else { self }
    }
}

/// A page that the store does not hold, and the fingerprints that [`Known`] keeps once it is put.
pub(crate) struct Arrival {
    key: Vec<u8>,
    prints: Option<Prints>,
    /// True if the store has it but cannot read it: then it is stored whole, whatever the newest
    /// version is.
    pub(crate) mends: bool,
}

/// Puts many pages into one store, which may hold some of them.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::store::Loader;
/// use filemap::{Options, Page, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut loader = Loader::default();
/// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// assert!(loader.put_page_if_new(&store, &page)?.is_some());
/// assert!(loader.put_page_if_new(&store, &page)?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Loader {
    known: Known,
}

impl Loader {
    /// As [`PageStore::put_page_if_new`], in time linear in the number of pages. A page that this
    /// loader has put counts as stored, even if it is removed meanwhile.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page_if_new`].
    pub fn put_page_if_new(&mut self, store: &PageStore, page: &Page) -> Result<Option<Put>> {
        self.put(store, page, BodyForm::if_changed(page), Sameness::Description)
    }

    /// Restores a version as a dump of a store has it, unless the store holds this very version:
    /// the same URL, time, body and whole description. `form` is how the body was stored; a
    /// reference is stored as one again if the newest version has the same body.
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page_if_new`].
    pub fn put_stored_if_new(&mut self, store: &PageStore, page: &Page, form: BodyForm) -> Result<Option<Put>> {
        self.put(store, page, form, Sameness::Everything)
    }

    fn put(&mut self, store: &PageStore, page: &Page, form: BodyForm, sameness: Sameness) -> Result<Option<Put>> {
        if store.given_bytes(page, page.body.len() as u64)?.is_some() {
            return Ok(None);
        }
        let hash = |hasher: &mut Xxh3| {
            hasher.update(&page.body);
            Ok(())
        };
        let Some(arrival) = store.arrival(&mut self.known, page, page.body.len() as u64, sameness, hash)? else {
            return Ok(None);
        };
        let form = if arrival.mends { BodyForm::Whole } else { form };
        let put = store.put_parts(page, BodySource::Bytes(&page.body, form))?;
        self.known.put(arrival);
        Ok(Some(put))
    }
}

impl Known {
    /// Records a page that was put.
    pub(crate) fn put(&mut self, arrival: Arrival) {
        if let Some(prints) = arrival.prints {
            self.add(&arrival.key, prints);
        }
    }
}

impl PageStore {
    /// As [`PageStore::put_page_if_changed`], but does nothing if the store holds this very
    /// version and can read it: the same URL, time, body and description, except for the record's
    /// id. Reads the head of every version of the URL; for many pages use [`Loader`].
    ///
    /// # Errors
    ///
    /// As [`PageStore::put_page`], and those of [`PageStore::history`].
    pub fn put_page_if_new(&self, page: &Page) -> Result<Option<Put>> {
        Loader::default().put_page_if_new(self, page)
    }

    /// The arrival of `page`; `None` if the store holds it. The body has this length, and
    /// `hash_body` hashes it; `page.body` is ignored.
    pub(crate) fn arrival(
        &self,
        known: &mut Known,
        page: &Page,
        body_bytes: u64,
        sameness: Sameness,
        hash_body: impl FnOnce(&mut Xxh3) -> Result<()>,
    ) -> Result<Option<Arrival>> {
        let key = self.key_of_page(page)?;
        let loaded = match known.ask(&key) {
            Heat::Loaded => true,
            Heat::Hot => self.know_all(known, &key)?,
            Heat::Cold => false,
        };
        let head = if loaded { None } else { self.head_of_time(&key, page.fetched_at_ms)? };
        if !loaded && head.is_none() {
            return Ok(Some(Arrival { key, prints: None, mends: false }));
        }
        let sameness = if body_bytes == 0 { sameness.without_body() } else { sameness };
        let mut hasher = Xxh3::new();
        hasher.update(&meta::encode(page, key::url(&key))?.spill);
        hash_body(&mut hasher)?;
        let digest = hasher.digest128().to_be_bytes();
        if let Some(head) = head {
            if self.is_same(&key, &head, digest, page, sameness)? && self.engine().can_read(&key, head.version)? {
                return Ok(None);
            }
            if !self.know_all(known, &key)? {
                let held = self.is_held(&key, digest, page, sameness)?;
                return Ok((held != Some(true)).then_some(Arrival { key, prints: None, mends: held.is_some() }));
            }
        }
        let prints = prints(&key, page.fetched_at_ms, digest, body_bytes, &page.description())?;
        if known.contains(prints[sameness as usize]) {
            return Ok(None);
        }
        Ok(Some(Arrival { key, prints: Some(prints), mends: known.is_unreadable(prints[sameness as usize]) }))
    }

    /// Returns whether this version of the key can be read; `None` if the store has no such
    /// version. For keys with more versions than fit in memory, or with damaged ones.
    fn is_held(&self, key: &[u8], digest: [u8; 16], page: &Page, sameness: Sameness) -> Result<Option<bool>> {
        let mut held = None;
        for (_, head) in self.each_head(key.to_vec()) {
            let same = match head {
                Ok(head) if head.version.time_ms != page.fetched_at_ms => continue,
                Ok(head) => self.is_same(key, &head, digest, page, sameness).map(|same| same.then_some(head.version)),
                Err(error) => Err(error),
            };
            match same {
                Ok(Some(version)) if self.engine().can_read(key, version)? => return Ok(Some(true)),
                Ok(Some(_)) => held = Some(false),
                Err(error) if !error.is_damage() => return Err(error),
                _ => {}
            }
        }
        Ok(held)
    }

    /// The body with this SHA-1 among the versions of this key and time; `None` if there is none.
    pub(crate) fn original_body(
        &self,
        known: &mut Known,
        key: &[u8],
        time_ms: i64,
        sha1: &[u8; 20],
    ) -> Result<Option<Vec<u8>>> {
        let print = print(3, key, time_ms, [sha1, b""]);
        if let Some(body) = known.original(print) {
            return Ok(Some(body.to_vec()));
        }
        let found = self.body_of_time(key, time_ms, |body| sha1_of(&[body]) == *sha1)?;
        if let Some(body) = &found {
            known.keep_original(print, body);
        }
        Ok(found)
    }

    /// The newest version of this time. `None` also if it is damaged, since putting the page again
    /// repairs it.
    pub(super) fn head_of_time(&self, key: &[u8], time_ms: i64) -> Result<Option<Head>> {
        match self.engine().head_at(key, time_ms) {
            Err(e) if e.is_corrupt() => Ok(None),
            head => Ok(head?.filter(|head| head.version.time_ms == time_ms)),
        }
    }

    /// Loads all versions of a key into `known`; unreadable ones separately, since putting them
    /// again repairs them. Returns false if there are too many, or if the list itself is damaged.
    fn know_all(&self, known: &mut Known, key: &[u8]) -> Result<bool> {
        let (mut all, mut unreadable) = (Vec::new(), Vec::new());
        for (version, head) in self.each_head(key.to_vec()) {
            known.count(1);
            match head.and_then(|head| Ok((self.prints_of(key, &head)?, self.engine().can_read(key, head.version)?))) {
                Ok((prints, true)) => all.extend(prints),
                Ok((prints, false)) => unreadable.extend(prints),
                Err(error) if !error.is_damage() => return Err(error),
                Err(_) if version.is_none() => return Ok(false),
                Err(_) => {}
            }
        }
        known.load(key, all.into_iter());
        known.add_unreadable(unreadable);
        Ok(known.ask(key) == Heat::Loaded)
    }

    fn prints_of(&self, key: &[u8], head: &Head) -> Result<Prints> {
        let page = self.describe(key, head)?;
        prints(key, head.version.time_ms, head.digest, self.body_bytes(key, head)?, &page)
    }

    fn is_same(&self, key: &[u8], head: &Head, digest: [u8; 16], page: &Page, sameness: Sameness) -> Result<bool> {
        if head.digest != digest {
            return Ok(false);
        }
        let mut stored = self.describe(key, head)?;
        if sameness == Sameness::Visit {
            return Ok(stored.status == page.status);
        }
        if sameness == Sameness::Description {
            stored.record_id.clone_from(&page.record_id);
        }
        let mut same = page.description();
        if let Some(revisit) = &mut same.revisit {
            revisit.original = None;
        }
        Ok(stored == same)
    }
}

/// The fingerprints of a version, in the order of [`Sameness`]. `page` has no body.
fn prints(key: &[u8], time_ms: i64, digest: [u8; 16], body_bytes: u64, page: &Page) -> Result<Prints> {
    let encoded = |page: &Page| -> Result<Vec<u8>> {
        let encoded = meta::encode(page, b"")?;
        Ok([encoded.meta, encoded.spill].concat())
    };
    let everything = print(0, key, time_ms, [&digest, &encoded(page)?]);
    let description = print(1, key, time_ms, [&digest, &encoded(&Page { record_id: None, ..page.clone() })?]);
    let visit = match body_bytes {
        0 => description,
        _ => print(2, key, time_ms, [&digest, &page.status.unwrap_or_default().to_le_bytes()]),
    };
    Ok([visit, description, everything])
}

impl PageStore {
    /// The version of this key and sequence, without its body.
    pub(crate) fn version_of_sequence(&self, key: &[u8], sequence: u64) -> Result<Option<Page>> {
        let mut heads = self.each_head(key.to_vec());
        let found = heads.find(|(version, _)| version.is_none_or(|version| version.sequence == sequence));
        found.map(|(_, head)| self.describe(key, &head?)).transpose()
    }

    /// The first readable body of this key and time that `is_it` accepts; `None` if there is none.
    pub(crate) fn body_of_time(
        &self,
        key: &[u8],
        time_ms: i64,
        is_it: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        for version in self.engine().versions_of(key)?.into_iter().filter(|version| version.time_ms == time_ms) {
            let page = match self.value_of(key, version) {
                Ok(value) => value.map(|value| self.stored(key, value)).transpose(),
                Err(error) => Err(error),
            };
            let page = match page {
                Err(error) if error.is_damage() => continue,
                page => page?,
            };
            let Some(page) = page else { continue };
            if page.kind != RecordKind::Revisit && is_it(&page.body) {
                return Ok(Some(page.body));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use filemap_core::Options;

    use super::*;

    fn store() -> (PageStore, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a folder");
        let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).expect("a store");
        (store, dir)
    }

    fn pages(number: usize, body: impl Fn(usize) -> String) -> Vec<Page> {
        (0..number)
            .map(|at| {
                let mut page = Page::new("http://a/", 7, 200, body(at));
                page.headers.push("Nth", at.to_string());
                page.record_id = Some(format!("<urn:{at}>"));
                page
            })
            .collect()
    }

    /// Loads pages twice. Returns how many were put, how many were put again, and how many
    /// versions were read.
    fn load(pages: &[Page], put: impl Fn(&mut Loader, &PageStore, &Page) -> Option<Put>) -> (usize, usize, u64) {
        let (store, _dir) = store();
        let mut looked_at = 0;
        let mut once = || {
            let mut loader = Loader::default();
            let stored = pages.iter().filter(|page| put(&mut loader, &store, page).is_some()).count();
            looked_at += loader.known.looked_at;
            stored
        };
        (once(), once(), looked_at)
    }

    #[test]
    fn versions_of_one_url_and_time_are_loaded_and_loaded_again_in_linear_work() {
        let visit =
            |loader: &mut Loader, store: &PageStore, page: &Page| loader.put_page_if_new(store, page).expect("stored");
        let exact = |loader: &mut Loader, store: &PageStore, page: &Page| {
            loader.put_stored_if_new(store, page, BodyForm::Whole).expect("stored")
        };
        for number in [300, 600] {
            let most = 2 * number as u64 + 100;
            let (bodies, empty) = (pages(number, |at| format!("body {at}")), pages(number, |_| String::new()));
            let same = pages(number, |_| "one body".to_owned());
            for (pages, stored) in [(&bodies, number), (&empty, number), (&same, number)] {
                let (once, again, looked_at) = load(pages, visit);
                assert_eq!((once, again), (stored, 0));
                assert!(looked_at <= most, "{looked_at} versions looked at for {number} visits");
            }
            for pages in [&bodies, &empty, &same] {
                let (once, again, looked_at) = load(pages, exact);
                assert_eq!((once, again), (number, 0));
                assert!(looked_at <= most, "{looked_at} versions looked at for {number} versions");
            }
        }
    }

    #[test]
    fn a_visit_without_a_body_is_the_same_but_for_its_record_id() {
        let (store, _dir) = store();
        let mut loader = Loader::default();
        let mut page = Page::new("http://a/", 7, 304, "");
        for nth in 0..20 {
            page.record_id = Some(format!("<urn:{nth}>"));
            assert_eq!(loader.put_page_if_new(&store, &page).expect("stored").is_some(), nth == 0);
        }
        assert!(loader.put_stored_if_new(&store, &page, BodyForm::Whole).expect("stored").is_some(), "the id differs");
        page.headers.push("A", "b");
        assert!(loader.put_page_if_new(&store, &page).expect("stored").is_some(), "another description");
        assert!(loader.put_page_if_new(&store, &page).expect("stored").is_none());
        page.fetched_at_ms += 1;
        assert!(loader.put_page_if_new(&store, &page).expect("stored").is_some(), "another time");
    }
}
