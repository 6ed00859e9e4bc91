//! WARC files in and out: records read over damage, answers turned into pages, pages put into a store; and pages written as
//! records that every reader takes, and that give the very same pages when they come back.
//!
//! In, each layer over the one before: `input` (raw bytes with a window back), `gzip` and `zstd` (one member each),
//! `member` (the file as members), [`Reader`] (records), `capture` (a record as a page),
//! `pair` (answers with their requests), [`import`] (into a store), [`import_wacz`] (the WARC files in a WACZ file). Out:
//! `write`, which [`crate::dump`] calls; `stored` is what a
//! record of ours says beside what WARC has words for.
//! docs/WARC.md says what is kept and how, and why the framing is our own.

mod arc;
mod asked;
mod capture;
mod clipped;
mod dates;
pub(crate) mod digest;
mod gzip;
mod header;
mod import;
mod input;
mod member;
mod options;
mod packing;
mod pair;
mod payload;
mod reader;
mod report;
mod stored;
mod wacz;
mod write;
mod zstd;

pub use header::RecordHeader;
pub use import::{ImportProgress, import, import_into};
pub use options::ImportOptions;
pub use packing::Packing;
pub use payload::DigestCount;
pub use reader::{Item, Reader, Record};
pub use report::{ImportReport, MAX_LISTED_PROBLEMS, Place, Problem, ProblemKind};
pub use wacz::{import_wacz, import_wacz_into, is_zip};
pub use write::Compression;
pub(crate) use write::{Entry, Form, Reference, WarcFiles, draft, target_uri};
