//! Joins runs of keys in order in the background: neighbours in time only, by eights, so that a key
//! is written once a level and the number of runs grows with the logarithm of the store.
//!
//! Checkpoints go on meanwhile; they add newer runs behind those being joined. Lists that have
//! begun keep the files that they have opened.

use std::ops::Bound;

use filemap_runs::Written;
use filemap_runs::ordered::{Direction, Info, Merge, Source};

use crate::error::{Error, Result};
use crate::failpoint::{Fault, planted, step};
use crate::format::key_runs::KeyRuns;
use crate::sync::primitive::Ordering;
use crate::sync::{lock, make_way};
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

/// Entries between two looks whether the handle is being closed, and ways made: about a tenth of a
/// millisecond.
const SOME_ENTRIES: usize = 1024;
/// All runs are joined when more than one in so many entries is dead: it has cancelled with a
/// later one.
const DEAD_SHARE: u64 = 5;
/// Pages of a run that the superblock can name.
const PAGES_MAX: u64 = u32::MAX as u64;

impl Upkeep {
    /// Joins runs of keys in order if there are enough. Returns true if it did.
    ///
    /// # Errors
    /// `Corrupt`, `Io`: the runs stay as they were. Those of a checkpoint.
    pub(crate) fn join_if_due(&self) -> Result<bool> {
        let limit = self.reading.options().limits.join_runs;
        self.join(|named| due(&named.runs, limit))
    }

    /// Joins all runs of keys in order, so that no file has a key that was removed. Returns the
    /// numbers of old ones that are still there, since a backup holds them.
    ///
    /// # Errors
    /// As of [`Upkeep::join_if_due`].
    pub(crate) fn join_all(&self) -> Result<Vec<u64>> {
        self.join(|named| &named.runs[..])?;
        Ok(lock(&self.checkpointer).left_runs.clone())
    }

    /// Joins the runs chosen, which stand one after the other.
    fn join(&self, choose: impl FnOnce(&KeyRuns) -> &[Info]) -> Result<bool> {
        let _turn = lock(&self.joining);
        let (runs, number) = {
            let mut c = lock(&self.checkpointer);
            self.reading.check_open()?;
            self.writing.poisoned().check()?;
            let Some(named) = &c.segment_table.order else { return Ok(false) };
            let (runs, number) = (choose(named).to_vec(), named.next);
            if runs.len() < 2 || runs.iter().map(|run| run.pages).sum::<u64>() > PAGES_MAX {
                return Ok(false);
            }
            c.joined.clone_from(&runs);
            (runs, number)
        };
        let written = self.write_joined(&runs, number);
        let mut c = lock(&self.checkpointer);
        c.joined.clear();
        self.name_joined(&mut c, &runs, written?)
    }

    /// Writes the sum of runs; durable but for its name. `None` if nothing is left of them.
    fn write_joined(&self, runs: &[Info], number: u64) -> Result<Option<Written<Info>>> {
        let files = self.reading.key_runs();
        let sources = files.open_some(runs)?.into_iter().map(Source::Run).collect();
        let mut merge = Merge::new(sources, Direction::Forward, Bound::Unbounded)?;
        let mut writer = files.begin(number)?;
        let begun = writer.number();
        let result = (|| {
            for nth in 0.. {
                if nth % SOME_ENTRIES == 0 {
                    make_way();
                    step();
                    if self.reading.closed().load(Ordering::Acquire) {
                        return Err(Error::Closed);
                    }
                }
                let Some((key, change)) = merge.next_entry()? else { break };
                writer.push(key, change)?;
            }
            let written = writer.end()?;
            if let Some(written) = written.as_ref().filter(|_| !planted(Fault::KeyRunNotSynced)) {
                written.sync()?;
            }
            Ok(written)
        })();
        if result.is_err() {
            // Otherwise the next opening removes it.
            let _ = files.remove(begun);
        }
        result
    }

    /// Names a run instead of those that it was joined from.
    fn name_joined(&self, c: &mut Checkpointer, runs: &[Info], written: Option<Written<Info>>) -> Result<bool> {
        self.reading.check_open()?;
        self.writing.poisoned().check()?;
        let written = written.map(|written| written.info());
        let is_there = c.segment_table.order.as_mut().is_some_and(|named| {
            named.next = named.next.max(written.map_or(0, |run| run.number + 1));
            named.replace(runs, written)
        });
        if !is_there {
            // An order that was ended meanwhile.
            written.map_or(Ok(()), |run| self.reading.key_runs().remove(run.number))?;
            return Ok(false);
        }
        c.left_runs.extend(runs.iter().map(|run| run.number));
        c.has_new_runs = true;
        self.commit(c).inspect_err(|e| self.writing.poison(e))?;
        Ok(true)
    }
}

/// The runs to be joined next, neighbours in time; fewer than two if none need be. `limit` runs of
/// a level make one of the next, which holds eight times as much.
fn due(runs: &[Info], limit: usize) -> &[Info] {
    let (added, removed) = runs.iter().fold((0, 0), |sum, run| (sum.0 + run.added, sum.1 + run.removed));
    if removed * DEAD_SHARE > added {
        return runs;
    }
    let level = |run: &Info| run.pages.max(1).ilog2() / 3;
    let mut levels: Vec<u32> = runs.iter().map(level).collect();
    levels.sort_unstable();
    levels.dedup();
    for most in levels {
        let newest = runs.len() - runs.iter().rev().take_while(|run| level(run) <= most).count();
        if runs.len() - newest >= limit {
            return &runs[newest..];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64, pages: u64) -> Info {
        Info { number, leaves: 1, pages, added: 100 * pages, removed: 0 }
    }

    #[test]
    fn as_many_of_a_level_as_the_limit_are_joined() {
        let mut runs = vec![run(1, 900), run(2, 100), run(3, 90)];
        for number in 4..100 {
            runs.push(run(number, 9));
            let due = due(&runs, 4).to_vec();
            if !due.is_empty() {
                let first = runs.len() - due.len();
                assert_eq!(runs[first..], due);
                let pages = due.iter().map(|run| run.pages).sum();
                runs.truncate(first);
                runs.push(run(1000 + number, pages));
            }
            assert!(runs.len() < 12, "{runs:?}");
        }
        assert!(due(&[run(1, 5), run(2, 5)], 4).is_empty());
        assert!(due(&[], 4).is_empty());
    }

    #[test]
    fn runs_of_which_much_is_dead_are_all_joined() {
        let runs = [run(1, 900), Info { removed: 30_000, ..run(2, 3) }];
        assert_eq!(due(&runs, 4).len(), 2);
    }
}
