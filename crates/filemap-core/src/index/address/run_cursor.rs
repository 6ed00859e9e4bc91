//! Reads runs in hash order: one run for settling, all runs of a part for checks.

use std::sync::Arc;

use super::Index;
use super::runs::{Run, told, whole_hash};
use super::trouble::Trouble;
use crate::format::run::Change;

/// A cursor over the changes of one run in hash order.
#[derive(Debug)]
pub(super) struct Cursor {
    run: Arc<Run>,
    group: usize,
    /// The next page of the group to read.
    page: usize,
    changes: std::iter::Peekable<std::vec::IntoIter<Change>>,
}

impl Cursor {
    /// A cursor before the first change whose hash bits are `kept` or greater.
    pub(super) fn at(index: &Index, run: &Arc<Run>, kept: u64) -> std::result::Result<Cursor, Trouble> {
        let group = run.group_of(kept);
        let firsts = &index.summary(run, group)?.firsts;
        let page = firsts.partition_point(|first| *first < kept).saturating_sub(1);
        let mut cursor = Cursor { run: Arc::clone(run), group, page, changes: Vec::new().into_iter().peekable() };
        while cursor.peek(index)?.is_some_and(|hash| hash < kept) {
            cursor.changes.next();
        }
        Ok(cursor)
    }

    /// The hash bits of the next change. Prefetches the leaves of the changes in each page that it
    /// reads.
    pub(super) fn peek(&mut self, index: &Index) -> std::result::Result<Option<u64>, Trouble> {
        while self.changes.peek().is_none() && self.group < self.run.groups.len() {
            let changes = index.changes(&self.run, self.group, self.page)?;
            let mut covered = None;
            for change in &changes {
                let hash = whole_hash(self.run.part, change.hash());
                if covered.is_none_or(|last| hash > last) {
                    covered = Some(index.will_need(hash));
                }
            }
            self.changes = changes.into_iter().peekable();
            self.page += 1;
            if self.page >= self.run.pages_of(self.group) {
                (self.group, self.page) = (self.group + 1, 0);
            }
        }
        Ok(self.changes.peek().map(Change::hash))
    }

    /// Appends the next changes, up to the hash bits `last`.
    pub(super) fn take(&mut self, index: &Index, last: u64, to: &mut Vec<Change>) -> std::result::Result<(), Trouble> {
        while self.peek(index)?.is_some_and(|hash| hash <= last) {
            to.extend(self.changes.next());
        }
        Ok(())
    }
}

/// Reads the changes of one part in hash order; each page once if the ranges ascend.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The page read last, for each run.
    last: Vec<Option<Read>>,
}

/// A decoded page.
#[derive(Clone, Debug)]
struct Read {
    page: u32,
    epoch: u64,
    changes: Vec<Change>,
}

impl Scan {
    /// The changes of all runs with hash bits in a range, those of older runs first.
    pub(super) fn changes(
        &mut self,
        index: &Index,
        runs: &[Arc<Run>],
        kept: std::ops::RangeInclusive<u64>,
    ) -> std::result::Result<Vec<Change>, Trouble> {
        self.last.resize(runs.len(), None);
        let mut found = Vec::new();
        for (run, last) in runs.iter().zip(&mut self.last) {
            'run: for nth in run.group_of(*kept.start())..run.groups.len() {
                if run.groups[nth].first > told(*kept.end()) {
                    break;
                }
                let firsts = &index.summary(run, nth)?.firsts;
                let start = firsts.partition_point(|first| first < kept.start()).saturating_sub(1);
                for (page, first) in firsts.iter().enumerate().skip(start) {
                    if first > kept.end() {
                        break 'run;
                    }
                    let (at, epoch) = (run.groups[nth].page + 1 + page as u32, run.epoch);
                    let read = match last {
                        Some(read) if (read.page, read.epoch) == (at, epoch) => read,
                        _ => last.insert(Read { page: at, epoch, changes: index.changes(run, nth, page)? }),
                    };
                    let from = read.changes.partition_point(|c| c.hash() < *kept.start());
                    found.extend(read.changes[from..].iter().take_while(|c| c.hash() <= *kept.end()));
                }
            }
        }
        Ok(found)
    }
}
