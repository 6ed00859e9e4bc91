//! The index: SlateDB, an LSM tree on object storage. No other module uses SlateDB, so it is
//! replaceable: a repair rebuilds the index from the segments alone.
//!
//! `settings` guard against lost pages and needless cost: docs/CLOUD.md says why. Invariants:
//! fences of the write-ahead log are never collected (`wal_fence_options`); old manifests are
//! collected only where conditional replacement was found to work; every retry is bounded; codec,
//! merge operator and filters are the same in writer, follower and compactor.

mod blocks;
mod clock;
mod generation;
mod held;
mod scan;
mod settings;
mod view;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use slatedb::admin::Admin;
use slatedb::config::{FlushOptions, FlushType};
use slatedb::{CloseReason, Db, ErrorKind, VersionedManifest, WriteBatch};

use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::failpoint::Fault;
use crate::format::row::{self, Row};
use crate::format::segment::{Builder, SegmentId};
use crate::options::CloudOptions;
use blocks::Blocks;
use clock::Clock;
pub(crate) use generation::{Generation, Generations, Taken};
pub(crate) use held::{Held, Tables};
pub(crate) use scan::Scan;
use scan::{Wanted, is_gone};
use settings::{MIN_AGE, Sum, collect_fences, filters, settings};
use view::Views;

/// The folder of indexes, by generation: a repair creates a new one.
const FOLDER: &str = "shard/ix";
/// Commits between memtable flushes: opening reads all log objects since the last flush.
const COMMITS_A_FLUSH: u64 = 200;
/// A clock that is ahead by at most this is not corrected.
const CLOCK_SLACK: Duration = Duration::from_secs(60);
/// The timeout for reading what other processes wrote.
const LONGEST_LOOK: Duration = Duration::from_secs(60);
/// No real sequence reaches this: a larger one is damage.
const MAX_SEQUENCE: u64 = 1 << 62;
/// Bytes that a scan prefetches.
const READ_AHEAD_BYTES: usize = 1 << 20;

/// The changes of one commit. A removed version's row is `None`.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) rows: BTreeMap<Vec<u8>, Option<Row>>,
    /// Increments of the segments' byte counts.
    pub(crate) segments: BTreeMap<SegmentId, row::Bytes>,
    /// Segments that no longer count, with the time of their rewriting, in ms since 1970.
    pub(crate) rewritten: BTreeMap<SegmentId, u64>,
    /// The dictionaries that segments need.
    pub(crate) uses: BTreeMap<SegmentId, row::Uses>,
    /// The first unused sequence.
    pub(crate) next: u64,
    /// The row that names the kept files, if this commit replaces them.
    pub(crate) kept: Option<Vec<u8>>,
}

impl Changes {
    /// Notes the dictionaries that a segment needs.
    pub(crate) fn need(&mut self, segment: &Builder) {
        if !segment.dictionaries().is_empty() {
            self.uses.insert(segment.id(), row::Uses::Named(segment.dictionaries().clone()));
        }
    }
}

/// The index of a store.
pub(crate) struct Index {
    bucket: Bucket,
    generation: Generation,
    kind: Kind,
}

enum Kind {
    Writer { db: Box<Db>, commits_a_flush: u64 },
    Reader(Arc<Views>),
}

impl Index {
    /// Opens an existing index for writing. Fences the earlier writer.
    pub(crate) async fn open_to_write(
        bucket: Bucket,
        generation: Generation,
        options: &CloudOptions,
        replaces_if_match: bool,
    ) -> Result<Index> {
        let clock = clock(options);
        if !pass_all(&bucket, generation, &clock).await? {
            return Err(gone(&bucket, generation));
        }
        Index::write(bucket, generation, options, replaces_if_match, clock).await
    }

    /// Returns whether the index exists, complete or half created. Does not open it.
    async fn is_there(bucket: &Bucket, generation: Generation) -> Result<bool> {
        Ok(manifest(bucket, generation).await?.is_some())
    }

    /// Fails if the index does not exist. Does not open it.
    pub(crate) async fn check_there(bucket: &Bucket, generation: Generation) -> Result<()> {
        if Index::is_there(bucket, generation).await? { Ok(()) } else { Err(gone(bucket, generation)) }
    }

    /// Creates the index if it is missing. An existing or half-created one is not opened: it may
    /// have a writer.
    pub(crate) async fn make(
        bucket: Bucket,
        generation: Generation,
        options: &CloudOptions,
        replaces_if_match: bool,
    ) -> Result<()> {
        if Index::is_there(&bucket, generation).await? {
            return Ok(());
        }
        let made = match Index::write(bucket.clone(), generation, options, replaces_if_match, clock(options)).await {
            Ok(index) => index.close().await,
            Err(error) => Err(error),
        };
        match made {
            // Another process has created it at the same time, and may have opened it.
            Err(error) if matches!(error, Error::Fenced { .. }) || error.is_damage() => {
                if Index::is_there(&bucket, generation).await? { Ok(()) } else { Err(error) }
            }
            made => made,
        }
    }

