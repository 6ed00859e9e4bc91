//! What the set asks of its files, counted: reads and bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that all files of a set share.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    block_reads: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Traffic {
    /// A read of one block, for one URL.
    pub(super) fn block_read(&self, bytes: u64) {
        self.block_reads.fetch_add(1, Ordering::Relaxed);
        self.read(bytes);
    }

    pub(super) fn read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reads of one block, bytes read in all, bytes written.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (of(&self.block_reads), of(&self.read_bytes), of(&self.written_bytes))
    }
}
