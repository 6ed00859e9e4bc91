//! The segment table: live bytes of each segment. Checkpoints keep it exact; a superblock names
//! it.
//!
//! Live records are those that the superblock's index leads to: value records (with the chunks of
//! large bodies) of versions in some chain, and the key records of those chains. Tombstones are
//! counted separately: they must stay while an earlier version of their key may lie in any
//! segment. Everything else below the checkpoint's tail is dead. So every number can be recomputed
//! from the index and the logs, as `verify` does.
//!
//! The table is also the list of files. It names every segment of the value log up to the
//! checkpoint's tail and every one that compaction wrote, live or dead, with its length once that
//! is final. A listed segment without a file is lost, unless a durable superblock marked it as
//! leaving before its file was removed. Dictionaries are listed likewise: from before a record
//! names one until before its file is removed. So are the ordered runs.

use std::collections::{BTreeMap, BTreeSet};

use filemap_runs::ordered::Info;

use crate::format::bits::Bits;
use crate::format::key_runs::{KEY_RUNS, KeyRuns, ORDERS};
use crate::format::location::Extent;
use crate::format::row::{END_UNITS, FAMILY, FLAGS, LIVE_UNITS, ORDINAL, TOMBSTONE_UNITS, WORDS};
use crate::format::{Flaw, key};

const OUTPUT: u64 = 1;
const LEAVING: u64 = 2;
const LOST: u64 = 4;
const UNSEEN: u64 = 8;
const VALUES: u64 = 1;
const KEYS: u64 = 2;
const DICTIONARIES: u64 = 3;

const NO_DICTIONARY: Flaw = "segment table has an invalid or repeated dictionary";

/// The row of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentRow {
    pub(crate) ordinal: u64,
    /// Live bytes in units of the segment's family: 64 bytes for values, 16 for key records.
    pub(crate) live_units: u64,
    /// Tombstones, in the same units.
    pub(crate) tombstone_units: u64,
    /// Final length in the same units, 0 while unknown or growing. Bytes of a key-log segment
    /// beyond it do not count.
    pub(crate) end_units: u64,
    /// True if compaction wrote the segment.
    pub(crate) is_output: bool,
    /// True if the file may be removed: compaction has emptied the segment.
    pub(crate) is_leaving: bool,
    /// True if the segment is missing or cut short, and a caller has accepted that.
    pub(crate) is_lost: bool,
    /// True if its length will never be known: it was lost before a checkpoint had covered all of
    /// it.
    pub(crate) is_unseen: bool,
}

impl SegmentRow {
    fn encode(&self, family: u64) -> [u64; WORDS] {
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let flags = flag(self.is_output, OUTPUT) | flag(self.is_leaving, LEAVING) | flag(self.is_lost, LOST);
        let flags = flags | flag(self.is_unseen, UNSEEN);
        let mut words = [0; WORDS];
        let mut put = |field: Bits, value| words[field.word] |= field.at(value);
        put(FAMILY, family);
        put(ORDINAL, self.ordinal);
        put(LIVE_UNITS, self.live_units);
        put(TOMBSTONE_UNITS, self.tombstone_units);
        put(FLAGS, flags);
        put(END_UNITS, self.end_units);
        words
    }

    fn decode(words: &[u64]) -> Result<SegmentRow, Flaw> {
        let (flags, end_units) = (FLAGS.get(words), END_UNITS.get(words));
        let (live_units, tombstone_units) = (LIVE_UNITS.get(words), TOMBSTONE_UNITS.get(words));
        if live_units.max(tombstone_units).max(end_units) > u64::from(u32::MAX)
            || flags > OUTPUT + LEAVING + LOST + UNSEEN
        {
            return Err("segment table has an impossible row of a segment");
        }
        Ok(SegmentRow {
            ordinal: ORDINAL.get(words),
            live_units,
            tombstone_units,
            end_units,
            is_output: flags & OUTPUT != 0,
            is_leaving: flags & LEAVING != 0,
            is_lost: flags & LOST != 0,
            is_unseen: flags & UNSEEN != 0,
        })
    }
}

