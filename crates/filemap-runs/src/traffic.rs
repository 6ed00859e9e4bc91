//! I/O counters of all runs of an owner: reads of single blocks, bytes read, bytes written.

use std::sync::atomic::{AtomicU64, Ordering};

/// I/O counters shared by all files of an owner.
///
/// ```
/// use filemap_runs::Traffic;
///
/// let traffic = Traffic::default();
/// traffic.block_read(4096);
/// traffic.written(512);
/// assert_eq!(traffic.counts(), (1, 4096, 512));
/// ```
#[derive(Debug, Default)]
pub struct Traffic {
    block_reads: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Traffic {
    /// Counts the read of one block for a look-up.
    pub fn block_read(&self, bytes: u64) {
        self.block_reads.fetch_add(1, Ordering::Relaxed);
        self.read(bytes);
    }

    /// Counts bytes read.
    pub fn read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes written.
    pub fn written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Block reads, total bytes read, bytes written.
    pub fn counts(&self) -> (u64, u64, u64) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (of(&self.block_reads), of(&self.read_bytes), of(&self.written_bytes))
    }
}
