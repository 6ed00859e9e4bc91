//! Removes one version of a key, with other operations between the steps.

use filemap_oracle::After;

use crate::contents;
use crate::drive::{Driver, now, tell, within};
use crate::trouble::Trouble;

impl Driver {
    /// Removes the nth version that there is, counted around.
    pub(crate) fn remove_one(&mut self, key: usize, nth: usize) -> Result<(), Trouble> {
        let key = self.keys[key].clone();
        let history = self.store()?.history(&key)?;
        let Some(version) = history.get(nth % history.len().max(1)).map(|head| head.version) else { return Ok(()) };
        if !tell(&self.oracle, |o| o.remove_one(&key, version)) {
            // A put that returned an error may have been done.
            if self.has_failed() {
                return Ok(());
            }
            return Err(Trouble::Wrong(format!("{version:?} is shown, and nobody put it")));
        }
        self.list_may_lack();
        let begun = now(&self.oracle).next();
        let mut removed = false;
        self.interrupted(false, |d| {
            d.durable(|store| {
                removed = store.remove_version(&key, version)?;
                Ok(())
            })
        })?;
        // Newer ones may have been put meanwhile that hide it.
        let may_be_gone = now(&self.oracle).keep.is_some() || now(&self.oracle).was_removed_since(&key, begun);
        if !removed && !may_be_gone {
            return Err(Trouble::Wrong(format!("{version:?} was there, and was not removed")));
        }
        let shown = contents::contents(self.store()?, &now(&self.oracle), After::Kill);
        let shown = shown.map_err(|e| within("after a removal of one version", e))?;
        let shown = shown.get(&key).map_or(&[][..], |list| list);
        if shown.iter().any(|one| one.version == version) {
            return Err(Trouble::Wrong(format!("{version:?} was removed, and is there")));
        }
        tell(&self.oracle, |o| o.removed_one(&key, version, shown));
        Ok(())
    }
}
