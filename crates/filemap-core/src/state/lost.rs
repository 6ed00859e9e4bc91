//! What of a store's files is absent, as a read-only handle sees it beside a writer that moves on.

use std::sync::Arc;
use std::time::Duration;

use filemap_io::Dir;

use crate::accounts::Accounts;
use crate::error::Result;
use crate::format::names;
use crate::format::rolls::Rolls;
use crate::format::superblock::Superblock;
use crate::keys::KeyLog;
use crate::primitive::sleep;
use crate::recover::{Absent, Witness};
use crate::segments::Segments;
use crate::state::Shared;
use crate::state::follow::READS;
use crate::superblock::SuperblockFile;

/// Reads the list of begun segments, which another process may be writing.
fn read_rolls(file: &SuperblockFile, store_id: &[u8; 16]) -> Result<Rolls> {
    let mut tries = 0;
    loop {
        match file.rolls(store_id) {
            Err(e) if e.is_corrupt() && tries < READS => {
                tries += 1;
                sleep(Duration::from_micros(200));
            }
            read => return read,
        }
    }
}

/// What of the files is absent that a superblock names; `None` when the writer has moved on meanwhile.
pub(super) fn absent(
    file: &SuperblockFile,
    dir: &dyn Dir,
    current: &Superblock,
    accounts: &Accounts,
    there: (&Segments, &KeyLog),
) -> Result<Option<Vec<Absent>>> {
    let rolls = read_rolls(file, &current.store_id)?;
    let absent = Witness { superblock: current, accounts, rolls: &rolls }.absent(there.0, there.1);
    let is_current = || -> Result<bool> {
        Ok(file.newest_whole(dir)?.epoch == current.epoch && read_rolls(file, &current.store_id)? == rolls)
    };
    Ok(if absent.is_empty() || is_current()? { Some(absent) } else { None })
}

impl Shared {
    /// Looks what is absent as of a superblock; what was known before stays where the writer has moved on meanwhile.
    pub(super) fn look_for_absent(&self, newest: &Superblock, accounts: &Accounts) -> Result<()> {
        let there = (&*self.segments, &*self.keys);
        let look = || absent(&self.superblock, &*self.dir, newest, accounts, there);
        let mut found = look()?;
        if found.as_ref().is_none_or(|f| !f.is_empty()) {
            // What compaction has written since is not known yet.
            self.segments.rescan(|s| self.is_settled(s, self.latest.load().tail.ordinal))?;
            found = look()?;
        }
        if let Some(found) = found {
            self.absent.store(Arc::new(found));
        }
        Ok(())
    }

    /// Which segments of values are absent, of those of a superblock that may be newer than what this handle follows; `None` when the
    /// writer has moved on meanwhile.
    pub(crate) fn absent_values(&self, superblock: &Superblock, accounts: &Accounts) -> Result<Option<Vec<Absent>>> {
        self.segments.look_anew()?;
        let found = absent(&self.superblock, &*self.dir, superblock, accounts, (&self.segments, &self.keys))?;
        // The files of the key log are opened by their names.
        let values = |mut all: Vec<Absent>| {
            all.retain(|a| names::parse_keys(&a.file).is_none());
            all
        };
        Ok(found.map(values))
    }

    /// Whether a segment of the value log is known to be gone.
    pub(super) fn is_absent(&self, ordinal: u64) -> bool {
        self.absent.load().iter().any(|a| a.ordinal == Some(ordinal) && a.is_value())
    }
}
