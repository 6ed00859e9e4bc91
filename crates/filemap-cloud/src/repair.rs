//! A new index made of the segments alone: the way out when the index is damaged or gone.
//!
//! A segment says all of its records, so a repair puts a row for each version and removes those
//! that tombstones mean. What a fenced writer uploaded and never committed does not count (see
//! `format::segment`); of the last writer it does: those puts were never acknowledged, and come
//! back whole. What compaction has rewritten does not count either: the segment with the copies
//! names it. So the newest segments are read first.
//!
//! The new index is of a generation of its own. It counts when it is complete, so an interrupted
//! repair is repeated; the old one stays where it is.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use filemap::Version;
use filemap::access::keys;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::bucket::Bucket;
use crate::commit::{SEGMENTS, object};
use crate::compact::ms_since_1970;
use crate::error::{Error, Result};
use crate::failpoint::Mistake;
use crate::format::record::{Kind, Record};
use crate::format::row::{self, Row};
use crate::format::segment::{Segment, SegmentId, Summary};
use crate::format::sources::Sources;
use crate::index::{Changes, Generation, Index};
use crate::opening::{bounds, described, index_to_write};
use crate::options::{CloudOptions, Mode};
use crate::{location, runtime};

/// What a repair found and made.
///
/// ```
/// use filemap::PageWrite;
/// use filemap_cloud::{CloudOptions, Mode, open, repair};
/// open("mem://repaired", Mode::Fill, &CloudOptions::new())?.close()?;
/// let report = repair("mem://repaired", &CloudOptions::new())?;
/// assert_eq!((report.versions, report.damage.len()), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Segments read.
    pub segments: u64,
    /// Versions in the new index.
    pub versions: u64,
    /// Records left out, as their writer had lost the store before it committed them.
    pub uncommitted: u64,
    /// Segments of which not all could be read, and why.
    pub damage: Vec<String>,
}

/// Makes a new index of the segments of the store at `location`. Reads every segment once; holds
/// the tombstones in memory. No writer may have the store open: one that has is fenced if the old
/// index can still be opened.
///
/// # Errors
///
/// Those of [`open_bucket`](crate::open_bucket). Damaged segments are no error, but in the report.
pub fn repair(location: &str, options: &CloudOptions) -> Result<RepairReport> {
    repair_in(location::bucket(location, bounds(options))?, options)
}

/// As [`repair`], in an object store of the caller's.
///
/// # Errors
///
/// As [`repair`].
pub fn repair_on(
    objects: Arc<dyn ObjectStore>,
    prefix: &str,
    location: &str,
    options: &CloudOptions,
) -> Result<RepairReport> {
    let root = Path::parse(prefix).map_err(|error| {
        let what = error.to_string();
        Error::Location { location: location.to_owned(), what }
    })?;
    repair_in(Bucket::new(objects, root, location, bounds(options)), options)
}

fn repair_in(bucket: Bucket, options: &CloudOptions) -> Result<RepairReport> {
    let runtime = runtime::handle(bucket.location())?;
    let (options, name) = (options.clone(), bucket.clone());
    let done = runtime::wait(&runtime, async move { repaired(&bucket, &options).await });
    done.unwrap_or_else(|| Err(name.unavailable("the repair", 0, &"its task ended without an answer")))
}

async fn repaired(bucket: &Bucket, options: &CloudOptions) -> Result<RepairReport> {
    described(bucket, Mode::Write, options).await?;
    let old = Generation::newest(bucket).await?;
    // It fences a writer that is alive, if the old index is whole enough.
    if let Ok(index) = index_to_write(bucket, old, options).await {
        index.close().await?;
    }
    let new = old.next();
    let index = index_to_write(bucket, new, options).await?;
    if index.next_sequence().await? > 1 {
        index.clear().await?;
    }
    let mut repair = Repair {
        bucket,
        index: &index,
        takes_orphans: Mistake::OrphansTaken.is_planted(options.mistake),
        removed: HashMap::new(),
        named: Sources::default(),
        found: RepairReport::default(),
        commits: 0,
    };
    for id in segments(bucket).await?.into_iter().rev() {
        repair.segment(id).await?;
    }
    repair.remove().await?;
    let found = repair.found;
    index.close().await?;
    if !new.complete(bucket).await? {
        let what = "another repair was faster: open the store".to_owned();
        return Err(Error::Location { location: bucket.location().to_owned(), what });
    }
    Ok(found)
}

/// All segments, in order.
pub(crate) async fn segments(bucket: &Bucket) -> Result<Vec<SegmentId>> {
    let objects = bucket.list(SEGMENTS).await?;
    let ids = objects.iter().filter_map(|object| SegmentId::of_name(object.location.filename()?));
    let mut ids: Vec<SegmentId> = ids.collect();
    ids.sort_unstable();
    Ok(ids)
}

