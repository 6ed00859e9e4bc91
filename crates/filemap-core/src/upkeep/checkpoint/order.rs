//! Writes the changes of keys that a checkpoint has gathered as a run of keys in order. Small
//! newest runs are merged into it, so a store of a few pages has one run, however often it is
//! opened.
//!
//! Runs are derived data, so an unreadable run fails no checkpoint: a damaged run is left
//! unchanged, and where the runs must be read, the order ends.

use std::ops::Bound;
use std::sync::Arc;

use filemap_runs::ordered::{Cursor, Direction, Info, Source};

use crate::error::Result;
use crate::failpoint::{Fault, planted};
use crate::format::key_runs::RUNS_MAX;
use crate::index::key_runs::{KeyRunFiles, RunKeys, damaged};
use crate::sync::make_way;
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

impl Upkeep {
    /// [`Upkeep::write_gathered`] if that frees much memory.
    pub(super) fn write_gathered_if_many(&self, c: &mut Checkpointer) -> Result<()> {
        let most = self.reading.options().limits.gathered_bytes;
        let is_much = c.gathered.as_ref().is_some_and(|gathered| gathered.memory_bytes() >= most);
        if is_much { self.write_gathered(c) } else { Ok(()) }
    }

    /// Writes the gathered changes as a run, which the next superblock names.
    pub(super) fn write_gathered(&self, c: &mut Checkpointer) -> Result<()> {
        let (Some(gathered), Some(named)) = (&mut c.gathered, &mut c.segment_table.order) else { return Ok(()) };
        if gathered.is_empty() {
            return Ok(());
        }
        if named.runs.len() >= RUNS_MAX / 2 {
            self.end_order(c, "there are too many runs that cannot be joined");
            return Ok(());
        }
        let files = self.reading.key_runs();
        // The runs are read only after a crash.
        let asked = if c.settles_order { &named.runs[..] } else { &[] };
        let keys = files.open(asked).and_then(|runs| RunKeys::new(runs, Direction::Forward, Bound::Unbounded));
        let changes = match keys.and_then(|mut keys| gathered.changes(&mut |form| keys.has(form))) {
            Ok(changes) => changes,
            // A later call may succeed in reading: keep the order.
            Err(e) if !e.is_corrupt() => return Err(e),
            Err(e) => {
                self.end_order(c, &format!("after a crash its runs could not be read: {e}"));
                return Ok(());
            }
        };
        let is_walled = |run: &Info| c.joined.contains(run) || c.damaged_runs.contains(&run.number);
        let first = first_folded(&named.runs, is_walled, self.reading.options().limits.fold_pages);
        let mut sources = vec![Source::Memory(&changes)];
        match read(files, &named.runs[first..]) {
            Ok(folded) => {
                sources.extend(folded);
                c.left_runs.extend(named.runs.drain(first..).map(|run| run.number));
            }
            // The damaged run stays beside the new one.
            Err(e) => {
                self.reading.counters().failed(&e);
                c.damaged_runs.extend(damaged(&e));
            }
        }
        let mut each_some = || {
            make_way();
            Ok(())
        };
        files.write(named.next, sources, &mut each_some)?.into_iter().for_each(|run| named.add(run));
        c.has_new_runs = true;
        gathered.clear();
        Ok(())
    }

    /// Ends the order of keys: from the next superblock on the store has none.
    fn end_order(&self, c: &mut Checkpointer, why: &str) {
        let runs = c.segment_table.order.take().map(|named| named.runs).unwrap_or_default();
        c.left_runs.extend(runs.iter().map(|run| run.number));
        (c.gathered, c.settles_order) = (None, false);
        self.reading.order_ended(why);
    }

    /// Makes the runs durable that the next superblock names, and notes whether the index is ahead
    /// of them.
    pub(super) fn name_runs(&self, c: &mut Checkpointer) -> Result<()> {
        if c.gathered.as_ref().is_some_and(|gathered| gathered.is_due()) {
            self.write_gathered(c)?;
        }
        if std::mem::take(&mut c.has_new_runs) && !planted(Fault::KeyRunNamesNotSynced) {
            self.reading.key_runs().sync_names()?;
        }
        let is_behind = c.settles_order || c.gathered.as_ref().is_some_and(|gathered| !gathered.is_empty());
        if let Some(named) = &mut c.segment_table.order {
            let behind = c.behind.or(named.behind);
            named.behind = behind.filter(|_| is_behind && !planted(Fault::OrderNotBehind));
        }
        Ok(())
    }

    /// Removes all runs that the last superblock does not name from a store that was just opened.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove_unnamed_runs(&self) -> Result<()> {
        let segment_table = self.reading.segment_table();
        let next = segment_table.order.as_ref().map_or(u64::MAX, |named| named.next);
        self.reading.key_runs().remove_orphans(segment_table.key_runs(), next)
    }

    /// Removes runs that no durable superblock names, except those that a backup may hold.
    pub(crate) fn remove_left_runs(&self, c: &mut Checkpointer) -> Result<()> {
        let is_held = |number: &u64| *number < c.held_runs_below && !planted(Fault::BackupNotHeld);
        let (held, free): (Vec<u64>, Vec<u64>) = c.left_runs.iter().partition(|number| is_held(number));
        c.left_runs = held;
        free.into_iter().try_for_each(|number| self.reading.key_runs().remove(number))
    }
}

/// Index of the first of the newest runs that are rewritten together with the next one: they have
/// few pages together, and none is walled or behind a walled run.
fn first_folded(runs: &[Info], is_walled: impl Fn(&Info) -> bool, most_pages: u64) -> usize {
    let mut pages = 0;
    let is_small = |run: &&Info| {
        pages += run.pages;
        pages <= most_pages && !is_walled(run)
    };
    runs.len() - runs.iter().rev().take_while(is_small).count()
}

/// Reads small runs into memory.
fn read(files: &KeyRunFiles, runs: &[Info]) -> Result<Vec<Source<'static>>> {
    let entries = |run: Arc<_>| {
        let (mut cursor, mut entries) = (Cursor::first(run)?, Vec::new());
        while let Some((form, change)) = cursor.forward()? {
            entries.push((form.to_vec(), change));
        }
        Ok(Source::Owned(entries))
    };
    files.open(runs)?.into_iter().map(entries).collect()
}
