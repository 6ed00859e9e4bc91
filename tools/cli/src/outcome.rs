//! Outcomes of a verb, and their exit codes.
//!
//! The codes are a contract with scripts: 0 done, 1 not found, 2 usage or I/O, 3 damage found or
//! pages refused by the store, 4 locked, 5 not all was done, 128 plus the signal's number (130
//! after Ctrl-C) interrupted. Errors of the libraries are mapped to codes here; those of the
//! frontier are mapped in the crawler, by the same rule for stored files.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use urlindex::StorageError;

use crate::{sizes, words};

/// Outcome of a verb that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything asked for was done.
    Done,
    /// The store lacks what was asked for; a message was printed.
    NotFound,
    /// An input was refused, with a message; the rest was done.
    Refused,
    /// Damage was found, or pages were refused by the store, with a message; the rest was done.
    Damaged,
    /// Part of the work could not be done, with a message; another run does the rest.
    Incomplete,
    /// A signal of this number stopped it at a safe place; a message was printed.
    Interrupted(u8),
}

/// Reason why a verb could not continue.
#[derive(Debug)]
pub enum Failure {
    /// The arguments contradict each other.
    Usage(String),
    /// The system or the store refused.
    Io(String),
    /// The file system has no space.
    Full(String),
    /// Less space is free than must stay free.
    Floor(String),
    /// Bytes on disk are not those that were written.
    Damage(String),
    /// Another process writes the store.
    Locked(String),
    /// The reader of our output closed the pipe: no error.
    PipeClosed,
}

impl Failure {
    /// The system refused an operation on the user's file.
    pub fn io(operation: &str, path: &Path, error: &io::Error) -> Self {
        Self::Io(format!("cannot {operation} {}: {error}", path.display()))
    }

    /// The failure of stored files, with the message of the crate that owns them.
    pub fn of_storage(error: &StorageError, words: String) -> Self {
        match error {
            StorageError::Corrupt { .. } => Self::Damage(words),
            StorageError::Locked { .. } => Self::Locked(words),
            StorageError::InvalidOption { .. } => Self::Usage(words),
            _ => Self::Io(words),
        }
    }

    /// The same failure with its message changed.
    pub fn map(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Usage(words) => Self::Usage(change(words)),
            Self::Io(words) => Self::Io(change(words)),
            Self::Full(words) => Self::Full(change(words)),
            Self::Floor(words) => Self::Floor(change(words)),
            Self::Damage(words) => Self::Damage(change(words)),
            Self::Locked(words) => Self::Locked(change(words)),
            Self::PipeClosed => Self::PipeClosed,
        }
    }

    /// The same failure; for damage, with its path and the remedy.
    pub fn at(self, place: &Path, remedy: &str) -> Self {
        match self {
            Self::Damage(words) => Self::Damage(format!("{}: {words}. {remedy}", place.display())),
            other => other,
        }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::PipeClosed => 0,
            Self::Usage(_) | Self::Io(_) | Self::Full(_) | Self::Floor(_) => 2,
            Self::Damage(_) => 3,
            Self::Locked(_) => 4,
        }
    }
}

impl Outcome {
    /// Prints a failure that concerns one of several items; any other failure comes back.
    pub fn of_one(failure: Failure) -> Result<Self, Failure> {
        let outcome = match &failure {
            Failure::Damage(_) => Self::Damaged,
            Failure::Usage(_) => Self::Refused,
            _ => return Err(failure),
        };
        words::complain(failure);
        Ok(outcome)
    }

    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotFound => 1,
            Self::Refused => 2,
            Self::Damaged => 3,
            Self::Incomplete => 5,
            Self::Interrupted(signal) => 128 + signal.min(64),
        }
    }

    /// The outcome of work on a store and of closing it; the store is closed after failures too. A
    /// closed pipe does not hide that closing failed.
    pub fn closed(done: Result<Self, Failure>, closed: Result<(), impl Into<Failure>>) -> Result<Self, Failure> {
        let closed: Result<(), Failure> = closed.map_err(Into::into);
        match done {
            Err(Failure::PipeClosed) => closed.and(Err(Failure::PipeClosed)),
            done => done.and_then(|outcome| closed.map(|()| outcome)),
        }
    }

    /// The worse of two: interrupted, incomplete, damaged, refused, not found, done.
    pub fn and(self, other: Self) -> Self {
        if self.code() >= other.code() { self } else { other }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(words)
            | Self::Io(words)
            | Self::Full(words)
            | Self::Floor(words)
            | Self::Damage(words)
            | Self::Locked(words) => f.write_str(words),
            Self::PipeClosed => f.write_str("the reader of the output closed it"),
        }
    }
}

