//! The crawl log: a JSON line for each visit, and for the beginning and end of a run.
//!
//! Lines are buffered and written at each commit, or when the buffer is full. A killed process may
//! leave half a line, which the next run ends, and lines of uncommitted visits: those pages are
//! fetched again and get a second line.
//!
//! A log that grows over a size is renamed, and a new one begun; after SIGHUP it is opened again,
//! for programs that rename it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crawl::run::line;
use crawl::visit::{Told, Visit};
use fm_cli::times::now_ms;
use fm_cli::{Failure, interrupt};
use serde_json::{Value, json};

/// A log, or no log.
pub struct Log(Option<Open>);

struct Open {
    file: BufWriter<File>,
    path: PathBuf,
    /// Bytes in it, those of the buffer too; and the most there may be.
    bytes: u64,
    most: Option<u64>,
    /// Whether it can be renamed: it is no device and no pipe.
    is_regular: bool,
}

impl Log {
    /// No log.
    pub fn none() -> Log {
        Log(None)
    }

    /// Appends to the log at `path`, or creates it; no log without a path. At most `most` bytes
    /// are in one file, if it can be renamed.
    ///
    /// # Errors
    /// The system's; a limit for what cannot be renamed.
    pub fn open(path: Option<&Path>, most: Option<u64>) -> Result<Log, Failure> {
        let Some(path) = path else { return Ok(Log(None)) };
        let open = Open::at(path, most)?;
        if most.is_some() && !open.is_regular {
            return Err(Failure::Usage(format!("{}: --log-size is for files", path.display())));
        }
        interrupt::listen_to_hang_ups().map_err(|error| Failure::io("listen for SIGHUP to open", path, &error))?;
        Ok(Log(Some(open)))
    }

    /// Opens the log again if there was a SIGHUP.
    ///
    /// # Errors
    /// The system's.
    pub fn look(&mut self) -> Result<(), Failure> {
        let Some(open) = self.0.as_mut().filter(|_| interrupt::hung_up()) else { return Ok(()) };
        open.again()
    }

    /// Logs a visit.
    ///
    /// # Errors
    /// The system's.
    pub fn visit(&mut self, visit: &Visit, new_links: u32) -> Result<(), Failure> {
        match (&self.0, &visit.told) {
            (None, _) | (_, Told::Later) => Ok(()),
            _ => self.write(&line::of(visit, new_links)),
        }
    }

    /// Logs another event.
    ///
    /// # Errors
    /// The system's.
    pub fn event(&mut self, event: &str, what: Value) -> Result<(), Failure> {
        self.write(&json!({ "time_ms": now_ms(), "event": event, "what": what }))
    }

    fn write(&mut self, line: &Value) -> Result<(), Failure> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        let line = format!("{line}\n");
        if open.most.is_some_and(|most| open.bytes > 0 && open.bytes + line.len() as u64 > most) {
            open.rotate()?;
        }
        open.bytes += line.len() as u64;
        open.file.write_all(line.as_bytes()).map_err(|error| Failure::io("write", &open.path, &error))
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    /// The system's.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.0.as_mut().map_or(Ok(()), Open::flush)
    }
}

impl Open {
    fn at(path: &Path, most: Option<u64>) -> Result<Open, Failure> {
        let file = fm_cli::sink::open(path, OpenOptions::new().create(true).append(true));
        let mut file = file.map_err(|error| Failure::io("open", path, &error))?;
        let ended =
            ends_in_a_line(&file, path).and_then(|is_ended| if is_ended { Ok(()) } else { file.write_all(b"\n") });
        let about = ended.and_then(|()| file.metadata()).map_err(|error| Failure::io("write", path, &error))?;
        let (bytes, is_regular) = (about.len(), about.is_file());
        Ok(Open { file: BufWriter::new(file), path: path.to_owned(), bytes, most, is_regular })
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|error| Failure::io("write", &self.path, &error))
    }

    /// Writes out the buffer, and opens what is at the path now.
    fn again(&mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.is_regular {
            *self = Open::at(&self.path, self.most)?;
        }
        Ok(())
    }

    /// Gives the file the next number, and begins a new one.
    fn rotate(&mut self) -> Result<(), Failure> {
        self.flush()?;
        let renamed = next(&self.path).and_then(|old| fs::rename(&self.path, old));
        renamed.map_err(|error| Failure::io("rename", &self.path, &error))?;
        *self = Open::at(&self.path, self.most)?;
        Ok(())
    }
}

/// The path of an old log, with one number more than all there are.
fn next(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut last = 0;
    for entry in fs::read_dir(fm_cli::sink::folder_of(path))? {
        let other = entry?.file_name();
        let number = other.to_str().and_then(|other| other.strip_prefix(&name)?.strip_prefix('.')?.parse::<u64>().ok());
        last = last.max(number.unwrap_or(0));
    }
    let mut old = path.as_os_str().to_owned();
    old.push(format!(".{}", last.saturating_add(1)));
    Ok(PathBuf::from(old))
}

/// Whether a file that is appended to is empty, or ends with a line's end. What is no regular file
/// counts as ended.
fn ends_in_a_line(file: &File, path: &Path) -> io::Result<bool> {
    let about = file.metadata()?;
    if !about.is_file() || about.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    let mut reader = File::open(path)?;
    reader.seek(SeekFrom::End(-1))?;
    reader.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}
