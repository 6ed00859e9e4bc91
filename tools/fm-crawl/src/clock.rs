//! The time as pages and the frontier have it: milliseconds since 1970, by the system's clock.

use std::time::SystemTime;

/// Now.
pub fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// A time of ours as the frontier counts: never below 0.
pub fn unsigned(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0)
}