    /// Creates the index of a repair. Refuses one that somebody else has begun there: it may
    /// contain rows of versions removed since.
    pub(crate) async fn make_new(
        bucket: Bucket,
        generation: Generation,
        options: &CloudOptions,
        replaces_if_match: bool,
    ) -> Result<Index> {
        if manifest(&bucket, generation).await?.is_some() {
            let what = "a failed repair left it behind; repeat the repair, which takes another number";
            return Err(bucket.damaged(&generation.folder(), what));
        }
        Index::write(bucket, generation, options, replaces_if_match, clock(options)).await
    }

    async fn write(
        bucket: Bucket,
        generation: Generation,
        options: &CloudOptions,
        replaces_if_match: bool,
        clock: Arc<Clock>,
    ) -> Result<Index> {
        // Objects seem older than they are by the amount that this clock is ahead.
        let min_age = MIN_AGE.saturating_add(clock.ahead());
        let mut settings = settings(options, &bucket, replaces_if_match, min_age);
        let mut commits_a_flush = COMMITS_A_FLUSH;
        if Fault::FencesCollected.is_planted(options.fault) {
            commits_a_flush = 1;
            collect_fences(&mut settings);
        }
        let builder = Db::builder(bucket.path(&generation.folder()), Arc::clone(bucket.of_index()))
            .with_settings(settings)
            .with_system_clock(Arc::clone(&clock) as _)
            .with_db_cache(Arc::new(Blocks::new(options.cache_bytes)), 0)
            .with_merge_operator(Arc::new(Sum))
            .with_filter_policies(filters());
        let db = builder.build().await.map_err(|error| failed(&bucket, "opening the index", &error))?;
        // The log may be newer than the manifest. Every commit writes this row.
        let next = db.get_key_value(row::NEXT).await.map_err(|error| failed(&bucket, "reading the index", &error))?;
        next.iter().for_each(|row| clock.pass(row.create_ts));
        if MIN_AGE.saturating_add(clock.ahead()) > min_age.saturating_add(CLOCK_SLACK) {
            // Reopens it with the minimum age that the log requires.
            db.close().await.map_err(|error| failed(&bucket, "closing the index", &error))?;
            return Box::pin(Index::write(bucket, generation, options, replaces_if_match, clock)).await;
        }
        Ok(Index { bucket, generation, kind: Kind::Writer { db: Box::new(db), commits_a_flush } })
    }

    /// Opens the newest index for reading. Nothing is written, so read-only credentials suffice.
    pub(crate) async fn open_to_read(bucket: Bucket, options: &CloudOptions) -> Result<Index> {
        let views = Views::open(&bucket, options).await?;
        let generation = views.generation();
        Ok(Index { bucket, generation, kind: Kind::Reader(Arc::new(views)) })
    }

