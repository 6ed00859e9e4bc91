//! Removes all derived files of a store, repairs it and lets the oracle judge the result.
//! Compaction must have kept every tombstone that hides something, and the repair must find
//! everything else. Repairs are cut short too.

use std::sync::{Arc, Mutex, PoisonError};

use filemap_core::repair::{Loss as Lost, RepairReport};
use filemap_core::sim;
use filemap_io::sim::{Level, Loss, SimDisk};

use crate::contents::contents;
use crate::world::{World, choice};
use filemap_oracle::{After, Oracle};

/// Repairs a copy of a disk whose store is synced, in one of several ways, and judges what comes
/// of it.
///
/// # Errors
/// Says what is wrong.
pub fn repaired(disk: &SimDisk, world: &World, oracle: &Oracle, rng: &mut fastrand::Rng) -> Result<(), String> {
    let oracle = &oracle.repaired();
    let copy = disk.kill();
    let is_derived = |name: &String| name.starts_with("key") || name == "address.idx" || name == "SUPERBLOCK";
    let derived: Vec<String> = copy.names().into_iter().filter(is_derived).collect();
    let is_whole = rng.u8(..4) == 0;
    derived.iter().filter(|_| !is_whole).for_each(|name| copy.remove(name));
    let options = world.options.clone().canonicalizer("bytes", 1);
    if rng.bool() {
        let target = SimDisk::new(rng.u64(..));
        let report = sim::repair(copy.dir(), Some(target.dir()), &options).map_err(|e| format!("repair: {e}"))?;
        check(&report, oracle).map_err(|e| format!("repair: {e}"))?;
        return judge(&target, world, oracle, true);
    }
    let images = watch(&copy, rng.fork());
    let report = sim::repair(copy.dir(), None, &options).map_err(|e| format!("repair in place: {e}"))?;
    copy.observe(None);
    check(&report, oracle).map_err(|e| format!("repair in place: {e}"))?;
    judge(&copy, world, oracle, true)?;
    for image in std::mem::take(&mut *images.lock().unwrap_or_else(PoisonError::into_inner)) {
        // It may have come to its end; if not, it is done again.
        if sim::open_read_only(image.dir(), world.options.clone()).is_err() {
            sim::repair(image.dir(), None, &options).map_err(|e| format!("repair that was cut short: {e}"))?;
        }
        judge(&image, world, oracle, false).map_err(|e| format!("repair that was cut short: {e}"))?;
    }
    Ok(())
}

/// Nothing is lost, but what was dropped: the version that held its body may be lost permanently,
/// and no record says that it is, too.
fn check(report: &RepairReport, oracle: &Oracle) -> Result<(), String> {
    let is_lost = |loss: &&Lost| match (&loss.key, loss.version) {
        (Some(key), Some(version)) => !oracle.may_lack(key, version.sequence),
        _ => true,
    };
    report.losses.iter().find(is_lost).map_or(Ok(()), |loss| Err(format!("lost {loss:?}")))
}

/// Draws some images from now on.
fn watch(disk: &SimDisk, mut rng: fastrand::Rng) -> Arc<Mutex<Vec<SimDisk>>> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let drawn = Arc::clone(&images);
    disk.observe(Some(Box::new(move |at| {
        if rng.u8(..16) > 0 {
            return;
        }
        let level = if rng.bool() { Level::Ordered } else { Level::Adversarial };
        let loss = *choice(&mut rng, &Loss::ALL);
        let image = if rng.u8(..4) == 0 { at.kill() } else { at.crash(level, loss, rng.u64(..)) };
        drawn.lock().unwrap_or_else(PoisonError::into_inner).push(image);
    })));
    images
}

fn judge(disk: &SimDisk, world: &World, oracle: &Oracle, compacts: bool) -> Result<(), String> {
    let store = sim::open(disk.dir(), world.options.clone()).map_err(|e| format!("open after a repair: {e}"))?;
    let result = (|| {
        contents(&store, oracle, After::Kill).map_err(|e| format!("after a repair: {e}"))?;
        if compacts {
            store.compact().map_err(|e| format!("compaction after a repair: {e}"))?;
            contents(&store, oracle, After::Kill).map_err(|e| format!("after a repair and a compaction: {e}"))?;
        }
        let report = store.verify().map_err(|e| format!("verify after a repair: {e}"))?;
        match report.problems.first() {
            Some(p) => Err(format!("verify after a repair: {} at {}: {}", p.file, p.offset, p.what)),
            None => Ok(()),
        }
    })();
    sim::abandon(store);
    result
}
