//! Fills the filter with the keys of leaves that this handle has not read yet, in file order:
//! after opening, and after the directory has doubled or halved and has a new filter. Until then a
//! look-up of an absent key reads the leaf.

use std::sync::{Arc, Weak};

use filemap_io::Advice;

use super::Index;
use super::directory::Directory;
use crate::error::{Error, Result};
use crate::format::{PAGE_BYTES, leaf, names};
use crate::sync::make_way;

/// Most pages that one read spans.
const PAGES: u32 = 256;
/// Reads between two checks for other work.
const SOME_READS: usize = 16;
/// Pages added in about a tenth of a millisecond.
const SOME_PAGES: usize = 32;

/// Pages still to be read for the filter of a directory.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    of: Weak<Directory>,
    /// The lowest page comes last.
    pages: Vec<u32>,
}

impl Index {
    /// Continues to fill the filter, from up to 16 MiB of the file. Returns true if more is left.
    /// Pages that cannot be read or are damaged are left to the look-ups that need them; `failed`
    /// gets the read errors.
    pub(crate) fn fill_filter(&self, filling: &mut Filling, failed: &mut dyn FnMut(&Error)) -> bool {
        let directory = self.directory.load_full();
        if directory.is_filter_full() {
            filling.pages = Vec::new();
            return false;
        }
        if !std::ptr::eq(filling.of.as_ptr(), Arc::as_ptr(&directory)) {
            *filling = Filling { of: Arc::downgrade(&directory), pages: directory.unfilled_pages() };
            filling.pages.sort_unstable_by(|a, b| b.cmp(a));
        }
        for _ in 0..SOME_READS {
            let Some(first) = filling.pages.last().copied() else {
                directory.set_filter_full();
                return false;
            };
            let beyond = filling.pages.partition_point(|page| page - first >= PAGES);
            let pages = filling.pages.split_off(beyond);
            if let Err(e) = self.fill_filter_from(&directory, &pages) {
                failed(&e);
            }
        }
        true
    }

    /// Reads some pages, the lowest last, in one read.
    fn fill_filter_from(&self, directory: &Directory, pages: &[u32]) -> Result<()> {
        let (Some(last), Some(first)) = (pages.first(), pages.last()) else { return Ok(()) };
        let mut bytes = vec![0; (last - first + 1) as usize * PAGE_BYTES];
        let offset = u64::from(*first) * PAGE_BYTES as u64;
        self.file.advise(Advice::WillNeed, offset, bytes.len() as u64);
        let read = self.file.read_at(&mut bytes, offset).map_err(Error::io("read", names::INDEX))?;
        for (nth, page) in pages.iter().enumerate() {
            if nth % SOME_PAGES == 0 {
                make_way();
            }
            let at = (page - first) as usize * PAGE_BYTES;
            let bytes = bytes[..read].get(at..at + PAGE_BYTES).unwrap_or_default();
            if let Ok(leaf) = leaf::decode(self.seed, *page, bytes) {
                directory.fill(*page, &leaf);
            }
        }
        Ok(())
    }
}
