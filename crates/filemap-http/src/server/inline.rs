//! Decides whether calls of one kind run where the request is, or on another thread: handing one
//! over and back costs more than a quick call takes, and a slow one would block other requests.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A slow call adds `SLOWER` to the slowness, a quick one subtracts 1. One call in fifty is slow
/// when another process uses the processor; from a device nearly all are.
const SLOWER: u32 = 4;
const TOO_SLOW: u32 = 32;
/// Number of calls then sent to other threads, before one is tried inline again.
const AWAY: u32 = 64;

/// The recent speed of calls of one kind. Lost updates of its counters are harmless.
pub(super) struct Inline {
    quick: Duration,
    slowness: AtomicU32,
    away: AtomicU32,
}

impl Inline {
    /// For calls that are quick if they take at most `quick`.
    pub(super) fn new(quick: Duration) -> Inline {
        Inline { quick, slowness: AtomicU32::new(0), away: AtomicU32::new(0) }
    }

    /// Returns whether the next call may run inline; the caller then notes its time.
    pub(super) fn may_be_inline(&self) -> bool {
        let away = self.away.load(Ordering::Relaxed);
        if away > 0 {
            self.away.store(away - 1, Ordering::Relaxed);
        }
        away == 0
    }

    /// Notes the time that an inline call took.
    pub(super) fn note(&self, took: Duration) {
        let slowness = self.slowness.load(Ordering::Relaxed);
        if took <= self.quick {
            self.slowness.store(slowness.saturating_sub(1), Ordering::Relaxed);
        } else if slowness + SLOWER < TOO_SLOW {
            self.slowness.store(slowness + SLOWER, Ordering::Relaxed);
        } else {
            self.away.store(AWAY, Ordering::Relaxed);
        }
    }
}

/// Bounds inline calls that the store may hold up: back-pressure stops each of them, and a worker
/// of the runtime with it, while reads and `/healthz` need a worker too.
pub(super) struct Turns {
    base: Instant,
    long: Duration,
    /// Microseconds from `base` to the begin of each call in progress, and 1; 0 for a free turn.
    begun: Box<[AtomicU64]>,
}

/// A turn for an inline call; free again when it is dropped.
pub(super) struct Turn<'t>(&'t AtomicU64);

impl Turns {
    /// At most `most` calls at once, and no further one while one has taken longer than `long`.
    pub(super) fn new(most: usize, long: Duration) -> Turns {
        Turns { base: Instant::now(), long, begun: (0..most).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Takes a turn; `None` if the call must go to another thread.
    pub(super) fn take(&self) -> Option<Turn<'_>> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let now = micros(self.base.elapsed()).saturating_add(1);
        let is_long = |begun: u64| begun != 0 && now.saturating_sub(begun) > micros(self.long);
        if self.begun.iter().any(|turn| is_long(turn.load(Ordering::Relaxed))) {
            return None;
        }
        let is_taken = |turn: &&AtomicU64| turn.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        self.begun.iter().find(is_taken).map(Turn)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_bounded_and_given_back() {
        let turns = Turns::new(2, Duration::from_secs(3600));
        let (first, second) = (turns.take(), turns.take());
        assert!(first.is_some() && second.is_some() && turns.take().is_none());
        drop(first);
        assert!(turns.take().is_some() && Turns::new(0, QUICK).take().is_none());
    }

    #[test]
    fn one_long_call_keeps_the_others_from_being_inline() {
        let turns = Turns::new(2, Duration::from_millis(1));
        let long = turns.take();
        std::thread::sleep(Duration::from_millis(10));
        assert!(long.is_some() && turns.take().is_none(), "a turn is free, but the store holds calls up");
        drop(long);
        assert!(turns.take().is_some());
    }

    const QUICK: Duration = Duration::from_micros(100);

    #[test]
    fn slow_calls_go_away_and_one_in_a_while_is_tried() {
        let inline = Inline::new(QUICK);
        let mut tried = 0;
        for _ in 0..1_000 {
            if inline.may_be_inline() {
                tried += 1;
                inline.note(QUICK * 2);
            }
        }
        // Eight until it is known, then one in 65.
        assert_eq!(tried, 8 + (1_000 - 8) / 65);
    }

    #[test]
    fn a_slow_call_now_and_then_changes_nothing() {
        let inline = Inline::new(QUICK);
        for call in 0..10_000 {
            assert!(inline.may_be_inline(), "call {call}");
            inline.note(if call % 50 == 0 { QUICK * 100 } else { QUICK });
        }
    }

    #[test]
    fn calls_that_are_quick_again_come_back() {
        let inline = Inline::new(QUICK);
        while inline.may_be_inline() {
            inline.note(QUICK * 2);
        }
        while !inline.may_be_inline() {}
        inline.note(QUICK);
        assert!(inline.may_be_inline());
    }
}
