//! Power losses at any moment, kills, and calls that fail.

use std::collections::BTreeMap;
use std::sync::Mutex;

use filemap_io::StorageError;
use filemap_io::sim::{Failure, Fault, Level, Loss};

use super::failpoint::{Failpoint, plant};
use super::*;

/// Result of a check; the error describes what is wrong.
type Judged<T> = std::result::Result<T, String>;

/// Knowledge of the URLs at a moment: those whose last change is synced, and whether they are in
/// the set; and those changed since, which may be either.
#[derive(Clone, Debug, Default)]
struct Known {
    synced: BTreeMap<u64, bool>,
    since: BTreeMap<u64, bool>,
}

impl Known {
    fn change(&mut self, i: u64, is_there: bool) {
        self.since.insert(i, is_there);
    }

    fn sync(&mut self) {
        let since = std::mem::take(&mut self.since);
        self.synced.extend(since);
    }

    /// Describes what is wrong with a set that a crash left.
    fn judge(&self, disk: &SimDisk) -> Judged<()> {
        let set =
            DiskUrlSet::open_in(disk.dir(), "seen", options()).map_err(|error| format!("does not open: {error}"))?;
        let mut batch = set.batch();
        (0..URLS).for_each(|i| batch.push(url(i)).expect("room"));
        let answers = set.contains_all(&mut batch).map_err(|error| format!("does not answer: {error}"))?;
        for (i, verdict) in answers.iter().enumerate() {
            let i = i as u64;
            let is_there = !verdict.is_new();
            let was = self.synced.get(&i).copied();
            if is_there != was.unwrap_or(false) && !self.since.contains_key(&i) {
                return Err(format!("URL {i} is there: {is_there}, synced was {was:?}"));
            }
        }
        let there = answers.iter().filter(|verdict| !verdict.is_new()).count() as u64;
        if set.len() != there {
            return Err(format!("it counts {} URLs and has {there}", set.len()));
        }
        // The set still takes URLs, and the crash's leftovers are removed.
        let names = disk.names();
        let strangers = names.iter().filter(|name| name.ends_with(".run")).count() as u64 - set.disk_stats().runs;
        if strangers > 0 {
            return Err(format!("files are left over: {names:?}"));
        }
        set.insert(&url(URLS)).map_err(|error| format!("takes no more: {error}"))?;
        set.sync().map_err(|error| format!("does not sync: {error}"))
    }
}

const URLS: u64 = 2_500;

/// Runs a set, with crashes at many moments; the error is the first thing that one of them broke.
fn live(seed: u64) -> Judged<u64> {
    let disk = SimDisk::new(seed);
    let mut rng = fastrand::Rng::with_seed(seed);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    let known = Arc::new(Mutex::new(Known::default()));
    let broken = Arc::new(Mutex::new((None, 0u64)));
    let (known_then, broken_then, mut chance) = (Arc::clone(&known), Arc::clone(&broken), rng.fork());
    disk.observe(Some(Box::new(move |snapshot| {
        let mut broken = broken_then.lock().expect("one thread");
        // A roll makes about 18 calls; between two of them only the disk changes.
        if broken.0.is_some() || chance.u8(..4) > 0 {
            return;
        }
        let level = if chance.bool() { Level::Adversarial } else { Level::Ordered };
        let (loss, number) = (Loss::ALL[chance.usize(..4)], chance.u64(..));
        let image = if chance.u8(..5) == 0 { snapshot.kill() } else { snapshot.crash(level, loss, number) };
        let judged = known_then.lock().expect("one thread").judge(&image);
        broken.1 += 1;
        broken.0 =
            judged.err().map(|what| format!("seed {seed}, call {}, {level:?} {loss:?}: {what}", snapshot.calls()));
    })));
    for _ in 0..40 {
        match rng.u8(..8) {
            0..3 => {
                for _ in 0..rng.u64(1..60) {
                    let i = rng.u64(..URLS);
                    known.lock().expect("one thread").change(i, true);
                    set.insert(&url(i)).expect("inserted");
                }
            }
            3 => {
                for _ in 0..rng.u64(1..30) {
                    let i = rng.u64(..URLS);
                    known.lock().expect("one thread").change(i, false);
                    set.forget(url(i)).expect("forgotten");
                }
            }
            4 | 5 => {
                let (from, count) = (rng.u64(..URLS - 400), rng.u64(1..400));
                (from..from + count).for_each(|i| known.lock().expect("one thread").change(i, true));
                insert_batch(&set, from..from + count);
            }
            _ => {
                set.sync().expect("synced");
                known.lock().expect("one thread").sync();
            }
        }
    }
    disk.observe(None);
    drop(set);
    let (broken, images) = std::mem::take(&mut *broken.lock().expect("one thread"));
    broken.map_or(Ok(images), Err)
}

#[test]
fn nothing_synced_is_forgotten_and_nothing_else_is_seen_whenever_the_power_fails() {
    let mut images = 0;
    for seed in 0..50 {
        images += live(seed).unwrap_or_else(|what| panic!("{what}"));
    }
    assert!(images > 1_000, "{images}");
}

#[test]
fn planted_mistakes_are_found() {
    let mistakes = [
        Failpoint::RunNotSynced,
        Failpoint::NamesNotSynced,
        Failpoint::LogRemovedFirst,
        Failpoint::LogNotSynced,
        Failpoint::LogNotedFirst,
    ];
    for mistake in mistakes {
        plant(Some(mistake));
        let found = (100..160).find_map(|seed| live(seed).err());
        plant(None);
        assert!(found.is_some(), "{mistake:?} was not found");
    }
}

