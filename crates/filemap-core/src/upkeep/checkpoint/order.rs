//! Writes what a checkpoint has gathered as a run of keys in order, with the newest runs if they are
//! small: a store of a few pages has one, however often it is opened.
//!
//! Runs are derived from what else is there, so what cannot be read of them fails no checkpoint: a
//! damaged run is left alone, and where the runs must be asked, the order ends.

use std::ops::Bound;
use std::sync::Arc;

use filemap_runs::ordered::{Change, Direction, Entry, Info, Merge, Run, Source, Writer};

use crate::error::{Error, Result, StorageError};
use crate::failpoint::{Fault, planted};
use crate::format::names;
use crate::index::key_runs::KeyRunFiles;
use crate::sync::make_way;
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

/// Entries merged in about a tenth of a millisecond.
const SOME_ENTRIES: usize = 1024;
/// Entries read on the way to a key before it is searched instead.
const STEPS: usize = 32;
/// A superblock names at most so many runs; twice as many would be refused when it is read.
const RUNS_MAX: usize = 1 << 13;

impl Upkeep {
    /// [`Upkeep::write_gathered`] if that frees much memory.
    pub(super) fn write_gathered_if_many(&self, c: &mut Checkpointer) -> Result<()> {
        let most = self.reading.options().limits.gathered_bytes;
        let is_much = c.gathered.as_ref().is_some_and(|gathered| gathered.memory_bytes() >= most);
        if is_much { self.write_gathered(c) } else { Ok(()) }
    }

    /// Writes what was gathered as a run, which the next superblock names.
    pub(super) fn write_gathered(&self, c: &mut Checkpointer) -> Result<()> {
        let (Some(gathered), Some(named)) = (&mut c.gathered, &mut c.segment_table.order) else { return Ok(()) };
        if gathered.is_empty() {
            return Ok(());
        }
        if named.runs.len() >= RUNS_MAX {
            self.end_order(c, "there are too many runs that cannot be joined");
            return Ok(());
        }
        let files = self.reading.key_runs();
        let all = if c.settles_order { files.open(&named.runs) } else { Ok(Vec::new()) };
        let mut present = all.map(Present::new);
        let changes = gathered.changes(&mut |key| match &mut present {
            Ok(present) => present.has(key),
            Err(e) => Err(e.clone()),
        });
        let changes = match changes {
            Ok(changes) => changes,
            Err(e) => {
                self.end_order(c, &format!("after a crash its runs could not be asked: {e}"));
                return Ok(());
            }
        };
        let is_walled = |run: &Info| c.joined.contains(run) || c.damaged_runs.contains(&run.number);
        let fold = folded(&named.runs, is_walled, self.reading.options().limits.fold_pages);
        let (kept, folded) = named.runs.split_at(fold);
        let written = match write(files, named.next, &changes, folded)? {
            Ok(run) => {
                c.left_runs.extend(folded.iter().map(|run| run.number));
                named.runs.truncate(kept.len());
                run
            }
            Err(e) => {
                self.reading.counters().failed(&e);
                c.damaged_runs.extend(run_of(&e));
                write(files, named.next, &changes, &[])??
            }
        };
        written.into_iter().for_each(|run| named.add(run));
        c.has_new_runs = true;
        gathered.clear();
        Ok(())
    }

    /// Goes on without an order of keys: with the next superblock the store has none.
    fn end_order(&self, c: &mut Checkpointer, why: &str) {
        let runs = c.segment_table.order.take().map(|named| named.runs).unwrap_or_default();
        c.left_runs.extend(runs.iter().map(|run| run.number));
        (c.gathered, c.settles_order) = (None, false);
        self.reading.order_ended(why);
    }

    /// Makes runs durable that the next superblock names, and notes whether the index is ahead of
    /// them.
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

    /// Removes all runs that the last superblock does not name, of a store that was just opened.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn remove_unnamed_runs(&self) -> Result<()> {
        self.reading.key_runs().remove_orphans(self.reading.segment_table().key_runs())
    }

    /// Removes runs that no durable superblock names, but those that a backup may hold.
    pub(crate) fn remove_left_runs(&self, c: &mut Checkpointer) -> Result<()> {
        let is_held = |number: &u64| *number < c.held_runs_below && !planted(Fault::BackupNotHeld);
        let (held, free): (Vec<u64>, Vec<u64>) = c.left_runs.iter().partition(|number| is_held(number));
        c.left_runs = held;
        free.into_iter().try_for_each(|number| self.reading.key_runs().remove(number))
    }
}

