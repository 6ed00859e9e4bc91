//! Whoever follows the changes of a store: after any crash, compaction or removal it has what the
//! store has, unless it must begin anew.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use filemap_core::changes::{Change, ChangeCursor, Changes};
use filemap_core::erase::Erasure;
use filemap_core::sim::{self, Fault, Limits};
use filemap_core::{Error, Options, Record, Store};
use filemap_io::sim::Fault::Eio;
use filemap_io::sim::{Failure, Level, Loss, SimDisk};

/// Strings of operations that each test runs.
const STRINGS: u64 = 300;
/// Operations of a string.
const LENGTH: usize = 60;

fn options(rng: &mut fastrand::Rng) -> Options {
    let limits = Limits {
        leaf_slots: 2,
        slack_bytes: 0,
        moved_found: rng.usize(1..5),
        key_segment_bytes: 1024,
        ..Limits::default()
    };
    let keep = if rng.bool() { Duration::ZERO } else { Duration::from_secs(3600) };
    crate::with_limits(limits).checkpoint_bytes(4096).keep_removals(keep)
}

/// A version: key and sequence.
type Which = (Vec<u8>, u64);

/// Copy of a follower: time and digest of each version.
#[derive(Debug, Default, PartialEq, Eq)]
struct Copy(BTreeMap<Which, (i64, [u8; 16])>);

impl Copy {
    fn of(store: &Store) -> Copy {
        let row =
            |l: filemap_core::list::Listed| ((l.key, l.head.version.sequence), (l.head.version.time_ms, l.head.digest));
        Copy(store.version_heads().map(|listed| row(listed.unwrap())).collect())
    }

    /// Applies some changes, or all.
    fn apply(&mut self, store: &Store, cursor: &mut ChangeCursor, most: usize) -> Result<(), Error> {
        let mut changes = store.changes(*cursor)?;
        self.take(&mut changes, cursor, most)
    }

    fn take(&mut self, changes: &mut Changes, cursor: &mut ChangeCursor, most: usize) -> Result<(), Error> {
        for change in changes.by_ref().take(most) {
            match change? {
                Change::Put { key, head } => {
                    self.0.insert((key, head.version.sequence), (head.version.time_ms, head.digest));
                }
                Change::Removed { key, version } => {
                    self.0.retain(|(k, sequence), _| *k != key || *sequence > version.sequence);
                }
                Change::Damaged { error, .. } => return Err(error),
                // What an erasure took is nowhere.
                Change::Rules => self.0.retain(|(key, _), _| key != ERASED),
                change => panic!("{change:?}"),
            }
        }
        *cursor = changes.cursor();
        Ok(())
    }
}

const ERASED: &[u8] = b"erased";

