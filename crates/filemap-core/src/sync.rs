//! Locks, group commit and poison: what threads share.
//!
//! Order of the locks, outermost first: checkpoint, append, sync state. A thread that holds a later one never takes an
//! earlier one. Readers take none of them.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::primitive::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, OnceLock, Ordering};

/// Takes a lock. A thread that panicked while holding it was our bug and has been reported as such; the state it left is
/// no worse for the others than for recovery.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The latch after the first failed write or sync: the handle refuses writes from then on.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    cause: OnceLock<String>,
}

impl Poison {
    /// Remembers the first cause. Returns whether this was it.
    pub(crate) fn set(&self, cause: &Error) -> bool {
        self.cause.set(cause.to_string()).is_ok()
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.cause.get().map(String::as_str)
    }

    /// # Errors
    /// `Poisoned` once a cause is set.
    pub(crate) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }
}

/// Group commit: of the threads that wait for the log to be durable, one syncs for all.
#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    running: Mutex<bool>,
    done: Condvar,
    synced: AtomicU64,
}

impl GroupSync {
    /// How far the log is durable, in bytes appended since the handle was opened.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Returns when everything up to `position` is durable. `sync` makes all durable that was appended when it is called,
    /// and returns up to where.
    ///
    /// # Errors
    /// What `sync` returned, to the thread that called it; the others call it again and so meet the poison.
    pub(crate) fn wait_for(&self, position: u64, sync: impl Fn() -> Result<u64>) -> Result<()> {
        loop {
            let mut running = lock(&self.running);
            loop {
                if self.synced() >= position {
                    return Ok(());
                }
                if !*running {
                    break;
                }
                running = self.done.wait(running).unwrap_or_else(PoisonError::into_inner);
            }
            *running = true;
            drop(running);
            let turn = Turn(self);
            let result = sync();
            if let Ok(to) = &result {
                self.synced.fetch_max(*to, Ordering::AcqRel);
            }
            drop(turn);
            result?;
        }
    }
}

/// The turn of the thread that syncs; given up even if that panics, or the others would wait for ever.
struct Turn<'a>(&'a GroupSync);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.running) = false;
        self.0.done.notify_all();
    }
}

/// Wakes a background thread: it sleeps until rung, or until its time is up.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    stop: AtomicBool,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *lock(&self.rung) = true;
        self.changed.notify_all();
    }

    /// Rings for the last time.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sleeps until it is rung or `timeout` is over; not at all once it is stopped.
    pub(crate) fn wait(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let mut rung = lock(&self.rung);
        while !*rung && !self.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            rung = self.changed.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung = false;
    }
}

#[cfg(all(test, filemap_loom))]
mod models;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_wait_together_share_a_sync() {
        const THREADS: u64 = 8;
        const ROUNDS: u64 = 50;
        let group = GroupSync::default();
        let (syncs, appended) = (AtomicU64::new(0), AtomicU64::new(0));
        let round_over = std::sync::Barrier::new(THREADS as usize);
        std::thread::scope(|s| {
            for _ in 0..THREADS {
                s.spawn(|| {
                    for round in 1..=ROUNDS {
                        let mine = appended.fetch_add(1, Ordering::SeqCst) + 1;
                        let sync = || {
                            let to = appended.load(Ordering::SeqCst);
                            // The device is slower than all appends: so the second sync of a round is for all.
                            while appended.load(Ordering::SeqCst) < round * THREADS {
                                std::thread::yield_now();
                            }
                            syncs.fetch_add(1, Ordering::SeqCst);
                            Ok(to)
                        };
                        group.wait_for(mine, sync).unwrap();
                        assert!(group.synced() >= mine);
                        round_over.wait();
                    }
                });
            }
        });
        let syncs = syncs.load(Ordering::SeqCst);
        assert!((ROUNDS..=2 * ROUNDS).contains(&syncs), "{syncs} syncs in {ROUNDS} rounds");
    }

    #[test]
    fn a_failed_sync_reaches_every_waiter() {
        let group = GroupSync::default();
        let poison = Poison::default();
        let sync = || {
            poison.check()?;
            let error = Error::io("sync", "value0.dat", std::io::Error::other("boom"));
            poison.set(&error);
            Err(error)
        };
        assert!(matches!(group.wait_for(1, sync), Err(Error::Io { .. })));
        assert!(matches!(group.wait_for(1, sync), Err(Error::Poisoned { .. })));
    }
}
