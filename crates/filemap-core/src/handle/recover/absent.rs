//! Missing files of a store, and the evidence for them.
//!
//! The superblock's segment table names every segment up to the checkpoint's tail, and every
//! dictionary; SUPERBLOCK's list of begun segments names the segments after it. A file with a
//! segment's or dictionary's name that is not one is reported too: it was one, or is foreign. A
//! log segment with records that SUPERBLOCK does not name proves that SUPERBLOCK is outdated.

use std::collections::{BTreeMap, BTreeSet};

use filemap_io::Dir;

use crate::error::{Error, Result, StorageError};
use crate::format::key::UNIT_BYTES as KEY_UNIT;
use crate::format::location::UNIT_BYTES;
use crate::format::names;
use crate::format::rolls::Rolls;
use crate::format::superblock::Superblock;
use crate::index::segment_table::{SegmentRow, SegmentTable};
use crate::logs::keys::KeyLog;
use crate::logs::segments::{FIRST_RECORD, Segments};
use crate::logs::values::ValueLog;
use crate::logs::values::dictionaries::Registry;

/// A file of the store that is missing or cut short: its content cannot be read.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// for absent in store.absent() {
///     println!("{}: {}", absent.file, absent.why);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Absent {
    /// The file's name.
    pub file: String,
    /// Position in the order of its log; `None` for a file that nothing names.
    pub ordinal: Option<u64>,
    /// The flaw.
    pub why: String,
    /// Bytes in the file that the index leads to, as of the last checkpoint; later puts are not
    /// counted. 0 for a dictionary.
    pub live_bytes: u64,
    /// True if the loss was accepted when the store was opened for writing.
    pub is_accepted: bool,
}

impl Absent {
    /// Returns true if something is missed: false if the loss was accepted and nothing leads to
    /// the file any more. Always true for a dictionary: records that need it are not counted, and
    /// only a repair finds them.
    pub fn is_missed(&self) -> bool {
        !self.is_accepted || self.live_bytes > 0 || self.is_dictionary()
    }

    /// Returns true for a dictionary: it held no page, but records compressed with it are
    /// unreadable.
    pub fn is_dictionary(&self) -> bool {
        names::parse_dictionary(&self.file).is_some()
    }

    /// Returns true for the rules of erasures.
    pub(crate) fn is_rules(&self) -> bool {
        self.file == names::RULES
    }

    /// Returns true for an ordered run, which holds nothing that a repair cannot find.
    pub(crate) fn is_key_run(&self) -> bool {
        names::parse_key_run(&self.file).is_some()
    }

    /// Returns true for a file whose records are missing from lists.
    pub(crate) fn held_records(&self) -> bool {
        !self.is_dictionary() && !self.is_rules() && !self.is_key_run()
    }

    /// Returns true for a segment of the value log.
    pub(crate) fn is_value(&self) -> bool {
        names::parse_segment(&self.file).is_some()
    }

    /// The error for a read that needs the file.
    pub(crate) fn error(&self) -> Error {
        Error::corrupt(&self.file, 0, self.why.clone())
    }

    /// The error for an operation that needs every file.
    pub(crate) fn refusal(&self, others: usize) -> Error {
        let more = if others > 0 { format!(" ({others} more files are missing)") } else { String::new() };
        // Without RULES nothing is written, even if losses are accepted; `why` says what to do.
        let cure = match self.is_rules() {
            true => "",
            false => "; repair the store, restore the file, or open it accepting the loss",
        };
        Error::corrupt(&self.file, 0, format!("{}{more}{cure}", self.why))
    }
}

/// Error text for a segment whose original length is unknown.
const UNSEEN: &str = "it was lost or cut short before a checkpoint covered all of it; a repair reads what is left";

/// Evidence that files belong to the store.
pub(crate) struct Witness<'a> {
    pub(crate) superblock: &'a Superblock,
    pub(crate) segment_table: &'a SegmentTable,
    pub(crate) rolls: &'a Rolls,
}

