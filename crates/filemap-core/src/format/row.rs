//! A row of the segment table: four words a segment or dictionary, as entries of nodes.

use super::bits::Bits;

/// Words of a row.
pub(crate) const WORDS: usize = 4;

pub(crate) const FAMILY: Bits =
    Bits { word: 0, low: 56, bits: 8, text: "family: 1 value log, 2 key log, 3 dictionaries" };
pub(crate) const ORDINAL: Bits =
    Bits { word: 0, low: 0, bits: 56, text: "ordinal of the segment, id of the dictionary" };
pub(crate) const LIVE_UNITS: Bits = Bits { word: 1, low: 0, bits: 64, text: "live units" };
pub(crate) const TOMBSTONE_UNITS: Bits = Bits { word: 2, low: 0, bits: 64, text: "units of tombstones" };
pub(crate) const FLAGS: Bits = Bits {
    word: 3,
    low: 56,
    bits: 8,
    text: "flags: 1 written by compaction, 2 leaving (the file may be gone), 4 lost (accepted by a caller), 8 length unknown for good",
};
pub(crate) const END_UNITS: Bits = Bits { word: 3, low: 0, bits: 56, text: "length in units, 0 while it grows" };

/// The fields, for the document.
#[cfg(test)]
pub(super) const FIELDS: [Bits; 6] = [FAMILY, ORDINAL, LIVE_UNITS, TOMBSTONE_UNITS, FLAGS, END_UNITS];
