//! Bells: how background threads are woken and stopped.

use std::time::{Duration, Instant};

use crate::sync::locks::{Ranked, lock, rank};
use crate::sync::primitive::{AtomicBool, Condvar, Ordering};

/// No clock is asked for a time beyond what it can tell.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Wakes a background thread: it sleeps until rung, or until its time is up.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Ranked<{ rank::BELL }, bool>,
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

    /// Sleeps until it is rung or `timeout` is over, at most a year; not at all once it is stopped.
    pub(crate) fn wait(&self, timeout: Duration) {
        let until = Instant::now() + timeout.min(A_YEAR);
        let mut rung = lock(&self.rung);
        while !*rung && !self.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            rung = rung.wait_timeout(&self.changed, left);
        }
        *rung = false;
    }
}
