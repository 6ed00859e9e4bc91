//! The storage error of all crates: failures of the files of a store, a seen set or a frontier.
//! Each crate's own error wraps it and adds its own cases.

use std::fmt::Display;
use std::io;
use std::sync::Arc;

/// A failure of stored files.
///
/// ```
/// use filemap_io::StorageError;
/// let error = StorageError::corrupt("value0.dat", 4096, "checksum mismatch");
/// assert!(error.is_corrupt() && !error.is_absent());
/// assert!(error.to_string().starts_with("value0.dat is damaged at offset 4096: "));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refused an operation. Reads may be tried again; after a failed write
    /// or sync the handle is poisoned ([`StorageError::Poisoned`]).
    #[error("{op} of {file} failed: {source}")]
    Io {
        /// The operation, such as `read` or `sync`.
        op: &'static str,
        /// The file's name inside its directory.
        file: String,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// Bytes on disk differ from what was written.
    #[error("{file} is damaged at offset {offset}: {what}")]
    Corrupt {
        /// The file's name inside its directory.
        file: String,
        /// Byte offset of the damage.
        offset: u64,
        /// The defect.
        what: String,
    },
    /// Another handle has the file open for writing. Close that handle.
    #[error("{file} is open for writing{}; close it there", by(*pid))]
    Locked {
        /// The locked file or set.
        file: String,
        /// The process id of the holder, if known.
        pid: Option<u32>,
    },
    /// The file was written by a newer version. Use that version.
    #[error("{file} has format version {found}, this program knows up to {supported}; use a newer FileMap")]
    NewerFormat {
        /// The file's name inside its directory.
        file: String,
        /// The format version that a reader must know, or, in a store opened for writing, a
        /// writer.
        found: u16,
        /// The newest version that this program knows.
        supported: u16,
    },
    /// An option has an invalid value.
    #[error("option {name}: {why}")]
    InvalidOption {
        /// The option.
        name: &'static str,
        /// The defect of its value.
        why: String,
    },
    /// A limit of the format is reached. Reads continue.
    #[error("{file} is full: {what}")]
    Full {
        /// The file or set that is full.
        file: String,
        /// The limit reached.
        what: String,
    },
    /// An earlier write or sync failed, so this handle writes nothing more. Reads continue. Fix
    /// the cause and open it again: everything that was synced is there.
    #[error("nothing more is written since {cause}; close it and open it again")]
    Poisoned {
        /// The first failure.
        cause: String,
    },
}

fn by(pid: Option<u32>) -> String {
    pid.map(|p| format!(" by process {p}")).unwrap_or_default()
}

impl StorageError {
    /// Wraps the I/O error of operation `op` on `file`, for `map_err`.
    pub fn io<'a>(op: &'static str, file: &'a str) -> impl FnOnce(io::Error) -> StorageError + use<'a> {
        move |source| StorageError::Io { op, file: file.to_owned(), source: Arc::new(source) }
    }

    /// Damage in `file`: its bytes differ from what was written.
    pub fn corrupt(file: &str, offset: u64, what: impl Display) -> StorageError {
        StorageError::Corrupt { file: file.to_owned(), offset, what: what.to_string() }
    }

    /// An option with an invalid value.
    pub fn option(name: &'static str, why: impl Into<String>) -> StorageError {
        StorageError::InvalidOption { name, why: why.into() }
    }

    /// A limit of the format is reached.
    pub fn full(file: &str, what: impl Into<String>) -> StorageError {
        StorageError::Full { file: file.to_owned(), what: what.into() }
    }

    /// Returns whether an operation failed because the file does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, StorageError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether bytes on disk are damaged.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, StorageError::Corrupt { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_failed_where_and_what_to_do() {
        let io = StorageError::io("sync", "seen.bits")(io::Error::from_raw_os_error(5)).to_string();
        assert!(io.starts_with("sync of seen.bits failed: "), "{io}");
        let corrupt = StorageError::corrupt("seen.bits", 8192, "a checksum").to_string();
        assert_eq!(corrupt, "seen.bits is damaged at offset 8192: a checksum");
        let locked = StorageError::Locked { file: "seen".into(), pid: Some(7) }.to_string();
        assert_eq!(locked, "seen is open for writing by process 7; close it there");
    }
}
