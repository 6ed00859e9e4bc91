//! Counts puts by group of keys and samples the locations of pages, to decide when to make a
//! dictionary, and from which pages.
//!
//! Invariants: memory is bounded, whatever is put; once a group's sample is full, a page allocates
//! nothing; all randomness comes from one fixed seed, so the same puts give the same samples.

use std::collections::BTreeMap;

use crate::format::dictionary::{Facts, ratio};
use crate::format::location::{Location, SizeClass};
use crate::limits::Limits;
use crate::sync::primitive::{AtomicBool, Ordering};
use crate::sync::{Ranked, lock, rank};

/// Groups counted at a time.
const MOST_GROUPS: usize = 2048;
/// Sampled pages of a group, and of the global dictionary.
const GROUP_SPOTS: usize = 256;
const GLOBAL_SPOTS: usize = 2048;
/// Window of the recent ratio, in bytes of bodies: the sums are halved beyond twice this.
const RECENT_BYTES: u64 = 8 << 20;
/// A recent ratio this much worse than the trial's calls for a new dictionary.
const DRIFT: f64 = 1.15;
/// A dictionary of fewer pages than this is made again once there are [`GROWTH`] times as many.
pub(crate) const FEW_PAGES: u64 = 2048;
const GROWTH: u64 = 8;
/// The longest wait between two attempts, in pages.
const LONGEST_WAIT: u64 = 1 << 20;

/// A page that was put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    pub(crate) location: Location,
    pub(crate) size: SizeClass,
    pub(crate) raw_bytes: u64,
    pub(crate) stored_bytes: u64,
}

/// A group's dictionary: the pages sampled for it, and its ratio then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trained {
    pub(crate) pages: u64,
    pub(crate) ratio: f64,
}

impl From<&Facts> for Trained {
    fn from(facts: &Facts) -> Trained {
        Trained { pages: u64::from(facts.pages), ratio: ratio(facts.body_ppm) }
    }
}

/// Result of an attempt to make a dictionary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Attempt {
    /// A dictionary was made.
    Made(Trained),
    /// A new dictionary of this many pages is no better than the current one, whose ratio this is.
    Stands(Trained),
    /// None pays yet, or none can be made.
    Nothing,
}

/// A group that should get a dictionary, with its sample.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) group: Vec<u8>,
    pub(crate) spots: Vec<(Location, SizeClass)>,
    /// Bytes of bodies put since the group's first page, or since its dictionary of many pages was
    /// made.
    pub(crate) raw_bytes: u64,
    /// Pages put since the group's first: the population of the sample.
    pub(crate) pages: u64,
}

#[derive(Debug, Default)]
struct Group {
    name: Vec<u8>,
    trained: Option<Trained>,
    /// Ratio of the current dictionary when a new one, of many pages, was no better.
    stands: Option<f64>,
    spots: Vec<u64>,
    /// Bytes of bodies since the first page, or since a dictionary of many pages was made.
    raw_bytes: u64,
    /// Pages since the first page.
    seen: u64,
    /// Pages since the last attempt.
    pages: u64,
    /// Pages before the next attempt.
    wait: u64,
    recent_raw: u64,
    recent_stored: u64,
}

impl Group {
    fn new(name: &[u8], trained: Option<Trained>, first: u64) -> Group {
        // A newly opened store treats its dictionaries as if made now.
        let wait = trained.map_or(first, |t| (GROWTH * t.pages).max(first));
        Group { name: name.to_vec(), trained, wait, ..Group::default() }
    }

    fn add(&mut self, page: &Noted, most: usize, random: &mut u64) {
        self.seen += 1;
        self.pages += 1;
        self.raw_bytes += page.raw_bytes;
        self.recent_raw += page.raw_bytes;
        self.recent_stored += page.stored_bytes;
        if self.recent_raw > 2 * RECENT_BYTES {
            (self.recent_raw, self.recent_stored) = (self.recent_raw / 2, self.recent_stored / 2);
        }
        let spot = page.location.pack() << 8 | u64::from(page.size.0);
        if self.spots.len() < most {
            self.spots.push(spot);
        } else {
            // Reservoir sampling (Vitter's algorithm R): each page is kept with the same
            // probability.
            let at = below(random, self.pages);
            if let Some(slot) = self.spots.get_mut(at as usize) {
                *slot = spot;
            }
        }
    }

    fn is_due(&self) -> bool {
        if self.pages < self.wait {
            return false;
        }
        match (self.stands, self.trained) {
            (Some(stood), _) => self.has_drifted(stood),
            (None, Some(trained)) => trained.pages < FEW_PAGES || self.has_drifted(trained.ratio),
            (None, None) => true,
        }
    }

