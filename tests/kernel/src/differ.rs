//! Differential run: one process works on a store, with upkeep and lists in threads beside it;
//! other processes read it all the time and compare everything with the oracle.
//!
//! The worker writes its progress into a small shared file, so a reader knows between which
//! operations it read. What it saw must be the state of one moment between them.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use filemap_core::compact::CompactionGoal;
use filemap_core::{Error, StorageError, Store};
use filemap_oracle::Window;

use crate::ops::{self, Key, Op};
use crate::oracle::Oracle;
use crate::random::Random;

/// Keys that a reader reads between two refreshes.
const KEYS_A_LOOK: usize = 40;

/// Arguments of a worker or a reader of a differential run.
#[derive(Clone, Debug, clap::Args)]
pub struct Part {
    /// The store's folder.
    #[arg(long)]
    store: PathBuf,
    /// The file that says how far the worker has come.
    #[arg(long)]
    progress: PathBuf,
    /// The seed of the workload.
    #[arg(long)]
    seed: u64,
    /// Stop before this operation.
    #[arg(long)]
    until: u64,
    /// Number of the reader; it decides what it reads.
    #[arg(long, default_value_t = 0)]
    number: u64,
    /// For the worker: forget one removal, a failpoint that readers must see.
    #[arg(long)]
    forget: bool,
}

/// Arguments of a differential run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Operations of each store.
    pub operations: u64,
    /// Stores, one after the other.
    pub rounds: u64,
    /// Processes that read beside the worker.
    pub readers: u64,
    /// Seed that determines the workload.
    pub seed: u64,
    /// True if the worker makes a mistake.
    pub forget: bool,
}

/// Runs it in stores below `folder`; `program` is this package's. How many times readers compared
/// what they had read.
///
/// # Errors
/// The first difference, or the error that stopped a process.
pub fn run(program: &Path, folder: &Path, run: Run) -> Result<u64, String> {
    let mut looks = 0;
    for round in 0..run.rounds {
        let part = Part {
            store: folder.join(format!("round{round}")),
            progress: folder.join(format!("progress{round}")),
            seed: run.seed + round,
            until: run.operations,
            number: 0,
            forget: run.forget,
        };
        looks += one(program, &part, run.readers).map_err(|e| format!("seed {}: {e}", part.seed))?;
        std::fs::remove_dir_all(&part.store).map_err(|e| format!("{}: {e}", part.store.display()))?;
    }
    Ok(looks)
}

fn one(program: &Path, part: &Part, readers: u64) -> Result<u64, String> {
    Progress::create(&part.progress)?;
    let looks = processes(program, part, readers)?;
    let store = Store::open(&part.store, ops::options(part.seed)).map_err(|e| format!("open: {e}"))?;
    let mut oracle = Oracle::new(part.seed, 1);
    oracle.learn_below(part.until);
    let end = Progress::open(&part.progress)?.window()?;
    let mut random = Random::new(part.seed, 0x656e_6421);
    look(&store, &mut oracle, &mut random, &mut || Ok(end))?;
    crate::oracle::verify(&store)?;
    store.close().map_err(|e| format!("close: {e}"))?;
    Ok(looks)
}

/// Runs the worker and the readers to their ends; the first that fails ends all. How many looks
/// the readers took.
fn processes(program: &Path, part: &Part, readers: u64) -> Result<u64, String> {
    let mut running = vec![("the worker", start(program, "differ-worker", part)?)];
    for number in 1..=readers {
        running.push(("a reader", start(program, "differ-reader", &Part { number, ..part.clone() })?));
    }
    let mut looks = 0;
    let mut first = Ok(());
    while !running.is_empty() {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        let Some(at) = running.iter_mut().position(|(_, child)| ended(child)) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let (who, child) = running.swap_remove(at);
        match finish(child) {
            Ok(words) => looks += words.trim().parse().unwrap_or(0),
            // Those that are killed for the first one's failure say nothing of their own.
            Err(e) if first.is_ok() => {
                first = Err(format!("{who}: {e}"));
                running.iter_mut().for_each(|(_, child)| drop(child.kill()));
            }
            Err(_) => {}
        }
    }
    first.map(|()| looks)
}

