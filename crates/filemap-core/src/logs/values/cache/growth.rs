//! Size of an automatic value cache: none until gets repeat, then doubled while it is full and
//! they still do, within an eighth of memory; halved when memory runs short.

use std::time::{Duration, Instant};

use filemap_io::system::Memory;

use super::ghosts::Ghosts;
use crate::sync::{Held, Ranked, rank};

/// An automatic cache takes at most one part in this many of memory.
const SHARE: u64 = 8;
/// The first size, and the least that is kept when memory runs short.
pub(super) const FIRST_BYTES: u64 = 32 << 20;
const LEAST_BYTES: u64 = 8 << 20;
/// Memory is short when less than one part in [`SHORT`] is available; the cache grows only while
/// more than one part in [`AMPLE`] is.
const SHORT: u64 = 10;
const AMPLE: u64 = 5;

/// Least time between two looks at memory.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// Tells how much memory there is; `None` if that is unknown.
pub(crate) type MemorySource = fn() -> Option<Memory>;

/// What decides the size of an automatic cache.
pub(super) struct Growth {
    pub(super) ghosts: Ghosts,
    /// The option's bound, in bytes.
    most: u64,
    source: MemorySource,
    looks: Ranked<{ rank::VALUE_CACHE }, Looks>,
}

/// The last look at memory.
#[derive(Debug, Default)]
pub(super) struct Looks {
    last: Option<Instant>,
    /// The most that the cache may take until the next look.
    roof: u64,
}

/// Present sizes of a cache, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Memory of its pages.
    pub(super) used: u64,
    /// What they may take.
    pub(super) bound: u64,
}

impl Growth {
    pub(super) fn new(most: u64, source: MemorySource) -> Growth {
        Growth { ghosts: Ghosts::new(), most, source, looks: Ranked::default() }
    }

    /// The right to change the size; `None` while another thread has it.
    pub(super) fn turn(&self) -> Option<Held<'_, Looks>> {
        self.looks.try_lock()
    }

    /// The most that a cache of this size may take now. Looks at memory if the last look is not
    /// recent.
    pub(super) fn roof(&self, looks: &mut Looks, size: Size, now: Instant) -> u64 {
        if looks.last.is_none_or(|last| now.saturating_duration_since(last) >= LOOK) {
            *looks = Looks { last: Some(now), roof: self.allowed(size) };
        }
        looks.roof
    }

    fn allowed(&self, size: Size) -> u64 {
        // Unknown memory could run short unnoticed.
        let Some(Memory { total_bytes, available_bytes }) = (self.source)() else { return 0 };
        let (allowed, is_worth_it) = if available_bytes < total_bytes / SHORT {
            // Half of the pages that there are: unused room frees nothing.
            (size.used / 2, size.used / 2 >= LEAST_BYTES)
        } else {
            let more = available_bytes.saturating_sub(total_bytes / AMPLE) / 2;
            (size.bound.saturating_add(more), size.bound > 0 || more >= LEAST_BYTES)
        };
        let allowed = if is_worth_it { allowed } else { 0 };
        allowed.min(total_bytes / SHARE).min(self.most)
    }
}

/// The next size of a cache that is full, under a roof.
pub(super) fn grown(size: Size, roof: u64) -> u64 {
    size.bound.saturating_mul(2).max(FIRST_BYTES).min(roof)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn allowed(total_bytes: u64, available_bytes: u64, size: (u64, u64), most: u64) -> u64 {
        thread_local! {
            static MEMORY: std::cell::Cell<Option<Memory>> = const { std::cell::Cell::new(None) };
        }
        MEMORY.set(Some(Memory { total_bytes, available_bytes }));
        let size = Size { used: size.0, bound: size.1 };
        Growth::new(most, || MEMORY.get()).allowed(size)
    }

    #[test]
    fn it_never_exceeds_an_eighth_of_memory_nor_the_option() {
        assert_eq!(allowed(16 * GIB, 16 * GIB, (0, 0), u64::MAX), 2 * GIB);
        assert_eq!(allowed(16 * GIB, 16 * GIB, (0, 0), GIB), GIB);
        assert_eq!(allowed(16 * GIB, 16 * GIB, (2 * GIB, 2 * GIB), GIB), GIB, "as if the option had been lowered");
        assert_eq!(allowed(16 * GIB, 16 * GIB, (0, 0), 1 << 20), 1 << 20, "a low bound is kept");
    }

    #[test]
    fn it_grows_into_half_of_what_is_beyond_a_fifth_holds_below_and_halves_below_a_tenth() {
        let size = (50 << 20, 100 << 20);
        let (fifth, tenth) = (10 * GIB / 5, 10 * GIB / 10);
        assert_eq!(allowed(10 * GIB, fifth + (200 << 20), size, u64::MAX), 200 << 20);
        assert_eq!(allowed(10 * GIB, fifth - 1, size, u64::MAX), 100 << 20);
        assert_eq!(allowed(10 * GIB, tenth, size, u64::MAX), 100 << 20);
        assert_eq!(allowed(10 * GIB, tenth - 1, size, u64::MAX), 25 << 20);
        assert_eq!(allowed(10 * GIB, tenth - 1, (15 << 20, 100 << 20), u64::MAX), 0, "the rest is not worth it");
        assert_eq!(allowed(10 * GIB, fifth, (0, 0), u64::MAX), 0, "and none is begun");
    }

    #[test]
    fn memory_that_is_unknown_is_left_alone() {
        let growth = Growth::new(u64::MAX, || None);
        assert_eq!(growth.allowed(Size { used: 1 << 30, bound: 1 << 30 }), 0);
    }

    #[test]
    fn memory_is_looked_at_once_in_a_while() {
        thread_local! {
            static LOOKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
        }
        let growth = Growth::new(u64::MAX, || {
            LOOKED.set(LOOKED.get() + 1);
            Some(Memory { total_bytes: 8 * GIB, available_bytes: 8 * GIB })
        });
        let mut looks = growth.turn().unwrap();
        let begin = Instant::now();
        for ms in [0, 1, 1999, 2000, 2001, 3999, 4000] {
            assert_eq!(growth.roof(&mut looks, Size::default(), begin + Duration::from_millis(ms)), GIB);
        }
        assert_eq!(LOOKED.get(), 3);
        assert!(growth.turn().is_none(), "one thread at a time");
    }

    #[test]
    fn sizes_double_up_to_the_roof() {
        let size = |bound| Size { used: bound, bound };
        assert_eq!(grown(size(0), GIB), FIRST_BYTES);
        assert_eq!(grown(size(FIRST_BYTES), GIB), 2 * FIRST_BYTES);
        assert_eq!(grown(size(GIB), GIB + 7), GIB + 7);
        assert_eq!(grown(size(0), 1 << 20), 1 << 20);
    }
}
