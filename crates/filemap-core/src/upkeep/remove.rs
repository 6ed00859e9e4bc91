//! Removal of single versions: a tombstone names each, and a checkpoint drops them from their
//! chain.
//!
//! The tombstones serve readers without this index: a repair, and users of the changes. A removal
//! that was returned as a change must not be undone; so a recovery that replays a tombstone of one
//! version drops that version again.

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

/// Not the hash of a key: a key's hash is no more likely to be this value than any other.
pub(crate) const NO_KEY: u64 = u64::MAX;

/// While it exists, no other removal of single versions runs, and checkpoints drop no version of
/// the key for exceeding the number kept: some of its versions exist twice.
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

    /// Waits for the end of a running removal of single versions.
    pub(crate) fn removals_ended(&self) {
        drop(lock(&self.removing));
    }

    /// Removes a version of a key, durably, with the references parted from it. It stays if it
    /// still holds the body of another. Takes two checkpoints.
    ///
    /// # Errors
    /// As [`Upkeep::checkpoint`].
    pub(crate) fn remove_version(&self, key: &[u8], removed: Removed) -> Result<()> {
        let mut c = lock(&self.checkpointer);
        self.reading.check_open()?;
        // Puts versions that are only in memory into their chains. As no other checkpoint comes
        // between, a crash replays the tombstones until their versions are dropped.
        self.checkpoint_held(&mut c, Task::default())?;
        self.writing.append_removed(key, &removed)?;
        step();
        self.drop_removed(&mut c, &[(self.reading.hash(key), removed)])
    }

    /// Removes single versions of keys whose tombstones a recovery or a repair has found.
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
        // Only after the loss of a superblock: the checkpoint has just entered the versions that
        // stay.
        let is_entered = |(_, one): &&OneOf| one.version.sequence.max(one.parted_below) >= first;
        let entered: Vec<OneOf> = removed.iter().filter(is_entered).copied().collect();
        if entered.is_empty() { Ok(()) } else { self.drop_removed(&mut c, &entered) }
    }

    fn drop_removed(&self, c: &mut Checkpointer, removed: &[OneOf]) -> Result<()> {
        // Their tombstones may have been returned as changes, so this completes even on a handle
        // that is being closed.
        let mut task = Task { must_end: true, ..Task::default() };
        for (hash, one) in removed {
            task.chains.push(*hash);
            let below = task.erased.entry(one.version.sequence).or_default();
            *below = one.parted_below.max(*below);
        }
        self.checkpoint_held(c, task).map(|_| ())
    }
}
