//! Group commit: threads that wait for the log to be durable share one sync.

use std::time::{Duration, Instant};

use crate::error::Result;
use crate::sync::locks::{Ranked, lock, rank};
use crate::sync::primitive::{AtomicU64, Condvar, Ordering};

/// Group commit: one waiting thread syncs for all. It first waits briefly for threads about to
/// append; otherwise they would wait for this sync and then for their own.
#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    waiting: Ranked<{ rank::GROUP }, Waiting>,
    changed: Condvar,
    synced: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Threads that have called [`GroupSync::enter`], including waiting ones.
    inside: usize,
    threads: usize,
    /// True while a waiting thread syncs.
    is_syncing: bool,
    /// Duration of the last sync.
    last: Duration,
}

/// Marks a thread that will need a sync soon.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a GroupSync);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0.waiting);
        waiting.inside -= 1;
        if waiting.threads > 0 && !waiting.is_syncing {
            self.0.changed.notify_all();
        }
    }
}

/// Time to wait for threads about to append: four syncs, since as many may be saved; at least 100
/// us, at most 2 ms.
fn patience(sync: Duration) -> Duration {
    if cfg!(any(test, filemap_loom, filemap_shuttle)) {
        // Models have no clock. Only speed may depend on the timeout, so tests run without it.
        return Duration::from_secs(3600);
    }
    (4 * sync).clamp(Duration::from_micros(100), Duration::from_millis(2))
}

impl GroupSync {
    /// Durable length of the log, in bytes appended since the handle was opened.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Announces that this thread will append and wait for a sync.
    pub(crate) fn enter(&self) -> Inside<'_> {
        lock(&self.waiting).inside += 1;
        Inside(self)
    }

    /// Returns when everything up to `position` is durable. `sync` makes durable what was appended
    /// before its call, and returns that position. With `gathers`, for a thread that has entered,
    /// it first waits for the other threads that have entered.
    ///
    /// # Errors
    /// The thread that called `sync` gets its error; the others call it again and get the poison.
    pub(crate) fn wait_for(&self, position: u64, gathers: bool, sync: impl Fn() -> Result<u64>) -> Result<()> {
        loop {
            let Some(turn) = self.turn(position, gathers) else { return Ok(()) };
            let result = sync();
            if let Ok(to) = &result {
                self.synced.fetch_max(*to, Ordering::AcqRel);
            }
            drop(turn);
            result?;
        }
    }

    /// Waits until everything up to `position` is durable, or this thread must sync.
    fn turn(&self, position: u64, gathers: bool) -> Option<Turn<'_>> {
        let mut waiting = lock(&self.waiting);
        waiting.threads += 1;
        let mut until = None;
        while self.synced() < position {
            if waiting.is_syncing {
                waiting = waiting.wait(&self.changed);
                continue;
            }
            let now = Instant::now();
            let left = until.get_or_insert(now + patience(waiting.last)).saturating_duration_since(now);
            if !gathers || left.is_zero() || waiting.inside <= waiting.threads {
                waiting.is_syncing = true;
                return Some(Turn { group: self, begun: now });
            }
            waiting = waiting.wait_timeout(&self.changed, left);
        }
        waiting.threads -= 1;
        None
    }
}

/// The turn to sync. Passed on by drop, also in a panic: otherwise the others would wait forever.
struct Turn<'a> {
    group: &'a GroupSync,
    begun: Instant,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.group.waiting);
        waiting.is_syncing = false;
        waiting.threads -= 1;
        waiting.last = self.begun.elapsed();
        drop(waiting);
        self.group.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, StorageError};
    use crate::sync::Poison;

    #[test]
    fn threads_that_wait_together_share_a_sync() {
        const THREADS: u64 = 8;
        const ROUNDS: u64 = 50;
        let group = GroupSync::default();
        let (syncs, appended) = (AtomicU64::new(0), AtomicU64::new(0));
        let round_over = std::sync::Barrier::new(THREADS as usize);
        std::thread::scope(|s| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    s.spawn(|| {
                        for round in 1..=ROUNDS {
                            let mine = appended.fetch_add(1, Ordering::SeqCst) + 1;
                            let sync = || {
                                let to = appended.load(Ordering::SeqCst);
                                // The device is slower than the appends: the second sync of a
                                // round covers all of it.
                                while appended.load(Ordering::SeqCst) < round * THREADS {
                                    std::thread::yield_now();
                                }
                                syncs.fetch_add(1, Ordering::SeqCst);
                                Ok(to)
                            };
                            group.wait_for(mine, true, sync).unwrap();
                            assert!(group.synced() >= mine);
                            round_over.wait();
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
        let syncs = syncs.load(Ordering::SeqCst);
        assert!((ROUNDS..=2 * ROUNDS).contains(&syncs), "{syncs} syncs in {ROUNDS} rounds");
    }

    #[test]
    fn the_first_to_come_waits_for_those_that_are_about_to() {
        const THREADS: u64 = 6;
        let group = GroupSync::default();
        let (syncs, appended) = (AtomicU64::new(0), AtomicU64::new(0));
        let all_inside = std::sync::Barrier::new(THREADS as usize);
        std::thread::scope(|s| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    s.spawn(|| {
                        let _inside = group.enter();
                        all_inside.wait();
                        let mine = appended.fetch_add(1, Ordering::SeqCst) + 1;
                        let sync = || {
                            syncs.fetch_add(1, Ordering::SeqCst);
                            Ok(appended.load(Ordering::SeqCst))
                        };
                        group.wait_for(mine, true, sync).unwrap();
                        assert!(group.synced() >= mine);
                    })
                })
                .collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
        assert_eq!(syncs.load(Ordering::SeqCst), 1);
        let inside = group.enter();
        group.wait_for(THREADS + 1, false, || Ok(THREADS + 1)).unwrap();
        drop(inside);
        let waiting = lock(&group.waiting);
        assert_eq!((waiting.inside, waiting.threads), (0, 0));
    }

    #[test]
    fn a_failed_sync_reaches_every_waiter() {
        let group = GroupSync::default();
        let poison = Poison::default();
        let sync = || {
            poison.check()?;
            let error = Error::io("sync", "value0.dat")(std::io::Error::other("boom"));
            poison.set(&error);
            Err(error)
        };
        assert!(matches!(group.wait_for(1, true, sync), Err(Error::Storage(StorageError::Io { .. }))));
        assert!(matches!(group.wait_for(1, true, sync), Err(Error::Storage(StorageError::Poisoned { .. }))));
    }
}
