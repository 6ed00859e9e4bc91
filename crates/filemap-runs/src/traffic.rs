//! I/O counters of all runs of an owner: blocks searched for one key, bytes read, bytes written.

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
    /// Counts a block that a look-up searches, and the bytes that it reads for that: none if the
    /// block is mapped.
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

    /// Blocks searched for one key, total bytes read, bytes written.
    pub fn counts(&self) -> (u64, u64, u64) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (of(&self.block_reads), of(&self.read_bytes), of(&self.written_bytes))
    }
}
