//! The error of the seen sets: the storage error, and their own variants.
//!
//! Every variant says what failed and where; its doc comment says what to do. That a URL was not
//! seen is not an error: that is [`crate::Verdict::New`].

use std::fmt::Display;
use std::io;

use filemap_io::StorageError;

use crate::request_id::RequestId;

/// The result of a seen set's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a seen set.
///
/// ```
/// use urlindex::{DiskOptions, DiskUrlSet, Error, SeenSet};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("seen");
/// drop(DiskUrlSet::create(&path, DiskOptions::new()).unwrap());
/// let reader = DiskUrlSet::open_read_only(&path, DiskOptions::new()).unwrap();
/// assert!(matches!(reader.insert(b"http://example.com/"), Err(Error::ReadOnly { .. })));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The set's files. Damage cannot be repaired: restore the set from a copy, or fill a new one
    /// with the URLs in the page store.
    #[error("{}{}", .0, remedy(.0))]
    Storage(#[from] StorageError),
    /// The set takes URLs of 1 to `max` bytes. Nothing was inserted.
    #[error("URL of {len} bytes: 1 to {max} are accepted")]
    UrlLength {
        /// The URL's length in bytes.
        len: usize,
        /// The longest accepted.
        max: usize,
    },
    /// The file is not a seen set. Choose another file, or create a set.
    #[error("{file} is not a seen set: {what}")]
    NotASet {
        /// The file's name inside its directory.
        file: String,
        /// The reason.
        what: String,
    },
    /// The set is open read-only. Open it for writing.
    #[error("{file} is open read-only; open it for writing")]
    ReadOnly {
        /// The set's name.
        file: String,
    },
    /// The kind or shape of the set does not support the operation. Nothing was changed.
    #[error("{file} cannot {op}: {why}")]
    Unsupported {
        /// The set's name.
        file: String,
        /// The operation, such as `forget a URL`.
        op: &'static str,
        /// The reason, and what to do instead.
        why: String,
    },
    /// A request to a set is not answered. Nothing was inserted.
    #[error("request {id}: {refusal}")]
    Request {
        /// The request's id.
        id: RequestId,
        /// The reason.
        refusal: RequestRefusal,
    },
    /// This program does not know the canonicaliser of the set's URLs. Use a newer FileMap.
    #[error("this program does not know the canonicaliser `{name}` version {version} of the URLs of {file}")]
    UnknownCanonicalizer {
        /// The set's name.
        file: String,
        /// The canonicaliser's name.
        name: String,
        /// Its version.
        version: u32,
    },
}

/// Reason why an [`crate::idempotent::IdempotentSet`] does not answer a request.
///
/// ```
/// assert!(urlindex::idempotent::RequestRefusal::Forgotten.to_string().contains("may have been answered"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestRefusal {
    /// The id is so old that the request may have been answered and forgotten.
    #[error(
        "its id is so old that it may have been answered and forgotten; its URLs may be in the set: take those without \
         an answer as new, or ask with a new id and lose those that only this request had"
    )]
    Forgotten,
    /// Another request, with other URLs, had this id.
    #[error("another request, with other URLs, had this id: give each request its own id")]
    Reused,
    /// The id's time is in the future.
    #[error("its id has a time in the future: set the clock of the client, or of the set's machine")]
    Ahead,
}

fn remedy(error: &StorageError) -> &'static str {
    match error.is_corrupt() {
        true => "; restore the set from a copy, or fill a new one from your URLs",
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

    /// Returns whether the error is damage to bytes on disk.
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Error::Storage(error) if error.is_corrupt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_its_remedy() {
        let corrupt = Error::corrupt("seen.bits", 8192, "a checksum").to_string();
        assert!(corrupt.starts_with("seen.bits is damaged at offset 8192: a checksum; restore"), "{corrupt}");
        let io = Error::io("sync", "seen.bits")(io::Error::from_raw_os_error(5)).to_string();
        assert!(io.starts_with("sync of seen.bits failed: ") && !io.contains("restore"), "{io}");
    }
}
