//! The tests of the crash harness and the cases of recovery, in one program.

mod cases;
mod changes;
mod crash;
mod erasing;
mod one;
mod overtaken;
mod repair;
mod waiting;

use std::time::Duration;

use filemap_core::sim::{self, Limits};
use filemap_core::{Durability, Options};

/// Options of small segments, with these limits of the engine.
fn with_limits(limits: Limits) -> Options {
    let options = Options::new()
        .segment_bytes(4096)
        .large_value_bytes(512)
        .durability(Durability::Buffered)
        .compression_level(0)
        .keep_removals(Duration::ZERO)
        .free_space_floor(0);
    sim::with_limits(options, limits)
}
