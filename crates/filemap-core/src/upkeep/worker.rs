//! The background threads of a writer: one syncs the log and prepares segments, one checkpoints,
//! one compacts, one trains dictionaries. Two serve keys in order: one joins their runs, one sorts
//! those in memory. Nothing else in the crate starts a thread.

use std::ops::ControlFlow;
use std::sync::Arc;
#[cfg(not(filemap_shuttle))]
use std::thread::Builder;
use std::time::{Duration, Instant};

#[cfg(filemap_shuttle)]
use shuttle::thread::Builder;

use crate::error::{Error, Result, StorageError};
use crate::event::Compacted;
use crate::index::address::fill::Filling;
use crate::logs::values::cache::growth::LOOK;
use crate::options::Durability;
use crate::sync::lock;
use crate::upkeep::Upkeep;
use crate::upkeep::compact::Goal;
use crate::upkeep::compact::index::shrink_index;
use crate::upkeep::compact::keys::compact_keys;

/// Sleep of an idle thread.
const IDLE: Duration = Duration::from_secs(3600);

/// Interval at which the compaction thread checks for work without puts; passes for expired
/// versions are at least this far apart.
const UPKEEP: Duration = Duration::from_secs(60);

/// Pause of the training thread, as a multiple of the time that the dictionary took. zstd's
/// trainer is one call of some tenths of a second that cannot make way
/// ([`crate::sync::make_way`]), and in a store of many groups another dictionary is always due.
const TRAINING_REST: u32 = 8;

/// Intervals at which keys in memory are sorted: after a sort that found some, after one that
/// found none, and while no list has asked for them.
const SORT: [Duration; 3] = [Duration::from_millis(10), Duration::from_millis(100), Duration::from_secs(1)];

/// More helpers do not speed up a verification: one thread reads.
const MOST_HELPERS: usize = 7;

type Job = fn(&Upkeep);

#[cfg(filemap_shuttle)]
pub(crate) type JoinHandle = shuttle::thread::JoinHandle<()>;
#[cfg(not(filemap_shuttle))]
pub(crate) type JoinHandle = std::thread::JoinHandle<()>;

/// Starts the threads; they end when their bells are stopped.
///
/// # Errors
/// `Io` when the system cannot start a thread.
pub(crate) fn start(upkeep: &Arc<Upkeep>) -> Result<Vec<JoinHandle>> {
    let mut jobs: Vec<(&str, Job)> = vec![
        ("filemap-sync", keep_synced),
        ("filemap-checkpoint", keep_checkpointed),
        ("filemap-compact", keep_compacted),
    ];
    if upkeep.reading.options().makes_dictionaries() {
        jobs.push(("filemap-train", keep_trained));
    }
    if upkeep.reading.segment_table().order.is_some() {
        jobs.extend([("filemap-join", keep_joined as Job), ("filemap-sort", keep_sorted)]);
    }
    start_some(upkeep, &jobs)
}

/// Starts only the threads for checkpoints and for joining their runs: for a store that is being
/// rebuilt from its log.
pub(crate) fn start_checkpoints(upkeep: &Arc<Upkeep>) -> Result<Vec<JoinHandle>> {
    start_some(upkeep, &[("filemap-checkpoint", keep_checkpointed), ("filemap-join", keep_joined)])
}

pub(crate) fn start_some(upkeep: &Arc<Upkeep>, jobs: &[(&'static str, Job)]) -> Result<Vec<JoinHandle>> {
    let mut threads = Vec::new();
    for (name, job) in jobs {
        let (mine, job) = (Arc::clone(upkeep), *job);
        let name = *name;
        let work = move || {
            let _guard = PoisonOnPanic { upkeep: &mine, name };
            job(&mine);
        };
        match Builder::new().name(name.into()).spawn(work) {
            Ok(thread) => threads.push(thread),
            Err(e) => {
                upkeep.stop();
                return Err(Error::io("start of a thread", upkeep.reading.dir().path().display())(e));
            }
        }
    }
    Ok(threads)
}

/// Poisons the handle if a background thread panics: its work is no longer done.
struct PoisonOnPanic<'a> {
    upkeep: &'a Upkeep,
    name: &'static str,
}

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.upkeep.writing.poison_because(format!("the background thread {} panicked", self.name));
        }
    }
}

/// Runs `work`, which mostly waits for the device, while threads run `help`, one per processor up
/// to a limit. `end` tells them to finish. If the system can start no thread, `work` runs without
/// help.
pub(crate) fn with_help<T>(help: &(dyn Fn() + Sync), end: &dyn Fn(), work: impl FnOnce() -> T) -> T {
    /// Ends the help even if the work panics, since the threads are joined.
    struct Ending<'a>(&'a dyn Fn());
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    // A model checker does not know these threads.
    let most = if cfg!(filemap_shuttle) { 0 } else { MOST_HELPERS };
    let helpers = processors().min(most);
    std::thread::scope(|scope| {
        let ending = Ending(end);
        let start = |_| std::thread::Builder::new().name("filemap-help".into()).spawn_scoped(scope, help).ok();
        let started: Vec<_> = (0..helpers).filter_map(start).collect();
        let done = work();
        drop(ending);
        for thread in started {
            // The scope would wait too, but by a counter that ThreadSanitizer does not see.
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        done
    })
}

