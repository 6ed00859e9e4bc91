//! WARC files: reads records, over damage, and turns them into pages; writes versions of pages as
//! records that every reader accepts and that give the very same pages when imported.
//!
//! Reading, lowest layer first: `input` (raw bytes with a window back), `gzip` and `zstd` (one
//! member each), `member` (the file as members), [`Reader`] (records), `capture` (a record as a
//! page). Beside them `wacz`, the zip file around WARC files. Writing: `write`. `stored` is the
//! field of our records for what WARC cannot express.
//!
//! No store is known here: [`crate::import`] puts pages into one, [`crate::dump`] takes them out.
//! docs/WARC.md says what is kept and how, and why the framing is our own.

mod arc;
pub(crate) mod capture;
mod clipped;
pub(crate) mod digest;
mod gzip;
pub(crate) mod header;
mod input;
mod member;
mod payload;
mod problem;
mod reader;
mod record;
mod step;
pub(crate) mod stored;
pub(crate) mod wacz;
pub(crate) mod write;
mod zstd;

pub use header::RecordHeader;
pub use payload::DigestCount;
pub use problem::{Place, Problem, ProblemKind};
pub use reader::Reader;
pub use record::{Item, Record};
pub use write::Compression;
pub(crate) use zstd::{Begins, begins as zstd_begins, dictionary_frame};

pub use crate::packing::Packing;
pub use crate::spool::Spool;
