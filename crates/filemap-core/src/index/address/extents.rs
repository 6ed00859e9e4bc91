//! The maps of address.idx. Each extent maps as much as all before it together, so a growing file
//! is never remapped and a page never moves under a reader.

use std::sync::Arc;

use filemap_io::{File, Map, Word};

use crate::error::{Error, Result};
use crate::format::{PAGE_BYTES, names};
use crate::sync::primitive::OnceLock;

const WORDS: usize = PAGE_BYTES / 8;

#[derive(Debug)]
pub(super) struct Extents {
    file: Arc<dyn File>,
    /// Pages of the first extent, as a power of two.
    first_log2: u32,
    maps: [OnceLock<Arc<dyn Map>>; 32],
}

impl Extents {
    pub(super) fn new(file: Arc<dyn File>, first_pages: u32) -> Extents {
        assert!(first_pages.is_power_of_two());
        Extents { file, first_log2: first_pages.ilog2(), maps: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// The words of a page that lies within the file.
    pub(super) fn page(&self, page: u32) -> Result<&[Word]> {
        // With 2^10 first pages, extent 0 has pages 0..2^10, extent k > 0 has 2^(9+k)..2^(10+k).
        let extent = (page >> self.first_log2).checked_ilog2().map_or(0, |l| l as usize + 1);
        let first = if extent == 0 { 0 } else { 1 << (self.first_log2 as usize + extent - 1) };
        let map = match self.maps[extent].get() {
            Some(map) => map,
            None => {
                let len = first.max(1 << self.first_log2) as usize * PAGE_BYTES;
                let map =
                    self.file.map(u64::from(first) * PAGE_BYTES as u64, len).map_err(Error::io("map", names::INDEX))?;
                self.maps[extent].get_or_init(|| map)
            }
        };
        let at = (page - first) as usize * WORDS;
        Ok(&map.words()[at..at + WORDS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filemap_io::{Access, Dir, OsDir};
    use std::sync::atomic::Ordering;

    #[test]
    fn each_page_is_found_on_both_sides_of_every_border() {
        let temp = tempfile::tempdir().unwrap();
        let file = OsDir::open(temp.path()).unwrap().open("f", Access::Create).unwrap();
        let pages = [0, 1, 1023, 1024, 2047, 2048, 4095, 4096, 9000];
        for page in pages {
            file.write_at(&[page as u8; PAGE_BYTES], u64::from(page) * PAGE_BYTES as u64).unwrap();
        }
        let extents = Extents::new(file, 1024);
        for page in pages {
            let words = extents.page(page).unwrap();
            assert_eq!(words.len(), 512);
            let want = u64::from_le_bytes([page as u8; 8]);
            assert!(words.iter().all(|w| w.load(Ordering::Relaxed) == want), "page {page}");
        }
    }
}
