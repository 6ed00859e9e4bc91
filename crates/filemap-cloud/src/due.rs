//! Decides when upkeep is due: counts dead bytes and small segments left by commits since the last
//! run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::index::Changes;
use crate::plan::{SMALL_AT_ONCE, SMALL_PART};

/// Dead bytes since the last run, as a fraction of live bytes, from which a full scan pays.
const PART_OF_LIVE: u64 = 64;

/// Counts since the last run.
#[derive(Default)]
pub(crate) struct Due {
    dead: AtomicU64,
    /// Number of small segments.
    small: AtomicU64,
    /// Live bytes at the last run.
    live: AtomicU64,
    /// Bytes of all segments that this handle has committed.
    committed: AtomicU64,
    /// Before the first run the store's state is unknown: upkeep is due.
    has_run: AtomicBool,
    woken: Notify,
}

impl Due {
    /// Counts the commit of a segment of `bytes` bytes.
    pub(crate) fn committed(&self, changes: &Changes, bytes: u64, segment_bytes: u64) {
        self.committed.fetch_add(bytes, Ordering::Relaxed);
        let dead = changes.segments.values().fold(0, |sum: u64, bytes| sum.saturating_add(bytes.dead));
        let dead = dead.saturating_add(self.dead.fetch_add(dead, Ordering::Relaxed));
        let is_small = changes.rewritten.is_empty() && bytes < segment_bytes / SMALL_PART;
        let small = u64::from(is_small) + self.small.fetch_add(u64::from(is_small), Ordering::Relaxed);
        let enough = segment_bytes.max(self.live.load(Ordering::Relaxed) / PART_OF_LIVE);
        if dead >= enough || small >= SMALL_AT_ONCE as u64 || !self.has_run.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Resets the counts: a scan of all segments begins.
    pub(crate) fn begun(&self, live: u64) {
        self.has_run.store(true, Ordering::Relaxed);
        self.dead.store(0, Ordering::Relaxed);
        self.small.store(0, Ordering::Relaxed);
        self.live.store(live, Ordering::Relaxed);
    }

    /// Bytes of all segments that this handle has committed.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    pub(crate) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Waits until upkeep is due. Returns false if `longest` passes first.
    pub(crate) async fn wait(&self, longest: Duration) -> bool {
        tokio::time::timeout(longest, self.woken.notified()).await.is_ok()
    }
}
