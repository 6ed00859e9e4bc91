//! Adaptive politeness: extra delay for a host that is slow, or says that it gets too many
//! requests.
//!
//! After an answer that took longer than the delay, the host rests for as long again. Each 429 or
//! 503 doubles its delay, up to [`DOUBLINGS_MAX`] times; [`CALM`] other answers in a row halve it.
//! Only slowed hosts are remembered.

use std::collections::HashMap;
use std::time::Duration;

/// The maximum number of doublings of a delay.
const DOUBLINGS_MAX: u32 = 6;
/// Answers in a row after which a delay is halved.
const CALM: u32 = 20;
/// The delay to double if a host has none.
const DELAY_MIN: Duration = Duration::from_millis(250);
/// The longest wait after a slow answer.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The slowed hosts.
#[derive(Debug, Default)]
pub struct Pace(HashMap<String, Slowed>);

#[derive(Clone, Copy, Debug, Default)]
struct Slowed {
    doublings: u32,
    /// Other answers in a row.
    calm: u32,
}

/// An answer, as far as it affects the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A 429 or 503.
    Busy,
    /// Anything else.
    Other,
}

impl Pace {
    /// Notes an answer; returns how long to leave the host alone after it, beyond its delay.
    pub fn after(&mut self, host: &str, answer: Answer, took: Duration, delay: Duration) -> Option<Duration> {
        let slow = (took > delay && !delay.is_zero()).then(|| took.min(WAIT_MAX));
        let doublings = match (answer, self.0.get_mut(host)) {
            (Answer::Busy, Some(slowed)) => {
                *slowed = Slowed { doublings: (slowed.doublings + 1).min(DOUBLINGS_MAX), calm: 0 };
                slowed.doublings
            }
            (Answer::Busy, None) => {
                self.0.insert(host.to_owned(), Slowed { doublings: 1, calm: 0 });
                1
            }
            (Answer::Other, None) => return slow,
            (Answer::Other, Some(slowed)) => {
                slowed.calm += 1;
                if slowed.calm == CALM {
                    *slowed = Slowed { doublings: slowed.doublings - 1, calm: 0 };
                }
                slowed.doublings
            }
        };
        if doublings == 0 {
            self.0.remove(host);
            return slow;
        }
        slow.max(Some(delay.max(DELAY_MIN) * (1 << doublings)))
    }

    /// The number of slowed hosts.
    pub fn slowed(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_busy_is_asked_half_as_often_and_gains_when_it_is_calm() {
        let mut pace = Pace::default();
        let (delay, quick) = (Duration::from_secs(1), Duration::from_millis(10));
        let seconds = |wait: Option<Duration>| wait.map_or(0.0, |wait| wait.as_secs_f32());
        assert_eq!(pace.after("a", Answer::Other, quick, delay), None);
        let waits: Vec<f32> = (0..8).map(|_| seconds(pace.after("a", Answer::Busy, quick, delay))).collect();
        assert_eq!(waits, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0, 64.0]);
        assert_eq!((pace.slowed(), pace.after("b", Answer::Other, quick, delay)), (1, None));
        let mut waits = Vec::new();
        while pace.slowed() > 0 {
            waits.push(seconds(pace.after("a", Answer::Other, quick, delay)));
        }
        assert_eq!(waits.len(), 6 * CALM as usize);
        assert_eq!((waits[0], waits[CALM as usize], waits[waits.len() - 1]), (64.0, 32.0, 0.0));
        // It also works without a delay.
        assert_eq!(pace.after("a", Answer::Busy, quick, Duration::ZERO), Some(2 * DELAY_MIN));
    }

    #[test]
    fn a_slow_host_has_as_long_again_unless_there_is_no_delay() {
        let mut pace = Pace::default();
        let after = |pace: &mut Pace, took, delay| {
            pace.after("a", Answer::Other, Duration::from_secs(took), Duration::from_secs(delay))
        };
        assert_eq!(after(&mut pace, 5, 1), Some(Duration::from_secs(5)));
        assert_eq!(after(&mut pace, 500, 1), Some(WAIT_MAX));
        assert_eq!((after(&mut pace, 5, 0), after(&mut pace, 1, 1)), (None, None));
    }
}
