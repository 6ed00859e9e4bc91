//! Erases pages permanently: matching captures are removed from every file of the store, and a
//! rule refuses them in later puts.
//!
//! The rule is made first, durably: after an interruption [`PageStore::resume_erasures`] finishes
//! the erasure. docs/ERASING.md lists what an erasure reaches and what it does not.

mod detach;
mod proof;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use filemap_core::erase::{Admission, Erased, Erasure, ErasureStep, Rule, RuleState};
use filemap_core::{Store, Version};

pub use crate::store::rules::{EraseOrder, EraseTarget, obey};
pub use detach::detach_among;
pub use proof::{Mention, Proof};

use crate::error::{Error, Result};
use crate::page::key;
use crate::store::PageStore;
use crate::store::rules::{RuleSet, salt_of, words};
use proof::Needles;

/// An erase rule of a store, for display.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use filemap::{Options, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// for rule in store.erase_rules()? {
///     println!("{}: {}, because {}", rule.id, rule.about, rule.reason);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EraseRule {
    /// Its id.
    pub id: u32,
    /// Its state: unfinished, in force, or lifted.
    pub state: RuleState,
    /// Time when it was made, in ms since 1970.
    pub made_ms: i64,
    /// Time when its state last changed, in ms since 1970.
    pub changed_ms: i64,
    /// The reason given for it.
    pub reason: String,
    /// Its target as text.
    pub about: String,
    /// Its target as JSON; empty after it was lifted.
    pub what: String,
}

/// Result of an erasure.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::ops::ControlFlow;
/// # use filemap::erase::{EraseOrder, EraseTarget};
/// # use filemap::{Options, PageStore};
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let order = EraseOrder::new(EraseTarget::Host("example.com".to_owned()), "asked for");
/// let erasing = store.erase(&order, &mut |_| ControlFlow::Continue(()))?;
/// let proof = erasing.proof.as_ref().expect("no dry run");
/// assert!(erasing.is_complete() && proof.is_clean());
/// println!("{} versions erased, {} files searched", erasing.erased.versions, proof.files);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erasing {
    /// Ids of the rules.
    pub rules: Vec<u32>,
    /// Numbers of erased versions, keys, dictionaries and segments, and what is left of them.
    pub erased: Erased,
    /// Result of the search of all files afterwards; `None` for a dry run.
    pub proof: Option<Proof>,
    /// Removed files that had other hard links outside the store, mostly in a backup.
    pub shared_files: Vec<String>,
    /// Archive files in which records of erased versions stay, and the number of those versions.
    pub archives: Vec<(String, u64)>,
}

impl Erasing {
    /// Returns whether nothing is left in the store's own files, as far as the search shows.
    pub fn is_complete(&self) -> bool {
        self.erased.is_complete() && self.proof.as_ref().is_none_or(Proof::is_clean)
    }
}

/// Progress of [`PageStore::erase`].
///
/// ```
/// use filemap::erase::EraseProgress;
///
/// fn words(progress: EraseProgress) -> String {
///     match progress {
///         EraseProgress::Searching(bytes) => format!("{bytes} bytes searched"),
///         other => format!("{other:?}"),
///     }
/// }
/// assert_eq!(words(EraseProgress::Searching(7)), "7 bytes searched");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EraseProgress {
    /// Number of bodies compared with a digest so far.
    Comparing(u64),
    /// Number of versions read so far to find revisits that stay but lose their originals.
    Detaching(u64),
    /// Progress of the engine.
    Erasing(ErasureStep),
    /// Number of bytes of files searched so far.
    Searching(u64),
}

type Progress<'a> = &'a mut dyn FnMut(EraseProgress) -> ControlFlow<()>;

impl PageStore {
    /// Erases the target of an order: makes a rule (or uses an equal existing one), removes every
    /// matching capture, every dictionary that may hold its text and every segment that may hold
    /// its bytes, and searches the files for remains. Reads and puts continue. [`Store::erase`]
    /// has the costs.
    ///
    /// In a member of a store over several folders revisits in the others are not searched: call
    /// [`detach_among`] before.
    ///
    /// Repeated after an interruption, it finishes the erasure. If [`Erasing::is_complete`], the
    /// rule is in force; otherwise the rule still refuses puts, and its erasure counts as
    /// unfinished.
    ///
    /// # Errors
    ///
    /// Those of [`EraseOrder::check`]; [`Error::Rule`] if the order is invalid otherwise;
    /// [`Error::Url`]; those of [`Store::erase`].
    pub fn erase(&self, order: &EraseOrder, progress: Progress<'_>) -> Result<Erasing> {
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
        self.end_erasures(text, progress)
    }

