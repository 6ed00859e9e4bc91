//! Pages out: a store, or what is selected of it, as files of other formats, in one pass in the
//! order of the log.
//!
//! [`dump`] writes JSON Lines ([`jsonl`], which reads them back too), WARC files and their index
//! in CDXJ, and plain files, several of them at a time; the files go to a [`Target`], of which
//! [`Wacz`] is one. docs/WARC.md says what a WARC file keeps.
//!
//! Invariants: memory is bounded by the largest page, the sorting of the index, and a bit for each
//! version in a dump of WARC files; a damaged version is reported and costs itself only.

mod cdxj;
mod files;
pub mod jsonl;
mod names;
mod options;
mod pages;
mod pass;
mod select;
mod sequences;
mod sort;
mod surt;
mod target;
mod wacz;

pub use options::{DumpOptions, Format};
pub use pass::{DumpEvent, DumpReport, dump};
pub use select::{MimeRange, Selection, StatusRange};
pub use target::{OutputFile, Target};
pub use wacz::Wacz;
