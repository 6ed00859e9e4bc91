//! Pruning: the engine drops old versions, and keeps the originals of revisits that stay.
//!
//! The engine knows which versions refer to the body of another version of their key. Revisits,
//! whose body may be under any key, are known here only: one pass over the descriptions finds
//! them, and the originals of those that stay are passed to the engine as needed.

use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::prune::{Needed, PruneProgress, PruneRule, Pruned};

use super::PageStore;
use super::revisit::Resolver;
use super::unresolved::FoundRevisit;
use crate::error::{Error, Result};

/// Progress of [`PageStore::prune`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::{Options, Page, PageStore};
/// use filemap::store::PruneStep;
/// use filemap_core::prune::PruneRule;
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut rule = PruneRule::default();
/// rule.keep_versions = Some(1);
/// let pruned = store.prune(rule, &mut |step| {
///     if let PruneStep::Revisits(versions) = step {
///         println!("{versions} versions read");
///     }
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(pruned.versions, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PruneStep {
    /// Versions read so far to find revisits.
    Revisits(u64),
    /// Progress of the engine.
    Pruning(PruneProgress),
}

type Progress<'a> = &'a mut dyn FnMut(PruneStep) -> ControlFlow<()>;

impl PageStore {
    /// Drops the versions that a rule does not keep, as [`filemap_core::Store::prune`], but keeps
    /// the original of each revisit that stays: every version that stays reads as before. Finding
    /// the revisits takes a sequential pass over the value log, which decompresses no body, and 40
    /// bytes of memory for each version that a revisit leads to.
    ///
    /// The original of a revisit that is put meanwhile may be dropped.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::prune`].
    pub fn prune(&self, rule: PruneRule, progress: Progress<'_>) -> Result<Pruned> {
        rule.check()?;
        // Before the pass, which takes long.
        if self.engine().is_read_only() {
            return Err(filemap_core::Error::ReadOnly.into());
        }
        let Some(needed) = self.needed(rule, progress)? else {
            let mut stopped = Pruned::default();
            stopped.is_cancelled = true;
            stopped.live_bytes = self.engine().stats().live_bytes;
            return Ok(stopped);
        };
        Ok(self.engine().prune_with(rule, &Arc::new(needed), &mut |step| progress(PruneStep::Pruning(step)))?)
    }

    /// What [`PageStore::prune`] would drop. Changes nothing; any handle may call it.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::prune_plan`].
    pub fn prune_plan(&self, rule: PruneRule, progress: Progress<'_>) -> Result<Pruned> {
        rule.check()?;
        let Some(needed) = self.needed(rule, progress)? else { return Err(filemap_core::Error::Cancelled.into()) };
        Ok(self.engine().prune_plan_with(rule, &needed, &mut |step| progress(PruneStep::Pruning(step)))?)
    }

    /// The versions that lead from revisits that a rule keeps to their originals; `None` if
    /// cancelled.
    fn needed(&self, rule: PruneRule, progress: Progress<'_>) -> Result<Option<Needed>> {
        let mut needed = Needed::new();
        let mut progress = |versions| progress(PruneStep::Revisits(versions));
        let whole = self.revisits_in_batches(&mut progress, &mut |batch| self.add_needed(rule, batch, &mut needed))?;
        Ok(whole.then_some(needed))
    }

    fn add_needed(&self, rule: PruneRule, batch: Vec<FoundRevisit>, needed: &mut Needed) -> Result<()> {
        let mut resolver = Resolver::new(self);
        // What the rule keeps of this key; `None` if it is damaged, so that nothing of it is
        // dropped.
        let (mut key, mut kept) = (Vec::new(), None);
        for (sought, version) in batch {
            if key != sought.own() {
                key = sought.own().to_vec();
                kept = readable(self.engine().kept_by(rule, &key).map_err(Error::from))?;
            }
            let stays = kept.as_ref().is_none_or(|kept| kept.contains(&version));
            if !stays {
                continue;
            }
            // An original that cannot be read has no body to keep.
            for (_, found) in readable(resolver.path(&sought))?.unwrap_or_default() {
                let youngest = needed.entry(found.sequence).or_insert(version);
                *youngest = version.max(*youngest);
            }
        }
        Ok(())
    }
}

/// The result of a read; `None` if it failed for damage.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.is_damage() => Ok(None),
        read => read.map(Some),
    }
}
