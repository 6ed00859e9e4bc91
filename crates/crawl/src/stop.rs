//! The stop handle of a crawl, for other threads and signal handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle that asks a crawl to stop: fetches in flight end, and are committed. All clones share
/// one state; a request cannot be withdrawn.
///
/// ```
/// let stop = crawl::Stop::new();
/// let other = stop.clone();
/// other.ask();
/// assert!(stop.is_asked());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A handle without a request to stop.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// A handle driven by a flag: for instance by signal handlers, which may only set one.
    pub fn of(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }

    /// Asks the crawl to stop.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether a stop was requested.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
