//! Dumps: the selected versions of a store as files of other formats, in one pass in the order of
//! the log; for a host or a prefix with few pages, in the order of the puts.
//!
//! [`dump()`] writes JSON Lines ([`jsonl`], which reads them too), WARC files with their index in
//! CDXJ, and plain files, in several formats at once; the files go to a [`Target`], for instance a
//! [`Wacz`]. docs/WARC.md says what a WARC file keeps.
//!
//! Invariants: memory is bounded by the largest page, the sorting of the index, and a bit for each
//! version in a dump of WARC files; a damaged version is reported, and the others are written.

mod cdxj;
mod files;
mod follow;
mod form;
pub mod jsonl;
mod newest;
mod options;
mod pages;
mod pass;
mod records;
mod select;
mod sort;
pub(crate) mod surt;
mod target;
mod tree;
mod wacz;

pub use follow::{WarcFollower, WarcPart, WarcPlace};
pub use options::{DumpOptions, Format};
pub use pass::{DumpEvent, DumpReport, dump, dump_members, dump_versions};
pub use records::{warc_begin, warc_note, warc_record, warc_record_of};
pub use select::{MimeRange, Selection, StatusRange};
pub use surt::surt as index_key;
pub use target::{OutputFile, Target};
pub use wacz::Wacz;