    /// The captures that [`PageStore::erase`] would remove; `promoted` is an upper bound. Changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// As [`PageStore::erase`].
    pub fn erase_plan(&self, order: &EraseOrder, progress: Progress<'_>) -> Result<Erasing> {
        let what = self.what(order, &self.engine().rules()?)?;
        let (state, reason) = (RuleState::Unfinished, order.reason.clone());
        let set = Arc::new(RuleSet::of(&[Rule { id: 0, state, made_ms: 0, changed_ms: 0, reason, what }])?);
        let (erasure, _, unread) = self.erasure(&set, progress)?;
        let detached = self.detach_revisits(&erasure, true, progress)?;
        let mut erased = self.engine().erase_plan(&erasure, &mut |step| progress(EraseProgress::Erasing(step)))?;
        erased.promoted += detached;
        unread.add_to(&mut erased);
        let (shared_files, archives) = (self.engine().shared_files()?, self.kept_in_archives(&erasure)?);
        Ok(Erasing { rules: Vec::new(), erased, proof: None, shared_files, archives })
    }

    /// Finishes all unfinished erasures; `None` if there are none.
    ///
    /// # Errors
    ///
    /// As [`PageStore::erase`].
    pub fn resume_erasures(&self, progress: Progress<'_>) -> Result<Option<Erasing>> {
        if RuleSet::unfinished(&self.engine().rules()?)?.is_empty() {
            return Ok(None);
        }
        self.end_erasures(None, progress).map(Some)
    }

    /// All rules of the store, oldest first.
    ///
    /// # Errors
    ///
    /// Those of [`Store::rules`].
    pub fn erase_rules(&self) -> Result<Vec<EraseRule>> {
        let rules = self.engine().rules()?;
        Ok(rules.into_iter().map(EraseRule::of).collect())
    }

    /// Lifts a rule: matching captures may be put again; erased ones stay erased. Returns false if
    /// no rule with this id holds.
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

    /// Adds the rules that hold in another store and are missing in this one, as unfinished:
    /// [`PageStore::resume_erasures`] then erases matching captures. Returns the number of rules
    /// added. For a restored backup that is older than an erasure.
    ///
    /// # Errors
    ///
    /// [`Error::Rule`]; those of [`Store::add_rule`].
    pub fn adopt_rules(&self, from: &Store) -> Result<u64> {
        self.adopt(&from.rules()?)
    }

    /// As [`PageStore::adopt_rules`], given the rules of the other store.
    ///
    /// # Errors
    ///
    /// As [`PageStore::adopt_rules`].
    pub fn adopt(&self, theirs: &[Rule]) -> Result<u64> {
        let own = self.engine().rules()?;
        RuleSet::of(theirs)?;
        let lacks = |rule: &&Rule| rule.holds() && !own.iter().any(|o| o.holds() && o.what == rule.what);
        let mut adopted = 0;
        for rule in theirs.iter().filter(lacks) {
            self.engine().add_rule(&rule.what, &rule.reason)?;
            adopted += 1;
        }
        self.obey()?;
        Ok(adopted)
    }

    /// The rule of an order, with the salt of the store's other rules.
    fn what(&self, order: &EraseOrder, rules: &[Rule]) -> Result<Vec<u8>> {
        order.check()?;
        let canonical = if let EraseTarget::Url(url) = &order.target { Some(self.key(url)?) } else { None };
        let salt = match rules.iter().filter(|r| r.holds()).find_map(|rule| salt_of(&rule.what)) {
            Some(salt) => salt,
            None => self.engine().random_bytes(16)?,
        };
        order.what(canonical.as_deref(), &salt)
    }

