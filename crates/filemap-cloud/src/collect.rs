//! Collection of orphans: segments that a writer uploaded but never committed, because it failed
//! or was fenced.
//!
//! Only orphans of earlier epochs are deleted: their writers are fenced, so no commit can name
//! them any more; only a repair can, which fences this writer: see `deletion`. This writer's
//! current uploads are not in the index yet. A grace applies, so that an operator's mistake can be
//! investigated.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::commit::{SEGMENTS, object};
use crate::core::Core;
use crate::deletion;
use crate::error::Result;
use crate::failpoint::Fault;
use crate::format::segment::SegmentId;
use crate::store::CloudStore;
use crate::unused;

/// Result of a collection.
///
/// ```
/// use std::time::Duration;
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://collected", Mode::Fill, &CloudOptions::new())?;
/// assert_eq!(store.collect(Duration::from_secs(3600))?.segments, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectReport {
    /// Number of segments deleted.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Orphans younger than the grace, which are kept.
    pub young: u64,
    /// Number of dictionaries deleted, which no segment names.
    pub dictionaries: u64,
}

impl CloudStore {
    /// Deletes segments of earlier writers that no index names and that are older than `grace`,
    /// and such dictionaries that no segment names. The age is the difference between this
    /// machine's clock and the object storage's, which must agree to within `grace`. Two listings,
    /// with dictionaries three, one request for each object, and some for each 32 of them, to
    /// learn whether this handle still owns the store.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`](crate::Error::ReadOnly); [`Error::Fenced`](crate::Error::Fenced) and
    /// [`Error::Repairing`](crate::Error::Repairing): a segment that this handle knows as an
    /// orphan may count again, and none is deleted; those of the object storage.
    pub fn collect(&self, grace: Duration) -> filemap::Result<CollectReport> {
        let reports = self.each(|shard| collected(&shard.core, grace))?;
        Ok(reports.into_iter().fold(CollectReport::default(), |all, one| CollectReport {
            segments: all.segments + one.segments,
            bytes: all.bytes + one.bytes,
            young: all.young + one.young,
            dictionaries: all.dictionaries + one.dictionaries,
        }))
    }
}

/// Collects the orphans of one shard.
pub(crate) fn collected(core: &Arc<Core>, grace: Duration) -> Result<CollectReport> {
    let writer = core.writer.as_ref().ok_or_else(|| core.index.read_only())?;
    let (epoch, fault) = (writer.epoch, writer.fault);
    let oldest = SystemTime::now().checked_sub(grace).unwrap_or(SystemTime::UNIX_EPOCH);
    let report = core.wait(move |core| async move {
        let rows = core.index.segments().await?;
        let rewritten = core.index.rewritten().await?;
        let (mut report, mut orphans) = (CollectReport::default(), Vec::new());
        for found in core.bucket.list(SEGMENTS).await? {
            let Some(id) = found.location.filename().and_then(SegmentId::of_name) else { continue };
            let is_earlier = id.epoch < epoch || Fault::OwnCollected.is_planted(fault);
            if rows.contains_key(&id) || rewritten.contains_key(&id) || !is_earlier {
                continue;
            }
            if SystemTime::from(found.last_modified) > oldest {
                report.young += 1;
                continue;
            }
            orphans.push(object(id));
            report.segments += 1;
            report.bytes += found.size;
        }
        // A repair may have taken them in, if this writer is fenced.
        deletion::delete(&core, &orphans).await?;
        Ok::<_, crate::error::Error>(report)
    })?;
    Ok(CollectReport { dictionaries: unused::deleted(core, grace)?, ..report })
}
