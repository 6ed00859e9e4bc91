//! [`PageStore`]: opening, closing, and the canonicaliser that makes its keys.
//!
//! The superblock holds the canonicaliser's name and version. Opening uses the one that the store
//! was made with; asking for another is an error that says how to move. Upkeep of the engine
//! (verify, statistics, checkpoints) is reached through [`PageStore::engine`].

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use filemap_core::erase::Admission;
use filemap_core::{Options, Store};
use urlindex::{Canonicalizer, Whatwg};

use crate::archives::{Archives, LocalArchives};
use crate::error::{Error, Result};
use crate::page::variant::Variant;
use crate::page::{Page, RecordKind, key, order};
use crate::store::admit::Admits;
use crate::store::among::Siblings;
use crate::store::rules::RuleSet;

/// A store of pages by URL. Cheap to clone; `Send` and `Sync`, as the engine is.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::{Options, Page, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://Example.com:80/#top", 1_700_000_000_000, 200, "hello"))?;
/// let page = store.get("http://example.com/")?.expect("just put");
/// assert_eq!((page.body, page.url), (b"hello".to_vec(), b"http://Example.com:80/#top".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PageStore {
    pub(super) engine: Store,
    pub(super) canonicalizer: Arc<dyn Canonicalizer>,
    /// The erase rules in force.
    pub(crate) rule_set: Arc<RwLock<Arc<RuleSet>>>,
    /// The filter for originals of revisits.
    pub(super) admits: Admits,
    /// Opens the archive files of pages in place.
    pub(crate) archives: Arc<dyn Archives>,
    /// The stores that are one with this one.
    pub(super) siblings: Option<Siblings>,
}

/// Engine options of a store of pages, which [`PageStore`] sets itself: pages of one scheme and
/// host share a dictionary, the store counts the URLs that have a page
/// ([`PageStore::count_pages`]), and it keeps its keys in order ([`PageStore::listing`]). For
/// programs that write such a store through [`Store`].
///
/// With [`Options::end_key_order`] it keeps no order: this saves a few bytes a page, and lists
/// take a pass over the key log.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::{Options, Page, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let store = PageStore::create(dir.path().join("a.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// store.close()?;
/// let engine = filemap_core::Store::open(dir.path().join("a.fm"), filemap::store::page_options(Options::new()))?;
/// engine.compact()?;
/// # Ok(())
/// # }
/// ```
pub fn page_options(options: Options) -> Options {
    let options = options.dictionary_group(key::site).counted(key::is_page);
    if options.ends_key_order() { options } else { options.key_order(order::ORDER) }
}

impl PageStore {
    /// Creates a store in a new or empty directory; its keys are made by [`Whatwg`].
    ///
    /// # Errors
    ///
    /// Those of [`Store::create`].
    pub fn create(path: impl AsRef<Path>, options: Options) -> Result<PageStore> {
        PageStore::create_with(path, Arc::new(Whatwg), options)
    }

    /// Creates a store in a new or empty directory; its keys are made by `canonicalizer`.
    ///
    /// # Errors
    ///
    /// Those of [`Store::create`].
    pub fn create_with(
        path: impl AsRef<Path>,
        canonicalizer: Arc<dyn Canonicalizer>,
        options: Options,
    ) -> Result<PageStore> {
        let options = options.canonicalizer(canonicalizer.name(), canonicalizer.version());
        PageStore::obeying(Store::create(path, page_options(options))?, canonicalizer)
    }

    /// Opens a store for writing, with the canonicaliser that it was made with.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open`], and [`Error::UnknownCanonicalizer`].
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<PageStore> {
        PageStore::over(Store::open(path, page_options(options))?)
    }

    /// Opens a store for writing; it must have been made with this canonicaliser.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open`]; [`filemap_core::Error::Canonicalizer`] if it was made with
    /// another.
    pub fn open_with(
        path: impl AsRef<Path>,
        canonicalizer: Arc<dyn Canonicalizer>,
        options: Options,
    ) -> Result<PageStore> {
        let options = options.canonicalizer(canonicalizer.name(), canonicalizer.version());
        PageStore::obeying(Store::open(path, page_options(options))?, canonicalizer)
    }

