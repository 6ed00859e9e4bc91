//! Options for opening a store in object storage: bounds of memory, requests and time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use urlindex::{Canonicalizer, Whatwg};

use crate::failpoint::Fault;

/// The default bound of total over live bytes.
pub(crate) const SPACE_BOUND: f64 = 1.25;

/// The access mode of a store.
///
/// ```
/// use filemap_cloud::{CloudOptions, Mode, open};
/// let store = open("mem://modes", Mode::Fill, &CloudOptions::new())?;
/// store.close()?;
/// assert!(open("mem://modes", Mode::Read, &CloudOptions::new()).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Reads, beside a writer, from any machine.
    Read,
    /// Writes; the store must exist. Fences an earlier writer, on whatever machine.
    Write,
    /// As `Write`, but creates a missing store.
    Fill,
}

/// Options of a store in object storage.
///
/// ```
/// use filemap_cloud::CloudOptions;
/// let options = CloudOptions::new().segment_bytes(4 << 20).max_retries(3);
/// # let _ = options;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct CloudOptions {
    pub(crate) segment_bytes: usize,
    pub(crate) unsynced_bytes: usize,
    pub(crate) uploads: usize,
    pub(crate) max_retries: u32,
    pub(crate) slowest: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) disk_cache: Option<(PathBuf, u64)>,
    pub(crate) dictionary_bytes: u64,
    pub(crate) trains: bool,
    pub(crate) poll: Duration,
    pub(crate) space_bound: Option<f64>,
    pub(crate) grace: Duration,
    pub(crate) repair_uncommitted: bool,
    pub(crate) shards: Option<u32>,
    pub(crate) only_shard: Option<u32>,
    pub(crate) canonicalizer: Arc<dyn Canonicalizer>,
    pub(crate) fault: Option<Fault>,
}

impl Default for CloudOptions {
    fn default() -> CloudOptions {
        CloudOptions {
            segment_bytes: 15 << 20,
            unsynced_bytes: 64 << 20,
            uploads: 4,
            max_retries: 8,
            slowest: 64 << 10,
            cache_bytes: 64 << 20,
            disk_cache: None,
            dictionary_bytes: 16 << 20,
            trains: false,
            poll: Duration::from_secs(60),
            space_bound: Some(SPACE_BOUND),
            grace: Duration::from_secs(3600),
            repair_uncommitted: false,
            shards: None,
            only_shard: None,
            canonicalizer: Arc::new(Whatwg),
            fault: None,
        }
    }
}

impl CloudOptions {
    /// The largest segment: it is created by a single create-only `PUT`.
    const MAX_SEGMENT_BYTES: usize = 16 << 20;

    /// The defaults.
    pub fn new() -> CloudOptions {
        CloudOptions::default()
    }

    /// The size at which a segment is uploaded; 64 KiB to 16 MiB, default 15 MiB. A larger page
    /// gets a separate object.
    pub fn segment_bytes(self, bytes: usize) -> CloudOptions {
        CloudOptions { segment_bytes: bytes.clamp(64 << 10, Self::MAX_SEGMENT_BYTES), ..self }
    }

    /// Unsynced bytes in memory at which a put waits; default 64 MiB. One more page may be added.
    /// Counted per shard of a handle.
    pub fn unsynced_bytes(self, bytes: usize) -> CloudOptions {
        CloudOptions { unsynced_bytes: bytes, ..self }
    }

    /// Parallel uploads; default 4.
    pub fn uploads(self, objects: usize) -> CloudOptions {
        CloudOptions { uploads: objects.max(1), ..self }
    }

    /// Retries of a request after transient failures, with growing pauses; default 8. After them
    /// the error is [`Error::Unavailable`](crate::Error::Unavailable).
    pub fn max_retries(self, retries: u32) -> CloudOptions {
        CloudOptions { max_retries: retries, ..self }
    }

    /// Bytes per second of the slowest supported link: a request for a segment may take 30 s plus
    /// the time for its bytes at this rate; default 64 KiB/s, so 270 s for a segment of 15 MiB.
    /// Requests of the index have 30 s, or `AWS_TIMEOUT`, which bounds all requests.
    pub fn slowest_link(self, bytes_a_second: u64) -> CloudOptions {
        CloudOptions { slowest: bytes_a_second, ..self }
    }

