//! Followers: a set opened read-only while another process may write it.
//!
//! No lock is taken and no file is changed. A writer replaces the manifest and then removes the
//! files that the old one named, so a reader may look for a file that is gone. Then it begins
//! again, from the manifest as it is by then: what is found twice under one manifest is damage.
//! The log's last sector may be met half written: [`super::log`] reads it again.

use std::sync::Arc;

use filemap_io::{Access, Dir, StorageError};

use super::key::Home;
use super::manifest::{Keys, Manifest};
use super::state::State;
use super::{DiskOptions, DiskUrlSet};
use crate::error::{Error, Result};
use crate::files::by_path;

/// How often a set is looked at that a writer changes meanwhile.
const LOOKS: u32 = 32;

impl DiskUrlSet {
    by_path! {
        /// Opens a set to be read, without its lock: another process may be inserting. This has
        /// what was synced by the time it was opened, and nothing that comes later; of a set with
        /// a greatest age it answers as the time is when it is asked. Whatever would change it is
        /// refused with [`Error::ReadOnly`].
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
