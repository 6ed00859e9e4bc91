//! The interface of every store of pages: [`PageRead`] and [`PageWrite`], object-safe and
//! blocking.
//!
//! A store on this machine implements them; one behind HTTP or in object storage can. A command, a
//! server or a crawler that takes `&dyn PageRead` and `&dyn PageWrite` works with each.
//! [`Capabilities`] says what a store promises. Upkeep of files (verify, compact, backup) is not
//! here: only a local store has it.

pub(crate) mod interface;
pub mod keys;
mod listing;
pub mod merge;

use std::io::{self, Read};

use filemap_core::Put;

pub(crate) use interface::{Lookup, PageRead, PageWrite, heads_of_listed};
pub use listing::{Cursor, ListKind, Listed, Scope};

use crate::error::Result;
use crate::page::Page;

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
    /// [`PageRead::list`] gives URLs by host, from its last label on, then by path, scheme and
    /// port: as SURT keys sort, but that a host stands before its subdomains. URLs that are not
    /// `http` or `https`, or have a user, come last.
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

/// Something that [`PageWrite::remove_all`] removed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::access::Scope;
/// # use filemap::{Options, Page, PageStore, PageWrite};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/old/1", 1_700_000_000_000, 200, "hello"))?;
/// let pages = store.remove_all(&Scope::new().prefix("http://example.com/old/"), &mut |removed| {
///     println!("removed {}", String::from_utf8_lossy(removed.expect("undamaged").url));
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(pages, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed<'a> {
    /// The canonical URL of the page.
    pub url: &'a [u8],
    /// It was the page itself, not a variant or a record beside it.
    pub is_page: bool,
    /// It was a variant.
    pub is_variant: bool,
}

impl<'a> Removed<'a> {
    pub(crate) fn new(url: &'a [u8], is_page: bool, is_variant: bool) -> Removed<'a> {
        Removed { url, is_page, is_variant }
    }

    /// A page of this URL.
    pub fn page(url: &'a [u8]) -> Removed<'a> {
        Removed::new(url, true, false)
    }

    /// A variant of this URL.
    pub fn variant(url: &'a [u8]) -> Removed<'a> {
        Removed::new(url, false, true)
    }

    /// A record beside a page or variant of this URL.
    pub fn beside(url: &'a [u8]) -> Removed<'a> {
        Removed::new(url, false, false)
    }
}

/// What a removal of single versions took.
///
/// ```
/// let removed = filemap::access::RemovedVersions::default();
/// assert_eq!(removed.versions + removed.beside + removed.parted + removed.without_body, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedVersions {
    /// Versions of the page removed.
    pub versions: u64,
    /// Records beside them removed.
    pub beside: u64,
    /// Revisits of the same page that had their bodies from them, and were put again with these.
    pub parted: u64,
    /// Such revisits whose bodies are lost, as they cannot be read or a rule refuses them.
    pub without_body: u64,
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
    /// Pages, variants and records beside them; a version put recently may count as one.
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
    /// As a dump has it, unless the store has the version with this very description, the record's
    /// id included.
    Restore,
    /// As `Restore`, as a reference to the newest version if the body is the same.
    RestoreUnchanged,
}

/// A boxed iterator of results.
pub type Results<'a, T> = Box<dyn Iterator<Item = Result<T>> + Send + 'a>;

/// A page without its body, and the body as a stream.
pub type Streamed<'a> = (Page, Box<dyn Read + 'a>);

/// A page in memory as a stream.
pub(crate) fn streamed(mut page: Page) -> Streamed<'static> {
    let body = std::mem::take(&mut page.body);
    (page, Box::new(io::Cursor::new(body)))
}

/// Puts one page after the other: see [`PageWrite::load`].
pub type Loading<'a> = Box<dyn FnMut(&Page, PutRule) -> Result<Option<Put>> + 'a>;

/// Pages with their URLs, in the order of the URLs given.
pub type Fetched<'a> = Box<dyn Iterator<Item = (Vec<u8>, Result<Option<Page>>)> + 'a>;
