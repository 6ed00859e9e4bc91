//! How a verb ends, and the exit code that says so.
//!
//! The codes are those of `fm-tool`: 0 done, 1 not found, 2 usage or I/O, 3 damage found, 4 locked, 128 and the signal's
//! number (130 after Ctrl-C) interrupted. As of what `fm-tool` loads and merges, 3 is also said of pages that the store refuses.
//! Every error of the libraries is mapped to its code here and nowhere else.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// How a verb ended without failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything asked for was done.
    Done,
    /// What was asked for is not there; words have been said.
    NotFound,
    /// Pages were fetched that the store refuses to keep; words have been said.
    Unstorable,
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

    /// The same, and of damage where it is and what to do about it there.
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
            Self::Usage(_) | Self::Io(_) => 2,
            Self::Damage(_) => 3,
            Self::Locked(_) => 4,
        }
    }
}

impl Outcome {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotFound => 1,
            Self::Unstorable => 3,
            Self::Interrupted(signal) => 128 + signal.min(64),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(words) | Self::Io(words) | Self::Damage(words) | Self::Locked(words) => f.write_str(words),
            Self::PipeClosed => f.write_str("nobody reads the output any more"),
        }
    }
}

impl From<filemap_core::Error> for Failure {
    fn from(error: filemap_core::Error) -> Self {
        let words = error.to_string();
        match error {
            filemap_core::Error::Corrupt { .. } => Self::Damage(words),
            filemap_core::Error::Locked { .. } => Self::Locked(words),
            _ => Self::Io(words),
        }
    }
}

impl From<filemap::Error> for Failure {
    fn from(error: filemap::Error) -> Self {
        match error {
            filemap::Error::Engine(error) => error.into(),
            filemap::Error::Url { .. } => Self::Usage(error.to_string()),
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

impl From<frontier::Error> for Failure {
    fn from(error: frontier::Error) -> Self {
        let words = error.to_string();
        match error {
            frontier::Error::Corrupt { .. } => Self::Damage(words),
            frontier::Error::Locked { .. } => Self::Locked(words),
            frontier::Error::InvalidOption { .. } => Self::Usage(words),
            _ => Self::Io(words),
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
