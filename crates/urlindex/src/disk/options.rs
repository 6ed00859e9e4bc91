//! Options of a set on disk: fingerprints, memory, maximum age.
//!
//! Age goes by generations of an eighth of the maximum: entries of different generations are never
//! merged, and a whole run is dropped at once. So a URL is new again between 1 and 9/8 of the
//! maximum age after its insert, and expiry costs the removal of a file.
//!
//! Generations never go back. If the clock was once ahead, later inserts get that late date, and
//! expire only when the clock has caught up: too late rather than too early.
//! [`crate::disk::DiskStats::ahead_ms`] is the difference.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::key::FingerprintBits;
use crate::error::{Error, Result};

/// Minimum memory.
const MEMORY_BYTES_MIN: u64 = 32 << 10;
/// Generations within the maximum age.
const GENERATIONS: u64 = 8;

filemap_io::options! {
    /// Options for creating or opening a [`crate::DiskUrlSet`]: by default fingerprints of 80
    /// bits, 256 MiB of memory and no maximum age.
    ///
    /// Memory and clock may differ at each opening; the rest is fixed at creation.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urlindex::DiskOptions;
    ///
    /// let options = DiskOptions::new().memory_bytes(64 << 20).max_age(Duration::from_secs(30 * 24 * 3600));
    /// ```
    #[derive(Clone)]
    pub struct DiskOptions {
        /// Memory for the memtable (a quarter) and the cache of popular URLs (the rest; none below
        /// 3 MiB in all); at least 32 KiB. Not included: the index of blocks (17 MB for a billion
        /// URLs), some MB of buffers in merges, 16 bytes for each URL of a batch. Filters are in
        /// the files: the kernel caches what is used of them, 1.7 bytes a URL.
        pub(super) memory_bytes: u64 = 256 << 20,

        /// The hash's seed, 0 by default. If strangers choose the URLs, give a random one, or they
        /// can choose URLs that collide. Only sets of one seed can be merged.
        pub(super) seed: u64 = 0,
    } by hand {
        pub(super) bits: FingerprintBits = FingerprintBits::Bits80,
        pub(super) max_age_ms: u64 = 0,
        pub(super) clock: Clock = Clock::of_system(),
    }
}

/// The source of time.
#[derive(Clone)]
pub(super) struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    fn of_system() -> Clock {
        Clock(Arc::new(|| SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_millis() as i64)))
    }

    /// Milliseconds since 1970; 0 for a time before.
    pub(super) fn now_ms(&self) -> u64 {
        (self.0)().max(0) as u64
    }
}

// Without the seed, which is a secret.
filemap_io::debug_fields!(DiskOptions: memory_bytes, bits);

filemap_io::debug_fields!(Clock);

impl DiskOptions {
    /// The length of fingerprints.
    #[must_use]
    pub fn fingerprint_bits(self, bits: FingerprintBits) -> DiskOptions {
        DiskOptions { bits, ..self }
    }

    /// Forget each URL at this age or up to an eighth of it later (at least 8 ms, in whole
    /// milliseconds). Testing a URL does not renew it.
    #[must_use]
    pub fn max_age(self, age: Duration) -> DiskOptions {
        DiskOptions { max_age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX).max(GENERATIONS), ..self }
    }

    /// Clock, in milliseconds since 1970 (times before count as 1970); the system's by default. A
    /// clock that goes back makes nothing older or younger; one that was far ahead keeps URLs for
    /// as much longer ([`crate::disk::DiskStats::ahead_ms`]).
    #[must_use]
    pub fn clock(self, now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> DiskOptions {
        DiskOptions { clock: Clock(Arc::new(now_ms)), ..self }
    }

    pub(super) fn budget(&self) -> Result<Budget> {
        if self.memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::option(
                "memory_bytes",
                format!("{} is less than {MEMORY_BYTES_MIN}", self.memory_bytes),
            ));
        }
        let table_bytes = self.memory_bytes / 4;
        Ok(Budget { table_bytes, cache_bytes: self.memory_bytes - table_bytes })
    }
}

/// Parts of the memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) table_bytes: u64,
    pub(super) cache_bytes: u64,
}

/// The generation of a time.
pub(super) fn generation(now_ms: u64, max_age_ms: u64) -> u64 {
    now_ms / (max_age_ms / GENERATIONS).max(1)
}

/// Start of a generation.
pub(super) fn start_ms(generation: u64, max_age_ms: u64) -> u64 {
    generation.saturating_mul((max_age_ms / GENERATIONS).max(1))
}

/// Returns whether all of a generation is older than the maximum age.
pub(super) fn is_expired(generation: u64, now_ms: u64, max_age_ms: u64) -> bool {
    start_ms(generation.saturating_add(1), max_age_ms).saturating_add(max_age_ms) <= now_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_expires_when_its_youngest_is_old_enough() {
        let max_age_ms = 80;
        assert_eq!(generation(79, max_age_ms), 7);
        assert!(!is_expired(7, 159, max_age_ms) && is_expired(7, 160, max_age_ms));
        for inserted in 0..200 {
            let of = generation(inserted, max_age_ms);
            let expires = (inserted..).find(|now| is_expired(of, *now, max_age_ms)).expect("some time");
            assert!((80..=90).contains(&(expires - inserted)), "{inserted}: {expires}");
        }
    }
}