    /// Carries out unfinished rules. `text` is the URL of a rule that keeps it as a digest.
    fn end_erasures(&self, text: Option<Vec<u8>>, progress: Progress<'_>) -> Result<Erasing> {
        // From here on no matching capture can be put.
        self.obey()?;
        let rules = self.engine().rules()?;
        let unfinished = rules.iter().filter(|r| r.state == RuleState::Unfinished);
        let ids: Vec<u32> = unfinished.map(|r| r.id).collect();
        let set = Arc::new(RuleSet::unfinished(&rules)?);
        let (erasure, needles, unread) = self.erasure(&set, progress)?;
        let needles = needles.with(text);
        let (shared_files, archives) = (self.engine().shared_files()?, self.kept_in_archives(&erasure)?);
        let detached = self.detach_revisits(&erasure, false, progress)?;
        let mut erased = self.engine().erase(&erasure, &mut |step| progress(EraseProgress::Erasing(step)))?;
        erased.promoted += detached;
        unread.add_to(&mut erased);
        let proof = self.prove(&erasure, &set, &needles, &mut |bytes| progress(EraseProgress::Searching(bytes)))?;
        let erasing = Erasing { rules: ids, erased, proof: Some(proof), shared_files, archives };
        if erasing.is_complete() {
            for id in &erasing.rules {
                self.engine().set_rule_state(*id, RuleState::InForce)?;
            }
        }
        Ok(erasing)
    }

    /// The erasure for the engine that some rules need, the texts to search for afterwards, and
    /// the bodies that could not be compared.
    fn erasure(&self, set: &Arc<RuleSet>, progress: Progress<'_>) -> Result<(Erasure, Needles, Unread)> {
        let (by_digest, unread) = self.with_digests(set, progress)?;
        let erasure = erasure_of(set, by_digest);
        let needles = self.needles(&erasure)?;
        Ok((erasure, needles, unread))
    }

    /// Sequences, by key, of the versions whose bodies have a digest that a rule names; and the
    /// unreadable versions, which might have it.
    fn with_digests(&self, set: &RuleSet, progress: Progress<'_>) -> Result<(ByDigest, Unread)> {
        let (mut found, mut unread) = (ByDigest::new(), Unread::default());
        if !set.wants_bodies() {
            return Ok((found, unread));
        }
        for (nth, stored) in (0u64..).zip(self.stored_versions()) {
            if nth % 1024 == 0 && progress(EraseProgress::Comparing(nth)).is_break() {
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
            let told = stored.page.digest.as_deref();
            if set.judge_body(&stored.page.body, told, stored.version.time_ms).is_some() {
                found.entry(stored.key).or_default().insert(stored.version.sequence);
            }
        }
        Ok((found, unread))
    }
}

/// The erasure for the engine of some rules; `by_digest` are the versions that go by their bodies.
fn erasure_of(set: &Arc<RuleSet>, by_digest: ByDigest) -> Erasure {
    let by_digest = Arc::new(by_digest);
    let (rules, digests) = (Arc::clone(set), Arc::clone(&by_digest));
    let is_about = move |key: &[u8]| !key::is_own(key) && rules.matchers().any(|m| m.is_about(key::url(key)));
    let is_key = move |key: &[u8]| is_about(key) || digests.contains_key(key);
    let rules = Arc::clone(set);
    let is_version = move |key: &[u8], version: Version| {
        rules.refuses(key, version.time_ms).is_some()
            || by_digest.get(key).is_some_and(|sequences| sequences.contains(&version.sequence))
    };
    let rules = Arc::clone(set);
    let is_group = move |group: &[u8]| rules.matchers().any(|m| m.may_be_of(group));
    Erasure { keys: Arc::new(is_key), versions: Arc::new(is_version), groups: Arc::new(is_group) }
}

/// Sequences of versions, by key.
type ByDigest = HashMap<Vec<u8>, HashSet<u64>>;

/// Bodies that could not be compared with a rule's digest because of damage.
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
    /// The id of the rule that refuses the page, for such an error.
    pub fn refused_by(&self) -> Option<u32> {
        match self {
            Error::Engine(filemap_core::Error::Refused { rule }) => Some(*rule),
            Error::Unreadable { source, .. } | Error::Member { source, .. } => source.refused_by(),
            _ => None,
        }
    }
}
