//! Snapshots: a copy of a set by hard links to its runs.
//!
//! Runs never change, so they are hard-linked, or copied where the file system has no links. The
//! manifest comes last: an interrupted snapshot is not a set, and can be taken again over runs
//! that the set still has. Other runs found there stay: they may be all that is left of a set.

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
    /// Creates a set of the same name in another directory with the contents of this one; the two
    /// are independent then. Writes the table to a run first; tests wait.
    ///
    /// # Errors
    /// [`crate::StorageError::Io`], with [`std::io::ErrorKind::AlreadyExists`] if the file exists,
    /// or URLs of a set whose manifest is missing (remove them if an interrupted snapshot left
    /// them); [`crate::StorageError::Locked`] there; [`crate::StorageError::Poisoned`];
    /// [`Error::ReadOnly`].
    pub fn snapshot(&self, folder: impl AsRef<Path>) -> Result<()> {
        self.snapshot_in(&open_folder(folder.as_ref())?)
    }

    in_any_dir! {
        /// [`DiskUrlSet::snapshot`] in any directory.
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
            files::check_absent(&**to, &name)?;
            let home = Home { dir: Arc::clone(to), ..state.home.clone() };
            let runs: Vec<_> = state.levels.iter().map(|level| Arc::clone(&level.run)).collect();
            make_room(&home, &runs)?;
            for run in &runs {
                if to.link_from(&*state.home.dir, run.name()).is_err() {
                    run.copy_to(&home)?;
                }
            }
            let log_number = Log::create(&home, state.manifest.next_number)?.number();
            // From here on both give the same numbers to different files.
            let branch = files::new_number(&**to)?;
            let manifest = Manifest { next_number: log_number + 1, log_number, branch, ..state.manifest.clone() };
            to.sync().map_err(Error::io("sync of the directory", &name))?;
            manifest.write(&**to, &name)
        }
    }
}
