//! Counts the revisits whose original is not in the store.
//!
//! An original may come after its revisits, so revisits are collected and resolved together: the
//! versions of each URL are then read once, however many revisits it has.
//!
//! Invariant: memory is bounded. At the bound, collected revisits that resolve are dropped; the
//! others are counted as unresolved, and dropped too if they still take over half of it. A sum of
//! collections ([`Unresolved::add`]) that is not kept at the bound counts as unresolved what
//! exceeds twice the bound.

use std::ops::ControlFlow;

use filemap_core::Version;

use super::PageStore;
use super::read::unreadable;
use super::revisit::{Resolver, Sought};
use crate::error::Result;
use crate::page::version::PageHead;
use crate::page::{Page, RecordKind, Revisit, key};

/// Maximum memory for collected revisits, in bytes.
const MAX_BYTES: usize = 48 << 20;
/// Number of versions read between two cancellation checks.
const VERSIONS_AT_ONCE: u64 = 1024;
/// Maximum number of damaged versions that a pass skips before it fails.
const MAX_FAILURES: u32 = 1_000_000;
/// Maximum number of URLs listed in a [`RevisitCount`].
const MAX_NAMED: usize = 10;

/// Calls for the store of a URL: the one that has, or gets, its pages.
type Stores<'a> = dyn FnMut(&[u8]) -> Result<PageStore> + 'a;

/// Revisits collected by an import, to be resolved after its last file.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::import::{ImportOptions, import};
/// # use filemap::{Options, PageStore};
/// use filemap::store::Unresolved;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut all = Unresolved::default();
/// for (name, file) in [("a.warc", &b""[..]), ("b.warc", &b""[..])] {
///     let go_on = &mut |_| ControlFlow::Continue(());
///     all.add(import(&store, name, file, &ImportOptions::new(), go_on)?.unresolved);
///     all.keep_bounded(&store)?;
/// }
/// assert_eq!(all.count(&store)?.unresolved, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unresolved {
    sought: Vec<Sought>,
    bytes: usize,
    /// Number of unresolved revisits dropped to save memory.
    let_go: u64,
    /// Number of revisits collected in total.
    revisits: u64,
}

/// Number of revisits, and of those without a body.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::{Options, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let count = store.count_revisits(&mut |_| ControlFlow::Continue(()))?.expect("not cancelled");
/// println!("no body for {} of {} revisits", count.unresolved, count.revisits);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RevisitCount {
    /// Number of revisits.
    pub revisits: u64,
    /// Number of revisits without a body, because the original is not in the store.
    pub unresolved: u64,
    /// Canonical URLs of some unresolved revisits, each once.
    pub urls: Vec<Vec<u8>>,
}

impl Unresolved {
    /// Adds a page that was put under this key, if it is a revisit without a body. Keep it at the
    /// bound then.
    pub(crate) fn push(&mut self, store: &PageStore, key: &[u8], page: &Page, body_bytes: u64) {
        let Some(sought) = store.sought(key, page) else { return };
        self.revisits += 1;
        if body_bytes == 0 && !page.is_of_no_bytes() {
            self.bytes += sought.bytes();
            self.sought.push(sought);
        }
    }

    /// Adds the revisits of another collection. To count exactly, call
    /// [`Unresolved::keep_bounded`] after it: without that, revisits that exceed 96 MiB count as
    /// unresolved.
    pub fn add(&mut self, other: Unresolved) {
        self.let_go += other.let_go;
        self.revisits += other.revisits;
        if self.bytes + other.bytes > 2 * MAX_BYTES {
            self.let_go += other.sought.len() as u64;
            return;
        }
        self.sought.extend(other.sought);
        self.bytes += other.bytes;
    }

    /// If the revisits take over 48 MiB, drops those that have an original in the store; if the
    /// others take over half of that, counts them as unresolved and drops them too.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::history`].
    pub fn keep_bounded(&mut self, store: &PageStore) -> Result<()> {
        self.keep_bounded_in(&mut |_| Ok(store.clone()))
    }