/// A store, and who follows it.
struct Run {
    rng: fastrand::Rng,
    disk: SimDisk,
    options: Options,
    store: Store,
    reader: Option<Store>,
    /// Changes of the writer's that were asked for earlier.
    open: Option<Changes>,
    copy: Copy,
    cursor: ChangeCursor,
    /// Number of times that the copy was begun anew.
    anew: usize,
    /// Time of the last put.
    time: i64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (disk, options) = (SimDisk::new(seed), options(&mut rng));
        let store = sim::create(disk.dir(), options.clone()).unwrap();
        let cursor = store.changes_end().unwrap();
        Run { rng, disk, options, store, reader: None, open: None, copy: Copy::default(), cursor, anew: 0, time: 0 }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{}", self.rng.u8(..6)).into_bytes()
    }

    /// Continues where it was, in what was asked for earlier.
    fn go_on(&mut self, most: usize) {
        let mut open = match self.open.take() {
            Some(open) if open.cursor() == self.cursor => open,
            _ => match self.store.changes(self.cursor) {
                Ok(open) => open,
                Err(_) => return,
            },
        };
        if open.renew().is_ok() && self.copy.take(&mut open, &mut self.cursor, most).is_ok() {
            self.open = Some(open);
        }
    }

    /// Applies changes from a handle that writes, or from one that reads beside it.
    fn follow(&mut self, most: usize) {
        let store = match self.rng.u8(..3) {
            0 => &self.store,
            // One that has been open while the writer continued, or one that opens the store now.
            is_old => {
                if is_old == 2 {
                    self.reader.take().into_iter().for_each(sim::abandon);
                }
                let open = || sim::open_read_only(self.disk.dir(), self.options.clone()).unwrap();
                self.reader.get_or_insert_with(open)
            }
        };
        match self.copy.apply(store, &mut self.cursor, most) {
            Err(Error::Outrun { .. }) => {
                self.anew += 1;
                self.cursor = store.changes_end().unwrap();
                self.copy = Copy::of(store);
                // The rest comes as changes, once it is durable.
                self.copy.0.retain(|(_, sequence), _| *sequence < self.cursor.next_sequence());
            }
            applied => applied.unwrap(),
        }
    }

    fn crash(&mut self) {
        let disk = match self.rng.u8(..3) {
            0 => self.disk.kill(),
            _ => {
                let loss = Loss::ALL[self.rng.usize(..Loss::ALL.len())];
                self.disk.crash(Level::Adversarial, loss, self.rng.u64(..))
            }
        };
        self.reader.take().into_iter().for_each(sim::abandon);
        self.open = None;
        let fresh = sim::open(disk.dir(), self.options.clone()).unwrap();
        sim::abandon(std::mem::replace(&mut self.store, fresh));
        self.disk = disk;
    }

    fn step(&mut self) {
        self.time += 1;
        let key = self.key();
        match self.rng.u8(..20) {
            0..=6 => {
                let bytes = self.rng.usize(..700);
                let body: Vec<u8> = (0..bytes).map(|_| self.rng.u8(..)).collect();
                self.store.put(&Record::new(&key, &body).time(self.time)).unwrap();
            }
            7 => {
                self.store.put_if_changed(&Record::new(&key, b"the same").time(self.time)).unwrap();
            }
            8..=9 => {
                self.store.remove(&key).unwrap();
            }
            10 => self.store.sync().unwrap(),
            11 => self.store.checkpoint().unwrap(),
            12..=13 => {
                self.store.compact().unwrap();
            }
            14 => sim::work(&self.store),
            15..=16 => {
                let most = self.rng.usize(..5);
                self.follow(most);
            }
            17 if self.rng.bool() => {
                let most = self.rng.usize(..9);
                self.go_on(most);
            }
            17 => self.follow(usize::MAX),
            18 => self.crash(),
            _ => self.erase(),
        }
    }

    fn erase(&mut self) {
        self.store.put(&Record::new(ERASED, b"for a while").time(self.time)).unwrap();
        if self.rng.bool() {
            self.store.sync().unwrap();
            self.follow(usize::MAX);
        }
        self.store.add_rule(b"what", "why").unwrap();
        let what = Erasure {
            keys: Arc::new(|key| key == ERASED),
            versions: Arc::new(|_, _| true),
            groups: Arc::new(|_| true),
        };
        self.store.erase(&what, &mut |_| ControlFlow::Continue(())).unwrap();
    }

    /// Returns whether the copy is equal in the end.
    fn ends_equal(mut self) -> (bool, usize) {
        (0..LENGTH).for_each(|_| self.step());
        self.store.sync().unwrap();
        self.follow(usize::MAX);
        self.store.sync().unwrap();
        self.follow(usize::MAX);
        let is_equal = self.copy == Copy::of(&self.store);
        self.reader.into_iter().chain([self.store]).for_each(sim::abandon);
        (is_equal, self.anew)
    }
}

#[test]
fn a_copy_by_changes_is_equal_after_any_crash_or_is_begun_anew() {
    let mut anew = 0;
    for seed in 0..STRINGS {
        let (is_equal, times) = Run::new(seed).ends_equal();
        assert!(is_equal, "string {seed}");
        anew += times;
    }
    assert!(anew > 0 && (anew as u64) < STRINGS * 10, "{anew} copies were begun anew");
}

/// The strings after which the copy differs, or following fails.
fn wrong(fault: Fault) -> usize {
    let differs = |seed: &u64| {
        sim::plant(Some(fault));
        let ended = std::panic::catch_unwind(|| Run::new(*seed).ends_equal());
        sim::plant(None);
        !ended.is_ok_and(|(is_equal, _)| is_equal)
    };
    (0..STRINGS).filter(differs).count()
}

#[test]
fn planted_faults_make_a_copy_differ() {
    for fault in [Fault::DroppedRemovalsNotTold, Fault::FollowedNotSynced, Fault::MovedNotTold] {
        let wrong = wrong(fault);
        println!("{fault:?}: {wrong} of {STRINGS}");
        assert!(wrong > 0, "{fault:?} is not noticed");
    }
}

/// Versions that a handle reports, that were never synced, and that a power loss takes back.
fn told_and_lost() -> usize {
    let disk = SimDisk::new(3);
    let store = sim::create(disk.dir(), crate::with_limits(Limits::default())).unwrap();
    let (mut copy, mut cursor) = (Copy::default(), store.changes_end().unwrap());
    for nth in 0..3u8 {
        store.put(&Record::new(&[nth], b"not synced")).unwrap();
    }
    copy.apply(&store, &mut cursor, usize::MAX).unwrap();
    let disk = disk.crash(Level::Adversarial, Loss::Everything, 1);
    sim::abandon(store);
    let store = sim::open(disk.dir(), crate::with_limits(Limits::default())).unwrap();
    let kept = Copy::of(&store);
    sim::abandon(store);
    copy.0.keys().filter(|version| !kept.0.contains_key(*version)).count()
}

