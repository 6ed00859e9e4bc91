//! Compaction: copies the live records of some segments into a new one, moves their index rows to
//! it, and deletes the old segments after a grace.
//!
//! 1. The rewrite begins: removals from here on are recorded, and their tombstones name the new
//!    segment too. Earlier removals are made durable.
//! 2. A record is copied if the index names it at its place. So no record is left out because of a
//!    removal that is not durable yet. A row that does not decode, or that names the record with
//!    other fields, is damage: it never makes a record dead.
//! 3. The new segment is committed like any other, with the rows that were not removed meanwhile.
//!    It names the segments it replaces: a repair ignores those, deleted or not.
//! 4. Their objects are deleted when that commit is durable and the grace is over. After a failed
//!    commit none is deleted: the rows in memory may not be durable. Nor does a fenced writer
//!    delete any: see `deletion`. A live checkpoint taken before the rewrite keeps them: see
//!    `pins`.
//!
//! A tombstone is copied while a segment that it names counts. A damaged segment is kept and
//! reported. Segments that need a retired dictionary are rewritten too, and bodies that need it
//! are compressed again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use filemap::access::keys;
use filemap_core::compact::CompactionGoal;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::commit::object;
use crate::core::{Core, shown};
use crate::deletion;
use crate::error::Result;
use crate::failpoint::Fault;
use crate::format::record::{Kind, Place, Record};
use crate::format::row::{self, Row};
use crate::format::segment::{Builder, Segment, SegmentId, Summary, Unreadable};
use crate::format::sources::{self, Sources};
use crate::options::SPACE_BOUND;
use crate::pins;
use crate::plan::{Want, plan};
use crate::repack::Repack;
use crate::store::CloudStore;
use crate::writer::{Rewritten, Writer};

/// Number of rows looked up in parallel.
const AT_ONCE: usize = 32;

/// Result of a compaction.
///
/// ```
/// use filemap_core::compact::CompactionGoal;
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://compacted", Mode::Fill, &CloudOptions::new())?;
/// assert_eq!(store.compact(CompactionGoal::NoGarbage)?.rewritten, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Number of segments rewritten.
    pub rewritten: u64,
    /// Their bytes.
    pub rewritten_bytes: u64,
    /// Bytes of the segments that replaced them.
    pub copied_bytes: u64,
    /// Number of objects deleted, including those of earlier compactions.
    pub deleted: u64,
    /// Number of objects kept until the grace is over, or for a checkpoint.
    pub waiting: u64,
    /// Number of these that a checkpoint keeps, although the grace is over:
    /// [`CloudStore::checkpoints`] lists it.
    pub pinned: u64,
    /// Segments kept because they are damaged, and dictionaries that bodies still need although an
    /// erasure has retired them, with the reason.
    pub damage: Vec<String>,
}

/// Plan of a compaction.
///
/// ```
/// use filemap_core::compact::CompactionGoal;
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://planned", Mode::Fill, &CloudOptions::new())?;
/// assert_eq!(store.compaction_plan(CompactionGoal::NoGarbage)?.segments.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactPlan {
    /// Segments that would be rewritten, by object name.
    pub segments: Vec<String>,
    /// Bytes that would be copied; tombstones that are still needed come on top.
    pub copied_bytes: u64,
    /// Bytes that would be freed, minus these tombstones.
    pub freed_bytes: u64,
    /// Number of segments rewritten earlier, whose objects wait for the grace.
    pub waiting: u64,
}

impl CloudStore {
    /// Reports what [`CloudStore::compact`] would rewrite, as of the last commit known to this
    /// handle. Also works on a follower. Reads only the index rows of segments.
    ///
    /// # Errors
    ///
    /// Errors of the object storage.
    pub fn compaction_plan(&self, goal: CompactionGoal) -> filemap::Result<CompactPlan> {
        let plans = self.each(|shard| planned(&shard.core, goal))?;
        Ok(plans.into_iter().fold(CompactPlan::default(), |mut all, plan| {
            all.segments.extend(plan.segments);
            all.copied_bytes = all.copied_bytes.saturating_add(plan.copied_bytes);
            all.freed_bytes = all.freed_bytes.saturating_add(plan.freed_bytes);
            all.waiting += plan.waiting;
            all
        }))
    }

