//! Compaction: copies the live records of the worst segments into new ones, has a checkpoint point
//! the index to the copies, and removes the old files.
//!
//! Nothing here holds a lock that a put waits for. Output does not count before a superblock names
//! it: a crash or error leaves the store unchanged and output segments that the next writer
//! removes.

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
