//! Destination of the files of a dump: this crate creates no files itself.
//!
//! The command line implements it with a folder, the tests in memory.

use std::io::{self, Write};

/// A destination for the files of a dump. Errors should name the file: they are passed on
/// unchanged.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::fs::File;
/// # use std::io::{self, Write};
/// # use std::ops::ControlFlow;
/// # use filemap::{Options, PageStore};
/// use filemap::dump::{DumpOptions, Format, OutputFile, Target, dump};
///
/// struct Folder(std::path::PathBuf);
///
/// impl Target for Folder {
///     fn create(&mut self, name: &str) -> io::Result<Box<dyn OutputFile>> {
///         Ok(Box::new(Part(File::create_new(self.0.join(name))?)))
///     }
/// #     fn place(&mut self, path: &str, content: &[u8]) -> io::Result<bool> {
/// #         std::fs::write(self.0.join(path), content).map(|()| true)
/// #     }
/// }
/// # struct Part(File);
/// # impl Write for Part {
/// #     fn write(&mut self, bytes: &[u8]) -> io::Result<usize> { self.0.write(bytes) }
/// #     fn flush(&mut self) -> io::Result<()> { self.0.flush() }
/// # }
/// # impl OutputFile for Part {
/// #     fn close(self: Box<Self>) -> io::Result<()> { self.0.sync_all() }
/// # }
///
/// # let dir = tempfile::tempdir()?;
/// # let store = PageStore::create(dir.path().join("pages.fm"), Options::new())?;
/// let mut folder = Folder(dir.path().to_owned());
/// let options = DumpOptions::new("crawl", &[Format::Jsonl]);
/// dump(&store, &options, &mut folder, &mut |_| ControlFlow::Continue(()))?;
/// assert!(dir.path().join("crawl.jsonl").exists());
/// # Ok(())
/// # }
/// ```
pub trait Target {
    /// Creates a file of this name, which must not exist. Until it is closed, it must not look
    /// like a complete file. The next file may be created before it is closed; after that, nothing
    /// is written to it.
    ///
    /// # Errors
    ///
    /// Those of the system, and `AlreadyExists`.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn OutputFile>>;

    /// Writes a small file and the folders above it (`path` has `/` between its parts, which are
    /// safe names). Returns false if the name is taken.
    ///
    /// # Errors
    ///
    /// Those of the system.
    fn place(&mut self, path: &str, content: &[u8]) -> io::Result<bool>;
}

/// A file being written.
///
/// ```
/// use std::io::{self, Write};
///
/// use filemap::dump::OutputFile;
///
/// struct Memory(Vec<u8>);
///
/// impl OutputFile for Memory {
///     fn close(self: Box<Self>) -> io::Result<()> {
///         println!("{} bytes written", self.0.len());
///         Ok(())
///     }
/// }
/// # impl Write for Memory {
/// #     fn write(&mut self, bytes: &[u8]) -> io::Result<usize> { self.0.write(bytes) }
/// #     fn flush(&mut self) -> io::Result<()> { Ok(()) }
/// # }
/// let mut file: Box<dyn OutputFile> = Box::new(Memory(Vec::new()));
/// file.write_all(b"hello").and_then(|()| file.close()).unwrap();
/// ```
pub trait OutputFile: Write {
    /// Closes the file, which is then complete.
    ///
    /// # Errors
    ///
    /// Those of the system; the file is then incomplete.
    fn close(self: Box<Self>) -> io::Result<()>;
}
