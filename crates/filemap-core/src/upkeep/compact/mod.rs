//! Gives back the space of what is dead: copies what lives in the worst segments into new ones, has a checkpoint lead the index
//! there, and removes the old files.
//!
//! Nothing here holds a lock that a put waits for, and nothing that it writes is believed before a superblock names it: a
//! crash, or an error, leaves output segments that the next writer removes, and the store as it was.

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

pub(crate) use run::{Goal, planned};
