//! The map of a run's file, for the filters. Each filter is checked at its first use, as pages of
//! address.idx are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_io::{Map, Word};

use crate::filter::FILTER_BYTES;

/// The file up to its index.
#[derive(Debug)]
pub(crate) struct Mapped {
    map: Arc<dyn Map>,
    /// A bit for each filter whose checksum was verified.
    checked: Vec<AtomicU64>,
}

impl Mapped {
    pub(crate) fn new(map: Arc<dyn Map>, blocks: usize) -> Mapped {
        Mapped { map, checked: (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The words of block `number`'s filter, at offset `at`. `check` verifies it at its first use.
    #[inline]
    pub(crate) fn filter<E>(
        &self,
        number: u64,
        at: u64,
        check: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<&[Word], E> {
        let words = &self.map.words()[at as usize / 8..][..FILTER_BYTES / 8];
        let (checked, bit) = (&self.checked[number as usize / 64], 1 << (number % 64));
        if checked.load(Ordering::Relaxed) & bit == 0 {
            let mut bytes = [0; FILTER_BYTES];
            let pairs = bytes.as_chunks_mut::<8>().0.iter_mut().zip(words);
            pairs.for_each(|(bytes, word)| *bytes = word.load(Ordering::Relaxed).to_le_bytes());
            check(&bytes)?;
            checked.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(words)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.checked.len() * 8) as u64
    }
}
