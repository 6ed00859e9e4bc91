//! Fails every call of a string of operations, one run a call, in each way, once or for ever. Of a
//! string with very many calls, it fails those that chance takes.
//!
//! The operation returns an error or does without the call. A handle whose write or sync failed
//! refuses further writes and still reads. Opened again, the store has all that is durable.

use std::sync::{Arc, Mutex};

use filemap_core::{Error, StorageError, sim};
use filemap_io::sim::{Failure, Fault, Level, Loss, SimDisk};

use crate::contents;
use crate::drive::{Driver, Shared, now};
use crate::guard::guarded;
use crate::judge::{self, Depth};
use crate::op::Op;
use crate::trouble::Trouble;
use crate::world::World;
use crate::{Count, Violation};
use filemap_oracle::{After, Oracle};

/// Each way of failing.
pub const WAYS: [(Fault, bool); 7] = [
    (Fault::Eio, false),
    (Fault::Eio, true),
    (Fault::Enospc, false),
    (Fault::Enospc, true),
    (Fault::Eintr, false),
    (Fault::ShortWrite, false),
    (Fault::ShortWrite, true),
];

/// Calls of a string that fail in one way. A run repeats the string up to its call, so that time
/// grows with the square of their number; few strings have more, and those took nine tenths of it.
const MOST_CALLS: usize = 400;

/// Runs the string of a seed once for each of its calls and each of the given ways of failing; of
/// more than 400 calls, for those that chance takes.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64, ways: &[(Fault, bool)]) -> Result<Count, Violation> {
    let (count, result) = run_counted(seed, ways, None);
    result.map(|()| count)
}

/// The same, with a fault planted or without.
pub(crate) fn run_counted(
    seed: u64,
    ways: &[(Fault, bool)],
    fault: Option<sim::Fault>,
) -> (Count, Result<(), Violation>) {
    let mut count = Count { runs: 1, ..Count::default() };
    let result = guarded(fault, || ways.iter().try_for_each(|way| every_call(seed, *way, &mut count)));
    let violation = |what| Violation {
        what,
        repeat: format!("cargo run --release -p filemap-crash -- fail --seed {seed} --runs 1"),
    };
    (count, result.map_err(violation))
}

fn every_call(seed: u64, (fault, forever): (Fault, bool), count: &mut Count) -> Result<(), String> {
    let mut calls = one(seed, fault, None).map_err(|what| format!("no call fails: {what}"))?.refusable;
    count.passed_over += calls.len().saturating_sub(MOST_CALLS) as u64;
    if calls.len() > MOST_CALLS {
        fastrand::Rng::with_seed(seed).shuffle(&mut calls);
        calls.truncate(MOST_CALLS);
    }
    for at in calls {
        let failure = Failure { at, fault, only_syncs: false, forever };
        let ran = one(seed, fault, Some(failure)).map_err(|what| format!("{failure:?}: {what}"))?;
        match ran.states {
            0 => count.passed_over += 1,
            _ => count.failures += 1,
        }
        count.states += ran.states;
    }
    Ok(())
}

/// Result of one run of the string.
struct Ran {
    /// The numbers of its calls that can fail in this way.
    refusable: Vec<u64>,
    /// States judged. None if the call that was to fail did not come: a handle follows its writer
    /// by the clock, too.
    states: u64,
}

