//! A handle's filter for the originals of revisits, for a caller that shows only a part of a
//! store. A version that the filter rejects gives no revisit its body. It is replaced only by a
//! version that the record id or the digest identifies.

use std::fmt;
use std::sync::Arc;

use filemap_core::Version;

use super::PageStore;
use crate::page::variant::Variant;

/// A version that a revisit may refer to.
///
/// ```
/// fn is_shown(version: &filemap::store::MaybeOriginal<'_>) -> bool {
///     version.version.time_ms > 1_700_000_000_000 && !version.url.ends_with(b"/private")
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MaybeOriginal<'v> {
    /// The canonical URL: the key in the store.
    pub url: &'v [u8],
    /// The URL as it was put; `None` if the version cannot be read.
    pub own_url: Option<&'v [u8]>,
    /// The request that it answers; `None` for the page itself.
    pub variant: Option<&'v Variant>,
    /// Its time and sequence.
    pub version: Version,
}

type Test = dyn Fn(&MaybeOriginal<'_>) -> bool + Send + Sync;

/// The filter of a handle; without one every version passes.
#[derive(Clone, Default)]
pub(crate) struct Admits(Option<Arc<Test>>);

impl Admits {
    /// Returns whether a version may be an original.
    pub(super) fn passes(&self, version: &MaybeOriginal<'_>) -> bool {
        self.0.as_ref().is_none_or(|test| test(version))
    }
}

impl fmt::Debug for Admits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admits").field(&self.0.is_some()).finish()
    }
}

impl PageStore {
    /// Returns a handle of the same store whose revisits get bodies only from originals that pass
    /// `test`. If the original of a revisit does not pass, the revisit lacks its body
    /// ([`crate::Page::lacks_body`]), unless its record id or digest identifies another version.
    /// Errors name no version that does not pass.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use filemap::{Options, Page, PageStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// let shown = store.with_originals(|version| !version.url.starts_with(b"http://private.example/"));
    /// assert_eq!(shown.get("http://example.com/")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_originals(&self, test: impl Fn(&MaybeOriginal<'_>) -> bool + Send + Sync + 'static) -> PageStore {
        PageStore { admits: Admits(Some(Arc::new(test))), ..self.clone() }
    }
}
