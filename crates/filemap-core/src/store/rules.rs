//! The erasure rules: listing and changing them, and enforcing them on puts.

use std::sync::Arc;

use filemap_io::Access;

use crate::error::{Error, Result};
use crate::format::rules::{Rule, RuleState, Rules};
use crate::handle::rules;
use crate::handle::writing::Admission;
use crate::record::{Record, now_ms};
use crate::store::Store;

impl Store {
    /// All erasure rules of the store, lifted ones included, in the order in which they were made.
    ///
    /// # Errors
    /// `Corrupt` if the file is missing or damaged; `Io`.
    pub fn rules(&self) -> Result<Vec<Rule>> {
        if let Some(upkeep) = &self.upkeep {
            return Ok(upkeep.rules());
        }
        let vouched = self.reading.latest().rules;
        Ok(rules::read(self.reading.dir(), &self.reading.birth().store_id, vouched, Access::Read)?.list)
    }

    /// Adds a rule whose erasure is [unfinished](RuleState::Unfinished). Durable on return.
    ///
    /// # Errors
    /// `Full`; those of [`Store::checkpoint`].
    pub fn add_rule(&self, what: &[u8], reason: &str) -> Result<Rule> {
        let mut made = None;
        self.change_rules(|rules| {
            let (id, now_ms) = (rules.next_id, now_ms());
            let (state, reason, what) = (RuleState::Unfinished, reason.to_owned(), what.to_vec());
            let rule = Rule { id, state, made_ms: now_ms, changed_ms: now_ms, reason, what };
            rules.next_id += 1;
            rules.list.push(rule.clone());
            made = Some(rule);
            true
        })?;
        made.ok_or(Error::Closed)
    }

    /// Changes the state of a rule, durably. Returns true if a rule has that id. A lifted rule
    /// keeps only a note that it existed: its content is deleted.
    ///
    /// # Errors
    /// Those of [`Store::checkpoint`].
    pub fn set_rule_state(&self, id: u32, state: RuleState) -> Result<bool> {
        self.change_rules(|rules| {
            let Some(rule) = rules.list.iter_mut().find(|r| r.id == id) else { return false };
            (rule.state, rule.changed_ms) = (state, now_ms());
            if state == RuleState::Lifted {
                rule.what.clear();
            }
            true
        })
    }

    /// Copies all rules of another store, with their ids and states, if this one never had any:
    /// for a copy of that store.
    ///
    /// # Errors
    /// Those of [`Store::rules`] and [`Store::checkpoint`].
    pub fn take_rules_of(&self, from: &Store) -> Result<()> {
        let theirs = from.rules()?;
        self.change_rules(|rules| {
            let is_new = rules.next_id == 1 && !theirs.is_empty();
            if is_new {
                rules.next_id = theirs.iter().map(|r| r.id + 1).max().unwrap_or(1);
                rules.list = theirs;
            }
            is_new
        })
        .map(|_| ())
    }

    fn change_rules(&self, change: impl FnOnce(&mut Rules) -> bool) -> Result<bool> {
        self.reading.check_open()?;
        self.upkeep()?.change_rules(change)
    }

    /// Sets the hook that decides about every later put through this handle and its clones; `None`
    /// for no hook.
    pub fn set_admission(&self, admission: Option<Arc<dyn Admission>>) {
        if let Some(upkeep) = &self.upkeep {
            upkeep.writing().set_admission(admission);
        }
    }

    /// # Errors
    /// `Refused`.
    pub(super) fn check_admission(&self, record: &Record<'_>) -> Result<()> {
        let Some(admission) = self.writing()?.admission() else { return Ok(()) };
        let by_name = admission.refuses(record.key, record.time_ms);
        let by_body = || admission.refuses_body(record).filter(|_| admission.wants_bodies());
        by_name.or_else(by_body).map_or(Ok(()), |rule| Err(Error::Refused { rule }))
    }
}
