//! A version of a page in a store: with its body, or its head alone.

use filemap_core::Version;

use crate::page::{Page, key};

/// The form in which a store holds the body of a version.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use filemap::Page;
/// use filemap::dump::jsonl;
/// use filemap::store::BodyForm;
///
/// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// let mut line = Vec::new();
/// jsonl::write_stored(&page, BodyForm::Reference, &mut line)?;
/// assert_eq!(jsonl::read_stored(&line)?, (page, Some(BodyForm::Reference)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyForm {
    /// In the version's own record.
    Whole,
    /// As a reference to an earlier version of the same page with an equal body.
    Reference,
}

/// A version as stored, with its key, sequence and stored size.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/#top", 1_700_000_000_000, 200, "hello"))?;
/// let stored = store.stored_versions().next().expect("a version")?;
/// assert_eq!((stored.canonical_url(), stored.unchanged_since), (&b"http://example.com/"[..], None));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredVersion {
    /// Its key: the canonical URL, followed by the variant and the kind of a record beside a page.
    pub key: Vec<u8>,
    /// The page; a revisit without its original's body.
    pub page: Page,
    /// Time and sequence of the version.
    pub version: Version,
    /// Sequence of the version that holds the same body, if it was not stored again.
    pub unchanged_since: Option<u64>,
    /// Number of bytes in the value log.
    pub stored_bytes: u64,
}

impl StoredVersion {
    /// A version of a key, with its body in its own record; `page` is as stored.
    pub fn new(key: Vec<u8>, page: Page, version: Version, stored_bytes: u64) -> StoredVersion {
        StoredVersion { key, page, version, unchanged_since: None, stored_bytes }
    }

    /// Sets the sequence of the version that holds the body.
    pub fn unchanged_since(self, sequence: Option<u64>) -> StoredVersion {
        StoredVersion { unchanged_since: sequence, ..self }
    }

    /// The form in which its body is stored.
    pub fn body_form(&self) -> BodyForm {
        if self.unchanged_since.is_some() { BodyForm::Reference } else { BodyForm::Whole }
    }

    /// The canonical URL of the page.
    pub fn canonical_url(&self) -> &[u8] {
        key::url(&self.key)
    }
}

/// A version of a page without its body.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, Page, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// store.put_page(&Page::new("http://example.com/", 1_700_000_000_000, 200, "hello"))?;
/// let head = store.head("http://example.com/")?.expect("just put");
/// assert_eq!((head.page.status, head.body_bytes), (Some(200), 5));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageHead {
    /// The page, with an empty body.
    pub page: Page,
    /// Time and sequence of the version.
    pub version: Version,
    /// Length of its body in bytes; for a revisit, of its own body (mostly 0).
    pub body_bytes: u64,
    /// Number of bytes in the value log.
    pub stored_bytes: u64,
    /// Sequence of the version that holds the same body, if it was not stored again.
    pub unchanged_since: Option<u64>,
}

impl PageHead {
    /// A version without a reference to another: `page` has no body.
    pub fn new(page: Page, version: Version, body_bytes: u64, stored_bytes: u64) -> PageHead {
        PageHead { page, version, body_bytes, stored_bytes, unchanged_since: None }
    }

    /// Sets the sequence of the version that holds the body.
    pub fn unchanged_since(self, sequence: Option<u64>) -> PageHead {
        PageHead { unchanged_since: sequence, ..self }
    }
}
