//! Verification of the runs of keys in order: every byte of them, and that they hold exactly the
//! keys of the index.

use std::ops::Bound;

use filemap_runs::ordered::{Direction, Info};

use crate::error::{Error, Result};
use crate::format::key_runs::KeyRuns;
use crate::format::names;
use crate::index::key_runs::{RunKeys, unsound};
use crate::options::KeyOrder;
use crate::upkeep::check::Check;

/// Keys between two cancellation checks.
const SOME_KEYS: u64 = 1 << 16;

impl Check<'_, '_> {
    /// Opens every run.
    pub(super) fn run_heads(&mut self) -> Result<()> {
        for run in self.runs() {
            self.report.files += 1;
            if let Err(e) = self.reading.key_runs().open_anew(&run) {
                self.judge_run(&run, e)?;
            }
        }
        Ok(())
    }

    /// Reads every run, and adds up the hashes of their keys.
    pub(super) fn order(&mut self) -> Result<()> {
        for run in self.runs() {
            self.report.files += 1;
            let verified = self.reading.key_runs().open_anew(&run).and_then(|open| Ok(open.verify()?));
            match verified {
                Err(e) => self.judge_run(&run, e)?,
                Ok(_) => self.read(&names::key_run(run.number), run.disk_bytes())?,
            }
        }
        let order = self.reading.options().key_order;
        match (&self.order, order) {
            (Some(named), Some(order)) if named.order == KeyRuns::order_of(order.name) => {}
            _ => return Ok(()),
        }
        let Some(order) = order.filter(|_| self.report.problems.is_empty()) else { return Ok(()) };
        match self.add_up(order) {
            Ok(sum) => self.run_hashes = Some(sum),
            // The runs may have been joined and removed meanwhile.
            Err(e) if e.is_corrupt() => {
                self.reading.follow_writer()?;
                if self.reading.segment_table().key_runs() == self.runs() {
                    self.judge(names::KEY_RUNS, e)?;
                }
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn runs(&self) -> Vec<Info> {
        self.order.as_ref().map(|named| named.runs.clone()).unwrap_or_default()
    }

    /// Reports a flaw of a run, unless it was joined and removed meanwhile.
    fn judge_run(&mut self, run: &Info, error: Error) -> Result<()> {
        self.reading.follow_writer()?;
        let is_named = self.reading.segment_table().key_runs().contains(run);
        if is_named { self.judge(names::key_run(run.number), error) } else { Ok(()) }
    }

    /// The sum of the hashes of all keys in the runs.
    fn add_up(&mut self, order: KeyOrder) -> Result<u64> {
        let runs = self.reading.key_runs().open(&self.runs())?;
        let mut all = RunKeys::new(runs, Direction::Forward, Bound::Unbounded)?;
        let (mut sum, mut keys, mut key) = (0u64, 0u64, Vec::new());
        while let Some(form) = all.next()? {
            key.clear();
            if !(order.key)(form, &mut key) {
                return Err(unsound("have what is not a key in this order", form));
            }
            all.pass();
            sum = sum.wrapping_add(self.reading.hash(&key));
            keys += 1;
            if keys.is_multiple_of(SOME_KEYS) {
                self.read(names::KEY_RUNS, 0)?;
            }
        }
        Ok(sum)
    }

    /// Compares the runs with the index, which did not change during the pass. The superblock
    /// tells whether keys are not yet in a run.
    pub(super) fn compare_order(&mut self, keys: u64, is_full: bool) {
        let Some(named) = self.order.as_ref().filter(|named| named.behind.is_none()) else { return };
        let in_runs = named.keys();
        let is_same = !is_full || self.run_hashes.is_none_or(|sum| sum == self.head_hashes);
        if in_runs != keys.cast_signed() {
            self.problem(names::KEY_RUNS, 0, format!("the runs have {in_runs} keys, the index has {keys}"));
        } else if !is_same {
            self.problem(names::KEY_RUNS, 0, "the runs have as many keys as the index, but not the same");
        }
    }
}
