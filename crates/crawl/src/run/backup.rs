//! Backups: a store, and what its crawl keeps beside it, of one moment.
//!
//! First all that says what was fetched, right after a commit; then the store, which has all of
//! that, and what was put meanwhile. So the copy is as a crawl is after a kill. The set of URLs is
//! left out: the next run makes it again from the frontier.
//!
//! What is beside the store has `.partial` behind its name until both are whole.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use filemap::PageStore;
use filemap_core::backup::BackupOptions;
use filemap_io::{OsDir, create_dir, files as io, rename_dir};
use frontier::Frontier;

use super::opening;
use crate::error::Error;
use crate::files::{self, bodies::Bodies};
use crate::settings::{Folder, Settings};

/// Small files of a crawl's folder that are copied as they are.
const COPIED: [&str; 4] = [files::SETTINGS, files::SEEDS, files::SEQUENCE, files::SITEMAPS];

/// A backup that lacks its store.
pub(super) struct Begun {
    store: PathBuf,
    partial: PathBuf,
    whole: PathBuf,
}

/// Copies what is beside a store, to which nothing of it is told meanwhile.
///
/// # Errors
/// `Usage` if something is at the place, or the crawl shares its hosts with others; the system's.
pub(super) fn begin(
    to: &Path,
    (folder, settings): (&Folder, &Settings),
    frontier: &mut Frontier,
    bodies: &Bodies,
) -> Result<Begun, Error> {
    if settings.fleet.is_some() {
        let words = "a crawl of a fleet cannot go on from a copy: links that others have sent since would be lost";
        return Err(Error::Usage(words.to_owned()));
    }
    let whole = Folder::of(to).path().to_owned();
    let partial = PathBuf::from(format!("{}.partial", whole.display()));
    for (place, what) in [(to, "there is something"), (&whole, "there is something")] {
        if place.symlink_metadata().is_ok() {
            return Err(Error::Usage(format!("{}: {what}; name another place", place.display())));
        }
    }
    if partial.symlink_metadata().is_ok() {
        let words = "an interrupted backup has left it, or another is being made; remove it, or name another place";
        return Err(Error::Usage(format!("{}: {words}", partial.display())));
    }
    let failed = |error| Error::io("write", &partial, error);
    create_dir(&partial).map_err(failed)?;
    let into = OsDir::open(&partial).map_err(failed)?;
    let from = opening::dir(folder)?;
    frontier.copy_to(partial.join(files::FRONTIER))?;
    for name in COPIED {
        if io::exists(&from, name).map_err(|error| Error::files(folder.path(), error))? {
            io::copy(&from, name, &into, name).map_err(|error| Error::files(&partial, error))?;
        }
    }
    bodies.copy_to(&partial)?;
    io::sync_folder(&into).map_err(|error| Error::files(&partial, error))?;
    Ok(Begun { store: to.to_owned(), partial, whole })
}

impl Begun {
    /// Copies the store, which may be written to meanwhile.
    ///
    /// # Errors
    /// The store's and the system's. What was copied stays, as `.partial`.
    pub(super) fn finish(self, pages: &PageStore) -> Result<(), Error> {
        pages.engine().backup(&self.store, &BackupOptions::new(), &mut |_| ControlFlow::Continue(()))?;
        rename_dir(&self.partial, &self.whole).map_err(|error| Error::io("rename", &self.partial, error))
    }
}

/// Makes a backup of a crawl that does not run, and of its store.
///
/// # Errors
/// `Usage` if something is at the place, or the crawl shares its hosts with others; those of the
/// store and the crawl's files.
pub fn back_up(store: &Path, to: &Path) -> Result<(), Error> {
    let (folder, settings) = opening::settings(store)?;
    // Its lock is the crawl's.
    let (pages, is_as_far) = opening::store_to_read(store, &folder)?;
    is_as_far?;
    let mut frontier = opening::frontier_to_ask(&folder, &settings)?;
    let bodies = Bodies::open(folder.path())?;
    let begun = begin(to, (&folder, &settings), &mut frontier, &bodies)?;
    bodies.close()?;
    begun.finish(&pages)?;
    frontier.close()?;
    Ok(pages.close()?)
}
