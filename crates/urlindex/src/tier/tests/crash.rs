//! Power losses, kills and failed calls, with the exact set and its filter anywhere between old and new.

use std::collections::BTreeMap;

use filemap_io::sim::{Failure, Fault, Level, Loss};

use super::*;
use crate::disk::failpoint::plant;

type Judged<T> = std::result::Result<T, String>;

const URLS: u64 = 1_200;

/// What is known of the URLs: those whose last change is synced and whether they are there, and those that were changed since.
#[derive(Clone, Debug, Default)]
struct Known {
    synced: BTreeMap<u64, bool>,
    since: BTreeMap<u64, bool>,
}

impl Known {
    fn sync(&mut self) {
        let since = std::mem::take(&mut self.since);
        self.synced.extend(since);
    }

    /// What is wrong with the two that a crash left.
    fn judge(&self, disk: &SimDisk, filter: &FrontFilter) -> Judged<()> {
        let open = || TwoTierSet::open(disk.dir(), "seen", options(), filter);
        let set = open().map_err(|error| format!("does not open: {error}"))?;
        let mut there = 0;
        for i in 0..URLS {
            let is_there = is_seen(&set, i);
            let was = self.synced.get(&i).copied().unwrap_or(false);
            if is_there != was && !self.since.contains_key(&i) {
                return Err(format!("URL {i} is there: {is_there}, synced was {was}"));
            }
            there += u64::from(is_there);
        }
        if set.len() != there {
            return Err(format!("it counts {} URLs and {there} are found", set.len()));
        }
        if !filter_has_all(&set) {
            return Err("the filter calls new what the exact set holds".to_owned());
        }
        // What goes on from here must be as good: a second crash on top of the first.
        let (before, more) = ((0..URLS).filter(|i| is_seen(&set, *i)).collect::<Vec<u64>>(), URLS..URLS + 250);
        if more.clone().any(|i| !insert(&set, i)) {
            return Err("a URL that never came is seen".to_owned());
        }
        set.sync().map_err(|error| format!("does not sync: {error}"))?;
        let again = disk.crash(Level::Adversarial, Loss::Random, there);
        drop(set);
        let set = TwoTierSet::open(again.dir(), "seen", options(), filter);
        let set = set.map_err(|error| format!("does not open after a second crash: {error}"))?;
        let lost = before.into_iter().chain(more).find(|i| !is_seen(&set, *i));
        lost.map_or(Ok(()), |i| Err(format!("URL {i} is lost in a second crash")))
    }
}

/// A life with crashes at many of its moments; the first thing that one of them broke, or how many there were.
fn live(seed: u64) -> Judged<u64> {
    let disk = SimDisk::new(seed);
    let mut rng = fastrand::Rng::with_seed(seed);
    let filter = if rng.bool() { bloom() } else { growing() };
    let mut set = TwoTierSet::create(disk.dir(), "seen", options(), &filter).expect("made");
    let known = Arc::new(Mutex::new(Known::default()));
    let broken = Arc::new(Mutex::new((None, 0u64)));
    let (known_then, broken_then, mut chance) = (Arc::clone(&known), Arc::clone(&broken), rng.fork());
    let judged_with = filter.clone();
    disk.observe(Some(Box::new(move |snapshot| {
        let mut broken = broken_then.lock().expect("one thread");
        if broken.0.is_some() || chance.u8(..8) > 0 {
            return;
        }
        let level = if chance.bool() { Level::Adversarial } else { Level::Ordered };
        let (loss, number) = (Loss::ALL[chance.usize(..4)], chance.u64(..));
        let image = if chance.u8(..5) == 0 { snapshot.kill() } else { snapshot.crash(level, loss, number) };
        let judged = known_then.lock().expect("one thread").judge(&image, &judged_with);
        broken.1 += 1;
        broken.0 =
            judged.err().map(|what| format!("seed {seed}, call {}, {level:?} {loss:?}: {what}", snapshot.calls()));
    })));
    for _ in 0..30 {
        match rng.u8(..10) {
            0..4 => {
                for _ in 0..rng.u64(1..80) {
                    let i = rng.u64(..URLS);
                    guard(&known).since.insert(i, true);
                    set.insert(&url(i)).expect("inserted");
                }
            }
            4 => {
                let (from, count) = (rng.u64(..URLS - 300), rng.u64(1..300));
                guard(&known).since.extend((from..from + count).map(|i| (i, true)));
                insert_batch(&set, from..from + count);
            }
            5 => {
                let i = rng.u64(..URLS);
                guard(&known).since.insert(i, false);
                set.exact().forget(&url(i)).expect("forgotten");
            }
            6 => set.save_filter().expect("saved"),
            7 => {
                // Closed, sometimes without its filter, and opened.
                drop(set);
                guard(&known).sync();
                if rng.bool() {
                    disk.remove("seen.filter");
                }
                // With a mistake planted it may be no set any more.
                let opened = TwoTierSet::open(disk.dir(), "seen", options(), &filter);
                set = opened.map_err(|error| format!("seed {seed}: does not open: {error}"))?;
            }
            _ => {
                set.sync().expect("synced");
                guard(&known).sync();
            }
        }
    }
    disk.observe(None);
    drop(set);
    let (broken, images) = std::mem::take(&mut *broken.lock().expect("one thread"));
    broken.map_or(Ok(images), Err)
}

