//! Back-pressure on puts: too little free space, a full memtable, a compaction that falls behind.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::event::Event;
use crate::handle::log::Log;
use crate::handle::writing::Writing;
use crate::stats::Counters;
use crate::sync::primitive::{AtomicU64, Ordering, sleep};
use crate::sync::{Held, lock};

/// Bytes appended between two measurements of the free space.
const MEASURE_EVERY_BYTES: u64 = 16 << 20;
/// Greatest delay of a put, unless the memtable is twice as full as its limit.
const SLOWEST: Duration = Duration::from_millis(10);
/// Greatest delay of a put that waits for compaction.
const HOLD_BACK: Duration = Duration::from_micros(4000);

/// Bytes appended between two checks by compaction: it may be late by as much.
pub(crate) fn late_bytes(segment_bytes: u64) -> u64 {
    segment_bytes / 16
}

/// State of the back-pressure.
#[derive(Debug)]
pub(super) struct Pace {
    /// Free space of the file system when last measured.
    free_bytes: AtomicU64,
    /// Bytes appended before that measurement.
    measured_at: AtomicU64,
    /// Appender position beyond which puts wait for compaction.
    space_limit: AtomicU64,
    /// Appender position when compaction was last asked to check.
    looked_at: AtomicU64,
    /// Number of slow freezes: a put that waited while this changed was delayed by a checkpoint.
    slow_freezes: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            free_bytes: AtomicU64::new(0),
            measured_at: AtomicU64::new(0),
            space_limit: AtomicU64::new(u64::MAX),
            looked_at: AtomicU64::new(0),
            slow_freezes: AtomicU64::new(0),
        }
    }
}

impl Pace {
    /// Returns true if compaction should check a log that ends at `position`.
    pub(super) fn is_look_due(&self, position: u64, segment_bytes: u64) -> bool {
        let is_due = position.saturating_sub(self.looked_at.load(Ordering::Relaxed)) >= late_bytes(segment_bytes);
        if is_due {
            self.looked_at.store(position, Ordering::Relaxed);
        }
        is_due
    }

    pub(super) fn slow_freezes(&self) -> u64 {
        self.slow_freezes.load(Ordering::Relaxed)
    }
}

impl Writing {
    /// Measures the free space of the file system.
    pub(crate) fn measure_free_space(&self) {
        if let Ok(bytes) = self.reading.dir().free_bytes() {
            self.pace.free_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Appender position beyond which puts are held back.
    pub(crate) fn space_limit(&self) -> u64 {
        self.pace.space_limit.load(Ordering::Relaxed)
    }

    /// Holds puts back beyond an appender position; `u64::MAX` for no limit.
    pub(crate) fn limit_space(&self, position: u64) {
        self.pace.space_limit.store(position, Ordering::Relaxed);
    }

    /// Returns true if puts are held back until the value log is compacted.
    pub(crate) fn is_over_space(&self) -> bool {
        lock(&self.log).appender.position() > self.space_limit()
    }

    /// Called when a checkpoint has held the append lock for long.
    pub(crate) fn note_slow_freeze(&self) {
        self.pace.slow_freezes.fetch_add(1, Ordering::Relaxed);
    }

    /// # Errors
    /// `NoSpace` below the floor.
    pub(crate) fn check_space(&self) -> Result<()> {
        let floor = self.reading.options().free_space_floor;
        let appended = Counters::get(&self.reading.counters().appended_bytes);
        let used_since = appended.saturating_sub(self.pace.measured_at.load(Ordering::Relaxed));
        let free = self.pace.free_bytes.load(Ordering::Relaxed).saturating_sub(used_since);
        if floor == 0 || (free >= floor && used_since < MEASURE_EVERY_BYTES) {
            return Ok(());
        }
        self.measure_free_space();
        self.pace.measured_at.store(appended, Ordering::Relaxed);
        let free_bytes = self.pace.free_bytes.load(Ordering::Relaxed);
        if free_bytes < floor { Err(Error::NoSpace { free_bytes, floor_bytes: floor }) } else { Ok(()) }
    }

    /// Takes the append lock once the active memtable has room. Also returns whether it was
    /// delayed.
    pub(crate) fn lock_log(&self, is_put: bool) -> Result<(Held<'_, Log>, bool)> {
        let (mut slowed, mut held_back) = (false, false);
        loop {
            slowed |= self.slow_down()?;
            let log = lock(&self.log);
            let over = log.appender.position().saturating_sub(self.space_limit());
            if over > 0 && !held_back && is_put {
                // Delay once, in proportion to the excess, and never long enough to be a stall.
                let share = over as f64 / (log.appender.segment_bytes() / 4) as f64;
                drop(log);
                self.hold_back_for(HOLD_BACK.mul_f64(share.min(1.0)));
                (held_back, slowed) = (true, true);
                continue;
            }
            if !self.reading.tables().active.is_exhausted() {
                return Ok((log, slowed));
            }
            self.ring_bells(&log);
            drop(log);
            // The requested checkpoint may not have begun yet, or may never begin.
            self.reading.check_open()?;
            self.poison.check()?;
            sleep(Duration::from_millis(1));
            slowed = true;
        }
    }

    /// Back-pressure: while the active memtable is over its limit and the frozen one is being
    /// merged, puts wait, longer the fuller it is. Returns true if this one waited.
    fn slow_down(&self) -> Result<bool> {
        let counters = self.reading.counters();
        let mut slowed = false;
        loop {
            let tables = self.reading.tables();
            let (bytes, bound) = (tables.active.bytes(), self.reading.options().memtable_bytes);
            if bytes <= bound || tables.frozen.is_none() {
                return Ok(slowed);
            }
            drop(tables);
            let over = (bytes - bound) as f64 / bound as f64;
            let wait = SLOWEST.mul_f64(over.min(1.0));
            if !slowed {
                Counters::add(&counters.slow_downs, 1);
                if over > 0.9 {
                    self.reading.emit(&Event::SlowedDown { fill_percent: (100.0 * (over + 1.0)) as u64 });
                }
            }
            let start = Instant::now();
            sleep(wait);
            add_us(&counters.slow_down_us, start.elapsed());
            slowed = true;
            self.poison.check()?;
            if over < 1.0 {
                return Ok(slowed);
            }
        }
    }

    fn hold_back_for(&self, wait: Duration) {
        let start = Instant::now();
        sleep(wait);
        Counters::add(&self.reading.counters().held_back, 1);
        add_us(&self.reading.counters().held_back_us, start.elapsed());
    }
}

fn add_us(counter: &AtomicU64, time: Duration) {
    Counters::add(counter, time.as_micros() as u64);
}
