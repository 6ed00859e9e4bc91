//! The rules of erasures, and what they keep from being put.

use std::sync::Arc;

use filemap_io::Access;

use crate::error::{Error, Result};
use crate::format::rules::{Rule, RuleState, Rules};
use crate::handle::Admission;
use crate::handle::rules;
use crate::record::{Record, now_ms};
use crate::store::Store;
use crate::sync::lock;
use crate::upkeep::checkpoint::Task;

impl Store {
    /// The rules of the store's erasures, in the order in which they were made, those that were lifted too.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the file is missing or damaged; [`Error::Io`].
    pub fn rules(&self) -> Result<Vec<Rule>> {
        if let Some(writer) = &self.shared.writer {
            return Ok(lock(&writer.rules).list.clone());
        }
        let vouched = self.shared.latest.load().rules;
        Ok(rules::read(&*self.shared.dir, &self.shared.birth.store_id, vouched, Access::Read)?.list)
    }

    /// Makes a rule, whose erasure is [unfinished](RuleState::Unfinished). It is durable when this returns.
    ///
    /// # Errors
    /// [`Error::Full`]; those of [`Store::checkpoint`].
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

    /// Changes the state of a rule, durably; whether there is one of that id. Of one that is lifted no more is kept than that it
    /// was there: what it is about is forgotten.
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

    /// Takes over all rules of another store, with their ids and states, if this one never had any: for a copy of that.
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

    /// Writes what `change` makes of the rules, unless it says that there is nothing to write.
    fn change_rules(&self, change: impl FnOnce(&mut Rules) -> bool) -> Result<bool> {
        self.shared.check_open()?;
        let writer = self.shared.write_side()?;
        let mut held = lock(&writer.rules);
        writer.poison.check()?;
        let mut rules = held.clone();
        if !change(&mut rules) {
            return Ok(false);
        }
        rules.generation += 1;
        // A sync that failed must not be tried again as if nothing had happened.
        rules::write(&*self.shared.dir, &self.shared.birth.store_id, &rules).inspect_err(|e| match e {
            Error::Full { .. } => {}
            e => self.shared.poison(e),
        })?;
        // The file first: what a superblock vouches for is there.
        lock(&writer.checkpointer).current.rules = rules.generation;
        *held = rules;
        self.shared.checkpoint_with(Task { is_due: true, ..Task::default() })?;
        Ok(true)
    }

    /// Who is asked about everything that is put through this handle and its clones, from now on; `None` for nobody.
    pub fn set_admission(&self, admission: Option<Arc<dyn Admission>>) {
        if let Some(writer) = &self.shared.writer {
            writer.admission.store(admission.map(Arc::new));
        }
    }

    /// # Errors
    /// `Refused`.
    pub(super) fn check_admission(&self, record: &Record<'_>) -> Result<()> {
        let Some(admission) = self.shared.admission() else { return Ok(()) };
        let by_name = admission.refuses(record.key, record.time_ms);
        let by_body = || admission.refuses_body(record).filter(|_| admission.wants_bodies());
        by_name.or_else(by_body).map_or(Ok(()), |rule| Err(Error::Refused { rule }))
    }
}