impl From<filemap_core::Error> for Failure {
    fn from(error: filemap_core::Error) -> Self {
        let words = error.to_string();
        match error {
            filemap_core::Error::Storage(StorageError::Corrupt { .. }) => Self::Damage(words),
            filemap_core::Error::Storage(StorageError::Locked { .. }) => Self::Locked(words),
            filemap_core::Error::NoSpace { free_bytes, floor_bytes } => {
                let (free, floor) = (sizes::print(free_bytes), sizes::print(floor_bytes));
                Self::Floor(format!("only {free} are free, and {floor} are to stay free"))
            }
            filemap_core::Error::Storage(StorageError::Io { source, .. }) if is_full(&source) => Self::Full(words),
            _ => Self::Io(words),
        }
    }
}

/// Returns whether the system had no space.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<filemap::Error> for Failure {
    fn from(error: filemap::Error) -> Self {
        match error {
            filemap::Error::Engine(error) => error.into(),
            filemap::Error::Member { path, source } => of_member(&path, source),
            filemap::Error::Url { .. }
            | filemap::Error::Variant { .. }
            | filemap::Error::Packed { .. }
            | filemap::Error::Unsupported { .. }
            | filemap::Error::NotMembers { .. }
            | filemap::Error::Cursor { .. } => Self::Usage(error.to_string()),
            error if error.is_damage() => Self::Damage(error.to_string()),
            filemap::Error::Remote { is_of_one_page: true, .. } => Self::Usage(error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}

/// The failure of a member of a store over several folders, with its path.
fn of_member(path: &Path, source: Arc<filemap::Error>) -> Failure {
    let named = |words: String| format!("{}: {words}", path.display());
    match Arc::try_unwrap(source) {
        Ok(error) => Failure::from(error).map(named),
        Err(error) if error.is_damage() => Failure::Damage(named(error.to_string())),
        Err(error) => Failure::Io(named(error.to_string())),
    }
}

impl From<urlindex::Error> for Failure {
    fn from(error: urlindex::Error) -> Self {
        let words = error.to_string();
        match error {
            urlindex::Error::Storage(error) => Self::of_storage(&error, words),
            urlindex::Error::Unsupported { .. } => Self::Usage(words),
            _ => Self::Io(words),
        }
    }
}

/// A reader of a store wraps the errors of the engine, or of a store elsewhere, in the system's.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.downcast::<filemap_core::Error>() {
            Ok(error) => error.into(),
            Err(error) => match error.downcast::<filemap::Error>() {
                Ok(error) => error.into(),
                Err(error) => Self::Io(format!("reading failed: {error}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_of_a_member_is_that_of_its_store_with_the_path() {
        let error = StorageError::Locked { file: "the store".to_owned(), pid: Some(7) };
        let source = Arc::new(filemap::Error::Engine(error.into()));
        let failure = Failure::from(filemap::Error::Member { path: "/disk1/a.fm".into(), source: Arc::clone(&source) });
        assert!(matches!(&failure, Failure::Io(words) if words.starts_with("/disk1/a.fm: ")), "{failure}");
        let failure = Failure::from(filemap::Error::Member { path: "/disk1/a.fm".into(), source });
        assert!(matches!(&failure, Failure::Locked(words) if words.starts_with("/disk1/a.fm: ")), "{failure}");
    }

    #[test]
    fn damage_that_a_stream_of_a_body_finds_is_damage() {
        let (location, detail) = ("s3://bucket/pages".to_owned(), "checksum mismatch".to_owned());
        let error = filemap::Error::Remote { location, detail, is_damage: true, is_of_one_page: false };
        let failure = Failure::from(io::Error::other(error));
        assert!(matches!(&failure, Failure::Damage(words) if words.contains("checksum mismatch")), "{failure}");
        assert!(matches!(Failure::from(io::Error::other("no disk")), Failure::Io(_)));
    }

    #[test]
    fn the_worst_outcome_wins() {
        let all = [
            Outcome::Done,
            Outcome::NotFound,
            Outcome::Refused,
            Outcome::Damaged,
            Outcome::Incomplete,
            Outcome::Interrupted(2),
            Outcome::Interrupted(15),
        ];
        for (at, first) in all.into_iter().enumerate() {
            for second in &all[at..] {
                assert_eq!(first.and(*second), *second);
                assert_eq!(second.and(first), *second);
            }
        }
    }
}
