//! Where the files of a dump go: a seam, so that this crate makes no files of its own.
//!
//! The command line has a folder behind it, the tests have memory.

use std::io::{self, Write};

/// A place for the files of a dump. Errors should name the file: they are passed on as they are.
pub trait Target {
    /// Makes a file of this name, which must not be there. Nobody may take it for a whole one
    /// before it is closed. One may be made before the one before it is closed, which is then only
    /// closed.
    ///
    /// # Errors
    ///
    /// The system's, and `AlreadyExists`.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn OutputFile>>;

    /// Writes a small file with folders above it (`path` has `/` between its parts, all of them
    /// safe names), if nothing is in the way: whether it was written.
    ///
    /// # Errors
    ///
    /// The system's.
    fn place(&mut self, path: &str, content: &[u8]) -> io::Result<bool>;
}

/// A file being written.
pub trait OutputFile: Write {
    /// Ends the file: it is whole, and stays so.
    ///
    /// # Errors
    ///
    /// The system's; the file does not count as whole then.
    fn close(self: Box<Self>) -> io::Result<()>;
}
