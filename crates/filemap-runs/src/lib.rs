//! Immutable sorted runs: files of entries in key order, as LSM trees are made of.
//!
//! A [`RunWriter`] writes a run once, from front to end; a [`Run`] finds keys in it by one read of
//! a block of 4096 bytes. A [`Source`] merges runs and what is in memory into one order, in which
//! the newest entry of a key counts; a [`Cursor`] goes through one run forwards and backwards. A
//! [`Filter`] says without a read that a key is not in a run.
//!
//! How an entry is compared and written is a [`Format`]'s matter: keys and values may be of any
//! length that fits a block. [`fixed`] has the one for fingerprints of fixed width.
//!
//! ```
//! use std::sync::Arc;
//!
//! use filemap_io::OsDir;
//! use filemap_runs::fixed::Fixed;
//! use filemap_runs::{Home, Run, RunWriter};
//!
//! # let folder = std::env::temp_dir().join(format!("filemap-runs-{}", std::process::id()));
//! # filemap_io::create_dir(&folder).unwrap();
//! let dir = Arc::new(OsDir::open(&folder).unwrap());
//! let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
//! let mut writer = RunWriter::create(&home, 1).unwrap();
//! for i in 1..=1000u128 {
//!     writer.push(i << 64).unwrap();
//! }
//! let written = writer.end().unwrap().expect("not empty");
//! written.sync().unwrap();
//!
//! let run = Run::open(&home, written.info()).unwrap();
//! assert_eq!(run.find(7 << 64).unwrap(), Some(7 << 64));
//! assert_eq!(run.find(7).unwrap(), None);
//! # filemap_io::remove_dir(&folder).ok();
//! ```
//!
//! Invariants: a run is never changed; every byte of it is under a checksum that is seeded with
//! its owner's id and its number; a run that is not synced is nobody's yet, and its file says from
//! the first write on whose it will be.

mod cursor;
mod filter;
pub mod fixed;
mod format;
mod home;
mod merge;
mod run;
mod traffic;
mod writer;

pub use cursor::Cursor;
pub use filter::{Filter, Plan};
pub use format::{BLOCK_BYTES, CHUNK_BLOCKS, Format, Found, PADDING_BYTES};
pub use home::{Created, Home, file_name};
pub use merge::{RunReader, Source};
pub use run::{OWNER_BYTES, Run, RunInfo, first_header};
pub use traffic::Traffic;
pub use writer::{RunWriter, Written};

/// The tables of a run's header and of a block of fixed width, for documents.
pub fn layouts() -> [&'static [filemap_io::layout::Row]; 2] {
    [run::RunHeader::ROWS, fixed::ROWS]
}
