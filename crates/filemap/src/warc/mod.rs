//! WARC files in: records read over damage, answers turned into pages, pages put into a store.
//!
//! Layers, each over the one before: `input` (raw bytes with a window back), `gzip` and `zstd` (one member each),
//! `member` (the file as members), [`Reader`] (records), `capture` (a record as a page), [`import`] (into a store).
//! docs/WARC.md says what is kept and how, and why the framing is our own.

mod capture;
mod digest;
mod gzip;
mod header;
mod import;
mod input;
mod member;
mod options;
mod reader;
mod report;
mod zstd;

pub use header::RecordHeader;
pub use import::{ImportProgress, import};
pub use options::ImportOptions;
pub use reader::{Item, Reader, Record};
pub use report::{ImportReport, MAX_LISTED_PROBLEMS, Place, Problem, ProblemKind};