impl Witness<'_> {
    /// The missing files, in the order of the logs.
    pub(crate) fn absent(&self, values: &ValueLog, keys: &KeyLog) -> Vec<Absent> {
        let segments = &*values.segments;
        let mut absent: BTreeMap<u16, Absent> = BTreeMap::new();
        let tail = self.superblock.tail;
        for (id, row) in &self.segment_table.values {
            let end = match row.ordinal == tail.ordinal {
                true => tail.offset,
                false => row.end_units * UNIT_BYTES,
            };
            if let Some(found) = self.segment(segments, row, end) {
                absent.insert(*id, found);
            }
        }
        let begun = std::iter::once(tail.ordinal).chain(self.rolls.after(tail.ordinal + 1));
        for ordinal in begun.filter(|o| self.segment_table.values.get(&(*o as u16)).is_none_or(|a| a.ordinal != *o)) {
            let end = if ordinal == tail.ordinal { tail.offset } else { 0 };
            if let Some(found) = self.segment(segments, &SegmentRow { ordinal, ..SegmentRow::default() }, end) {
                absent.insert(ordinal as u16, found);
            }
        }
        let stranger = |id: u16, name: String, why: Option<(u64, String)>| {
            let why = why.map_or_else(String::new, |(_, what)| what);
            (id, Absent { file: name, ordinal: None, why, live_bytes: 0, is_accepted: false })
        };
        let strangers = |of: &dyn Fn(u16) -> String, segments: &Segments| -> Vec<(u16, Absent)> {
            segments.strangers().into_iter().map(|id| stranger(id, of(id), segments.unusable(id))).collect()
        };
        for (id, found) in strangers(&names::segment, segments) {
            if !self.segment_table.values.get(&id).is_some_and(|a| a.is_lost) {
                absent.entry(id).or_insert(found);
            }
        }
        let mut all: Vec<Absent> = self.outdated(segments).into_iter().chain(absent.into_values()).collect();
        all.sort_by_key(|a| a.ordinal);
        let mut lost_keys: BTreeMap<u16, Absent> = BTreeMap::new();
        for (id, row) in self.segment_table.keys.iter().filter(|(_, a)| a.live_units > 0) {
            let end = row.end_units * KEY_UNIT;
            let why = match keys.length(row.ordinal, end) {
                None => keys.why(*id),
                Some(Ok(len)) if len < end => cut_short(len, end),
                // A file that cannot be measured now is reported when it is read.
                Some(_) => continue,
            };
            lost_keys.insert(*id, self.lost(names::keys(*id), row, why, KEY_UNIT));
        }
        for (id, found) in strangers(&names::keys, keys.segments()) {
            lost_keys.entry(id).or_insert(found);
        }
        all.extend(lost_keys.into_values());
        all.extend(self.dictionaries(&values.dictionaries));
        all
    }

    /// Missing or damaged dictionaries.
    fn dictionaries(&self, registry: &Registry) -> impl Iterator<Item = Absent> {
        let named = &self.segment_table.dictionaries;
        let ids: BTreeSet<u32> = named.keys().copied().chain(registry.ids()).collect();
        ids.into_iter().filter_map(|id| {
            let (file, why) = (names::dictionary(id), registry.flaw(id)?);
            let is_accepted = named.get(&id).is_some_and(|is_lost| *is_lost);
            Some(Absent { file, ordinal: None, why, live_bytes: 0, is_accepted })
        })
    }

    /// SUPERBLOCK itself, if outdated: missing files that it does not name would go unnoticed.
    fn outdated(&self, segments: &Segments) -> Option<Absent> {
        let newer = unnamed(segments, self.superblock.tail.ordinal, self.rolls)?;
        let why = format!("it is outdated: it does not name {newer}, which has records");
        Some(Absent { file: names::SUPERBLOCK.into(), ordinal: None, why, live_bytes: 0, is_accepted: false })
    }

    /// The flaw of a value segment that should have at least `end` bytes.
    fn segment(&self, segments: &Segments, row: &SegmentRow, end: u64) -> Option<Absent> {
        let id = row.ordinal as u16;
        let (name, found) = (names::segment(id), segments.get(id));
        let why = match found {
            Ok(s) if s.ordinal != row.ordinal => "the segment is missing; another one has its name".to_owned(),
            Ok(s) if s.is_output != row.is_output => "its header is that of another segment".to_owned(),
            Ok(s) => match segments.length(&s, end) {
                Err(Error::Storage(StorageError::Corrupt { what, .. })) if !row.is_leaving => what,
                // A writer has just measured it. To others an error is reported when they read the
                // segment.
                Err(_) if segments.is_writable() && s.met_bytes < end => cut_short(s.met_bytes, end),
                Ok(len) if len < end => cut_short(len, end),
                _ if row.is_unseen => UNSEEN.to_owned(),
                _ => return None,
            },
            Err(_) if row.is_leaving => return None,
            Err(Error::Storage(StorageError::Corrupt { what, .. })) => what,
            Err(e) => e.to_string(),
        };
        Some(self.lost(name, row, why, UNIT_BYTES))
    }

    fn lost(&self, file: String, row: &SegmentRow, why: String, unit: u64) -> Absent {
        let (ordinal, live_bytes) = (Some(row.ordinal), row.live_units * unit);
        Absent { file, ordinal, why, live_bytes, is_accepted: row.is_lost }
    }
}

/// Name of a segment after the tail that has records but is not in the list of begun segments. A
/// segment is listed before anything is put in it, and cut before its entry is removed.
fn unnamed(segments: &Segments, tail: u64, rolls: &Rolls) -> Option<String> {
    let log = segments.log();
    let newer = log.iter().find(|s| s.ordinal > tail && s.met_bytes > FIRST_RECORD && rolls.lacks(s.ordinal));
    newer.map(|segment| segment.name())
}