    /// As [`Unresolved::keep_bounded`], of an import into several stores: see
    /// [`Unresolved::count_in`].
    ///
    /// # Errors
    ///
    /// As [`Unresolved::count_in`].
    pub fn keep_bounded_in(&mut self, stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>) -> Result<()> {
        if self.bytes <= MAX_BYTES {
            return Ok(());
        }
        self.settle(stores)?;
        if self.bytes > MAX_BYTES / 2 {
            self.let_go += self.sought.len() as u64;
            self.sought.clear();
            self.bytes = 0;
        }
        Ok(())
    }

    /// Finds the originals, and drops the revisits that have one. Reads the descriptions of all
    /// versions of the URLs concerned.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::history`].
    pub fn count(&mut self, store: &PageStore) -> Result<RevisitCount> {
        self.count_in(&mut |_| Ok(store.clone()))
    }

    /// As [`Unresolved::count`], of an import into the store that `stores` returns for a URL
    /// (`import_into`). A revisit is looked for in the store of its own URL, and in that of the
    /// URL that it names.
    ///
    /// # Errors
    ///
    /// As [`Unresolved::count`], and those of `stores`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::ops::ControlFlow;
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::import::{ImportOptions, ImportProgress, import_into};
    /// # use filemap::{Options, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// let mut stores = |url: &[u8]| store.member_of(url).cloned();
    /// let go_on = &mut |_: ImportProgress| ControlFlow::Continue(());
    /// let mut report = import_into(&mut stores, "a.warc", &b""[..], &ImportOptions::new(), go_on)?;
    /// assert_eq!(report.unresolved.count_in(&mut stores)?.unresolved, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_in(&mut self, stores: &mut dyn FnMut(&[u8]) -> Result<PageStore>) -> Result<RevisitCount> {
        self.settle(stores)?;
        let mut urls: Vec<Vec<u8>> = Vec::new();
        for url in self.sought.iter().map(|sought| key::url(sought.own())) {
            if urls.len() == MAX_NAMED {
                break;
            }
            if urls.iter().all(|known| known.as_slice() != url) {
                urls.push(url.to_vec());
            }
        }
        let unresolved = self.let_go + self.sought.len() as u64;
        Ok(RevisitCount { revisits: self.revisits, unresolved, urls })
    }

    /// Drops the revisits with an original in their own store, then those with one in the store of
    /// the URL that they name.
    fn settle(&mut self, stores: &mut Stores<'_>) -> Result<()> {
        self.sought.sort_unstable();
        let (mut met, mut open) = (Vec::new(), Vec::new());
        for sought in self.sought.drain(..) {
            let own = met_as(&mut met, stores(key::url(sought.own()))?);
            let named = sought.elsewhere().map(|named| stores(key::url(named))).transpose()?;
            let named = named.map(|store| met_as(&mut met, store)).filter(|named| *named != own);
            open.push(Open { sought, own, named });
        }
        let left = unfound(&met, open, |open| Some(open.own))?;
        let left = unfound(&met, left, |open| open.named)?;
        self.sought = left.into_iter().map(|open| open.sought).collect();
        self.bytes = self.sought.iter().map(Sought::bytes).sum();
        Ok(())
    }
}

/// A revisit whose original is searched for.
struct Open {
    sought: Sought,
    /// The number of its store.
    own: usize,
    /// That of the URL which it names, if it is another.
    named: Option<usize>,
}

/// The number of a store among those met, with which it is from now on.
fn met_as(met: &mut Vec<PageStore>, store: PageStore) -> usize {
    let known = met.iter().position(|known| known.engine().path() == store.engine().path());
    known.unwrap_or_else(|| {
        met.push(store);
        met.len() - 1
    })
}

/// The revisits that have no original in the store `of` gives for them; those without such a store
/// stay too. One store is searched after the other, so memory is that of one.
fn unfound(stores: &[PageStore], mut all: Vec<Open>, of: impl Fn(&Open) -> Option<usize>) -> Result<Vec<Open>> {
    all.sort_by_key(&of);
    let (mut left, mut last) = (Vec::new(), None);
    for open in all {
        let Some(number) = of(&open) else {
            left.push(open);
            continue;
        };
        let resolver = || (number, Resolver::new(&stores[number]));
        let (known, asked) = last.get_or_insert_with(resolver);
        if *known != number {
            (*known, *asked) = resolver();
        }
        match asked.find(&open.sought) {
            Ok(Some(_)) => {}
            Ok(None) => left.push(open),
            // A damaged original provides no body.
            Err(error) if error.is_damage() => left.push(open),
            Err(error) => return Err(error),
        }
    }
    Ok(left)
}