/// Maps `work` over a list, in order. Each part gets a thread; the caller processes the first part
/// and those for which no thread could be started.
pub(crate) fn side_by_side<P: Copy + Send, T: Send>(parts: &[P], work: &(dyn Fn(P) -> T + Sync)) -> Vec<T> {
    let Some((first, others)) = parts.split_first() else { return Vec::new() };
    std::thread::scope(|scope| {
        let start = |part: &P| {
            let part = *part;
            let name = "filemap-help".into();
            (part, std::thread::Builder::new().name(name).spawn_scoped(scope, move || work(part)).ok())
        };
        let started: Vec<_> = others.iter().map(start).collect();
        let mut done = vec![work(*first)];
        for (part, thread) in started {
            done.push(match thread.map(std::thread::ScopedJoinHandle::join) {
                Some(Ok(done)) => done,
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                None => work(part),
            });
        }
        done
    })
}

/// Number of threads that can run at once. Cached, since the system reads files to determine it.
pub(crate) fn processors() -> usize {
    static PROCESSORS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    // A model checker does not know threads that it has not made.
    let count = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cfg!(filemap_shuttle) { 1 } else { *PROCESSORS.get_or_init(count) }
}

/// Syncs the log at the interval, bounds the kernel's dirty pages, keeps the next segment ready,
/// and the value cache within memory.
fn keep_synced(upkeep: &Upkeep) {
    let interval = match upkeep.reading.options().durability {
        Durability::Interval(interval) => interval,
        Durability::Buffered | Durability::Sync => IDLE,
    };
    let mut last = Instant::now();
    let is_poisoned = || upkeep.writing.poisoned().cause().is_some();
    while !upkeep.writing.bells().sync.is_stopped() {
        // A poisoned handle writes nothing more, but is read from until the end.
        let rest = if is_poisoned() { IDLE } else { interval.saturating_sub(last.elapsed()) };
        upkeep.writing.bells().sync.wait(rest.min(LOOK));
        upkeep.reading.values().tend();
        if is_poisoned() {
            continue;
        }
        let is_due = last.elapsed() >= interval;
        write_back(upkeep, is_due);
        if is_due {
            last = Instant::now();
        }
    }
}

/// Syncs the log if that is due or much of it is unwritten, and creates the next segment when the
/// current one fills.
pub(crate) fn write_back(upkeep: &Upkeep, is_due: bool) {
    let (position, floor) = {
        let log = lock(upkeep.writing.log());
        (log.appender.position(), log.appender.wants_prepared().then_some(log.next_sequence))
    };
    // Another thread may have appended and synced since the position was taken.
    let unwritten = position.saturating_sub(upkeep.writing.synced());
    if (is_due && unwritten > 0) || unwritten >= upkeep.reading.options().writeback_bytes {
        // The error has poisoned the handle, which tells the callers.
        let _ = upkeep.writing.sync_to(position);
    }
    if let Some(floor) = floor {
        match upkeep.reading.values().segments.prepare(floor) {
            // A failed sync is never retried: the second may wrongly succeed.
            Err(e @ Error::Storage(StorageError::Io { op: "sync", .. })) => upkeep.writing.poison(&e),
            // The roll itself retries, and reports a failure.
            Err(e) => upkeep.reading.counters().failed(&e),
            Ok(()) => {}
        }
    }
}

fn keep_checkpointed(upkeep: &Upkeep) {
    // Opening leaves the directory to its first user: in a large index each lookup would read a
    // node.
    let stops = || upkeep.writing.bells().checkpoint.is_stopped();
    if let Err(e) = upkeep.reading.index().read_directory(stops) {
        upkeep.reading.counters().failed(&e);
    }
    while !upkeep.writing.bells().checkpoint.is_stopped() {
        upkeep.writing.bells().checkpoint.wait(IDLE);
        if !upkeep.writing.bells().checkpoint.is_stopped() {
            checkpoint_if_due(upkeep);
        }
    }
}

/// Joins runs of keys in order as checkpoints add to them.
fn keep_joined(upkeep: &Upkeep) {
    while !upkeep.writing.bells().join.is_stopped() {
        while join_next(upkeep) {}
        upkeep.writing.bells().join.wait(IDLE);
    }
}

