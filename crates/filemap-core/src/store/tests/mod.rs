//! Unit tests that need a whole store: the code they test lies below `store`, so they are here.

mod chains;
mod checkpointing;
// It needs real threads and locks.
#[cfg(not(any(filemap_loom, filemap_shuttle)))]
mod closing;
mod compacting;
mod compacting_index;
mod compacting_keys;
mod compression;
mod handover;
mod lost_dictionaries;
#[cfg(filemap_shuttle)]
mod models;
mod pruning;
mod recovering;
mod scale;
mod shortage;
mod splits;
mod trained;
mod vanished;
mod versions;
