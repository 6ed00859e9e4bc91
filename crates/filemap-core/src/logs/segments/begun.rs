//! The writer's list of begun segments: in memory, and in its sector of SUPERBLOCK.

use std::sync::Arc;

use filemap_io::File;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::names;
use crate::format::rolls::{self, Rolls};

/// The list of begun segments.
#[derive(Debug)]
pub(crate) struct Begun {
    rolls: Rolls,
    /// SUPERBLOCK.
    file: Arc<dyn File>,
}

impl Begun {
    /// Takes the list as read from SUPERBLOCK.
    pub(crate) fn new(rolls: Rolls, file: Arc<dyn File>) -> Begun {
        Begun { rolls, file }
    }

    /// Lists a durable segment. On return the entry is durable: the file must not be removed
    /// before [`Begun::strike`].
    ///
    /// # Errors
    /// `Io`: the segment may or may not be listed. The call may be repeated after a failed write,
    /// which is reported as a failed creation, but not after a failed sync.
    pub(super) fn add(&mut self, ordinal: u64) -> Result<()> {
        if self.rolls.has(ordinal) {
            return Ok(());
        }
        let mut rolls = self.rolls.clone();
        rolls.add(ordinal);
        self.write(rolls, "create", &names::segment(ordinal as u16))
    }

    /// Removes segments from the list. On return their files may be removed.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn strike(&mut self, ordinals: &[u64]) -> Result<()> {
        if !ordinals.iter().any(|o| self.rolls.has(*o)) {
            return Ok(());
        }
        let mut rolls = self.rolls.clone();
        ordinals.iter().for_each(|ordinal| rolls.remove(*ordinal));
        self.write(rolls, "write", names::SUPERBLOCK)
    }

    /// Writes and syncs `rolls`. A failed write is reported as `op` of file `of`.
    fn write(&mut self, rolls: Rolls, op: &'static str, of: &str) -> Result<()> {
        self.file.write_at(&rolls.encode(), rolls::AT).map_err(Error::io(op, of))?;
        if !planted(Fault::BegunSegmentsNotSynced) {
            self.file.sync().map_err(Error::io("sync", names::SUPERBLOCK))?;
        }
        self.rolls = rolls;
        Ok(())
    }
}
