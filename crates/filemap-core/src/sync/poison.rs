//! Poison: after a failed write or sync a handle refuses all further writes.
//!
//! `filemap_io::Latch` is the same for other crates. It uses the `OnceLock` of `std`, whose steps
//! no model checker sees; the models of this crate must see a failed sync reach all waiters.

use crate::error::{Error, Result, StorageError};
use crate::sync::primitive::OnceLock;

/// Latch set by the first failed write or sync.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    cause: OnceLock<String>,
}

impl Poison {
    /// Stores the first cause. Returns true if this was the first.
    pub(crate) fn set(&self, cause: &Error) -> bool {
        self.set_cause(cause.to_string())
    }

    /// [`Poison::set`] with a text as the cause.
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
            Some(cause) => Err(Error::Storage(StorageError::Poisoned { cause: cause.clone() })),
        }
    }
}
