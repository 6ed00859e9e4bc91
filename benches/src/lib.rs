//! Code shared by FileMap's benchmarks: pages to store, and instruments.
//!
//! The binary `fm-bench` (src/bin/fm-bench) makes the big runs, `benches/` has the micro benches;
//! docs/BENCHMARKS.md has commands and figures.

pub mod bare;
pub mod corpus;
pub mod device;
pub mod dictionaries;
pub mod drive;
pub mod fixture;
pub mod generalised_list;
pub mod generate;
pub mod process;
pub mod random;
pub mod report;
pub mod scale;
pub mod source;
pub mod urls;
pub mod web;
