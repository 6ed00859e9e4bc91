//! Revisits of all members, counted together: one counts as resolved wherever its original is.
//!
//! Reading needs nothing of this: the handle of a member knows the others, and so gives a revisit
//! the body that a store in one folder would give it.

use std::ops::ControlFlow;

use super::{ShardedStore, named};
use crate::error::Result;
use crate::store::{RevisitCount, Unresolved};

impl ShardedStore {
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
