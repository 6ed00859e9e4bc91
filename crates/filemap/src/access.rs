//! The interface of every store of pages: [`PageRead`] and [`PageWrite`], object-safe and
//! blocking.
//!
//! A store on this machine implements them; one behind HTTP or in object storage can. A command, a
//! server or a crawler that takes `&dyn PageRead` and `&dyn PageWrite` works with each.
//! [`Capabilities`] says what a store promises. Upkeep of files (verify, compact, backup) is not
//! here: only a local store has it.

use filemap_core::Put;

use crate::error::Result;
use crate::page::Page;
use crate::page::variant::Variant;
use crate::page::version::PageHead;

/// What a store promises.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::Survives;
/// use filemap::{Durability, Options, PageRead, PageStore};
///
/// let dir = tempfile::tempdir()?;
/// let options = Options::new().durability(Durability::Sync);
/// let store = PageStore::create(dir.path().join("pages.fm"), options)?;
/// assert_eq!(store.capabilities().survives, Survives::Put);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// What is still there after a crash or a power loss.
    pub survives: Survives,
    /// Earlier versions of a page are kept and can be read.
    pub has_history: bool,
    /// [`PageRead::list`] gives URLs in SURT order.
    pub lists_in_order: bool,
    /// [`PageRead::list`] gives cursors, and continues after one.
    pub lists_from_cursor: bool,
    /// The store has files here that can be verified, repaired, compacted and backed up.
    pub has_upkeep: bool,
}

/// What survives a crash.
///
/// ```
/// use filemap::access::Survives;
/// assert!(Survives::Put > Survives::Sync, "a store whose puts survive promises more");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Survives {
    /// What was put before [`PageWrite::sync`] returned.
    Sync,
    /// What [`PageWrite::put`] returned for.
    Put,
}

impl Capabilities {
    /// Those of a store that keeps no history, lists in no order, and has no upkeep.
    pub fn new(survives: Survives) -> Capabilities {
        let no = false;
        Capabilities { survives, has_history: no, lists_in_order: no, lists_from_cursor: no, has_upkeep: no }
    }
}

/// Which page is meant: its URL, a variant of it, a time. A reference to a URL is a lookup of its
/// newest page.
///
/// ```
/// use filemap::{Lookup, Variant};
///
/// let page = Lookup::new("http://example.com/").at(1_700_000_000_000);
/// assert_eq!((page.url, page.variant, page.time_ms), (&b"http://example.com/"[..], None, Some(1_700_000_000_000)));
/// let session = Variant::new("session 7").unwrap();
/// assert_eq!(Lookup::new("http://example.com/").variant(&session).variant, Some(&session));
/// assert_eq!(Lookup::from("http://example.com/"), Lookup::new("http://example.com/"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup<'a> {
    /// The URL, canonical or not.
    pub url: &'a [u8],
    /// `None`: the page itself.
    pub variant: Option<&'a Variant>,
    /// The version that was newest at this time, in ms since 1970; `None`: the newest.
    pub time_ms: Option<i64>,
}

impl<'a> Lookup<'a> {
    /// The newest version of a page.
    pub fn new<U: AsRef<[u8]> + ?Sized>(url: &'a U) -> Lookup<'a> {
        Lookup { url: url.as_ref(), variant: None, time_ms: None }
    }

    /// Of this variant.
    pub fn variant(mut self, variant: impl Into<Option<&'a Variant>>) -> Lookup<'a> {
        self.variant = variant.into();
        self
    }

    /// The version that was newest at `time_ms`.
    pub fn at(mut self, time_ms: i64) -> Lookup<'a> {
        self.time_ms = Some(time_ms);
        self
    }
}

impl<'a, U: AsRef<[u8]> + ?Sized> From<&'a U> for Lookup<'a> {
    fn from(url: &'a U) -> Lookup<'a> {
        Lookup::new(url)
    }
}

/// Which URLs to list.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::Scope;
/// use filemap::{Options, Page, PageRead, PageStore};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/a", 1_700_000_000_000, 200, "hello"))?;
/// assert_eq!(store.list(&Scope::Host("Example.com".to_owned()), None)?.count(), 1);
/// assert_eq!(store.list(&Scope::Prefix(b"http://example.com/b".to_vec()), None)?.count(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// Those of one host, in any spelling (`Example.com`).
    Host(String),
    /// Those whose canonical form begins with these bytes.
    Prefix(Vec<u8>),
}

/// A place in a listing, to continue from. Opaque; it can be kept and sent.
///
/// ```
/// use filemap::access::{Cursor, Listed};
/// let listed = Listed::new(b"http://example.com/".to_vec(), Some(Cursor(vec![1, 2])));
/// assert_eq!(listed.cursor, Some(Cursor(vec![1, 2])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub Vec<u8>);

/// One page of a listing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::{Options, Page, PageRead, PageStore};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let listed = store.list(&Default::default(), None)?.next().expect("a page")?;
/// assert_eq!((listed.url.as_slice(), listed.cursor), (&b"http://example.com/"[..], None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its canonical URL.
    pub url: Vec<u8>,
    /// Where to continue after it; `None` if the store gives no cursors.
    pub cursor: Option<Cursor>,
}

impl Listed {
    /// A page, and where to continue after it.
    pub fn new(url: Vec<u8>, cursor: Option<Cursor>) -> Listed {
        Listed { url, cursor }
    }
}

/// What a store holds; `None` where it is not cheap to know.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::{Options, PageRead, PageStore};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// assert_eq!(store.contents()?.keys, Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// Pages, variants and records beside them, as of the last checkpoint.
    pub keys: Option<u64>,
    /// Bytes on the device.
    pub bytes: Option<u64>,
}

