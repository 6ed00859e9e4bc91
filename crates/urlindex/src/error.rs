//! The one error type of the seen sets, and how its variants are made.
//!
//! Every variant says what failed and where; its doc comment says what the caller should do. That a URL was not seen is
//! never an error: that is [`crate::Verdict::New`].

use std::io;
use std::sync::Arc;

/// The result of everything that a seen set does.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a seen set.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation. Reads may be tried again; after a failed write or sync the set is
    /// poisoned (see [`Error::Poisoned`]).
    #[error("{op} of {file} failed: {source}")]
    Io {
        /// The operation, such as `read` or `sync`.
        op: &'static str,
        /// The file's name inside its directory.
        file: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Bytes on disk are not what was written. A seen set cannot mend them: restore the set from a copy, or make it anew from the URLs that
    /// the page store holds. A file that only repeats what another one has is to be removed.
    #[error("{file} is damaged at offset {offset}: {what}; {}", remedy(*is_derived))]
    Corrupt {
        /// The file's name inside its directory.
        file: String,
        /// Byte offset of the damage.
        offset: u64,
        /// What is wrong there.
        what: String,
        /// Whether the file holds nothing that others have not: removed, it is made anew.
        is_derived: bool,
    },
    /// Another handle has the set open for writing. Close it there.
    #[error("{file} is open for writing{}; close it there", by(*pid))]
    Locked {
        /// The set's name.
        file: String,
        /// The process id of the holder, if known.
        pid: Option<u32>,
    },
    /// The file was written by a newer version. Use that version.
    #[error("{file} has format version {found}, this program knows up to {supported}; use a newer FileMap")]
    NewerFormat {
        /// The file's name inside its directory.
        file: String,
        /// The version that a reader must know.
        found: u16,
        /// The newest version that this program knows.
        supported: u16,
    },
    /// An option has a value that makes no sense.
    #[error("option {name}: {why}")]
    InvalidOption {
        /// The option.
        name: &'static str,
        /// What is wrong with its value.
        why: String,
    },
    /// This kind of set takes URLs of 1 to `max` bytes. Nothing was inserted.
    #[error("a URL has 1 to {max} bytes here, this one has {len}")]
    UrlLength {
        /// The URL's length in bytes.
        len: usize,
        /// The longest that is taken.
        max: usize,
    },
    /// The set has reached a limit of its format. It goes on answering; begin another one.
    #[error("{file} is full: {what}")]
    Full {
        /// The set's name.
        file: String,
        /// Which limit.
        what: String,
    },
    /// The file is none of a seen set. Name another one, or make one.
    #[error("{file} is no seen set: {what}")]
    NotASet {
        /// The file's name inside its directory.
        file: String,
        /// How that was told.
        what: String,
    },
    /// The set is open to be read. Open it for writing.
    #[error("{file} was opened to be read; open it for writing to change it")]
    ReadOnly {
        /// The set's name.
        file: String,
    },
    /// No set of this kind, or of this shape, can do that. Nothing was changed.
    #[error("{file} cannot {op}: {why}")]
    Unsupported {
        /// The set's name.
        file: String,
        /// What was asked for, such as `forget a URL`.
        op: &'static str,
        /// Why it cannot, and what can be done instead.
        why: String,
    },
    /// The URLs in the set were made canonical by a rule that this program does not know. Use a newer FileMap.
    #[error("the URLs of {file} were made canonical by `{name}` version {version}, which this program does not know")]
    UnknownCanonicalizer {
        /// The set's name.
        file: String,
        /// The canonicaliser's name.
        name: String,
        /// Its version.
        version: u32,
    },
    /// An earlier write or sync failed, so nothing more is inserted through this handle. Look-ups go on. Mend the cause
    /// and open the set again: all that was synced is there.
    #[error("the set takes no more URLs since {cause}; close it and open it again")]
    Poisoned {
        /// The first failure.
        cause: String,
    },
}

fn remedy(is_derived: bool) -> &'static str {
    match is_derived {
        true => "remove it, and it is made anew",
        false => "restore the set from a copy, or fill a new one from your URLs",
    }
}

fn by(pid: Option<u32>) -> String {
    pid.map(|p| format!(" by process {p}")).unwrap_or_default()
}

impl Error {
    /// The operation `op` of `file` failed.
    pub(crate) fn io<'a>(op: &'static str, file: &'a str) -> impl FnOnce(io::Error) -> Error + use<'a> {
        move |source| Error::Io { op, file: file.to_owned(), source: Arc::new(source) }
    }

    /// `file` is not what was written.
    pub(crate) fn corrupt(file: &str, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt { file: file.to_owned(), offset, what: what.into(), is_derived: false }
    }

    /// The same error, of a file that is made anew if it is removed.
    pub(crate) fn derived(self) -> Error {
        match self {
            Error::Corrupt { file, offset, what, .. } => Error::Corrupt { file, offset, what, is_derived: true },
            other => other,
        }
    }

    /// An option makes no sense.
    pub(crate) fn option(name: &'static str, why: impl Into<String>) -> Error {
        Error::InvalidOption { name, why: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_failed_where_and_what_to_do() {
        let io = Error::io("sync", "seen.bits")(io::Error::from_raw_os_error(5)).to_string();
        assert!(io.starts_with("sync of seen.bits failed: "), "{io}");
        let corrupt = Error::corrupt("seen.bits", 8192, "a checksum").to_string();
        assert!(corrupt.contains("seen.bits") && corrupt.contains("8192") && corrupt.contains("restore"), "{corrupt}");
        let filter = Error::corrupt("seen.filter", 8192, "a checksum").derived().to_string();
        assert!(filter.contains("8192") && filter.contains("remove it") && !filter.contains("restore"), "{filter}");
        let locked = Error::Locked { file: "seen".into(), pid: Some(7) }.to_string();
        assert_eq!(locked, "seen is open for writing by process 7; close it there");
    }
}
