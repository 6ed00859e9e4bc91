//! Snapshots: a second set that holds what this one holds now.
//!
//! Runs never change, so a hard link is enough where the file system has them, and a copy where it has not. The manifest comes last: a
//! snapshot that was interrupted is no set, and may be made again, over what it left of runs that the set still has. Other runs that are
//! there are not removed: they may be all that is left of a set.

use std::sync::Arc;

use filemap_io::{Access, Dir};

use super::DiskUrlSet;
use super::log::Log;
use super::manifest::Manifest;
use super::run::{Home, Run};
use super::strangers::make_room;
use crate::error::{Error, Result};
use crate::files;

/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

impl DiskUrlSet {
    /// Makes a set of the same name in another directory that holds what this one holds now; both go their own ways then. The table is
    /// written to a run first, and tests wait meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`], with [`std::io::ErrorKind::AlreadyExists`] if there is a file of that name, or one with URLs of a set whose manifest is
    /// gone (remove it, if a snapshot that was interrupted left it); [`Error::Locked`] there;
    /// [`Error::Poisoned`]; [`Error::ReadOnly`].
    pub fn snapshot(&self, to: &Arc<dyn Dir>) -> Result<()> {
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
        let runs: Vec<Arc<Run>> = state.levels.iter().map(|level| Arc::clone(&level.run)).collect();
        make_room(&home, &runs)?;
        for run in &runs {
            if to.link_from(&*state.home.dir, run.name()).is_err() {
                copy(run, &home)?;
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

fn copy(run: &Run, to: &Home) -> Result<()> {
    let name = run.name();
    let file = to.dir.open(name, Access::Create).map_err(Error::io("create", name))?;
    let (len, mut buffer) = (run.info.disk_bytes(), vec![0; COPY_BYTES as usize]);
    for at in (0..len).step_by(COPY_BYTES as usize) {
        let bytes = &mut buffer[..(len - at).min(COPY_BYTES) as usize];
        files::read_exact(run.file(), name, bytes, at)?;
        file.write_at(bytes, at).map_err(Error::io("write", name))?;
        if at == 0 {
            // Whose it is, whatever comes.
            file.sync().map_err(Error::io("sync", name))?;
        }
        to.traffic.read(bytes.len() as u64);
        to.traffic.written(bytes.len() as u64);
    }
    file.sync().map_err(Error::io("sync", name))
}
