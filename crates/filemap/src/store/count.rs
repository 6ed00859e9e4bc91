//! Numbers of pages and variants: from the superblock and the summaries of ordered runs where
//! those have them, else counted key by key; never from the value log.

use super::PageStore;
use crate::access::keys::{Span, spans};
use crate::access::{ListKind, Scope};
use crate::error::Result;
use crate::page::key;

impl PageStore {
    /// Number of pages or variants in `scope`: those that [`PageStore::listing`] returns.
    ///
    /// For a host or a domain it comes from the summaries of the store's ordered runs
    /// ([`filemap_core::Store::count_in`]): a few reads, whatever the number of pages. Pages whose
    /// URLs are not `http` or `https`, or have a user, are counted one by one. So are all keys for
    /// a prefix, whose range includes the other scheme and other ports. A store without key order
    /// counts by a pass over its key log. No page is read.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::listing`], also of its entries: the number is returned only if no
    /// entry is missed.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use filemap::access::Scope;
    /// # use filemap::{Options, Page, PageStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
    /// store.put_page(&Page::new("http://www.example.com/", 1_700_000_000_000, 200, "hello"))?;
    /// assert_eq!(store.count(&Scope::new().domain("example.com"))?, 1);
    /// assert_eq!(store.count(&Scope::new().host("example.com"))?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(&self, scope: &Scope) -> Result<u64> {
        if scope.is_all() && scope.kind == ListKind::Pages {
            return self.count_pages();
        }
        if !self.engine().has_key_order() {
            let forwards = Scope { is_backwards: false, ..scope.clone() };
            return self.listing(&forwards, None)?.try_fold(0, |number, listed| listed.map(|_| number + 1));
        }
        let takes = scope.filter();
        spans(scope).into_iter().map(|span| self.count_span(span, &takes)).sum()
    }

    fn count_span(&self, span: Span, takes: &dyn Fn(&[u8]) -> bool) -> Result<u64> {
        if span.is_exact {
            return Ok(self.engine().count_in(&span.range.into())?);
        }
        let mut keys = self.engine().keys_in(span.range.into(), filemap_core::list::Direction::Forward)?;
        Ok(keys.try_fold(0, |number, key| Ok::<_, filemap_core::Error>(number + u64::from(takes(key::url(&key?)))))?)
    }
}
