//! `DiskUrlSet`: an exact set of a billion URLs in bounded memory.
//!
//! A URL is kept as a fingerprint of 80 bits (`key`). A test searches, in this order:
//!
//! 1. the memtable (`table`) of recent inserts, logged on disk in the `log`;
//! 2. the `cache` of popular URLs;
//! 3. a few sorted [runs](filemap_runs), where Bloom filters save most searches: one block of 4096
//!    bytes, read by a call until a URL is found in it, then mapped.
//!
//! A full memtable is merged into a run; `state` has the crash-safe order of writes, and the
//! `manifest` names the live files. Batches pass through the runs from front to end.
//!
//! # Cost at N = 1e9, in 1 GiB
//!
//! *Disk*: a fingerprint of 81 bits (one marks tombstones) among 1e9 takes 2 + 81 - 29.9 bits:
//! 6.64 bytes, 6.3 where hosts have many URLs, with block headers and slack 6.75 at most, and a
//! quarter more with the filters; fewer URLs are less dense (10 bytes at 1e6). A merge of the
//! largest run takes twice that for a time.
//!
//! *Memory*: the batch, 16 bytes a URL: 480 MB for 30 M URLs. The index of blocks: 10 bytes for
//! each 615 URLs, 17 MB. `memory_bytes` for memtable and cache: 128 MB suffice for batches, which
//! need neither. Filters are mapped: 1.7 bytes a URL; the kernel caches what is used. Batches do
//! not read them, and map no block.
//!
//! *Time and I/O of a test in batches of B*: every batch reads every run, 6.7 n / B bytes a test
//! at n URLs; n is N / 2 on average: 112 bytes at B = 30 M, 224 in the last batch. An entry is
//! written when it comes, and again about log2(N / B) / 2 = 2.5 times in merges, 15 bytes for
//! reading and writing each: 45 bytes. The sum is under 300 sequential bytes a test at the end.
//! Processor time: hash 30 ns, sort 45 ns, a look-up in each of log2(N / B) / 2 runs at 20 ns
//! (Elias-Fano code is searched, not decoded), merges 2.5 times 15 ns. Since runs are searched,
//! not decoded, tests of a large set are as fast as those of a small one: checksums and copies of
//! 224 bytes take 40 ns.
//!
//! *One at a time at 1e8*: filters answer for new URLs (thirteen bits a URL: seven false positives
//! in a thousand tests of a run), the cache for popular ones; the rest costs one search
//! of a block, and its read the first time.
//!
//! # Error rate
//!
//! Two URLs collide if their 56 (40) bits of URL and 24 of host are equal. The expected loss of
//! 1e9 URLs is 4e-7 if they have many hosts, 7 if they have one. So rates are computed from the
//! number of URLs in each host class, not from N alone.
//!
//! # Threads
//!
//! One lock: tests of single URLs take turns, and wait during a batch or a merge. That makes
//! exactly one insert return `New`; a crawler's threads collect their links and test them
//! together. Several threads look up a large batch, each its own part of the records and so of
//! every run.
//!
//! # Alternatives tried
//!
//! Searching every block is slow for a batch as dense as the run (47 ns a look-up): such blocks
//! are decoded. Counting ones is slow without the processor's instruction, which needs `unsafe`:
//! zeros are counted once a block. URLs of a host share their high parts, which are searched by
//! halving. Blocks mapped from the first use on made a whole set resident by false positives
//! alone, so only those in which a URL was found are. A filter of a whole run took a third of a
//! batch's time to fill, and could not be written before the run's end; one of each block stays in
//! the processor's cache while it is filled.

mod batch;
mod cache;
mod failpoint;
mod iter;
mod key;
mod log;
mod lookup;
mod manifest;
pub(crate) mod options;
mod reader;
pub(crate) mod set;
mod snapshot;
mod sort;
mod state;
mod strangers;
mod table;

pub(crate) use manifest::Keys;
pub(crate) use options::DiskOptions;
pub(crate) use set::DiskUrlSet;

pub use batch::{Answers, UrlBatch};
pub use iter::Fingerprints;
pub use key::{Fingerprint, FingerprintBits};

/// Counts of tests and their cost since a set was opened.
///
/// ```
/// use urlindex::{DiskOptions, DiskUrlSet, SeenSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// let set = DiskUrlSet::create(&path, DiskOptions::new()).unwrap();
/// set.insert(b"http://example.com/").unwrap();
/// assert_eq!((set.disk_stats().tests, set.disk_stats().runs), (1, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DiskStats {
    /// Tests of one URL.
    pub tests: u64,
    /// Tests in batches.
    pub batch_tests: u64,
    /// Single tests answered by the memtable.
    pub table_hits: u64,
    /// Single tests answered by the cache of popular URLs.
    pub cache_hits: u64,
    /// Blocks searched for one URL: read, or mapped because a URL was found in them before.
    pub block_reads: u64,
    /// Bytes read in all; a filter, and a block that is mapped then, counts once.
    pub read_bytes: u64,
    /// Bytes written in all.
    pub written_bytes: u64,
    /// Runs of the set.
    pub runs: u64,
    /// With a maximum age: milliseconds by which inserts are dated too late, and so expire too
    /// late, because the clock was once ahead. To correct it, merge the set into a new one
    /// ([`DiskUrlSet::merge_from`]), which dates all URLs as of then.
    pub ahead_ms: u64,
}

#[cfg(test)]
mod tests;
