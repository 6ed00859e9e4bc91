//! Takes a segment or a dictionary out of a crash image. The missing file must be named, removed
//! keys must stay removed, and the store must refuse writes until the loss is accepted.

use std::collections::BTreeMap;

use filemap_core::repair::RepairReport;
use filemap_core::{Error, StorageError, Store, sim};
use filemap_io::sim::SimDisk;

use crate::world::{World, choice};
use filemap_oracle::Oracle;

/// The versions that can be read, by key and sequence.
type Readable = BTreeMap<(Vec<u8>, u64), Vec<u8>>;

/// Removes or empties one file of a copy of a disk, and judges what is read then.
///
/// # Errors
/// Says what is wrong.
pub fn judged(disk: &SimDisk, world: &World, oracle: &Oracle, seed: u64) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let disk = disk.kill();
    // Of what no checkpoint has seen nobody knows the removals.
    let is_indexed = rng.bool();
    if is_indexed {
        let store = sim::open(disk.dir(), world.options.clone()).map_err(|e| format!("open: {e}"))?;
        let done = store.checkpoint();
        sim::abandon(store);
        done.map_err(|e| format!("checkpoint: {e}"))?;
    }
    let open = |disk: &SimDisk| sim::open_read_only(disk.dir(), world.options.clone());
    let before = read(&open(&disk).map_err(|e| format!("open read-only: {e}"))?, oracle)?;
    let stays = recovered(&disk, world, oracle)?;
    let is_owed = |name: &String| name.starts_with("value") || name.ends_with(".zdict");
    let files: Vec<String> = disk.names().into_iter().filter(is_owed).collect();
    if files.is_empty() {
        return Ok(());
    }
    let file = choice(&mut rng, &files);
    take(&disk, file, rng.u8(..3));
    let wrong = |what: &str| Err(format!("without {file}: {what}"));
    let reader = open(&disk).map_err(|e| format!("without {file}: open read-only: {e}"))?;
    let after = read(&reader, oracle).map_err(|e| format!("without {file}: {e}"))?;
    let is_named = reader.absent().iter().any(|a| a.file == *file && a.is_missed());
    let is_less = before.iter().any(|(at, body)| after.get(at) != Some(body));
    if is_less && !is_named {
        return wrong("versions are lost, and nothing is named");
    }
    // Where few versions are kept, one that was hidden shows when a later one is lost.
    let is_strict = is_indexed && world.keep.is_none();
    let comes_back = |now: &Readable| is_strict && now.keys().any(|at| !before.contains_key(at));
    if comes_back(&after) {
        return wrong("a version has come back");
    }
    match sim::open(disk.kill().dir(), world.options.clone()) {
        Ok(store) => sim::abandon(store),
        Err(Error::Storage(StorageError::Corrupt { file: f, .. })) if is_named && f == *file => {}
        Err(e) => return wrong(&format!("open: {e}")),
    }
    let known = Known { reader: &reader, after: &after, stays: &stays };
    let now = accepted(&disk, world, oracle, &known).map_err(|e| format!("without {file}, accepted: {e}"))?;
    if comes_back(&now) {
        return wrong("a version has come back when it was accepted");
    }
    if !is_indexed || !is_named {
        return Ok(());
    }
    let (report, now) = repaired(&disk, world, oracle, rng.u64(..)).map_err(|e| format!("without {file}: {e}"))?;
    if !report.losses.iter().any(|l| l.file == *file) {
        return wrong("a repair does not say what is lost");
    }
    // With all segments there a repair goes by them alone, and brings versions that were not kept,
    // too.
    if file.starts_with("value") && report.unwitnessed.is_empty() && comes_back(&now) {
        return wrong("a version has come back by a repair");
    }
    Ok(())
}

/// Reads the content after a recovery: a reader may see what that takes back.
fn recovered(disk: &SimDisk, world: &World, oracle: &Oracle) -> Result<Readable, String> {
    let store = sim::open(disk.kill().dir(), world.options.clone()).map_err(|e| format!("open: {e}"))?;
    let stays = read(&store, oracle);
    sim::abandon(store);
    stays
}

/// Content that could be read before a loss was accepted.
struct Known<'a> {
    /// A handle that only reads.
    reader: &'a Store,
    after: &'a Readable,
    /// The part that a recovery leaves.
    stays: &'a Readable,
}

/// Checks the content once the loss is accepted: all that could be read, in a store like any
/// other.
fn accepted(disk: &SimDisk, world: &World, oracle: &Oracle, known: &Known<'_>) -> Result<Readable, String> {
    let disk = disk.kill();
    let store = sim::open(disk.dir(), world.options.clone().accept_loss()).map_err(|e| format!("open: {e}"))?;
    let now = read(&store, oracle)?;
    let is_worse = known.after.iter().any(|((key, sequence), body)| {
        let heads = known.reader.history(key).unwrap_or_default();
        let version = heads.iter().map(|head| head.version).find(|v| v.sequence == *sequence);
        let found = version.and_then(|version| store.get_version(key, version).ok().flatten());
        known.stays.contains_key(&(key.clone(), *sequence)) && found.is_none_or(|found| found.body != *body)
    });
    let checkpointed = store.checkpoint();
    sim::abandon(store);
    if is_worse {
        return Err("what could be read cannot be read any more".to_owned());
    }
    checkpointed.map_err(|e| format!("checkpoint: {e}"))?;
    let store = sim::open(disk.dir(), world.options.clone()).map_err(|e| format!("opened again: {e}"))?;
    sim::abandon(store);
    Ok(now)
}

/// Removes a file, empties it, or cuts it to less than a header.
fn take(disk: &SimDisk, file: &str, way: u8) {
    match way {
        0 => disk.remove(file),
        1 => disk.set_bytes(file, &[]),
        _ => {
            let bytes = disk.bytes(file).unwrap_or_default();
            disk.set_bytes(file, &bytes[..bytes.len().min(63)]);
        }
    }
}

/// Checks the report of a repair into a new store, and all versions of that store, in which
/// nothing is missing.
fn repaired(disk: &SimDisk, world: &World, oracle: &Oracle, seed: u64) -> Result<(RepairReport, Readable), String> {
    let target = SimDisk::new(seed);
    let options = world.options.clone().canonicalizer("bytes", 1);
    let report = sim::repair(disk.dir(), Some(target.dir()), &options).map_err(|e| format!("repair: {e}"))?;
    let store = sim::open_read_only(target.dir(), world.options.clone()).map_err(|e| format!("repaired: {e}"))?;
    let now = read(&store, oracle).map_err(|e| format!("repaired: {e}"))?;
    // A repaired store misses a dictionary for as long as a record needs it.
    let is_told = |name: &str| name.ends_with(".zdict") && report.losses.iter().any(|l| l.file == name);
    if !store.absent().iter().all(|a| a.is_accepted && is_told(&a.file)) {
        return Err("of what a repair has made something is absent".to_owned());
    }
    Ok((report, now))
}

/// All versions that a store gives. Damage is what is expected, other errors are not.
fn read(store: &Store, oracle: &Oracle) -> Result<Readable, String> {
    let mut all = Readable::new();
    for key in oracle.keys() {
        let heads = match store.history(key) {
            Err(e) if e.is_corrupt() => continue,
            heads => heads.map_err(|e| e.to_string())?,
        };
        for head in heads {
            match store.get_version(key, head.version) {
                Ok(Some(value)) => {
                    all.insert((key.clone(), head.version.sequence), value.body);
                }
                Ok(None) => {}
                Err(e) if e.is_corrupt() => {}
                Err(e) => return Err(e.to_string()),
            }
        }
    }
    Ok(all)
}