    /// Memory for blocks of the index; default 64 MiB. Counted per shard of a handle.
    pub fn cache_bytes(self, bytes: u64) -> CloudOptions {
        CloudOptions { cache_bytes: bytes, ..self }
    }

    /// Memory for dictionaries that were read; default 16 MiB, some 30 of them. A body that was
    /// compressed with a dictionary that is not there costs one more `GET`. Counted per shard of a
    /// handle.
    pub fn dictionary_bytes(self, bytes: u64) -> CloudOptions {
        CloudOptions { dictionary_bytes: bytes, ..self }
    }

    /// Makes a writer train dictionaries in the background: first after four full segments of a
    /// shard, then whenever it has committed eight times as much; off by default. See
    /// [`CloudStore::train`](crate::CloudStore::train), also for what follows from the first one.
    pub fn trains(self) -> CloudOptions {
        CloudOptions { trains: true, ..self }
    }

    /// Keeps what a handle opened for reading reads of segments and of tables of the index in
    /// files of this folder, in at most `bytes` (1 MiB or more); off by default. Writers keep
    /// nothing. The folder is made if its parent exists. Handles of any process and any store may
    /// share it, each with its own bound; one handle's part may come on top. Entries that are
    /// damaged are read again.
    ///
    /// Erased pages may stay in the cache: delete the folder to be sure.
    pub fn disk_cache(self, folder: impl Into<PathBuf>, bytes: u64) -> CloudOptions {
        CloudOptions { disk_cache: Some((folder.into(), bytes)), ..self }
    }

    /// Interval at which a handle polls for changes by others; default 60 s, at least 1 s.
    /// Followers see synced changes after at most this time.
    pub fn poll(self, every: Duration) -> CloudOptions {
        CloudOptions { poll: every.max(Duration::from_secs(1)), ..self }
    }

    /// The bound of total segment bytes over live bytes: above it, by at least a segment, a writer
    /// compacts in the background. 1.05 to 100, default 1.25; a tighter bound copies more. `None`:
    /// it compacts only on request.
    pub fn space_bound(self, bound: impl Into<Option<f64>>) -> CloudOptions {
        let bound = bound.into().map(|bound: f64| if bound.is_nan() { SPACE_BOUND } else { bound.clamp(1.05, 100.0) });
        CloudOptions { space_bound: bound, ..self }
    }

    /// Time that rewritten segments are kept; default 1 hour. A follower that finds one missing
    /// looks its row up again, so the grace serves long scans and owners whose clocks differ.
    pub fn grace(self, grace: Duration) -> CloudOptions {
        CloudOptions { grace, ..self }
    }

    /// Makes [`repair`](crate::repair()) also count records that the old index does not know as
    /// committed. For an index that has lost the end of its log. Puts and removals of fenced
    /// writers then also count.
    pub fn repair_uncommitted(self) -> CloudOptions {
        CloudOptions { repair_uncommitted: true, ..self }
    }

    /// The number of shards of a new store, which is permanent: 1 to 1,024, default 1. Each has
    /// one writer at a time, on any machine; a host's pages are all in one shard. A number out of
    /// range, or different from an existing store's, is refused on opening.
    pub fn shards(self, shards: u32) -> CloudOptions {
        CloudOptions { shards: Some(shards), ..self }
    }

    /// Opens only this shard, numbered from 0: only its writer is fenced. Calls for pages of other
    /// shards fail with [`Error::OtherShard`](crate::Error::OtherShard); listings have this
    /// shard's pages.
    pub fn only_shard(self, shard: u32) -> CloudOptions {
        CloudOptions { only_shard: Some(shard), ..self }
    }

    /// The canonicaliser of a new store; default [`Whatwg`]. An existing store keeps its own.
    pub fn canonicalizer(self, canonicalizer: Arc<dyn Canonicalizer>) -> CloudOptions {
        CloudOptions { canonicalizer, ..self }
    }

    /// Plants this fault, which a test must catch.
    #[cfg(feature = "sim")]
    pub fn fault(self, fault: Fault) -> CloudOptions {
        CloudOptions { fault: Some(fault), ..self }
    }
}