/// The rows of all segments, by number, and the list of dictionaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentTable {
    pub(crate) values: BTreeMap<u16, SegmentRow>,
    pub(crate) keys: BTreeMap<u16, SegmentRow>,
    /// Dictionary ids; true if the dictionary is lost and a caller has accepted that.
    pub(crate) dictionaries: BTreeMap<u32, bool>,
    /// The ordered runs, if the store has an order.
    pub(crate) order: Option<KeyRuns>,
}

impl SegmentTable {
    /// The row of a value segment, created if missing. `ordinal` is `None` for a missing segment:
    /// an existing row then keeps its ordinal, a new one is marked as lost.
    fn values_of(&mut self, id: u16, ordinal: Option<u64>) -> &mut SegmentRow {
        let lost = SegmentRow { ordinal: u64::from(id), is_lost: true, is_unseen: true, ..SegmentRow::default() };
        let new = ordinal.map_or(lost, |ordinal| SegmentRow { ordinal, ..SegmentRow::default() });
        let row = self.values.entry(id).or_insert(new);
        row.ordinal = ordinal.unwrap_or(row.ordinal);
        row
    }

    /// Counts a value record as live in a segment of this ordinal, `None` if the segment is
    /// missing.
    pub(crate) fn credit(&mut self, extent: Extent, ordinal: Option<u64>) {
        self.values_of(extent.location.segment, ordinal).live_units += u64::from(extent.units);
    }

    /// Counts a value record as dead.
    pub(crate) fn debit(&mut self, extent: Extent) {
        if let Some(row) = self.values.get_mut(&extent.location.segment) {
            // Saturating: damage may have hidden the matching credit. `verify` reports the
            // difference.
            row.live_units = row.live_units.saturating_sub(u64::from(extent.units));
        }
    }

    /// Counts tombstones written to a segment of this ordinal, `None` if it is missing.
    pub(crate) fn add_tombstones(&mut self, segment: u16, ordinal: Option<u64>, units: u64) {
        self.values_of(segment, ordinal).tombstone_units += units;
    }

    /// Counts a key record as live in a segment of this ordinal.
    pub(crate) fn credit_key(&mut self, address: u64, ordinal: u64, bytes: u64) {
        let row = self.keys.entry(key::segment_of(address)).or_default();
        row.ordinal = ordinal;
        row.live_units += bytes / key::UNIT_BYTES;
    }

    /// Counts a key record as dead.
    pub(crate) fn debit_key(&mut self, address: u64, bytes: u64) {
        if let Some(row) = self.keys.get_mut(&key::segment_of(address)) {
            row.live_units = row.live_units.saturating_sub(bytes / key::UNIT_BYTES);
        }
    }

    /// Lists a segment, with its length once that is final.
    pub(crate) fn name(&mut self, id: u16, ordinal: u64, is_output: bool, end_units: Option<u64>) {
        let row = self.values.entry(id).or_default();
        (row.ordinal, row.is_output) = (ordinal, is_output);
        if row.end_units == 0 {
            row.end_units = end_units.unwrap_or(0);
        }
    }

    /// Returns true if the final length of a segment is known.
    pub(crate) fn has_end(&self, id: u16) -> bool {
        self.values.get(&id).is_some_and(|a| a.end_units != 0)
    }

    /// Returns true if the loss of a segment was accepted: its file does not tell its length.
    pub(crate) fn is_lost(&self, id: u16) -> bool {
        self.values.get(&id).is_some_and(|a| a.is_lost)
    }

    /// Marks those of the segments that have no live bytes: their files may be removed once a
    /// superblock has the mark.
    pub(crate) fn let_go(&mut self, ordinals: &[u64]) {
        let empty = self.values.values_mut().filter(|a| a.live_units == 0 && ordinals.contains(&a.ordinal));
        empty.for_each(|a| a.is_leaving = true);
    }

    /// Iterates over key-log segments: ordinal, and end of the counting part (`u64::MAX` if
    /// unknown).
    pub(crate) fn key_ends(&self) -> impl Iterator<Item = (u64, u64)> {
        let end = |a: &SegmentRow| if a.end_units == 0 { u64::MAX } else { a.end_units * key::UNIT_BYTES };
        self.keys.values().map(move |a| (a.ordinal, end(a)))
    }

