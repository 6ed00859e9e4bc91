//! Erasing pages for good: what is meant goes from every file of the store, and a rule keeps it
//! from coming back.
//!
//! The rule is made first, durably, so that whatever interrupts the erasure, opening the store
//! tells of it and [`PageStore::resume_erasures`] ends it. docs/ERASING.md says what is reached
//! and what is not.

mod detach;
mod proof;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::erase::{Admission, Erased, Erasure, ErasureStep, Rule, RuleState};
use filemap_core::{Store, Version};

pub use crate::store::rules::{EraseOrder, EraseTarget, obey};
pub use proof::{Mention, Proof};

use crate::error::{Error, Result};
use crate::page::key;
use crate::store::PageStore;
use crate::store::rules::{Matcher, RuleSet, salt_of, words};
use proof::Needles;

/// A rule of a store, as people read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EraseRule {
    /// Its number.
    pub id: u32,
    /// Whether it holds.
    pub state: RuleState,
    /// When it was made, in ms since 1970.
    pub made_ms: i64,
    /// When its state last changed, in ms since 1970.
    pub changed_ms: i64,
    /// Why it was made.
    pub reason: String,
    /// What it is about, in words.
    pub about: String,
    /// What it is about, as JSON; empty once it was lifted.
    pub what: String,
}

/// What an erasure came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erasing {
    /// Ids of the rules.
    pub rules: Vec<u32>,
    /// What was done.
    pub erased: Erased,
    /// What a search of all files has found after it; `None` of a dry run.
    pub proof: Option<Proof>,
    /// Files that something outside the store shares, a backup mostly: as many as had other names
    /// before they were removed.
    pub shared_files: Vec<String>,
}

impl Erasing {
    /// Whether nothing is left in the store's own files, as far as the search can tell.
    pub fn is_complete(&self) -> bool {
        self.erased.is_complete() && self.proof.as_ref().is_none_or(Proof::is_clean)
    }
}

/// How far an erasure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EraseProgress {
    /// Bodies compared with a digest so far.
    Comparing(u64),
    /// Versions read so far, in search of revisits that stay and whose originals go.
    Detaching(u64),
    /// The engine is at work.
    Erasing(ErasureStep),
    /// Bytes of files searched so far.
    Searching(u64),
}

type Watch<'a> = &'a mut dyn FnMut(EraseProgress) -> ControlFlow<()>;

impl PageStore {
    /// Erases what an order means: makes a rule (or takes the one that was made for the same
    /// before), takes every matching capture out of the store, with every dictionary that may hold
    /// its text and every segment that may hold its bytes, and searches the files for what may be
    /// left. Reads and puts go on. See [`Store::erase`] for what it takes.
    ///
    /// Done again after any interruption, it ends what was begun. When [`Erasing::is_complete`]
    /// the rule is in force; if not, it holds all the same, and its erasure counts as unfinished.
    ///
    /// # Errors
    ///
    /// [`Error::Rule`] when the order makes no sense; [`Error::Url`]; those of [`Store::erase`].
    pub fn erase(&self, order: &EraseOrder, watch: Watch<'_>) -> Result<Erasing> {
        let rules = self.engine().rules()?;
        let what = self.what(order, &rules)?;
        match rules.iter().find(|rule| rule.holds() && rule.what == what) {
            Some(rule) => {
                self.engine().set_rule_state(rule.id, RuleState::Unfinished)?;
            }
            None => {
                self.engine().add_rule(&what, &order.reason)?;
            }
        }
        let text = if let EraseTarget::Url(url) = &order.target { Some(self.key(url)?) } else { None };
        self.end_erasures(text, watch)
    }

