//! Retirement of dictionaries. An erasure retires those that may hold erased text, and removes
//! their files once no record names them.

use std::collections::BTreeSet;

use filemap_io::files;

use super::Registry;
use crate::error::Result;
use crate::format::names;
use crate::sync::lock;

impl Registry {
    /// Stops compression with these dictionaries. Records that name them stay readable until the
    /// files are removed.
    pub(crate) fn retire(&self, ids: &BTreeSet<u32>) {
        let _held = lock(&self.changing);
        self.change(|standing| standing.retired.extend(ids));
    }

    /// Keeps superblocks from naming these dictionaries again.
    pub(crate) fn let_go(&self, ids: &BTreeSet<u32>) {
        let _held = lock(&self.changing);
        self.change(|standing| standing.leaving.extend(ids));
    }

    /// Returns true if a dictionary was retired through this handle.
    pub(crate) fn is_retired(&self, id: u32) -> bool {
        id != 0 && self.standing.load().retired.contains(&id)
    }

    /// Removes the files of dictionaries that no record and no superblock names, durably.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove(&self, ids: &BTreeSet<u32>) -> Result<()> {
        let _held = lock(&self.changing);
        for name in ids.iter().map(|id| names::dictionary(*id)) {
            files::remove(&*self.dir, &name)?;
        }
        files::sync_folder(&*self.dir)?;
        let mut list = Vec::clone(&self.list.load());
        list.retain(|d| !ids.contains(&d.id));
        self.replace(list);
        Ok(())
    }
}