/// The number of the run that an error names as damaged.
pub(crate) fn run_of(error: &Error) -> Option<u64> {
    match error {
        Error::Storage(StorageError::Corrupt { file, .. }) => names::parse_key_run(file),
        _ => None,
    }
}

/// Where those newest runs begin that are written anew with the next one: few pages together, and
/// none of them behind a wall.
fn folded(runs: &[Info], is_walled: impl Fn(&Info) -> bool, most_pages: u64) -> usize {
    let mut pages = 0;
    let is_small = |run: &&Info| {
        pages += run.pages;
        pages <= most_pages && !is_walled(run)
    };
    runs.len() - runs.iter().rev().take_while(is_small).count()
}

/// Writes changes and runs as one run, durable but for its name; `None` if all cancel. The inner
/// error is one of reading the runs.
///
/// # Errors
/// `Io` of writing.
fn write(
    files: &KeyRunFiles,
    number: u64,
    changes: &[Entry<'_>],
    runs: &[Info],
) -> Result<std::result::Result<Option<Info>, Error>> {
    let merge = files.open(runs).and_then(|runs| {
        let sources = runs.into_iter().map(Source::Run).chain([Source::Memory(changes)]).collect();
        Ok(Merge::new(sources, Direction::Forward, Bound::Unbounded)?)
    });
    let mut merge = match merge {
        Ok(merge) => merge,
        Err(e) => return Ok(Err(e)),
    };
    let mut writer = files.begin(number)?;
    let begun = writer.number();
    if runs.is_empty() {
        for some in changes.chunks(SOME_ENTRIES) {
            make_way();
            some.iter().try_for_each(|(key, change)| writer.push(key, *change))?;
        }
        return durable(writer);
    }
    for nth in 0.. {
        if nth % SOME_ENTRIES == 0 {
            make_way();
        }
        match merge.next_entry() {
            Ok(Some((key, change))) => writer.push(key, change)?,
            Ok(None) => break,
            Err(e) => {
                files.remove(begun)?;
                return Ok(Err(e.into()));
            }
        }
    }
    durable(writer)
}

/// Ends a run and syncs it; `None` if nothing was pushed.
fn durable(writer: Writer<'_>) -> Result<std::result::Result<Option<Info>, Error>> {
    let Some(written) = writer.end()? else { return Ok(Ok(None)) };
    if !planted(Fault::KeyRunNotSynced) {
        written.sync()?;
    }
    Ok(Ok(Some(written.info())))
}

/// The keys of runs, asked for in order.
struct Present {
    runs: Vec<Arc<Run>>,
    /// Not begun before the first question.
    merge: Option<Merge<'static>>,
    /// The next key; `None` at the end.
    next: Option<Vec<u8>>,
}

impl Present {
    fn new(runs: Vec<Arc<Run>>) -> Present {
        Present { runs, merge: None, next: None }
    }

    /// Whether the key is there. No later question may be of a lower one.
    fn has(&mut self, key: &[u8]) -> Result<bool> {
        let merge = match &mut self.merge {
            Some(merge) => merge,
            none => {
                let sources = self.runs.drain(..).map(Source::Run).collect();
                let merge = none.insert(Merge::new(sources, Direction::Forward, Bound::Included(key))?);
                self.next = next_of(merge)?;
                merge
            }
        };
        let mut steps = 0;
        while self.next.as_ref().is_some_and(|next| &next[..] < key) {
            if steps == STEPS {
                merge.seek(Direction::Forward, Bound::Included(key))?;
            }
            steps += 1;
            self.next = next_of(merge)?;
        }
        Ok(self.next.as_deref() == Some(key))
    }
}

/// The next key that is there.
fn next_of(merge: &mut Merge<'_>) -> Result<Option<Vec<u8>>> {
    Ok(match merge.next_entry()? {
        Some((key, Change::Removed)) => {
            let shown = String::from_utf8_lossy(key);
            return Err(Error::corrupt(names::KEY_RUNS, 0, format!("{shown:?} was removed and never added")));
        }
        entry => entry.map(|(key, _)| key.to_vec()),
    })
}
