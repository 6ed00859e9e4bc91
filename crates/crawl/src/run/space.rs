//! The pause at the disk's floor: while little is free no page is handed out, and the crawl goes
//! on by itself when there is more.
//!
//! The floor is above the store's own, so that what is in flight can still be stored.

use std::time::{Duration, Instant};

use super::observe::{Event, Observer};
use crate::error::Error;

/// How often the disk is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// The crawl goes on when this part of the floor more is free.
const MORE: u64 = 8;

/// Whether there is room on the disk.
pub struct Space {
    floor: u64,
    looked: Option<Instant>,
    /// How much was free when last looked at, if that is too little.
    low: Option<u64>,
}

impl Space {
    /// A pause below this number of free bytes.
    pub fn new(floor: u64) -> Space {
        Space { floor, looked: None, low: None }
    }

    /// Looks at the disk, unless that was done just before, and tells of a change. Returns how
    /// much is free if that is too little. A disk that cannot be measured has room.
    ///
    /// # Errors
    /// The observer's.
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

    /// Takes how much is free. Returns whether the crawl pauses now, if that has changed.
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
