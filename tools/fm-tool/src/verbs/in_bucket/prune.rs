//! `prune` of a bucket: drops old versions, and frees their bytes.

use filemap::PageWrite;
use filemap::access::Scope;
use filemap_cloud::CloudStore;
use filemap_core::compact::CompactionGoal;
use filemap_core::prune::{PruneRule, Pruned};
use fm_cli::{Failure, Outcome, Output};

use super::{closed, compact, to_change, to_read};
use crate::flags::Shared;

/// Prints what was dropped, or would be dropped.
pub type Tell = fn(&Pruned, bool, &mut Output) -> Result<(), Failure>;

/// The versions to drop, and the goal of the compaction afterwards.
pub struct Order {
    /// The versions that stay.
    pub rule: PruneRule,
    /// The pages to prune.
    pub scope: Scope,
    /// True if versions are only counted.
    pub is_dry_run: bool,
    /// The goal of the compaction.
    pub goal: CompactionGoal,
    /// True if it compacts even if nothing was dropped.
    pub compacts: bool,
}

/// Runs the verb.
pub fn run(location: &str, order: &Order, tell: Tell, shared: &Shared) -> Result<Outcome, Failure> {
    let mut out = Output::stdout(shared.flags);
    if order.is_dry_run {
        tell(&to_read(location, shared)?.prune_plan(order.rule, &order.scope)?, true, &mut out)?;
        return out.end(Outcome::Done);
    }
    let store = to_change(location, shared)?;
    let done = pruned(&store, order, tell, &mut out);
    closed(&store, done, out)
}

fn pruned(store: &CloudStore, order: &Order, tell: Tell, out: &mut Output) -> Result<Outcome, Failure> {
    let pruned = store.prune(order.rule, &order.scope)?;
    store.sync()?;
    tell(&pruned, false, out)?;
    if pruned.versions == 0 && !order.compacts {
        return Ok(Outcome::Done);
    }
    compact::compact(store, order.goal, compact::Orphans::Kept, out)
}
