//! The dictionaries that the last superblock names. Only these are used for compression, so a lost
//! file is noticed, whatever records name it.

use std::collections::BTreeSet;

use super::{CURE, Registry, damaged};
use crate::error::{Error, Result, StorageError};
use crate::failpoint::{Fault, planted};
use crate::format::names;
use crate::sync::lock;

/// Standing of dictionaries, by id. Changed only under the lock `changing`.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// Named by a durable superblock, and not marked as lost.
    pub(super) named: BTreeSet<u32>,
    /// No longer used for compression: see `retire`.
    pub(super) retired: BTreeSet<u32>,
    /// Never named by a superblock again: their files are about to be removed.
    pub(super) leaving: BTreeSet<u32>,
}

impl Standing {
    /// Returns true if new records may be compressed with a dictionary.
    pub(super) fn is_used(&self, id: u32) -> bool {
        (self.named.contains(&id) || planted(Fault::DictionaryUsedUnnamed)) && !self.retired.contains(&id)
    }
}

impl Registry {
    /// The dictionaries for the next superblock: those found whole or named, except those in
    /// `leaving`.
    pub(crate) fn to_name(&self) -> BTreeSet<u32> {
        let standing = self.standing.load();
        let found = self.ids().into_iter().filter(|id| self.flaw(*id).is_none());
        found.chain(standing.named.iter().copied()).filter(|id| !standing.leaving.contains(id)).collect()
    }

    /// The dictionaries that no superblock will name again.
    pub(crate) fn leaving(&self) -> BTreeSet<u32> {
        self.standing.load().leaving.clone()
    }

    /// Returns true if the last superblock names exactly the dictionaries of
    /// [`Registry::to_name`].
    pub(crate) fn are_named(&self) -> bool {
        self.to_name() == self.standing.load().named
    }

    /// Takes over a superblock of another process: the highest id assigned, and the named
    /// dictionaries.
    pub(crate) fn learn(&self, last_id: u32, ids: BTreeSet<u32>) {
        self.pass_over(last_id);
        self.named(ids);
    }

    /// Called once a durable superblock names `ids`: from now on they are used.
    pub(crate) fn named(&self, ids: BTreeSet<u32>) {
        if self.standing.load().named == ids {
            return;
        }
        let _held = lock(&self.changing);
        self.pass_over(ids.last().copied().unwrap_or(0));
        self.change(|standing| standing.named = ids);
    }

    /// Changes the standing of dictionaries, and with it the current ones. The caller holds
    /// `changing`.
    pub(super) fn change(&self, how: impl FnOnce(&mut Standing)) {
        let mut standing = Standing::clone(&self.standing.load());
        how(&mut standing);
        self.standing.store(standing.into());
        self.replace(Vec::clone(&self.list.load()));
    }

    /// Returns why records that name a dictionary cannot be read, judged by its file's name,
    /// length and metadata. `None` if they can, or if a shortage of the system keeps the file from
    /// being examined.
    pub(crate) fn flaw(&self, id: u32) -> Option<String> {
        let Some(found) = self.find(id) else { return Some("the dictionary is missing".to_owned()) };
        let what = match found.facts.as_ref().err()? {
            Error::Storage(StorageError::Corrupt { what, .. }) => what,
            Error::Storage(StorageError::Io { source, .. }) if filemap_io::system::is_shortage(source) => return None,
            Error::Storage(StorageError::Io { op, source, .. }) => {
                return Some(format!("it cannot be read: {op} failed: {source}"));
            }
            _ => return None,
        };
        let without_cure = what.strip_suffix(CURE).and_then(|what| what.strip_suffix("; "));
        Some(without_cure.unwrap_or(what).to_owned())
    }

    /// Returns true if the dictionary has a file now.
    pub(crate) fn is_listed(&self, id: u32) -> bool {
        self.read_facts(id).is_some()
    }

    /// Verifies header, metadata and length of a dictionary's file as it is now.
    ///
    /// # Errors
    /// `Corrupt` if it is missing, cut short or not a dictionary of this id; `NewerFormat`; `Io`.
    pub(crate) fn check_head(&self, id: u32) -> Result<()> {
        match self.read_facts(id) {
            None => Err(damaged(&names::dictionary(id), "the dictionary is missing")),
            Some(facts) => facts.map(drop),
        }
    }
}