    /// What [`PageStore::erase`] would take away; `promoted` is the most that it can be. Changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn erase_plan(&self, order: &EraseOrder, watch: Watch<'_>) -> Result<Erasing> {
        let what = self.what(order, &self.engine().rules()?)?;
        let (state, reason) = (RuleState::Unfinished, order.reason.clone());
        let set = Arc::new(RuleSet::of(&[Rule { id: 0, state, made_ms: 0, changed_ms: 0, reason, what }])?);
        let (erasure, _, unread) = self.erasure(&set, watch)?;
        let detached = self.detach_revisits(&erasure, true, watch)?;
        let mut erased = self.engine().erase_plan(&erasure, &mut |step| watch(EraseProgress::Erasing(step)))?;
        erased.promoted += detached;
        unread.add_to(&mut erased);
        Ok(Erasing { rules: Vec::new(), erased, proof: None, shared_files: self.engine().shared_files()? })
    }

    /// Ends all erasures that were begun; `None` when there is none.
    ///
    /// # Errors
    ///
    /// As [`PageStore::erase`].
    pub fn resume_erasures(&self, watch: Watch<'_>) -> Result<Option<Erasing>> {
        if RuleSet::unfinished(&self.engine().rules()?)?.is_empty() {
            return Ok(None);
        }
        self.end_erasures(None, watch).map(Some)
    }

    /// All rules of the store, in the order in which they were made.
    ///
    /// # Errors
    ///
    /// Those of [`Store::rules`].
    pub fn erase_rules(&self) -> Result<Vec<EraseRule>> {
        let rules = self.engine().rules()?;
        Ok(rules.into_iter().map(EraseRule::of).collect())
    }

    /// Takes a rule back: what it is about may be put again. Whether there is such a rule that
    /// holds. What was erased stays so.
    ///
    /// # Errors
    ///
    /// Those of [`Store::set_rule_state`].
    pub fn lift_erasure(&self, id: u32) -> Result<bool> {
        let holds = self.engine().rules()?.iter().any(|rule| rule.id == id && rule.holds());
        if holds {
            self.engine().set_rule_state(id, RuleState::Lifted)?;
            self.obey()?;
        }
        Ok(holds)
    }

    /// Takes over the rules of another store that hold and that this one lacks, as unfinished:
    /// [`PageStore::resume_erasures`] erases here what they are about. How many. For a restored
    /// backup that is older than an erasure.
    ///
    /// # Errors
    ///
    /// [`Error::Rule`]; those of [`Store::add_rule`].
    pub fn adopt_rules(&self, from: &Store) -> Result<u64> {
        let (theirs, own) = (from.rules()?, self.engine().rules()?);
        RuleSet::of(&theirs)?;
        let lacks = |rule: &&Rule| rule.holds() && !own.iter().any(|o| o.holds() && o.what == rule.what);
        let mut adopted = 0;
        for rule in theirs.iter().filter(lacks) {
            self.engine().add_rule(&rule.what, &rule.reason)?;
            adopted += 1;
        }
        self.obey()?;
        Ok(adopted)
    }

    /// The rule of an order, in the salt that the store's rules have.
    fn what(&self, order: &EraseOrder, rules: &[Rule]) -> Result<Vec<u8>> {
        let canonical = if let EraseTarget::Url(url) = &order.target { Some(self.key(url)?) } else { None };
        let salt = match rules.iter().filter(|r| r.holds()).find_map(|rule| salt_of(&rule.what)) {
            Some(salt) => salt,
            None => self.engine().random_bytes(16)?,
        };
        order.what(canonical.as_deref(), &salt)
    }

    /// Does what unfinished rules ask for. `text` is the URL of one that keeps it as a digest.
    fn end_erasures(&self, text: Option<Vec<u8>>, watch: Watch<'_>) -> Result<Erasing> {
        // From here on nothing that is meant comes in.
        self.obey()?;
        let rules = self.engine().rules()?;
        let unfinished = rules.iter().filter(|r| r.state == RuleState::Unfinished);
        let ids: Vec<u32> = unfinished.map(|r| r.id).collect();
        let set = Arc::new(RuleSet::unfinished(&rules)?);
        let (erasure, needles, unread) = self.erasure(&set, watch)?;
        let needles = needles.with(text);
        let shared_files = self.engine().shared_files()?;
        let detached = self.detach_revisits(&erasure, false, watch)?;
        let mut erased = self.engine().erase(&erasure, &mut |step| watch(EraseProgress::Erasing(step)))?;
        erased.promoted += detached;
        unread.add_to(&mut erased);
        let proof = self.prove(&erasure, &set, &needles, &mut |bytes| watch(EraseProgress::Searching(bytes)))?;
        let erasing = Erasing { rules: ids, erased, proof: Some(proof), shared_files };
        if erasing.is_complete() {
            for id in &erasing.rules {
                self.engine().set_rule_state(*id, RuleState::InForce)?;
            }
        }
        Ok(erasing)
    }

    /// What the engine is to take away for some rules, what to search for afterwards, and what
    /// could not be compared.
    fn erasure(&self, set: &Arc<RuleSet>, watch: Watch<'_>) -> Result<(Erasure, Needles, Unread)> {
        let (by_digest, unread) = self.with_digests(set, watch)?;
        let by_digest = Arc::new(by_digest);
        let (rules, digests) = (Arc::clone(set), Arc::clone(&by_digest));
        let is_key = move |key: &[u8]| rules.matchers().any(|m| m.is_about(key::url(key))) || digests.contains_key(key);
        let rules = Arc::clone(set);
        let marked = self.variants_that_stay(set)?;
        let is_version = move |key: &[u8], version: Version| {
            if key::is_mark(key) {
                let url = key::url(key);
                return rules.matchers().any(|m| m.is_about(url)) && !marked.contains(url);
            }
            rules.refuses(key, version.time_ms).is_some()
                || by_digest.get(key).is_some_and(|sequences| sequences.contains(&version.sequence))
        };
        let rules = Arc::clone(set);
        let is_group = move |group: &[u8]| rules.matchers().any(|m| m.may_be_of(group));
        let erasure = Erasure { keys: Arc::new(is_key), versions: Arc::new(is_version), groups: Arc::new(is_group) };
        let needles = self.needles(&erasure)?;
        Ok((erasure, needles, unread))
    }

    /// The URLs of which a variant stays although rules are about them, of other times: so does
    /// its mark.
    fn variants_that_stay(&self, set: &Arc<RuleSet>) -> Result<HashSet<Vec<u8>>> {
        let mut stay = HashSet::new();
        if set.matchers().all(Matcher::is_of_all_times) {
            return Ok(stay);
        }
        let rules = Arc::clone(set);
        let is_about = move |key: &[u8]| rules.matchers().any(|m| m.is_about(key::url(key)));
        for key in self.engine().keys_where(move |key| key::is_variant(key) && is_about(key)) {
            // What cannot be read is counted by the engine; a mark too many costs a pass over the
            // keys.
            let Ok(key) = key else { continue };
            let goes = |version: &Version| set.refuses(&key, version.time_ms).is_some();
            if self.engine().versions_of(&key).map_or(true, |versions| !versions.iter().all(goes)) {
                stay.insert(key::url(&key).to_vec());
            }
        }
        Ok(stay)
    }

    /// The versions whose bodies have a digest that a rule names: the sequences, by key. And those
    /// that cannot be read: they may be meant.
    fn with_digests(&self, set: &RuleSet, watch: Watch<'_>) -> Result<(ByDigest, Unread)> {
        let (mut found, mut unread) = (ByDigest::new(), Unread::default());
        if !set.wants_bodies() {
            return Ok((found, unread));
        }
        for (nth, stored) in (0u64..).zip(self.stored_versions()) {
            if nth % 1024 == 0 && watch(EraseProgress::Comparing(nth)).is_break() {
                return Err(filemap_core::Error::Cancelled.into());
            }
            let stored = match stored {
                Err(e) if e.is_damage() => {
                    unread.count += 1;
                    unread.first.get_or_insert_with(|| e.to_string());
                    continue;
                }
                stored => stored?,
            };
            let digests = set.digests_of(&stored.page.body, stored.page.digest.as_deref());
            if set.by_digest(&digests, stored.version.time_ms).is_some() {
                found.entry(stored.key).or_default().insert(stored.version.sequence);
            }
        }
        Ok((found, unread))
    }
}

/// Sequences of versions, by key.
type ByDigest = HashMap<Vec<u8>, HashSet<u64>>;

/// Bodies that damage keeps from being compared with a rule's digest.
#[derive(Debug, Default)]
struct Unread {
    count: u64,
    first: Option<String>,
}

impl Unread {
    fn add_to(self, erased: &mut Erased) {
        erased.unreadable_keys += self.count;
        erased.first_damage = erased.first_damage.take().or(self.first);
    }
}

impl EraseRule {
    fn of(rule: Rule) -> EraseRule {
        EraseRule {
            id: rule.id,
            state: rule.state,
            made_ms: rule.made_ms,
            changed_ms: rule.changed_ms,
            about: words(&rule.what),
            what: String::from_utf8_lossy(&rule.what).into_owned(),
            reason: rule.reason,
        }
    }
}

impl Error {
    /// The id of the rule that refuses a page, if that is what the error says.
    pub fn refused_by(&self) -> Option<u32> {
        match self {
            Error::Engine(filemap_core::Error::Refused { rule }) => Some(*rule),
            _ => None,
        }
    }
}
