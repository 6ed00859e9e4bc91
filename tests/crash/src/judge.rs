//! Opens a crash image, reads everything and lets the oracle judge it.

use filemap_core::compact::Compacted;
use filemap_core::prune::Pruned;
use filemap_core::{Record, Store, sim};
use filemap_io::sim::{Interrupt, SimDisk};

use crate::contents::{Contents, contents};
use crate::erase;
use crate::mend;
use crate::overtake::{self, overtaken};
use crate::world::World;
use filemap_oracle::{After, Oracle, What};

/// Compaction met no damage, since there is none; a panic is a violation.
pub(crate) fn all_moved(done: Compacted) -> bool {
    assert_eq!(done.stuck_segments, 0, "compaction met damage");
    true
}

/// Nor did a prune.
pub(crate) fn all_seen(pruned: Pruned) {
    assert_eq!(pruned.hidden, 0, "a prune met damage");
}

/// Thoroughness of the check of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Opened and read.
    Read,
    /// Then a checkpoint, and read again by a reader that a compaction overtakes.
    Checkpoint,
    /// Then verified, too.
    Verify,
    /// Then made anew from its value log, by a repair that the seed decides.
    Repair(u64),
}

/// Opens an image and judges it.
///
/// # Errors
/// Says what is wrong.
pub fn image(disk: &SimDisk, world: &World, oracle: &Oracle, after: After, depth: Depth) -> Result<(), String> {
    // A reader comes first: it changes nothing, sees what recovery will find, and follows the
    // writer from there.
    let read_only = |e| format!("open read-only: {e}");
    let interrupt = overtake::interrupt();
    let reader = sim::open_read_only(interrupt.over(disk.dir()), world.options.clone()).map_err(read_only)?;
    contents(&reader, oracle, after).map_err(|e| format!("read-only: {e}"))?;
    all_there(&reader)?;
    let store = sim::open(disk.dir(), world.options.clone()).map_err(|e| format!("open: {e}"))?;
    let result = judged(disk, &store, (&reader, &interrupt), oracle, after, depth);
    sim::abandon(store);
    match (result?, depth) {
        (Some(now), Depth::Repair(seed)) => mend::repaired(disk, world, &now, &mut fastrand::Rng::with_seed(seed)),
        _ => Ok(()),
    }
}

/// No file is missed: a crash takes none that counts.
fn all_there(reader: &Store) -> Result<(), String> {
    reader.absent().first().map_or(Ok(()), |a| Err(format!("{} is said to be missing: {}", a.file, a.why)))
}

/// Compares the store at the end with the oracle, if anything was done to it.
fn judged(
    disk: &SimDisk,
    store: &Store,
    (reader, interrupt): (&Store, &Interrupt),
    oracle: &Oracle,
    after: After,
    depth: Depth,
) -> Result<Option<Oracle>, String> {
    let mut shown = contents(store, oracle, after).map_err(|e| e.to_string())?;
    let rules = store.rules().map_err(|e| format!("rules: {e}"))?.len();
    if rules < oracle.rules {
        return Err(format!("{rules} rules of {} are there", oracle.rules));
    }
    if depth == Depth::Read {
        return Ok(None);
    }
    let mut now = oracle.rebased(&shown);
    if let Some(key) = oracle.erasing() {
        resumed(disk, store, key, oracle, &mut now)?;
        shown.remove(key);
    }
    let (key, body) = (b"http://new.example/", b"after all");
    let number = now.begin(key, What::Put { time_ms: 0, sequence: None, body: body[..].into(), meta: [][..].into() });
    let version = store.put(&Record::new(key, body).time(0)).map_err(|e| format!("put: {e}"))?;
    now.acknowledge(key, number, Some(version));
    reader.refresh().map_err(|e| format!("refresh: {e}"))?;
    let read = contents(reader, &now, After::Kill).map_err(|e| format!("a reader that was there before: {e}"))?;
    all_there(reader)?;
    store.checkpoint().map_err(|e| format!("checkpoint: {e}"))?;
    contents(store, &now, After::Kill).map_err(|e| format!("after a checkpoint: {e}"))?;
    if depth == Depth::Checkpoint {
        overtaken(disk, (reader, interrupt), store, &now, &read)?;
    } else {
        let report = store.verify().map_err(|e| format!("verify: {e}"))?;
        if let Some(problem) = report.problems.first() {
            return Err(format!("verify: {} at {}: {}", problem.file, problem.offset, problem.what));
        }
        if report.unused_key_bytes > 0 {
            return Err(format!("verify: {} bytes of the key log are not records", report.unused_key_bytes));
        }
        if report.indexed_keys != shown.len() as u64 + 1 {
            return Err(format!(
                "verify counts {} keys, {} and a new one can be read",
                report.indexed_keys,
                shown.len()
            ));
        }
    }
    Ok(Some(now))
}

/// Ends an erasure that a crash has cut short, and looks for what was known of the key before.
fn resumed(disk: &SimDisk, store: &Store, key: &[u8], before: &Oracle, now: &mut Oracle) -> Result<(), String> {
    let erased = erase::erase(store, key).map_err(|e| format!("an erasure that was cut short: {e}"))?;
    if !erased.is_complete() {
        return Err(format!("an erasure that was cut short, done again, left something: {erased:?}"));
    }
    let texts = before.clone().erased(key, before.next(), &Contents::new());
    now.erased(key, now.next(), &Contents::new());
    erase::check(disk, store, key, &texts).map_err(|e| format!("an erasure that was cut short, done again: {e}"))
}

/// Judges what a crash left of a store that was being created: it opens and is empty, or it can be
/// created again.
///
/// # Errors
/// Says what is wrong.
pub fn creation(disk: &SimDisk, world: &World) -> Result<(), String> {
    let store = match sim::open(disk.dir(), world.options.clone()) {
        Ok(store) => store,
        Err(filemap_core::Error::NotAStore { .. }) => {
            sim::create(disk.dir(), world.options.clone()).map_err(|e| format!("create again: {e}"))?
        }
        Err(e) => return Err(format!("open after a creation that was cut short: {e}")),
    };
    let count = store.keys().count();
    sim::abandon(store);
    if count == 0 { Ok(()) } else { Err(format!("a new store has {count} keys")) }
}
