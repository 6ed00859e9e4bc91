//! What the threads of one open handle share: `reading`, which every handle has, and `writing`, which only the writer has. Below
//! them what both need: the end of the log, recovery, which versions are kept, the rules of erasures.
//!
//! `upkeep` and `store` call this.

pub(crate) mod log;
pub(crate) mod reading;
pub(crate) mod recover;
pub(crate) mod retention;
pub(crate) mod rules;
pub(crate) mod spot;
pub(crate) mod writing;
