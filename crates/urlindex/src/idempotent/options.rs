//! Options of an idempotent set: retention of answered requests, and the clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

filemap_io::options! {
    /// Retention of the answers of an [`crate::idempotent::IdempotentSet`]: by default 24 hours,
    /// or until 1,048,576 newer requests came, whichever ends first.
    ///
    /// A kept request takes about 65 bytes and two bits a URL on disk, and 48 bytes of memory.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urlindex::idempotent::RequestOptions;
    ///
    /// let options = RequestOptions::new().keep_requests(100_000).keep_for(Duration::from_secs(3_600));
    /// ```
    #[derive(Clone)]
    pub struct RequestOptions {
        /// A request is forgotten after this many newer ones, or some more: default 1,048,576.
        pub(super) keep_requests: u64 = 1 << 20,
    } by hand {
        pub(super) keep_ms: u64 = 24 * 3_600 * 1_000,
        pub(super) now_ms: Arc<dyn Fn() -> i64 + Send + Sync> = Arc::new(system_ms),
    }
}

fn system_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_millis() as i64)
}

filemap_io::debug_fields!(RequestOptions: keep_requests, keep_ms);

impl RequestOptions {
    /// A request is forgotten at this age, or later: default 24 hours.
    #[must_use]
    pub fn keep_for(self, age: Duration) -> RequestOptions {
        RequestOptions { keep_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX), ..self }
    }

    /// Clock, in milliseconds since 1970; the system's by default.
    #[must_use]
    pub fn clock(self, now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> RequestOptions {
        RequestOptions { now_ms: Arc::new(now_ms), ..self }
    }

    pub(super) fn now(&self) -> u64 {
        (self.now_ms)().max(0) as u64
    }
}
