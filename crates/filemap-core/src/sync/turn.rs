//! The turn to compact: one compaction runs at a time, and who waits for it can be called off.
//!
//! It is waited for before any lock is taken, and has no rank itself: callbacks of the compaction that has it may close the
//! handle, or work on another store.

use crate::error::Result;
use crate::sync::locks::{Ranked, lock, rank};
use crate::sync::primitive::Condvar;

/// One at a time does something that may take long; who waits for it can be told that there is no more point.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_taken: Ranked<{ rank::TURNS }, bool>,
    changed: Condvar,
}

/// The turn of one, given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.changed.notify_all();
    }
}

impl Turns {
    /// Waits for the turn, for as long as `go_on` is fine with that: it is asked before, and after each [`Turns::wake`].
    ///
    /// # Errors
    /// Those of `go_on`.
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

    /// Lets those who wait look again whether to.
    pub(crate) fn wake(&self) {
        drop(lock(&self.is_taken));
        self.changed.notify_all();
    }

    /// Whether nobody has it.
    #[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "only the simulation asks"))]
    pub(crate) fn is_free(&self) -> bool {
        !*lock(&self.is_taken)
    }
}
