//! What runs ask of their files, counted: reads of single blocks, bytes read, bytes written;
//! shared by all runs of an owner.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that all files of an owner share.
#[derive(Debug, Default)]
pub struct Traffic {
    block_reads: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Traffic {
    /// A read of one block, for one look-up.
    pub fn block_read(&self, bytes: u64) {
        self.block_reads.fetch_add(1, Ordering::Relaxed);
        self.read(bytes);
    }

    /// Bytes that were read.
    pub fn read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were written.
    pub fn written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reads of one block, bytes read in all, bytes written.
    pub fn counts(&self) -> (u64, u64, u64) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (of(&self.block_reads), of(&self.read_bytes), of(&self.written_bytes))
    }
}