    /// Rewrites segments: those whose dead bytes exceed the bound
    /// ([`CloudOptions::space_bound`](crate::CloudOptions::space_bound), 1.25 without one), or all
    /// with dead bytes, and small ones if there are many. Then deletes objects of rewritten
    /// segments whose grace is over. Puts and removals continue meanwhile.
    ///
    /// Costs a `GET` for each segment with live records, two `PUT` for each new one and its
    /// commit, a `DELETE` for each old one. A writer also compacts in the background.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`](crate::Error::ReadOnly); [`Error::Fenced`](crate::Error::Fenced) and
    /// [`Error::Repairing`](crate::Error::Repairing), also before the first delete; those of the
    /// object storage: work done before the error is kept.
    pub fn compact(&self, goal: CompactionGoal) -> filemap::Result<CompactReport> {
        let passed = self.each(|shard| pass(&shard.core, want(&shard.core, goal), shard.core.options.grace))?;
        Ok(passed.into_iter().fold(CompactReport::default(), CompactReport::plus))
    }
}

impl CompactReport {
    /// Adds the report of another shard.
    pub(crate) fn plus(mut self, one: CompactReport) -> CompactReport {
        self.rewritten += one.rewritten;
        self.rewritten_bytes += one.rewritten_bytes;
        self.copied_bytes += one.copied_bytes;
        self.deleted += one.deleted;
        self.waiting += one.waiting;
        self.pinned += one.pinned;
        self.damage.extend(one.damage);
        self
    }
}

/// The plan for one shard.
fn planned(core: &Arc<Core>, goal: CompactionGoal) -> Result<CompactPlan> {
    let (rows, rewritten) =
        core.wait(|core| async move { Ok((core.index.segments().await?, core.index.rewritten().await?)) })?;
    let mut planned = CompactPlan { waiting: rewritten.len() as u64, ..CompactPlan::default() };
    let groups = plan(&rows, want(core, goal), core.options.segment_bytes as u64);
    for id in groups.iter().flatten() {
        let bytes = rows.get(id).copied().unwrap_or_default();
        planned.segments.push(core.bucket.named(&object(*id)));
        planned.copied_bytes = planned.copied_bytes.saturating_add(bytes.live());
        planned.freed_bytes = planned.freed_bytes.saturating_add(bytes.garbage());
    }
    Ok(planned)
}

fn want(core: &Core, goal: CompactionGoal) -> Want {
    match goal {
        CompactionGoal::NoGarbage => Want::NoGarbage,
        CompactionGoal::Bound => Want::Bound(core.options.space_bound.unwrap_or(SPACE_BOUND)),
    }
}

/// Runs one compaction; a concurrent call waits for its end.
pub(crate) fn pass(core: &Arc<Core>, want: Want, grace: Duration) -> Result<CompactReport> {
    pass_at(core, want, grace, None)
}

/// As [`pass`]; with a level, bodies that it makes shorter are compressed again.
pub(crate) fn pass_at(core: &Arc<Core>, want: Want, grace: Duration, level: Option<i32>) -> Result<CompactReport> {
    let writer = core.writer.as_ref().ok_or_else(|| core.index.read_only())?;
    let _alone = writer.compacting.lock().unwrap_or_else(PoisonError::into_inner);
    writer.progress.check()?;
    let mut report = CompactReport::default();
    let rows = core.wait(|core| async move { core.index.segments().await })?;
    let live = rows.values().fold(0, |sum: u64, bytes| sum.saturating_add(bytes.live()));
    writer.due.begun(live);
    let mut groups = plan(&rows, want, core.options.segment_bytes as u64);
    let planned: BTreeSet<SegmentId> = groups.iter().flatten().copied().collect();
    let mut repack = Repack::new(core, level);
    let needing = repack.needing(core, &rows)?.into_iter().filter(|id| !planned.contains(id));
    groups.extend(needing.map(|id| vec![id]));
    report.damage.extend(repack.damage(core));
    for group in groups {
        if core.is_closing() {
            break;
        }
        rewrite(core, writer, &group, &repack, &mut report)?;
    }
    sweep(core, writer, grace, &mut report)?;
    Ok(report)
}

