//! The interface of every store of pages: [`PageRead`] and [`PageWrite`], object-safe and
//! blocking.
//!
//! A local store implements them; one behind HTTP or in object storage can. Commands, servers and
//! crawlers that take `&dyn PageRead` and `&dyn PageWrite` work with every store. [`Capabilities`]
//! lists the guarantees of a store. Upkeep of files (verify, compact, backup) is not included:
//! only a local store has it.

pub(crate) mod interface;
pub mod kept;
pub mod keys;
mod listing;
pub mod merge;

use std::io::{self, Read};

use filemap_core::Put;

pub(crate) use interface::{Lookup, PageRead, PageWrite, heads_of_listed};
pub use listing::{Cursor, ListKind, Listed, Scope};

use crate::error::Result;
use crate::page::Page;

/// The guarantees and features of a store.
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
    /// The puts that survive a crash or a power loss.
    pub survives: Survives,
    /// True if earlier versions of a page are kept and can be read.
    pub has_history: bool,
    /// True if [`PageRead::list`] returns URLs by host, from its last label on, then by path,
    /// scheme and port: as SURT keys sort, except that a host sorts before its subdomains. URLs
    /// that are not `http` or `https`, or have a user, come last.
    pub lists_in_order: bool,
    /// True if [`PageRead::list`] returns cursors, and continues after one.
    pub lists_from_cursor: bool,
    /// True if the store has local files that can be verified, repaired, compacted and backed up.
    pub has_upkeep: bool,
}

/// The puts that survive a crash.
///
/// ```
/// use filemap::access::Survives;
/// assert!(Survives::Put > Survives::Sync, "a store whose puts survive promises more");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Survives {
    /// Puts before [`PageWrite::sync`] returned.
    Sync,
    /// Puts for which [`PageWrite::put`] returned.
    Put,
}

impl Capabilities {
    /// The capabilities of a store without history, order, cursors and upkeep.
    pub fn new(survives: Survives) -> Capabilities {
        let no = false;
        Capabilities { survives, has_history: no, lists_in_order: no, lists_from_cursor: no, has_upkeep: no }
    }
}

/// A page, variant or record that [`PageWrite::remove_all`] removed.
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
    /// True for the page itself, false for a variant or a record beside it.
    pub is_page: bool,
    /// True for a variant.
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

/// Counts of a removal of single versions.
///
/// ```
/// let removed = filemap::access::RemovedVersions::default();
/// assert_eq!(removed.versions + removed.beside + removed.parted + removed.without_body, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovedVersions {
    /// Number of versions of the page removed.
    pub versions: u64,
    /// Number of records beside them removed.
    pub beside: u64,
    /// Number of revisits of the same page that had their bodies from these versions, and were put
    /// again with these bodies.
    pub parted: u64,
    /// Number of such revisits whose bodies are lost, because they cannot be read or a rule
    /// refuses them.
    pub without_body: u64,
}

/// The size of a store; `None` for a number that is expensive to compute.
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
    /// Number of pages, variants and records beside them; a recently put version may count as one.
    pub keys: Option<u64>,
    /// Number of bytes on the device.
    pub bytes: Option<u64>,
}

/// The form and condition of a put.
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
    /// Puts a version with its own body.
    #[default]
    Always,
    /// Puts a reference to the newest version, if the body is the same.
    IfChanged,
    /// As `IfChanged`, but puts nothing if the store has this very version: repeating it adds
    /// nothing.
    IfNew,
    /// Restores a version as a dump has it, unless the store has the version with this very
    /// description, including the record's id.
    Restore,
    /// As `Restore`, but puts a reference to the newest version if the body is the same.
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

/// Puts pages one after the other: see [`PageWrite::load`].
pub type Loading<'a> = Box<dyn FnMut(&Page, PutRule) -> Result<Option<Put>> + 'a>;

/// Pages with their URLs, in the order of the URLs given.
pub type Fetched<'a> = Box<dyn Iterator<Item = (Vec<u8>, Result<Option<Page>>)> + 'a>;
