//! The time of pages, events and the frontier: the system's clock.

use std::time::SystemTime;

/// Milliseconds since 1970, by the system's clock.
pub fn now_ms() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
