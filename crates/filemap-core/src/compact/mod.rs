//! Compaction: gives back the space of what is dead. What it moves becomes reachable, and what it empties goes, only through a
//! checkpoint.

pub(crate) mod index;
pub(crate) mod keys;
