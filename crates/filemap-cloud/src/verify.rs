//! Verification of a store: quickly by names and sizes, or by reading every byte.
//!
//! It reads the index through its own handle, which does not poll, so that a concurrent writer
//! changes nothing under it. In full, it reads each segment, checks each record, decompresses its
//! body and looks each version up in the index. If as many versions are live as the index has
//! rows, every row has its record; so no list of rows is held. A version without a row must have a
//! tombstone: tombstones are held in memory. The newest segments are read first, so tombstones
//! come before the versions that they remove; a version with neither row nor known tombstone is
//! also held, until all segments are read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use filemap::Version;
use filemap::access::keys;
use object_store::ObjectMeta;
use xxhash_rust::xxh3::xxh3_128;

use crate::bucket::Bucket;
use crate::commit::{SEGMENTS, object};
use crate::core::{Core, shown};
use crate::dictionaries::{Dictionaries, Unpacked};
use crate::error::{Error, Result};
use crate::format::dictionary;
use crate::format::record::{DictionaryId, Kind, Place, Record};
use crate::format::row::{self, Row, Uses};
use crate::format::segment::{Placed, Segment, SegmentId, Summary};
use crate::index::Index;
use crate::kept;
use crate::options::CloudOptions;
use crate::store::CloudStore;

/// Result of a verification.
///
/// ```
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://verified", Mode::Fill, &CloudOptions::new())?;
/// assert_eq!(store.verify()?.damage, [""; 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of segments in the index.
    pub segments: u64,
    /// Bytes of their objects.
    pub bytes: u64,
    /// Number of index rows of versions, after a full verification.
    pub versions: u64,
    /// Number of segments in no index: of a fenced writer, or of one that is writing now.
    pub orphans: u64,
    /// Number of versions in segments that are neither in the index nor removed, after a full
    /// verification: each is in `damage`, and a repair restores it.
    pub lost_rows: u64,
    /// Number of missing segments; each is in `damage`.
    pub gone: u64,
    /// Number of dictionaries that segments need; a missing one is in `damage`.
    pub dictionaries: u64,
    /// True if segments were added or deleted in the meantime, because a writer was at work, or
    /// are missing: versions were not compared. Also true if one of several shards could not be
    /// checked.
    pub changed: bool,
    /// Descriptions of what is damaged or missing.
    pub damage: Vec<String>,
}

/// Disables polling by the index that is checked.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Number of attempts at the kept files, while a writer replaces them.
const LOOKS: usize = 4;

impl CloudStore {
    /// Verifies the store in full: reads the segments of the index, and the kept files. If one of
    /// several shards cannot be checked, it is in the report as damage, with
    /// [`VerifyReport::changed`]. Unsynced puts are not checked. Opens the index once more; holds
    /// the tombstones in memory.
    ///
    /// # Errors
    ///
    /// Errors of the object storage. Damage is not an error, but is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verified(true)
    }

    /// As [`CloudStore::verify`], but checks only that the index's segments and the kept files
    /// exist, and the sizes of the segments.
    ///
    /// # Errors
    ///
    /// As [`CloudStore::verify`].
    pub fn verify_quick(&self) -> Result<VerifyReport> {
        self.verified(false)
    }

    fn verified(&self, is_full: bool) -> Result<VerifyReport> {
        let mut reports =
            self.each(|shard| Ok::<_, Error>((shard.core.bucket.shard_name(), verified(&shard.core, is_full))))?;
        if reports.len() == 1
            && let Some((_, report)) = reports.pop()
        {
            return report;
        }
        let reports = reports.into_iter().map(|(name, report)| {
            report.unwrap_or_else(|error| VerifyReport {
                damage: vec![format!("{name}: not verified: {error}")],
                changed: true,
                ..VerifyReport::default()
            })
        });
        Ok(reports.fold(VerifyReport::default(), VerifyReport::plus))
    }
}

impl VerifyReport {
    /// Adds the findings of another shard.
    fn plus(mut self, other: VerifyReport) -> VerifyReport {
        self.segments += other.segments;
        self.bytes += other.bytes;
        self.versions += other.versions;
        self.orphans += other.orphans;
        self.lost_rows += other.lost_rows;
        self.gone += other.gone;
        self.dictionaries += other.dictionaries;
        self.changed |= other.changed;
        self.damage.extend(other.damage);
        self
    }
}

