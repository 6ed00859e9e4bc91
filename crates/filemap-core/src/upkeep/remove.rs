//! Removal of single versions: a tombstone names each, and a checkpoint drops them from their
//! chain.
//!
//! The tombstones are for whoever has no index, or another one: a repair, and who asks what has
//! changed. Whoever was told of one must not find the version later; so a recovery that replays a
//! tombstone of one version drops that version again.

use crate::error::Result;
use crate::failpoint::step;
use crate::format::value::Removed;
use crate::sync::lock;
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoint::Task;
use crate::upkeep::state::Checkpointer;

/// A hash of a key, and a version of it that was removed.
pub(crate) type OneOf = (u64, Removed);

impl Upkeep {
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
        let mut task = Task::default();
        for (hash, one) in removed {
            task.chains.push(*hash);
            let below = task.erased.entry(one.version.sequence).or_default();
            *below = one.parted_below.max(*below);
        }
        self.checkpoint_held(c, task).map(|_| ())
    }
}
