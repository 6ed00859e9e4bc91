//! A file of lines that is appended to: the crawl log, and edges.
//!
//! A killed process may leave half a line at its end. Devices and pipes are written to as they
//! are.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fm_cli::Failure;

/// Longest half a line that is looked at.
const TORN_BYTES: u64 = 1 << 20;

/// A file of lines.
pub struct Lines {
    file: BufWriter<File>,
    path: PathBuf,
    /// Bytes in it, those of the buffer too.
    bytes: u64,
    /// Whether it is no device and no pipe.
    is_regular: bool,
}

impl Lines {
    /// Opens or creates a file, at its end.
    ///
    /// # Errors
    /// A symbolic link; the system's.
    pub fn open(path: &Path) -> Result<Lines, Failure> {
        let file = fm_cli::sink::open(path, OpenOptions::new().create(true).append(true));
        let file = file.map_err(|error| Failure::io("open", path, &error))?;
        let about = file.metadata().map_err(|error| Failure::io("open", path, &error))?;
        let (bytes, is_regular) = (about.len(), about.is_file());
        Ok(Lines { file: BufWriter::new(file), path: path.to_owned(), bytes, is_regular })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in it, with those that are not written yet.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it is no device and no pipe.
    pub fn is_regular(&self) -> bool {
        self.is_regular
    }

    /// What follows the last end of a line.
    ///
    /// # Errors
    /// The system's.
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
    /// The system's.
    pub fn cut(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        self.file.get_ref().set_len(self.bytes).map_err(|error| Failure::io("write", &self.path, &error))
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.bytes += line.len() as u64;
        self.file.write_all(line).map_err(|error| Failure::io("write", &self.path, &error))
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    /// The system's.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|error| Failure::io("write", &self.path, &error))
    }

    /// Writes out the buffer, and has the disk have it.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&mut self) -> Result<(), Failure> {
        self.flush()?;
        let synced = if self.is_regular { self.file.get_ref().sync_data() } else { Ok(()) };
        synced.map_err(|error| Failure::io("sync", &self.path, &error))
    }
}
