//! Missing files of a store, as a follower sees them while the writer moves on.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use filemap_io::{Access, Dir};

use crate::error::{Error, Result, StorageError};
use crate::format::key::segment_of;
use crate::format::leaf::Slot;
use crate::format::names;
use crate::format::rolls::Rolls;
use crate::format::superblock::{Superblock, Tail};
use crate::handle::reading::Reading;
use crate::handle::recover::{Absent, Witness, absent_runs};
use crate::handle::rules;
use crate::index::segment_table::SegmentTable;
use crate::index::superblock::SuperblockFile;
use crate::logs::keys::{KeyFile, KeyLog};
use crate::logs::values::ValueLog;
use crate::sync::primitive::sleep;

/// Attempts to read what another process may be writing.
pub(super) const READS: u32 = 50;

/// Reads the list of begun segments, which another process may be writing.
fn read_rolls(file: &SuperblockFile, store_id: &[u8; 16]) -> Result<Rolls> {
    let mut tries = 0;
    loop {
        match file.rolls(store_id) {
            Err(e) if e.is_corrupt() && tries < READS => {
                tries += 1;
                sleep(Duration::from_micros(200));
            }
            read => return read,
        }
    }
}

/// Files that a superblock names but that are missing; `None` if the writer has moved on
/// meanwhile.
pub(super) fn absent(
    file: &SuperblockFile,
    dir: &dyn Dir,
    current: &Superblock,
    segment_table: &SegmentTable,
    there: (&ValueLog, &KeyLog),
) -> Result<Option<Vec<Absent>>> {
    let rolls = read_rolls(file, &current.store_id)?;
    let look = || Witness { superblock: current, segment_table, rolls: &rolls }.absent(there.0, there.1);
    let mut absent = look();
    let runs = absent_runs(dir, segment_table)?;
    if absent.iter().any(|a| !a.is_accepted) {
        // The directory was listed before `rolls` was read: list it again for changes in between.
        there.0.segments.look_anew()?;
        there.0.dictionaries.look()?;
        absent = look();
    }
    absent.extend(runs);
    let is_current = || -> Result<bool> {
        Ok(file.newest_whole(dir)?.epoch == current.epoch && read_rolls(file, &current.store_id)? == rolls)
    };
    if !absent.is_empty() && !is_current()? {
        return Ok(None);
    }
    absent.extend(absent_rules(dir, current)?);
    Ok(Some(absent))
}

/// The file RULES, if it cannot be read: reads lack nothing, but copies would ignore the rules.
fn absent_rules(dir: &dyn Dir, current: &Superblock) -> Result<Option<Absent>> {
    match rules::read(dir, &current.store_id, current.rules, Access::Read) {
        Err(Error::Storage(StorageError::Corrupt { what, .. })) => {
            let file = names::RULES.into();
            Ok(Some(Absent { file, ordinal: None, why: what, live_bytes: 0, is_accepted: false }))
        }
        Err(e @ Error::Storage(StorageError::Io { .. })) => Err(e),
        _ => Ok(None),
    }
}

/// Extent of a whole segment.
fn whole(ordinal: u64) -> Range<Tail> {
    Tail { ordinal, offset: 0 }..Tail { ordinal: ordinal + 1, offset: 0 }
}

impl Reading {
    /// Updates the list of missing files for a superblock. Keeps the old list if the writer has
    /// moved on meanwhile.
    pub(super) fn look_for_absent(&self, newest: &Superblock, segment_table: &SegmentTable) -> Result<()> {
        let there = (&*self.values, &*self.keys);
        if let Some(found) = absent(&self.superblock, &*self.dir, newest, segment_table, there)? {
            self.absent.store(Arc::new(found));
        }
        Ok(())
    }

    /// Missing value segments and dictionaries of a superblock that may be newer than this
    /// handle's; `None` if the writer has moved on meanwhile.
    pub(crate) fn absent_values(
        &self,
        superblock: &Superblock,
        segment_table: &SegmentTable,
    ) -> Result<Option<Vec<Absent>>> {
        self.values.segments.look_anew()?;
        let found = absent(&self.superblock, &*self.dir, superblock, segment_table, (&self.values, &self.keys))?;
        // Key segments are opened by name, and so is RULES.
        let values = |mut all: Vec<Absent>| {
            all.retain(|a| names::parse_keys(&a.file).is_none() && !a.is_rules() && !a.is_key_run());
            all
        };
        Ok(found.map(values))
    }

    /// Segments of the key log with live records that are not among the opened ones.
    pub(crate) fn missing_keys(&self, files: &[KeyFile], end: Tail) -> Vec<Range<Tail>> {
        let segment_table = self.segment_table.load();
        let live = segment_table.keys.values().filter(|a| a.live_units > 0 && a.ordinal <= end.ordinal);
        let is_missing = |ordinal: &u64| !files.iter().any(|f| f.segment.ordinal == *ordinal && f.file.is_some());
        live.map(|a| a.ordinal).filter(is_missing).map(whole).collect()
    }

    /// Index slots that lead into gaps of the key log, which hold no whole record. Takes a pass
    /// over the index unless `gaps` is empty.
    pub(crate) fn slots_in(&self, mut gaps: Vec<Range<Tail>>) -> Result<Vec<Slot>> {
        gaps.sort_unstable_by_key(|g| g.start);
        let mut lost: Vec<Slot> = Vec::new();
        if gaps.is_empty() {
            return Ok(lost);
        }
        let in_gap = |slot: &&Slot| match self.keys.position(slot.key) {
            Some(place) => gaps.get(gaps.partition_point(|g| g.end <= place)).is_some_and(|g| g.start <= place),
            None => gaps.iter().any(|g| *g == whole(g.start.ordinal) && g.start.ordinal as u16 == segment_of(slot.key)),
        };
        let mut slots = |slots: &[Slot]| {
            lost.extend(slots.iter().filter(in_gap));
            Ok(())
        };
        // Bad pages are reported when their keys are read.
        self.index.check(&mut || self.follow_writer(), &mut slots, &mut |_, _| {})?;
        Ok(lost)
    }

    /// Returns true if a segment of the value log is known to be missing.
    pub(super) fn is_absent(&self, ordinal: u64) -> bool {
        self.absent.load().iter().any(|a| a.ordinal == Some(ordinal) && a.is_value())
    }
}
