//! A writer's erasure rules: kept in the file RULES, whose generation the superblock names.

use crate::error::{Error, Result, StorageError};
use crate::event::Event;
use crate::format::rules::{Rule, RuleState, Rules};
use crate::handle::recover::next_life;
use crate::handle::rules;
use crate::sync::lock;
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoint::Task;

impl Upkeep {
    /// Returns all rules, in the order in which they were made.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        lock(&self.rules).list.clone()
    }

    /// Changes the rules durably. `change` returns false if there is nothing to write. Returns
    /// true if they were written.
    ///
    /// # Errors
    /// `Full` if the rules are too long, with nothing changed; `Poisoned`; `Io`; those of a
    /// checkpoint.
    pub(crate) fn change_rules(&self, change: impl FnOnce(&mut Rules) -> bool) -> Result<bool> {
        let mut held = lock(&self.rules);
        self.writing.poisoned().check()?;
        let mut rules = held.clone();
        if !change(&mut rules) {
            return Ok(false);
        }
        rules.generation += 1;
        let lifted = |rules: &Rules| rules.list.iter().filter(|r| r.state == RuleState::Lifted).count();
        // A lifted rule no longer says what it erased, so a reader of the changes that missed it
        // can never learn.
        let is_lifted = lifted(&rules) > lifted(&held);
        let life = if is_lifted { Some(next_life(self.reading.dir(), self.reading.latest().life)?) } else { None };
        // A failed sync must not be retried as if nothing had happened.
        rules::write(self.reading.dir(), &self.reading.birth().store_id, &rules).inspect_err(|e| match e {
            Error::Storage(StorageError::Full { .. }) => {}
            e => self.writing.poison(e),
        })?;
        // The file first: a rule generation that a superblock names must exist.
        let mut c = lock(&self.checkpointer);
        c.current.rules = rules.generation;
        c.current.life = life.unwrap_or(c.current.life);
        drop(c);
        *held = rules;
        self.checkpoint_with(Task { is_due: true, ..Task::default() })?;
        Ok(true)
    }

    /// Emits an event for unfinished erasures.
    pub(crate) fn tell_unfinished(&self) {
        let rules = lock(&self.rules);
        let unfinished = rules.list.iter().filter(|r| r.state == RuleState::Unfinished);
        let rules: Vec<u32> = unfinished.map(|r| r.id).collect();
        if !rules.is_empty() {
            self.reading.emit(&Event::ErasureUnfinished { rules });
        }
    }
}
