//! Holds of a writer's backups: files and pages that the held superblock names are neither removed
//! nor overwritten.

use crate::error::Result;
use crate::format::superblock::Superblock;
use crate::index::segment_table::SegmentTable;
use crate::sync::lock;
use crate::upkeep::Upkeep;

/// Keeps files and pages that a superblock names from being removed or overwritten, until dropped.
pub(crate) struct Hold<'a>(&'a Upkeep);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let Hold(upkeep) = self;
        let mut c = lock(&upkeep.checkpointer);
        c.holds -= 1;
        if c.holds == 0 {
            c.held_runs_below = 0;
        }
        // After a failed checkpoint the segment table is ahead of the superblock, so it must not
        // be used to remove files.
        if c.holds == 0 && upkeep.writing.poisoned().check().is_ok() {
            c.index.release();
            let removed = upkeep.remove_left_runs(&mut c).and_then(|()| upkeep.remove_dead_keys(&c));
            if let Err(e) = removed {
                upkeep.writing.poison(&e);
            }
        }
        drop(c);
        // Compaction removes the segments that the hold has kept.
        upkeep.writing.bells().compact.ring();
    }
}

impl Upkeep {
    /// Holds the files and pages that the last superblock names. Returns that superblock and its
    /// segment table too.
    ///
    /// # Errors
    /// `Poisoned`.
    pub(crate) fn hold(&self) -> Result<(Hold<'_>, Superblock, SegmentTable)> {
        let mut c = lock(&self.checkpointer);
        self.writing.poisoned().check()?;
        c.holds += 1;
        let next = c.segment_table.order.as_ref().map_or(0, |named| named.next);
        c.held_runs_below = c.held_runs_below.max(next);
        Ok((Hold(self), c.current.clone(), c.segment_table.clone()))
    }

    /// Returns true if a backup holds a superblock.
    pub(crate) fn is_held(&self) -> bool {
        lock(&self.checkpointer).holds > 0
    }
}
