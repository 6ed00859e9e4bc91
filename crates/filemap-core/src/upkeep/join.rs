//! Joins runs of keys in order in the background: only neighbours in time, by eights of one size.
//! So a key is written once per level, and the number of runs grows with the logarithm of the
//! store.
//!
//! Checkpoints continue meanwhile; they add newer runs behind those being joined. Running lists
//! keep the files that they have opened.

use std::collections::BTreeSet;

use filemap_runs::ordered::{Info, Source};

use crate::error::{Error, Result};
use crate::failpoint::step;
use crate::index::key_runs::damaged;
use crate::sync::primitive::Ordering;
use crate::sync::{lock, make_way};
use crate::upkeep::Upkeep;
use crate::upkeep::state::Checkpointer;

/// All runs are joined when more than one in this many entries is dead, that is cancelled by a
/// later one.
const DEAD_SHARE: u64 = 5;
/// Greatest number of runs joined at once: each is an open file.
const WIDEST: usize = 64;
/// Greatest number of pages of a run that the superblock can name.
const PAGES_MAX: u64 = u32::MAX as u64;

/// Chooses the runs to join, given the numbers of damaged ones.
type Choose = dyn for<'r> Fn(&'r [Info], &BTreeSet<u64>) -> &'r [Info];

impl Upkeep {
    /// Joins runs of keys in order if there are enough, and the disk has room for the result.
    /// Returns true if it did.
    ///
    /// # Errors
    /// `Corrupt`, `Io`: the runs are unchanged, and a damaged one is no longer joined. Those of a
    /// checkpoint.
    pub(crate) fn join_if_due(&self) -> Result<bool> {
        let limit = self.reading.options().limits.join_runs;
        self.join(&move |runs, damaged| due(runs, damaged, limit))
    }

    /// Joins all existing runs, so that no file holds a key that was removed before the call;
    /// newer runs only if they come between. Returns the numbers of runs that may still hold one:
    /// damage or a full disk kept them from being joined, or a backup holds them.
    ///
    /// # Errors
    /// `Io`; those of a checkpoint.
    pub(crate) fn join_all(&self) -> Result<Vec<u64>> {
        let mut left = lock(&self.checkpointer).segment_table.key_runs().len();
        while left > 1 {
            let some = left.min(WIDEST);
            match self.join(&move |runs, _| &runs[..runs.len().min(some)]) {
                Ok(true) => left -= some - 1,
                Ok(false) => break,
                Err(e) if damaged(&e).is_some() => break,
                Err(e) => return Err(e),
            }
        }
        let c = lock(&self.checkpointer);
        let named = c.segment_table.key_runs();
        let unjoined = if left > 1 && named.len() > 1 { named } else { &[] };
        Ok(unjoined.iter().map(|run| run.number).chain(c.left_runs.iter().copied()).collect())
    }

    /// Joins the chosen consecutive runs.
    fn join(&self, choose: &Choose) -> Result<bool> {
        let _turn = lock(&self.joining);
        let (runs, number) = {
            let mut c = lock(&self.checkpointer);
            self.reading.check_open()?;
            self.writing.poisoned().check()?;
            let Some(named) = &c.segment_table.order else { return Ok(false) };
            let (runs, number) = (choose(&named.runs, &c.damaged_runs).to_vec(), named.next);
            if runs.len() < 2 || runs.iter().map(|run| run.pages).sum::<u64>() > PAGES_MAX || !self.has_room(&runs) {
                return Ok(false);
            }
            c.joined.clone_from(&runs);
            (runs, number)
        };
        let written = self.write_joined(&runs, number);
        let mut c = lock(&self.checkpointer);
        c.joined.clear();
        if let Err(e) = &written {
            c.damaged_runs.extend(damaged(e));
        }
        self.name_joined(&mut c, &runs, written?)
    }

    /// Returns whether the disk has room for the result, in addition to the space that puts need.
    fn has_room(&self, runs: &[Info]) -> bool {
        let floor = self.reading.options().free_space_floor;
        let bytes = runs.iter().map(Info::disk_bytes).sum::<u64>();
        floor == 0 || self.reading.dir().free_bytes().is_ok_and(|free| free >= floor.saturating_add(bytes))
    }

    /// Writes the sum of runs, durable except for its name. `None` if their entries all cancel.
    fn write_joined(&self, runs: &[Info], number: u64) -> Result<Option<Info>> {
        let files = self.reading.key_runs();
        let sources = files.open(runs)?.into_iter().map(Source::Run).collect();
        files.write(number, sources, &mut || {
            make_way();
            step();
            if self.reading.closed().load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
        })
    }

