//! Checks that a writer's open files still have their names. Data written to a file that was
//! removed or replaced would be lost when the handle is closed.

use std::collections::HashSet;
use std::io::ErrorKind;

use filemap_io::Identity;

use crate::error::{Error, Result};
use crate::format::names;
use crate::logs::segments::Segments;
use crate::sync::lock;
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

impl Upkeep {
    /// Compares the names of the store's files with the open files, without opening any. Files
    /// that the system cannot identify count as unchanged.
    ///
    /// # Errors
    /// `Corrupt` if an open file has lost its name, or another file has taken it.
    pub(super) fn check_names(&self, c: &Checkpointer) -> Result<()> {
        let mut open = vec![
            (names::LOCK.to_owned(), self.writing.gate().identity()),
            (names::SUPERBLOCK.to_owned(), self.reading.superblock().file().identity()),
            (names::INDEX.to_owned(), self.reading.index().identity()),
            lock(self.writing.log()).appender.identity(),
        ];
        open.extend(c.keys.identity());
        // The superblock of a repair gets its name only at the end.
        open.retain(|(name, _)| name != names::SUPERBLOCK || !self.is_unnamed());
        for (name, identity) in open {
            self.check_name(&name, identity)?;
        }
        // Listing takes a file descriptor; asking for one name takes none.
        let listed: HashSet<String> = self.reading.dir().list().unwrap_or_default().into_iter().collect();
        self.check_segments(&self.reading.values().segments, &listed)?;
        self.check_segments(self.reading.keys().segments(), &listed)?;
        self.check_dictionaries(c, &listed)
    }

    /// Checks that all dictionaries that the last superblock names exist.
    fn check_dictionaries(&self, c: &Checkpointer, listed: &HashSet<String>) -> Result<()> {
        let names = c.segment_table.kept_dictionaries().map(names::dictionary);
        names.filter(|name| !listed.contains(name)).try_for_each(|name| self.check_name(&name, None))
    }

    /// Returns true if the superblock still has its temporary name.
    fn is_unnamed(&self) -> bool {
        let has = |name| self.reading.dir().identity_of(name).is_ok();
        has(names::NEW_SUPERBLOCK) && !has(names::SUPERBLOCK)
    }

    fn check_name(&self, name: &str, identity: Option<Identity>) -> Result<()> {
        let what = match self.reading.dir().identity_of(name) {
            Ok(found) if identity.is_none() || found.is_none() || found == identity => return Ok(()),
            Ok(_) => "another file has taken its name while the store was open",
            Err(e) if e.kind() == ErrorKind::NotFound => "its name was removed while the store was open",
            Err(e) if e.kind() == ErrorKind::InvalidInput => "something other than a store file has its name now",
            Err(_) => return Ok(()),
        };
        Err(Error::corrupt(name, 0, what))
    }

    /// Checks that all known segments exist.
    fn check_segments(&self, segments: &Segments, listed: &HashSet<String>) -> Result<()> {
        for segment in segments.all().iter().filter(|s| !listed.contains(&s.name())) {
            // It may have been begun or removed since the names were listed.
            let is_known = || segments.get(segment.id).is_ok_and(|s| s.ordinal == segment.ordinal);
            match self.check_name(&segment.name(), None) {
                Err(e) if is_known() => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}
