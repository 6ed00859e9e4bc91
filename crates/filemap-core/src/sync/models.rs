//! Group commit and bells under the model checker loom: in every interleaving of the threads no
//! waiter is left behind and no ring is lost. A thread that waits forever is a deadlock, which the
//! checker reports as a failure.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::error::{Error, Result, StorageError};
use crate::sync::primitive::{AtomicBool, AtomicU64, Fault, Ordering, plant};

fn model(scenario: fn()) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(scenario);
}

/// A log that threads append to; its sync may fail.
#[derive(Default)]
struct Log {
    group: GroupSync,
    poison: Poison,
    appended: AtomicU64,
    durable: AtomicU64,
    fails: bool,
}

impl Log {
    fn sync(&self) -> Result<u64> {
        self.poison.check()?;
        let to = self.appended.load(Ordering::Acquire);
        if self.fails {
            let error = Error::io("sync", "value0.dat")(std::io::Error::other("boom"));
            self.poison.set(&error);
            return Err(error);
        }
        self.durable.fetch_max(to, Ordering::AcqRel);
        Ok(to)
    }

    /// A put with `Durability::Sync`.
    fn put(&self) -> Result<()> {
        let _inside = self.group.enter();
        self.put_and_sync()
    }

    /// A put followed by `sync`, without entering the group.
    fn put_and_sync(&self) -> Result<()> {
        let mine = self.appended.fetch_add(1, Ordering::AcqRel) + 1;
        self.group.wait_for(mine, true, || self.sync())?;
        assert!(self.durable.load(Ordering::Acquire) >= mine, "it returned before its record was durable");
        Ok(())
    }
}

fn with_two_others(log: Log, put: fn(&Log) -> Result<()>, mut check: impl FnMut(Result<()>)) {
    let log = Arc::new(log);
    let others: Vec<_> = (0..2)
        .map(|_| {
            let log = Arc::clone(&log);
            loom::thread::spawn(move || put(&log))
        })
        .collect();
    check(put(&log));
    others.into_iter().for_each(|other| check(other.join().unwrap()));
}

fn all_return() {
    with_two_others(Log::default(), Log::put_and_sync, |result| result.unwrap());
}

#[test]
fn all_who_wait_for_a_sync_return_when_they_are_durable() {
    model(all_return);
}

#[test]
fn those_who_wait_for_each_other_to_come_return_too() {
    model(|| with_two_others(Log::default(), Log::put, |result| result.unwrap()));
}

#[test]
fn one_that_was_waited_for_and_does_not_come_keeps_nobody() {
    model(|| {
        let log = Arc::new(Log::default());
        let theirs = Arc::clone(&log);
        let other = loom::thread::spawn(move || theirs.put().unwrap());
        drop(log.group.enter());
        other.join().unwrap();
    });
}

#[test]
fn a_failed_sync_reaches_all_who_wait_for_it() {
    model(|| {
        let mut causes = 0;
        with_two_others(Log { fails: true, ..Log::default() }, Log::put, |result| match result {
            Err(Error::Storage(StorageError::Io { .. })) => causes += 1,
            other => assert!(matches!(other, Err(Error::Storage(StorageError::Poisoned { .. })))),
        });
        assert_eq!(causes, 1, "one learns the cause, the others of the poison");
    });
}

#[test]
#[should_panic = "deadlock"]
fn a_waiter_that_is_not_woken_is_noticed() {
    plant(Fault::WakeOne);
    model(all_return);
}

/// Runs `work` on a background thread while `call` rings its bell.
fn with_a_worker(work: fn(&Bell, &AtomicBool), call: fn(&Bell, &AtomicBool)) {
    let shared = Arc::new((Bell::default(), AtomicBool::new(false)));
    let theirs = Arc::clone(&shared);
    let worker = loom::thread::spawn(move || work(&theirs.0, &theirs.1));
    call(&shared.0, &shared.1);
    worker.join().unwrap();
}

#[test]
fn what_was_rung_for_is_done() {
    model(|| {
        let work = |bell: &Bell, due: &AtomicBool| {
            while !due.load(Ordering::Acquire) {
                bell.wait(Duration::from_secs(3600));
            }
        };
        with_a_worker(work, |bell, due| {
            bell.ring();
            due.store(true, Ordering::Release);
            bell.ring();
        });
    });
}

#[test]
fn a_thread_that_is_stopped_ends() {
    model(|| {
        let work = |bell: &Bell, _: &AtomicBool| {
            while !bell.is_stopped() {
                bell.wait(Duration::from_secs(3600));
            }
        };
        with_a_worker(work, |bell, _| {
            bell.ring();
            bell.stop();
        });
    });
}