    /// Returns true if the recent ratio is clearly worse than `from`. Always true if `from` is so
    /// near 1 that no worse ratio can exist, since nothing is stored longer than it is; the waits,
    /// each twice the one before, then limit the attempts.
    fn has_drifted(&self, from: f64) -> bool {
        let ratio = self.recent_stored as f64 / self.recent_raw.max(1) as f64;
        ratio > DRIFT * from || DRIFT * from >= 1.0
    }

    fn job(&self) -> Job {
        let unpack = |s: &u64| (Location::unpack(s >> 8), SizeClass(*s as u8));
        let spots = self.spots.iter().map(unpack).collect();
        Job { group: self.name.clone(), spots, raw_bytes: self.raw_bytes, pages: self.seen }
    }

    /// Resets the counts after an attempt.
    fn attempted(&mut self, attempt: Attempt) {
        let wait = match attempt {
            Attempt::Made(made) if made.pages < FEW_PAGES => (GROWTH * made.pages).min(FEW_PAGES),
            // At least twice the wait before, up to the longest.
            Attempt::Made(_) => (2 * self.wait).clamp(FEW_PAGES, LONGEST_WAIT),
            // A dictionary that does not pay now will hardly pay soon.
            Attempt::Stands(_) => (2 * self.pages).max(FEW_PAGES).clamp(self.wait, LONGEST_WAIT.max(self.wait)),
            Attempt::Nothing => (2 * self.pages).clamp(self.wait, LONGEST_WAIT.max(self.wait)),
        };
        let (trained, stands) = match attempt {
            Attempt::Made(made) => (Some(made), None),
            Attempt::Stands(tried) if tried.pages >= FEW_PAGES => (self.trained, Some(tried.ratio)),
            Attempt::Stands(_) | Attempt::Nothing => (self.trained, self.stands),
        };
        // A mature dictionary is replaced for its cost on later pages, not on all pages ever put.
        let raw_bytes = if trained.is_some_and(|t| t.pages >= FEW_PAGES) { 0 } else { self.raw_bytes };
        let (name, seen) = (std::mem::take(&mut self.name), self.seen);
        *self = Group { name, trained, stands, wait, raw_bytes, seen, ..Group::default() };
    }
}

#[derive(Debug, Default)]
struct Counts {
    global: Option<Group>,
    /// Groups by hash of their name.
    groups: BTreeMap<u64, Group>,
    random: u64,
}

/// Counts of all groups, and whether a job is due.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: Ranked<{ rank::TALLY }, Counts>,
    due: AtomicBool,
}

/// Pages needed for a first dictionary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Firsts {
    pub(crate) global: u64,
    pub(crate) group: u64,
    /// Groups wait until the global dictionary has been made from this many pages, or has stood
    /// against one that was: before that theirs would have no standard of comparison.
    pub(crate) mature: u64,
}

impl Firsts {
    /// From the engine's limits.
    pub(crate) fn of(limits: &Limits) -> Firsts {
        let mature = if limits.always_train { 0 } else { FEW_PAGES };
        Firsts { global: limits.first_pages, group: limits.group_pages, mature }
    }
}

impl Tally {
    /// Counts a page of a group, given by name and hash; the empty name is not a group. `trained`
    /// returns the dictionary of a group counted for the first time. Returns true if a dictionary
    /// has become due.
    pub(crate) fn note(
        &self,
        group: (&[u8], u64),
        page: &Noted,
        firsts: Firsts,
        trained: impl Fn(&[u8]) -> Option<Trained>,
    ) -> bool {
        let mut held = lock(&self.counts);
        let counts = &mut *held;
        let (name, hash) = group;
        let mut is_due = false;
        let mut has_own = false;
        let is_mature = counts.is_mature(firsts);
        if !name.is_empty() {
            if counts.groups.len() >= MOST_GROUPS && !counts.groups.contains_key(&hash) {
                counts.forget_small_groups();
            }
            if counts.groups.len() < MOST_GROUPS || counts.groups.contains_key(&hash) {
                let new = || Group::new(name, trained(name), firsts.group);
                let group = counts.groups.entry(hash).or_insert_with(new);
                group.add(page, GROUP_SPOTS, &mut counts.random);
                has_own = group.trained.is_some();
                is_due = is_mature && group.is_due();
            }
        }
        if !has_own {
            let global = counts.global.get_or_insert_with(|| Group::new(b"", trained(b""), firsts.global));
            global.add(page, GLOBAL_SPOTS, &mut counts.random);
            is_due |= global.is_due();
        }
        is_due && !self.due.swap(true, Ordering::AcqRel)
    }

