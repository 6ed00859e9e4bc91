//! A version of a page as a store has it: what the store hands to whatever writes it out.

use filemap_core::Version;

use crate::page::Page;
use crate::page::key;

/// A version as it lies in the store, with what the store knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredVersion {
    /// The key it is kept under: of a page, its canonical URL, to which come the variant and the
    /// kind of a record beside it.
    pub key: Vec<u8>,
    /// The page; a revisit without its original's body.
    pub page: Page,
    /// Which version it is.
    pub version: Version,
    /// The sequence of the version that holds the same body, if it was not stored again.
    pub unchanged_since: Option<u64>,
    /// What it takes in the store, in bytes.
    pub stored_bytes: u64,
}

impl StoredVersion {
    /// The canonical URL of the page.
    pub fn canonical_url(&self) -> &[u8] {
        key::url(&self.key)
    }
}

/// A version of a page without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageHead {
    /// The page; its body is empty here.
    pub page: Page,
    /// Which version it is.
    pub version: Version,
    /// The length of its body in bytes; of a revisit, of its own (mostly 0).
    pub body_bytes: u64,
    /// What it takes in the store, in bytes.
    pub stored_bytes: u64,
    /// The sequence of the version that holds the same body, if it was not stored again.
    pub unchanged_since: Option<u64>,
}
