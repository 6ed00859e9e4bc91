//! The error of the engine: the storage error, and the engine's own cases.
//!
//! Every variant names what failed and where; its doc comment says what the caller should do.
//! An absent key is never an error: that is `Ok(None)`.

use std::fmt::Display;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

pub use filemap_io::StorageError;

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Any failure of this crate.
///
/// ```
/// # use filemap_core::{Error, Options, Store};
/// let opened = Store::open("no/such/store", Options::new());
/// assert!(matches!(opened, Err(Error::NotAStore { .. })));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A failure of the store's files, or an invalid option.
    /// - `Io`: reads may be retried; after a failed write or sync the handle is poisoned.
    /// - `Corrupt`: only the named record is lost. Run `verify` to find all damage, then restore
    ///   the store from a copy or fetch the page again.
    /// - `Locked`: close the other handle, or open the store read-only.
    /// - `NewerFormat`: use that version, or dump the store there and load it here. Opening it
    ///   read-only may work even if opening it for writing fails.
    /// - `Full`: a limit of the format. Reads continue; dump the store and load it into several.
    /// - `Poisoned`: this handle writes no more, reads continue. Close the store, fix the cause
    ///   and open it again; recovery keeps everything acknowledged.
    #[error("{}{}", .0, remedy(.0))]
    Storage(#[source] StorageError),
    /// The directory holds no store. Check the path, or create a store there.
    #[error("{} is not a FileMap store: {why}", path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// The condition found instead.
        why: String,
    },
    /// A store can only be created in a new or empty directory. Nothing was changed.
    #[error("{} is not empty; a store is created only in a new or empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The store's keys were made by another canonicaliser. To change it, dump the store and load
    /// it into a new one.
    #[error(
        "the store's keys are canonicalised by {stored}, not by {wanted}; open it with {stored}, or dump it and load it \
         into a new store"
    )]
    Canonicalizer {
        /// Name and version in the superblock.
        stored: String,
        /// Name and version in the options.
        wanted: String,
    },
    /// A key must have 1 to 65,536 bytes. Nothing was written.
    #[error("a key has 1 to {} bytes, this one has {len}", crate::record::MAX_KEY_BYTES)]
    KeyLength {
        /// The key's length in bytes.
        len: usize,
    },
    /// Meta may have up to 65,536 bytes. Nothing was written.
    #[error("meta has at most {} bytes, this has {len}", crate::record::MAX_META_BYTES)]
    MetaTooLarge {
        /// The meta's length in bytes.
        len: usize,
    },
    /// A value may have up to 4 GiB. Nothing was written.
    #[error("a value has at most {} bytes, this one has {len} or more", crate::record::MAX_VALUE_BYTES)]
    ValueTooLarge {
        /// The value's length in bytes; for a stream, the bytes seen so far.
        len: u64,
    },
    /// Free space is below `Options::free_space_floor`. Puts stop there, so that reads, removes
    /// and a checkpoint still work. Free space, or lower the floor.
    #[error("only {free_bytes} bytes are free, below the floor of {floor_bytes}; nothing was written")]
    NoSpace {
        /// Free bytes of the file system.
        free_bytes: u64,
        /// The floor.
        floor_bytes: u64,
    },
    /// An erasure rule refuses the key or body: it was erased and must not come back. Nothing was
    /// written. `fm-tool erase --list` says when and why; `--lift` removes the rule.
    #[error(
        "rule {rule} of the store's erasures refuses it; `erase --list` says why, `erase --lift {rule}` lifts the rule"
    )]
    Refused {
        /// The rule's id.
        rule: u32,
    },
    /// The changes since a place in the store's history are no longer known. List the store, and
    /// continue from its position before the list.
    #[error("what has changed since then is not known any more: {why}; begin anew with a list of the store")]
    Outrun {
        /// The reason.
        why: String,
    },
    /// The handle was opened read-only.
    #[error("the store is open read-only")]
    ReadOnly,
    /// The handle was closed.
    #[error("the store is closed")]
    Closed,
    /// The progress callback cancelled the work. What was done stays done. A cancelled repair must
    /// be run again: until then there is no store at its target.
    #[error("it was cancelled before its end")]
    Cancelled,
    /// A reader passed to the store failed. Nothing was stored.
    #[error("the source of the value failed: {0}")]
    Source(Arc<io::Error>),
}

/// # Errors
/// `Cancelled` if a progress callback returned `Break`.
pub(crate) fn unless_cancelled(told: ControlFlow<()>) -> Result<()> {
    if told.is_break() { Err(Error::Cancelled) } else { Ok(()) }
}

fn remedy(error: &StorageError) -> &'static str {
    match error {
        StorageError::Locked { .. } => ", or open it read-only",
        _ => "",
    }
}

impl From<StorageError> for Error {
    /// Unwraps a refusal by the write gate to the error it carries.
    fn from(error: StorageError) -> Error {
        match &error {
            StorageError::Io { source, .. } => source.get_ref().and_then(|e| e.downcast_ref::<Error>()).cloned(),
            _ => None,
        }
        .unwrap_or(Error::Storage(error))
    }
}

impl Error {
    /// Wraps the I/O error of operation `op` on `file`, for `map_err`.
    pub(crate) fn io(op: &'static str, file: impl Display) -> impl FnOnce(io::Error) -> Error {
        move |source| StorageError::io(op, &file.to_string())(source).into()
    }

    pub(crate) fn corrupt(file: impl AsRef<str>, offset: u64, what: impl Display) -> Error {
        StorageError::corrupt(file.as_ref(), offset, what).into()
    }

    pub(crate) fn full(file: &str, what: impl Into<String>) -> Error {
        StorageError::full(file, what).into()
    }

    pub(crate) fn option(name: &'static str, why: impl Into<String>) -> Error {
        StorageError::option(name, why).into()
    }

    /// Returns true if a file is damaged or missing.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Error::Storage(error) if error.is_corrupt())
    }
}