/// Rewrites segments into one.
fn rewrite(
    core: &Arc<Core>,
    writer: &Writer,
    group: &[SegmentId],
    repack: &Repack,
    report: &mut CompactReport,
) -> Result<()> {
    let segment = writer.begin_rewrite(group.iter().copied().collect())?;
    let rewritten = match copied(core, writer, (segment, group, repack), report) {
        Ok(Some(rewritten)) => rewritten,
        nothing => {
            writer.abandon_rewrite();
            return nothing.map(|_| ());
        }
    };
    let (copied, gone) = (rewritten.segment.len() as u64, rewritten.sources.segments.clone());
    if Fault::DeletedBeforeMoved.is_planted(core.options.fault) {
        delete(core, &gone.iter().copied().collect::<Vec<_>>())?;
    }
    let nth = writer.end_rewrite(rewritten)?;
    writer.progress.wait_for(nth)?;
    report.rewritten += gone.len() as u64;
    report.copied_bytes += copied;
    Ok(())
}

/// A running copy.
struct Copying<'a> {
    core: &'a Arc<Core>,
    segment: Builder,
    sources: Sources,
    rows: BTreeMap<Vec<u8>, Row>,
    /// Segments that count, without those copied so far.
    counted: BTreeSet<SegmentId>,
    /// Rewritten segments whose objects still exist.
    undeleted: BTreeMap<SegmentId, row::Gone>,
    repack: &'a Repack,
    /// True if a body was compressed again.
    is_repacked: bool,
}

/// A segment with the live records of a group; `None` if all of them are damaged, or if there is
/// nothing to gain.
fn copied(
    core: &Arc<Core>,
    writer: &Writer,
    (segment, group, repack): (Builder, &[SegmentId], &Repack),
    report: &mut CompactReport,
) -> Result<Option<Rewritten>> {
    // A record may be left out only if its removal is durable.
    writer.sync()?;
    let (bytes, undeleted) =
        core.wait(|core| async move { Ok((core.index.segments().await?, core.index.rewritten().await?)) })?;
    let counted = bytes.keys().copied().collect();
    let (sources, rows) = (Sources::default(), BTreeMap::new());
    let mut copying = Copying { core, segment, sources, rows, counted, undeleted, repack, is_repacked: false };
    let (mut has_dead, before) = (false, report.rewritten_bytes);
    for id in group {
        let of_segment = bytes.get(id).copied().unwrap_or_default();
        has_dead |= of_segment.dead > 0;
        let copied = if of_segment.dead == of_segment.written && of_segment.written > 0 {
            copying.dead(*id)?
        } else {
            copying.live(*id)?
        };
        match copied {
            Ok(()) => report.rewritten_bytes += of_segment.written,
            Err(what) => report.damage.push(format!("{}: {what}", core.bucket.named(&object(*id)))),
        }
    }
    let Copying { segment, mut sources, rows, is_repacked, .. } = copying;
    let is_useless = repack.is_of_all() && !is_repacked && !has_dead && group.len() == 1;
    if sources.segments.is_empty() || is_useless {
        report.rewritten_bytes = before;
        return Ok(None);
    }
    sources.shorten();
    let now_ms = ms_since_1970(SystemTime::now());
    Ok(Some(Rewritten { segment, sources, rows, now_ms }))
}

/// The damage of a segment, if there is any.
type Copied = std::result::Result<(), String>;

