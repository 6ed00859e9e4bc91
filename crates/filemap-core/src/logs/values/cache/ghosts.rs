//! Hashes of the places that gets have missed of late: they show whether gets repeat, before any
//! page is kept for that.
//!
//! Two tables of fixed size, written over in place. The near one remembers the last few hundred
//! misses; the far one only those of one place in 32, and so the last sixteen thousand. A
//! collision forgets a place early; it never counts a repeat that was none, but for equal hashes.

use std::array;

use super::PagePlace;
use crate::sync::primitive::{AtomicU32, AtomicU64, Ordering};

/// Hashes in each table.
const CELLS: usize = 512;
/// One place in this many belongs to the far table.
const SAMPLE: u64 = 32;
/// Fewer repeats than these prove nothing.
pub(super) const ENOUGH: u64 = 64;
/// Gets repeat if one miss in this many is a repeat.
const SHARE: u64 = 32;
/// Misses of the far table after which the counts begin anew: 65,536 misses.
const PERIOD: u64 = 2048;

/// The tables, and the misses and repeats counted since the last [`Ghosts::begin_anew`].
pub(super) struct Ghosts {
    near: [AtomicU32; CELLS],
    far: [AtomicU32; CELLS],
    /// Misses of places of the far table, so a 32nd of all misses.
    sampled: AtomicU64,
    near_again: AtomicU64,
    far_again: AtomicU64,
}

impl Ghosts {
    pub(super) fn new() -> Ghosts {
        Ghosts {
            near: array::from_fn(|_| AtomicU32::new(0)),
            far: array::from_fn(|_| AtomicU32::new(0)),
            sampled: AtomicU64::new(0),
            near_again: AtomicU64::new(0),
            far_again: AtomicU64::new(0),
        }
    }

    /// Notes a miss. Returns true if it is a repeat, and enough of the misses were. Threads may
    /// overwrite each other's counts: they are estimates.
    pub(super) fn note(&self, place: &PagePlace) -> bool {
        let hash = mixed(place);
        let is_far = hash.is_multiple_of(SAMPLE);
        if is_far && self.sampled.fetch_add(1, Ordering::Relaxed) >= PERIOD {
            self.begin_anew();
        }
        let (table, again) = if is_far { (&self.far, &self.far_again) } else { (&self.near, &self.near_again) };
        let cell = &table[(hash >> 8) as usize % CELLS];
        // Never 0, which is an empty cell.
        let mark = (hash >> 32) as u32 | 1;
        if cell.load(Ordering::Relaxed) != mark {
            cell.store(mark, Ordering::Relaxed);
            return false;
        }
        let again = again.fetch_add(1, Ordering::Relaxed) + 1;
        let misses = self.sampled.load(Ordering::Relaxed) * if is_far { 1 } else { SAMPLE };
        again >= ENOUGH && again * SHARE >= misses
    }

    /// Sets the counts to zero. The places stay.
    pub(super) fn begin_anew(&self) {
        for count in [&self.sampled, &self.near_again, &self.far_again] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// A hash of a place, all of whose bits depend on all of the place's.
fn mixed(&(age, ordinal, offset): &PagePlace) -> u64 {
    let mut x = offset ^ ordinal.rotate_left(32) ^ age.rotate_left(48);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of the page of a number.
    fn place(i: u64) -> PagePlace {
        (0, i / 1000, 64 + 64 * (i % 1000))
    }

    /// The gets after which pages repeat often enough, of at most `most`.
    fn noticed(most: usize, pages: impl Iterator<Item = u64>) -> Option<usize> {
        let ghosts = Ghosts::new();
        pages.take(most).position(|i| ghosts.note(&place(i)))
    }

    /// Numbers below a limit, as if at random.
    fn random(below: u64) -> impl Iterator<Item = u64> {
        (1..).map(move |i: u64| mixed(&(1, 7, i)) % below)
    }

    #[test]
    fn pages_that_are_got_once_are_never_noticed() {
        assert_eq!(noticed(500_000, 0..), None);
        assert_eq!(noticed(500_000, random(1 << 40)), None);
    }

    #[test]
    fn few_pages_are_noticed_at_once_whichever_table_they_are_in() {
        for first in (0..5000).step_by(50) {
            let at = noticed(10_000, (0..).map(|i| first + i % 3));
            assert!(at.is_some_and(|at| at < 3 * (ENOUGH as usize + 1)), "from {first}: {at:?}");
        }
    }

    #[test]
    fn many_pages_are_noticed_by_the_far_table_but_not_more_than_a_cache_has_a_use_for() {
        let at = noticed(200_000, random(50_000));
        assert!(at.is_some(), "half a gigabyte of pages, got at random");
        assert_eq!(noticed(200_000, random(50_000_000)), None);
    }

    #[test]
    fn counts_begin_anew_and_places_stay() {
        let ghosts = Ghosts::new();
        let until = (0..1000).position(|_| ghosts.note(&place(1))).unwrap();
        assert_eq!(until, ENOUGH as usize, "the first get is no repeat");
        ghosts.begin_anew();
        let until = (0..1000).position(|_| ghosts.note(&place(1))).unwrap();
        assert_eq!(until, ENOUGH as usize - 1);
    }
}
