//! Backups: a consistent copy of a store and its crawl's state.
//!
//! The crawl's state is copied first, right after a commit; then the store, which has all those
//! pages and later puts. So the copy looks like a crawl after a kill. The seen set is left out:
//! the next run rebuilds it from the frontier.
//!
//! The state's copy has the suffix `.partial` until both are complete, and is removed on failure;
//! after a kill it stays.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use filemap::PageStore;
use filemap_core::backup::{BackupOptions, BackupProgress};
use filemap_io::system::{create_dir, remove_dir, rename_dir};
use filemap_io::{Access, Dir as _, OsDir, files as io};
use frontier::Frontier;

use super::opening;
use crate::error::Error;
use crate::files::{self, bodies::Bodies};
use crate::settings::{Folder, Settings};

/// Small files of a crawl's folder that are copied.
const COPIED: [&str; 4] = [files::SETTINGS, files::SEEDS, files::SEQUENCE, files::SITEMAPS];

/// A backup whose store is not copied yet. Dropping it removes the copy, unless it is finished.
pub(super) struct Begun {
    store: PathBuf,
    partial: PathBuf,
    whole: PathBuf,
    is_whole: bool,
}

/// Copies the state beside a store. The state must not change meanwhile.
///
/// `Usage` if the target exists, lies within the store or the crawl's folder, or the crawl is part
/// of a fleet; I/O errors, also if the target has too little room.
pub(super) fn begin(
    to: &Path,
    (store, folder, settings): (&Path, &Folder, &Settings),
    frontier: &mut Frontier,
    bodies: &Bodies,
) -> Result<Begun, Error> {
    if settings.fleet.is_some() {
        let words = "a crawl of a fleet cannot continue from a copy: links that others have sent since would be lost";
        return Err(Error::Usage(words.to_owned()));
    }
    opening::not_in_bucket(settings, "a backup", "each commit is one already, and `fm-tool copy` copies the pages")?;
    let whole = Folder::of(to).path().to_owned();
    let partial = files::partial(&whole);
    check_place(to, &whole, &partial, [store, folder.path()])?;
    let failed = |error| Error::io("write", &partial, error);
    create_dir(&partial).map_err(failed)?;
    let begun = Begun { store: to.to_owned(), partial: partial.clone(), whole, is_whole: false };
    let into = OsDir::open(&partial).map_err(failed)?;
    let bytes = bytes_in(&folder.join(files::FRONTIER))?.saturating_add(opening::FREE_BYTES);
    io::check_space(&into, files::FRONTIER, bytes).map_err(|error| Error::files(&partial, error))?;
    frontier.copy_to(partial.join(files::FRONTIER))?;
    let from = opening::dir(folder)?;
    for name in COPIED {
        if io::exists(&from, name).map_err(|error| Error::files(folder.path(), error))? {
            io::copy(&from, name, &into, name).map_err(|error| Error::files(&partial, error))?;
        }
    }
    bodies.copy_to(&partial)?;
    io::sync_folder(&into).map_err(|error| Error::files(&partial, error))?;
    Ok(begun)
}

fn check_place(to: &Path, whole: &Path, partial: &Path, ours: [&Path; 2]) -> Result<(), Error> {
    let refused = |place: &Path, words: &str| Err(Error::Usage(format!("{}: {words}", place.display())));
    for place in [to, whole] {
        if place.symlink_metadata().is_ok() {
            return refused(place, "it exists already; name another place");
        }
    }
    for left in [partial, &files::partial(to)] {
        if left.symlink_metadata().is_ok() {
            return refused(
                left,
                "a killed backup has left it, or another is being made; remove it, or name another place",
            );
        }
    }
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().map_err(|error| Error::io("find", parent, error))?;
    for ours in ours {
        let ours = ours.canonicalize().map_err(|error| Error::io("find", ours, error))?;
        if parent.starts_with(&ours) {
            return refused(to, "it is within what is to be copied; name another place");
        }
    }
    Ok(())
}

/// The total length of the files in a folder.
fn bytes_in(folder: &Path) -> Result<u64, Error> {
    let failed = |error| Error::io("read", folder, error);
    let dir = OsDir::open(folder).map_err(failed)?;
    let names = dir.list().map_err(failed)?;
    names.iter().try_fold(0, |sum: u64, name| Ok(sum + dir.open(name, Access::Read)?.len()?)).map_err(failed)
}

impl Begun {
    /// Copies the store, which may be written meanwhile, until done or cancelled by `ends`.
    ///
    /// # Errors
    /// Errors of the store, I/O errors; an error if it was cancelled.
    pub(super) fn finish(mut self, pages: &PageStore, ends: &AtomicBool) -> Result<(), Error> {
        let mut goes_on = |_: BackupProgress| match ends.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        pages.engine().backup(&self.store, &BackupOptions::new(), &mut goes_on)?;
        self.is_whole = true;
        rename_dir(&self.partial, &self.whole).map_err(|error| Error::io("rename", &self.partial, error))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_whole {
            // If removal fails, the next backup finds the remains and reports them.
            let _ = clear(&self.partial);
        }
    }
}

/// Removes the files that a backup has made beside its store.
fn clear(partial: &Path) -> std::io::Result<()> {
    for folder in [files::FRONTIER, files::HOLDERS, files::HOLDERS_PARTIAL, ""] {
        let folder = partial.join(folder);
        let Ok(dir) = OsDir::open(&folder) else { continue };
        for name in dir.list()? {
            drop(dir.remove(&name));
        }
        remove_dir(&folder)?;
    }
    Ok(())
}

/// The running backups of a crawl.
#[derive(Default)]
pub struct Backups {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Backups {
    /// Copies the store on a separate thread, and passes on the result.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        &mut self,
        begun: Begun,
        pages: PageStore,
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> std::io::Result<()> {
        let ends = Arc::clone(&self.ends);
        let thread = std::thread::Builder::new().name("backup".to_owned());
        let thread = thread.spawn(move || {
            let finished = begun.finish(&pages, &ends);
            drop(pages);
            done(finished);
        })?;
        self.threads.retain(|thread| !thread.is_finished());
        self.threads.push(thread);
        Ok(())
    }

    /// Waits for running backups, or cancels them.
    pub(super) fn end(mut self, is_hurried: bool) {
        self.ends.store(is_hurried, Ordering::Relaxed);
        self.join();
    }

    fn join(&mut self) {
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// A failed run leaves no thread behind that would hold the store.
impl Drop for Backups {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.join();
    }
}

/// Backs up a crawl that is not running, with its store.
///
/// # Errors
/// `Usage` if the target exists, or the crawl is part of a fleet; errors of the store and the
/// crawl's files.
pub fn back_up(store: &Path, to: &Path) -> Result<(), Error> {
    let (folder, settings) = opening::settings(store)?;
    let (pages, is_as_far) = opening::store_to_read(store, &folder)?;
    is_as_far?;
    // The frontier's lock prevents a run until the frontier is copied.
    let mut frontier = opening::frontier_to_ask(&folder, &settings)?;
    let bodies = Bodies::open(folder.path())?;
    let begun = begin(to, (store, &folder, &settings), &mut frontier, &bodies)?;
    bodies.close()?;
    frontier.close()?;
    begun.finish(&pages, &AtomicBool::new(false))?;
    Ok(pages.close()?)
}
