//! The writer's state: the log's end, group commit, back-pressure, admission, and the bells of the
//! background threads.

mod admission;
mod append;
mod pace;
mod training;

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::failpoint::{Fault, planted};
use crate::handle::log::Log;
use crate::handle::reading::Reading;
use crate::options::Durability;
use crate::stats::Counters;
use crate::sync::gate::Gate;
use crate::sync::primitive::{AtomicBool, Ordering};
use crate::sync::{Bell, GroupSync, Poison, Ranked, lock, rank};

pub use admission::Admission;
pub(crate) use pace::late_bytes;
pub(crate) use training::{LONGEST_SAMPLE, Training};

/// Bells that wake and stop the background threads.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    pub(crate) sync: Bell,
    pub(crate) checkpoint: Bell,
    pub(crate) compact: Bell,
    pub(crate) join: Bell,
    pub(crate) sort: Bell,
}

/// Shared write state of a handle.
pub(crate) struct Writing {
    reading: Arc<Reading>,
    log: Arc<Ranked<{ rank::APPEND }, Log>>,
    group: GroupSync,
    poison: Arc<Poison>,
    gate: Arc<Gate>,
    bells: Bells,
    checkpoint_due: AtomicBool,
    pace: pace::Pace,
    training: Training,
    /// Judges every put.
    admission: ArcSwapOption<Arc<dyn Admission>>,
}

impl Writing {
    /// `log` is also the log of `reading`.
    pub(crate) fn new(reading: Arc<Reading>, log: Arc<Ranked<{ rank::APPEND }, Log>>, gate: Arc<Gate>) -> Writing {
        Writing {
            reading,
            log,
            group: GroupSync::default(),
            poison: Arc::clone(&gate.poison),
            gate,
            bells: Bells::default(),
            checkpoint_due: AtomicBool::new(false),
            pace: pace::Pace::default(),
            training: Training::default(),
            admission: ArcSwapOption::empty(),
        }
    }

    /// The value log behind the append lock.
    pub(crate) fn log(&self) -> &Ranked<{ rank::APPEND }, Log> {
        &self.log
    }

    pub(crate) fn poisoned(&self) -> &Poison {
        &self.poison
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn bells(&self) -> &Bells {
        &self.bells
    }

    pub(crate) fn training(&self) -> &Training {
        &self.training
    }

    /// Asks for a checkpoint, unless one is already due.
    pub(crate) fn ask_for_checkpoint(&self) {
        if !self.checkpoint_due.swap(true, Ordering::AcqRel) {
            self.bells.checkpoint.ring();
        }
    }

    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.checkpoint_due.load(Ordering::Acquire)
    }

    /// Called when a checkpoint has ended.
    pub(crate) fn checkpoint_done(&self) {
        self.checkpoint_due.store(false, Ordering::Release);
    }

    /// Stops all writes after a failed write or sync. The gate's refusal for a closed handle is
    /// not a failure.
    pub(crate) fn poison(&self, error: &Error) {
        if matches!(error, Error::Closed) {
            return;
        }
        self.reading.counters().failed(error);
        self.poison_because(error.to_string());
    }

    /// Stops all writes for a cause that is not an error.
    pub(crate) fn poison_because(&self, cause: String) {
        if self.poison.set_cause(cause.clone()) {
            self.reading.emit(&Event::Poisoned { cause });
        }
    }

    /// Returns true if every put must be durable before it returns.
    pub(crate) fn is_sync(&self) -> bool {
        self.reading.options().durability == Durability::Sync
    }

    /// Returns when the log is durable up to an appender position. Waiting threads share a sync.
    pub(crate) fn sync_to(&self, position: u64) -> Result<()> {
        self.sync_group(position, false)
    }

    /// [`Writing::sync_to`] for a thread that has entered the group.
    pub(crate) fn sync_with_others(&self, position: u64) -> Result<()> {
        self.sync_group(position, true)
    }

    fn sync_group(&self, position: u64, gathers: bool) -> Result<()> {
        self.group.wait_for(position, gathers, || {
            self.poison.check()?;
            let log = lock(&self.log);
            let ((files, to), end) = (log.appender.to_sync(), log.end());
            drop(log);
            for (segment, file) in files.iter().filter(|_| !planted(Fault::SyncSkipped)) {
                if let Err(e) = file.sync() {
                    let error = Error::io("sync", segment.name())(e);
                    if !planted(Fault::FailedSyncRetried) {
                        self.poison(&error);
                    }
                    return Err(error);
                }
            }
            let mut log = lock(&self.log);
            log.appender.synced(&files);
            log.durable = log.durable.max(end);
            drop(log);
            Counters::add(&self.reading.counters().syncs, 1);
            Ok(to)
        })
    }

    /// Appender position up to which the log is durable.
    pub(crate) fn synced(&self) -> u64 {
        self.group.synced()
    }

    /// Pretends that another thread has synced up to `position`.
    #[cfg(test)]
    pub(crate) fn take_for_synced(&self, position: u64) {
        assert!(self.group.wait_for(position, false, || Ok(position)).is_ok());
    }
}
