//! Random strings of operations over three generations: a run starts from a crash image of the one
//! before, so that crashes in a recovery occur, and crashes after a recovery that was cut short.

use std::sync::{Arc, Mutex, PoisonError};

use filemap_core::sim::{self, Fault};
use filemap_core::{Error, StorageError};
use filemap_io::sim::{Level, Loss, SimDisk, Snapshot};

use crate::contents;
use crate::drive::{Driver, Shared, now, random_failure};
use crate::guard::guarded;
use crate::judge::{self, Depth};
use crate::op::Op;
use crate::trouble::Trouble;
use crate::world::{Mood, World, choice};
use crate::{Count, Violation, failing, vanish};
use filemap_oracle::{After, Oracle};

/// Generations of one run.
const GENERATIONS: usize = 3;

/// States of a run after which it continues from half as many of its images, after twice as many
/// from a third, and so on.
const MANY_STATES: u64 = 300;

/// Images of one operation that are judged. One that compacts in many runs has a thousand, and
/// took ten minutes and 7 GB: other strings find more.
const MOST_IMAGES: usize = 160;

/// An image, and what may be read of it.
struct Image {
    disk: SimDisk,
    /// `None` while the store is created.
    oracle: Option<Arc<Oracle>>,
    after: After,
    in_recovery: bool,
    /// A kill at a moment that a later crash can make worse: the run should continue from here.
    aimed: bool,
}

/// State of a disk's observer.
struct Watch {
    rng: fastrand::Rng,
    /// Draws at one call in this many.
    one_in: usize,
    after: After,
    in_recovery: bool,
    oracle: Option<Shared>,
    mood: Mood,
    images: Vec<Image>,
}

impl Watch {
    fn look(&mut self, at: &Snapshot<'_>) {
        match self.oracle {
            // A creation is short, and comes once in a run.
            None => (0..2).for_each(|_| self.draw(at)),
            Some(_) if self.rng.usize(..self.one_in) == 0 => self.draw(at),
            Some(_) => {}
        }
    }

    fn draw(&mut self, at: &Snapshot<'_>) {
        let oracle = self.oracle.as_ref().map(now);
        let seed = self.rng.u64(..);
        // What recovery must sync before it builds on it exists at few moments, so kills are aimed
        // there.
        let aimed = (at.is_dirty("SUPERBLOCK") || at.has_new_names())
            && self.rng.u8(..4) <= u8::from(self.mood == Mood::Kills) * 2;
        let (disk, after) = match self.rng.u8(..8) {
            // What an earlier power loss took stays lost.
            draw if aimed || draw == 0 => (at.kill(), if at.has_failed() { After::PowerLoss } else { self.after }),
            draw => {
                let level = if draw % 2 == 0 { Level::Ordered } else { Level::Adversarial };
                let loss = *choice(&mut self.rng, &Loss::ALL);
                let (level, loss) = match self.mood {
                    Mood::Garbage => (Level::Adversarial, Loss::Garbage),
                    _ => (level, loss),
                };
                (at.crash(level, loss, seed), After::PowerLoss)
            }
        };
        self.images.push(Image { disk, oracle, after, in_recovery: self.in_recovery, aimed });
    }
}

/// One run.
struct Run {
    world: World,
    rng: fastrand::Rng,
    count: Count,
    /// States after which it ends.
    most_states: u64,
}

/// Runs the string of one seed, with a fault planted or without.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<Count, Violation> {
    let (count, result) = run_counted(seed, fault, u64::MAX);
    result.map(|()| count)
}

/// Runs the beginning of a seed's string, up to a number of states: the images of a run become
/// large, and what a run of thousands takes is better spent on other seeds.
///
/// # Errors
/// The first violation.
pub fn begin(seed: u64, states: u64) -> Result<Count, Violation> {
    let (count, result) = run_counted(seed, None, states);
    result.map(|()| count)
}

fn run_counted(seed: u64, fault: Option<Fault>, most_states: u64) -> (Count, Result<(), Violation>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::random(&mut rng);
    let disk = SimDisk::new(rng.u64(..));
    let mut run = Run { world, rng, count: Count { runs: 1, ..Count::default() }, most_states };
    let result = guarded(fault, || run.generation(0, disk, None, After::Kill));
    let violation = |what| Violation {
        what: format!("{what} ({} states before)", run.count.states),
        repeat: format!("cargo run --release -p filemap-crash -- hunt --seed {seed} --runs 1"),
    };
    let result = result.map_err(violation);
    (run.count, result)
}

