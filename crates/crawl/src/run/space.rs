//! The pause on low disk space: below the floor no page is assigned, and the crawl resumes by
//! itself when there is more.
//!
//! The floor is above the store's own, so pages in flight can still be stored.

use std::time::{Duration, Instant};

use super::observe::{Event, Observer};
use crate::error::Error;

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(1);
/// The crawl resumes at the floor plus 1/`MORE` of it.
const MORE: u64 = 8;

/// The state of the disk-space check.
pub struct Space {
    floor: u64,
    looked: Option<Instant>,
    /// The free bytes at the last check, if too few.
    low: Option<u64>,
}

impl Space {
    /// Pauses below this number of free bytes.
    pub fn new(floor: u64) -> Space {
        Space { floor, looked: None, low: None }
    }

    /// Checks the disk, unless just done, and reports a change. Returns the free bytes if too few.
    /// A disk that cannot be measured counts as having room.
    ///
    /// # Errors
    /// Errors of the observer.
    pub fn look(&mut self, free: impl FnOnce() -> Option<u64>, observer: &dyn Observer) -> Result<Option<u64>, Error> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= EVERY) {
            self.looked = Some(Instant::now());
            if self.turn(free()).is_some() {
                let min_free_bytes = self.floor;
                let event = match self.low {
                    Some(free_bytes) => Event::LowSpace { free_bytes, min_free_bytes },
                    None => Event::Space { min_free_bytes },
                };
                observer.event(&event).map_err(Error::Observer)?;
            }
        }
        Ok(self.low)
    }

    /// Takes the number of free bytes. Returns the new pause state, if it has changed.
    fn turn(&mut self, free: Option<u64>) -> Option<bool> {
        let was_low = self.low.is_some();
        let least = if was_low { self.floor.saturating_add(self.floor / MORE) } else { self.floor };
        self.low = free.filter(|free| *free < least);
        (was_low != self.low.is_some()).then_some(!was_low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crawl_pauses_below_the_floor_and_goes_on_well_above_it() {
        let mut space = Space::new(800);
        let turns = [Some(801), Some(800), Some(799), Some(10), Some(801), Some(899), Some(900), Some(800), None];
        let told = turns.map(|free| space.turn(free));
        assert_eq!(told, [None, None, Some(true), None, None, None, Some(false), None, None]);
        space.turn(Some(1));
        assert_eq!((space.low, space.turn(None), space.low), (Some(1), Some(false), None));
    }
}
