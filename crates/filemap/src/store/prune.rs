//! Pruning: the engine drops old versions; the originals of revisits that stay are kept with them.
//!
//! The engine knows which versions refer to the body of another version of their key. That a
//! revisit has its body from another version, of whatever key, is known here only: one pass over
//! the descriptions finds all revisits, and what those that stay lead to is given to the engine as
//! needed.

use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::prune::{Needed, PruneProgress, PruneRule, Pruned};

use super::PageStore;
use super::revisit::Resolver;
use super::unresolved::FoundRevisit;
use crate::error::{Error, Result};

/// How far a prune is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PruneStep {
    /// Versions read so far, in search of revisits.
    Revisits(u64),
    /// The engine is at work.
    Pruning(PruneProgress),
}

type Watch<'a> = &'a mut dyn FnMut(PruneStep) -> ControlFlow<()>;

impl PageStore {
    /// Drops the versions that a rule does not keep, as [`filemap_core::Store::prune`]; the
    /// original of a revisit that stays is kept with it, so that every version that stays reads as
    /// before. To find the revisits takes a sequential pass over the value log before that, which
    /// expands no body, and some 40 bytes of memory for each version that a revisit leads to.
    ///
    /// A revisit that is put meanwhile counts only for a later prune: its original may go.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::prune`].
    pub fn prune(&self, rule: PruneRule, watch: Watch<'_>) -> Result<Pruned> {
        rule.check()?;
        // Before the pass, which takes long.
        if self.engine().is_read_only() {
            return Err(filemap_core::Error::ReadOnly.into());
        }
        let Some(needed) = self.needed(rule, watch)? else {
            let mut stopped = Pruned::default();
            stopped.is_cancelled = true;
            stopped.live_bytes = self.engine().stats().live_bytes;
            return Ok(stopped);
        };
        Ok(self.engine().prune_with(rule, &Arc::new(needed), &mut |progress| watch(PruneStep::Pruning(progress)))?)
    }

    /// What [`PageStore::prune`] would drop. Changes nothing; any handle can tell.
    ///
    /// # Errors
    ///
    /// Those of [`filemap_core::Store::prune_plan`].
    pub fn prune_plan(&self, rule: PruneRule, watch: Watch<'_>) -> Result<Pruned> {
        rule.check()?;
        let Some(needed) = self.needed(rule, watch)? else { return Err(filemap_core::Error::Cancelled.into()) };
        Ok(self.engine().prune_plan_with(rule, &needed, &mut |progress| watch(PruneStep::Pruning(progress)))?)
    }

    /// The versions that lead from revisits that a rule keeps to their originals; `None`: it was
    /// broken off.
    fn needed(&self, rule: PruneRule, watch: Watch<'_>) -> Result<Option<Needed>> {
        let mut needed = Needed::new();
        let whole = self
            .revisits_in_batches(&mut |versions| watch(PruneStep::Revisits(versions)).is_continue(), &mut |batch| {
                self.add_needed(rule, batch, &mut needed)
            })?;
        Ok(whole.then_some(needed))
    }

    fn add_needed(&self, rule: PruneRule, batch: Vec<FoundRevisit>, needed: &mut Needed) -> Result<()> {
        let mut resolver = Resolver::new(self);
        // Of the key at hand; `None`: it cannot be looked at, and so nothing of it is dropped.
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

/// `None` where damage keeps something from being read.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.is_damage() => Ok(None),
        read => read.map(Some),
    }
}
