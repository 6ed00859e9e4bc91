//! The error of the frontier: the storage error, and the cases that only the frontier has.
//!
//! Every variant says what failed and where; its doc comment says what to do. An empty frontier is
//! no error: see [`crate::Next`].

use std::fmt::Display;
use std::io;

use filemap_io::StorageError;

/// The result of a frontier's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Result of applying a record.
pub(crate) type Applied<T = ()> = std::result::Result<T, Fault>;

/// Reason why a record cannot be applied.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The record is invalid: no frontier in this state has written it.
    Record(String),
    /// A file could not be read or written.
    Storage(Error),
}

impl From<String> for Fault {
    fn from(what: String) -> Fault {
        Fault::Record(what)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Storage(error)
    }
}

impl Fault {
    /// Converts the fault: a record that cannot be applied is damage to its file.
    pub(crate) fn at(self, file: &str, offset: u64) -> Error {
        match self {
            Fault::Record(what) => Error::corrupt(file, offset, what),
            Fault::Storage(error) => error,
        }
    }
}

/// An error of a frontier.
///
/// ```
/// use frontier::{Error, Frontier, FrontierOptions, PageId};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let mut frontier = Frontier::create(folder.path(), FrontierOptions::new()).unwrap();
/// assert!(matches!(frontier.release(PageId::new(0)), Err(Error::NotInFlight { page: 0 })));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Storage error. Damage cannot be repaired: restore the files from a copy, or create a new
    /// frontier and seed it with the URLs in the page store.
    #[error("{}{}", .0, remedy(.0))]
    Storage(#[from] StorageError),
    /// The directory has a frontier already. Open it, or choose another directory.
    #[error("{file} exists; open that frontier, or create the new one elsewhere")]
    Exists {
        /// The file found.
        file: String,
    },
    /// The directory has no frontier. Create one, or choose another directory.
    #[error("{file} is missing: create a frontier first, or give its directory")]
    Missing {
        /// The missing file.
        file: String,
    },
    /// A URL is empty or longer than `max` bytes. Nothing was changed.
    #[error("URL of {len} bytes: 1 to {max} are accepted")]
    UrlLength {
        /// The URL's length in bytes.
        len: usize,
        /// The longest accepted URL, in bytes.
        max: usize,
    },
    /// The page is not in flight: it was not handed out, or its outcome was reported already.
    /// Nothing was changed.
    #[error("page {page} is not in flight: report the outcome of each page from `next` once")]
    NotInFlight {
        /// The page's number.
        page: u32,
    },
    /// No page has this number.
    #[error("no page {page}: numbers are below the count of pages")]
    NoSuchPage {
        /// The number.
        page: u32,
    },
}

fn remedy(error: &StorageError) -> &'static str {
    match error.is_corrupt() {
        true => "; restore the frontier from a copy, or make a new one and seed it",
        false => "",
    }
}

impl Error {
    /// For `map_err`: the operation `op` of `file` failed.
    pub(crate) fn io<'a>(op: &'static str, file: &'a str) -> impl FnOnce(io::Error) -> Error + use<'a> {
        move |source| StorageError::io(op, file)(source).into()
    }

    /// Damage to `file`.
    pub(crate) fn corrupt(file: &str, offset: u64, what: impl Display) -> Error {
        StorageError::corrupt(file, offset, what).into()
    }

    /// An invalid option.
    pub(crate) fn option(name: &'static str, why: impl Into<String>) -> Error {
        StorageError::option(name, why).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_its_remedy() {
        let corrupt = Error::corrupt("frontier.urls", 8192, "a checksum").to_string();
        assert!(corrupt.starts_with("frontier.urls is damaged at offset 8192: a checksum; restore"), "{corrupt}");
    }
}
