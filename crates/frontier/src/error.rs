//! The error of the frontier: the storage error, and what only it knows.
//!
//! Every variant says what failed and where; its doc comment says what the caller should do. That
//! there is nothing to fetch is never an error: that is [`crate::Next`].

use std::fmt::Display;
use std::io;

use filemap_io::StorageError;

/// The result of everything that a frontier does.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong with a frontier.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The frontier's files. Damage cannot be mended: restore them from a copy, or make a new
    /// frontier and seed it with the URLs that the page store holds.
    #[error("{}{}", .0, remedy(.0))]
    Storage(#[from] StorageError),
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
    /// A URL has 1 to `max` bytes. Nothing was changed.
    #[error("a URL has 1 to {max} bytes here, this one has {len}")]
    UrlLength {
        /// The URL's length in bytes.
        len: usize,
        /// The longest that is taken.
        max: usize,
    },
    /// The page is not in flight: it was not handed out, or its outcome was told already. Nothing
    /// was changed.
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

    /// `file` is not what was written.
    pub(crate) fn corrupt(file: &str, offset: u64, what: impl Display) -> Error {
        StorageError::corrupt(file, offset, what).into()
    }

    /// An option makes no sense.
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