fn start(program: &Path, role: &str, part: &Part) -> Result<Child, String> {
    let mut command = Command::new(program);
    command.arg(role).arg("--store").arg(&part.store).arg("--progress").arg(&part.progress);
    for (name, number) in [("--seed", part.seed), ("--until", part.until), ("--number", part.number)] {
        command.arg(name).arg(number.to_string());
    }
    command.args(part.forget.then_some("--forget"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|e| format!("start of a {role}: {e}"))
}

fn finish(child: Child) -> Result<String, String> {
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

/// Progress of the worker: a file of two numbers, read and written by all processes.
struct Progress(File);

impl Progress {
    fn create(path: &Path) -> Result<(), String> {
        std::fs::write(path, [1u64.to_le_bytes(), 1u64.to_le_bytes()].concat())
            .map_err(|e| format!("{}: {e}", path.display()))
    }

    fn open(path: &Path) -> Result<Progress, String> {
        let file = File::options().read(true).write(true).open(path);
        file.map(Progress).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Operations below the first number have returned, none from the second on has begun.
    fn window(&self) -> Result<Window, String> {
        let read = |at| {
            let mut bytes = [0; 8];
            self.0.read_exact_at(&mut bytes, at).map_err(|e| format!("progress: {e}"))?;
            Ok::<_, String>(u64::from_le_bytes(bytes))
        };
        // In this order: what has returned has begun.
        let from = read(0)?;
        Ok(Window { from, until: read(8)? })
    }

    fn begins(&self, end: u64) -> Result<(), String> {
        self.0.write_all_at(&end.to_le_bytes(), 8).map_err(|e| format!("progress: {e}"))
    }

    fn returned(&self, end: u64) -> Result<(), String> {
        self.0.write_all_at(&end.to_le_bytes(), 0).map_err(|e| format!("progress: {e}"))
    }
}

/// The worker's process: the workload in order, and upkeep beside it.
///
/// # Errors
/// What the store returned, or what a list beside upkeep met.
pub fn work(part: &Part) -> Result<(), String> {
    let progress = Progress::open(&part.progress)?;
    let options = ops::options(part.seed);
    let mut store = Store::create(&part.store, options.clone()).map_err(|e| format!("create: {e}"))?;
    let handle = Mutex::new(store.clone());
    let (ended, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut forgets = part.forget;
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| upkeep(part.seed, &handle, &ended, &done));
        let mut next = 1;
        let mut worked = Ok(());
        while next < part.until && worked.is_ok() && !beside.is_finished() {
            let op = Op::at(part.seed, next);
            next = op.end();
            progress.begins(next)?;
            if forgets && op.what == ops::What::Remove && next > part.until / 4 {
                forgets = false;
            } else {
                match op.run(store.clone(), &part.store, &options) {
                    Ok(opened) => store = opened,
                    Err(e) => worked = Err(format!("{:?} at {}: {e}", op.what, op.first)),
                }
                *handle.lock().unwrap_or_else(PoisonError::into_inner) = store.clone();
            }
            progress.returned(next)?;
        }
        ended.store(true, Ordering::Release);
        let beside = beside.join().unwrap_or_else(|_| Err("upkeep panicked".into()));
        worked.and(beside)?;
        store.close().map_err(|e| format!("close: {e}"))
    })
}

/// Compaction, recompression, checkpoints and lists through handles that the worker may close in
/// the midst of them.
fn upkeep(seed: u64, handle: &Mutex<Store>, ended: &AtomicBool, done: &AtomicU64) -> Result<(), String> {
    let mut random = Random::new(seed, 0x7570_6b65);
    while !ended.load(Ordering::Acquire) {
        let store = handle.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (what, result) = match random.below(8) {
            0 => ("compact", store.compact().map(|_| ())),
            1 => (
                "compact to the bound",
                store.compact_with(CompactionGoal::Bound, &mut |_| ControlFlow::Continue(())).map(|_| ()),
            ),
            2 => ("recompress", store.recompress(9).map(|_| ())),
            3 => ("checkpoint", store.checkpoint()),
            4 => ("train", store.train().map(|_| ())),
            _ => ("list", list_once(&store)?),
        };
        match result {
            Ok(()) | Err(Error::Closed) => done.fetch_add(1, Ordering::Relaxed),
            Err(e) => return Err(format!("{what} beside the work: {e}")),
        };
        std::thread::sleep(Duration::from_millis(random.below(20)));
    }
    Ok(())
}

/// Lists all keys; none may be there twice.
fn list_once(store: &Store) -> Result<filemap_core::Result<()>, String> {
    let mut met = std::collections::HashSet::new();
    for key in store.keys() {
        match key {
            Ok(key) if met.contains(&key) => {
                return Err(format!("{:?} is listed twice beside the work", String::from_utf8_lossy(&key)));
            }
            Ok(key) => drop(met.insert(key)),
            Err(e) => return Ok(Err(e)),
        }
    }
    Ok(Ok(()))
}

/// A reader's process: reads until the worker has ended; says how many times it compared.
///
/// # Errors
/// The first difference.
pub fn read(part: &Part) -> Result<(), String> {
    let progress = Progress::open(&part.progress)?;
    let mut random = Random::new(part.seed, 0x7265_6164 + part.number);
    let mut oracle = Oracle::new(part.seed, 1);
    let store = loop {
        match Store::open_read_only(&part.store, ops::options(part.seed)) {
            Ok(store) => break store,
            // The worker may not have created it yet.
            Err(Error::NotAStore { .. }) => std::thread::sleep(Duration::from_millis(1)),
            Err(Error::Storage(StorageError::Io { source, .. })) if source.kind() == std::io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) => return Err(format!("open: {e}")),
        }
    };
    let mut looks = 0u64;
    loop {
        let before = progress.window()?;
        look(&store, &mut oracle, &mut random, &mut || progress.window())?;
        looks += 1;
        if before.from >= part.until {
            break;
        }
    }
    println!("{looks}");
    Ok(())
}

