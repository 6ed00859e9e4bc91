//! Which locks a thread holds, by their ranks: debug builds assert that a thread which holds a lock takes only locks of higher
//! rank. Release builds note nothing; nor do those for a model checker, which runs all threads on one.

#[cfg(not(all(debug_assertions, not(any(filemap_loom, filemap_shuttle)))))]
pub(crate) use off::*;
#[cfg(all(debug_assertions, not(any(filemap_loom, filemap_shuttle))))]
pub(crate) use on::*;

#[cfg(all(debug_assertions, not(any(filemap_loom, filemap_shuttle))))]
mod on {
    use std::cell::Cell;

    thread_local! {
        /// A bit for the rank of each lock that this thread holds.
        static HELD: Cell<u32> = const { Cell::new(0) };
    }

    /// The rank of a lock that is held.
    #[derive(Debug)]
    pub(crate) struct Order(u8);

    impl Order {
        /// Before a lock is waited for.
        pub(crate) fn take(rank: u8) -> Order {
            let later = HELD.get() >> rank;
            assert!(later == 0, "a lock of rank {rank} is taken under one of rank {}", rank + later.ilog2() as u8);
            Order::note(rank)
        }

        /// After a lock was got without waiting.
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

    /// Does what the simulation has another thread do: the locks of this one are none of its.
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
