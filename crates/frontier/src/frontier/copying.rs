//! Consistent copies of a frontier: its files right after a commit, as a kill would leave them. So
//! a copy is opened as after a kill.

use std::path::Path;

use filemap_io::files::{copy, exists, sync_folder};
use filemap_io::system::create_dir;

use super::Frontier;
use crate::error::{Error, Result};
use crate::files::{self, SNAPSHOT};

impl Frontier {
    /// Commits, and copies the frontier to a folder, which is created if missing. The copy opens
    /// as this one would after a kill: pages in flight are queued again. Reads and writes all of
    /// the files, and blocks until it is done.
    ///
    /// # Errors
    /// `Exists` if the folder has a frontier; `Io`, with `AlreadyExists` if it has an interrupted
    /// copy; those of [`Frontier::commit`]. A failed copy does not affect this frontier.
    ///
    /// ```
    /// # fn main() -> frontier::Result<()> {
    /// # let temp = tempfile::tempdir().expect("a folder");
    /// use frontier::{Frontier, FrontierOptions};
    ///
    /// let mut frontier = Frontier::create(temp.path().join("a"), FrontierOptions::new())?;
    /// frontier.seed(&["http://example.com/"], 0)?;
    /// frontier.copy_to(temp.path().join("b"))?;
    /// let copy = Frontier::open(temp.path().join("b"), FrontierOptions::new())?;
    /// assert_eq!(copy.pages(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_to(&mut self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        self.commit()?;
        create_dir(folder).map_err(Error::io("create", &folder.display().to_string()))?;
        let to = files::folder(folder)?;
        if exists(&*to, SNAPSHOT)? {
            return Err(Error::Exists { file: SNAPSHOT.into() });
        }
        let names = self.dir.list().map_err(Error::io("list", "the directory"))?;
        // The snapshot comes last: without it the folder has no frontier.
        for name in names.iter().filter(|name| files::is_part(name)) {
            copy(&*self.dir, name, &*to, name)?;
        }
        copy(&*self.dir, SNAPSHOT, &*to, SNAPSHOT)?;
        Ok(sync_folder(&*to)?)
    }
}