/// Refreshes a handle and reads some keys in all ways, and now and then the list of all; compares
/// everything.
fn look(
    store: &Store,
    oracle: &mut Oracle,
    random: &mut Random,
    progress: &mut dyn FnMut() -> Result<Window, String>,
) -> Result<(), String> {
    let from = progress()?.from;
    store.refresh().map_err(|e| format!("refresh: {e}"))?;
    if random.one_in(8) {
        look_at_list(store, oracle, from, progress)?;
    }
    oracle.learn_below(from);
    let keys: Vec<Key> = oracle.changes().keys().collect();
    for _ in 0..KEYS_A_LOOK.min(keys.len()) {
        let key = keys[random.below(keys.len() as u64) as usize];
        let named = Key::Named(random.below(ops::NAMED_KEYS));
        look_at(store, oracle, if random.one_in(4) { key } else { named }, from, progress)?;
    }
    Ok(())
}

fn look_at_list(
    store: &Store,
    oracle: &mut Oracle,
    from: u64,
    progress: &mut dyn FnMut() -> Result<Window, String>,
) -> Result<(), String> {
    let mut listed = std::collections::BTreeSet::new();
    for key in store.keys() {
        let key = key.map_err(|e| format!("a list: {e}"))?;
        let parsed = Key::parse(&key).ok_or_else(|| format!("{:?} is listed", String::from_utf8_lossy(&key)))?;
        if !listed.insert(parsed) {
            return Err(format!("{parsed:?} is listed twice"));
        }
    }
    let window = Window { from, until: progress()?.until };
    oracle.learn_below(window.until);
    let known: std::collections::BTreeSet<Key> = oracle.changes().keys().collect();
    if let Some(stranger) = listed.difference(&known).next() {
        return Err(format!("{stranger:?} is listed and was never put"));
    }
    known.iter().try_for_each(|key| oracle.changes().judge_listed(*key, listed.contains(key), window))
}

fn look_at(
    store: &Store,
    oracle: &mut Oracle,
    key: Key,
    from: u64,
    progress: &mut dyn FnMut() -> Result<Window, String>,
) -> Result<(), String> {
    let bytes = key.bytes();
    let failed = |what: &str, e: Error| format!("{what} of {key:?}: {e}");
    let history = store.history(&bytes).map_err(|e| failed("history", e))?;
    let got = store.get(&bytes).map_err(|e| failed("get", e))?;
    let many = store.get_many(&[&bytes]).map_err(|e| failed("get_many", e))?;
    let there = store.contains(&bytes).map_err(|e| failed("contains", e))?;
    let number = |head: &filemap_core::Head| head.version.time_ms.cast_unsigned();
    // Nothing but refreshes lets such a handle see more, or it follows by itself; either way it
    // saw what was put by then.
    let window = Window { from, until: progress()?.until };
    oracle.learn_below(window.until);
    let numbers: Vec<u64> = history.iter().map(number).collect();
    oracle.changes().judge_history(key, &numbers, window)?;
    oracle.changes().judge_listed(key, there, window).map_err(|e| format!("contains: {e}"))?;
    for value in [&got, &many[0]] {
        oracle.changes().judge_newest(key, value.as_ref().map(|v| number(&v.head)), window)?;
        if let Some(value) = value {
            oracle.judge_content(key, number(&value.head), &value.head.meta, Some(&value.body))?;
        }
    }
    for head in &history {
        oracle.judge_content(key, number(head), &head.meta, None)?;
    }
    let Some(old) = history.last() else { return Ok(()) };
    // It may have been dropped since, by a removal that this handle has seen.
    match store.get_version(&bytes, old.version).map_err(|e| failed("an old version", e))? {
        Some(value) => oracle.judge_content(key, number(old), &value.head.meta, Some(&value.body)),
        None => {
            let window = Window { from, until: progress()?.until };
            oracle.learn_below(window.until);
            oracle.changes().judge_gone(key, number(old), window)
        }
    }
}
