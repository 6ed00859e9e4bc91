//! Checks a store: quickly by names and sizes, or by reading every byte.
//!
//! In full, each segment is read, each record checked and its body unpacked, and each version
//! looked up in the index. Every row was met then if as many versions were found live as the index
//! has rows; so no list of them is held in memory.

use std::collections::BTreeMap;

use filemap::access::keys;
use xxhash_rust::xxh3::xxh3_128;

use crate::commit::{SEGMENTS, object};
use crate::core::{Core, shown, unpacked};
use crate::error::{Error, Result};
use crate::format::record::{Kind, Place, Record};
use crate::format::row::{self, Row};
use crate::format::segment::{Segment, SegmentId, Summary};
use crate::store::CloudStore;

/// What a verification found.
///
/// ```
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://verified", Mode::Fill, &CloudOptions::new())?;
/// assert_eq!(store.verify(true)?.damage, [""; 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Segments in the index.
    pub segments: u64,
    /// Bytes of their objects.
    pub bytes: u64,
    /// Rows of versions, if the verification was full.
    pub versions: u64,
    /// Segments that are in no index: of a writer that lost the store, or of one at work now.
    pub orphans: u64,
    /// Segments came or went meanwhile, as a writer was at work: versions were not compared.
    pub changed: bool,
    /// What is damaged or gone.
    pub damage: Vec<String>,
}

impl CloudStore {
    /// Checks the store: that the segments of the index are there, whole by their sizes; `is_full`
    /// reads them all. What was put since the last sync is not checked.
    ///
    /// # Errors
    ///
    /// Those of the object storage. Damage is no error, but in the report.
    pub fn verify(&self, is_full: bool) -> Result<VerifyReport> {
        self.core.wait(|core| async move {
            // A reader sees the newest rows.
            core.index.refresh().await?;
            let rows = core.index.segments().await?;
            let mut report = quick(&core, &rows).await?;
            if is_full {
                full(&core, &rows, &mut report).await?;
            }
            Ok(report)
        })
    }
}

async fn quick(core: &Core, rows: &BTreeMap<SegmentId, row::Bytes>) -> Result<VerifyReport> {
    let objects = core.bucket.list(SEGMENTS).await?;
    let sizes = objects.iter().filter_map(|found| Some((SegmentId::of_name(found.location.filename()?)?, found.size)));
    let sizes: BTreeMap<SegmentId, u64> = sizes.collect();
    let mut gone = Vec::new();
    let mut report = VerifyReport { segments: rows.len() as u64, ..VerifyReport::default() };
    for (id, bytes) in rows {
        let name = object(*id);
        match sizes.get(id) {
            None => gone.push(*id),
            Some(size) if *size != bytes.written + Summary::FRAME_BYTES => {
                let what =
                    format!("{name}: it has {size} bytes, {} were written", bytes.written + Summary::FRAME_BYTES);
                report.damage.push(what);
            }
            Some(size) => report.bytes += size,
        }
    }
    let rewritten = core.index.rewritten().await?;
    let is_orphan = |id: &&SegmentId| !rows.contains_key(id) && !rewritten.contains_key(id);
    report.orphans = sizes.keys().filter(is_orphan).count() as u64;
    if !gone.is_empty() {
        // One that a compaction has rewritten meanwhile is not missed.
        core.index.refresh().await?;
        let now = core.index.segments().await?;
        let missed = gone.iter().filter(|id| now.contains_key(id));
        report.damage.extend(missed.map(|id| format!("{}: it is gone", object(*id))));
        report.changed = true;
    }
    Ok(report)
}

async fn full(core: &Core, segments: &BTreeMap<SegmentId, row::Bytes>, report: &mut VerifyReport) -> Result<()> {
    let mut live = 0;
    for id in segments.keys() {
        let name = object(*id);
        let Some(bytes) = core.bucket.get(&name).await? else { continue };
        let segment = match Segment::parse(&bytes, *id) {
            Ok(segment) => segment,
            Err(what) => {
                report.damage.push(format!("{name}: {what}"));
                continue;
            }
        };
        for record in segment.records() {
            match record {
                Ok((record, place, bytes)) if record.kind.is_version() => {
                    let is_live = checked(core, &record, place, bytes).await;
                    match is_live {
                        Ok(is_live) => live += u64::from(is_live),
                        Err(error) if error.is_damage() => report.damage.push(error.to_string()),
                        Err(error) => return Err(error),
                    }
                }
                Ok(_) => {}
                Err(what) => report.damage.push(format!("{name}: {what}")),
            }
        }
    }
    let mut rows = core.index.scan(vec![row::VERSIONS]..vec![row::VERSIONS + 1], false).await?;
    while rows.next().await?.is_some() {
        report.versions += 1;
    }
    report.changed |= core.index.segments().await?.keys().ne(segments.keys());
    if report.versions != live && report.damage.is_empty() && !report.changed {
        let what = format!("the index has {} versions, {live} of them are in segments; repair it", report.versions);
        report.damage.push(what);
    }
    Ok(())
}

/// Whether a record is the one that the index has; damage of its body, or of what it refers to.
async fn checked(core: &Core, record: &Record<'_>, place: Place, bytes: u64) -> Result<bool> {
    let form = keys::form(record.key);
    let row = core.row(&form, record.version).await?;
    let is_live = row.is_some_and(|row| row == Row::of_record(record, place, bytes));
    let id = SegmentId { epoch: place.epoch, number: place.segment };
    let damaged = |what: &str| -> Error {
        core.bucket.damaged(&object(id), format!("{what} (offset {}, {})", place.offset, shown(record.key)))
    };
    if record.kind == Kind::Page {
        let body = unpacked(record).map_err(|what| damaged(&what))?;
        if xxh3_128(&body) != record.digest {
            return Err(damaged("a body with another digest"));
        }
    } else if is_live && core.row(&form, record.other).await?.is_none_or(|row| row.kind != Kind::Page) {
        return Err(damaged("a reference to a version that is not there"));
    }
    Ok(is_live)
}
