//! A store's files as bytes in memory, and a simulated disk to open them on.
//!
//! Invariant: an [`Image`] holds the files of one store; writing it to a directory leaves just
//! these files there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use filemap_io::Dir;
use filemap_io::sim::SimDisk;

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

/// A simulated disk that holds a damaged store.
#[derive(Debug)]
pub struct Scratch {
    disk: SimDisk,
    /// Its content, if known: unchanged files are not written again.
    held: Option<Image>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { disk: SimDisk::new(1), held: None }
    }
}

impl Scratch {
    /// The directory, to be opened.
    pub fn dir(&self) -> Arc<dyn Dir> {
        self.disk.dir()
    }

    /// Makes the store's files be these.
    pub fn hold(&mut self, image: &Image) {
        match &mut self.held {
            Some(held) if held.0.len() == image.0.len() => {
                for ((name, bytes), old) in image.0.iter().zip(held.0.values_mut()).filter(|(new, old)| new.1 != *old) {
                    self.disk.set_bytes(name, bytes);
                    old.clone_from(bytes);
                }
            }
            held => {
                self.disk = SimDisk::new(1);
                image.0.iter().for_each(|(name, bytes)| self.disk.set_bytes(name, bytes));
                *held = Some(image.clone());
            }
        }
    }

    /// Something has written to the store.
    pub fn forget(&mut self) {
        self.held = None;
    }
}