impl Copying<'_> {
    /// Handles a segment without live records: reads its header only.
    fn dead(&mut self, id: SegmentId) -> Result<Copied> {
        let header = self
            .core
            .wait(move |core| async move { core.bucket.range(&object(id), 0..Summary::HEADER_BYTES).await })?;
        let Some(header) = header else { return Ok(Err("it is missing".to_owned())) };
        match Summary::base_of(&header, id) {
            Some(base) => {
                self.counted.remove(&id);
                self.takes(id, base);
            }
            None => return Ok(Err("its header is damaged".to_owned())),
        }
        Ok(Ok(()))
    }

    fn takes(&mut self, id: SegmentId, base: u64) {
        self.sources.segments.insert(id);
        self.sources.bases.insert(id.epoch, base);
    }

    fn live(&mut self, id: SegmentId) -> Result<Copied> {
        let bytes = self.core.wait(move |core| async move { core.bucket.get(&object(id)).await })?;
        let Some(bytes) = bytes else { return Ok(Err("it is missing".to_owned())) };
        let segment = match Segment::parse(&bytes, id) {
            Ok(segment) => segment,
            Err(what) => return Ok(Err(what.to_owned())),
        };
        let records: std::result::Result<Vec<_>, Unreadable<'_>> = segment.records().collect();
        let records = match records {
            Ok(records) => records,
            Err(unreadable) => return Ok(Err(unreadable.what)),
        };
        let sources = records.iter().filter(|(record, ..)| record.kind == Kind::Rewrite);
        let Some(sources) = sources.map(|(record, ..)| Sources::decode(record.payload)).collect::<Option<Vec<_>>>()
        else {
            return Ok(Err("the names of segments in it do not decode".to_owned()));
        };
        let live = match self.live_of(&records)? {
            Ok(live) => live,
            Err(what) => return Ok(Err(what)),
        };
        let repacked = match self.repack.bodies(self.core, &records, &live)? {
            Ok(repacked) => repacked,
            Err(what) => return Ok(Err(what)),
        };
        self.is_repacked |= !repacked.is_empty();
        // From here on it is known to be intact, and its records are copied or removed.
        self.counted.remove(&id);
        sources.into_iter().for_each(|sources| self.names(sources));
        for (nth, ((record, _, _), is_live)) in records.iter().zip(live).enumerate() {
            match record.kind {
                Kind::Page | Kind::Reference if is_live => match repacked.get(&nth) {
                    Some(packed) => self.version(&packed.in_record(record)),
                    None => self.version(record),
                },
                Kind::Page | Kind::Reference => {}
                Kind::Tombstone | Kind::VersionTombstone => self.tombstone(record),
                Kind::Rewrite => {}
            }
        }
        self.takes(id, segment.summary.base);
        Ok(Ok(()))
    }

    /// For each record: whether the index names that version at that place. The inner error: a row
    /// is damaged.
    fn live_of(&self, records: &[(Record<'_>, Place, u64)]) -> Result<std::result::Result<Vec<bool>, String>> {
        let mut sought: Vec<(Vec<u8>, usize)> = Vec::new();
        for (nth, (record, _, _)) in records.iter().enumerate() {
            if record.kind.is_version() {
                sought.push((row::of_version(&keys::form(record.key), record.version), nth));
            }
        }
        // Neighbours are in one block of the index.
        sought.sort_unstable();
        let found: Vec<(usize, Option<Bytes>)> = self.core.wait(|core| async move {
            let looks = sought.into_iter().map(|(key, nth)| {
                let core = Arc::clone(&core);
                async move { Ok::<_, crate::error::Error>((nth, core.index.get(key).await?)) }
            });
            stream::iter(looks).buffered(AT_ONCE).try_collect().await
        })?;
        let mut live = vec![false; records.len()];
        for (nth, row) in found {
            let (record, place, bytes) = &records[nth];
            match is_live(row.as_deref(), &Row::of_record(record, *place, *bytes)) {
                Ok(is_live) => live[nth] = is_live,
                Err(what) => return Ok(Err(format!("{what} ({})", shown(record.key)))),
            }
        }
        Ok(Ok(live))
    }

    fn version(&mut self, record: &Record<'_>) {
        let (place, bytes) = self.segment.push(record);
        let key = row::of_version(&keys::form(record.key), record.version);
        self.rows.insert(key, Row::of_record(record, place, bytes as u64));
    }

    fn tombstone(&mut self, record: &Record<'_>) {
        if Fault::TombstonesDropped.is_planted(self.core.options.fault) {
            return;
        }
        let Some(holders) = sources::holders_of(record.payload) else {
            self.segment.push(record);
            return;
        };
        let left: BTreeSet<SegmentId> = holders.intersection(&self.counted).copied().collect();
        if !left.is_empty() {
            self.segment.push(&Record { payload: &sources::holders(&left), ..*record });
        }
    }

    /// Keeps naming a segment while its object may exist.
    fn names(&mut self, sources: Sources) {
        let undeleted = sources.segments.into_iter().filter(|id| self.undeleted.contains_key(id));
        self.sources.segments.extend(undeleted);
        for (epoch, base) in sources.bases {
            self.sources.bases.entry(epoch).or_insert(base);
        }
    }
}

/// Returns whether the index names a record, whose row would be `own`. A missing row or one of
/// another segment means that the record is dead. Any other row is damage: if the record counted
/// as dead, its segment would be deleted under a row that names it.
fn is_live(row: Option<&[u8]>, own: &Row) -> std::result::Result<bool, &'static str> {
    let Some(row) = row else { return Ok(false) };
    match Row::decode(row) {
        None => Err("the row of a version in it does not decode"),
        Some(row) if row == *own => Ok(true),
        Some(row) if row.segment() == own.segment() => Err("the row of a version in it differs from its record"),
        Some(_) => Ok(false),
    }
}

