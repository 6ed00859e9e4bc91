//! What the runs of one owner share, and the names of their files.

use std::io;
use std::sync::Arc;

use filemap_io::{Access, Dir, File, StorageError};

use crate::traffic::Traffic;

/// Name of a run's file.
pub fn file_name(owner: &str, number: u64) -> String {
    format!("{owner}.{number:06}.run")
}

/// A new file: number, name, handle.
pub type Created = (u64, String, Arc<dyn File>);

/// What the runs of one owner share: directory, name, id, format, counters.
///
/// ```
/// use filemap_runs::Home;
/// use filemap_runs::fixed::Fixed;
///
/// # let dir = filemap_io::sim::SimDisk::new(1).dir();
/// let home = Home::new(dir, "numbers", [7; 16], Fixed::new(80));
/// let (number, name, _file) = home.create(1, filemap_runs::file_name).unwrap();
/// assert_eq!((number, &name[..]), (1, "numbers.000001.run"));
/// ```
#[derive(Clone, Debug)]
pub struct Home<F> {
    /// Directory of the files.
    pub dir: Arc<dyn Dir>,
    /// The owner's name, the prefix of file names.
    pub name: String,
    /// The owner's random id.
    pub id: [u8; 16],
    /// Format of the entries.
    pub format: F,
    /// I/O counters.
    pub traffic: Arc<Traffic>,
}

impl<F> Home<F> {
    /// The home of an owner with this name and id.
    pub fn new(dir: Arc<dyn Dir>, name: &str, id: [u8; 16], format: F) -> Home<F> {
        Home { dir, name: name.to_owned(), id, format, traffic: Arc::default() }
    }

    /// Opens a file that the owner names.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] if it is missing; [`StorageError::Io`].
    pub fn open(&self, name: &str, access: Access) -> Result<Arc<dyn File>, StorageError> {
        self.dir.open(name, access).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StorageError::corrupt(name, 0, "the file is missing, and its owner names it"),
            _ => StorageError::io("open", name)(error),
        })
    }

    /// Creates the first file, from `number` on, whose name is free.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn create(&self, mut number: u64, name: impl Fn(&str, u64) -> String) -> Result<Created, StorageError> {
        loop {
            let file = name(&self.name, number);
            match self.dir.open(&file, Access::Create) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(StorageError::io("create", &file)(error)),
                Ok(created) => return Ok((number, file, created)),
            }
        }
    }
}