/// How a page is put.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::PutRule;
/// use filemap::{Options, Page, PageStore, PageWrite, Put};
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let visit = |time_ms| Page::new("http://example.com/", time_ms, 200, "hello");
/// store.put(&visit(1_700_000_000_000), PutRule::Always)?;
/// assert!(matches!(store.put(&visit(1_700_000_900_000), PutRule::IfChanged)?, Some(Put::Unchanged(_))));
/// assert_eq!(store.put(&visit(1_700_000_900_000), PutRule::IfNew)?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutRule {
    /// As a version of its own.
    #[default]
    Always,
    /// As a reference to the newest version, if the body is the same.
    IfChanged,
    /// As `IfChanged`, and not at all if the store has this very version: repeating it adds
    /// nothing.
    IfNew,
}

/// A boxed iterator of results.
pub type Results<'a, T> = Box<dyn Iterator<Item = Result<T>> + 'a>;

/// Pages with their URLs, in the order of the URLs given.
pub type Fetched<'a> = Box<dyn Iterator<Item = (Vec<u8>, Result<Option<Page>>)> + 'a>;

/// A store of pages that can be read.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::PutRule;
/// use filemap::{Lookup, Options, Page, PageRead, PageStore, PageWrite};
///
/// fn copy(from: &dyn PageRead, to: &dyn PageWrite) -> filemap::Result<u64> {
///     let mut copied = 0;
///     for listed in from.list(&Default::default(), None)? {
///         if let Some(page) = from.get(&Lookup::new(&listed?.url))? {
///             to.put(&page, PutRule::IfNew)?;
///             copied += 1;
///         }
///     }
///     to.sync()?;
///     Ok(copied)
/// }
///
/// let dir = tempfile::tempdir()?;
/// let from = PageStore::create(dir.path().join("a.fm"), Options::new())?;
/// let to = PageStore::create(dir.path().join("b.fm"), Options::new())?;
/// from.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// assert_eq!(copy(&from, &to)?, 1);
/// assert!(to.contains("http://example.com/")?);
/// # Ok(())
/// # }
/// ```
pub trait PageRead: Send + Sync {
    /// What this store promises.
    fn capabilities(&self) -> Capabilities;

    /// A version of a page with its body; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// [`Error::Url`](crate::Error::Url); those of the store.
    fn get(&self, lookup: &Lookup<'_>) -> Result<Option<Page>>;

    /// As [`PageRead::get`], without the body.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn head(&self, lookup: &Lookup<'_>) -> Result<Option<PageHead>>;

    /// Whether the version is there.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn contains(&self, lookup: &Lookup<'_>) -> Result<bool> {
        self.head(lookup).map(|head| head.is_some())
    }

    /// The newest versions of several pages, in their order.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`], for the first that fails.
    fn get_many(&self, urls: &[&[u8]]) -> Result<Vec<Option<Page>>> {
        urls.iter().map(|url| self.get(&Lookup::new(url))).collect()
    }

    /// The newest versions of pages, one for each URL of the iterator, `depth` of them read at
    /// once where the store can.
    fn get_ahead<'s>(&'s self, urls: Box<dyn Iterator<Item = Vec<u8>> + 's>, depth: usize) -> Fetched<'s> {
        let _ = depth;
        Box::new(urls.map(|url| {
            let page = self.get(&Lookup::new(&url));
            (url, page)
        }))
    }

    /// The versions of a page or variant, newest first; with a time, those up to it. A damaged one
    /// is an error in its place, and the others follow.
    ///
    /// # Errors
    ///
    /// As [`PageRead::get`].
    fn history<'s>(&'s self, lookup: &Lookup<'_>) -> Result<Results<'s, PageHead>>;

    /// The pages in `scope`; those after the cursor `after`, if the store gives cursors.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) for a cursor that it did not give; those
    /// of the store.
    fn list<'s>(&'s self, scope: &Scope, after: Option<&Cursor>) -> Result<Results<'s, Listed>>;

    /// What the store holds.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn contents(&self) -> Result<Contents>;
}

/// A store of pages that can be written.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::access::PutRule;
/// use filemap::{Options, Page, PageStore, PageWrite};
///
/// let dir = tempfile::tempdir()?;
/// let store: Box<dyn PageWrite> = Box::new(PageStore::create(dir.path().join("a.fm"), Options::new())?);
/// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// assert!(store.put(&page, PutRule::IfNew)?.is_some());
/// assert!(store.put(&page, PutRule::IfNew)?.is_none());
/// assert!(store.remove(b"http://example.com/", None)?);
/// store.close()?;
/// # Ok(())
/// # }
/// ```
pub trait PageWrite: Send + Sync {
    /// Puts a page. Returns what became of it; `None` if [`PutRule::IfNew`] found it there.
    ///
    /// # Errors
    ///
    /// [`Error::Url`](crate::Error::Url); those of the store. Nothing was written.
    fn put(&self, page: &Page, rule: PutRule) -> Result<Option<Put>>;

    /// Puts pages in their order. Not one transaction: an error leaves those before it in the
    /// store.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`], for the first that fails.
    fn put_many(&self, pages: &[Page], rule: PutRule) -> Result<Vec<Option<Put>>> {
        pages.iter().map(|page| self.put(page, rule)).collect()
    }

    /// Removes a page with all versions and variants; with a variant, that variant alone. Returns
    /// true if it was there.
    ///
    /// # Errors
    ///
    /// As [`PageWrite::put`].
    fn remove(&self, url: &[u8], variant: Option<&Variant>) -> Result<bool>;

    /// Makes durable what was put before.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn sync(&self) -> Result<()>;

    /// Closes the store: makes durable what was put; later calls fail. A second call returns what
    /// the first did.
    ///
    /// # Errors
    ///
    /// Those of the store.
    fn close(&self) -> Result<()>;
}