/// A repair under way.
struct Repair<'a> {
    bucket: &'a Bucket,
    index: &'a Index,
    takes_orphans: bool,
    /// By key: the newest tombstone of all its versions, and versions removed alone.
    removed: HashMap<Vec<u8>, (u64, Vec<Version>)>,
    /// Segments that were rewritten, and the bases of writers: of all segments read so far.
    named: Sources,
    found: RepairReport,
    commits: u64,
}

impl Repair<'_> {
    /// What writers of later epochs found committed: the first sequence that was not.
    fn limit(&self, epoch: u64) -> u64 {
        let later = self.named.bases.range((Bound::Excluded(epoch), Bound::Unbounded));
        later.map(|(_, base)| *base).min().filter(|_| !self.takes_orphans).unwrap_or(u64::MAX)
    }

    /// Puts the rows of a segment, if it counts.
    async fn segment(&mut self, id: SegmentId) -> Result<()> {
        let name = object(id);
        if self.named.segments.contains(&id) {
            let mut changes = Changes::default();
            changes.rewritten.insert(id, ms_since_1970(SystemTime::now()));
            return self.commit(changes).await;
        }
        self.found.segments += 1;
        let bytes = self.bucket.get(&name).await?.unwrap_or_default();
        let segment = match Segment::parse(&bytes, id) {
            Ok(segment) => segment,
            Err(what) => {
                self.found.damage.push(format!("{name}: {what}"));
                self.named.bases.extend(Summary::base_of(&bytes, id).map(|base| (id.epoch, base)));
                // The index names it, so that it is no orphan, and a verification tells of it.
                let mut changes = Changes::default();
                changes.segments.insert(id, row::Bytes::default());
                return self.commit(changes).await;
            }
        };
        self.named.bases.insert(id.epoch, segment.summary.base);
        if segment.summary.highest >= self.limit(id.epoch) {
            self.found.uncommitted += segment.summary.records;
            return Ok(());
        }
        let mut changes = Changes::default();
        for record in segment.records() {
            let (record, place, bytes) = match record {
                Ok(found) => found,
                Err(what) => {
                    self.found.damage.push(format!("{name}: {what}"));
                    break;
                }
            };
            changes.next = changes.next.max(record.version.sequence + 1);
            let of_segment = changes.segments.entry(id).or_default();
            of_segment.written += bytes;
            of_segment.notes += if record.kind.is_version() { 0 } else { bytes };
            match record.kind {
                Kind::Page | Kind::Reference => {
                    let row = Row::of_record(&record, place, bytes);
                    changes.rows.insert(row::of_version(&keys::form(record.key), record.version), Some(row));
                    self.found.versions += 1;
                }
                Kind::Tombstone | Kind::VersionTombstone => self.note(&record),
                Kind::Rewrite => match Sources::decode(record.payload) {
                    Some(Sources { segments, bases }) => {
                        self.named.segments.extend(segments);
                        bases.into_iter().for_each(|(epoch, base)| _ = self.named.bases.entry(epoch).or_insert(base));
                    }
                    None => self.found.damage.push(format!("{name}: the names of segments in it do not decode")),
                },
            }
        }
        self.commit(changes).await
    }

    fn note(&mut self, record: &Record<'_>) {
        let (all, versions) = self.removed.entry(record.key.to_vec()).or_default();
        match record.kind {
            Kind::Tombstone => *all = (*all).max(record.version.sequence),
            _ => versions.push(record.other),
        }
    }

    async fn commit(&mut self, mut changes: Changes) -> Result<()> {
        changes.next = changes.next.max(self.index.next_sequence().await?);
        self.commits += 1;
        self.index.commit(&changes, self.commits).await
    }

    /// Removes what tombstones mean.
    async fn remove(&mut self) -> Result<()> {
        let removed = std::mem::take(&mut self.removed);
        let mut changes = Changes::default();
        for (key, (all, versions)) in removed {
            let form = keys::form(&key);
            let mut rows = self.index.scan_key(&row::prefix(&form), row::until_time(&form, None)).await?;
            while let Some((key, value)) = rows.next().await? {
                let (Some((_, version)), Some(row)) = (row::parse(&key), Row::decode(&value)) else { continue };
                if version.sequence < all || versions.contains(&version) {
                    let dead = row::Bytes { dead: row.bytes, ..row::Bytes::default() };
                    let of_segment = changes.segments.entry(row.segment()).or_default();
                    *of_segment = of_segment.plus(dead);
                    changes.rows.insert(key.to_vec(), None);
                    self.found.versions -= 1;
                }
            }
            if changes.rows.len() >= 10_000 {
                self.commit(std::mem::take(&mut changes)).await?;
            }
        }
        self.commit(changes).await
    }
}
