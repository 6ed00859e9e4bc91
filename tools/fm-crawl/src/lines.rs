//! A file of lines that is appended to: the crawl log, or edges.
//!
//! A killed process may leave a partial line at the end. Devices and pipes are never shortened.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fm_cli::Failure;

/// Longest partial line that is searched for, in bytes.
const TORN_BYTES: u64 = 1 << 20;

/// A file of lines.
pub struct Lines {
    file: BufWriter<File>,
    path: PathBuf,
    /// Length of the file in bytes, buffered bytes included.
    bytes: u64,
    /// True for a regular file, rather than a device or pipe.
    is_regular: bool,
}

impl Lines {
    /// Opens or creates a file, at its end.
    ///
    /// # Errors
    /// A symbolic link; the system's error.
    pub fn open(path: &Path) -> Result<Lines, Failure> {
        let file = fm_cli::sink::open(path, OpenOptions::new().create(true).append(true));
        let file = file.map_err(|error| Failure::io("open", path, &error))?;
        let about = file.metadata().map_err(|error| Failure::io("open", path, &error))?;
        let (bytes, is_regular) = (about.len(), about.is_file());
        Ok(Lines { file: BufWriter::new(file), path: path.to_owned(), bytes, is_regular })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file in bytes, including those that are not written yet.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether this is a regular file, rather than a device or pipe.
    pub fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// Returns the bytes after the last line end.
    ///
    /// # Errors
    /// The system's error.
    pub fn torn(&self) -> Result<Vec<u8>, Failure> {
        self.read_torn().map_err(|error| Failure::io("read", &self.path, &error))
    }

    fn read_torn(&self) -> io::Result<Vec<u8>> {
        if !self.is_regular || self.bytes == 0 {
            return Ok(Vec::new());
        }
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.bytes.saturating_sub(TORN_BYTES)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        let whole = end.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        Ok(end.split_off(whole))
    }

    /// Cuts off the last bytes.
    ///
    /// # Errors
    /// The system's error.
    pub fn cut(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        self.file.get_ref().set_len(self.bytes).map_err(|error| Failure::io("write", &self.path, &error))
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// The system's error.
    pub fn write(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.bytes += line.len() as u64;
        self.file.write_all(line).map_err(|error| Failure::io("write", &self.path, &error))
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// The system's error.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|error| Failure::io("write", &self.path, &error))
    }

    /// Flushes the buffer and syncs the file.
    ///
    /// # Errors
    /// The system's error.
    pub fn sync(&mut self) -> Result<(), Failure> {
        self.flush()?;
        let synced = if self.is_regular { self.file.get_ref().sync_data() } else { Ok(()) };
        synced.map_err(|error| Failure::io("sync", &self.path, &error))
    }
}
