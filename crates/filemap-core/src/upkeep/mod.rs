//! What keeps a store in shape beside puts and gets: checkpoints, compaction, pruning, verification, repair, backups, and the
//! threads that run them.
//!
//! Only `store` (and the simulation, `sim`) calls this.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod inspect;
pub(crate) mod prune;
pub(crate) mod repair;
pub(crate) mod worker;
