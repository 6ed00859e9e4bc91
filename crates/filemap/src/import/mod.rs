//! Import: WARC, ARC and WACZ files into a store.
//!
//! Layers: `asked` (requests), `dates` (dates repaired by rule), `pair` (answers with their
//! requests), `watch` (what is told meanwhile), `produce` (a WARC file into batches), [`import`]
//! (batches into a store), [`import_wacz`] (the WARC files in a WACZ file); `cache`, the caches of
//! other programs.

mod asked;
pub mod cache;
mod dates;
mod options;
mod pair;
mod produce;
mod report;
mod wacz;
mod warc;
mod watch;

pub use options::ImportOptions;
pub use report::{ImportReport, MAX_LISTED_PROBLEMS};
pub use wacz::{import_wacz, import_wacz_into, is_zip};
pub use warc::{import, import_into};
pub use watch::{Fate, ImportProgress, ImportWatch, ImportedRecord};
