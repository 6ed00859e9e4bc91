//! The verbs, one file or folder each: its arguments, and how its result is printed.
//!
//! A verb's `run` opens its store, calls the crates, prints, and returns its outcome. What stores
//! do is in the crates.

pub mod archives;
pub mod backup;
pub mod compact;
pub mod completions;
pub mod copy;
pub mod count;
pub mod dump;
pub mod erase;
pub mod get;
pub mod has;
pub mod head;
pub mod history;
pub mod import;
#[cfg(feature = "cloud")]
pub mod in_bucket;
pub mod inspect;
pub mod load;
pub mod ls;
pub mod man;
pub mod merge;
pub mod prune;
pub mod put;
pub mod recompress;
pub mod repair;
pub mod rm;
pub mod seen;
pub mod segments;
pub mod stat;
pub mod top;
pub mod train;
pub mod verify;
