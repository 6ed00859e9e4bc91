//! While a backup is made through a handle that writes, what its last superblock names is neither removed nor written over.

use crate::error::Result;
use crate::format::superblock::Superblock;
use crate::index::segment_table::SegmentTable;
use crate::sync::lock;
use crate::upkeep::Upkeep;

/// Keeps what a superblock names from being removed and written over.
pub(crate) struct Hold<'a>(&'a Upkeep);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let Hold(upkeep) = self;
        let mut c = lock(&upkeep.checkpointer);
        c.holds -= 1;
        // A checkpoint that failed leaves a segment table that is ahead of what the superblock leads to: by it nothing may go.
        if c.holds == 0 && upkeep.writing.poisoned().check().is_ok() {
            c.index.release();
            if let Err(e) = upkeep.remove_dead_keys(&c) {
                upkeep.writing.poison(&e);
            }
        }
        drop(c);
        // What it has kept from being removed.
        upkeep.writing.bells().compact.ring();
    }
}

impl Upkeep {
    /// Keeps what the last superblock names; and that superblock, with its segment table.
    ///
    /// # Errors
    /// `Poisoned`.
    pub(crate) fn hold(&self) -> Result<(Hold<'_>, Superblock, SegmentTable)> {
        let mut c = lock(&self.checkpointer);
        self.writing.poisoned().check()?;
        c.holds += 1;
        Ok((Hold(self), c.current.clone(), c.segment_table.clone()))
    }

    /// Whether something is held.
    pub(crate) fn is_held(&self) -> bool {
        lock(&self.checkpointer).holds > 0
    }
}
