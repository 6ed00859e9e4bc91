//! Files of the runs of keys in order: opens them when they are asked for, creates and removes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use filemap_io::{Access, Dir, files};
use filemap_runs::ordered::{Home, Info, OWNER_BYTES, Run, Writer, owner};

use crate::error::{Error, Result};
use crate::format::{all_zero, names};
use crate::sync::{Ranked, lock, rank};

/// The runs of a store, as files.
#[derive(Debug)]
pub(crate) struct KeyRunFiles {
    home: Home,
    /// By number. A list that began earlier may hold more.
    opened: Ranked<{ rank::KEY_RUNS }, BTreeMap<u64, Arc<Run>>>,
}

impl KeyRunFiles {
    /// Opens nothing.
    pub(crate) fn new(dir: Arc<dyn Dir>, store_id: [u8; 16]) -> KeyRunFiles {
        KeyRunFiles { home: Home::new(dir, names::KEY_RUNS, store_id, ()), opened: Ranked::default() }
    }

    /// Bytes read and written.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let (_, read, written) = self.home.traffic.counts();
        (read, written)
    }

    /// Closes all runs but those of a superblock.
    pub(crate) fn keep(&self, runs: &[Info]) {
        lock(&self.opened).retain(|number, _| runs.iter().any(|run| run.number == *number));
    }

    /// Opens runs of a superblock.
    ///
    /// # Errors
    /// `Corrupt` if one is missing or is not what the superblock says; `NewerFormat`; `Io`.
    pub(crate) fn open(&self, runs: &[Info]) -> Result<Vec<Arc<Run>>> {
        let mut opened = lock(&self.opened);
        let mut all = Vec::with_capacity(runs.len());
        for info in runs {
            let known = opened.get(&info.number).filter(|run| run.info() == *info);
            let run = match known {
                Some(run) => Arc::clone(run),
                None => Arc::new(Run::open(&self.home, *info)?),
            };
            opened.insert(info.number, Arc::clone(&run));
            all.push(run);
        }
        Ok(all)
    }

    /// Opens a run anew, for a reader that must see what the disk holds.
    ///
    /// # Errors
    /// As [`KeyRunFiles::open`].
    pub(crate) fn open_anew(&self, info: &Info) -> Result<Run> {
        Ok(Run::open(&self.home, *info)?)
    }

    /// Begins a run of this number, or of the next whose name is free.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn begin(&self, number: u64) -> Result<Writer<'_>> {
        Ok(Writer::create(&self.home, number)?)
    }

    /// Makes the names of new runs durable.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sync_names(&self) -> Result<()> {
        Ok(files::sync_folder(&*self.home.dir)?)
    }

    /// Removes the file of a run that no durable superblock names.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove(&self, number: u64) -> Result<()> {
        lock(&self.opened).remove(&number);
        Ok(files::remove(&*self.home.dir, &names::key_run(number))?)
    }

    /// Removes every run of this store that is not among the named ones: it was being written, or
    /// about to be removed, when a writer ended. Another's file of such a name stays.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove_orphans(&self, named: &[Info]) -> Result<()> {
        let dir = &*self.home.dir;
        for name in dir.list().map_err(Error::io("list", dir.path().display()))? {
            let Some(number) = names::parse_key_run(&name) else { continue };
            if named.iter().all(|run| run.number != number) && self.is_ours(&name, number) {
                self.remove(number)?;
            }
        }
        Ok(())
    }

    /// Whether a file is a run of this store, or was about to become one. What cannot be read may
    /// be anything.
    fn is_ours(&self, name: &str, number: u64) -> bool {
        let mut start = [0; OWNER_BYTES];
        let read = self.home.dir.open(name, Access::Read).and_then(|file| file.read_at(&mut start, 0));
        read.is_ok_and(|n| owner(&start[..n]) == Some((self.home.id, number)) || all_zero(&start[..n]))
    }
}
