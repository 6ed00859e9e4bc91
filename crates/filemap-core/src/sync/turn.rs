//! The turn to compact: one compaction runs at a time, and a waiter can be cancelled.
//!
//! A thread takes the turn before any lock. The turn has no rank, since callbacks of a compaction
//! that holds it may close the handle or work on another store.

use crate::error::Result;
use crate::sync::locks::{Ranked, lock, rank};
use crate::sync::primitive::Condvar;

/// A cancellable turn for long work; one thread holds it at a time.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_taken: Ranked<{ rank::TURNS }, bool>,
    changed: Condvar,
}

/// The held turn, released on drop.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.changed.notify_all();
    }
}

impl Turns {
    /// Waits for the turn. Calls `go_on` first and after each [`Turns::wake`]; an error of it ends
    /// the wait.
    ///
    /// # Errors
    /// The error of `go_on`.
    pub(crate) fn take(&self, go_on: impl Fn() -> Result<()>) -> Result<Turn<'_>> {
        let mut is_taken = lock(&self.is_taken);
        loop {
            go_on()?;
            if !*is_taken {
                *is_taken = true;
                return Ok(Turn(self));
            }
            is_taken = is_taken.wait(&self.changed);
        }
    }

    /// Makes waiters call `go_on` again.
    pub(crate) fn wake(&self) {
        drop(lock(&self.is_taken));
        self.changed.notify_all();
    }

    /// Returns true if the turn is free.
    #[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "only the simulation asks"))]
    pub(crate) fn is_free(&self) -> bool {
        !*lock(&self.is_taken)
    }
}
