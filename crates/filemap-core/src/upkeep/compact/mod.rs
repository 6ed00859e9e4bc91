//! Compaction: copies what is live in the worst segments into new ones, has a checkpoint lead the
//! index there, and removes the old files.
//!
//! Nothing here holds a lock that a put waits for. Output does not count before a superblock names
//! it: a crash or error leaves output segments, which the next writer removes, and the store as it
//! was.

mod chains;
pub(crate) mod clean;
mod copy;
pub(crate) mod index;
mod judge;
pub(crate) mod keys;
mod output;
pub(crate) mod plan;
mod run;
mod turn;
mod window;

pub(crate) use run::{Goal, planned};
