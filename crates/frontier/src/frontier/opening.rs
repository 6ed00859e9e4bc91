//! Creation and opening of a frontier: the order of writes and reads, and the removal of what a
//! crash left.

use std::path::Path;
use std::sync::Arc;

use filemap_io::Dir;
use filemap_io::files::{exists, lock, new_id, sync_folder};
use filemap_io::layout::get;
use filemap_io::system::create_dir;

use super::Frontier;
use crate::credit::Totals;
use crate::error::{Error, Result};
use crate::files::{self, LOCK};
use crate::hosts::Hosts;
use crate::index::{Index, Named};
use crate::journal::Journal;
use crate::links::Links;
use crate::options::FrontierOptions;
use crate::snapshot;
use crate::state::State;
use crate::table::Table;
use crate::texts::Texts;

impl Frontier {
    /// Creates a frontier in a directory, which is created if missing.
    ///
    /// # Errors
    /// `Exists`, `InvalidOption`, `Locked`, `Io`.
    pub fn create(path: impl AsRef<Path>, options: FrontierOptions) -> Result<Frontier> {
        let path = path.as_ref();
        create_dir(path).map_err(Error::io("create", &path.display().to_string()))?;
        Frontier::made(files::folder(path)?, options)
    }

    /// Opens the frontier in a directory as the last commit left it; pages in flight are queued
    /// again. If it was not closed, the last fetches of hosts are unknown: each host rests for one
    /// delay from the first time given.
    ///
    /// Reads the snapshot and the journal. Also reads 24 bytes a page if recrawls were off and are
    /// now on, or if the snapshot is of an older version.
    ///
    /// # Errors
    /// `Missing`, `Corrupt`, `NewerFormat`, `InvalidOption`, `Locked`, `Io`.
    pub fn open(path: impl AsRef<Path>, options: FrontierOptions) -> Result<Frontier> {
        Frontier::opened(files::folder(path.as_ref())?, options)
    }

    /// [`Frontier::create`] in any directory, for simulations.
    ///
    /// # Errors
    /// As there.
    #[cfg(any(test, feature = "sim"))]
    pub fn create_in(dir: Arc<dyn Dir>, options: FrontierOptions) -> Result<Frontier> {
        Frontier::made(dir, options)
    }

    fn made(dir: Arc<dyn Dir>, options: FrontierOptions) -> Result<Frontier> {
        options.check()?;
        let lock = lock(&*dir, LOCK, LOCK)?;
        if exists(&*dir, files::SNAPSHOT)? {
            return Err(Error::Exists { file: files::SNAPSHOT.into() });
        }
        // Remove the files of an interrupted creation.
        files::remove_others(&*dir, &[])?;
        let (id, seed) = (new_id(&*dir)?, new_id(&*dir)?);
        let seed = get(&seed, 0);
        let texts = Texts::create(&*dir, id)?;
        let journal = Journal::create(&*dir, id, 1)?;
        let links = match options.virtual_visits {
            0 => None,
            _ => Some(Links::create(&*dir, id, 1)?),
        };
        let table = Table::create(&*dir, id, options.table_bytes())?;
        sync_folder(&*dir)?;
        let totals = Totals::new(options.tax, options.window);
        let index = Index::open(&dir, id, &Named { seed, ..Named::default() }, options.index_bytes())?;
        let mut state = State::new(&options, options.rent, index, table, Hosts::default(), totals, texts);
        (state.virtual_visits, state.links) = (options.virtual_visits, links);
        let snapshot_bytes = snapshot::write(&*dir, id, 1, &state, &[])?;
        Frontier::with(dir, options, id, state, journal, snapshot_bytes, lock)
    }

    /// [`Frontier::open`] in any directory, for simulations.
    ///
    /// # Errors
    /// As there.
    #[cfg(any(test, feature = "sim"))]
    pub fn open_in(dir: Arc<dyn Dir>, options: FrontierOptions) -> Result<Frontier> {
        Frontier::opened(dir, options)
    }

    fn opened(dir: Arc<dyn Dir>, options: FrontierOptions) -> Result<Frontier> {
        options.check()?;
        let lock = lock(&*dir, LOCK, LOCK)?;
        // An earlier handle may have failed to sync the directory: the rename may not be durable.
        sync_folder(&*dir)?;
        let mut found = snapshot::read(&dir, &options)?;
        let state = &mut found.state;
        let journal = Journal::open(&*dir, found.id, found.journal, |record| {
            state.prepare(&record)?;
            state.check_new(&record)?;
            state.apply(&record)?;
            Ok(state.flush_if_full()?)
        })?;
        let runs: Vec<String> = state.index.names().collect();
        let links = state.links.as_ref().map(Links::name);
        let kept: Vec<&str> = runs.iter().map(|name| &name[..]).chain(links).chain([journal.name()]).collect();
        files::remove_others(&*dir, &kept)?;
        files::remove_unfinished(&*dir)?;
        let mut frontier = Frontier::with(dir, options, found.id, found.state, journal, found.bytes, lock)?;
        frontier.must_rest = !frontier.journal.is_closed();
        frontier.state.texts.flush()?;
        Ok(frontier)
    }
}
