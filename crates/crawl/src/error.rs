//! Errors that end a crawl: of its store, its sets, its frontier, its files, its settings.
//!
//! A page that could not be fetched is not such an error: see [`crate::Failure`].

use std::io;
use std::path::{Path, PathBuf};

use filemap_io::StorageError;

/// The result of an operation whose error ends the crawl.
///
/// ```
/// fn depth(given: &str) -> crawl::Result<u16> {
///     given.parse::<u16>().map_err(|wrong| crawl::Error::Usage(format!("{given}: {wrong}")))
/// }
/// assert!(depth("7").is_ok_and(|depth| depth == 7) && depth("deep").is_err());
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// An error that an observer may return.
///
/// ```
/// let why: crawl::BoxError = "the log is full".into();
/// assert_eq!(crawl::Error::Observer(why).to_string(), "the log is full");
/// ```
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error that prevents or ends a crawl. What was committed stays: the next run resumes there.
///
/// ```
/// let error = crawl::Error::Locked("pages.fm: another crawl has it".to_owned());
/// assert!(error.is_locked() && !error.is_damage());
/// assert_eq!(error.to_string(), "pages.fm: another crawl has it");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option or a URL is invalid. Nothing was changed.
    #[error("{0}")]
    Usage(String),
    /// The system refused an operation on a file of the crawl.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Io {
        /// The operation, such as `open`.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The crawl cannot continue, for the reason in the message.
    #[error("{0}")]
    Broken(String),
    /// Files are damaged or do not belong together. The message says what to do.
    #[error("{0}")]
    Damage(String),
    /// Another process holds what the crawl needs.
    #[error("{0}")]
    Locked(String),
    /// Another owner has taken the crawl's shard. Fetches after this run's last commit are
    /// discarded; the other owner resumes from that commit.
    #[error("{shard}: another owner has taken it{}; this run has ended without writing more", named(.by))]
    Taken {
        /// The shard.
        shard: String,
        /// The new owner, if its name could be read.
        by: Option<String>,
    },
    /// The store's URL rules differ from the requested ones.
    #[error("{}: the store has the rules {}, not {}", .store.display(), rules(.has), rules(.wanted))]
    Rules {
        /// The store.
        store: PathBuf,
        /// Name and version of its rules.
        has: (String, u32),
        /// The requested rules.
        wanted: (String, u32),
    },
    /// An error of the files in the crawl's folder.
    #[error("{}: {source}", .place.display())]
    Files {
        /// Path of the files.
        place: PathBuf,
        /// The error.
        source: StorageError,
    },
    /// An error of the store of pages or of bodies.
    #[error(transparent)]
    Store(#[from] filemap::Error),
    /// An error of a set of URLs or bodies.
    #[error(transparent)]
    Set(#[from] urlindex::Error),
    /// An error of the frontier.
    #[error(transparent)]
    Frontier(#[from] frontier::Error),
    /// An error of the outbox of links to other crawls.
    #[error(transparent)]
    Outbox(#[from] mailbox::Error),
    /// The observer ended the crawl.
    #[error("{0}")]
    Observer(BoxError),
}

fn named(by: &Option<String>) -> String {
    by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default()
}

fn rules((name, version): &(String, u32)) -> String {
    format!("{name} version {version}")
}

impl Error {
    /// The system refused an operation on a file.
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { operation, path: path.to_owned(), source }
    }

    /// An error of the files in a folder.
    pub(crate) fn files(place: &Path, source: StorageError) -> Error {
        Error::Files { place: place.to_owned(), source }
    }

    /// Returns whether bytes on disk are damaged or files do not belong together.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Damage(_) => true,
            Error::Files { source, .. } => source.is_corrupt(),
            Error::Store(error) => error.is_damage(),
            Error::Set(urlindex::Error::Storage(error))
            | Error::Frontier(frontier::Error::Storage(error))
            | Error::Outbox(mailbox::Error::Storage(error)) => error.is_corrupt(),
            _ => false,
        }
    }

    /// Returns whether another process holds what the crawl needs: try again later.
    pub fn is_locked(&self) -> bool {
        let is_it = |error: &StorageError| matches!(error, StorageError::Locked { .. });
        match self {
            Error::Locked(_) => true,
            Error::Files { source, .. } => is_it(source),
            Error::Store(filemap::Error::Engine(filemap_core::Error::Storage(error)))
            | Error::Set(urlindex::Error::Storage(error))
            | Error::Frontier(frontier::Error::Storage(error))
            | Error::Outbox(mailbox::Error::Storage(error)) => is_it(error),
            _ => false,
        }
    }

    /// Adds path and remedy to an error of damage.
    pub(crate) fn at(self, place: &Path, remedy: &str) -> Error {
        if self.is_damage() { Error::Damage(format!("{}: {self}. {remedy}", place.display())) } else { self }
    }
}

impl From<filemap_core::Error> for Error {
    fn from(error: filemap_core::Error) -> Error {
        Error::Store(filemap::Error::Engine(error))
    }
}