/// Verifies one shard.
fn verified(core: &Arc<Core>, is_full: bool) -> Result<VerifyReport> {
    core.wait(move |core| async move {
        // A cached answer proves nothing.
        let bucket = core.bucket.uncached();
        let index = Index::open_to_read(bucket.clone(), &core.options.clone().poll(NEVER)).await?;
        let next = index.next_sequence().await?;
        let mut check = Check {
            bucket: &bucket,
            index: &index,
            dictionaries: Dictionaries::new(bucket.clone(), core.options.dictionary_bytes),
            uses: index.uses().await?,
            unreadable: BTreeMap::new(),
            bodiless: Vec::new(),
            report: VerifyReport::default(),
            live: 0,
            is_unknown: false,
            rowless: Vec::new(),
            removed: Removed::default(),
        };
        let segments = check.quick().await?;
        check.needed(&segments).await?;
        check.kept(&core.options, is_full).await?;
        if is_full {
            check.full(&segments).await?;
            check.report.changed |= index.next_sequence().await? != next;
            check.compare();
        }
        let report = check.report;
        index.close().await?;
        Ok(report)
    })
}

/// A running verification.
struct Check<'a> {
    bucket: &'a Bucket,
    index: &'a Index,
    dictionaries: Dictionaries,
    /// The dictionaries that segments need, as the index has them.
    uses: BTreeMap<SegmentId, Uses>,
    /// Dictionaries that were missing or damaged, with the description: each is asked for once.
    unreadable: BTreeMap<DictionaryId, String>,
    /// Bodies that need a dictionary which cannot be read, with their segments and descriptions.
    bodiless: Vec<(SegmentId, String)>,
    report: VerifyReport,
    /// Number of versions that the index names at their places.
    live: u64,
    /// True if unread parts may contain records of any kind.
    is_unknown: bool,
    /// Versions without a row or a known tombstone so far, with their places.
    rowless: Vec<(Vec<u8>, Version, Place)>,
    removed: Removed,
}