    /// Sets the ends of key-log segments from `end_of`, which takes an ordinal.
    pub(crate) fn seal_keys(&mut self, end_of: impl Fn(u64) -> Option<u64>) {
        for row in self.keys.values_mut() {
            row.end_units = end_of(row.ordinal).map_or(0, |end| end / key::UNIT_BYTES);
        }
    }

    /// Drops the rows of key-log segments without live bytes, whose files will be removed.
    pub(crate) fn forget_dead_keys(&mut self) {
        self.keys.retain(|_, row| row.live_units > 0);
    }

    /// Live bytes of a key-log segment.
    pub(crate) fn live_key_bytes(&self, ordinal: u64) -> u64 {
        let row = self.keys.get(&(ordinal as u16)).filter(|a| a.ordinal == ordinal);
        row.map_or(0, |a| a.live_units * key::UNIT_BYTES)
    }

    /// Returns true if the table lists a value segment with this number and ordinal.
    pub(crate) fn names(&self, id: u16, ordinal: u64) -> bool {
        self.values.get(&id).is_some_and(|a| a.ordinal == ordinal)
    }

    /// Replaces the list of dictionaries by `there`, which are no longer lost, and those lost
    /// before unless `leaving`.
    pub(crate) fn name_dictionaries(&mut self, there: &BTreeSet<u32>, leaving: &BTreeSet<u32>) {
        self.dictionaries.retain(|id, is_lost| *is_lost && !leaving.contains(id));
        self.dictionaries.extend(there.iter().map(|id| (*id, false)));
    }

    /// Ids of the dictionaries, except those accepted as lost.
    pub(crate) fn kept_dictionaries(&self) -> impl Iterator<Item = u32> {
        self.dictionaries.iter().filter(|(_, is_lost)| !**is_lost).map(|(id, _)| *id)
    }

    /// The ordered runs, oldest first.
    pub(crate) fn key_runs(&self) -> &[Info] {
        self.order.as_ref().map(|named| &named.runs[..]).unwrap_or_default()
    }

    /// Encodes the table as words, for the index file.
    pub(crate) fn encode(&self) -> Vec<u64> {
        let families = [(VALUES, &self.values), (KEYS, &self.keys)];
        let segments = families.into_iter().flat_map(|(family, rows)| rows.values().map(move |a| (family, *a)));
        let dictionaries = self.dictionaries.iter().map(|(id, is_lost)| {
            let entry = SegmentRow { ordinal: u64::from(*id), is_lost: *is_lost, ..SegmentRow::default() };
            (DICTIONARIES, entry)
        });
        let rows = segments.chain(dictionaries).flat_map(|(family, a)| a.encode(family));
        rows.chain(self.order.iter().flat_map(KeyRuns::encode)).collect()
    }

    /// Decodes the table from words.
    pub(crate) fn decode(words: &[u64]) -> Result<SegmentTable, Flaw> {
        let mut segment_table = SegmentTable::default();
        if !words.len().is_multiple_of(WORDS) {
            return Err("segment table is cut off");
        }
        for entry in words.chunks_exact(WORDS) {
            if matches!(FAMILY.get(entry), ORDERS | KEY_RUNS) {
                segment_table.decode_order(entry)?;
                continue;
            }
            let row = SegmentRow::decode(entry)?;
            let family = match FAMILY.get(entry) {
                VALUES => &mut segment_table.values,
                KEYS => &mut segment_table.keys,
                DICTIONARIES => {
                    let id = u32::try_from(row.ordinal).map_err(|_| NO_DICTIONARY)?;
                    let plain = SegmentRow { ordinal: u64::from(id), is_lost: row.is_lost, ..SegmentRow::default() };
                    if id == 0 || row != plain || segment_table.dictionaries.insert(id, row.is_lost).is_some() {
                        return Err(NO_DICTIONARY);
                    }
                    continue;
                }
                _ => return Err("segment table has an entry of an unknown family"),
            };
            if family.insert(row.ordinal as u16, row).is_some() {
                return Err("segment table has two entries of one number");
            }
        }
        segment_table.order.as_ref().map_or(Ok(()), KeyRuns::check)?;
        Ok(segment_table)
    }

