//! The oracle of work that follows from a seed. All changes have numbers, which rise; a version's
//! time is the number of its put. So the judge needs to know only how far the work came.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::floor;

/// Progress of the work when a process was killed or the power was lost. Between the two, any part
/// may be there: unsynced writes reach the disk in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// All changes with numbers below this are there.
    pub certain: u64,
    /// No change with a number from here on was begun.
    pub possible: u64,
}

/// The changes between which a reading took place, of work that one thread does and nothing
/// interrupts: the reader meets the state after one of them.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Changes with numbers below this had returned before the reading began.
    pub from: u64,
    /// Changes with numbers from here on had not begun when it ended.
    pub until: u64,
}

/// A change of a key.
#[derive(Clone, Copy, Debug)]
pub struct Change<T> {
    /// Its number.
    pub number: u64,
    /// True for a put, false for a removal.
    pub is_put: bool,
    /// The operation to which it belongs.
    pub of: T,
}

/// The changes of a workload, by key.
#[derive(Clone, Debug)]
pub struct Numbered<K, T>(BTreeMap<K, Vec<Change<T>>>);

impl<K: Ord + Copy + Debug, T> Default for Numbered<K, T> {
    fn default() -> Numbered<K, T> {
        Numbered(BTreeMap::new())
    }
}

impl<K: Ord + Copy + Debug, T> Numbered<K, T> {
    /// Notes a change; its number is higher than those before it.
    pub fn add(&mut self, key: K, change: Change<T>) {
        self.0.entry(key).or_default().push(change);
    }

