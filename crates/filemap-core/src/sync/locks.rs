//! The engine's locks and their ranks. A thread that holds a lock takes only locks of higher
//! rank, so threads cannot deadlock. Debug builds assert it at every lock.
//!
//! Gets take no lock up to [`rank::APPEND`].

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use crate::sync::order::Order;
use crate::sync::primitive::{Condvar, Mutex, MutexGuard};

/// Ranks of all locks of the engine, outermost first.
pub(crate) mod rank {
    /// `Workers::ended`: the first `close` does the work, later ones wait for its result.
    pub(crate) const CLOSE: u8 = 0;
    /// `Workers::threads`: handles of the background threads.
    pub(crate) const THREADS: u8 = 1;
    /// `Upkeep::removing`: held while single versions of a key are removed.
    pub(crate) const REMOVE: u8 = 2;
    /// `Training::turn`: held while a dictionary is made.
    pub(crate) const TRAIN: u8 = 3;
    /// `Upkeep::rules`.
    pub(crate) const RULES: u8 = 4;
    /// `Upkeep::joining`: held while runs of keys in order are joined.
    pub(crate) const JOIN: u8 = 5;
    /// `Upkeep::checkpointer`, held for a whole checkpoint.
    pub(crate) const CHECKPOINT: u8 = 6;
    /// `Follower::state`: held while a follower follows its writer.
    pub(crate) const FOLLOW: u8 = 7;
    /// `Registry::changing`: the list of dictionaries and their files.
    pub(crate) const DICTIONARIES: u8 = 8;
    /// `Upkeep::compactor`: state kept between compactions.
    pub(crate) const COMPACTOR: u8 = 9;
    /// `Upkeep::kept_keys`.
    pub(crate) const KEPT_KEYS: u8 = 10;
    /// `Cleaning::needed`.
    pub(crate) const NEEDED: u8 = 11;
    /// `Writing::log`: the append lock; places records.
    pub(crate) const APPEND: u8 = 12;
    /// `Segments::making`: the list of segments.
    pub(crate) const SEGMENTS: u8 = 13;
    /// `KeyLog::counted`: the end of the key log.
    pub(crate) const KEY_END: u8 = 14;
    /// `Segments::opened`: open segment files.
    pub(crate) const OPENED: u8 = 15;
    /// `Segments::leaving`: segments being removed.
    pub(crate) const LEAVING: u8 = 16;
    /// `Segments::unusable`: files with a segment's name that are not segments.
    pub(crate) const UNUSABLE: u8 = 17;
    /// `GroupSync::waiting`.
    pub(crate) const GROUP: u8 = 18;
    /// `Turns::is_taken`.
    pub(crate) const TURNS: u8 = 19;
    /// `Bell::rung`.
    pub(crate) const BELL: u8 = 20;
    /// `Gate::left`.
    pub(crate) const GATE: u8 = 21;
    /// `Gate::held`: the store's lock file.
    pub(crate) const LOCK_FILE: u8 = 22;
    /// `Digests::changing`.
    pub(crate) const DIGESTS: u8 = 23;
    /// `Tally::counts`.
    pub(crate) const TALLY: u8 = 24;
    /// `Crew::work`: batches of a verification.
    pub(crate) const CREW: u8 = 25;
    /// `Aside::result`.
    pub(crate) const ASIDE: u8 = 26;
    /// `Places::failed`.
    pub(crate) const FAILED: u8 = 27;
    /// `Copying::unreadable`.
    pub(crate) const UNREADABLE: u8 = 28;
    /// `Counters::last_error`.
    pub(crate) const LAST_ERROR: u8 = 29;
    /// `Index::count`: the number of counted keys.
    pub(crate) const INDEX_COUNT: u8 = 30;
    /// `Reading::last_count`.
    pub(crate) const LAST_COUNT: u8 = 31;
    /// `Reading::in_memory`: the sorted keys of the memtables.
    pub(crate) const IN_MEMORY: u8 = 32;
    /// `KeyRunFiles::opened`.
    pub(crate) const KEY_RUNS: u8 = 33;
    /// `Growth::looks`: the size of an automatic value cache. Gets only try it.
    pub(crate) const VALUE_CACHE: u8 = 34;
}

/// A mutex with a rank in the lock order.
#[derive(Debug, Default)]
pub(crate) struct Ranked<const RANK: u8, T>(Mutex<T>);

/// Guard of a held [`Ranked`] lock.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    guard: MutexGuard<'a, T>,
    order: Order,
}

impl<const RANK: u8, T> Ranked<RANK, T> {
    pub(crate) fn new(value: T) -> Ranked<RANK, T> {
        Ranked(Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if it is free. Since this never waits, any order is allowed.
    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Held { guard, order: Order::note(RANK) })
    }
}

/// Takes a lock, ignoring std's lock poisoning: a panic while holding it was a bug, reported as
/// such, and the state it left is as good for other threads as for recovery.
///
/// # Panics
/// In debug builds, if this thread holds a lock of the same or a higher rank.
pub(crate) fn lock<const RANK: u8, T>(ranked: &Ranked<RANK, T>) -> Held<'_, T> {
    let order = Order::take(RANK);
    Held { guard: ranked.0.lock().unwrap_or_else(PoisonError::into_inner), order }
}

impl<'a, T> Held<'a, T> {
    /// Releases the lock until notified, then takes it again.
    pub(crate) fn wait(self, changed: &Condvar) -> Held<'a, T> {
        let Held { guard, order } = self;
        Held { guard: changed.wait(guard).unwrap_or_else(PoisonError::into_inner), order }
    }

    /// [`Held::wait`] with a timeout.
    pub(crate) fn wait_timeout(self, changed: &Condvar, timeout: Duration) -> Held<'a, T> {
        let Held { guard, order } = self;
        Held { guard: changed.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0, order }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(all(test, debug_assertions, not(any(filemap_loom, filemap_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_the_order_of_their_ranks_only() {
        let (outer, inner) = (Ranked::<{ rank::CHECKPOINT }, ()>::default(), Ranked::<{ rank::APPEND }, ()>::default());
        for _ in 0..2 {
            let held = (lock(&outer), lock(&inner));
            drop(held);
        }
        let wrong = |take: &(dyn Fn() + std::panic::RefUnwindSafe)| std::panic::catch_unwind(take).is_err();
        assert!(wrong(&|| {
            let _inner = lock(&inner);
            let _outer = lock(&outer);
        }));
        assert!(wrong(&|| {
            let _once = lock(&outer);
            let of_another_handle = Ranked::<{ rank::CHECKPOINT }, ()>::default();
            let _again = lock(&of_another_handle);
        }));
        // `try_lock` cannot deadlock, but the lock it takes counts from then on.
        let held = (lock(&inner), outer.try_lock());
        assert!(held.1.is_some() && outer.try_lock().is_none());
        drop(held);
        lock(&outer);
    }
}
