//! Which dictionaries the last superblock names. Only with these is anything compressed: so one whose file goes is missed, whatever
//! records name it.

use std::collections::BTreeSet;

use super::{CURE, Registry, damaged};
use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted};
use crate::format::names;
use crate::sync::lock;

/// What becomes of dictionaries, by id. Changed while the list is not.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// A durable superblock names these, and not as lost.
    pub(super) named: BTreeSet<u32>,
    /// Nothing is compressed with these any more: see `retire`.
    pub(super) retired: BTreeSet<u32>,
    /// No superblock is to name these again: their files are about to go.
    pub(super) leaving: BTreeSet<u32>,
}

impl Standing {
    /// Whether new records may be compressed with a dictionary.
    pub(super) fn is_used(&self, id: u32) -> bool {
        (self.named.contains(&id) || planted(Fault::DictionaryUsedUnnamed)) && !self.retired.contains(&id)
    }
}

impl Registry {
    /// The dictionaries that the next superblock is to name: those that were found whole or are named, but for those that leave.
    pub(crate) fn to_name(&self) -> BTreeSet<u32> {
        let standing = self.standing.load();
        let found = self.ids().into_iter().filter(|id| self.flaw(*id).is_none());
        found.chain(standing.named.iter().copied()).filter(|id| !standing.leaving.contains(id)).collect()
    }

    /// Those that it is not to name, whatever is known of them.
    pub(crate) fn leaving(&self) -> BTreeSet<u32> {
        self.standing.load().leaving.clone()
    }

    /// Whether the last superblock names just those that it should.
    pub(crate) fn are_named(&self) -> bool {
        self.to_name() == self.standing.load().named
    }

    /// What a superblock says that another process has written: the highest id given, and the dictionaries that are used.
    pub(crate) fn learn(&self, last_id: u32, ids: BTreeSet<u32>) {
        self.pass_over(last_id);
        self.named(ids);
    }

    /// A durable superblock names these: from now on they are used.
    pub(crate) fn named(&self, ids: BTreeSet<u32>) {
        if self.standing.load().named == ids {
            return;
        }
        let _held = lock(&self.changing);
        self.pass_over(ids.last().copied().unwrap_or(0));
        self.change(|standing| standing.named = ids);
    }

    /// Changes what becomes of dictionaries, and with that which are used.
    pub(super) fn change(&self, how: impl FnOnce(&mut Standing)) {
        let mut standing = Standing::clone(&self.standing.load());
        how(&mut standing);
        self.standing.store(standing.into());
        self.replace(Vec::clone(&self.list.load()));
    }

    /// Why the records that name a dictionary cannot be read, as far as its file's name, length and facts tell; `None` when they can, or
    /// when the system is too short of something to look at the file.
    pub(crate) fn flaw(&self, id: u32) -> Option<String> {
        let Some(found) = self.find(id) else { return Some("the dictionary is missing".to_owned()) };
        let what = match found.facts.as_ref().err()? {
            Error::Corrupt { what, .. } => what,
            Error::Io { source, .. } if filemap_io::is_shortage(source) => return None,
            Error::Io { op, source, .. } => return Some(format!("it cannot be read: {op} failed: {source}")),
            _ => return None,
        };
        let without_cure = what.strip_suffix(CURE).and_then(|what| what.strip_suffix("; "));
        Some(without_cure.unwrap_or(what).to_owned())
    }

    /// Whether a file has a dictionary's name now.
    pub(crate) fn is_listed(&self, id: u32) -> bool {
        self.read_facts(id).is_some()
    }

    /// Looks at header, facts and length of a dictionary's file as it is now.
    ///
    /// # Errors
    /// `Corrupt` when it is missing, cut short or no dictionary of this id; `NewerFormat`; `Io`.
    pub(crate) fn check_head(&self, id: u32) -> Result<()> {
        match self.read_facts(id) {
            None => Err(damaged(&names::dictionary(id), "the dictionary is missing")),
            Some(facts) => facts.map(drop),
        }
    }
}