/// Kills a roll at each of its calls, merges included.
#[test]
fn a_merge_that_is_killed_loses_nothing() {
    let disk = SimDisk::new(1);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    insert_batch(&set, 0..1_000);
    insert_batch(&set, 1_000..1_600);
    (1_600..1_700).for_each(|i| assert!(insert(&set, i)));
    set.sync().expect("synced");
    assert_eq!(set.disk_stats().runs, 2);
    let images = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&images);
    disk.observe(Some(Box::new(move |snapshot| {
        let mut taken = taken.lock().expect("one thread");
        taken.push(snapshot.kill());
        for (number, loss) in Loss::ALL.into_iter().enumerate() {
            taken.push(snapshot.crash(Level::Adversarial, loss, snapshot.calls() * 10 + number as u64));
        }
    })));
    insert_batch(&set, 1_700..2_400);
    disk.observe(None);
    assert_eq!(set.disk_stats().runs, 1);
    let images = images.lock().expect("one thread");
    assert!(images.len() > 50, "{}", images.len());
    for image in images.iter() {
        let set = DiskUrlSet::open_in(image.dir(), "seen", options()).expect("opens by itself");
        assert!((0..1_700).all(|i| is_seen(&set, i)));
        let rest = (1_700..2_400).filter(|i| is_seen(&set, *i)).count();
        assert!(rest == 0 || rest == 700, "{rest}");
        assert!((2_400..2_500).all(|i| !is_seen(&set, i)) && set.len() == 1_700 + rest as u64);
    }
}

/// Runs a set in which call `at` fails; returns how often the set took no more URLs then.
fn live_with_failure(at: u64, fault: Fault, forever: bool) -> Judged<u64> {
    let disk = SimDisk::new(at);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    disk.fail(Some(Failure { at: disk.calls() + at, fault, only_syncs: false, forever }));
    let (mut acknowledged, mut synced, mut poisoned) = (0, 0, 0);
    'life: for part in 0..6 {
        for i in part * 100..part * 100 + 100 {
            match set.check_and_insert(&url(i)) {
                Ok(verdict) => assert!(verdict.is_new()),
                Err(_) => break 'life,
            }
            acknowledged = i + 1;
        }
        if set.sync().is_err() {
            break;
        }
        synced = acknowledged;
    }
    if let Err(Error::Storage(StorageError::Poisoned { .. })) = set.check_and_insert(&url(9_000)) {
        poisoned = 1;
        assert!(matches!(set.sync(), Err(Error::Storage(StorageError::Poisoned { .. }))));
        assert!(matches!(set.forget(url(1)), Err(Error::Storage(StorageError::Poisoned { .. }))));
    }
    disk.heal();
    assert!((0..acknowledged).all(|i| is_seen(&set, i)), "call {at} {fault:?}: look-ups go on");
    assert!((acknowledged + 1..acknowledged + 50).all(|i| !is_seen(&set, i)));
    drop(set);
    let judge = |disk: &SimDisk, when: &str| {
        let set = DiskUrlSet::open_in(disk.dir(), "seen", options());
        let set = set.map_err(|error| format!("call {at} {fault:?}, {when}: {error}"))?;
        let lost = (0..synced).find(|i| !is_seen(&set, *i));
        lost.map_or(Ok(()), |i| Err(format!("call {at} {fault:?}, {when}: URL {i} is lost")))
    };
    judge(&disk, "opened again")?;
    // Files removed at the opening must not be ones that an older manifest names, in case it comes
    // back.
    judge(&disk.crash(Level::Adversarial, Loss::Everything, at), "after a crash")?;
    let mut images = (0..8).map(|number| disk.crash(Level::Adversarial, Loss::Random, 8 * at + number));
    images.try_for_each(|image| judge(&image, "after a crash"))?;
    Ok(poisoned)
}

/// Lets each call of a run fail; the error is the first loss, the result how often the set took no
/// more URLs.
fn live_with_failures() -> Judged<u64> {
    let kinds = [(Fault::Eio, false), (Fault::Enospc, true), (Fault::ShortWrite, false)];
    let all = (1..140).flat_map(|at| kinds.map(|(fault, forever)| (at, fault, forever)));
    all.map(|(at, fault, forever)| live_with_failure(at, fault, forever)).sum()
}

/// Whichever call fails, and however: answers stay right, nothing is acknowledged falsely, and the
/// set opens again.
#[test]
fn after_any_failed_call_answers_stay_right_and_nothing_synced_is_lost() {
    let poisoned = live_with_failures().unwrap_or_else(|what| panic!("{what}"));
    assert!(poisoned > 100, "{poisoned}");
    plant(Some(Failpoint::OpenNotSynced));
    let found = live_with_failures();
    plant(None);
    assert!(found.is_err(), "a manifest that is not durable was trusted, and nothing was lost");
}

/// A set that fails to open is unchanged.
#[test]
fn a_set_that_could_not_be_opened_is_opened_later() {
    let disk = SimDisk::new(3);
    let set = DiskUrlSet::create_in(disk.dir(), "seen", options()).expect("made");
    (0..700).for_each(|i| assert!(insert(&set, i)));
    drop(set);
    let mut refused = 0;
    for at in 1..60 {
        disk.fail(Some(Failure { at: disk.calls() + at, fault: Fault::Eio, only_syncs: false, forever: false }));
        refused += u64::from(DiskUrlSet::open_in(disk.dir(), "seen", options()).is_err());
        disk.heal();
    }
    assert!(refused > 10, "{refused}");
    let set = DiskUrlSet::open_in(disk.dir(), "seen", options()).expect("opened");
    assert!((0..700).all(|i| is_seen(&set, i)) && set.len() == 700);
}