    /// The writer's epoch: larger than that of every earlier writer.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match &self.kind {
            Kind::Writer { db, .. } => Some(self.generation.epoch(db.manifest().writer_epoch())),
            Kind::Reader(_) => None,
        }
    }

    /// The number of the open generation.
    pub(crate) fn number(&self) -> u64 {
        match &self.kind {
            Kind::Writer { .. } => self.generation.number(),
            Kind::Reader(views) => views.generation().number(),
        }
    }

    /// Shows a follower what was written since. A writer always sees its own writes; it gets an
    /// error if another writer has fenced it.
    pub(crate) async fn refresh(&self) -> Result<()> {
        match &self.kind {
            Kind::Reader(views) => views.renew().await,
            Kind::Writer { db, .. } => {
                let own = db.manifest().writer_epoch();
                let newest = Generations::read(&self.bucket).await?.newest;
                let now = manifest(&self.bucket, self.generation).await?;
                let is_fenced = newest != self.generation || now.is_none_or(|now| now.writer_epoch() != own);
                let location = || self.bucket.location().to_owned();
                if is_fenced { Err(Error::Fenced { location: location() }) } else { Ok(()) }
            }
        }
    }

    /// The first uncommitted sequence.
    pub(crate) async fn next_sequence(&self) -> Result<u64> {
        let Some(bytes) = self.get(row::NEXT.to_vec()).await? else { return Ok(1) };
        let next = bytes.first_chunk().map(|next| u64::from_le_bytes(*next)).filter(|next| *next < MAX_SEQUENCE);
        next.ok_or_else(|| self.bucket.damaged("the index", "the next sequence is not a number"))
    }

    /// The row that names the kept files.
    pub(crate) async fn kept(&self) -> Result<Option<Bytes>> {
        self.get(row::KEPT.to_vec()).await
    }

    /// The value of a row.
    pub(crate) async fn get(&self, key: Vec<u8>) -> Result<Option<Bytes>> {
        let found = match &self.kind {
            Kind::Writer { db, .. } => db.get(key).await,
            Kind::Reader(views) => match views.current().await?.reader.get(&key).await {
                // Its table may have been merged and collected since.
                Err(error) if is_gone(&error) => {
                    views.renew_tables().await?;
                    views.current().await?.reader.get(key).await
                }
                found => found,
            },
        };
        found.map_err(|error| failed(&self.bucket, "reading the index", &error))
    }

    /// The rows in a range.
    pub(crate) async fn scan(&self, range: Range<Vec<u8>>, is_backwards: bool) -> Result<Scan> {
        self.scanned(Wanted { prefix: None, range, is_backwards }).await
    }

    /// The rows of one key in a range; uses the Bloom filters.
    pub(crate) async fn scan_key(&self, prefix: &[u8], range: Range<Vec<u8>>) -> Result<Scan> {
        self.scanned(Wanted { prefix: Some(prefix.to_vec()), range, is_backwards: false }).await
    }

    async fn scanned(&self, wanted: Wanted) -> Result<Scan> {
        match &self.kind {
            Kind::Writer { db, .. } => Scan::of_writer(&self.bucket, db, wanted).await,
            Kind::Reader(views) => Scan::of_reader(&self.bucket, views, wanted).await,
        }
    }

    /// The byte counts of all segments.
    pub(crate) async fn segments(&self) -> Result<BTreeMap<SegmentId, row::Bytes>> {
        self.rows_of_segments(row::SEGMENTS, row::Bytes::decode).await
    }

    /// Rewritten segments whose objects still have to be deleted.
    pub(crate) async fn rewritten(&self) -> Result<BTreeMap<SegmentId, row::Gone>> {
        self.rows_of_segments(row::REWRITTEN, row::Gone::decode).await
    }

    /// The dictionaries that segments need; rewritten ones too, until their objects are deleted.
    pub(crate) async fn uses(&self) -> Result<BTreeMap<SegmentId, row::Uses>> {
        self.rows_of_segments(row::USES, row::Uses::decode).await
    }

    async fn rows_of_segments<T>(
        &self,
        lead: u8,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<BTreeMap<SegmentId, T>> {
        let mut scan = self.scan(vec![lead]..vec![lead + 1], false).await?;
        let mut rows = BTreeMap::new();
        while let Some((key, value)) = scan.next().await? {
            let row = row::segment_of(&key, lead).zip(decode(&value));
            let strange = || self.bucket.damaged("the index", "the row of a segment does not decode");
            let (id, value) = row.ok_or_else(strange)?;
            rows.insert(id, value);
        }
        Ok(rows)
    }

    /// Drops the rows of segments whose objects were deleted.
    pub(crate) async fn forget(&self, deleted: &[SegmentId]) -> Result<()> {
        let Kind::Writer { db, .. } = &self.kind else { return Err(self.read_only()) };
        let mut batch = WriteBatch::new();
        for id in deleted {
            batch.delete(row::of_rewritten(*id));
            batch.delete(row::of_uses(*id));
        }
        let forgotten = async { db.write(batch).await?.await_durable().await };
        forgotten.await.map_err(|error| failed(&self.bucket, "a commit", &error))
    }

    /// Writes changes atomically. They are durable when it returns.
    pub(crate) async fn commit(&self, changes: &Changes, commits: u64) -> Result<()> {
        let Kind::Writer { db, commits_a_flush } = &self.kind else { return Err(self.read_only()) };
        let mut batch = WriteBatch::new();
        for (key, row) in &changes.rows {
            match row {
                Some(row) => batch.put(key, row.encode()),
                None => batch.delete(key),
            }
        }
        for (segment, bytes) in &changes.segments {
            batch.merge(row::of_segment(*segment), bytes.encode());
        }
        for (segment, since_ms) in &changes.rewritten {
            let gone = row::Gone { since_ms: *since_ms, next: changes.next };
            batch.delete(row::of_segment(*segment));
            batch.put(row::of_rewritten(*segment), gone.encode());
        }
        changes.uses.iter().for_each(|(segment, uses)| batch.put(row::of_uses(*segment), uses.encode()));
        batch.put(row::NEXT, changes.next.to_le_bytes());
        changes.kept.iter().for_each(|kept| batch.put(row::KEPT, kept));
        let commit = async {
            db.write(batch).await?.await_durable().await?;
            if commits.is_multiple_of(*commits_a_flush) {
                db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await?;
            }
            Ok(())
        };
        commit.await.map_err(|error| failed(&self.bucket, "a commit", &error))
    }

    /// Fails if a repair is building another index, or has built one.
    pub(crate) async fn check_not_repaired(&self) -> Result<()> {
        self.generation.check_not_repaired(&self.bucket).await
    }

    /// Fails unless this writer still owns the index: another has not opened it, and no repair is
    /// building another or has built one. Some requests.
    pub(crate) async fn check_owner(&self) -> Result<()> {
        self.refresh().await?;
        self.check_not_repaired().await
    }

    /// Closes the index; a writer first makes its writes durable.
    pub(crate) async fn close(&self) -> Result<()> {
        let closed = match &self.kind {
            Kind::Writer { db, .. } => db.close().await,
            Kind::Reader(views) => views.close().await,
        };
        closed.map_err(|error| failed(&self.bucket, "closing the index", &error))
    }

    pub(crate) fn read_only(&self) -> Error {
        Error::ReadOnly { location: self.bucket.location().to_owned() }
    }
}

