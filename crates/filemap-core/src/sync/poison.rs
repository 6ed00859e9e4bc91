//! Poison: after a failed write or sync a handle refuses all further writes.

use crate::error::{Error, Result};
use crate::sync::primitive::OnceLock;

/// The latch after the first failed write or sync: the handle refuses writes from then on.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    cause: OnceLock<String>,
}

impl Poison {
    /// Remembers the first cause. Returns whether this was it.
    pub(crate) fn set(&self, cause: &Error) -> bool {
        self.set_cause(cause.to_string())
    }

    /// As [`Poison::set`], with a cause in words.
    pub(crate) fn set_cause(&self, cause: String) -> bool {
        self.cause.set(cause).is_ok()
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.cause.get().map(String::as_str)
    }

    /// # Errors
    /// `Poisoned` once a cause is set.
    pub(crate) fn check(&self) -> Result<()> {
        match self.cause.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }
}
