//! Writes what a checkpoint has gathered as a run of keys in order, with the newest runs if they are
//! small: a store of a few pages has one, however often it is opened.

use std::ops::Bound;
use std::sync::Arc;

use filemap_runs::ordered::{Direction, Entry, Info, Merge, Run, Source};

use crate::error::Result;
use crate::failpoint::{Fault, planted};
use crate::index::key_runs::KeyRunFiles;
use crate::sync::make_way;
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

/// Entries merged in about a tenth of a millisecond.
const SOME_ENTRIES: usize = 1024;
/// Entries read on the way to a key before it is searched instead.
const STEPS: usize = 32;

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
        let files = self.reading.key_runs();
        let all = if c.settles_order { files.open_some(&named.runs) } else { Ok(Vec::new()) };
        let mut present = all.map(Present::new);
        let changes = gathered.changes(&mut |key| match &mut present {
            Ok(present) => present.has(key),
            Err(e) => Err(e.clone()),
        });
        let changes = match changes {
            // What is derived stops nothing: the store goes on without an order, until a repair.
            Err(e) if e.is_corrupt() => {
                self.reading.counters().failed(&e);
                c.end_order();
                return Ok(());
            }
            changes => changes?,
        };
        let fold = folded(&named.runs, &c.joined, self.reading.options().limits.fold_pages);
        let (kept, folded) = named.runs.split_at(fold);
        let written = match write(files, named.next, &changes, folded) {
            Err(e) if e.is_corrupt() && !folded.is_empty() => None,
            written => Some(written?),
        };
        if let Some(run) = written {
            c.left_runs.extend(folded.iter().map(|run| run.number));
            named.runs.truncate(kept.len());
            run.into_iter().for_each(|run| named.add(run));
        } else if let Some(run) = write(files, named.next, &changes, &[])? {
            named.add(run);
        }
        c.has_new_runs = true;
        gathered.clear();
        Ok(())
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
        let segment_table = self.reading.segment_table();
        let named = segment_table.order.as_ref().map(|named| &named.runs[..]).unwrap_or_default();
        self.reading.key_runs().remove_orphans(named)
    }

    /// Removes runs that no durable superblock names, unless a backup holds an older one.
    pub(crate) fn remove_left_runs(&self, c: &mut Checkpointer) -> Result<()> {
        if c.holds > 0 && !planted(Fault::BackupNotHeld) {
            return Ok(());
        }
        c.left_runs.drain(..).try_for_each(|number| self.reading.key_runs().remove(number))
    }
}

/// Where those newest runs begin that are written anew with the next one: few pages together, and
/// none of them being joined.
fn folded(runs: &[Info], joined: &[Info], most_pages: u64) -> usize {
    let mut pages = 0;
    let is_small = |run: &&Info| {
        pages += run.pages;
        pages <= most_pages && !joined.contains(run)
    };
    runs.len() - runs.iter().rev().take_while(is_small).count()
}

/// Writes changes and runs as one run, durable but for its name. `None` if all cancel.
fn write(files: &KeyRunFiles, number: u64, changes: &[Entry<'_>], runs: &[Info]) -> Result<Option<Info>> {
    let sources = files.open_some(runs)?.into_iter().map(Source::Run);
    let sources = sources.chain([Source::Memory(changes)]).collect();
    let mut merge = Merge::new(sources, Direction::Forward, Bound::Unbounded)?;
    let mut writer = files.begin(number)?;
    for nth in 0.. {
        if nth % SOME_ENTRIES == 0 {
            make_way();
        }
        let Some((key, change)) = merge.next_entry()? else { break };
        writer.push(key, change)?;
    }
    let Some(written) = writer.end()? else { return Ok(None) };
    if !planted(Fault::KeyRunNotSynced) {
        written.sync()?;
    }
    Ok(Some(written.info()))
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
                let merge = Merge::new(sources, Direction::Forward, Bound::Included(key))?;
                let merge = none.insert(merge);
                self.next = merge.next_entry()?.map(|(key, _)| key.to_vec());
                merge
            }
        };
        let mut steps = 0;
        while self.next.as_ref().is_some_and(|next| &next[..] < key) {
            if steps == STEPS {
                merge.seek(Direction::Forward, Bound::Included(key))?;
            }
            steps += 1;
            self.next = merge.next_entry()?.map(|(key, _)| key.to_vec());
        }
        Ok(self.next.as_deref() == Some(key))
    }
}
