//! When upkeep is due: counts what commits leave behind since it ran last.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::index::Changes;
use crate::plan::{SMALL_AT_ONCE, SMALL_PART};

/// Bytes that died since are so much of those that live, before a look at all segments pays.
const PART_OF_LIVE: u64 = 64;

/// Counts of what commits left behind.
#[derive(Default)]
pub(crate) struct Due {
    dead: AtomicU64,
    /// Small segments.
    small: AtomicU64,
    /// Live bytes when it ran last.
    live: AtomicU64,
    /// What is not known yet may be anything.
    has_run: AtomicBool,
    woken: Notify,
}

impl Due {
    /// Counts a commit of a segment of so many bytes.
    pub(crate) fn committed(&self, changes: &Changes, bytes: u64, segment_bytes: u64) {
        let dead = changes.segments.values().fold(0, |sum: u64, bytes| sum.saturating_add(bytes.dead));
        let dead = dead.saturating_add(self.dead.fetch_add(dead, Ordering::Relaxed));
        let is_small = changes.rewritten.is_empty() && bytes < segment_bytes / SMALL_PART;
        let small = u64::from(is_small) + self.small.fetch_add(u64::from(is_small), Ordering::Relaxed);
        let enough = segment_bytes.max(self.live.load(Ordering::Relaxed) / PART_OF_LIVE);
        if dead >= enough || small >= SMALL_AT_ONCE as u64 || !self.has_run.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// A look at all segments begins.
    pub(crate) fn begun(&self, live: u64) {
        self.has_run.store(true, Ordering::Relaxed);
        self.dead.store(0, Ordering::Relaxed);
        self.small.store(0, Ordering::Relaxed);
        self.live.store(live, Ordering::Relaxed);
    }

    pub(crate) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Waits until it is due; false if it is not after so long.
    pub(crate) async fn wait(&self, longest: Duration) -> bool {
        tokio::time::timeout(longest, self.woken.notified()).await.is_ok()
    }
}
