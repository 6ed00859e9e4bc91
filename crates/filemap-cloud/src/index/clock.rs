//! A monotonic clock for a writer's index, at or after every time in the index: SlateDB refuses
//! writes before the time of its last one. So a system clock that was once ahead does not block
//! later writers until that time is reached, and one set back does not stop a writer.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use slatedb_common::clock::{DefaultSystemClock, SystemClock, SystemClockTicker};

/// Times beyond this (280 years) are invalid.
const FARTHEST_MS: i64 = 1 << 43;

/// A clock that never goes back.
#[derive(Debug)]
pub(super) struct Clock {
    system: DefaultSystemClock,
    /// The error of the system's clock; only tests set it.
    wrong_ms: AtomicI64,
    /// Added to the system's time; it only grows.
    ahead_ms: AtomicI64,
    /// The latest time that was shown.
    shown_ms: AtomicI64,
}

impl Clock {
    /// A clock over a system clock that is ahead by `wrong`.
    pub(super) fn new(wrong: Duration) -> Clock {
        let wrong_ms = AtomicI64::new(i64::try_from(wrong.as_millis()).unwrap_or_default());
        let (ahead_ms, shown_ms) = (AtomicI64::new(0), AtomicI64::new(i64::MIN));
        Clock { system: DefaultSystemClock::new(), wrong_ms, ahead_ms, shown_ms }
    }

    fn system_ms(&self) -> i64 {
        self.system.now().timestamp_millis().saturating_add(self.wrong_ms.load(Ordering::SeqCst))
    }

    /// The amount by which this clock runs ahead of the system's, because of times in the index.
    pub(super) fn ahead(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.ahead_ms.load(Ordering::SeqCst)).unwrap_or_default())
    }

    /// From now on shows only times after `seen_ms`, in ms since 1970.
    pub(super) fn pass(&self, seen_ms: i64) {
        let behind = seen_ms.saturating_add(1).saturating_sub(self.system_ms());
        if behind < FARTHEST_MS {
            self.ahead_ms.fetch_max(behind, Ordering::SeqCst);
        }
    }
}

impl SystemClock for Clock {
    fn now(&self) -> DateTime<Utc> {
        let now_ms = self.system_ms().saturating_add(self.ahead_ms.load(Ordering::SeqCst));
        let shown_ms = self.shown_ms.fetch_max(now_ms, Ordering::SeqCst).max(now_ms);
        DateTime::from_timestamp_millis(shown_ms).unwrap_or_else(|| self.system.now())
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.system.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

/// The system's clock for a view that stays as it is: its tickers never tick, so SlateDB polls
/// nothing. Pauses between retries end as usual.
#[derive(Debug, Default)]
pub(super) struct Still {
    system: DefaultSystemClock,
    never: Never,
}

impl SystemClock for Still {
    fn now(&self) -> DateTime<Utc> {
        self.system.now()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.system.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(&self.never, duration)
    }
}

/// A clock whose pauses do not end.
#[derive(Debug, Default)]
struct Never(DefaultSystemClock);

impl SystemClock for Never {
    fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }

    fn sleep<'a>(&'a self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(std::future::pending())
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_ticker_of_a_view_that_stays_never_ticks() {
        let still = Still::default();
        let mut ticker = still.ticker(Duration::ZERO);
        assert!(ticker.tick().now_or_never().is_none());
        assert!(still.now().timestamp_millis() > 1_600_000_000_000);
    }

    #[test]
    fn it_passes_what_was_seen_and_never_goes_back() {
        let clock = Clock::new(Duration::ZERO);
        let now = clock.now().timestamp_millis();
        clock.pass(now + 5_000_000);
        assert!(clock.now().timestamp_millis() > now + 5_000_000);
        assert!(clock.ahead() > Duration::from_secs(4_990), "ages are too large by that");
        clock.pass(now);
        assert!(clock.now().timestamp_millis() > now + 5_000_000);
        for strange in [i64::MIN, i64::MAX] {
            clock.pass(strange);
            assert!(clock.now().timestamp_millis() < now + 6_000_000);
        }
    }

    #[test]
    fn a_system_clock_that_is_set_back_does_not_set_it_back() {
        let clock = Clock::new(Duration::from_secs(60));
        let before = clock.now();
        clock.wrong_ms.store(-3_600_000, Ordering::SeqCst);
        assert!(clock.now() >= before);
        assert_eq!(clock.ahead(), Duration::ZERO, "that is no time that the index has seen");
        clock.wrong_ms.store(120_000, Ordering::SeqCst);
        assert!(clock.now() > before);
    }
}
