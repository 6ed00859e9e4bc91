//! Followers: a set opened read-only while another process may write it.
//!
//! A follower takes no lock and changes no file. A writer replaces the manifest and then removes
//! the files of the old one, so a follower may miss a file. Then it starts again from the new
//! manifest; a fault found twice under one manifest is damage. A half-written last sector of the
//! log is read again by [`super::log`].

use std::sync::Arc;

use filemap_io::{Access, Dir, StorageError};

use super::key::Home;
use super::manifest::{Keys, Manifest};
use super::state::State;
use super::{DiskOptions, DiskUrlSet};
use crate::error::{Error, Result};
use crate::files::by_path;

/// Attempts of an opening while a writer changes the set.
const LOOKS: u32 = 32;

impl DiskUrlSet {
    by_path! {
        /// Opens a set read-only, without its lock, as a follower: it has what was synced before
        /// the opening and nothing later; with a maximum age, URLs expire by the time of a test.
        /// All changes are refused with [`Error::ReadOnly`].
        ///
        /// # Errors
        /// As [`DiskUrlSet::open`], but never [`StorageError::Locked`].
        fn open_read_only, open_read_only_in(dir, name, options: DiskOptions) -> Result<DiskUrlSet> {
            let mut before = None;
            for _ in 1..LOOKS {
                let manifest = Manifest::read(&*dir, name)?;
                match DiskUrlSet::load(&dir, name, &manifest, &options) {
                    Err(Error::Storage(StorageError::Corrupt { .. })) if before.as_ref() != Some(&manifest) => {
                        before = Some(manifest)
                    }
                    opened => return opened,
                }
            }
            DiskUrlSet::load(&dir, name, &Manifest::read(&*dir, name)?, &options)
        }
    }

    fn load(dir: &Arc<dyn Dir>, name: &str, manifest: &Manifest, options: &DiskOptions) -> Result<DiskUrlSet> {
        manifest.check_keys(Keys::Urls, name)?;
        let home = Home::new(Arc::clone(dir), name, manifest.id, manifest.bits.format());
        let mut state = State::load(home, manifest.clone(), options, Access::Read)?;
        state.leave_out_old()?;
        Ok(DiskUrlSet::with(state, None))
    }
}
