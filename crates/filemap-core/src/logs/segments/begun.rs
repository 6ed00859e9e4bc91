//! The list of begun segments, as the writer keeps it: in memory, and in its sector of SUPERBLOCK.

use std::sync::Arc;

use filemap_io::File;

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::names;
use crate::format::rolls::{self, Rolls};

/// See the module.
#[derive(Debug)]
pub(crate) struct Begun {
    rolls: Rolls,
    /// SUPERBLOCK.
    file: Arc<dyn File>,
}

impl Begun {
    /// The list as it stands in SUPERBLOCK.
    pub(crate) fn new(rolls: Rolls, file: Arc<dyn File>) -> Begun {
        Begun { rolls, file }
    }

    /// Names a segment that is durable. It counts when this returns, and must not go unless it is struck out.
    ///
    /// # Errors
    /// `Io`: whether it is named is not known. It may be done again after a write that failed (as of a creation that does), not after
    /// a sync.
    pub(super) fn add(&mut self, ordinal: u64) -> Result<()> {
        if self.rolls.has(ordinal) {
            return Ok(());
        }
        let mut rolls = self.rolls.clone();
        rolls.add(ordinal);
        self.write(rolls, "create", &names::segment(ordinal as u16))
    }

    /// Strikes segments out: their files may go when this returns.
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

    /// `op` and `of` say what has failed when the write does.
    fn write(&mut self, rolls: Rolls, op: &'static str, of: &str) -> Result<()> {
        self.file.write_at(&rolls.encode(), rolls::AT).map_err(|e| Error::io(op, of, e))?;
        if !planted(Fault::BegunSegmentsNotSynced) {
            self.file.sync().map_err(|e| Error::io("sync", names::SUPERBLOCK, e))?;
        }
        self.rolls = rolls;
        Ok(())
    }
}