/// The catch of a planted fault.
#[derive(Debug, PartialEq, Eq)]
pub struct Catch {
    /// The seed of the run that showed it.
    pub seed: u64,
    /// The states that were judged until then, those of earlier seeds included.
    pub states: u64,
    /// The violation that showed it.
    pub violation: Violation,
}

/// Hunts from a seed on with a fault planted, until it shows or this number of states was judged.
pub fn catch(fault: Fault, first_seed: u64, states: u64) -> Option<Catch> {
    let mut count = Count::default();
    for seed in first_seed.. {
        // In turns with the calls that fail, of which each string has hundreds, and that take as
        // many runs.
        let (run, result) = match seed % 8 {
            3 => failing::run_counted(seed, &failing::WAYS, Some(fault)),
            _ => run_counted(seed, Some(fault), u64::MAX),
        };
        count.add(run);
        if let Err(violation) = result {
            return (count.states <= states).then_some(Catch { seed, states: count.states, violation });
        }
        if count.states > states {
            return None;
        }
    }
    None
}

impl Run {
    /// Opens (or, without an oracle, creates) a store on a disk, runs a string on it, and judges
    /// the images drawn.
    fn generation(
        &mut self,
        number: usize,
        disk: SimDisk,
        oracle: Option<Arc<Oracle>>,
        after: After,
    ) -> Result<(), String> {
        let shared: Option<Shared> = oracle.clone().map(|o| Arc::new(Mutex::new(o)));
        let watch = Arc::new(Mutex::new(Watch {
            rng: self.rng.fork(),
            one_in: if number == 0 { 8 } else { 4 },
            after,
            in_recovery: oracle.is_some(),
            oracle: shared.clone(),
            mood: self.world.mood,
            images: Vec::new(),
        }));
        let watcher = Arc::clone(&watch);
        disk.observe(Some(Box::new(move |at| watcher.lock().unwrap_or_else(PoisonError::into_inner).look(at))));
        if self.world.is_traced {
            eprintln!("generation {number}, after {} states, {after:?}", self.count.states);
        }
        let options = self.world.options.clone();
        let (store, shared) = match (oracle, shared) {
            (Some(oracle), Some(shared)) => {
                let store = sim::open(disk.dir(), options).map_err(|e| format!("open: {e}"))?;
                let shown = contents::contents(&store, &oracle, after).map_err(|e| e.to_string())?;
                *shared.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(oracle.rebased(&shown));
                (store, shared)
            }
            _ => {
                let store = sim::create(disk.dir(), options).map_err(|e| format!("create: {e}"))?;
                (store, Arc::new(Mutex::new(Arc::new(Oracle::new(self.world.keep)))))
            }
        };
        self.judge(number, &watch)?;
        {
            let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
            (watch.oracle, watch.in_recovery, watch.after) = (Some(Arc::clone(&shared)), false, After::Kill);
        }
        let mut driver = Driver::new(disk.clone(), self.world.clone(), store, Arc::clone(&shared), self.rng.fork());
        let result = self.string(number, &disk, &mut driver, &watch);
        disk.observe(None);
        result
    }

