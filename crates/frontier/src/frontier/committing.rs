//! Commits, and the snapshot that replaces a long journal.

use filemap_io::files::{remove, sync_folder};

use super::{Frontier, failing};
use crate::error::Result;
use crate::failpoint::{Failpoint, planted};
use crate::journal::Journal;
use crate::marks::Status;
use crate::snapshot;

/// Longest journal, as a fraction of the last snapshot: replay costs more than writing anew.
const JOURNAL_PART: u64 = 16;
/// Lists of links, beyond two for each fetched page, before the file is rewritten.
const LISTS_SLACK: u64 = 64;
/// A longer file of links is rewritten as soon as most of its lists are outdated, a shorter one
/// with the next snapshot.
const LINKS_BYTES_MIN: u64 = 1 << 20;

impl Frontier {
    /// Makes all events so far durable; after a crash during the call, all of them or none. One
    /// sync for any number of pages. If the journal exceeds a fraction of the last snapshot, also
    /// writes a new snapshot and the changes since the last one.
    ///
    /// # Errors
    /// `Io`, and from then on `Poisoned`.
    pub fn commit(&mut self) -> Result<()> {
        self.poison.check()?;
        let committed = self.journal.commit();
        self.poison.note(committed)?;
        let is_long = self.journal.bytes() > self.options.journal_bytes_min.max(self.snapshot_bytes / JOURNAL_PART);
        // Records of this version must not follow the header of an older one.
        if is_long || self.journal.is_old() || self.has_old_links(LINKS_BYTES_MIN) {
            let replaced = self.replace_journal();
            self.poison.note(replaced)?;
        }
        Ok(())
    }

    fn replace_journal(&mut self) -> Result<()> {
        self.state.texts.sync()?;
        let old_links = self.sync_links()?;
        self.state.index.sync()?;
        self.state.table.sync()?;
        let mut next = Journal::create(&*self.dir, self.id, self.journal.number() + 1)?;
        // A snapshot has neither claims nor outages of hosts: the journal repeats them.
        if !planted(Failpoint::ClaimsDropped) {
            self.state.claims.records().for_each(|record| next.append(&record));
        }
        if !planted(Failpoint::RestsDropped) {
            failing::records(&self.state.hosts).for_each(|record| next.append(&record));
        }
        next.commit()?;
        sync_folder(&*self.dir)?;
        if planted(Failpoint::JournalRemovedFirst) {
            remove(&*self.dir, self.journal.name())?;
            sync_folder(&*self.dir)?;
        }
        let mut flying: Vec<u32> = self.in_flight.keys().copied().collect();
        flying.sort_unstable();
        self.snapshot_bytes = snapshot::write(&*self.dir, self.id, next.number(), &self.state, &flying)?;
        remove(&*self.dir, self.journal.name())?;
        self.journal = next;
        self.state.table.named();
        self.state.index.remove_outdated()?;
        Ok(old_links.map_or(Ok(()), |name| remove(&*self.dir, &name))?)
    }

    /// Makes the lists of links durable, in a new file if most of them are outdated. Returns the
    /// name of the old file, to be removed.
    fn sync_links(&mut self) -> Result<Option<String>> {
        let (pages, is_old) = (self.state.table.len(), self.has_old_links(0));
        let Some(links) = &mut self.state.links else { return Ok(None) };
        links.sync()?;
        if !is_old {
            return Ok(None);
        }
        let next = links.rewritten(&*self.dir, pages)?;
        let old = links.name().to_owned();
        *links = next;
        Ok(Some(old))
    }

    /// Returns whether most lists of links are outdated, the file exceeds `bytes_min`, and no
    /// round needs them.
    fn has_old_links(&self, bytes_min: u64) -> bool {
        if self.state.delivery.round.is_some() {
            return false;
        }
        let most = 2 * u64::from(self.state.table.count(Status::is_fetched)) + LISTS_SLACK;
        self.state.links.as_ref().is_some_and(|links| links.bytes() > bytes_min && links.place().lists > most)
    }

    /// Commits, and marks the journal as complete, so that damage to its end is found at the next
    /// opening. A frontier dropped without it opens as its last commit left it.
    ///
    /// # Errors
    /// As [`Frontier::commit`].
    pub fn close(mut self) -> Result<()> {
        self.commit()?;
        // With no time given since the opening, the last fetches are still unknown.
        if self.must_rest { Ok(()) } else { self.journal.close() }
    }
}
