//! Errors between a store and its bucket: what failed, where, and what to do.
//!
//! The traits [`filemap::PageRead`] and [`filemap::PageWrite`] return it as
//! [`filemap::Error::Remote`] with the same message. No message contains a credential: this module
//! never receives one.

use std::sync::Arc;

use filemap_core::Version;

/// Reason why a store in object storage cannot be opened, read or written.
///
/// ```
/// use filemap_cloud::{CloudOptions, Error, Mode, open};
/// let error = open("s3://", Mode::Read, &CloudOptions::new()).err();
/// assert!(matches!(error, Some(Error::Location { .. })));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The location is invalid. Nothing was opened.
    #[error("{location}: {what}")]
    Location {
        /// The location, without a password.
        location: String,
        /// Description of the problem.
        what: String,
    },
    /// The store does not exist. Open it with [`Mode::Fill`](crate::Mode::Fill) to create one.
    #[error("{location}: no store exists here; `fm-tool put` and `fm-tool copy` create one")]
    NotAStore {
        /// The location searched.
        location: String,
    },
    /// The object storage lacks a guarantee that a store needs: pages would be lost when two
    /// writers compete. Use another one.
    #[error("{location}: this object storage cannot hold a store: {what}; see docs/CLOUD.md for those that can")]
    StoreUnsuitable {
        /// The location.
        location: String,
        /// The guarantee that it broke.
        what: String,
    },
    /// The store was created by a newer version of this program, or by another program.
    #[error("{location}: {what}; read it with the program version that created it, or a newer one")]
    Format {
        /// The location.
        location: String,
        /// The part that this program does not support.
        what: String,
    },
    /// The object storage did not answer, or refused, and the retries are used up. Puts before a
    /// successful `sync` are safe; put the rest again.
    #[error("{location}: {operation} failed after {retries} retries: {what}")]
    Unavailable {
        /// The location.
        location: String,
        /// The request.
        operation: String,
        /// The maximum number of retries:
        /// [`CloudOptions::max_retries`](crate::CloudOptions::max_retries).
        retries: u32,
        /// The last answer.
        what: String,
    },
    /// Another writer has opened the store. Puts before a successful `sync` are safe; this handle
    /// can write no more.
    #[error("{location}: another writer has opened this store; this handle can write no more")]
    Fenced {
        /// The location.
        location: String,
    },
    /// A repair is building a new index, or was interrupted. Meanwhile no writer can open the
    /// store, and of two repairs the earlier one gives way. Wait for its end; if none is running,
    /// run [`repair`](crate::repair()) again.
    #[error("{location}: a repair is running or was interrupted; wait for its end, or run `repair` again")]
    Repairing {
        /// The location.
        location: String,
    },
    /// The page belongs to another shard than this handle's. Nothing was read or stored.
    #[error("{location}: {url} is of shard {shard}, and this handle has shard {own}")]
    OtherShard {
        /// The location.
        location: String,
        /// The URL.
        url: String,
        /// The shard of its host.
        shard: u32,
        /// The handle's shard.
        own: u32,
    },
    /// Stored bytes are damaged or missing. Other pages can be read; `verify` finds all damage.
    #[error("{location}: {object}: {what}")]
    Damaged {
        /// The location.
        location: String,
        /// The object.
        object: String,
        /// Description of the damage, with its position.
        what: String,
    },
    /// An earlier commit of this handle failed, and later puts were not stored. Open the store
    /// again.
    #[error("nothing was written, because an earlier commit failed: {source}")]
    Failed {
        /// The error of that commit.
        source: Arc<Error>,
    },
    /// The checkpoint of this handle has expired or was removed, and with it an object that the
    /// handle needs. Take another one, and begin the scan again.
    #[error("{location}: the checkpoint of this handle has expired or was removed; begin the scan again with another")]
    Expired {
        /// The location.
        location: String,
    },
    /// The handle was opened for reading.
    #[error("{location}: opened for reading")]
    ReadOnly {
        /// The location.
        location: String,
    },
    /// The handle was closed.
    #[error("{location}: this handle is closed")]
    Closed {
        /// The location.
        location: String,
    },
    /// The description of a stored page cannot be decoded: a newer version of this program wrote
    /// it.
    #[error("{location}: {url}: the description of the version with sequence {} does not decode: {what}", version.sequence)]
    Description {
        /// The location.
        location: String,
        /// The canonical URL, with replacement characters for invalid UTF-8.
        url: String,
        /// The version.
        version: Version,
        /// Description of the problem.
        what: String,
    },
    /// An error of a local store or of a store behind a server.
    #[error("{0}")]
    Other(Arc<filemap::Error>),
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns whether the error means damaged stored bytes: other pages can be read.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Damaged { .. } | Error::Description { .. } => true,
            Error::Other(error) => error.is_damage(),
            _ => false,
        }
    }

    /// The location of the store, for errors that contain one.
    fn location(&self) -> String {
        match self {
            Error::Location { location, .. }
            | Error::NotAStore { location }
            | Error::StoreUnsuitable { location, .. }
            | Error::Format { location, .. }
            | Error::Unavailable { location, .. }
            | Error::Fenced { location }
            | Error::Repairing { location }
            | Error::OtherShard { location, .. }
            | Error::Damaged { location, .. }
            | Error::Expired { location }
            | Error::ReadOnly { location }
            | Error::Closed { location }
            | Error::Description { location, .. } => location.clone(),
            Error::Failed { source } => source.location(),
            Error::Other(_) => String::new(),
        }
    }
}

impl From<Error> for filemap::Error {
    fn from(error: Error) -> filemap::Error {
        let (location, is_of_one_page) = (error.location(), matches!(error, Error::OtherShard { .. }));
        let words = error.to_string();
        let detail = words.strip_prefix(&format!("{location}: ")).unwrap_or(&words).to_owned();
        filemap::Error::Remote { location, detail, is_damage: error.is_damage(), is_of_one_page }
    }
}

impl From<filemap::Error> for Error {
    fn from(error: filemap::Error) -> Error {
        Error::Other(Arc::new(error))
    }
}