fn cut_short(len: u64, end: u64) -> String {
    format!("the file is cut short: it ends at {len}, but had at least {end} bytes")
}

/// The ordered runs that a superblock names but that have no file.
///
/// # Errors
/// `Io`.
pub(crate) fn absent_runs(dir: &dyn Dir, segment_table: &SegmentTable) -> Result<Vec<Absent>> {
    let runs = segment_table.key_runs();
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let listed: BTreeSet<String> = dir.list().map_err(Error::io("list", dir.path().display()))?.into_iter().collect();
    let gone = runs.iter().map(|run| names::key_run(run.number)).filter(|name| !listed.contains(name));
    let why = "the file is missing: keys cannot be listed in order without it".to_owned();
    let told = |file| Absent { file, ordinal: None, why: why.clone(), live_bytes: 0, is_accepted: false };
    Ok(gone.map(told).collect())
}

/// Refuses a store with missing files whose loss is not accepted. An outdated superblock cannot be
/// accepted: its index may be overwritten, and later outputs of compaction would be taken for
/// orphans.
///
/// # Errors
/// `Corrupt`, with the first such file.
pub(crate) fn refuse(absent: &[Absent], accepts_loss: bool) -> Result<()> {
    if let Some(old) = absent.iter().find(|a| a.file == names::SUPERBLOCK) {
        return Err(Error::corrupt(&old.file, 0, format!("{}; repair the store, or restore the file", old.why)));
    }
    let mut missed = absent.iter().filter(|a| !a.is_accepted && !accepts_loss);
    missed.next().map_or(Ok(()), |first| Err(first.refusal(missed.count())))
}

/// Marks the losses as accepted in the segment table, except files that nothing names. The length
/// of segments from the checkpoint's tail on is unknown: returns the greatest of their ordinals.
pub(crate) fn accept(absent: &[Absent], segment_table: &mut SegmentTable, tail: u64) -> Option<u64> {
    let mut unseen = None;
    for one in absent.iter().filter(|a| !a.is_accepted) {
        if let Some(id) = names::parse_dictionary(&one.file) {
            segment_table.dictionaries.insert(id, true);
        }
        if one.is_key_run() {
            // The other runs are useless without this one; a repair rebuilds them.
            segment_table.order = None;
        }
        let Some(ordinal) = one.ordinal else { continue };
        let id = ordinal as u16;
        let is_key = names::parse_keys(&one.file).is_some();
        let family = if is_key { &mut segment_table.keys } else { &mut segment_table.values };
        let row = family.entry(id).or_default();
        (row.ordinal, row.is_lost) = (ordinal, true);
        row.is_unseen = !is_key && (ordinal >= tail || row.end_units == 0);
        if row.is_unseen && ordinal >= tail {
            unseen = unseen.max(Some(ordinal));
        }
    }
    unseen
}

/// Clears the loss of files that are back at full length. Returns true if there are any.
pub(crate) fn welcome(absent: &[Absent], segment_table: &mut SegmentTable, values: &ValueLog) -> bool {
    let is_absent = |row: &SegmentRow| absent.iter().any(|a| a.is_value() && a.ordinal == Some(row.ordinal));
    let is_there = |row: &SegmentRow| {
        let found = values.segments.get(row.ordinal as u16).ok().filter(|s| s.ordinal == row.ordinal);
        found.is_some_and(|s| s.met_bytes >= row.end_units * UNIT_BYTES)
    };
    let lost = segment_table.values.values_mut().filter(|a| a.is_lost && !a.is_unseen);
    let back: Vec<&mut SegmentRow> = lost.filter(|a| !is_absent(a) && is_there(a)).collect();
    let mut has_any = !back.is_empty();
    back.into_iter().for_each(|row| row.is_lost = false);
    for (id, is_lost) in segment_table.dictionaries.iter_mut().filter(|(_, is_lost)| **is_lost) {
        if values.dictionaries.flaw(*id).is_none() {
            (*is_lost, has_any) = (false, true);
        }
    }
    has_any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_was_accepted_is_missed_only_as_long_as_something_leads_there() {
        let mut absent = Absent {
            file: "value1.dat".into(),
            ordinal: Some(1),
            why: "gone".into(),
            live_bytes: 0,
            is_accepted: false,
        };
        assert!(absent.is_missed() && refuse(std::slice::from_ref(&absent), false).is_err());
        absent.is_accepted = true;
        assert!(!absent.is_missed() && refuse(std::slice::from_ref(&absent), false).is_ok());
        absent.live_bytes = 64;
        assert!(absent.is_missed() && refuse(std::slice::from_ref(&absent), false).is_ok());
        absent.is_accepted = false;
        let two = [absent.clone(), absent];
        assert!(refuse(&two, false).unwrap_err().to_string().contains("1 more"));
    }
}
