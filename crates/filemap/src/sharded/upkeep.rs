//! Upkeep of members that concerns the others too: what a prune of all has to spare in each.

use std::ops::ControlFlow;

use filemap_core::erase::KeyFilter;
use filemap_core::prune::{PruneRule, Spared};

use super::ShardedStore;
use crate::error::Result;
use crate::store::{PruneStep, prune};

impl ShardedStore {
    /// What each member has to spare when this rule is applied to all of them, in their order:
    /// originals that a revisit needs which stays, in whichever member. `None` if cancelled. One
    /// sequential pass over the value log of each, as [`PageStore::prune`](crate::PageStore) takes
    /// it. With `filter` only pages whose canonical URL it accepts are pruned.
    ///
    /// Given to [`filemap_core::Store::prune_with`] of each member's engine. Revisits that are put
    /// meanwhile may lose their original.
    ///
    /// # Errors
    ///
    /// Those of [`PageStore::prune`](crate::PageStore::prune), with the path of the member.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::ops::ControlFlow;
    /// # use std::sync::Arc;
    /// # use filemap::canonical::Whatwg;
    /// # use filemap::{Options, Page, sharded::ShardedStore};
    /// use filemap_core::prune::PruneRule;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let disks = [dir.path().join("a.fm"), dir.path().join("b.fm")];
    /// let store = ShardedStore::open_or_create(&disks, Arc::new(Whatwg), Options::new())?;
    /// store.put_page(&Page::new("http://example.com/", 1_500_000_000_000, 200, "hello"))?;
    /// let rule = PruneRule { since_ms: Some(1_600_000_000_000), ..PruneRule::default() };
    /// let spared = store.spared(rule, None, &mut |_| ControlFlow::Continue(()))?.expect("not cancelled");
    /// for (member, spared) in store.members().iter().zip(&spared) {
    ///     member.engine().prune_with(rule, spared, &mut |_| ControlFlow::Continue(()))?;
    /// }
    /// assert_eq!(store.count_pages()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn spared(
        &self,
        rule: PruneRule,
        filter: Option<KeyFilter>,
        progress: &mut dyn FnMut(PruneStep) -> ControlFlow<()>,
    ) -> Result<Option<Vec<Spared>>> {
        let keys = filter.and_then(|filter| prune::by_url(move |url| filter(url)));
        prune::check(rule, &keys)?;
        prune::spared_of(self.members(), rule, keys, progress)
    }
}