    /// Returns the next job, the global dictionary first.
    pub(crate) fn job(&self, firsts: Firsts) -> Option<Job> {
        if !self.due.load(Ordering::Acquire) {
            return None;
        }
        let counts = lock(&self.counts);
        let is_mature = counts.is_mature(firsts);
        let groups = counts.groups.values().filter(|_| is_mature);
        let job = counts.global.iter().chain(groups).find(|g| g.is_due()).map(Group::job);
        if job.is_none() {
            self.due.store(false, Ordering::Release);
        }
        job
    }

    /// Returns the jobs of the global dictionary and of all groups with enough pages, due or not.
    pub(crate) fn all_jobs(&self, firsts: Firsts) -> Vec<Job> {
        let counts = lock(&self.counts);
        let groups = counts.groups.values().filter(|g| g.pages >= firsts.group);
        counts.global.iter().chain(groups).map(Group::job).collect()
    }

    /// Records the result of a job.
    pub(crate) fn done(&self, group: (&[u8], u64), attempt: Attempt) {
        let mut counts = lock(&self.counts);
        let (name, hash) = group;
        let group = if name.is_empty() { counts.global.as_mut() } else { counts.groups.get_mut(&hash) };
        if let Some(group) = group {
            group.attempted(attempt);
        }
    }
}

impl Counts {
    fn is_mature(&self, firsts: Firsts) -> bool {
        let is_mature = |g: &Group| g.stands.is_some() || g.trained.is_some_and(|t| t.pages >= firsts.mature);
        firsts.mature == 0 || self.global.as_ref().is_some_and(is_mature)
    }

    /// Makes room: halves the counts of groups without a dictionary, and drops those that reach 0.
    fn forget_small_groups(&mut self) {
        self.groups.retain(|_, group| {
            if group.trained.is_none() {
                (group.pages, group.raw_bytes) = (group.pages / 2, group.raw_bytes / 2);
                group.spots.truncate(group.pages as usize);
            }
            group.trained.is_some() || group.pages > 0
        });
    }
}

