//! Snapshots: a copy of a set by hard links to its runs.
//!
//! Runs never change, so a hard link is enough where the file system has them, and a copy where it
//! has not. The manifest comes last: a snapshot that was interrupted is no set, and may be made
//! again, over what it left of runs that the set still has. Other runs that are there are not
//! removed: they may be all that is left of a set.

use std::path::Path;
use std::sync::Arc;

use filemap_io::Dir;

use super::DiskUrlSet;
use super::key::Home;
use super::log::Log;
use super::manifest::Manifest;
use super::strangers::make_room;
use crate::error::{Error, Result};
use crate::files::{self, in_any_dir, open_folder};

impl DiskUrlSet {
    /// Makes a set of the same name in another folder that holds what this one holds now; both go
    /// their own ways then. The table is written to a run first, and tests wait meanwhile.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if there is a file
    /// of that name, or one with URLs of a set whose manifest is gone (remove it, if a snapshot
    /// that was interrupted left it); [`crate::StorageError::Locked`] there;
    /// [`crate::StorageError::Poisoned`]; [`Error::ReadOnly`].
    pub fn snapshot(&self, folder: impl AsRef<Path>) -> Result<()> {
        self.snapshot_in(&open_folder(folder.as_ref())?)
    }

    in_any_dir! {
        /// As [`DiskUrlSet::snapshot`], in any directory.
        ///
        /// # Errors
        /// As there.
        fn snapshot_in(&self, to: &Arc<dyn Dir>) -> Result<()> {
            self.check_writable()?;
            let mut state = self.state()?;
            let generation = state.manifest.log_generation;
            if state.table.len() > 0 {
                self.poison.guard(|| state.roll(&[], generation))?;
            }
            let name = state.home.name.clone();
            let _lock = files::lock(&**to, &name)?;
            if files::exists(&**to, &name)? {
                return Err(Error::io("create", &name)(std::io::ErrorKind::AlreadyExists.into()));
            }
            let home = Home { dir: Arc::clone(to), ..state.home.clone() };
            let runs: Vec<_> = state.levels.iter().map(|level| Arc::clone(&level.run)).collect();
            make_room(&home, &runs)?;
            for run in &runs {
                if to.link_from(&*state.home.dir, run.name()).is_err() {
                    run.copy_to(&home)?;
                }
            }
            let log_number = Log::create(&home, state.manifest.next_number)?.number();
            // Both give the numbers to come to files of their own.
            let branch = files::new_number(&**to)?;
            let manifest = Manifest { next_number: log_number + 1, log_number, branch, ..state.manifest.clone() };
            to.sync().map_err(Error::io("sync of the directory", &name))?;
            manifest.write(&**to, &name)
        }
    }
}
