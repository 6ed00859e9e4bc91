//! Fills the filter from leaves that this handle has not met, read in the order of the file: after
//! opening, and when the directory has doubled or halved and its filter is a new one. Until then a
//! look-up of a key that is not there reads the leaf.

use std::sync::Arc;

use filemap_io::Advice;

use super::Index;
use super::directory::Directory;
use crate::error::{Error, Result};
use crate::format::{PAGE_BYTES, leaf, names};
use crate::sync::make_way;

/// Pages read at once.
const PAGES: usize = 256;
/// Pages looked at in about a tenth of a millisecond.
const SOME_PAGES: usize = 32;

impl Index {
    /// Fills the filter of the directory if there is one and it was not filled, until `stops`. A page
    /// that is damaged is left to whom a look-up leads to it.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn fill_filter(&self, stops: impl Fn() -> bool) -> Result<()> {
        loop {
            let directory = self.directory.load_full();
            if directory.is_filter_full() || stops() {
                return Ok(());
            }
            self.fill_filter_of(&directory, &stops)?;
        }
    }

    /// Returns early if the directory has been replaced.
    fn fill_filter_of(&self, directory: &Arc<Directory>, stops: &impl Fn() -> bool) -> Result<()> {
        let len = self.file.len().map_err(Error::io("measure", names::INDEX))?;
        let mut pages = vec![0; PAGES * PAGE_BYTES];
        for offset in (0..len).step_by(pages.len()) {
            if stops() || !Arc::ptr_eq(&self.directory.load(), directory) {
                return Ok(());
            }
            self.file.advise(Advice::WillNeed, offset + pages.len() as u64, pages.len() as u64);
            let read = self.file.read_at(&mut pages, offset).map_err(Error::io("read", names::INDEX))?;
            let first = offset / PAGE_BYTES as u64;
            for (nth, (page, bytes)) in (first as u32..).zip(pages[..read].chunks_exact(PAGE_BYTES)).enumerate() {
                if nth % SOME_PAGES == 0 {
                    make_way();
                }
                if let Ok(leaf) = leaf::decode(self.seed, page, bytes) {
                    directory.fill(page, &leaf);
                }
            }
        }
        directory.set_filter_full();
        Ok(())
    }
}
