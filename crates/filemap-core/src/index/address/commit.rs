//! The end of a checkpoint's stage: writes all its changes and builds the root for the superblock.
//! The parts are in `writer`, `settle` and `shrink`.

use super::writer::IndexWriter;
use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::names;
use crate::format::node::TABLE_LEVEL;
use crate::format::superblock::IndexRoot;

impl IndexWriter {
    /// Writes the rest of the stage (leaves, nodes, segment table) and syncs the file. The caller
    /// puts the result into a superblock with [`IndexWriter::epoch`] and, once that is durable,
    /// calls [`IndexWriter::committed`].
    ///
    /// # Errors
    /// `Full` at 16 TiB; `Io`.
    pub(crate) fn commit(&mut self, table: &[u64]) -> Result<IndexRoot> {
        self.flush()?;
        self.write_runs()?;
        self.halve()?;
        self.write_nodes()?;
        let mut pages = std::mem::take(&mut self.table);
        self.write_list(&mut pages, TABLE_LEVEL, table)?;
        self.table = pages;
        if !planted(Fault::IndexNotSynced) {
            self.index.file.sync().map_err(Error::io("sync", names::INDEX))?;
        }
        Ok(self.root())
    }
}
