//! Live bytes by age, in bounded memory. A prune by size uses them to find the version before
//! which a given number of bytes lies.
//!
//! Versions are ordered by time, then sequence, and counted in steps of that order. A step covers
//! one version at first; whenever there are too many steps, each is made twice as long. A second
//! count within one step refines it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::handle::retention::Dropped;
use crate::record::Version;

/// Greatest number of steps.
const MOST_STEPS: usize = 1 << 18;

/// Position of a version in the order of all possible versions.
fn place(version: Version) -> u128 {
    let time = version.time_ms.cast_unsigned() ^ 1 << 63;
    u128::from(time) << 64 | u128::from(version.sequence)
}

fn version(place: u128) -> Version {
    Version { time_ms: ((place >> 64) as u64 ^ 1 << 63).cast_signed(), sequence: place as u64 }
}

/// Counts versions and bytes by step of age.
#[derive(Debug)]
pub(super) struct Ages {
    /// The positions counted in steps.
    range: RangeInclusive<u128>,
    shift: u32,
    most_steps: usize,
    steps: BTreeMap<u128, Dropped>,
    before: Dropped,
    after: Dropped,
}

/// The step in which a byte count is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    range: RangeInclusive<u128>,
    /// A count of this step alone may be more exact.
    pub(super) is_coarse: bool,
}

impl Step {
    /// The first version after the step.
    pub(super) fn cut(&self) -> Version {
        version(self.range.end().saturating_add(1))
    }
}

impl Ages {
    /// Counts all versions.
    pub(super) fn new() -> Ages {
        Ages::of(0..=u128::MAX, MOST_STEPS)
    }

    /// Counts the versions of one step.
    pub(super) fn within(step: &Step) -> Ages {
        Ages::of(step.range.clone(), MOST_STEPS)
    }

    fn of(range: RangeInclusive<u128>, most_steps: usize) -> Ages {
        let none = Dropped::default();
        Ages { range, shift: 0, most_steps, steps: BTreeMap::new(), before: none, after: none }
    }

    /// Adds a version and its bytes.
    pub(super) fn add(&mut self, version: Version, what: Dropped) {
        let place = place(version);
        if place < *self.range.start() {
            return self.before.add(what);
        }
        if place > *self.range.end() {
            return self.after.add(what);
        }
        self.steps.entry(place >> self.shift).or_default().add(what);
        while self.steps.len() > self.most_steps {
            self.shift += 1;
            for (step, what) in std::mem::take(&mut self.steps) {
                self.steps.entry(step >> 1).or_default().add(what);
            }
        }
    }

    /// The step in which the sum reaches `bytes`; `None` if the total is less.
    pub(super) fn step(&self, bytes: u64) -> Option<Step> {
        let mut sum = self.before.bytes;
        for (step, what) in &self.steps {
            sum += what.bytes;
            if sum >= bytes {
                let start = step << self.shift;
                let range = start..=start + ((1 << self.shift) - 1);
                return Some(Step { range, is_coarse: self.shift > 0 && what.versions > 1 });
            }
        }
        None
    }

    /// Sum of everything up to the end of a step.
    pub(super) fn until(&self, step: &Step) -> Dropped {
        let mut sum = self.before;
        self.steps.iter().filter(|(s, _)| *s << self.shift <= *step.range.end()).for_each(|(_, what)| sum.add(*what));
        sum
    }

    /// Sum of all versions.
    pub(super) fn all(&self) -> Dropped {
        let mut sum = self.before;
        self.steps.values().for_each(|what| sum.add(*what));
        sum.add(self.after);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: u64) -> Dropped {
        Dropped { versions: 1, bytes, ..Dropped::default() }
    }

    fn at(time_ms: i64, sequence: u64) -> Version {
        Version { time_ms, sequence }
    }

    #[test]
    fn a_cut_comes_after_as_many_bytes_as_are_wanted_and_no_version_more() {
        let mut ages = Ages::new();
        [(-5, 9, 10), (0, 2, 20), (0, 3, 30), (8, 1, 40)]
            .iter()
            .for_each(|&(time, sequence, b)| ages.add(at(time, sequence), bytes(b)));
        let cuts = [(1, at(-5, 10)), (10, at(-5, 10)), (11, at(0, 3)), (30, at(0, 3)), (31, at(0, 4)), (61, at(8, 2))];
        for (wanted, cut) in cuts {
            let step = ages.step(wanted).unwrap();
            assert_eq!((step.cut(), step.is_coarse), (cut, false), "{wanted}");
        }
        assert_eq!(ages.step(101), None);
        assert_eq!(ages.until(&ages.step(31).unwrap()), Dropped { versions: 3, bytes: 60, ..Dropped::default() });
        assert_eq!(ages.all().bytes, 100);
    }

    #[test]
    fn too_many_steps_become_longer_ones_and_a_second_count_tells_what_is_in_one() {
        // Half of the versions share one time, the others are far apart.
        let times = (1..=1000).map(|n| at(0, n)).chain((1..=1000).map(|n| at(n * 977_000, 5000)));
        let all: Vec<Version> = times.chain([at(i64::MIN, 0), at(i64::MAX, u64::MAX)]).collect();
        for wanted in [1, 2, 3, 500, 1001, 1002, 1500, 2002] {
            let mut ages = Ages::of(0..=u128::MAX, 10);
            let (cut, before) = loop {
                all.iter().for_each(|v| ages.add(*v, bytes(1)));
                assert!(ages.steps.len() <= 10);
                assert_eq!(ages.all(), Dropped { versions: 2002, bytes: 2002, ..Dropped::default() });
                let step = ages.step(wanted).unwrap();
                if !step.is_coarse {
                    break (step.cut(), ages.until(&step));
                }
                ages = Ages::of(step.range, 10);
            };
            assert_eq!(before.bytes, wanted);
            // No version follows the greatest one.
            let last = u64::from(wanted == 2002);
            assert_eq!(all.iter().filter(|v| **v < cut).count() as u64 + last, wanted);
        }
    }
}