    /// Keys that have a change, in order.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.0.keys().copied()
    }

    /// Returns whether a key has a change.
    pub fn has(&self, key: K) -> bool {
        self.0.contains_key(&key)
    }

    /// The changes of a key.
    pub fn of(&self, key: K) -> &[Change<T>] {
        self.0.get(&key).map_or(&[][..], Vec::as_slice)
    }

    /// The put of a key that has a number.
    ///
    /// # Errors
    /// When there is none.
    pub fn put(&self, key: K, number: u64) -> Result<&Change<T>, String> {
        let put = self.of(key).iter().find(|c| c.number == number && c.is_put);
        put.ok_or_else(|| format!("{key:?} has version {number}, which nobody put"))
    }

    /// Takes what a crash left of a key as all that there is of it.
    pub fn settle(&mut self, key: K, there: &[u64]) {
        if let Some(changes) = self.0.get_mut(&key) {
            changes.retain(|c| there.contains(&c.number));
            if changes.is_empty() {
                self.0.remove(&key);
            }
        }
    }

    /// Judges the versions of a key after a crash.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn judge(&self, key: K, seen: &[u64], bounds: Bounds) -> Result<(), String> {
        let changes = self.of(key);
        let is_put = |n: u64| n < bounds.possible && changes.iter().any(|c| c.is_put && c.number == n);
        if let Some(n) = seen.iter().find(|&&n| !is_put(n)) {
            return Err(format!("version {n} was never put"));
        }
        let begun = changes.iter().filter(|c| !c.is_put && c.number < bounds.possible);
        floor::fits_some(begun.map(|c| (c.number, c.number < bounds.certain)), |floor| {
            if let Some(n) = seen.iter().find(|&&n| n < floor) {
                return Err(format!("version {n} is back after the removal {}", floor - 1));
            }
            let is_lost = |c: &&Change<T>| c.is_put && (floor..bounds.certain).contains(&c.number);
            match changes.iter().filter(is_lost).find(|c| !seen.contains(&c.number)) {
                Some(lost) => Err(format!("version {} is lost, {seen:?} are there", lost.number)),
                None => Ok(()),
            }
        })
    }

    /// Judges the versions that a history named, newest first.
    ///
    /// # Errors
    /// When the key had them at no moment of the window.
    pub fn judge_history(&self, key: K, seen: &[u64], window: Window) -> Result<(), String> {
        if self.moments(key, window).any(|end| self.versions(key, end).eq(seen.iter().copied())) {
            return Ok(());
        }
        let states: Vec<Vec<u64>> = self.moments(key, window).map(|end| self.versions(key, end).collect()).collect();
        Err(format!("{key:?} has versions {seen:?}, which are those of no moment of {window:?}: {states:?}"))
    }

    /// Judges what a get, a head or `contains` gave: the number of the newest version.
    ///
    /// # Errors
    /// When another was the newest at every moment of the window.
    pub fn judge_newest(&self, key: K, seen: Option<u64>, window: Window) -> Result<(), String> {
        let right = self.moments(key, window).any(|end| self.versions(key, end).next() == seen);
        if right { Ok(()) } else { Err(format!("{key:?} has the newest version {seen:?}, at no moment of {window:?}")) }
    }

    /// Judges whether a list had a key.
    ///
    /// # Errors
    /// When it was not so at any moment of the window.
    pub fn judge_listed(&self, key: K, listed: bool, window: Window) -> Result<(), String> {
        let right = self.moments(key, window).any(|end| self.versions(key, end).next().is_some() == listed);
        let said = if listed { "is listed and was not there" } else { "is not listed and was there" };
        if right { Ok(()) } else { Err(format!("{key:?} {said} in all of {window:?}")) }
    }

    /// Judges that a version was not found.
    ///
    /// # Errors
    /// When it was there at every moment of the window.
    pub fn judge_gone(&self, key: K, number: u64, window: Window) -> Result<(), String> {
        let right = self.moments(key, window).any(|end| self.versions(key, end).all(|n| n != number));
        if right { Ok(()) } else { Err(format!("{key:?}: version {number} cannot be had in {window:?}")) }
    }

    /// The states of the window, one for each change of the key, as the number below which changes
    /// are done.
    fn moments(&self, key: K, window: Window) -> impl Iterator<Item = u64> {
        let changes = self.of(key);
        let first = changes.partition_point(|c| c.number < window.from);
        let within = changes[first..].iter().take_while(move |c| c.number < window.until);
        std::iter::once(window.from).chain(within.map(|c| c.number + 1))
    }

    /// The versions of a key when all changes below a number are done, newest first.
    fn versions(&self, key: K, end: u64) -> impl Iterator<Item = u64> {
        let changes = self.of(key);
        let done = &changes[..changes.partition_point(|c| c.number < end)];
        done.iter().rev().take_while(|c| c.is_put).map(|c| c.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u8 = 1;

    fn life(of: &[(u64, bool)]) -> Numbered<u8, ()> {
        let mut numbered = Numbered::default();
        of.iter().for_each(|&(number, is_put)| numbered.add(KEY, Change { number, is_put, of: () }));
        numbered
    }

    #[test]
    fn every_combination_of_what_is_uncertain_is_legal_and_nothing_else() {
        let life = life(&[(1, true), (2, false), (3, true), (5, true), (6, false), (7, true), (9, true)]);
        let bounds = Bounds { certain: 4, possible: 9 };
        for legal in [&[3][..], &[5, 3], &[7, 5, 3], &[7, 3], &[7], &[]] {
            assert_eq!(life.judge(KEY, legal, bounds), Ok(()), "{legal:?}");
        }
        for (bad, why) in [
            (&[5][..], "3 is lost"),
            (&[7, 5], "3 is lost"),
            (&[3, 1], "1 is back"),
            (&[9, 3], "9 was never put"),
            (&[4, 3], "4 was never put"),
            (&[6, 3], "6 was never put"),
        ] {
            let verdict = life.judge(KEY, bad, bounds);
            assert!(verdict.as_ref().is_err_and(|e| e.contains(why)), "{bad:?}: {verdict:?}");
        }
    }

    #[test]
    fn with_nothing_uncertain_one_set_of_versions_is_legal() {
        let life = life(&[(1, true), (2, false), (3, true), (5, true)]);
        let bounds = Bounds { certain: 6, possible: 6 };
        assert_eq!(life.judge(KEY, &[5, 3], bounds), Ok(()));
        for bad in [&[5][..], &[3], &[], &[5, 3, 1]] {
            assert!(life.judge(KEY, bad, bounds).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_state_of_the_window_is_right_and_any_other_is_told() {
        let life = life(&[(1, true), (3, true), (5, false), (7, true)]);
        let window = Window { from: 4, until: 8 };
        for right in [&[3, 1][..], &[], &[7]] {
            assert_eq!(life.judge_history(KEY, right, window), Ok(()));
            assert_eq!(life.judge_newest(KEY, right.first().copied(), window), Ok(()));
        }
        for wrong in [&[1][..], &[3], &[7, 3, 1], &[1, 3], &[3, 3, 1]] {
            assert!(life.judge_history(KEY, wrong, window).is_err(), "{wrong:?}");
        }
        assert!(life.judge_newest(KEY, Some(1), window).is_err(), "an older version");
        assert!(life.judge_listed(KEY, false, window).is_ok() && life.judge_listed(KEY, true, window).is_ok());
        let still = Window { from: 4, until: 5 };
        assert!(life.judge_listed(KEY, false, still).is_err() && life.judge_history(KEY, &[], still).is_err());
        let never = Window { from: 4, until: 8 };
        assert!(life.judge_listed(2, true, never).is_err());
    }
}
