//! Maintenance concurrent with puts and gets: checkpoints, compaction, pruning, dictionaries,
//! verification, repair, backups, and the threads that run them. Work reserved to the writer
//! belongs to [`Upkeep`]; the rest needs a [`Reading`].
//!
//! Only `store` (and the simulation, `sim`) calls this.

pub(crate) mod backup;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod compact;
mod gathered;
pub(crate) mod inspect;
pub(crate) mod join;
pub(crate) mod prune;
pub(crate) mod remove;
pub(crate) mod repair;
mod rules;
pub(crate) mod state;
mod train;
pub(crate) mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::format::rules::Rules;
use crate::handle::reading::Reading;
use crate::handle::writing::Writing;
use crate::sync::primitive::AtomicU64;
use crate::sync::{Ranked, Turns, rank};
use state::{Checkpointer, Compactor};

/// The writer's maintenance.
pub(crate) struct Upkeep {
    reading: Arc<Reading>,
    writing: Arc<Writing>,
    checkpointer: Ranked<{ rank::CHECKPOINT }, Checkpointer>,
    /// One compaction runs at a time, of values, of keys or of the index.
    compacting: Turns,
    compactor: Ranked<{ rank::COMPACTOR }, Compactor>,
    /// Ordinals of key-log segments that compaction could not empty.
    kept_keys: Ranked<{ rank::KEPT_KEYS }, BTreeSet<u64>>,
    /// The rules in the file RULES.
    rules: Ranked<{ rank::RULES }, Rules>,
    /// Held while runs of keys in order are joined.
    joining: Ranked<{ rank::JOIN }, ()>,
    /// Held while single versions of a key are removed.
    removing: Ranked<{ rank::REMOVE }, ()>,
    /// The hash of that key, or `NO_KEY`: versions put again must hide no others.
    parting: AtomicU64,
}

impl Upkeep {
    pub(crate) fn new(writing: Writing, reading: Arc<Reading>, checkpointer: Checkpointer, rules: Rules) -> Upkeep {
        Upkeep {
            reading,
            writing: Arc::new(writing),
            checkpointer: Ranked::new(checkpointer),
            compacting: Turns::default(),
            compactor: Ranked::default(),
            kept_keys: Ranked::default(),
            rules: Ranked::new(rules),
            joining: Ranked::default(),
            removing: Ranked::default(),
            parting: AtomicU64::new(remove::NO_KEY),
        }
    }

    pub(crate) fn reading(&self) -> &Arc<Reading> {
        &self.reading
    }

    pub(crate) fn writing(&self) -> &Arc<Writing> {
        &self.writing
    }

    /// Tells the background threads to end.
    pub(crate) fn stop(&self) {
        self.compacting.wake();
        let bells = self.writing.bells();
        bells.compact.stop();
        bells.join.stop();
        bells.sort.stop();
        self.writing.training().bell.stop();
        bells.checkpoint.stop();
        bells.sync.stop();
    }

    #[cfg(feature = "sim")]
    pub(crate) fn is_compacting(&self) -> bool {
        !self.compacting.is_free()
    }

    #[cfg(feature = "sim")]
    pub(crate) fn is_in_checkpoint(&self) -> bool {
        self.checkpointer.try_lock().is_none()
    }

    #[cfg(test)]
    pub(crate) fn checkpointer(&self) -> &Ranked<{ rank::CHECKPOINT }, Checkpointer> {
        &self.checkpointer
    }

    /// Number of key-log segments that could not be emptied.
    #[cfg(test)]
    pub(crate) fn kept_keys(&self) -> usize {
        crate::sync::lock(&self.kept_keys).len()
    }
}