fn gone(bucket: &Bucket, generation: Generation) -> Error {
    let what = "it is missing; `repair` builds a new index from the segments, and no writer can open before that";
    bucket.damaged(&generation.folder(), what)
}

/// The newest manifest; `None` if the index does not exist.
async fn manifest(bucket: &Bucket, generation: Generation) -> Result<Option<VersionedManifest>> {
    let admin = admin(bucket, generation);
    looked(bucket, "reading the manifest of the index", admin.read_manifest(None)).await
}

/// Shows a clock all times in the manifest and in the compactions of the index. Returns false if
/// the index does not exist.
async fn pass_all(bucket: &Bucket, generation: Generation, clock: &Clock) -> Result<bool> {
    let Some(manifest) = manifest(bucket, generation).await? else { return Ok(false) };
    seen(&manifest).for_each(|seen_ms| clock.pass(seen_ms));
    jobs(bucket, generation).await?.into_iter().for_each(|seen_ms| clock.pass(seen_ms));
    Ok(true)
}

/// The creation times of the index's tables, in ms since 1970.
fn seen(manifest: &VersionedManifest) -> impl Iterator<Item = i64> {
    let tables = manifest.all_sst_views().flat_map(|view| [view.id, view.sst.id.value()]);
    let merged = [manifest.last_compacted_l0_sst_id(), manifest.last_compacted_l0_sst_view_id()];
    let ids = tables.chain(merged.into_iter().flatten());
    ids.map(|id| i64::try_from(id.timestamp_ms()).unwrap_or(i64::MAX)).chain([manifest.last_l0_clock_tick()])
}

/// The start times of the index's compactions, in ms since 1970.
async fn jobs(bucket: &Bucket, generation: Generation) -> Result<Vec<i64>> {
    let admin = admin(bucket, generation);
    let merges = looked(bucket, "reading the merges of the index", admin.read_compactions(None)).await?;
    let begun = |id: u64| i64::try_from(id).unwrap_or(i64::MAX);
    let jobs = merges.iter().flat_map(|merges| merges.recent_compactions());
    Ok(jobs.map(|job| begun(job.id().timestamp_ms())).collect())
}

fn admin(bucket: &Bucket, generation: Generation) -> Admin {
    Admin::builder(bucket.path(&generation.folder()), Arc::clone(bucket.of_index())).build()
}

/// Adds a timeout to a read: an [`Admin`] does not bound its retries.
async fn looked<T>(
    bucket: &Bucket,
    operation: &str,
    look: impl Future<Output = std::result::Result<T, slatedb::Error>>,
) -> Result<T> {
    match tokio::time::timeout(LONGEST_LOOK, look).await {
        Ok(found) => found.map_err(|error| failed(bucket, operation, &error)),
        Err(late) => Err(bucket.unavailable(operation, bucket.retries(), &late)),
    }
}

fn clock(options: &CloudOptions) -> Arc<Clock> {
    let is_ahead = Fault::ClockAhead.is_planted(options.fault);
    Arc::new(Clock::new(if is_ahead { Duration::from_secs(3 * 3600) } else { Duration::ZERO }))
}

/// Translates an error of the index into one of the store.
fn failed(bucket: &Bucket, operation: &str, error: &slatedb::Error) -> Error {
    let location = || bucket.location().to_owned();
    match error.kind() {
        ErrorKind::Closed(CloseReason::Fenced) => Error::Fenced { location: location() },
        ErrorKind::Closed(CloseReason::Clean) => Error::Closed { location: location() },
        ErrorKind::Data => bucket
            .damaged(FOLDER, format!("{operation} failed: {error}; `repair` builds a new index from the segments")),
        _ => bucket.unavailable(operation, bucket.retries(), error),
    }
}
