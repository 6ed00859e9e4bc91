//! Repair: builds a new index from the segments alone, when the index is damaged or missing.
//!
//! Segments are self-contained, so a repair writes a row for each version and removes those that
//! tombstones name. Uncommitted uploads do not count: the old index identifies them, and so do
//! segments of later writers (see `format::segment`). If the old index's log has lost its end,
//! both are wrong: `CloudOptions::repair_uncommitted` counts all. If the old index is missing, the
//! last writer's uploads count: those puts were never acknowledged, but are restored completely.
//! Rewritten segments do not count either: the segment with the copies names them, so the newest
//! segments are read first.
//!
//! First a repair takes a number for its index: no writer can begin until it has ended, and a live
//! one gets an error at its next commit (see `index::generation`). Numbers are never reused, so a
//! failed repair leaves nothing in a later index. Then the repair opens the old index, which
//! fences the writer and shows what it has committed. The new index counts once it is complete, so
//! an interrupted repair can simply be repeated; the old index is kept.
//!
//! Segments that the old index names but that do not exist are reported as missing. Without the
//! old index they are unknown. Records name the dictionaries that they need, so the new index
//! knows which ones must stay; a segment that was not read whole may need any.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use filemap::access::keys;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::bucket::Bucket;
use crate::commit::{SEGMENTS, object};
use crate::compact::ms_since_1970;
use crate::dictionaries::Dictionaries;
use crate::error::{Error, Result};
use crate::failpoint::Fault;
use crate::format::dictionary;
use crate::format::record::{DictionaryId, Kind, Record};
use crate::format::row::{self, Row, Uses};
use crate::format::segment::{Placed, Salvage, Segment, SegmentId, Summary};
use crate::format::sources::Sources;
use crate::index::{Changes, Generation, Generations, Index, Taken};
use crate::opening::{bounds, described, index_to_write, wanted};
use crate::options::{CloudOptions, Mode};
use crate::verify::Removed;
use crate::{keeping, kept, location, probe, runtime};

/// Result of a repair.
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
    /// Number of segments read.
    pub segments: u64,
    /// Number of versions in the new index.
    pub versions: u64,
    /// Number of records left out, because neither the old index nor a later writer knew them as
    /// committed: of a fenced writer, or of an index that had lost the end of its log. In the
    /// latter case repeat the repair with
    /// [`CloudOptions::repair_uncommitted`](crate::CloudOptions::repair_uncommitted).
    pub uncommitted: u64,
    /// Unreadable parts of segments with the reason, missing segments, missing dictionaries,
    /// missing parts of kept files, and shards that are not repaired. A version with only a
    /// damaged body, or whose dictionary is missing, is in the new index, and reading it is an
    /// error; the versions of a missing segment are lost.
    pub damage: Vec<String>,
    /// Unreadable bytes, and the bytes written to missing segments.
    pub lost_bytes: u64,
    /// True if tombstones may have been lost: removed pages may have come back, and segments
    /// rewritten by a compaction may count again.
    pub may_return: bool,
    /// Reason why the old index's list of segments is unknown, so that missing segments cannot be
    /// noticed. `None`: the list was read.
    pub unknown_segments: Option<String>,
    /// True if files were kept with the store
    /// ([`CloudStore::sync_with`](crate::CloudStore::sync_with)), but the old index that names
    /// them is lost, or some are missing: a crawl into the store starts over.
    pub kept_lost: bool,
}

impl RepairReport {
    /// Returns whether all segments of the old index are known to exist, and all records of all
    /// segments were read and count.
    pub fn is_complete(&self) -> bool {
        self.damage.is_empty() && self.uncommitted == 0 && self.unknown_segments.is_none() && !self.kept_lost
    }
}

/// Builds a new index from the segments of the store at `location`, of each shard or of one
/// ([`CloudOptions::only_shard`]). A shard that cannot be repaired is in the report, and the
/// others are repaired. Reads every segment once; holds the tombstones in memory. A writer that
/// has the store open is fenced, and none can begin until the repair has ended.
///
/// # Errors
///
/// Errors of [`open_bucket`](crate::open_bucket): then repeat the repair.
/// [`Error::Repairing`](crate::Error::Repairing): a later repair has begun. Damaged segments are
/// not an error, but are in the report.
pub fn repair(location: &str, options: &CloudOptions) -> Result<RepairReport> {
    repair_in(location::bucket(location, bounds(options))?, options)
}