impl PageStore {
    /// Number of versions of pages that are revisits, and of those without an original in the
    /// store; `None` if cancelled. Takes one sequential pass over the value log without bodies.
    /// `progress` gets the number of versions read. Damaged versions are skipped: verification
    /// reports them.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::history`].
    pub fn count_revisits(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Option<RevisitCount>> {
        let mut unresolved = Unresolved::default();
        let mut stores = |_: &[u8]| -> Result<PageStore> { Ok(self.clone()) };
        let is_whole = self.add_revisits(&mut unresolved, &mut stores, progress)?;
        is_whole.then(|| unresolved.count(self)).transpose()
    }

    /// Adds the revisits of this store, which is one of `stores`; returns false if cancelled.
    pub(crate) fn add_revisits(
        &self,
        unresolved: &mut Unresolved,
        stores: &mut Stores<'_>,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<bool> {
        self.each_revisit(progress, &mut |key: Vec<u8>, head: PageHead| {
            let head = match self.with_references(&key, head.clone()) {
                // It has no body, whatever it refers to.
                Err(error) if error.is_damage() => head,
                head => head?,
            };
            unresolved.push(self, &key, &head.page, head.body_bytes);
            unresolved.keep_bounded_in(stores)
        })
    }

    /// Calls `each` with the key and head of every version of a page or variant that is a revisit.
    /// `progress` gets the number of versions read; returns false if it cancels. Skips damaged
    /// versions.
    fn each_revisit(
        &self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
        each: &mut dyn FnMut(Vec<u8>, PageHead) -> Result<()>,
    ) -> Result<bool> {
        let mut failures = 0;
        for (nth, listed) in (0..).zip(self.engine().version_heads()) {
            if nth % VERSIONS_AT_ONCE == 0 && progress(nth).is_break() {
                return Ok(false);
            }
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) if error.is_corrupt() && failures < MAX_FAILURES => {
                    failures += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !key::is_page(&listed.key) && !key::is_variant(&listed.key) {
                continue;
            }
            let (key, head) = (listed.key, listed.head);
            match self.page_head(&key, head) {
                Ok(head) if head.page.kind != RecordKind::Revisit => {}
                Ok(head) => each(key, head)?,
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Adds the references of a revisit. An index only says that a page in place is a revisit:
    /// then its record is read.
    fn with_references(&self, key: &[u8], mut head: PageHead) -> Result<PageHead> {
        let is_untold = head.page.revisit.as_ref() == Some(&Revisit::unnamed());
        let Some(place) = head.page.in_place.filter(|_| is_untold) else { return Ok(head) };
        let page = self.of_archive(key, head.page, place);
        head.page = page.map_err(|error| unreadable(key, Some(head.version), error))?;
        Ok(head)
    }

    /// As [`PageStore::each_revisit`], in batches, sorted by key and version.
    pub(crate) fn revisits_in_batches(
        &self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
        each: &mut dyn FnMut(Vec<FoundRevisit>) -> Result<()>,
    ) -> Result<bool> {
        let mut sorted = |mut batch: Vec<FoundRevisit>| {
            batch.sort_unstable_by(|(a, of_a), (b, of_b)| (a.own(), of_a).cmp(&(b.own(), of_b)));
            each(batch)
        };
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let whole = self.each_revisit(progress, &mut |key, head| {
            let head = self.with_references(&key, head)?;
            let Some(sought) = self.sought(&key, &head.page) else { return Ok(()) };
            bytes += sought.bytes();
            batch.push((sought, head.version));
            if bytes > MAX_BYTES {
                bytes = 0;
                sorted(std::mem::take(&mut batch))?;
            }
            Ok(())
        })?;
        if whole {
            sorted(batch)?;
        }
        Ok(whole)
    }
}

/// A revisit: its references, and its version.
pub(crate) type FoundRevisit = (Sought, Version);

#[cfg(test)]
mod tests {
    use filemap_core::Options;

    use super::*;

    fn revisit(url: &str) -> Page {
        let revisit = Some(Revisit::unnamed());
        let digest = Some("sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5".to_owned());
        Page { kind: RecordKind::Revisit, revisit, digest, ..Page::new(url, 0, 200, "") }
    }

    /// The revisits of these URLs, as if they took as many bytes.
    fn of(store: &PageStore, urls: &[&str], bytes: usize) -> Unresolved {
        let mut unresolved = Unresolved::default();
        for page in urls.iter().map(|url| revisit(url)) {
            unresolved.push(store, &store.key_of_page(&page).unwrap(), &page, 0);
        }
        Unresolved { bytes, ..unresolved }
    }

    #[test]
    fn the_sum_of_many_files_is_bounded_and_what_it_drops_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).unwrap();
        let mut all = Unresolved::default();
        for file in 0..5 {
            all.add(of(&store, &[&format!("http://a.example/{file}")], MAX_BYTES));
            assert!(all.bytes <= 2 * MAX_BYTES, "{}", all.bytes);
        }
        assert_eq!(all.sought.len(), 2);
        let count = all.count(&store).unwrap();
        assert_eq!((count.revisits, count.unresolved), (5, 5));
    }

    #[test]
    fn originals_are_searched_in_the_store_of_a_revisit_and_in_that_of_the_url_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let stores = ["a.fm", "b.fm"].map(|name| PageStore::create(dir.path().join(name), Options::new()).unwrap());
        let of_url = |url: &[u8]| stores[usize::from(url.starts_with(b"http://b."))].clone();
        let names_b = Some(Revisit { refers_to_url: Some(b"http://b.example/".to_vec()), ..Revisit::unnamed() });
        let mut all = Unresolved::default();
        for page in [
            Page { revisit: names_b, ..revisit("http://a.example/") },
            revisit("http://b.example/"),
            revisit("http://c.example/"),
        ] {
            let store = of_url(&page.url);
            all.push(&store, &store.key_of_page(&page).unwrap(), &page, 0);
        }
        let digest = revisit("http://b.example/").digest;
        stores[1].put_page(&Page { digest, ..Page::new("http://b.example/", 0, 200, "A page.") }).unwrap();
        assert_eq!(all.clone().count(&stores[0]).unwrap().unresolved, 3, "the first has none");
        let mut at_the_bound = Unresolved { bytes: MAX_BYTES + 1, ..all.clone() };
        at_the_bound.keep_bounded_in(&mut |url| Ok(of_url(url))).unwrap();
        assert_eq!(at_the_bound.sought.len(), 1);
        for mut all in [all, at_the_bound] {
            let count = all.count_in(&mut |url| Ok(of_url(url))).unwrap();
            assert_eq!((count.revisits, count.unresolved, count.urls), (3, 1, vec![b"http://c.example/".to_vec()]));
        }
    }

    #[test]
    fn at_the_bound_revisits_with_an_original_are_dropped_and_the_others_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = PageStore::create(dir.path().join("pages.fm"), Options::new()).unwrap();
        let digest = revisit("http://a.example/").digest;
        store.put_page(&Page { digest, ..Page::new("http://a.example/", 0, 200, "A page.") }).unwrap();
        for by_url in [false, true] {
            let mut all = of(&store, &["http://a.example/", "http://b.example/"], MAX_BYTES);
            match by_url {
                false => all.keep_bounded(&store).unwrap(),
                true => all.keep_bounded_in(&mut |_| Ok(store.clone())).unwrap(),
            }
            assert_eq!(all.sought.len(), 2, "not yet at the bound");
            all.add(of(&store, &["http://a.example/"], 1));
            match by_url {
                false => all.keep_bounded(&store).unwrap(),
                true => all.keep_bounded_in(&mut |_| Ok(store.clone())).unwrap(),
            }
            assert!(all.sought.len() == 1 && all.bytes < 1024, "{all:?}");
            let count = all.count(&store).unwrap();
            assert_eq!((count.revisits, count.unresolved), (3, 1));
            assert_eq!(count.urls, [b"http://b.example/".to_vec()]);
        }
    }
}
