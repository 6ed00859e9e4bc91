//! Bells: wake background threads for due work, and stop them.

use std::time::{Duration, Instant};

use crate::sync::locks::{Ranked, lock, rank};
use crate::sync::primitive::{AtomicBool, Condvar, Ordering};

/// Longest wait: keeps `Instant` arithmetic from overflowing.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Wakes a background thread, which sleeps until rung or timed out.
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

    /// Stops the thread: rings once more, and later waits return at once.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sleeps until rung or `timeout`, at most a year. Returns at once after [`Bell::stop`].
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
