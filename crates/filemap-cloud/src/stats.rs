//! Sizes of a store, from its index: segments and their bytes.

use std::sync::Arc;

use crate::core::Core;
use crate::error::Result;
use crate::store::CloudStore;

/// Sizes of a store.
///
/// ```
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://sized", Mode::Fill, &CloudOptions::new())?;
/// assert_eq!(store.stats()?.segments, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudStats {
    /// The generation of the index: 1, larger after repairs. With several shards, the largest.
    pub generation: u64,
    /// The next version's sequence: the number of committed versions and removals, plus unused
    /// numbers. With several shards, the largest.
    pub next_sequence: u64,
    /// Segments that count.
    pub segments: u64,
    /// Bytes of their records.
    pub segment_bytes: u64,
    /// Bytes that a compaction keeps.
    pub live_bytes: u64,
    /// Bytes of versions that were removed or replaced.
    pub dead_bytes: u64,
    /// Bytes of tombstones and of segment names.
    pub note_bytes: u64,
    /// Number of rewritten segments whose objects are deleted when the grace is over.
    pub waiting_segments: u64,
}

/// A segment as the index describes it.
///
/// ```
/// use filemap::access::PutRule;
/// use filemap::{Page, PageWrite};
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://segments", Mode::Fill, &CloudOptions::new())?;
/// let page = Page::new("http://example.com/", 1_700_000_000_000, 200, "hello");
/// store.put(&page, PutRule::IfNew)?;
/// store.sync()?;
/// let segments = store.segments()?;
/// assert!(segments.len() == 1 && segments[0].live_bytes > 0 && segments[0].dead_bytes == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudSegment {
    /// The name of its object, below the store's prefix.
    pub object: String,
    /// Bytes of its records.
    pub bytes: u64,
    /// Bytes that a compaction keeps.
    pub live_bytes: u64,
    /// Bytes of versions that were removed or replaced.
    pub dead_bytes: u64,
    /// Bytes of tombstones and of segment names.
    pub note_bytes: u64,
}

impl CloudStore {
    /// The sizes of the store, as of the last commit known to this handle. Reads one index row for
    /// each segment, and no segment.
    ///
    /// # Errors
    ///
    /// Errors of the object storage.
    pub fn stats(&self) -> Result<CloudStats> {
        let segments = self.segments()?;
        let sum = |of: fn(&CloudSegment) -> u64| segments.iter().fold(0, |sum: u64, one| sum.saturating_add(of(one)));
        let of_shards = self.each(|shard| {
            let generation = shard.core.index.number();
            shard.core.wait(move |core| async move {
                Ok((generation, core.index.rewritten().await?.len() as u64, core.index.next_sequence().await?))
            })
        })?;
        let generation = of_shards.iter().map(|(generation, ..)| *generation).max().unwrap_or_default();
        let waiting = of_shards.iter().map(|(_, waiting, _)| waiting).sum();
        let next_sequence = of_shards.iter().map(|(.., next)| *next).max().unwrap_or_default();
        Ok(CloudStats {
            generation,
            next_sequence,
            segments: segments.len() as u64,
            segment_bytes: sum(|one| one.bytes),
            live_bytes: sum(|one| one.live_bytes),
            dead_bytes: sum(|one| one.dead_bytes),
            note_bytes: sum(|one| one.note_bytes),
            waiting_segments: waiting,
        })
    }

    /// The segments that count, shard by shard, oldest first.
    ///
    /// # Errors
    ///
    /// As [`CloudStore::stats`].
    pub fn segments(&self) -> Result<Vec<CloudSegment>> {
        let of_shards = self.each(|shard| segments(&shard.core))?;
        Ok(of_shards.into_iter().flatten().collect())
    }
}

/// The segments of one shard.
fn segments(core: &Arc<Core>) -> Result<Vec<CloudSegment>> {
    let rows = core.wait(|core| async move { core.index.segments().await })?;
    let segment = |(id, bytes): (_, crate::format::row::Bytes)| CloudSegment {
        object: core.bucket.named(&crate::commit::object(id)),
        bytes: bytes.written,
        live_bytes: bytes.live(),
        dead_bytes: bytes.dead,
        note_bytes: bytes.notes,
    };
    Ok(rows.into_iter().map(segment).collect())
}
