//! The clock: the times given by the caller, and recovery from a wrong one.
//!
//! Time does not run backwards: a time earlier by less than [`STEP_MS`] is taken for the last one.
//! A time earlier by more, or before the recorded start of a fetch in an earlier process, means
//! that the clock was ahead: every wait is then cut to the longest possible wait from now.

use super::Frontier;
use crate::error::Result;
use crate::record::Record;

/// The clock was ahead if it goes back by more than this.
const STEP_MS: i64 = 60_000;

impl Frontier {
    /// Advances the clock to a time given, or sets it back.
    pub(super) fn advance(&mut self, now_ms: i64) -> Result<()> {
        let was_ahead = now_ms.max(0) < self.state.queue.clock_ms().saturating_sub(STEP_MS);
        if was_ahead || !self.has_time {
            self.has_time = true;
            self.set_back(now_ms.max(0))?;
        }
        let advanced = self.state.queues(|queue, view| queue.advance(now_ms, view));
        self.poison.note(advanced)?;
        if self.must_rest {
            self.must_rest = false;
            self.tell(&Record::Rested { at_ms: self.state.queue.clock_ms() })?;
        }
        Ok(())
    }

    /// Cuts waits that a correct clock cannot have begun. O(timers in memory + hosts), or O(pages)
    /// if one that was left out may be too long.
    fn set_back(&mut self, now_ms: i64) -> Result<()> {
        let longest = |wait_ms: u64| now_ms.saturating_add_unsigned(wait_ms);
        let rests_ms = longest(self.options.rest_max_ms);
        let hosts = &mut self.state.hosts;
        for host in 0..hosts.len() {
            hosts.set_began_ms(host, hosts.began_ms(host).map(|began| began.min(now_ms)));
        }
        for limits in hosts.all_limits() {
            if limits.hold_until_ms < i64::MAX {
                limits.hold_until_ms = limits.hold_until_ms.min(rests_ms);
            }
            if let Some(down) = &mut limits.down {
                down.since_ms = down.since_ms.min(now_ms);
                down.until_ms = down.until_ms.min(rests_ms);
            }
        }
        for flight in self.in_flight.values_mut() {
            flight.began_ms = flight.began_ms.min(now_ms);
            flight.before_ms = flight.before_ms.map(|before| before.min(now_ms));
        }
        let waits_ms = self.options.backoff_max_ms.max(self.options.rest_max_ms.saturating_mul(2));
        let recrawl_ms = self.options.recrawl.map_or(0, |recrawl| recrawl.max_ms);
        let set_back = self.state.set_back(now_ms, longest(waits_ms.max(recrawl_ms)));
        self.poison.note(set_back)
    }
}