#[test]
fn a_crash_between_filter_and_set_forgets_nothing_and_makes_nothing_seen() {
    let mut images = 0;
    for seed in 0..30 {
        images += live(seed).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(images > 500, "{images}");
}

#[test]
fn planted_mistakes_are_found() {
    for mistake in [Mistake::StampFirst, Mistake::AnyFilterTrusted, Mistake::RunsNotTold] {
        plant(Some(mistake));
        let found = (100..160).find_map(|seed| live(seed).err());
        plant(None);
        assert!(found.is_some(), "{mistake:?} was not found");
    }
}

/// A life in which call `at` fails; whether the set took no more URLs then.
fn live_with_failure(at: u64, fault: Fault, forever: bool) -> Judged<bool> {
    let disk = SimDisk::new(at);
    let filter = if at.is_multiple_of(2) { bloom() } else { growing() };
    let set = TwoTierSet::create(disk.dir(), "seen", options(), &filter).expect("made");
    disk.fail(Some(Failure { at: disk.calls() + at, fault, only_syncs: false, forever }));
    let (mut acknowledged, mut synced) = (0, 0);
    'life: for part in 0..6 {
        for i in part * 100..part * 100 + 100 {
            match set.check_and_insert(&url(i)) {
                Ok(verdict) if verdict.is_new() => acknowledged = i + 1,
                Ok(_) => return Err(format!("call {at} {fault:?}: URL {i} is seen")),
                Err(_) => break 'life,
            }
        }
        if set.sync().is_err() {
            break;
        }
        synced = acknowledged;
    }
    let is_poisoned = matches!(set.check_and_insert(&url(9_000)), Err(Error::Poisoned { .. }));
    disk.heal();
    if let Some(i) = (0..acknowledged).find(|i| !is_seen(&set, *i)) {
        return Err(format!("call {at} {fault:?}: URL {i} was inserted, and is new"));
    }
    drop(set);
    let judge = |disk: &SimDisk, when: &str| {
        let set = TwoTierSet::open(disk.dir(), "seen", options(), &filter);
        let set = set.map_err(|error| format!("call {at} {fault:?}, {when}: {error}"))?;
        let lost = (0..synced).find(|i| !is_seen(&set, *i));
        lost.map_or(Ok(()), |i| Err(format!("call {at} {fault:?}, {when}: URL {i} is lost")))
    };
    judge(&disk, "opened again")?;
    let mut images = (0..6).map(|number| disk.crash(Level::Adversarial, Loss::Random, 6 * at + number));
    images.try_for_each(|image| judge(&image, "after a crash"))?;
    Ok(is_poisoned)
}

/// The failures of each call of a life: the first that something was lost by, and how often the set took no more URLs.
fn live_with_failures() -> Judged<u64> {
    let kinds = [(Fault::Eio, false), (Fault::Enospc, true), (Fault::ShortWrite, false)];
    let all = (1..140).flat_map(|at| kinds.map(|(fault, forever)| (at, fault, forever)));
    all.map(|(at, fault, forever)| live_with_failure(at, fault, forever).map(u64::from)).sum()
}

#[test]
fn after_any_failed_call_answers_stay_right_and_nothing_synced_is_lost() {
    let poisoned = live_with_failures().unwrap_or_else(|what| panic!("{what}"));
    assert!(poisoned > 60, "{poisoned}");
    plant(Some(Mistake::SavingNotMarked));
    let found = live_with_failures();
    plant(None);
    assert!(found.is_err(), "a half-written filter was not told from a whole one, and all was well");
}