/// Runs the string with a call that fails, or none, and judges what is left.
fn one(seed: u64, fault: Fault, failure: Option<Failure>) -> Result<Ran, String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let world = World::random(&mut rng);
    let disk = SimDisk::new(rng.u64(..));
    disk.fail(failure);
    let store = match sim::create(disk.dir(), world.options.clone()) {
        Ok(store) => store,
        Err(e) if disk.failed() == 0 => return Err(format!("create: {e}")),
        Err(_) => {
            disk.fail(None);
            return judge::creation(&disk.kill(), &world).map(|()| Ran { refusable: Vec::new(), states: 1 });
        }
    };
    let shared: Shared = Arc::new(Mutex::new(Arc::new(Oracle::new(world.keep))));
    let mut driver = Driver::new(disk.clone(), world.clone(), store, Arc::clone(&shared), rng.fork());
    let length = rng.usize(4..12);
    let mut has_failed = false;
    for _ in 0..length {
        let op = Op::random(&mut rng, &world, driver.keys.len());
        let result = driver.perform(&op);
        has_failed |= disk.failed() > 0;
        match result {
            Ok(()) => {}
            Err(Trouble::Error(error)) if has_failed => {
                after(&mut driver, &disk, &op, &error).map_err(|e| format!("{op:?}: {e}"))?;
                break;
            }
            Err(e) => return Err(format!("{op:?}: {e}")),
        }
    }
    // Before the store is dropped, which may end with a checkpoint.
    let refusable = disk.refusable(fault);
    if failure.is_some() && !has_failed {
        return Ok(Ran { refusable, states: 0 });
    }
    disk.fail(None);
    let oracle = now(&shared);
    judge::image(&disk.kill(), &world, &oracle, After::PowerLoss, Depth::Verify)?;
    // The cache may hide what the device never got.
    let lost = disk.crash(Level::Adversarial, Loss::Everything, seed);
    judge::image(&lost, &world, &oracle, After::PowerLoss, Depth::Verify)?;
    Ok(Ran { refusable, states: 2 })
}

/// An operation returned an error. Reads continue; and a write or sync that failed has stopped all
/// further ones.
fn after(driver: &mut Driver, disk: &SimDisk, op: &Op, error: &Error) -> Result<(), String> {
    // The device is healthy again: what was poisoned stays so. A list may have met the failure,
    // and not told it yet.
    disk.fail(None);
    driver.forget_list();
    let Ok(store) = driver.store() else { return Ok(()) };
    contents::contents(store, &now(&driver.oracle), After::Kill)
        .map_err(|e| format!("reads after a failed call: {e}"))?;
    let failed = matches!(error, Error::Storage(StorageError::Io { op: "write" | "sync", .. }));
    // What compaction cannot write, nothing leads to: it is given up, and puts continue. An
    // erasure compacts, but writes the log too, and so does the second writer of a handle that is
    // closed; a sync of the directory, or of the superblock that names what is begun, is of
    // either.
    let directory = disk.dir().path().display().to_string();
    let compacts = match (op, error) {
        (Op::Compact | Op::Recompress | Op::StreamOverCompaction { .. }, _) => true,
        (Op::Erase { .. } | Op::CloseInside { .. }, Error::Storage(StorageError::Io { file, .. })) => {
            let is_output = file.starts_with("value") && !sim::has_segment(store, file);
            // An erasure joins runs of keys, too: what it cannot write there stops nothing. What a
            // checkpoint cannot write does.
            let is_joined = matches!(op, Op::Erase { .. }) && file.ends_with(".run") && !sim::is_poisoned(store);
            is_output || is_joined || *file == directory || file == "SUPERBLOCK"
        }
        _ => false,
    };
    // Nor to a dictionary.
    let trains =
        matches!(error, Error::Storage(StorageError::Io { op: "write", file, .. }) if file.ends_with(".zdict.new"));
    let stops = (failed && !compacts && !trains) || matches!(error, Error::Storage(StorageError::Poisoned { .. }));
    if !stops {
        return Ok(());
    }
    for op in [
        Op::Put { key: 0, time_ms: 0, bytes: 9 },
        Op::Sync,
        Op::Checkpoint,
        Op::Stream { key: 0, time_ms: 0, bytes: 9 },
    ] {
        match driver.perform(&op) {
            Err(Trouble::Error(Error::Storage(StorageError::Poisoned { .. }))) => {}
            Ok(()) if op == Op::Sync => return Err(format!("a sync succeeds after {error}")),
            other => return Err(format!("{op:?} after {error}: {other:?}")),
        }
    }
    Ok(())
}