/// Returns whether a copy lacks a version after a power loss took back the removal because of
/// which it was passed over.
fn lacks_what_came_back() -> bool {
    let disk = SimDisk::new(3);
    let options = || crate::with_limits(Limits::default());
    let store = sim::create(disk.dir(), options()).unwrap();
    let (mut copy, mut cursor) = (Copy::default(), store.changes_end().unwrap());
    store.put(&Record::new(b"key", b"durable")).unwrap();
    store.sync().unwrap();
    store.remove(b"key").unwrap();
    copy.apply(&store, &mut cursor, usize::MAX).unwrap();
    let disk = disk.crash(Level::Adversarial, Loss::Everything, 1);
    sim::abandon(store);
    let store = sim::open(disk.dir(), options()).unwrap();
    copy.apply(&store, &mut cursor, usize::MAX).unwrap();
    let lacks = copy != Copy::of(&store);
    sim::abandon(store);
    lacks
}

#[test]
fn a_version_is_passed_over_only_when_its_removal_is_durable() {
    assert!(!lacks_what_came_back());
    sim::plant(Some(Fault::GoneBelieved));
    let lacks = lacks_what_came_back();
    sim::plant(None);
    assert!(lacks);
}

/// Number of live versions reported if compaction moves the outputs while they are searched.
fn told_while_outputs_move() -> (usize, usize) {
    let disk = SimDisk::new(3);
    let limits = Limits { slack_bytes: 0, ..Limits::default() };
    let options = crate::with_limits(limits).keep_removals(Duration::from_secs(3600));
    let store = sim::create(disk.dir(), options).unwrap();
    let cursor = store.changes_end().unwrap();
    let key = |nth: u8| format!("{nth}").into_bytes();
    for nth in 0..60 {
        store.put(&Record::new(&key(nth), &[nth; 300])).unwrap();
    }
    (0..20).for_each(|nth| assert!(store.remove(&key(nth * 3)).unwrap()));
    store.compact().unwrap();
    let moving = store.clone();
    let mut steps = 0;
    sim::at_steps(Some(Box::new(move || {
        steps += 1;
        if steps == 1 {
            // Those in the first output stay where they are.
            (7..10).for_each(|nth| assert!(moving.remove(&key(nth * 6 + 1)).unwrap()));
            moving.compact().unwrap();
            moving.sync().unwrap();
        }
    })));
    let mut changes = store.changes(cursor).unwrap();
    let mut copy = Copy::default();
    let mut at = cursor;
    let told = copy.take(&mut changes, &mut at, usize::MAX);
    sim::at_steps(None);
    told.unwrap();
    changes.renew().unwrap();
    copy.take(&mut changes, &mut at, usize::MAX).unwrap();
    let (told, live) = (copy.0.len(), Copy::of(&store).0.len());
    sim::abandon(store);
    (told, live)
}

#[test]
fn what_compaction_moves_while_it_is_looked_for_is_told() {
    assert_eq!(told_while_outputs_move(), (37, 37));
    sim::plant(Some(Fault::MovedOnceTold));
    let (told, live) = told_while_outputs_move();
    sim::plant(None);
    assert!(told < live, "{told} of {live}");
}

#[test]
fn nothing_is_told_that_a_power_loss_takes_back() {
    assert_eq!(told_and_lost(), 0);
    sim::plant(Some(Fault::UnsyncedToldOf));
    let lost = told_and_lost();
    sim::plant(None);
    assert_eq!(lost, 3);
}

/// In how many of some crashes after a sync of the writer that failed a copy differs which a
/// reader beside it had told of the unsynced puts.
fn wrong_after_failed_syncs() -> usize {
    let is_wrong = |seed: &u64| {
        let disk = SimDisk::new(*seed);
        let options = || crate::with_limits(Limits::default());
        let store = sim::create(disk.dir(), options()).unwrap();
        let (mut copy, mut cursor) = (Copy::default(), store.changes_end().unwrap());
        let put = |store: &Store, text: &str| {
            for nth in 0..3u8 {
                store.put(&Record::new(format!("{text} {nth}").as_bytes(), &[nth; 600])).unwrap();
            }
        };
        put(&store, "lost");
        disk.fail(Some(Failure { at: disk.calls() + 1, fault: Eio, only_syncs: true, forever: false }));
        assert!(store.sync().is_err());
        let reader = sim::open_read_only(disk.dir(), options()).unwrap();
        copy.apply(&reader, &mut cursor, usize::MAX).unwrap();
        let crashed = disk.crash(Level::Adversarial, Loss::Nothing, *seed);
        [store, reader].into_iter().for_each(sim::abandon);
        let store = sim::open(crashed.dir(), options()).unwrap();
        put(&store, "others");
        store.sync().unwrap();
        let is_told = copy.apply(&store, &mut cursor, usize::MAX).is_ok();
        let differs = is_told && copy != Copy::of(&store);
        sim::abandon(store);
        differs
    };
    (0..STRINGS).filter(is_wrong).count()
}

#[test]
fn after_a_recovery_that_dropped_something_a_copy_is_begun_anew() {
    assert_eq!(wrong_after_failed_syncs(), 0);
    sim::plant(Some(Fault::SameLife));
    let wrong = wrong_after_failed_syncs();
    sim::plant(None);
    assert!(wrong > 0, "the fault is not noticed");
}