    /// Names a run in place of those joined into it.
    fn name_joined(&self, c: &mut Checkpointer, runs: &[Info], written: Option<Info>) -> Result<bool> {
        self.reading.check_open()?;
        self.writing.poisoned().check()?;
        let is_there = c.segment_table.order.as_mut().is_some_and(|named| {
            named.next = named.next.max(written.map_or(0, |run| run.number + 1));
            named.replace(runs, written)
        });
        if !is_there {
            // The order was ended meanwhile.
            written.map_or(Ok(()), |run| self.reading.key_runs().remove(run.number))?;
            return Ok(false);
        }
        c.left_runs.extend(runs.iter().map(|run| run.number));
        c.has_new_runs = true;
        self.commit_alone(c).map(|()| true)
    }
}

/// The runs to join next, neighbours in time; fewer than two if none are due. `limit` runs of a
/// level make one of the next, which holds eight times as much; smaller runs between them are
/// joined too. Excludes damaged runs.
fn due<'r>(runs: &'r [Info], damaged: &BTreeSet<u64>, limit: usize) -> &'r [Info] {
    let (added, removed) = runs.iter().fold((0, 0), |sum, run| (sum.0 + run.added, sum.1 + run.removed));
    // Entries that cancel with a damaged run stay.
    if damaged.is_empty() && removed.saturating_mul(DEAD_SHARE) > added {
        return &runs[..runs.len().min(WIDEST)];
    }
    let runs = runs.rsplit(|run| damaged.contains(&run.number)).next().unwrap_or_default();
    let levels: BTreeSet<u32> = runs.iter().map(level).collect();
    for most in levels {
        let first = runs.len() - runs.iter().rev().take_while(|run| level(run) <= most).count();
        let newest = &runs[first..];
        let pages = newest.iter().map(|run| run.pages).sum::<u64>();
        let is_full = newest.iter().filter(|run| level(run) == most).count() >= limit;
        if is_full || (newest.len() >= limit && pages.ilog2() / 3 > most) {
            return &newest[..newest.len().min(WIDEST)];
        }
    }
    &[]
}

/// Level of a run: the logarithm of its pages to base 8.
fn level(run: &Info) -> u32 {
    run.pages.max(1).ilog2() / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64, pages: u64) -> Info {
        Info { number, leaves: 1, pages, added: 100 * pages, removed: 0 }
    }

    /// Simulates checkpoints that add runs. Returns pages written per page put, and the greatest
    /// number of runs.
    fn cost(pages: impl Iterator<Item = u64>) -> (f64, usize) {
        let (mut runs, mut put, mut written, mut most) = (Vec::new(), 0, 0, 0);
        for (number, pages) in (1..).zip(pages) {
            runs.push(run(number, pages));
            put += pages;
            loop {
                let due = due(&runs, &BTreeSet::new(), 8).to_vec();
                if due.is_empty() {
                    break;
                }
                let sum = due.iter().map(|run| run.pages).sum();
                let first = runs.iter().position(|run| *run == due[0]).unwrap();
                written += sum;
                runs.splice(first..first + due.len(), [Info { number: 0, ..run(number, sum) }]);
                runs.iter_mut().enumerate().for_each(|(nth, run)| run.number = nth as u64);
            }
            most = most.max(runs.len());
        }
        (written as f64 / put as f64, most)
    }

    #[test]
    fn a_page_is_written_about_once_a_level_and_runs_stay_few() {
        for (pages, count) in [(1100, 660), (5000, 2000), (1, 5000)] {
            let (written, most) = cost((0..count).map(|_| pages));
            assert!(written < 4.5 && most < 50, "{pages} pages: {written}, {most}");
        }
        let mut random = fastrand::Rng::with_seed(1);
        let (written, most) = cost(std::iter::repeat_with(|| 1 << random.u32(..12)).take(3000));
        assert!(written < 4.5 && most < 50, "{written}, {most}");
    }

    #[test]
    fn few_are_left_alone_and_many_are_joined_in_parts() {
        let none = BTreeSet::new();
        assert!(due(&[run(1, 5), run(2, 5)], &none, 4).is_empty());
        assert!(due(&[], &none, 4).is_empty());
        let many: Vec<Info> = (0..1000).map(|number| run(number, 100)).collect();
        assert_eq!(due(&many, &none, 8), &many[..WIDEST]);
        // No damaged run, and none before it.
        assert_eq!(due(&many, &[980].into(), 8), &many[981..]);
    }

    #[test]
    fn runs_of_which_much_is_dead_are_all_joined() {
        let runs = [run(1, 900), Info { removed: 30_000, ..run(2, 3) }];
        assert_eq!(due(&runs, &BTreeSet::new(), 4).len(), 2);
    }
}
