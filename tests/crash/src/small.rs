//! Every string of up to four operations over two keys, with one image of each kind at every call
//! of the last operation that changes the disk, equal ones once. (After CrashMonkey, OSDI 2018:
//! nearly all crash bugs show in workloads of three operations.)

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use filemap_core::sim;
use filemap_io::sim::{Level, Loss, SimDisk};

use crate::contents;
use crate::drive::{Driver, Shared, now};
use crate::judge::{self, Depth};
use crate::op::Op;
use crate::world::World;
use crate::{Count, Violation};
use filemap_oracle::{After, Oracle};

/// The letters of a string: put a, put b, remove a, sync, checkpoint, roll, grow, reopen.
pub const LETTERS: &[u8; 8] = b"abrscRgo";

/// The longest string.
pub const LONGEST: usize = 4;

/// Images at each call: all lost, nothing lost, in two ways something, killed.
const DRAWS: [Option<(Level, Loss)>; 5] = [
    Some((Level::Adversarial, Loss::Everything)),
    Some((Level::Adversarial, Loss::Nothing)),
    Some((Level::Ordered, Loss::Random)),
    Some((Level::Adversarial, Loss::Garbage)),
    None,
];

fn op(letter: u8) -> Op {
    match letter {
        b'a' => Op::Put { key: 0, time_ms: 1, bytes: 20 },
        b'b' => Op::Put { key: 1, time_ms: 1, bytes: 300 },
        b'r' => Op::Remove { key: 0 },
        b's' => Op::Sync,
        b'c' => Op::Checkpoint,
        b'R' => Op::Roll,
        b'g' => Op::Grow,
        _ => Op::Reopen,
    }
}

/// Number of strings.
pub fn strings() -> u64 {
    (1..=LONGEST as u32).map(|n| (LETTERS.len() as u64).pow(n)).sum()
}

/// The string of a number below [`strings`]: the shorter ones first.
pub fn string(mut number: u64) -> String {
    let letters = LETTERS.len() as u64;
    let mut length = 1;
    while number >= letters.pow(length) {
        number -= letters.pow(length);
        length += 1;
    }
    let letter = |at| char::from(LETTERS[(number / letters.pow(at) % letters) as usize]);
    (0..length).rev().map(letter).collect()
}

struct Image {
    disk: SimDisk,
    oracle: Arc<Oracle>,
    after: After,
}

impl Image {
    /// Equal for images of which the judge would say the same. The first image that has an oracle
    /// keeps it, so that its address stays its own.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.after == After::Kill, Arc::as_ptr(&self.oracle)).hash(&mut hasher);
        self.disk.names().iter().for_each(|name| (name, self.disk.bytes(name)).hash(&mut hasher));
        hasher.finish()
    }
}

/// Runs one string.
///
/// # Errors
/// The first violation.
pub fn run(string: &str) -> Result<Count, Violation> {
    let mut count = Count { runs: 1, ..Count::default() };
    run_counted(string, &mut count).map_err(|what| Violation {
        what: format!("{string}: {what}"),
        repeat: format!("cargo run --release -p filemap-crash -- small --string {string}"),
    })?;
    Ok(count)
}

fn run_counted(string: &str, count: &mut Count) -> Result<(), String> {
    let world = World::small();
    let disk = SimDisk::new(7);
    let store = sim::create(disk.dir(), world.options.clone()).map_err(|e| format!("create: {e}"))?;
    let oracle: Shared = Arc::new(Mutex::new(Arc::new(Oracle::new(None))));
    let rng = fastrand::Rng::with_seed(7);
    let mut driver = Driver::new(disk.clone(), world.clone(), store, Arc::clone(&oracle), rng);
    let images = Arc::new(Mutex::new(Vec::new()));
    for (at, letter) in string.bytes().enumerate() {
        if at + 1 == string.len() {
            watch(&disk, &oracle, &images);
        }
        driver.perform(&op(letter)).map_err(|e| format!("{}: {e}", char::from(letter)))?;
    }
    disk.observe(None);
    let images = std::mem::take(&mut *images.lock().unwrap_or_else(PoisonError::into_inner));
    for image in images {
        count.states += 1;
        judge::image(&image.disk, &world, &image.oracle, image.after, Depth::Checkpoint)?;
    }
    contents::contents(driver.store().map_err(|e| e.to_string())?, &now(&oracle), After::Kill)
        .map_err(|e| e.to_string())?;
    Ok(())
}

/// Draws one image of each kind at every call from now on.
fn watch(disk: &SimDisk, oracle: &Shared, images: &Arc<Mutex<Vec<Image>>>) {
    let (oracle, images) = (Arc::clone(oracle), Arc::clone(images));
    let mut seeds = fastrand::Rng::with_seed(11);
    let mut seen = HashSet::new();
    disk.observe(Some(Box::new(move |at| {
        let mut images = images.lock().unwrap_or_else(PoisonError::into_inner);
        for draw in DRAWS {
            let (disk, after) = match draw {
                Some((level, loss)) => (at.crash(level, loss, seeds.u64(..)), After::PowerLoss),
                None => (at.kill(), After::Kill),
            };
            let image = Image { disk, oracle: now(&oracle), after };
            if seen.insert(image.digest()) {
                images.push(image);
            }
        }
    })));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_string_is_met_once() {
        let all: BTreeSet<String> = (0..strings()).map(string).collect();
        assert_eq!((all.len() as u64, strings()), (4680, 4680));
        assert!(all.contains("a") && all.contains("oooo") && all.contains("aRsc"));
    }
}
