//! Immutable sorted runs: files of entries in key order, the building blocks of LSM trees.
//!
//! A [`RunWriter`] writes a run from front to end. A [`Run`] finds a key by reading one block of
//! 4096 bytes, or none if the block's Bloom filter excludes the key. A [`Source`] merges runs and
//! memory in key order, where the newest entry of a key wins. A [`Cursor`] walks one run in both
//! directions.
//!
//! A [`Format`] compares and encodes entries: keys and values of any length that fits a block.
//! [`fixed`] is the format of fixed-width fingerprints. [`ordered`] has another kind of run:
//! byte-string keys in order, for listing and counting.
//!
//! ```
//! use std::sync::Arc;
//!
//! use filemap_io::OsDir;
//! use filemap_runs::fixed::Fixed;
//! use filemap_runs::{Home, Run, RunWriter};
//!
//! # let folder = std::env::temp_dir().join(format!("filemap-runs-{}", std::process::id()));
//! # filemap_io::system::create_dir(&folder).unwrap();
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
//! # filemap_io::system::remove_dir(&folder).ok();
//! ```
//!
//! Invariants: a run never changes; every byte of it is under a checksum seeded with its owner's
//! id and its number; its file names the owner from the first write on; an owner names a run only
//! after syncing it.

mod cursor;
mod filter;
pub mod fixed;
mod format;
mod home;
mod index;
mod mapped;
mod merge;
pub mod ordered;
mod places;
mod run;
mod traffic;
mod writer;

pub use cursor::Cursor;
pub use format::{BLOCK_BYTES, CHUNK_BLOCKS, Format, Found, PADDING_BYTES};
pub use home::{Created, Home, file_name};
pub use merge::{RunReader, Source};
pub use run::{OWNER_BYTES, Run, RunInfo, first_header};
pub use traffic::Traffic;
pub use writer::{RunWriter, Written};

/// Layouts of a run's header, of a fixed-width block and of its filter; of an ordered run's header
/// and of the fixed part of its blocks: for the documentation.
pub fn layouts() -> [&'static [filemap_io::layout::Row]; 5] {
    let [header, block] = ordered::layouts();
    [run::RunHeader::ROWS, fixed::ROWS, filter::BlockFilter::ROWS, header, block]
}
