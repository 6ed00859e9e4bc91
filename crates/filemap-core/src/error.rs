//! The one error type of the engine, and how its variants are made.
//!
//! Every variant names what failed and where; its doc comment says what the caller should do.
//! Absence is never an error: that is `Ok(None)`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the operating system failed. Reads may be retried; after a failed write or
    /// sync the handle is poisoned (see [`Error::Poisoned`]).
    #[error("{op} of {file} failed: {source}")]
    Io {
        /// The operation, such as `read` or `sync`.
        op: &'static str,
        /// The file's name inside the store.
        file: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// Bytes on disk differ from what was written. Only the named record is lost: run `verify` to
    /// find all damage, then restore the store from a copy or fetch the page again.
    #[error("{file} is damaged at offset {offset}: {what}")]
    Corrupt {
        /// The file's name inside the store.
        file: String,
        /// Byte offset of the damaged record.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Another handle has the store open for writing. Close it, or open the store read-only.
    #[error("{} is open for writing{}; close it there, or open it read-only", path.display(), by(*pid))]
    Locked {
        /// The store's directory.
        path: PathBuf,
        /// The writer's process id, if known.
        pid: Option<u32>,
    },
    /// The directory holds no store. Check the path, or create a store there.
    #[error("{} is not a FileMap store: {why}", path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// A store can only be created in a new or empty directory. Nothing was changed.
    #[error("{} is not empty; a store is created only in a new or empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The store was written by a newer version. Use that version, or dump it there and load it
    /// here. Opening it read-only may still work where opening it for writing fails.
    #[error("{file} has format version {found}, this program knows up to {supported}; use a newer FileMap")]
    NewerFormat {
        /// The file's name inside the store.
        file: String,
        /// Format version needed to read the file, or to write it if it was opened for writing.
        found: u16,
        /// The newest version this program knows.
        supported: u16,
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
    #[error("a key has 1 to {} bytes, this one has {len}", crate::MAX_KEY_BYTES)]
    KeyLength {
        /// The key's length in bytes.
        len: usize,
    },
    /// Meta may have up to 65,536 bytes. Nothing was written.
    #[error("meta has at most {} bytes, this has {len}", crate::MAX_META_BYTES)]
    MetaTooLarge {
        /// The meta's length in bytes.
        len: usize,
    },
    /// A value may have up to 4 GiB. Nothing was written.
    #[error("a value has at most {} bytes, this one has {len} or more", crate::MAX_VALUE_BYTES)]
    ValueTooLarge {
        /// The value's length in bytes; for a stream, the bytes seen so far.
        len: u64,
    },
    /// Free space is below `Options::free_space_floor`. Puts stop there, so that reads, removes and
    /// a checkpoint still work. Free space, or lower the floor.
    #[error("only {free_bytes} bytes are free, below the floor of {floor_bytes}; nothing was written")]
    NoSpace {
        /// Free bytes of the file system.
        free_bytes: u64,
        /// The floor.
        floor_bytes: u64,
    },
    /// The store has reached a limit of its format. Reads go on; dump it and load it into several
    /// stores.
    #[error("{file} is full: {what}")]
    Full {
        /// The file's name inside the store.
        file: String,
        /// Which limit.
        what: String,
    },
    /// An earlier write or sync failed: this handle writes no more, reads go on. Close the store,
    /// fix the cause and open it again; recovery keeps everything acknowledged.
    #[error("the store takes no more writes since {cause}; close it and open it again")]
    Poisoned {
        /// The first failure.
        cause: String,
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
    /// The handle was opened read-only.
    #[error("the store is open read-only")]
    ReadOnly,
    /// The handle was closed.
    #[error("the store is closed")]
    Closed,
    /// The caller cancelled the work. What was done stays done; nothing else was changed.
    #[error("it was told to stop")]
    Stopped,
    /// An option is out of range.
    #[error("option {name}: {why}")]
    InvalidOption {
        /// The option.
        name: &'static str,
        /// What is wrong with its value.
        why: String,
    },
    /// The caller cancelled a repair before its end.
    #[error("stopped before the end, as was asked")]
    Interrupted,
    /// A reader passed to the store failed. Nothing was stored.
    #[error("the source of the value failed: {0}")]
    Source(Arc<io::Error>),
}

fn by(pid: Option<u32>) -> String {
    pid.map(|p| format!(" by process {p}")).unwrap_or_default()
}

impl Error {
    /// Wraps an I/O error of an operation on a file. A refusal by the write gate is unwrapped to
    /// the error it carries.
    pub(crate) fn io(op: &'static str, file: impl Into<String>, source: io::Error) -> Error {
        if let Some(refusal) = source.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
            return refusal.clone();
        }
        Error::Io { op, file: file.into(), source: Arc::new(source) }
    }

    pub(crate) fn corrupt(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt { file: file.into(), offset, what: what.into() }
    }

    pub(crate) fn full(file: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Full { file: file.into(), what: what.into() }
    }

    /// Returns true for [`Error::Corrupt`]: a file is damaged or missing.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Error::Corrupt { .. })
    }
}
