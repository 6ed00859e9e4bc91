//! Dictionaries that go: an erasure retires those that may hold text of what it erases, and removes their files once no record
//! names them.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::Registry;
use crate::error::{Error, Result};
use crate::format::names;
use crate::sync::lock;

impl Registry {
    /// From now on no new record is compressed with these. What names them can be read until their files go.
    pub(crate) fn retire(&self, ids: &BTreeSet<u32>) {
        let _held = lock(&self.changing);
        self.change(|standing| standing.retired.extend(ids));
    }

    /// From now on no superblock is to name these.
    pub(crate) fn let_go(&self, ids: &BTreeSet<u32>) {
        let _held = lock(&self.changing);
        self.change(|standing| standing.leaving.extend(ids));
    }

    /// Whether a dictionary was retired through this handle.
    pub(crate) fn is_retired(&self, id: u32) -> bool {
        id != 0 && self.standing.load().retired.contains(&id)
    }

    /// Removes the files of dictionaries that neither a record nor a superblock names any more; durable when this returns.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove(&self, ids: &BTreeSet<u32>) -> Result<()> {
        let _held = lock(&self.changing);
        for name in ids.iter().map(|id| names::dictionary(*id)) {
            match self.dir.remove(&name) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::io("remove", name, e)),
                _ => {}
            }
        }
        self.dir.sync().map_err(|e| Error::io("sync", self.dir.path().display().to_string(), e))?;
        let mut list = Vec::clone(&self.list.load());
        list.retain(|d| !ids.contains(&d.id));
        self.replace(list);
        Ok(())
    }
}
