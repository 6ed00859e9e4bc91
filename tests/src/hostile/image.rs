//! A store's files as bytes in memory, and a scratch directory to open them in.
//!
//! Invariant: an [`Image`] holds the files of one store and nothing else; writing it to a directory makes that directory
//! hold just these files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Files by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub BTreeMap<String, Vec<u8>>);

impl Image {
    /// Reads all files of a directory.
    ///
    /// # Errors
    /// Whatever reading returns.
    pub fn read(dir: &Path) -> io::Result<Image> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
        }
        Ok(Image(files))
    }

    /// Makes a directory hold these files and no others.
    ///
    /// # Errors
    /// Whatever writing returns.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if !self.0.contains_key(&*entry.file_name().to_string_lossy()) {
                fs::remove_file(entry.path())?;
            }
        }
        self.0.iter().try_for_each(|(name, bytes)| fs::write(dir.join(name), bytes))
    }

    /// The bytes of a file that is there.
    pub fn file(&self, name: &str) -> &[u8] {
        &self.0[name]
    }

    /// The bytes of a file that is there, to be changed.
    pub fn file_mut(&mut self, name: &str) -> &mut Vec<u8> {
        self.0.get_mut(name).expect("the file is there")
    }
}

/// A directory that goes with the value; in memory where the system has a place for that.
#[derive(Debug)]
pub struct Scratch {
    dir: tempfile::TempDir,
    /// What lies in it, if that is known: files that did not change are not written again.
    held: Option<Image>,
}

impl Scratch {
    /// A new one.
    ///
    /// # Errors
    /// Whatever creating a directory returns.
    pub fn new() -> io::Result<Scratch> {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        dir.map(|dir| Scratch { dir, held: None })
    }

    /// Where a store lies in it.
    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store.fm")
    }

    /// Makes the store's files be these.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn hold(&mut self, image: &Image) {
        let path = self.store();
        match &mut self.held {
            Some(held) if held.0.len() == image.0.len() => {
                for ((name, bytes), old) in image.0.iter().zip(held.0.values_mut()).filter(|(new, old)| new.1 != *old) {
                    fs::write(path.join(name), bytes).expect("a scratch directory");
                    old.clone_from(bytes);
                }
            }
            held => {
                image.write(&path).expect("a scratch directory");
                *held = Some(image.clone());
            }
        }
    }

    /// Something has written to the store.
    pub fn forget(&mut self) {
        self.held = None;
    }
}
