//! An active host: one with fetches, several pages in memory, its own limits, or failures. All
//! others are records of 28 bytes ([`crate::hosts`]).

use crate::outcome::Failing;
use crate::window::Window;

/// A hold is kept this long after its end, in case the clock is set back.
const HOLD_KEPT_MS: i64 = 3_600_000;

/// Limits that apply to one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// Its own delay between the starts of two fetches.
    pub(crate) delay_ms: Option<u64>,
    /// End of its hold: no fetch starts before.
    pub(crate) hold_until_ms: i64,
    /// Consecutive failures of its pages.
    pub(crate) failures: u16,
    /// Its current outage, if any.
    pub(crate) down: Option<Failing>,
}

impl Limits {
    /// The limits of most hosts: none.
    pub(crate) const NONE: Limits = Limits { delay_ms: None, hold_until_ms: 0, failures: 0, down: None };

    fn are_none(&self, clock_ms: i64) -> bool {
        let is_held = self.hold_until_ms > 0 && self.hold_until_ms.saturating_add(HOLD_KEPT_MS) > clock_ms;
        self.delay_ms.is_none() && !is_held && self.failures == 0 && self.down.is_none()
    }
}

/// An active host.
#[derive(Debug, Default)]
pub(crate) struct Host {
    /// Start of the last known fetch.
    pub(crate) began_ms: Option<i64>,
    /// Time of its entry in the heap of sleeping hosts.
    pub(crate) wakes_ms: Option<i64>,
    /// Its queues, by kind.
    pub(crate) windows: [Window; 2],
    /// The places of its entries in the heaps of open hosts, by kind.
    pub(crate) offered: [Option<u16>; 2],
    pub(crate) in_flight: u32,
    limits: Option<Box<Limits>>,
}

impl Host {
    pub(crate) fn limits(&self) -> &Limits {
        self.limits.as_deref().unwrap_or(&Limits::NONE)
    }

    pub(crate) fn limits_mut(&mut self) -> &mut Limits {
        self.limits.get_or_insert_default()
    }

    /// The limits, if it has any.
    pub(crate) fn own_limits(&mut self) -> Option<&mut Limits> {
        self.limits.as_deref_mut()
    }

    /// Returns whether it may become a record again, its queues aside.
    pub(crate) fn is_idle(&self, clock_ms: i64) -> bool {
        self.in_flight == 0 && self.limits().are_none(clock_ms)
    }

    /// Earliest time of the next fetch; `delay_ms` is for hosts without their own delay.
    pub(crate) fn next_at_ms(&self, delay_ms: u64) -> i64 {
        let Limits { delay_ms: own_ms, hold_until_ms, down, .. } = self.limits();
        let rests = down.as_ref().map_or(0, |down| down.until_ms);
        rests.max(*hold_until_ms).max(delayed(self.began_ms, own_ms.unwrap_or(delay_ms)))
    }

    /// Empties its queue of first fetches, which has no page left.
    pub(crate) fn forget_queued(&mut self) {
        (self.windows[0], self.offered[0]) = (Window::default(), None);
    }

    /// Records that it has answered: its failures are over.
    pub(crate) fn answered(&mut self) {
        if let Some(limits) = &mut self.limits {
            (limits.failures, limits.down) = (0, None);
        }
    }

    pub(crate) fn ready(&self) -> u32 {
        self.windows[0].ready + self.windows[1].ready
    }

    /// Entries of its queues in memory.
    pub(crate) fn entries(&self, each: usize) -> usize {
        self.windows.iter().map(|window| window.entries().min(each)).sum()
    }

    /// Withdraws it from the open and the sleeping hosts.
    pub(crate) fn withdraw_offers(&mut self) {
        (self.offered, self.wakes_ms) = ([None; 2], None);
    }

    /// Bytes of memory besides the struct itself.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let limits = self.limits.as_ref().map_or(0, |_| size_of::<Limits>() as u64);
        limits + self.windows.iter().map(Window::memory_bytes).sum::<u64>()
    }
}

/// Earliest start of a fetch, given the start of the one before.
pub(crate) fn delayed(began_ms: Option<i64>, delay_ms: u64) -> i64 {
    began_ms.map_or(0, |began| began.saturating_add_unsigned(delay_ms)).max(0)
}