    fn string(
        &mut self,
        number: usize,
        disk: &SimDisk,
        driver: &mut Driver,
        watch: &Arc<Mutex<Watch>>,
    ) -> Result<(), String> {
        let length = self.rng.usize(if number == 0 { 5..32 } else { 1..8 });
        let fails_at = if self.world.mood == Mood::Failures { self.rng.usize(..length) } else { length };
        let mut is_healed = false;
        for i in 0..length {
            if self.count.states >= self.most_states {
                return Ok(());
            }
            if i == fails_at {
                disk.fail(Some(random_failure(&mut self.rng, disk.calls())));
            }
            let mut op = Op::random(&mut self.rng, &self.world, driver.keys.len());
            if number > 0 && self.rng.u8(..4) <= u8::from(self.world.mood == Mood::Kills) {
                // What an earlier crash has left shows when something is built on it.
                op = choice(&mut self.rng, &[Op::Checkpoint, Op::Grow, Op::Sync]).clone();
            }
            match driver.perform(&op) {
                Ok(()) => {}
                // Sometimes the caller does not give up: nothing that succeeds then may be lost.
                Err(Trouble::Error(Error::Storage(StorageError::Poisoned { .. })))
                    if is_healed && driver.store().is_ok() => {}
                Err(Trouble::Error(_))
                    if disk.failed() > 0 && !is_healed && self.rng.u8(..4) > 0 && driver.store().is_ok() =>
                {
                    is_healed = true;
                    // A list may have met the failure, and not told it yet.
                    driver.forget_list();
                    disk.heal();
                }
                Err(Trouble::Error(_)) if disk.failed() > 0 && (!is_healed || driver.store().is_err()) => {
                    self.count.failures += 1;
                    self.judge(number, watch)?;
                    return self.after_failure(number, disk, driver);
                }
                Err(Trouble::Error(e)) => return Err(format!("{op:?}: {e}")),
                Err(Trouble::Wrong(what)) => return Err(format!("{op:?}: {what}")),
            }
            self.judge(number, watch)?;
        }
        if self.count.states >= self.most_states {
            return Ok(());
        }
        if disk.failed() > 0 {
            return self.after_failure(number, disk, driver);
        }
        disk.fail(None);
        driver.end_list().map_err(|e| format!("a list that ends: {e}"))?;
        let shown = driver.store().and_then(|s| contents::contents(s, &now(&driver.oracle), After::Kill));
        shown.map_err(|e| e.to_string())?;
        // A string's end is where most has been removed, moved and dropped: its log alone must
        // tell all of that.
        disk.observe(None);
        self.count.states += 1;
        let depth = Depth::Repair(self.count.states);
        judge::image(&disk.kill(), &self.world, &now(&driver.oracle), After::Kill, depth)
    }

    /// A call failed. Reads continue; the store opens again on what the failure left, with all
    /// that is durable.
    fn after_failure(&mut self, number: usize, disk: &SimDisk, driver: &Driver) -> Result<(), String> {
        disk.fail(None);
        disk.observe(None);
        let oracle = now(&driver.oracle);
        if let Ok(store) = driver.store() {
            contents::contents(store, &oracle, After::Kill).map_err(|e| format!("reads after a failed call: {e}"))?;
        }
        let (next, after) = (disk.kill(), After::PowerLoss);
        if number + 1 < GENERATIONS {
            return self.generation(number + 1, next, Some(oracle), after);
        }
        self.state(number, Image { disk: next, oracle: Some(oracle), after, in_recovery: false, aimed: false })
    }

    /// Judges the images that were drawn since, or of very many those that chance takes.
    fn judge(&mut self, number: usize, watch: &Arc<Mutex<Watch>>) -> Result<(), String> {
        let mut images = std::mem::take(&mut watch.lock().unwrap_or_else(PoisonError::into_inner).images);
        while images.len() > MOST_IMAGES {
            images.remove(self.rng.usize(..images.len()));
        }
        images.into_iter().try_for_each(|image| self.state(number, image))
    }

    fn state(&mut self, number: usize, image: Image) -> Result<(), String> {
        if self.count.states >= self.most_states {
            return Ok(());
        }
        self.count.states += 1;
        self.count.in_recovery += u64::from(image.in_recovery);
        let Some(oracle) = image.oracle else {
            let was_born = image.disk.names().contains(&"SUPERBLOCK".to_owned());
            return match was_born && self.rng.bool() {
                true => self.generation(1, image.disk, Some(Arc::new(Oracle::new(self.world.keep))), image.after),
                false => judge::creation(&image.disk, &self.world),
            };
        };
        let goes_on = if image.aimed || image.in_recovery || image.after == After::Kill { 3 } else { 10 };
        // Generations multiply: another string finds more than the 20,000th state of this one.
        let goes_on = goes_on * (1 + self.count.states / MANY_STATES);
        if number + 1 < GENERATIONS && self.rng.u64(..goes_on) == 0 {
            return self.generation(number + 1, image.disk, Some(oracle), image.after);
        }
        let depth = match self.rng.u8(..16) {
            0 => Depth::Repair(self.count.states),
            1..=3 => Depth::Checkpoint,
            _ => Depth::Read,
        };
        if self.rng.u8(..8) == 0 {
            vanish::judged(&image.disk, &self.world, &oracle, self.rng.u64(..))?;
        }
        judge::image(&image.disk, &self.world, &oracle, image.after, depth)
    }
}
