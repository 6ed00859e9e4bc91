//! Ordered runs: byte-string keys in order, from which a store lists its keys in both directions
//! and counts a range without reading it.
//!
//! A run is a static B+ tree in one file. Its leaves hold front-coded keys, each with a
//! [`Change`]: the key was added (+1) or removed (-1). Its inner blocks hold the sum of the
//! changes below each child. Over all runs of a store the changes of a key sum to 1 if the key is
//! present, else to 0, so a merge need not know which run is newer, and a key whose sum is 0
//! leaves no trace. Merge only runs that are adjacent in time, or all of them: in any other merge
//! the changes of a key could sum to 2.
//!
//! A [`Writer`] writes a run from front to end, a [`Cursor`] walks one, a [`Merge`] lists several
//! as one; [`Run::sum_below`] counts.
//!
//! ```
//! use std::ops::Bound;
//! use std::sync::Arc;
//!
//! use filemap_runs::ordered::{Change, Direction, Home, Merge, Run, Source, Writer};
//!
//! # let dir = filemap_io::sim::SimDisk::new(1).dir();
//! let home = Home::new(dir, "keys", [7; 16], ());
//! let write = |number, entries: &[(&str, Change)]| {
//!     let mut writer = Writer::create(&home, number).unwrap();
//!     entries.iter().for_each(|(key, change)| writer.push(key.as_bytes(), *change).unwrap());
//!     let written = writer.end().unwrap().expect("not empty");
//!     written.sync().unwrap();
//!     Arc::new(Run::open(&home, written.info()).unwrap())
//! };
//! let old = write(1, &[("com,example)/", Change::Added), ("org,example)/", Change::Added)]);
//! let new = write(2, &[("com,example)/", Change::Removed), ("com,example)/a", Change::Added)]);
//!
//! // Keys of com,example; none has been read yet.
//! let sum = |key: &[u8]| old.sum_below(key).unwrap() + new.sum_below(key).unwrap();
//! assert_eq!(sum(b"com,example*") - sum(b"com,example)"), 1);
//!
//! let sources = vec![Source::Run(old), Source::Run(new)];
//! let mut list = Merge::new(sources, Direction::Forward, Bound::Included(b"com,")).unwrap();
//! assert_eq!(list.next_entry().unwrap(), Some((&b"com,example)/a"[..], Change::Added)));
//! assert_eq!(list.next_entry().unwrap(), Some((&b"org,example)/"[..], Change::Added)));
//! assert_eq!(list.next_entry().unwrap(), None);
//! ```
//!
//! Invariants, besides those of [all runs](crate): no key occurs twice in a run; every block read
//! has the sums that its parent states; keys rise along any walk, whatever the file holds.

mod ahead;
mod change;
mod cursor;
mod format;
mod front;
mod inner;
mod leaf;
mod merge;
mod run;
mod sort;
mod source;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use filemap_io::layout::Row;

pub use change::{Change, Entry};
pub use cursor::Cursor;
pub use format::{Home, Info, MAX_KEY_BYTES, OWNER_BYTES, first_header, flaw, owner};
pub use merge::Merge;
pub use run::Run;
pub use sort::sort;
pub use source::{Direction, Source};
pub use writer::Writer;

/// Layouts of the header and of the fixed part of each block, for the documentation.
pub(crate) fn layouts() -> [&'static [Row]; 2] {
    [format::OrderedHeader::ROWS, format::OrderedBlock::ROWS]
}
