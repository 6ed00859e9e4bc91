//! Removal of single versions: a tombstone names each, and a checkpoint drops them from their
//! chain.
//!
//! The tombstones are for whoever has no index, or another one: a repair, and who asks what has
//! changed. Whoever was told of one must not find the version later; so a recovery that replays a
//! tombstone of one version drops that version again.

use crate::error::Result;
use crate::failpoint::step;
use crate::format::value::Removed;
use crate::sync::primitive::Ordering;
use crate::sync::{Held, lock};
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoint::Task;
use crate::upkeep::state::Checkpointer;

/// A hash of a key, and a version of it that was removed.
pub(crate) type OneOf = (u64, Removed);

/// No hash of a key: one that ends in such bits is as rare as any.
pub(crate) const NO_KEY: u64 = u64::MAX;

/// While it lives no other removal of single versions runs, and checkpoints drop nothing of one
/// key because it has too many versions: some of them are there twice.
pub(crate) struct Removing<'u> {
    upkeep: &'u Upkeep,
    _alone: Held<'u, ()>,
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.upkeep.parting.store(NO_KEY, Ordering::Release);
    }
}

impl Upkeep {
    /// Begins a removal of single versions of a key.
    pub(crate) fn begin_removal(&self, hash: u64) -> Removing<'_> {
        let alone = lock(&self.removing);
        self.parting.store(hash, Ordering::Release);
        Removing { upkeep: self, _alone: alone }
    }

    /// Waits for the end of a removal of single versions that has begun.
    pub(crate) fn removals_ended(&self) {
        drop(lock(&self.removing));
    }

    /// Removes a version of a key, durably, with those parted from it; but if it holds the body of
    /// another, it stays. Two checkpoints.
    ///
    /// # Errors
    /// As [`Upkeep::checkpoint`].
    pub(crate) fn remove_version(&self, key: &[u8], removed: Removed) -> Result<()> {
        let mut c = lock(&self.checkpointer);
        self.reading.check_open()?;
        // Versions that are in memory only are in their chain after this. As no other checkpoint
        // comes between, a crash replays the tombstones until their versions are dropped.
        self.checkpoint_held(&mut c, Task::default())?;
        self.writing.append_removed(key, &removed)?;
        step();
        self.drop_removed(&mut c, &[(self.reading.hash(key), removed)])
    }

    /// Removes single versions of keys whose tombstones a recovery or a repair has met.
    ///
    /// # Errors
    /// As [`Upkeep::checkpoint`].
    pub(crate) fn end_removals(&self, removed: &[OneOf]) -> Result<()> {
        if removed.is_empty() {
            return Ok(());
        }
        let mut c = lock(&self.checkpointer);
        let first = c.current.next_sequence;
        self.drop_removed(&mut c, removed)?;
        // Only where a superblock was lost: the checkpoint has just entered what stays.
        let is_entered = |(_, one): &&OneOf| one.version.sequence.max(one.parted_below) >= first;
        let entered: Vec<OneOf> = removed.iter().filter(is_entered).copied().collect();
        if entered.is_empty() { Ok(()) } else { self.drop_removed(&mut c, &entered) }
    }

    fn drop_removed(&self, c: &mut Checkpointer, removed: &[OneOf]) -> Result<()> {
        // Their tombstones may have been told of: a handle that is being closed ends this, too.
        let mut task = Task { must_end: true, ..Task::default() };
        for (hash, one) in removed {
            task.chains.push(*hash);
            let below = task.erased.entry(one.version.sequence).or_default();
            *below = one.parted_below.max(*below);
        }
        self.checkpoint_held(c, task).map(|_| ())
    }
}
