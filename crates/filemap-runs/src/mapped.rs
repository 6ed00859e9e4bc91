//! The map of a run's file. A filter is checked at its first use, as pages of address.idx are; a
//! block, which is copied anyway, at each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_io::{Map, Word};

use crate::filter::FILTER_BYTES;

/// The file up to its index.
#[derive(Debug)]
pub(crate) struct Mapped {
    map: Arc<dyn Map>,
    /// A bit for each filter whose checksum was right.
    checked: Vec<AtomicU64>,
}

impl Mapped {
    pub(crate) fn new(map: Arc<dyn Map>, blocks: usize) -> Mapped {
        Mapped { map, checked: (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Copies what the file has at offset `at`.
    pub(crate) fn copy(&self, at: u64, bytes: &mut [u8]) {
        copy(self.words(at, bytes.len()), bytes);
    }

    /// The words of block `number`'s filter at offset `at`. `check` sees it at its first use.
    #[inline]
    pub(crate) fn filter<E>(
        &self,
        number: u64,
        at: u64,
        check: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<&[Word], E> {
        let words = self.words(at, FILTER_BYTES);
        let (checked, bit) = (&self.checked[number as usize / 64], 1 << (number % 64));
        if checked.load(Ordering::Relaxed) & bit == 0 {
            let mut bytes = [0; FILTER_BYTES];
            copy(words, &mut bytes);
            check(&bytes)?;
            checked.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(words)
    }

    #[inline]
    fn words(&self, at: u64, len: usize) -> &[Word] {
        &self.map.words()[at as usize / 8..at as usize / 8 + len / 8]
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.checked.len() * 8) as u64
    }
}

fn copy(words: &[Word], bytes: &mut [u8]) {
    let pairs = bytes.as_chunks_mut::<8>().0.iter_mut().zip(words);
    pairs.for_each(|(bytes, word)| *bytes = word.load(Ordering::Relaxed).to_le_bytes());
}
