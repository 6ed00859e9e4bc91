//! Revisits with their original in another member, under another host: they get its body when they
//! are read, and count as resolved.
//!
//! The member of a revisit is asked first, then that of the URL which it names. What is between
//! them (a revisit of a revisit) must be in one of the two.

use std::ops::ControlFlow;

use super::{ShardedStore, named};
use crate::access::{Streamed, streamed};
use crate::error::Result;
use crate::page::Page;
use crate::page::version::StoredVersion;
use crate::store::{RevisitCount, Unresolved, elsewhere, take_body};

impl ShardedStore {
    /// A page that the member of this number gave; a revisit without a body gets that of its
    /// original in another member.
    pub(super) fn whole(&self, number: usize, page: Option<Page>) -> Result<Option<Page>> {
        let Some(mut page) = page else { return Ok(None) };
        if let Some(original) = self.original_elsewhere(number, &page)? {
            take_body(&mut page, original);
        }
        Ok(Some(page))
    }

    /// As [`ShardedStore::whole`], of a page as a stream.
    pub(super) fn whole_stream<'s>(&self, number: usize, found: Option<Streamed<'s>>) -> Result<Option<Streamed<'s>>> {
        let Some((mut page, body)) = found else { return Ok(None) };
        Ok(Some(match self.original_elsewhere(number, &page)? {
            None => (page, body),
            Some(original) => {
                take_body(&mut page, original);
                streamed(page)
            }
        }))
    }

    /// The original in another member of a revisit that its own member did not resolve.
    fn original_elsewhere(&self, number: usize, page: &Page) -> Result<Option<StoredVersion>> {
        if page.revisit.as_ref().is_none_or(|revisit| revisit.original.is_some()) {
            return Ok(None);
        }
        let Some(other) = elsewhere(&self.members, number, page) else { return Ok(None) };
        let member = &self.members[other];
        let found = member.original_and_steps(&member.key_of_page(page)?, page);
        Ok(named(member, found)?.map(|(original, _)| original))
    }

    /// Number of revisits, and of those without an original in any member that may have it; `None`
    /// if cancelled: see [`PageStore::count_revisits`](crate::PageStore). `progress` gets the
    /// number of versions read.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::history`](crate::PageStore::history), with the path of the member.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::ops::ControlFlow;
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, sharded::ShardedStore};
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// # let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// let count = store.count_revisits(&mut |_| ControlFlow::Continue(()))?.expect("not cancelled");
    /// assert_eq!((count.revisits, count.unresolved), (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_revisits(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Option<RevisitCount>> {
        let (mut unresolved, mut before) = (Unresolved::default(), 0);
        let mut stores = |url: &[u8]| self.member_of(url).cloned();
        for member in &self.members {
            let mut read = 0;
            let added = member.add_revisits(&mut unresolved, &mut stores, &mut |versions: u64| {
                read = versions;
                progress(before + versions)
            });
            if !named(member, added)? {
                return Ok(None);
            }
            before += read;
        }
        unresolved.count_in(&mut stores).map(Some)
    }
}
