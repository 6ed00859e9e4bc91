//! What FileMap's benchmarks share: pages to store and instruments to measure with.
//!
//! The binary `fm-bench` (src/bin/fm-bench) makes the big runs, `benches/` holds the micro benches, and
//! docs/BENCHMARKS.md the figures with the commands that gave them.

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