/// A number below `bound`, from SplitMix64.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(z ^ (z >> 31)) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRSTS: Firsts = Firsts { global: 100, group: 40, mature: 0 };

    fn page(i: u64, stored_bytes: u64) -> Noted {
        Noted { location: Location::new(0, 64 * (i + 1)), size: SizeClass(3), raw_bytes: 10_000, stored_bytes }
    }

    fn put(tally: &Tally, group: &[u8], pages: u64, stored_bytes: u64) -> bool {
        let hash = group.iter().fold(1, |h, b| h * 31 + u64::from(*b));
        (0..pages).any(|i| tally.note((group, hash), &page(i, stored_bytes), FIRSTS, |_| None))
    }

    fn hash(group: &[u8]) -> u64 {
        group.iter().fold(1, |h, b| h * 31 + u64::from(*b))
    }

    #[test]
    fn the_first_dictionary_is_due_after_enough_pages_and_the_global_one_comes_first() {
        let tally = Tally::default();
        assert!(!put(&tally, b"a", 39, 2_000));
        assert!(tally.job(FIRSTS).is_none());
        assert!(put(&tally, b"a", 1, 2_000));
        assert_eq!(tally.job(FIRSTS).unwrap().group, b"a");
        tally.done((b"a", hash(b"a")), Attempt::Nothing);
        assert!(tally.job(FIRSTS).is_none(), "what did not pay is left alone for a while");
        assert!(put(&tally, b"", 60, 2_000));
        let job = tally.job(FIRSTS).unwrap();
        assert_eq!((job.group.len(), job.raw_bytes, job.spots.len()), (0, 1_000_000, 100));
    }

    #[test]
    fn drift_calls_for_a_new_dictionary_once_and_not_again_at_once_when_that_does_not_help() {
        let tally = Tally::default();
        assert!(put(&tally, b"", 100, 2_000));
        let trained = Trained { pages: 4096, ratio: 0.1 };
        tally.job(FIRSTS).unwrap();
        tally.done((b"", 0), Attempt::Made(trained));
        assert!(tally.job(FIRSTS).is_none());
        assert!(!put(&tally, b"", 5000, 1_100), "as good as in the trial, or nearly");
        assert!(put(&tally, b"", 5000, 2_000), "twice as large");
        assert_eq!(tally.job(FIRSTS).unwrap().spots.len(), GLOBAL_SPOTS);
        tally.done((b"", 0), Attempt::Nothing);
        assert!(tally.job(FIRSTS).is_none());
        assert!(!put(&tally, b"", 5000, 2_000));
        assert!(put(&tally, b"", 50_000, 2_000), "much later");
    }

    /// A tally whose global dictionary was made from 256 pages at ratio 0.08, and is due again.
    fn made_of_few() -> Tally {
        let tally = Tally::default();
        assert!(put(&tally, b"", 100, 1_000));
        tally.job(FIRSTS).unwrap();
        tally.done((b"", 0), Attempt::Made(Trained { pages: 256, ratio: 0.08 }));
        assert!(tally.job(FIRSTS).is_none());
        assert!(put(&tally, b"", FEW_PAGES, 1_000), "it was made of few");
        tally.job(FIRSTS).unwrap();
        tally
    }

    #[test]
    fn a_dictionary_of_few_pages_that_stands_beside_one_of_many_is_tried_again_when_pages_have_changed_only() {
        let tally = made_of_few();
        tally.done((b"", 0), Attempt::Stands(Trained { pages: FEW_PAGES, ratio: 0.1 }));
        assert!(tally.job(FIRSTS).is_none());
        assert!(!put(&tally, b"", 100 * FEW_PAGES, 1_100), "nothing new to be had");
        assert!(put(&tally, b"", 5000, 2_000), "twice as large");
    }

    #[test]
    fn one_that_stands_beside_one_of_few_says_nothing_however_many_are_put_meanwhile() {
        let tally = made_of_few();
        assert!(!put(&tally, b"", 5 * FEW_PAGES, 1_000), "it is due already");
        tally.done((b"", 0), Attempt::Stands(Trained { pages: FEW_PAGES - 1, ratio: 0.1 }));
        assert!(tally.job(FIRSTS).is_none());
        assert!(put(&tally, b"", 20 * FEW_PAGES, 1_000), "with many, it may be otherwise");
    }

    #[test]
    fn pages_that_hardly_shrink_do_not_hide_those_that_come_later() {
        let tally = made_of_few();
        tally.done((b"", 0), Attempt::Stands(Trained { pages: FEW_PAGES, ratio: 0.98 }));
        assert!(tally.job(FIRSTS).is_none());
        assert!(put(&tally, b"", 10 * FEW_PAGES, 1_000), "others, which do");
        tally.job(FIRSTS).unwrap();
        tally.done((b"", 0), Attempt::Made(Trained { pages: 10 * FEW_PAGES, ratio: 0.9 }));
        assert!(tally.job(FIRSTS).is_none());
        assert!(put(&tally, b"", 40 * FEW_PAGES, 1_000), "and so with what was made of both");
    }

    #[test]
    fn groups_wait_for_a_global_dictionary_of_many_pages_or_one_that_stood_beside_it() {
        let firsts = Firsts { mature: FEW_PAGES, ..FIRSTS };
        for attempt in [Attempt::Made, Attempt::Stands] {
            let tally = made_of_few();
            put(&tally, b"host", 100, 1_000);
            let jobs = || tally.job(firsts).map(|job| job.group);
            assert_eq!(jobs(), Some(Vec::new()));
            tally.done((b"", 0), attempt(Trained { pages: FEW_PAGES, ratio: 0.08 }));
            assert_eq!(jobs(), Some(b"host".to_vec()));
        }
        let tally = made_of_few();
        put(&tally, b"host", 100, 1_000);
        tally.done((b"", 0), Attempt::Nothing);
        assert!(tally.job(firsts).is_none());
    }

    #[test]
    fn memory_is_bounded_however_many_groups_there_are() {
        let tally = Tally::default();
        for i in 0..10_000u64 {
            tally.note((&i.to_le_bytes(), i), &page(i, 5_000), FIRSTS, |_| None);
            // A group with constant puts stays.
            tally.note((b"large", u64::MAX), &page(i, 5_000), FIRSTS, |_| None);
        }
        let counts = lock(&tally.counts);
        assert!(counts.groups.len() <= MOST_GROUPS);
        assert!(counts.groups[&u64::MAX].pages > 1000);
        assert_eq!(counts.groups[&u64::MAX].spots.len(), GROUP_SPOTS);
        assert_eq!(counts.global.as_ref().unwrap().spots.len(), GLOBAL_SPOTS);
    }

    #[test]
    fn the_same_puts_give_the_same_samples() {
        let samples = || {
            let tally = Tally::default();
            put(&tally, b"host", 5_000, 3_000);
            tally.all_jobs(FIRSTS).into_iter().map(|j| j.spots).collect::<Vec<_>>()
        };
        assert_eq!(samples(), samples());
    }
}
