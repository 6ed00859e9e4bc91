//! Tests of the engine's parts that need a whole store: what they look at lies below it, so they stand here.

mod checkpointing;
// Its threads and locks are the system's.
#[cfg(not(any(filemap_loom, filemap_shuttle)))]
mod closing;
mod compacting;
mod compacting_index;
mod compacting_keys;
mod handover;
mod lost_dictionaries;
#[cfg(filemap_shuttle)]
mod models;
mod pruning;
mod recovering;
mod scale;
mod shortage;
mod trained;
mod vanished;
mod versions;
