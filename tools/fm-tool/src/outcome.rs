//! How a verb ends, and the exit code that says so.
//!
//! The codes are part of the program's contract with scripts: 0 done, 1 not found, 2 usage or I/O, 3 damage found, 4
//! locked, 128 and the signal's number (130 after Ctrl-C) interrupted. Every error of the libraries is mapped to its code here and nowhere else.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::words;

/// How a verb ended without failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything asked for was done.
    Done,
    /// What was asked for is not there; words have been said.
    NotFound,
    /// Something that was given was refused, with words; all else was done.
    Refused,
    /// Damage was met and reported; everything whole was done.
    Damaged,
    /// A signal of this number stopped it at a safe place; words have been said.
    Interrupted(u8),
}

/// Why a verb could not go on.
#[derive(Debug)]
pub enum Failure {
    /// The arguments make no sense together.
    Usage(String),
    /// The system or the store refused.
    Io(String),
    /// The file system has no room.
    Full(String),
    /// Bytes on disk are not what was written.
    Damage(String),
    /// Another process writes the store.
    Locked(String),
    /// Whoever read our output has had enough: no error.
    PipeClosed,
}

impl Failure {
    /// An operation on a file of the user's that the system refused.
    pub fn io(operation: &str, path: &Path, error: &io::Error) -> Self {
        Self::Io(format!("cannot {operation} {}: {error}", path.display()))
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::PipeClosed => 0,
            Self::Usage(_) | Self::Io(_) | Self::Full(_) => 2,
            Self::Damage(_) => 3,
            Self::Locked(_) => 4,
        }
    }
}

impl Outcome {
    /// What a failure that concerns one of several things comes to, for which words are said; other failures come back.
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
            Self::Interrupted(signal) => 128 + signal.min(64),
        }
    }

    /// Interruption outweighs damage, damage outweighs refusal, refusal absence, and absence success.
    pub fn and(self, other: Self) -> Self {
        if self.code() >= other.code() { self } else { other }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(words) | Self::Io(words) | Self::Full(words) | Self::Damage(words) | Self::Locked(words) => {
                f.write_str(words)
            }
            Self::PipeClosed => f.write_str("the reader of the output closed it"),
        }
    }
}

impl From<filemap_core::Error> for Failure {
    fn from(error: filemap_core::Error) -> Self {
        let words = error.to_string();
        match error {
            filemap_core::Error::Corrupt { .. } => Self::Damage(words),
            filemap_core::Error::Locked { .. } => Self::Locked(words),
            filemap_core::Error::NoSpace { free_bytes, floor_bytes } => {
                let (free, floor) = (words::size(free_bytes), words::size(floor_bytes));
                Self::Full(format!("only {free} are free, and {floor} are to stay free (--min-free)"))
            }
            filemap_core::Error::Io { source, .. } if is_full(&source) => Self::Full(words),
            _ => Self::Io(words),
        }
    }
}

/// Whether the system had no room.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<filemap::Error> for Failure {
    fn from(error: filemap::Error) -> Self {
        match error {
            filemap::Error::Engine(error) => error.into(),
            filemap::Error::Url { .. } | filemap::Error::Variant { .. } | filemap::Error::Packed { .. } => {
                Self::Usage(error.to_string())
            }
            error if error.is_damage() => Self::Damage(error.to_string()),
            _ => Self::Io(error.to_string()),
        }
    }
}

impl From<urlindex::Error> for Failure {
    fn from(error: urlindex::Error) -> Self {
        let words = error.to_string();
        match error {
            urlindex::Error::Corrupt { .. } => Self::Damage(words),
            urlindex::Error::Locked { .. } => Self::Locked(words),
            urlindex::Error::InvalidOption { .. } | urlindex::Error::Unsupported { .. } => Self::Usage(words),
            _ => Self::Io(words),
        }
    }
}

/// A reader of the store gives the engine's own errors inside those of the system.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.downcast::<filemap_core::Error>() {
            Ok(error) => error.into(),
            Err(error) => Self::Io(format!("reading failed: {error}")),
        }
    }
}

/// The process's exit code for the end of a verb.
pub fn exit_code(end: &Result<Outcome, Failure>) -> ExitCode {
    ExitCode::from(match end {
        Ok(outcome) => outcome.code(),
        Err(failure) => failure.code(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_outcome_wins() {
        let all = [
            Outcome::Done,
            Outcome::NotFound,
            Outcome::Refused,
            Outcome::Damaged,
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
