//! How a store in object storage is opened: its bounds of memory, of requests and of time.

use std::sync::Arc;
use std::time::Duration;

use urlindex::{Canonicalizer, Whatwg};

use crate::failpoint::Fault;

/// The default bound of bytes over live bytes.
pub(crate) const SPACE_BOUND: f64 = 1.25;

/// What a store is opened for.
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
    /// To read, beside a writer, on any machine.
    Read,
    /// To write; it must exist. An earlier writer, on whatever machine, may not write any more.
    Write,
    /// As `Write`, and made if it is absent.
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
    /// The largest segment: a create-only `PUT` of one request.
    const MAX_SEGMENT_BYTES: usize = 16 << 20;

    /// The defaults.
    pub fn new() -> CloudOptions {
        CloudOptions::default()
    }

    /// Bytes of an object with pages, at which it is uploaded; 64 KiB to 16 MiB, default 15 MiB. A
    /// larger page has an object of its own.
    pub fn segment_bytes(self, bytes: usize) -> CloudOptions {
        CloudOptions { segment_bytes: bytes.clamp(64 << 10, Self::MAX_SEGMENT_BYTES), ..self }
    }

    /// Bytes in memory that are not safe yet, at which a put waits; default 64 MiB. One page more
    /// may be there. For each shard that a handle has.
    pub fn unsynced_bytes(self, bytes: usize) -> CloudOptions {
        CloudOptions { unsynced_bytes: bytes, ..self }
    }

    /// Objects that are uploaded at once; default 4.
    pub fn uploads(self, objects: usize) -> CloudOptions {
        CloudOptions { uploads: objects.max(1), ..self }
    }

    /// Retries of one request that failed in a way that may pass, with growing pauses; default 8.
    /// Then the error is [`Error::Unavailable`](crate::Error::Unavailable).
    pub fn max_retries(self, retries: u32) -> CloudOptions {
        CloudOptions { max_retries: retries, ..self }
    }

    /// Bytes a second of the slowest link that is still waited for: a request for a segment has
    /// 30 s and the time that its bytes take at this rate; default 64 KiB/s, so a segment of
    /// 15 MiB has 270 s. Requests of the index have 30 s, or `AWS_TIMEOUT`, which bounds all.
    pub fn slowest_link(self, bytes_a_second: u64) -> CloudOptions {
        CloudOptions { slowest: bytes_a_second, ..self }
    }

    /// Memory for blocks of the index; default 64 MiB. For each shard that a handle has.
    pub fn cache_bytes(self, bytes: u64) -> CloudOptions {
        CloudOptions { cache_bytes: bytes, ..self }
    }

    /// How often a handle looks for what others wrote; default 60 s, at least 1 s. A reader sees
    /// what was synced after so long.
    pub fn poll(self, every: Duration) -> CloudOptions {
        CloudOptions { poll: every.max(Duration::from_secs(1)), ..self }
    }

    /// The bytes of all segments over those of what lives in them, at most: a writer compacts in
    /// the background when they are more, by at least a segment. 1.05 to 100, default 1.25; a
    /// tighter bound copies more. `None`: it compacts only when it is told to.
    pub fn space_bound(self, bound: impl Into<Option<f64>>) -> CloudOptions {
        let bound = bound.into().map(|bound: f64| if bound.is_nan() { SPACE_BOUND } else { bound.clamp(1.05, 100.0) });
        CloudOptions { space_bound: bound, ..self }
    }

    /// How long segments that a compaction has rewritten stay; default 1 hour. A reader that meets
    /// one that is gone looks its row up again, so this is for long scans and for clocks of owners
    /// that differ.
    pub fn grace(self, grace: Duration) -> CloudOptions {
        CloudOptions { grace, ..self }
    }

    /// [`repair`](crate::repair()) counts records, too, that the old index does not know to be
    /// committed. For an index that has lost the end of its log. Puts and removals of writers that
    /// had lost the store count then, too.
    pub fn repair_uncommitted(self) -> CloudOptions {
        CloudOptions { repair_uncommitted: true, ..self }
    }

    /// How many shards a new store has, for good: 1 to 1,024, default 1. Each has one writer at
    /// once, on any machine; a host's pages are in one of them. Another number is refused when a
    /// store is opened, and so is one that exists with another number.
    pub fn shards(self, shards: u32) -> CloudOptions {
        CloudOptions { shards: Some(shards), ..self }
    }

    /// Opens this shard alone, numbered from 0: its writer is the one whose place is taken. Calls
    /// for pages of others are [`Error::OtherShard`](crate::Error::OtherShard); listings have its
    /// pages.
    pub fn only_shard(self, shard: u32) -> CloudOptions {
        CloudOptions { only_shard: Some(shard), ..self }
    }

    /// Makes the keys of a new store; default [`Whatwg`]. A store that exists has its own.
    pub fn canonicalizer(self, canonicalizer: Arc<dyn Canonicalizer>) -> CloudOptions {
        CloudOptions { canonicalizer, ..self }
    }

    /// Plants this fault, which a test must catch.
    #[cfg(feature = "sim")]
    pub fn fault(self, fault: Fault) -> CloudOptions {
        CloudOptions { fault: Some(fault), ..self }
    }
}