/// As [`repair`], in the caller's own object store.
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
    let of = described(bucket, Mode::Write, options).await?.shards;
    let mut all = RepairReport::default();
    let wanted = wanted(bucket, of, options)?;
    let is_one = wanted.len() == 1;
    for shard in wanted {
        let bucket = bucket.of_shard(shard, of);
        let found = match repaired_shard(&bucket, options).await {
            Err(error) if !is_one => {
                // The losses of earlier shards are already in the report.
                all.damage.push(format!("{}: not repaired: {error}", bucket.shard_name()));
                continue;
            }
            found => found?,
        };
        all.segments += found.segments;
        all.versions += found.versions;
        all.uncommitted += found.uncommitted;
        all.damage.extend(found.damage);
        all.lost_bytes += found.lost_bytes;
        all.may_return |= found.may_return;
        all.unknown_segments = all.unknown_segments.or(found.unknown_segments);
        all.kept_lost |= found.kept_lost;
    }
    Ok(all)
}

async fn repaired_shard(bucket: &Bucket, options: &CloudOptions) -> Result<RepairReport> {
    let new = Taken::take(bucket, bucket.token()?).await?;
    match made(bucket, options, new.generation).await {
        Ok(found) => new.complete(bucket).await.map(|()| found),
        Err(error) => {
            new.fail(bucket).await;
            Err(error)
        }
    }
}

/// Builds the index of a new generation.
async fn made(bucket: &Bucket, options: &CloudOptions, new: Generation) -> Result<RepairReport> {
    let old = Old::read(bucket, options).await?;
    let found = probe::probe(bucket, &bucket.token()?).await?;
    let index = Index::make_new(bucket.clone(), new, options, found.replaces_if_match).await?;
    let wrong = kept::wrong(bucket, old.kept.as_deref(), false).await?;
    let kept_lost = !wrong.is_empty() || old.loses_kept(bucket).await?;
    let dictionaries = Dictionaries::listed(bucket).await?.into_iter().map(|(id, _)| id).collect();
    let mut repair = Repair {
        dictionaries,
        missing: BTreeMap::new(),
        bucket,
        index: &index,
        takes_orphans: options.repair_uncommitted || Fault::OrphansTaken.is_planted(options.fault),
        old_next: old.next,
        removed: Removed::default(),
        named: Sources { bases: old.base.into_iter().collect(), ..Sources::default() },
        kept: old.kept.clone().filter(|_| !kept_lost),
        found: RepairReport { kept_lost, damage: wrong, ..RepairReport::default() },
        commits: 0,
    };
    repair.found.unknown_segments = old.unread;
    let there = segments(bucket).await?;
    for id in there.iter().rev() {
        repair.segment(*id).await?;
    }
    repair.gone(&old.segments, &there);
    repair.without_dictionary();
    repair.remove().await?;
    let found = repair.found;
    index.close().await?;
    Ok(found)
}

/// The readable state of the old index.
struct Old {
    /// The epoch of the handle that opened it, and the first uncommitted sequence.
    base: Option<(u64, u64)>,
    /// The first uncommitted sequence; without an index the first sequence of all.
    next: u64,
    /// The segments that count.
    segments: BTreeMap<SegmentId, row::Bytes>,
    /// Reason why they are unknown.
    unread: Option<String>,
    /// The row that names the kept files.
    kept: Option<Bytes>,
}

