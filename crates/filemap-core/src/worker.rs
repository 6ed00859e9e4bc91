//! The background threads of a handle that writes: one syncs the log and prepares segments, one checkpoints. Nothing else
//! in the crate starts a thread.

use std::sync::Arc;
#[cfg(not(filemap_shuttle))]
use std::thread::Builder;
use std::time::{Duration, Instant};

#[cfg(filemap_shuttle)]
use shuttle::thread::Builder;

use crate::compact::index::shrink_index;
use crate::compact::keys::compact_keys;
use crate::error::{Error, Result};
use crate::options::Durability;
use crate::primitive::Ordering;
use crate::state::{Shared, WriteSide};
use crate::sync::lock;

/// How long a thread with nothing to do sleeps.
const IDLE: Duration = Duration::from_secs(3600);

type Job = fn(&Shared);

#[cfg(filemap_shuttle)]
pub(crate) type JoinHandle = shuttle::thread::JoinHandle<()>;
#[cfg(not(filemap_shuttle))]
pub(crate) type JoinHandle = std::thread::JoinHandle<()>;

/// Starts the threads; they end when their bells are stopped.
///
/// # Errors
/// `Io` when the system gives no thread.
pub(crate) fn start(shared: &Arc<Shared>) -> Result<Vec<JoinHandle>> {
    let jobs: [(&str, Job); 2] = [("filemap-sync", keep_synced), ("filemap-checkpoint", keep_checkpointed)];
    let mut threads = Vec::new();
    for (name, job) in jobs {
        let mine = Arc::clone(shared);
        match Builder::new().name(name.into()).spawn(move || job(&mine)) {
            Ok(thread) => threads.push(thread),
            Err(e) => {
                shared.stop_bells();
                return Err(Error::io("start of a thread", shared.dir.path().display().to_string(), e));
            }
        }
    }
    Ok(threads)
}

/// Syncs the log in time, keeps the kernel's dirty pages few, and has the next segment ready.
fn keep_synced(shared: &Shared) {
    let Some(writer) = &shared.writer else { return };
    let interval = match shared.options.durability {
        Durability::Interval(interval) => interval,
        Durability::Buffered | Durability::Sync => IDLE,
    };
    let mut last = Instant::now();
    while !writer.sync_bell.is_stopped() {
        writer.sync_bell.wait(interval.saturating_sub(last.elapsed()));
        if writer.poison.cause().is_some() {
            // Nothing is written any more: there is nothing to do but to end when told.
            writer.sync_bell.wait(IDLE);
            continue;
        }
        let is_due = last.elapsed() >= interval;
        write_back(shared, writer, is_due);
        if is_due {
            last = Instant::now();
        }
    }
}

/// Syncs the log when that is due or much of it is unwritten, and creates the next segment when the last one fills.
pub(crate) fn write_back(shared: &Shared, writer: &WriteSide, is_due: bool) {
    let (position, floor) = {
        let log = lock(&writer.log);
        (log.appender.position(), log.appender.wants_prepared().then_some(log.next_sequence))
    };
    let unwritten = position - writer.group.synced();
    if (is_due && unwritten > 0) || unwritten >= shared.options.writeback_bytes {
        // The error has poisoned the handle, which is how the caller learns of it.
        let _ = shared.sync_to(position);
    }
    if let Some(floor) = floor {
        match shared.segments.prepare(floor) {
            // Never sync again what failed to: the second time may wrongly succeed.
            Err(e @ Error::Io { op: "sync", .. }) => shared.poison(&e),
            // The roll itself will try again, and then it matters.
            Err(e) => shared.counters.failed(&e),
            Ok(()) => {}
        }
    }
}

/// Runs checkpoints when they are due.
fn keep_checkpointed(shared: &Shared) {
    let Some(writer) = &shared.writer else { return };
    while !writer.checkpoint_bell.is_stopped() {
        writer.checkpoint_bell.wait(IDLE);
        if !writer.checkpoint_bell.is_stopped() {
            checkpoint_if_due(shared, writer);
            compact_if_worth(shared, writer);
        }
    }
}

/// Runs the checkpoint that was asked for, if one was.
pub(crate) fn checkpoint_if_due(shared: &Shared, writer: &WriteSide) {
    if writer.checkpoint_due.load(Ordering::Acquire)
        && let Err(e) = shared.checkpoint()
    {
        shared.counters.failed(&e);
    }
}

/// Gives space back: of the key log segment by segment, then of the index.
fn compact_if_worth(shared: &Shared, writer: &WriteSide) {
    let mut goes_on = Ok(true);
    while !writer.checkpoint_bell.is_stopped() && matches!(goes_on, Ok(true)) {
        goes_on = compact_keys(shared, writer);
    }
    if let Err(e) = goes_on.and_then(|_| shrink_index(shared, writer)) {
        shared.counters.failed(&e);
    }
}
