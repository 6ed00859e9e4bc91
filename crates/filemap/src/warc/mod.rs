//! WARC files: reads records, skipping damage, and converts them to pages; writes versions of
//! pages as records that every reader accepts and that import as exactly the same pages.
//!
//! Reading, lowest layer first: `input` (raw bytes with a window back), `gzip` and `zstd` (one
//! member each), `member` (the file as members), [`Reader`] (records), `capture` (a record as a
//! page). Beside them `wacz`, the zip file around WARC files. Writing: `write`. `stored` is
//! FileMap's own header field for what WARC cannot express.
//!
//! This module knows no store: [`crate::import`] puts pages into one, [`crate::dump`] takes them
//! out. docs/WARC.md says what is kept and how, and why FileMap parses the framing itself.

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