impl Old {
    /// Opens the index, which fences a live writer. A damaged index is not trusted; a transient
    /// error ends the repair.
    async fn read(bucket: &Bucket, options: &CloudOptions) -> Result<Old> {
        let mut old = Old { base: None, next: 1, segments: BTreeMap::new(), unread: None, kept: None };
        let generation = Generations::read(bucket).await?.newest;
        let segments = match index_to_write(bucket, generation, options).await {
            Ok((index, base)) => {
                (old.base, old.next) = (Some((index.epoch().unwrap_or_default(), base)), base);
                let segments = index.segments().await;
                let kept = index.kept().await;
                // Nothing was written through it.
                let _ = index.close().await;
                segments.and_then(|segments| Ok((segments, kept?)))
            }
            Err(error) => Err(error),
        };
        match segments {
            Ok((segments, kept)) => (old.segments, old.kept) = (segments, kept),
            Err(error) if error.is_damage() => old.unread = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        Ok(old)
    }
}

impl Old {
    /// Returns whether kept files exist but the index does not name them.
    async fn loses_kept(&self, bucket: &Bucket) -> Result<bool> {
        Ok(self.unread.is_some() && !bucket.list(keeping::FOLDER).await?.is_empty())
    }
}

/// All segments, in order.
pub(crate) async fn segments(bucket: &Bucket) -> Result<Vec<SegmentId>> {
    let objects = bucket.list(SEGMENTS).await?;
    let ids = objects.iter().filter_map(|object| SegmentId::of_name(object.location.filename()?));
    let mut ids: Vec<SegmentId> = ids.collect();
    ids.sort_unstable();
    Ok(ids)
}

/// A running repair.
struct Repair<'a> {
    bucket: &'a Bucket,
    index: &'a Index,
    takes_orphans: bool,
    /// The old index's first uncommitted sequence: those below are not reused, even if their
    /// segments are missing.
    old_next: u64,
    removed: Removed,
    /// Rewritten segments and the bases of writers, from all segments read so far.
    named: Sources,
    kept: Option<Bytes>,
    /// The dictionaries in object storage.
    dictionaries: BTreeSet<DictionaryId>,
    /// Missing ones, with the number of records that need each.
    missing: BTreeMap<DictionaryId, u64>,
    found: RepairReport,
    commits: u64,
}

