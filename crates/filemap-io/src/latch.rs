//! The latch: after the first failed write or sync a handle writes nothing more.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::StorageError;

/// A latch set by the first failure and never reset.
///
/// ```
/// use filemap_io::{Latch, StorageError};
/// let latch = Latch::default();
/// let failed: Result<(), _> = latch.guard(|| Err(StorageError::corrupt("f", 0, "a bad sector")));
/// assert!(failed.is_err() && latch.check().is_err());
/// ```
#[derive(Debug, Default)]
pub struct Latch {
    cause: OnceLock<String>,
}

impl Latch {
    /// # Errors
    /// [`StorageError::Poisoned`] once something has failed.
    #[inline]
    pub fn check(&self) -> Result<(), StorageError> {
        match self.cause() {
            None => Ok(()),
            Some(cause) => Err(StorageError::Poisoned { cause: cause.to_owned() }),
        }
    }

    /// The first failure, if any.
    pub fn cause(&self) -> Option<&str> {
        self.cause.get().map(String::as_str)
    }

    /// Records a failure. Returns whether it is the first.
    pub fn set(&self, cause: impl Display) -> bool {
        self.cause.set(cause.to_string()).is_ok()
    }

    /// Passes a result through; the first error sets the latch.
    ///
    /// # Errors
    /// The error in `done`.
    pub fn note<T, E: Display>(&self, done: Result<T, E>) -> Result<T, E> {
        done.inspect_err(|error| {
            self.set(error);
        })
    }

    /// Runs `work` unless the latch is set; an error of `work` sets it.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`], or the error of `work`.
    pub fn guard<T, E: Display + From<StorageError>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.check()?;
        self.note(work())
    }
}

/// Locks a mutex and ignores its poison: a panic while holding it is a bug, reported elsewhere.
pub fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failure_nothing_more_is_done() {
        let latch = Latch::default();
        assert!(latch.guard(|| Ok::<_, StorageError>(1)).is_ok() && latch.cause().is_none());
        let failed: Result<(), StorageError> = latch.guard(|| Err(StorageError::corrupt("f", 1, "x")));
        assert!(matches!(failed, Err(StorageError::Corrupt { .. })));
        let later: Result<(), StorageError> = latch.guard(|| unreachable!("the latch is set"));
        assert!(matches!(later, Err(StorageError::Poisoned { cause }) if cause.contains('x')));
        assert!(!latch.set("another"));
    }
}
