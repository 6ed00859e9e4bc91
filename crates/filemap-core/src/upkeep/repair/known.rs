//! Evidence of the last superblock on the segments: which existed and how long they were, and
//! which facts can no longer be known.

use filemap_io::{Access, Dir, files};

use crate::error::{Error, Result};
use crate::format::key_runs::KeyRuns;
use crate::format::location::UNIT_BYTES;
use crate::format::names;
use crate::format::rolls::{self, Rolls};
use crate::format::superblock::Superblock;
use crate::handle::recover;
use crate::index::address::{Owner, load};
use crate::index::segment_table::{SegmentRow, SegmentTable};
use crate::limits::Limits;
use crate::logs::segments::FIRST_RECORD;
use crate::upkeep::repair::Loss;
use crate::upkeep::repair::found::Found;

/// The surviving facts about a store's segments.
pub(super) struct Known<'a> {
    /// `None` unless it is certainly the last one written.
    superblock: Option<&'a Superblock>,
    /// `None` when it cannot be read.
    segment_table: Option<SegmentTable>,
    /// Segments of the log after the tail; `None` when the list cannot be read.
    begun: Option<Vec<u64>>,
    unwitnessed: Vec<String>,
}

impl<'a> Known<'a> {
    /// Reads the facts. `is_whole` is true if no copy of the superblock is damaged, so that the
    /// newest is the last.
    pub(super) fn look(
        dir: &dyn Dir,
        superblock: Option<&'a Superblock>,
        is_whole: bool,
        found: &[Found],
        limits: &Limits,
    ) -> Known<'a> {
        let newer = superblock.and_then(|s| newer(dir, s, found));
        let superblock_if_last = superblock.filter(|_| is_whole && newer.is_none());
        let mut known = Known { superblock: superblock_if_last, segment_table: None, begun: None, unwitnessed: vec![] };
        let mut say = |what: String| known.unwitnessed.push(what);
        match (superblock, known.superblock) {
            (None, _) => say("no copy of the superblock is intact: it is unknown which segments existed".into()),
            (_, None) if newer.is_none() => {
                say("a copy of the superblock is damaged: it is unknown which segments the last one named".into())
            }
            (_, None) => say(format!(
                "the superblock is an old one that does not name {}: it is unknown which segments the last one named",
                newer.unwrap_or_default()
            )),
            (_, Some(last)) => {
                known.segment_table = table(dir, last, limits)
                    .inspect_err(|e| {
                        say(format!("it is unknown which segments the last checkpoint named: {e}"));
                    })
                    .ok();
                known.begun = begun(dir, last)
                    .map(|rolls| rolls.after(last.tail.ordinal + 1).collect())
                    .inspect_err(|e| {
                        say(format!("it is unknown which segments were begun after the last checkpoint: {e}"));
                    })
                    .ok();
            }
        }
        known
    }

    /// Returns true if the superblock is certainly the last one written.
    pub(super) fn is_last(&self) -> bool {
        self.superblock.is_some()
    }

    /// Ids of the dictionaries that existed.
    pub(super) fn dictionaries(&self) -> Vec<u32> {
        self.segment_table.iter().flat_map(SegmentTable::kept_dictionaries).collect()
    }

    /// The runs of keys in order of the store.
    pub(super) fn order(&self) -> Option<&KeyRuns> {
        self.segment_table.as_ref()?.order.as_ref()
    }

    /// Returns the missing segments and missing ends of segments.
    pub(super) fn missing(&self, found: &[Found]) -> Vec<Loss> {
        let Some(superblock) = self.superblock else { return Vec::new() };
        let is_there = |ordinal: u64| found.iter().any(|f| f.header.ordinal == ordinal);
        let all = || self.segment_table.iter().flat_map(|a| a.values.values());
        let loss = |a: &SegmentRow, what: &str| Loss {
            file: names::segment(a.ordinal as u16),
            offset: 0,
            bytes: a.end_units.max(a.live_units + a.tombstone_units) * UNIT_BYTES,
            key: None,
            version: None,
            what: what.into(),
        };
        let gone =
            all().filter(|a| !a.is_leaving && !is_there(a.ordinal)).map(|a| match (a.live_units, a.tombstone_units) {
                (0, 0) => loss(a, "the segment is missing; it held no live record"),
                (_, 0) => loss(a, "the segment is missing"),
                _ => loss(a, "segment missing; its tombstones are lost"),
            });
        let tail = superblock.tail;
        let named = |ordinal: u64| all().any(|a| a.ordinal == ordinal);
        let later = self.begun.iter().flatten().copied().chain([tail.ordinal]);
        let unseen = later.filter(|o| !is_there(*o) && !named(*o)).map(|ordinal| {
            let what = "the segment is missing; no checkpoint had indexed all of it";
            loss(&SegmentRow { ordinal, ..SegmentRow::default() }, what)
        });
        let cut = found.iter().filter_map(|f| {
            let row = all().find(|a| a.ordinal == f.header.ordinal);
            let used = row.map_or(0, |a| FIRST_RECORD + (a.live_units + a.tombstone_units) * UNIT_BYTES);
            let long = row.map_or(0, |a| a.end_units * UNIT_BYTES);
            let synced = if tail.ordinal == f.header.ordinal { tail.offset } else { 0 };
            let bytes = used.max(long).max(synced).checked_sub(f.bytes).filter(|bytes| *bytes > 0)?;
            let what = "the segment is cut short here, by at least this many bytes".into();
            Some(Loss { file: f.name.clone(), offset: f.bytes, bytes, key: None, version: None, what })
        });
        gone.chain(unseen).chain(cut).collect()
    }

    /// The ordinal after the last known one.
    pub(super) fn next_ordinal(&self) -> u64 {
        let all = self.segment_table.iter().flat_map(|a| a.values.values()).map(|a| a.ordinal);
        all.chain(self.begun.iter().flatten().copied()).map(|ordinal| ordinal + 1).max().unwrap_or(0)
    }

    /// Returns facts that cannot be known: for gaps between the segments, whether compaction
    /// removed them.
    pub(super) fn unwitnessed(self, found: &[Found]) -> Vec<String> {
        let mut all = self.unwitnessed;
        if self.segment_table.is_none() {
            let mut ordinals: Vec<u64> = found.iter().map(|f| f.header.ordinal).collect();
            ordinals.sort_unstable();
            let before = ordinals.first().filter(|first| **first > 0).map(|first| (0, first - 1));
            let gaps = ordinals.windows(2).filter(|w| w[0] + 1 < w[1]).map(|w| (w[0] + 1, w[1] - 1));
            all.extend(before.into_iter().chain(gaps).map(|(from, to)| {
                let (from, to) = (names::segment(from as u16), names::segment(to as u16));
                let which = if from == to { from } else { format!("{from} to {to}") };
                format!("{which}: removed by compaction, or lost; no evidence is left")
            }));
        }
        all
    }
}