impl Repair<'_> {
    /// The first uncommitted sequence of an epoch, as writers of later epochs recorded it.
    fn limit(&self, epoch: u64) -> u64 {
        let later = self.named.bases.range((Bound::Excluded(epoch), Bound::Unbounded));
        later.map(|(_, base)| *base).min().filter(|_| !self.takes_orphans).unwrap_or(u64::MAX)
    }

    /// Writes the rows of a segment, if it counts.
    async fn segment(&mut self, id: SegmentId) -> Result<()> {
        let name = object(id);
        let mut changes = Changes::default();
        if self.named.segments.contains(&id) {
            changes.rewritten.insert(id, ms_since_1970(SystemTime::now()));
            if !self.dictionaries.is_empty() {
                // It is not read. A checkpoint may still need it.
                changes.uses.insert(id, Uses::Any);
            }
            return self.commit(changes).await;
        }
        self.found.segments += 1;
        let bytes = self.bucket.get(&name).await?.unwrap_or_default();
        let (segment, base, highest) = match Segment::parse(&bytes, id) {
            Ok(segment) => {
                let Summary { base, highest, .. } = segment.summary;
                (segment, Some(base), Some(highest))
            }
            Err(what) => {
                let Salvage { segment, base, highest } = Segment::salvage(&bytes, id);
                self.lost(&name, what, 0, highest.is_none());
                (segment, base, highest)
            }
        };
        self.named.bases.extend(base.map(|base| (id.epoch, base)));
        let records: Vec<_> = segment.records().collect();
        let placed = || {
            records.iter().filter_map(|record| record.as_ref().map_or_else(|lost| lost.record, |found| Some(*found)))
        };
        let read = placed().map(|(record, ..)| record.version.sequence).max();
        if highest.max(read).is_some_and(|highest| highest >= self.limit(id.epoch)) {
            self.found.uncommitted += records.len() as u64;
            return Ok(());
        }
        changes.next = highest.max(read).unwrap_or_default().saturating_add(1);
        // Registers it, so that it is not an orphan even if unreadable; `verify` reports the
        // damage.
        changes.segments.insert(id, row::Bytes::default());
        for unreadable in records.iter().filter_map(|record| record.as_ref().err()) {
            let is_unknown = unreadable.record.is_none();
            self.lost(&name, &unreadable.what, unreadable.bytes, is_unknown);
            if is_unknown && highest.is_none() {
                // No sequence of the lost records is reused.
                changes.next = changes.next.saturating_add(unreadable.bytes / Record::LEAST_BYTES);
            }
        }
        for (placed, is_whole) in records.iter().filter_map(|record| match record {
            Ok(found) => Some((found, true)),
            Err(lost) => lost.record.as_ref().map(|found| (found, false)),
        }) {
            self.record(placed, is_whole, &name, &mut changes);
        }
        // Without a footer it may have been cut off between two records.
        let is_unknown =
            highest.is_none() || records.iter().any(|record| record.as_ref().is_err_and(|lost| lost.record.is_none()));
        self.needs(id, placed().filter_map(|(record, ..)| record.dictionary()).collect(), is_unknown, &mut changes);
        self.commit(changes).await
    }

    /// Reports segments of the old index that are missing and that no other segment replaces. A
    /// compaction deletes a segment only after the index has dropped it.
    fn gone(&mut self, old: &BTreeMap<SegmentId, row::Bytes>, there: &[SegmentId]) {
        let is_gone = |id: &SegmentId| there.binary_search(id).is_err() && !self.named.segments.contains(id);
        let gone: Vec<_> = old.iter().filter(|(id, _)| is_gone(id)).collect();
        for (id, bytes) in gone {
            let what = format!("it is missing, with {} bytes of records", bytes.written);
            self.lost(&object(*id), &what, bytes.written, bytes.notes > 0);
        }
    }

    /// Notes the dictionaries that a segment names.
    fn needs(&mut self, id: SegmentId, named: Vec<DictionaryId>, is_unknown: bool, changes: &mut Changes) {
        for missing in named.iter().filter(|id| !self.dictionaries.contains(*id)) {
            *self.missing.entry(*missing).or_default() += 1;
        }
        if is_unknown && !self.dictionaries.is_empty() {
            changes.uses.insert(id, Uses::Any);
        } else if !named.is_empty() {
            changes.uses.insert(id, Uses::Named(named.into_iter().collect()));
        }
    }

    /// Reports the dictionaries that records name and that do not exist.
    fn without_dictionary(&mut self) {
        for (id, records) in std::mem::take(&mut self.missing) {
            let name = self.bucket.named(&dictionary::object(id));
            let what = format!("{name}: it is missing; bodies of {records} versions cannot be read without it");
            self.found.damage.push(what);
        }
    }

    fn lost(&mut self, name: &str, what: &str, bytes: u64, may_return: bool) {
        self.found.damage.push(format!("{}: {what}", self.bucket.named(name)));
        self.found.lost_bytes += bytes;
        self.found.may_return |= may_return;
    }

    /// Adds a record of a segment that counts. A damaged one has no payload.
    fn record(&mut self, placed: &Placed<'_>, is_whole: bool, name: &str, changes: &mut Changes) {
        let &(record, place, bytes) = placed;
        let of_segment = changes.segments.entry(SegmentId { epoch: place.epoch, number: place.segment }).or_default();
        of_segment.written = of_segment.written.saturating_add(bytes);
        of_segment.notes += if record.kind.is_version() { 0 } else { bytes };
        match record.kind {
            Kind::Page | Kind::Reference => {
                let row = Row::of_record(&record, place, bytes);
                changes.rows.insert(row::of_version(&keys::form(record.key), record.version), Some(row));
                self.found.versions += 1;
            }
            Kind::Tombstone | Kind::VersionTombstone => self.removed.note(&record),
            Kind::Rewrite => match Sources::decode(record.payload).filter(|_| is_whole) {
                Some(Sources { segments, bases }) => {
                    self.named.segments.extend(segments);
                    bases.into_iter().for_each(|(epoch, base)| _ = self.named.bases.entry(epoch).or_insert(base));
                }
                None => self.lost(name, "the names of segments in it do not decode", 0, true),
            },
        }
    }

    async fn commit(&mut self, mut changes: Changes) -> Result<()> {
        changes.next = changes.next.max(self.old_next).max(self.index.next_sequence().await?);
        self.commits += 1;
        self.index.commit(&changes, self.commits).await
    }

    /// Removes the versions that tombstones name.
    async fn remove(&mut self) -> Result<()> {
        let removed = std::mem::take(&mut self.removed).0;
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
                    self.found.versions = self.found.versions.saturating_sub(1);
                }
            }
            if changes.rows.len() >= 10_000 {
                self.commit(std::mem::take(&mut changes)).await?;
            }
        }
        changes.kept = self.kept.take().map(|kept| kept.to_vec());
        self.commit(changes).await
    }
}