impl Check<'_> {
    /// Checks names and sizes. Returns the segments of the index.
    async fn quick(&mut self) -> Result<BTreeMap<SegmentId, row::Bytes>> {
        let rows = self.index.segments().await?;
        let objects = self.bucket.list(SEGMENTS).await?;
        let named = |found: &ObjectMeta| Some((SegmentId::of_name(found.location.filename()?)?, found.size));
        let sizes: BTreeMap<SegmentId, u64> = objects.iter().filter_map(named).collect();
        let mut gone = Vec::new();
        self.report.segments = rows.len() as u64;
        for (id, bytes) in &rows {
            let written = bytes.written.saturating_add(Summary::FRAME_BYTES);
            match sizes.get(id) {
                None => gone.push(*id),
                Some(size) if *size != written => {
                    let name = self.bucket.named(&object(*id));
                    self.report.damage.push(format!("{name}: it has {size} bytes, {written} were written"));
                }
                Some(size) => self.report.bytes += size,
            }
        }
        let rewritten = self.index.rewritten().await?;
        let is_orphan = |id: &&SegmentId| !rows.contains_key(id) && !rewritten.contains_key(id);
        self.report.orphans = sizes.keys().filter(is_orphan).count() as u64;
        self.gone(&gone).await?;
        Ok(rows)
    }

    /// Checks that the dictionaries exist that these segments need.
    async fn needed(&mut self, segments: &BTreeMap<SegmentId, row::Bytes>) -> Result<()> {
        let mut needed: BTreeMap<DictionaryId, u64> = BTreeMap::new();
        for (_, uses) in self.uses.iter().filter(|(id, _)| segments.contains_key(*id)) {
            if let Uses::Named(named) = uses {
                named.iter().for_each(|id| *needed.entry(*id).or_default() += 1);
            }
        }
        if needed.is_empty() {
            return Ok(());
        }
        self.report.dictionaries = needed.len() as u64;
        let listed: HashSet<DictionaryId> =
            Dictionaries::listed(self.bucket).await?.into_iter().map(|(id, _)| id).collect();
        needed.retain(|id, _| !listed.contains(id));
        if needed.is_empty() {
            return Ok(());
        }
        // They may have been freed and deleted in the meantime.
        self.index.refresh().await?;
        let (now, uses) = (self.index.segments().await?, self.index.uses().await?);
        for (id, segments) in needed {
            if uses.iter().any(|(segment, uses)| now.contains_key(segment) && uses.may_name(id)) {
                let name = self.bucket.named(&dictionary::object(id));
                self.report.damage.push(format!("{name}: it is missing; bodies in {segments} segments need it"));
            }
        }
        Ok(())
    }

    /// Checks the kept files: their manifest and their pieces.
    async fn kept(&mut self, options: &CloudOptions, is_full: bool) -> Result<()> {
        let mut row = self.index.kept().await?;
        for _ in 0..LOOKS {
            let wrong = kept::wrong(self.bucket, row.as_deref(), is_full).await?;
            if wrong.is_empty() {
                return Ok(());
            }
            // A writer may have replaced them, and deleted the old ones, which the checked index
            // still names: reads the newest index.
            let index = Index::open_to_read(self.bucket.clone(), &options.clone().poll(NEVER)).await?;
            let now = index.kept().await;
            index.close().await?;
            let now = now?;
            if now == row {
                self.report.damage.extend(wrong);
                return Ok(());
            }
            row = now;
        }
        self.report.changed = true;
        Ok(())
    }

    /// Reports missing segments, except those that a compaction has rewritten.
    async fn gone(&mut self, gone: &[SegmentId]) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        self.report.changed = true;
        self.index.refresh().await?;
        let now = self.index.segments().await?;
        let missed = gone.iter().filter(|id| now.contains_key(id));
        let told = missed.map(|id| format!("{}: it is missing", self.bucket.named(&object(*id))));
        let told: Vec<String> = told.filter(|what| !self.report.damage.contains(what)).collect();
        self.report.gone += told.len() as u64;
        self.report.damage.extend(told);
        Ok(())
    }

    async fn full(&mut self, segments: &BTreeMap<SegmentId, row::Bytes>) -> Result<()> {
        let mut gone = Vec::new();
        for id in segments.keys().rev() {
            let name = self.bucket.named(&object(*id));
            let Some(bytes) = self.bucket.get(&name).await? else {
                gone.push(*id);
                continue;
            };
            let segment = match Segment::parse(&bytes, *id) {
                Ok(segment) => segment,
                Err(what) => {
                    self.is_unknown = true;
                    self.report.damage.push(format!("{name}: {what}"));
                    continue;
                }
            };
            let records: Vec<_> = segment.records().collect();
            let placed = records.iter().filter_map(|record| match record {
                Ok(placed) => Some(placed),
                Err(unreadable) => unreadable.record.as_ref(),
            });
            placed.for_each(|(record, ..)| self.removed.note(record));
            for record in records {
                match record {
                    Ok(placed) => self.record(&placed, true).await?,
                    Err(unreadable) => {
                        self.report.damage.push(format!("{name}: {}", unreadable.what));
                        match unreadable.record {
                            Some(placed) => self.record(&placed, false).await?,
                            None => self.is_unknown = true,
                        }
                    }
                }
            }
        }
        let mut rows = self.index.scan(vec![row::VERSIONS]..vec![row::VERSIONS + 1], false).await?;
        while rows.next().await?.is_some() {
            self.report.versions += 1;
        }
        self.gone(&gone).await?;
        self.without_dictionary().await
    }

    /// Reports bodies without their dictionary, except those of segments that were rewritten in
    /// the meantime: the dictionary may have gone with them.
    async fn without_dictionary(&mut self) -> Result<()> {
        let bodiless = std::mem::take(&mut self.bodiless);
        if bodiless.is_empty() {
            return Ok(());
        }
        self.index.refresh().await?;
        let now = self.index.segments().await?;
        for (id, what) in bodiless {
            if now.contains_key(&id) {
                self.report.damage.push(what);
            } else {
                self.report.changed = true;
            }
        }
        Ok(())
    }

    async fn record(&mut self, placed: &Placed<'_>, is_whole: bool) -> Result<()> {
        let (record, place, bytes) = placed;
        if !record.kind.is_version() {
            return Ok(());
        }
        let form = keys::form(record.key);
        let row = self.row(&form, record.version).await?;
        if row.is_none() && !self.removed.means(record.key, record.version) {
            self.rowless.push((record.key.to_vec(), record.version, *place));
        }
        let own = Row::of_record(record, *place, *bytes);
        let is_live = row == Some(own);
        self.live += u64::from(is_live);
        let wrong = if record.kind == Kind::Reference {
            // It may have been removed between the two lookups.
            let is_lost = is_live
                && self.row(&form, record.other).await?.is_none_or(|row| row.kind != Kind::Page)
                && self.row(&form, record.version).await? == Some(own);
            is_lost.then(|| "a reference to a missing version".to_owned())
        } else if is_whole {
            self.body(record, *place).await?
        } else {
            None
        };
        if let Some(what) = wrong {
            self.tell(&what, record.key, *place);
        }
        Ok(())
    }

    /// The damage of a record's body, if there is any.
    async fn body(&mut self, record: &Record<'_>, place: Place) -> Result<Option<String>> {
        let id = SegmentId { epoch: place.epoch, number: place.segment };
        if let Some(needed) = record.dictionary() {
            let name = self.bucket.named(&dictionary::object(needed));
            if !self.uses.get(&id).is_some_and(|uses| uses.may_name(needed)) {
                return Ok(Some(format!("it needs {name}, which the index does not know; repair it")));
            }
            if !self.unreadable.contains_key(&needed) {
                let what = match self.dictionaries.get(needed).await {
                    Err(error) if error.is_damage() => Some(error.to_string()),
                    found => found?.is_none().then(|| format!("{name} is missing, which it needs")),
                };
                self.unreadable.extend(what.map(|what| (needed, what)));
            }
            if let Some(what) = self.unreadable.get(&needed) {
                let told = self.told(what, record.key, place);
                self.bodiless.push((id, told));
                return Ok(None);
            }
        }
        Ok(match self.dictionaries.unpacked(record).await? {
            Unpacked::Body(body) => (xxh3_128(&body) != record.digest).then(|| "digest mismatch of a body".to_owned()),
            Unpacked::Damaged(what) => Some(what),
            Unpacked::Without(id) => {
                Some(format!("{} is missing, which it needs", self.bucket.named(&dictionary::object(id))))
            }
        })
    }

    async fn row(&self, form: &[u8], version: Version) -> Result<Option<Row>> {
        let Some(bytes) = self.index.get(row::of_version(form, version)).await? else { return Ok(None) };
        Row::decode(&bytes).map(Some).ok_or_else(|| self.bucket.damaged("the index", "a row does not decode"))
    }

    fn tell(&mut self, what: &str, key: &[u8], place: Place) {
        let what = self.told(what, key, place);
        self.report.damage.push(what);
    }

    fn told(&self, what: &str, key: &[u8], place: Place) -> String {
        let name = self.bucket.named(&object(SegmentId { epoch: place.epoch, number: place.segment }));
        format!("{name}: {what} (offset {}, {})", place.offset, shown(key))
    }

    /// Compares the numbers of rows and records, if both are of the same state.
    fn compare(&mut self) {
        if self.report.changed {
            return;
        }
        let VerifyReport { versions, ref damage, .. } = self.report;
        if versions != self.live && damage.is_empty() {
            let live = self.live;
            let what = format!("the index has {versions} versions, {live} of them are in segments; repair it");
            self.report.damage.push(what);
        }
        for (key, version, place) in std::mem::take(&mut self.rowless) {
            // Its tombstone may be in an unreadable part.
            if !self.is_unknown && !self.removed.means(&key, version) {
                self.report.lost_rows += 1;
                self.tell("a version missing in the index; repair it", &key, place);
            }
        }
    }
}

/// Tombstones by key: all versions below a sequence, and single versions.
#[derive(Default)]
pub(crate) struct Removed(pub(crate) HashMap<Vec<u8>, (u64, HashSet<Version>)>);

impl Removed {
    /// Notes a tombstone; ignores other records.
    pub(crate) fn note(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Tombstone => {
                let (all, _) = self.0.entry(record.key.to_vec()).or_default();
                *all = (*all).max(record.version.sequence);
            }
            Kind::VersionTombstone => _ = self.0.entry(record.key.to_vec()).or_default().1.insert(record.other),
            Kind::Page | Kind::Reference | Kind::Rewrite => {}
        }
    }

    fn means(&self, key: &[u8], version: Version) -> bool {
        self.0.get(key).is_some_and(|(all, versions)| version.sequence < *all || versions.contains(&version))
    }
}
