//! Import: WARC, ARC and WACZ files into a store.
//!
//! Layers: `asked` (requests), `dates` (dates repaired by rule), `pair` (answers with their
//! requests), `watch` (progress), `produce` (a WARC file into batches), `in_place` (records that
//! stay in their file), [`import`] (batches into a store), [`import_wacz`] (the WARC files in a
//! WACZ file); [`cdxj`] (the index of an archive that stays where it is), [`adopt`] (which copies
//! it afterwards); `cache`, the caches of other programs.

mod adopt;
mod asked;
pub mod cache;
pub mod cdxj;
mod dates;
mod in_place;
mod options;
mod pair;
mod produce;
mod report;
mod wacz;
mod warc;
mod watch;

pub use adopt::{AdoptStep, Adopted, adopt};
pub use options::ImportOptions;
pub use report::{ImportReport, MAX_LISTED_PROBLEMS};
pub use wacz::{import_wacz, import_wacz_into, is_zip};
pub use warc::{import, import_into};
pub use watch::{Fate, ImportProgress, ImportWatch, ImportedRecord};
