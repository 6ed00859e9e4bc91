//! The ordered runs that a superblock names, as rows of the segment table: one for the order, then
//! one for each run, oldest first.

use std::collections::BTreeSet;

use filemap_runs::ordered::Info;

use super::Flaw;
use super::row::{ADDED, BEFORE, ENTRIES, FAMILY, LEAVES, ORDER, ORDINAL, PAGES, REMOVED};

/// Family of the row of the order.
pub(crate) const ORDERS: u64 = 4;
/// Family of the rows of runs.
pub(crate) const KEY_RUNS: u64 = 5;
/// Maximum number of runs that a superblock can name; joining keeps the number far below.
pub(crate) const RUNS_MAX: usize = 1 << 14;

/// The ordered runs. Their changes sum to the keys of the index, except for those in `behind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRuns {
    /// Hash of the order's name.
    pub(crate) order: u64,
    /// Greater than the number of any run ever named.
    pub(crate) next: u64,
    /// The table of an unfinished checkpoint, whose keys the runs lack.
    pub(crate) behind: Option<Behind>,
    /// Runs, oldest first.
    pub(crate) runs: Vec<Info>,
}

/// The table of an unfinished checkpoint: its keys may have been added to the index, or removed,
/// without a run that says so. All its entries are in the value log after the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Number of versions and tombstones.
    pub(crate) entries: u64,
    /// Greater than their sequences.
    pub(crate) before: u64,
}

impl KeyRuns {
    /// No runs, in the order of this name; numbers from `next` on are free.
    pub(crate) fn none(name: &str, next: u64) -> KeyRuns {
        KeyRuns { order: KeyRuns::order_of(name), next, behind: None, runs: Vec::new() }
    }

    /// Hash that stands for the name of an order.
    pub(crate) fn order_of(name: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64(name.as_bytes())
    }

    /// Number of keys in the runs.
    pub(crate) fn keys(&self) -> i64 {
        self.runs.iter().map(|run| run.added.cast_signed() - run.removed.cast_signed()).sum()
    }

    /// Replaces the consecutive `runs` by `by`. Returns false if they are not in the list.
    pub(crate) fn replace(&mut self, runs: &[Info], by: Option<Info>) -> bool {
        let first = runs.first().and_then(|first| self.runs.iter().position(|run| run == first));
        let Some(first) = first.filter(|first| self.runs[*first..].starts_with(runs)) else { return false };
        self.runs.splice(first..first + runs.len(), by);
        true
    }

    /// Adds the newest run.
    pub(crate) fn add(&mut self, run: Info) {
        self.next = self.next.max(run.number + 1);
        self.runs.push(run);
    }

    /// Encodes all rows, as words.
    pub(crate) fn encode(&self) -> Vec<u64> {
        let (entries, before) = self.behind.map_or((0, 0), |behind| (behind.entries, behind.before));
        let place = FAMILY.at(ORDERS) | ORDINAL.at(self.next);
        let head = [place, ORDER.at(self.order), ENTRIES.at(entries), BEFORE.at(before)];
        let row = |run: &Info| {
            let place = FAMILY.at(KEY_RUNS) | ORDINAL.at(run.number);
            [place, LEAVES.at(run.leaves) | PAGES.at(run.pages), ADDED.at(run.added), REMOVED.at(run.removed)]
        };
        head.into_iter().chain(self.runs.iter().flat_map(row)).collect()
    }

    /// Decodes the row of the order.
    pub(crate) fn decode(row: &[u64]) -> Result<KeyRuns, Flaw> {
        let behind = Behind { entries: ENTRIES.get(row), before: BEFORE.get(row) };
        if behind.entries > behind.before {
            return Err("invalid row for the order of keys in the segment table");
        }
        let behind = (behind.before > 0).then_some(behind);
        Ok(KeyRuns { order: ORDER.get(row), next: ORDINAL.get(row), behind, runs: Vec::new() })
    }

    /// Decodes the row of a run and appends the run.
    pub(crate) fn decode_run(&mut self, row: &[u64]) -> Result<(), Flaw> {
        let run = Info {
            number: ORDINAL.get(row),
            leaves: LEAVES.get(row),
            pages: PAGES.get(row),
            added: ADDED.get(row),
            removed: REMOVED.get(row),
        };
        if !run.is_possible() || run.number >= self.next || self.runs.len() >= RUNS_MAX {
            return Err("segment table has an impossible ordered run");
        }
        self.runs.push(run);
        Ok(())
    }

    /// Checks what holds for all runs together.
    pub(crate) fn check(&self) -> Result<(), Flaw> {
        let numbers: BTreeSet<u64> = self.runs.iter().map(|run| run.number).collect();
        if numbers.len() < self.runs.len() { Err("segment table has two ordered runs of one number") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::WORDS;
    use super::*;

    fn run(number: u64) -> Info {
        Info { number, leaves: 2, pages: 4, added: 7, removed: 3 }
    }

    #[test]
    fn runs_come_back_and_what_is_none_is_refused() {
        let mut runs = KeyRuns::none("bytes", 1);
        (1..=3).for_each(|number| runs.add(run(number)));
        runs.behind = Some(Behind { entries: 5, before: 9 });
        let words = runs.encode();
        let (head, rows) = words.split_at(WORDS);
        let mut back = KeyRuns::decode(head).unwrap();
        rows.chunks(WORDS).for_each(|row| back.decode_run(row).unwrap());
        assert_eq!((&back, back.keys(), back.check()), (&runs, 12, Ok(())));
        assert_ne!(KeyRuns::order_of("bytes"), KeyRuns::order_of("urls"));

        back.decode_run(&rows[..WORDS]).unwrap();
        assert!(back.check().is_err());
        let changed = |at: usize, word| {
            let mut row = rows[..WORDS].to_vec();
            row[at] = word;
            row
        };
        for wrong in [
            changed(0, FAMILY.at(KEY_RUNS) | 4),
            changed(1, 0),
            changed(2, u64::MAX),
            changed(1, LEAVES.at(9) | PAGES.at(4)),
        ] {
            assert!(KeyRuns { runs: Vec::new(), ..runs.clone() }.decode_run(&wrong).is_err(), "{wrong:?}");
        }
        assert!(KeyRuns::decode(&[head[0], head[1], 2, 1]).is_err());
        assert_eq!(KeyRuns::decode(&[head[0], head[1], 0, 0]).unwrap().behind, None);
    }

    #[test]
    fn neighbours_are_replaced_and_no_others() {
        let mut runs = KeyRuns::none("bytes", 1);
        (1..=4).for_each(|number| runs.add(run(number)));
        assert!(!runs.replace(&[run(1), run(3)], None) && !runs.replace(&[], None));
        assert!(runs.replace(&[run(2), run(3)], Some(run(5))));
        assert_eq!(runs.runs.iter().map(|run| run.number).collect::<Vec<_>>(), [1, 5, 4]);
        assert!(runs.replace(&[run(1), run(5), run(4)], None) && runs.runs.is_empty());
    }
}
