//! What threads share: locks with their ranks, group commit, bells, turns, poison, and the write gate.

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

/// Lets those run that wait for a processor. Merging keys and copying values ask so about every tenth of a millisecond: else, with more threads than
/// processors, the system leaves it there for its whole slice of some milliseconds, and a put waits as long.
pub(crate) fn make_way() {
    // A model checker chooses who runs.
    if !cfg!(filemap_shuttle) {
        std::thread::yield_now();
    }
}