fn table(dir: &dyn Dir, superblock: &Superblock, limits: &Limits) -> Result<SegmentTable> {
    let file = recover::open_index(dir, Access::Read, superblock)?;
    let seed = recover::index_seed(superblock);
    let loaded = load(file, seed, Owner::Other, superblock.index, superblock.epoch, limits)?;
    recover::segment_table(&loaded, superblock.index)
}

/// Returns the name of a log segment with records that the superblock's list of begun segments
/// lacks, so that the superblock is not the last.
fn newer(dir: &dyn Dir, superblock: &Superblock, found: &[Found]) -> Option<String> {
    let rolls = begun(dir, superblock).ok()?;
    let is_newer = |f: &&Found| {
        let ordinal = f.header.ordinal;
        !f.header.is_output && ordinal > superblock.tail.ordinal && f.bytes > FIRST_RECORD && rolls.lacks(ordinal)
    };
    found.iter().find(is_newer).map(|f| f.name.clone())
}

/// Reads the list of begun segments.
fn begun(dir: &dyn Dir, superblock: &Superblock) -> Result<Rolls> {
    let name = [names::SUPERBLOCK, names::OLD_SUPERBLOCK].into_iter().find(|n| dir.open(n, Access::Read).is_ok());
    let name = name.unwrap_or(names::SUPERBLOCK);
    let file = dir.open(name, Access::Read).map_err(Error::io("open", name))?;
    let bytes = files::read(&*file, name, rolls::AT, rolls::BYTES)?;
    let rolls = Rolls::decode(&bytes).and_then(|rolls| match rolls.store_id() == superblock.store_id {
        true => Ok(rolls),
        false => Err("it belongs to another store"),
    });
    rolls.map_err(|what| Error::corrupt(name, rolls::AT, what))
}
