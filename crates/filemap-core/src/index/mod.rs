//! What leads from a key to its versions: the memtable for what was put lately, address.idx for the rest, the segment table
//! for how much of each segment lives, and the superblock, which says which of it counts.
//!
//! `handle`, `upkeep` and `store` call this. Its modules stand side by side; none knows another but `bloom`.

pub(crate) mod address;
pub(crate) mod bloom;
pub(crate) mod memtable;
pub(crate) mod segment_table;
pub(crate) mod superblock;
