//! How a crawl is asked to stop, by whoever has a handle: another thread, or a signal's handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle by which anybody asks a crawl to stop: what is in flight ends, and is committed. All
/// clones are one handle; asking is for good.
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
    /// A handle of a crawl that is to go on.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// A handle that is asked by a flag: by handlers of signals, say, which may only set one.
    pub fn of(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }

    /// Asks the crawl to stop.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is to stop.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
