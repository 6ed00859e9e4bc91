//! Lock order: tracks the ranks of the locks that a thread holds. Debug builds assert that it
//! takes only locks of higher rank. Release builds track nothing, and neither do model checker
//! builds, which run all threads on one.

#[cfg(not(all(debug_assertions, not(any(filemap_loom, filemap_shuttle)))))]
pub(crate) use off::*;
#[cfg(all(debug_assertions, not(any(filemap_loom, filemap_shuttle))))]
pub(crate) use on::*;

#[cfg(all(debug_assertions, not(any(filemap_loom, filemap_shuttle))))]
mod on {
    use std::cell::Cell;

    thread_local! {
        /// One bit per rank of a held lock.
        static HELD: Cell<u64> = const { Cell::new(0) };
    }

    /// Rank of a held lock; released on drop.
    #[derive(Debug)]
    pub(crate) struct Order(u8);

    impl Order {
        /// Called before waiting for a lock.
        pub(crate) fn take(rank: u8) -> Order {
            let later = HELD.get() >> rank;
            assert!(
                later == 0,
                "a lock of rank {rank} is taken while holding one of rank {}",
                rank + later.ilog2() as u8
            );
            Order::note(rank)
        }

        /// Called after taking a lock without waiting.
        pub(crate) fn note(rank: u8) -> Order {
            HELD.set(HELD.get() | 1 << rank);
            Order(rank)
        }
    }

    impl Drop for Order {
        fn drop(&mut self) {
            HELD.set(HELD.get() & !(1 << self.0));
        }
    }

    /// Runs work of another simulated thread, which does not hold this one's locks.
    #[cfg(feature = "sim")]
    pub(crate) fn as_another_thread(work: impl FnOnce()) {
        let held = HELD.replace(0);
        work();
        HELD.set(held);
    }
}

#[cfg(not(all(debug_assertions, not(any(filemap_loom, filemap_shuttle)))))]
mod off {
    #[derive(Debug)]
    pub(crate) struct Order;

    impl Order {
        pub(crate) fn take(_: u8) -> Order {
            Order
        }

        pub(crate) fn note(_: u8) -> Order {
            Order
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn as_another_thread(work: impl FnOnce()) {
        work();
    }
}
