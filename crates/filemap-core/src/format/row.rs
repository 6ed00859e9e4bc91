//! A row of the segment table: four words for a segment, dictionary or ordered run, as entries of
//! nodes.

use super::bits::Bits;

/// Words of a row.
pub(crate) const WORDS: usize = 4;

pub(crate) const FAMILY: Bits = Bits {
    word: 0,
    low: 56,
    bits: 8,
    text: "family: 1 value log, 2 key log, 3 dictionaries, 4 the order of keys, 5 its runs",
};
pub(crate) const ORDINAL: Bits = Bits {
    word: 0,
    low: 0,
    bits: 56,
    text: "ordinal of the segment, id of the dictionary, number of the run; of the order: the next number",
};
pub(crate) const LIVE_UNITS: Bits = Bits { word: 1, low: 0, bits: 64, text: "live units" };
pub(crate) const TOMBSTONE_UNITS: Bits = Bits { word: 2, low: 0, bits: 64, text: "units of tombstones" };
pub(crate) const FLAGS: Bits = Bits {
    word: 3,
    low: 56,
    bits: 8,
    text: "flags: 1 written by compaction, 2 leaving (the file may be missing), 4 lost (accepted by a caller), 8 length permanently unknown",
};
pub(crate) const END_UNITS: Bits = Bits { word: 3, low: 0, bits: 56, text: "length in units, 0 while it grows" };

/// Of family 4.
pub(crate) const ORDER: Bits = Bits { word: 1, low: 0, bits: 64, text: "family 4: XXH3-64 of the order's name" };
pub(crate) const ENTRIES: Bits =
    Bits { word: 2, low: 0, bits: 64, text: "family 4: entries of the table of a checkpoint in the middle, else 0" };
pub(crate) const BEFORE: Bits =
    Bits { word: 3, low: 0, bits: 64, text: "family 4: a sequence above theirs, 0 if no checkpoint was in the middle" };
/// Of family 5.
pub(crate) const LEAVES: Bits = Bits { word: 1, low: 0, bits: 32, text: "family 5: leaf blocks of the run" };
pub(crate) const PAGES: Bits = Bits { word: 1, low: 32, bits: 32, text: "family 5: its pages" };
pub(crate) const ADDED: Bits = Bits { word: 2, low: 0, bits: 64, text: "family 5: entries that add their key" };
pub(crate) const REMOVED: Bits = Bits { word: 3, low: 0, bits: 64, text: "family 5: entries that remove their key" };

/// The fields, for docs/FORMAT.md.
#[cfg(test)]
pub(super) const FIELDS: [Bits; 13] = [
    FAMILY,
    ORDINAL,
    LIVE_UNITS,
    TOMBSTONE_UNITS,
    FLAGS,
    END_UNITS,
    ORDER,
    ENTRIES,
    BEFORE,
    LEAVES,
    PAGES,
    ADDED,
    REMOVED,
];