    /// Decodes the row of the order of keys or of one of its runs.
    fn decode_order(&mut self, row: &[u64]) -> Result<(), Flaw> {
        match (&mut self.order, FAMILY.get(row)) {
            (order @ None, ORDERS) => *order = Some(KeyRuns::decode(row)?),
            (Some(order), KEY_RUNS) => order.decode_run(row)?,
            (Some(_), _) => return Err("segment table has two orders of keys"),
            (None, _) => return Err("segment table has a run of keys before their order"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::location::Location;

    #[test]
    fn a_table_comes_back_and_what_is_none_is_refused() {
        let mut segment_table = SegmentTable::default();
        let extent = Extent { location: Location::new(3, 64), units: 7 };
        segment_table.credit(extent, Some(65_539));
        segment_table.credit(extent, Some(65_539));
        segment_table.debit(extent);
        segment_table.add_tombstones(9, Some(9), 2);
        segment_table.credit_key(1 << 25, 65_538, 32);
        segment_table.name(9, 9, true, Some(50));
        segment_table.name(9, 9, true, Some(60));
        segment_table.let_go(&[9, 65_539]);
        // A missing segment's row keeps its ordinal; a new row for one is marked as lost.
        let missing = |segment| Extent { location: Location::new(segment, 64), units: 1 };
        segment_table.credit(missing(3), None);
        segment_table.debit(missing(3));
        segment_table.debit(missing(8));
        let mut lost = segment_table.clone();
        lost.credit(missing(8), None);
        assert_eq!((lost.values[&8].ordinal, lost.values[&8].is_lost), (8, true));
        assert_eq!(SegmentTable::decode(&lost.encode()).unwrap(), lost);
        let none = BTreeSet::new();
        lost.name_dictionaries(&[3, 7].into(), &none);
        lost.dictionaries.extend([(7, true), (8, true), (9, true)]);
        lost.name_dictionaries(&[8, u32::MAX].into(), &[9].into());
        assert_eq!(lost.dictionaries, [(7, true), (8, false), (u32::MAX, false)].into());
        assert_eq!(lost.kept_dictionaries().collect::<Vec<_>>(), [8, u32::MAX]);
        assert_eq!(SegmentTable::decode(&lost.encode()).unwrap(), lost);
        let words = segment_table.encode();
        assert_eq!(words.len(), 12);
        let nine = segment_table.values[&9];
        assert_eq!((nine.end_units, nine.is_output, nine.is_leaving, nine.is_lost), (50, true, true, false));
        assert!(segment_table.names(3, 65_539) && !segment_table.names(3, 3));
        assert_eq!((segment_table.live_key_bytes(65_538), segment_table.live_key_bytes(2)), (32, 0));
        let back = SegmentTable::decode(&words).unwrap();
        assert_eq!(back, segment_table);
        segment_table.debit_key(1 << 25, 32);
        segment_table.forget_dead_keys();
        assert!(segment_table.keys.is_empty() && segment_table.values.len() == 2);
        assert!(SegmentTable::decode(&words[..7]).is_err());
        assert!(SegmentTable::decode(&[words.clone(), words].concat()).is_err());
        assert!(SegmentTable::decode(&[FAMILY.at(9), 0, 0, 0]).is_err());
        assert!(SegmentTable::decode(&[FAMILY.at(VALUES), 1 << 32, 0, 0]).is_err());
        let dictionary = |id: u64, live, flags: u64| vec![FAMILY.at(DICTIONARIES) | id, live, 0, FLAGS.at(flags)];
        assert!(SegmentTable::decode(&dictionary(1, 0, LOST)).is_ok());
        for wrong in [dictionary(0, 0, 0), dictionary(1 << 32, 0, 0), dictionary(1, 1, 0), dictionary(1, 0, OUTPUT)] {
            assert!(SegmentTable::decode(&wrong).is_err());
        }
        assert!(SegmentTable::decode(&[dictionary(1, 0, 0), dictionary(1, 0, 0)].concat()).is_err());
        assert!(SegmentTable::decode(&[FAMILY.at(VALUES), 0, 0, FLAGS.at(16)]).is_err());
    }
}
