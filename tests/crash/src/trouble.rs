//! Reasons why an operation or a read did not succeed: an error of the store, or a wrong answer.

use filemap_core::Error;

/// The reason why an operation or a read did not succeed.
#[derive(Debug)]
pub enum Trouble {
    /// The store returned an error: legal when a call was made to fail.
    Error(Error),
    /// The store did what it must not.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(e: Error) -> Trouble {
        Trouble::Error(e)
    }
}

impl From<String> for Trouble {
    fn from(what: String) -> Trouble {
        Trouble::Wrong(what)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Error(e) => e.fmt(f),
            Trouble::Wrong(what) => what.fmt(f),
        }
    }
}
