//! The one error type of the frontier, and how its variants are made.
//!
//! Every variant says what failed and where; its doc comment says what the caller should do. That there is nothing to fetch is
//! never an error: that is [`crate::Next`].

use std::io;
use std::sync::Arc;

/// The result of everything that a frontier does.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a frontier.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation. After a failed write or sync the frontier is poisoned (see [`Error::Poisoned`]).
    #[error("{op} of {file} failed: {source}")]
    Io {
        /// The operation, such as `read` or `sync`.
        op: &'static str,
        /// The file's name inside its directory.
        file: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Bytes on disk are not what was written. A frontier cannot mend them: restore its files from a copy, or make it anew and seed it
    /// with the URLs that the page store holds.
    #[error(
        "{file} is damaged at offset {offset}: {what}; restore the frontier from a copy, or make a new one and seed it"
    )]
    Corrupt {
        /// The file's name inside its directory.
        file: String,
        /// Byte offset of the damage.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// Another handle has the frontier open. Close it there.
    #[error("{file} is open{}; close it there", by(*pid))]
    Locked {
        /// The lock's file.
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
    /// There is a frontier already where one was to be made. Open it, or choose another directory.
    #[error("{file} is there already; open that frontier, or make the new one elsewhere")]
    Exists {
        /// The file that shows it.
        file: String,
    },
    /// There is no frontier in the directory. Make one, or name another directory.
    #[error("there is no {file}: make a frontier first, or name its directory")]
    Missing {
        /// The file that every frontier has.
        file: String,
    },
    /// An option has a value that makes no sense.
    #[error("option {name}: {why}")]
    InvalidOption {
        /// The option.
        name: &'static str,
        /// What is wrong with its value.
        why: String,
    },
    /// A URL has 1 to `max` bytes. Nothing was changed.
    #[error("a URL has 1 to {max} bytes here, this one has {len}")]
    UrlLength {
        /// The URL's length in bytes.
        len: usize,
        /// The longest that is taken.
        max: usize,
    },
    /// The page is not in flight: it was not handed out, or its outcome was told already. Nothing was changed.
    #[error("page {page} is not in flight: tell the outcome of what `next` handed out, once")]
    NotInFlight {
        /// The page's number.
        page: u32,
    },
    /// There is no page of this number.
    #[error("there is no page {page}: numbers are below the count of pages")]
    NoSuchPage {
        /// The number.
        page: u32,
    },
    /// The frontier has reached a limit of its format. It goes on handing out what it has.
    #[error("the frontier is full: {what}")]
    Full {
        /// Which limit.
        what: String,
    },
    /// An earlier write or sync failed, so nothing more is taken through this handle. Mend the cause and open the frontier again: all
    /// that was committed is there.
    #[error("the frontier takes nothing more since {cause}; close it and open it again")]
    Poisoned {
        /// The first failure.
        cause: String,
    },
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
        Error::Corrupt { file: file.to_owned(), offset, what: what.into() }
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
        let io = Error::io("sync", "frontier.urls")(io::Error::from_raw_os_error(5)).to_string();
        assert!(io.starts_with("sync of frontier.urls failed: "), "{io}");
        let corrupt = Error::corrupt("frontier.urls", 8192, "a checksum").to_string();
        assert!(
            corrupt.contains("frontier.urls") && corrupt.contains("8192") && corrupt.contains("restore"),
            "{corrupt}"
        );
        let locked = Error::Locked { file: "frontier.lock".into(), pid: Some(7) }.to_string();
        assert_eq!(locked, "frontier.lock is open by process 7; close it there");
    }
}
