//! Synchronisation: ranked locks, group commit, bells, turns, poison, the write gate, atomics.
//!
//! May be called from every folder. It knows no file of a store, and nothing above `error` and
//! `failpoint`.

mod bell;
pub(crate) mod gate;
mod group;
mod locks;
#[cfg(all(test, filemap_loom))]
mod models;
pub(crate) mod order;
mod poison;
pub(crate) mod primitive;
mod turn;

pub(crate) use bell::Bell;
pub(crate) use group::{GroupSync, Inside};
pub(crate) use locks::{Held, Ranked, lock, rank};
pub(crate) use poison::Poison;
pub(crate) use turn::{Turn, Turns};

/// Yields the processor. Merging keys and copying values call it about every tenth of a
/// millisecond: otherwise, with more threads than processors, a put may wait for a whole time
/// slice of some milliseconds.
pub(crate) fn make_way() {
    // A model checker schedules the threads itself.
    if !cfg!(filemap_shuttle) {
        std::thread::yield_now();
    }
}