    /// Opens a store as a follower, in any process, while another may write it.
    ///
    /// # Errors
    ///
    /// Those of [`Store::open_read_only`], and [`Error::UnknownCanonicalizer`].
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<PageStore> {
        PageStore::over(Store::open_read_only(path, page_options(options))?)
    }

    /// Opens a store for writing; creates one ([`Whatwg`]) if the directory is missing or empty.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::open`] and [`PageStore::create`].
    pub fn open_or_create(path: impl AsRef<Path>, options: Options) -> Result<PageStore> {
        use filemap_core::Error::{NotAStore, NotEmpty};
        match PageStore::open(&path, options.clone()) {
            Err(Error::Engine(NotAStore { .. })) => {}
            opened => return opened,
        }
        match PageStore::create(&path, options.clone()) {
            // Another process was faster, or the directory holds something else: opening reports
            // which.
            Err(Error::Engine(NotEmpty { .. })) => PageStore::open(path, options),
            created => created,
        }
    }

    /// A store of pages over an open engine, which was opened with [`page_options`].
    ///
    /// # Errors
    ///
    /// [`Error::UnknownCanonicalizer`].
    pub fn over(engine: Store) -> Result<PageStore> {
        let made_with = engine.canonicalizer();
        match urlindex::canonical::named(&made_with.name, made_with.version) {
            Some(canonicalizer) => PageStore::obeying(engine, canonicalizer),
            None => Err(Error::UnknownCanonicalizer {
                path: engine.path().to_owned(),
                name: made_with.name,
                version: made_with.version,
            }),
        }
    }

    /// A store of pages over an open engine, with its erase rules in force.
    fn obeying(engine: Store, canonicalizer: Arc<dyn Canonicalizer>) -> Result<PageStore> {
        let (rule_set, admits, archives) = (Arc::default(), Admits::default(), Arc::new(LocalArchives));
        let store = PageStore { engine, canonicalizer, rule_set, admits, archives, siblings: None };
        store.obey()?;
        Ok(store)
    }

    /// Applies the current erase rules to everything that is put.
    pub(crate) fn obey(&self) -> Result<()> {
        let rules = self.engine().rules().map_err(Error::from).and_then(|rules| RuleSet::of(&rules));
        if self.engine().is_read_only() {
            // For bodies in place, which no erasure reaches. All others stay readable, even if a
            // newer FileMap wrote a rule.
            let set = rules.unwrap_or_else(|error| RuleSet::unread(error.to_string()));
            *self.rule_set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
            return Ok(());
        }
        let set = Arc::new(rules?);
        let admission = (!set.is_empty()).then(|| Arc::clone(&set) as Arc<dyn Admission>);
        *self.rule_set.write().unwrap_or_else(PoisonError::into_inner) = set;
        self.engine().set_admission(admission);
        Ok(())
    }

    /// The engine below.
    pub fn engine(&self) -> &Store {
        &self.engine
    }

    /// The canonicaliser that makes this store's keys.
    pub fn canonicalizer(&self) -> &Arc<dyn Canonicalizer> {
        &self.canonicalizer
    }

    /// The canonical form of `url`: the key of its page.
    ///
    /// # Errors
    ///
    /// [`Error::Url`] if it is not a URL by the store's canonicaliser.
    pub fn key(&self, url: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let url = url.as_ref();
        self.canonicalizer.canonicalize(url).map_err(|source| Error::url(url, source))
    }

    /// The key of a record of this kind.
    pub(crate) fn key_of(&self, url: &[u8], kind: RecordKind, variant: Option<&Variant>) -> Result<Vec<u8>> {
        Ok(key::key(&self.key(url)?, kind, variant))
    }

    /// The key that `page` is put under.
    pub(crate) fn key_of_page(&self, page: &Page) -> Result<Vec<u8>> {
        self.key_of(&page.url, page.kind, page.variant.as_ref())
    }

    /// Makes all earlier puts durable.
    ///
    /// # Errors
    ///
    /// Those of [`Store::sync`].
    pub fn sync(&self) -> Result<()> {
        Ok(self.engine.sync()?)
    }

    /// Closes the store, so that opening it again replays nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Store::close`].
    pub fn close(self) -> Result<()> {
        Ok(self.engine.close()?)
    }
}
