//! Import: WARC, ARC and WACZ files into a store.
//!
//! Layers: `asked` (requests), `dates` (dates repaired by rule), `pair` (answers with their
//! requests), [`import`] (a WARC file into a store), [`import_wacz`] (the WARC files in a WACZ
//! file); `cache`, the caches of other programs.

mod asked;
pub mod cache;
mod dates;
mod options;
mod pair;
mod report;
mod wacz;
mod warc;

pub use options::ImportOptions;
pub use report::{ImportReport, MAX_LISTED_PROBLEMS};
pub use wacz::{import_wacz, import_wacz_into, is_zip};
pub use warc::{ImportProgress, import, import_into};
