//! From a key to its versions: the memtable for recent puts, address.idx for the rest, the segment
//! table for live bytes, the files of ordered keys, and the superblock, which decides what counts.
//!
//! Called by `handle`, `upkeep` and `store`. Its modules do not know each other.

pub(crate) mod address;
pub(crate) mod key_runs;
pub(crate) mod memtable;
pub(crate) mod segment_table;
pub(crate) mod superblock;
