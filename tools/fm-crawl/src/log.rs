//! The crawl log: a JSON line for each visit, and for the beginning and end of a run.
//!
//! Lines are buffered, and written at each commit or when the buffer is full. A killed process may
//! leave a partial line, which the next run ends, and lines of uncommitted visits: those pages are
//! fetched again and get a second line.
//!
//! A log that exceeds a size is renamed, and a new one is begun. After SIGHUP the log is reopened,
//! for programs that rename it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crawl::run::line;
use crawl::visit::{Told, Visit};
use fm_cli::times::now_ms;
use fm_cli::{Failure, interrupt};
use serde_json::{Value, json};

use crate::lines::Lines;

/// A log, or no log.
pub struct Log(Option<Open>);

struct Open {
    lines: Lines,
    /// Largest size of one file, in bytes.
    most: Option<u64>,
}

impl Log {
    /// A log that records nothing.
    pub fn none() -> Log {
        Log(None)
    }

    /// Appends to the log at `path`, or creates it; logs nothing without a path. A file has at
    /// most `most` bytes, if it can be renamed.
    ///
    /// # Errors
    /// The system's error; a size limit for a file that cannot be renamed.
    pub fn open(path: Option<&Path>, most: Option<u64>) -> Result<Log, Failure> {
        let Some(path) = path else { return Ok(Log(None)) };
        let open = Open::at(path, most)?;
        if most.is_some() && !open.lines.is_regular() {
            return Err(Failure::Usage(format!("{}: --log-size is for files", path.display())));
        }
        interrupt::listen_to_hang_ups().map_err(|error| Failure::io("listen for SIGHUP to open", path, &error))?;
        Ok(Log(Some(open)))
    }

    /// Reopens the log after a SIGHUP.
    ///
    /// # Errors
    /// The system's error.
    pub fn look(&mut self) -> Result<(), Failure> {
        let Some(open) = self.0.as_mut().filter(|_| interrupt::hung_up()) else { return Ok(()) };
        open.again()
    }

    /// Logs a visit.
    ///
    /// # Errors
    /// The system's error.
    pub fn visit(&mut self, visit: &Visit, new_links: u32) -> Result<(), Failure> {
        match (&self.0, &visit.told) {
            (None, _) => Ok(()),
            // Usually nothing has happened to the page; but its host's robots.txt may have limits.
            (_, Told::Later) if visit.met.is_empty() => Ok(()),
            _ => self.write(&line::of(visit, new_links)),
        }
    }

    /// Logs another event.
    ///
    /// # Errors
    /// The system's error.
    pub fn event(&mut self, event: &str, what: Value) -> Result<(), Failure> {
        self.write(&json!({ "time_ms": now_ms(), "event": event, "what": what }))
    }

    fn write(&mut self, line: &Value) -> Result<(), Failure> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        let line = format!("{line}\n");
        let bytes = open.lines.bytes();
        if open.most.is_some_and(|most| bytes > 0 && bytes + line.len() as u64 > most) {
            open.rotate()?;
        }
        open.lines.write(line.as_bytes())
    }

    /// Flushes the buffer.
    ///
    /// # Errors
    /// The system's error.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.0.as_mut().map_or(Ok(()), |open| open.lines.flush())
    }
}

impl Open {
    fn at(path: &Path, most: Option<u64>) -> Result<Open, Failure> {
        let mut lines = Lines::open(path)?;
        if !lines.torn()?.is_empty() {
            lines.write(b"\n")?;
            lines.flush()?;
        }
        Ok(Open { lines, most })
    }

    /// Flushes the buffer, and opens the file that is now at the path.
    fn again(&mut self) -> Result<(), Failure> {
        self.lines.flush()?;
        if self.lines.is_regular() {
            *self = Open::at(self.lines.path(), self.most)?;
        }
        Ok(())
    }

    /// Renames the file to the next number, and begins a new one.
    fn rotate(&mut self) -> Result<(), Failure> {
        self.lines.flush()?;
        let path = self.lines.path();
        let renamed = next(path).and_then(|old| fs::rename(path, old));
        renamed.map_err(|error| Failure::io("rename", path, &error))?;
        *self = Open::at(path, self.most)?;
        Ok(())
    }
}

/// The path of the next old log: one number above the highest.
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
