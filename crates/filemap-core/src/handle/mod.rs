//! State shared by the threads of one open handle: `reading`, which every handle has, and
//! `writing`, which only a writer has. Below them is what both need: the end of the log, recovery,
//! retention, the rules of erasures.
//!
//! Called by `upkeep` and `store`.

pub(crate) mod log;
pub(crate) mod reading;
pub(crate) mod recover;
pub(crate) mod retention;
pub(crate) mod rules;
pub(crate) mod spot;
pub(crate) mod writing;