/// Joins the runs that are due. Returns false if none were. A failed join is tried again after the
/// next checkpoint.
pub(crate) fn join_next(upkeep: &Upkeep) -> bool {
    if upkeep.writing.bells().join.is_stopped() || upkeep.writing.poisoned().cause().is_some() {
        return false;
    }
    upkeep.join_if_due().unwrap_or_else(|e| {
        if !matches!(e, Error::Closed) {
            upkeep.reading.counters().failed(&e);
        }
        false
    })
}

/// Sorts the keys in memory as they arrive, once a list has asked for them in order.
fn keep_sorted(upkeep: &Upkeep) {
    let bell = &upkeep.writing.bells().sort;
    while !bell.is_stopped() {
        let rest = match upkeep.reading.sort_ahead() {
            true => SORT[0],
            false if upkeep.reading.sorts_ahead() => SORT[1],
            false => SORT[2],
        };
        bell.wait(rest);
    }
}

fn keep_trained(upkeep: &Upkeep) {
    let bell = &upkeep.writing.training().bell;
    while !bell.is_stopped() {
        bell.wait(IDLE);
        let mut start = Instant::now();
        while train_next(upkeep) {
            let until = Instant::now() + TRAINING_REST * start.elapsed();
            while !bell.is_stopped() && Instant::now() < until {
                bell.wait(until.saturating_duration_since(Instant::now()));
            }
            start = Instant::now();
        }
    }
}

/// Makes the next dictionary that is due. Returns false if none was. A failed one is retried much
/// later.
pub(crate) fn train_next(upkeep: &Upkeep) -> bool {
    if upkeep.writing.training().bell.is_stopped() || upkeep.writing.poisoned().cause().is_some() {
        return false;
    }
    let Some(job) = upkeep.writing.training().tally.job(upkeep.writing.firsts()) else { return false };
    if let Err(e) = upkeep.train_group(&job) {
        upkeep.reading.counters().failed(&e);
    }
    true
}

/// Runs the requested checkpoint, if any.
pub(crate) fn checkpoint_if_due(upkeep: &Upkeep) {
    if upkeep.writing.is_checkpoint_due()
        && let Err(e) = upkeep.checkpoint()
    {
        upkeep.reading.counters().failed(&e);
    }
}

/// Compacts and prunes when due; any put may make it due.
fn keep_compacted(upkeep: &Upkeep) {
    let look = upkeep.reading.options().keep_age.map(|age| (age / 16).max(UPKEEP));
    let (mut last, mut filling) = (Instant::now(), Filling::default());
    while !upkeep.writing.bells().compact.is_stopped() {
        let failed = &mut |e: &Error| upkeep.reading.counters().failed(e);
        let has_more = upkeep.reading.index().fill_filter(&mut filling, failed);
        // Pages expire without a put.
        upkeep.writing.bells().compact.wait(if has_more { Duration::ZERO } else { UPKEEP });
        if upkeep.writing.poisoned().cause().is_some() {
            // A poisoned handle writes nothing more: wait for the end.
            upkeep.writing.bells().compact.wait(IDLE);
            continue;
        }
        if look.is_some_and(|look| last.elapsed() >= look) && !upkeep.writing.bells().compact.is_stopped() {
            if let Err(e) = upkeep.prune_expired() {
                upkeep.reading.counters().failed(&e);
            }
            last = Instant::now();
        }
        let mut failed = false;
        while !upkeep.writing.bells().compact.is_stopped() && !failed {
            match compact_if_due(upkeep) {
                Ok(true) => {}
                Ok(false) => break,
                // The cause, such as a full disk, may be resolved by the next attempt.
                Err(_) => failed = true,
            }
        }
    }
}

/// Runs one compaction of values, keys or index, if the bound or the recompression level requires
/// it. Returns true if it did something.
///
/// # Errors
/// Those of compaction.
pub(crate) fn compact_if_due(upkeep: &Upkeep) -> Result<bool> {
    let result = upkeep.compact_once(Goal::Bound, u64::MAX, &mut |_| ControlFlow::Continue(()));
    if let Err(e) = &result
        && !matches!(e, Error::Closed)
    {
        upkeep.reading.counters().failed(e);
    }
    let did = |done: Compacted| done.removed_segments > 0 || done.copied_bytes > 0;
    if result.map(did)? {
        return Ok(true);
    }
    if upkeep.reading.options().space_bound.is_none() {
        return Ok(false);
    }
    if compact_keys(upkeep)? {
        return Ok(true);
    }
    shrink_index(upkeep)?;
    // Nothing is urgent: recompress old segments.
    let Some(level) = upkeep.reading.options().recompression_level else { return Ok(false) };
    let goal = Goal::Level(level, upkeep.reading.options().recompresses_before());
    upkeep.compact_once(goal, u64::MAX, &mut |_| ControlFlow::Continue(())).map(did)
}
