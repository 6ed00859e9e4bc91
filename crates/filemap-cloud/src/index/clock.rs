//! The clock of a writer's index. It never shows less than the index has seen: SlateDB refuses
//! writes until the time of the last one, so a clock that was ahead once would keep later writers
//! out for as long.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use slatedb_common::clock::{DefaultSystemClock, SystemClock, SystemClockTicker};

/// Further than this a time that was read is none: some 280 years.
const FARTHEST_MS: i64 = 1 << 43;

/// See the module.
#[derive(Debug)]
pub(super) struct Clock {
    system: DefaultSystemClock,
    /// Added to the system's time; it only grows.
    ahead_ms: AtomicI64,
}

impl Clock {
    /// A clock that is so much ahead of the system's.
    pub(super) fn new(ahead: Duration) -> Clock {
        let ahead_ms = i64::try_from(ahead.as_millis()).unwrap_or_default();
        Clock { system: DefaultSystemClock::new(), ahead_ms: AtomicI64::new(ahead_ms) }
    }

    /// Shows later times than this one from here on, in ms since 1970.
    pub(super) fn pass(&self, seen_ms: i64) {
        let behind = seen_ms.saturating_add(1).saturating_sub(self.system.now().timestamp_millis());
        if behind < FARTHEST_MS {
            self.ahead_ms.fetch_max(behind, Ordering::SeqCst);
        }
    }
}

impl SystemClock for Clock {
    fn now(&self) -> DateTime<Utc> {
        let now = self.system.now();
        let ahead = TimeDelta::try_milliseconds(self.ahead_ms.load(Ordering::SeqCst));
        ahead.and_then(|ahead| now.checked_add_signed(ahead)).unwrap_or(now)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.system.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_passes_what_was_seen_and_never_goes_back() {
        let clock = Clock::new(Duration::ZERO);
        let now = clock.now().timestamp_millis();
        clock.pass(now + 5_000_000);
        assert!(clock.now().timestamp_millis() > now + 5_000_000);
        clock.pass(now);
        assert!(clock.now().timestamp_millis() > now + 5_000_000);
        for strange in [i64::MIN, i64::MAX] {
            clock.pass(strange);
            assert!(clock.now().timestamp_millis() < now + 6_000_000);
        }
    }
}