/// Deletes segments whose grace is over, and which no checkpoint needs.
fn sweep(core: &Arc<Core>, writer: &Writer, grace: Duration, report: &mut CompactReport) -> Result<()> {
    let rewritten = core.wait(|core| async move { core.index.rewritten().await })?;
    let now = SystemTime::now();
    // A time in the future, written by a clock that was ahead, gives no age.
    let age = |since_ms: u64| {
        let since = UNIX_EPOCH.checked_add(Duration::from_millis(since_ms));
        since.and_then(|since| now.duration_since(since).ok()).unwrap_or_default()
    };
    let mut old: Vec<(SegmentId, row::Gone)> =
        rewritten.iter().filter(|(_, gone)| age(gone.since_ms) >= grace).map(|(id, gone)| (*id, *gone)).collect();
    report.waiting += (rewritten.len() - old.len()) as u64;
    if !old.is_empty() {
        let fault = core.options.fault;
        let lowest = core.wait(move |core| async move { pins::lowest(&core.bucket, fault).await })?;
        let before = old.len();
        old.retain(|(_, gone)| gone.next <= lowest);
        let pinned = (before - old.len()) as u64;
        report.waiting += pinned;
        report.pinned += pinned;
    }
    report.deleted += old.len() as u64;
    if old.is_empty() {
        return Ok(());
    }
    let old: Vec<SegmentId> = old.into_iter().map(|(id, _)| id).collect();
    // If the index lost the rewriting, a later writer reads these segments: `deletion` asks. Rows
    // of a running commit belong to no rewrite; those of a failed commit may.
    writer.progress.check()?;
    delete(core, &old)?;
    core.wait(|core| async move { core.index.forget(&old).await })
}

fn delete(core: &Arc<Core>, segments: &[SegmentId]) -> Result<()> {
    let names: Vec<String> = segments.iter().map(|id| object(*id)).collect();
    core.wait(|core| async move { deletion::delete(&core, &names).await })
}

pub(crate) fn ms_since_1970(time: SystemTime) -> u64 {
    let ms = time.duration_since(UNIX_EPOCH).map(|since| since.as_millis()).unwrap_or_default();
    u64::try_from(ms).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use filemap_core::Version;

    use super::*;

    #[test]
    fn a_record_is_dead_by_no_row_or_that_of_another_segment_and_never_by_a_damaged_row() {
        let place = Place { epoch: 3, segment: 9, offset: 400 };
        let own = Row {
            kind: Kind::Page,
            place,
            head_bytes: 100,
            bytes: 9000,
            body_bytes: 30,
            digest: 1 << 99,
            original: None,
        };
        let of = |row: Row| is_live(Some(&row.encode()), &own);
        assert_eq!((is_live(None, &own), of(own)), (Ok(false), Ok(true)));
        for place in [Place { segment: 10, ..place }, Place { epoch: 4, ..place }] {
            assert_eq!(of(Row { place, ..own }), Ok(false));
        }
        let original = Some(Version { time_ms: 1, sequence: 2 });
        for wrong in [
            Row { digest: 1 << 98, ..own },
            Row { bytes: 9001, ..own },
            Row { body_bytes: 31, ..own },
            Row { head_bytes: 99, ..own },
            Row { kind: Kind::Reference, original, ..own },
            Row { place: Place { offset: 401, ..place }, ..own },
        ] {
            assert!(of(wrong).is_err_and(|what| what.contains("differs")), "{wrong:?}");
        }
        let bytes = own.encode();
        for cut in [&bytes[..bytes.len() - 1], b""] {
            assert!(is_live(Some(cut), &own).is_err_and(|what| what.contains("does not decode")));
        }
    }
}
