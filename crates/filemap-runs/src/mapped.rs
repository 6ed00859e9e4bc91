//! The map of a run's file: its filters, each checked at its first use, as pages of address.idx
//! are, and the blocks that were read by a call, checked, and had the wanted key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use filemap_io::{Map, Word};

use crate::filter::FILTER_BYTES;
use crate::format::BLOCK_BYTES;

/// The file up to its index.
#[derive(Debug)]
pub(crate) struct Mapped {
    map: Arc<dyn Map>,
    /// Filters whose checksum was verified.
    checked: Bits,
    /// Blocks whose checksum was verified and in which a key was found.
    kept: Bits,
}

impl Mapped {
    pub(crate) fn new(map: Arc<dyn Map>, blocks: usize) -> Mapped {
        Mapped { map, checked: Bits::zeros(blocks), kept: Bits::zeros(blocks) }
    }

    /// The words of block `number`'s filter, at offset `at`. `check` verifies it at its first use.
    #[inline]
    pub(crate) fn filter<E>(
        &self,
        number: u64,
        at: u64,
        check: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<&[Word], E> {
        let words = self.words(at, FILTER_BYTES);
        if !self.checked.has(number) {
            let mut bytes = [0; FILTER_BYTES];
            let pairs = bytes.as_chunks_mut::<8>().0.iter_mut().zip(words);
            pairs.for_each(|(bytes, word)| *bytes = word.load(Ordering::Relaxed).to_le_bytes());
            check(&bytes)?;
            self.checked.set(number);
        }
        Ok(words)
    }

    /// The words of block `number`, at offset `at`, after [`Mapped::keep_block`].
    #[inline]
    pub(crate) fn block(&self, number: u64, at: u64) -> Option<&[Word]> {
        self.kept.has(number).then(|| self.words(at, BLOCK_BYTES))
    }

    /// Notes that block `number` was checked and is wanted.
    pub(crate) fn keep_block(&self, number: u64) {
        self.kept.set(number);
    }

    #[inline]
    fn words(&self, at: u64, bytes: usize) -> &[Word] {
        &self.map.words()[at as usize / 8..][..bytes / 8]
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        ((self.checked.0.len() + self.kept.0.len()) * 8) as u64
    }
}

/// A bit for each block.
#[derive(Debug)]
struct Bits(Vec<AtomicU64>);

impl Bits {
    fn zeros(blocks: usize) -> Bits {
        Bits((0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn has(&self, number: u64) -> bool {
        self.0[number as usize / 64].load(Ordering::Relaxed) >> (number % 64) & 1 == 1
    }

    fn set(&self, number: u64) {
        self.0[number as usize / 64].fetch_or(1 << (number % 64), Ordering::Relaxed);
    }
}
