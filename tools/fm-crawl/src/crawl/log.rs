//! The crawl log: a JSON line for each visit, and for the beginning and end of a run.
//!
//! Lines are buffered and written at each commit, or when the buffer is full. A killed process may
//! leave half a line, which the next run ends, and lines of uncommitted visits: those pages are
//! fetched again and get a second line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fm_cli::Failure;
use fm_cli::times::now_ms;
use serde_json::{Value, json};

use super::visit::{Told, Visit};

/// A log, or no log.
pub struct Log(Option<(BufWriter<File>, PathBuf)>);

impl Log {
    /// Appends to the log at `path`, or creates it; no log without a path.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: Option<&Path>) -> Result<Log, Failure> {
        let Some(path) = path else { return Ok(Log(None)) };
        let file = fm_cli::sink::open(path, OpenOptions::new().create(true).append(true));
        let mut file = file.map_err(|error| Failure::io("open", path, &error))?;
        let ended =
            ends_in_a_line(&file, path).and_then(|is_ended| if is_ended { Ok(()) } else { file.write_all(b"\n") });
        ended.map_err(|error| Failure::io("write", path, &error))?;
        Ok(Log(Some((BufWriter::new(file), path.to_owned()))))
    }

    /// Logs a visit.
    ///
    /// # Errors
    /// The system's.
    pub fn visit(&mut self, visit: &Visit, new_links: u32) -> Result<(), Failure> {
        match (&self.0, &visit.told) {
            (None, _) | (_, Told::Later) => Ok(()),
            _ => self.write(&Log::line(visit, new_links)),
        }
    }

    /// The line of a visit.
    pub fn line(visit: &Visit, new_links: u32) -> Value {
        let mut line = json!({
            "time_ms": now_ms(),
            "event": if matches!(visit.told, Told::Fetched(_)) { "fetched" } else { "failed" },
            "url": visit.url,
            "depth": visit.depth,
            "took_ms": visit.took.as_millis() as u64,
        });
        let mut set = |name: &str, value: Value| line[name] = value;
        if let Some(status) = visit.status {
            set("status", status.into());
            set("wire_bytes", visit.wire_bytes.into());
            set("body_bytes", visit.body_bytes.into());
        }
        match &visit.told {
            Told::Fetched(fetched) => {
                set("links", fetched.links.len().into());
                set("new_links", new_links.into());
                set("out_of_scope", visit.out_of_scope.into());
                if visit.hints > 0 {
                    set("hints", visit.hints.into());
                }
                if let Some(changed) = fetched.changed {
                    set("changed", changed.into());
                }
            }
            Told::Failed(failure) => {
                set("reason", failure.reason.name().into());
                set("detail", failure.detail.as_str().into());
            }
            Told::Later => {}
        }
        if let Some(holder) = &visit.duplicate_of {
            set("duplicate_of", holder.as_str().into());
        }
        if !visit.met.is_empty() {
            set("limits", visit.met.iter().map(|(reason, _)| reason.name()).collect());
        }
        line
    }

    /// Logs another event.
    ///
    /// # Errors
    /// The system's.
    pub fn event(&mut self, event: &str, what: Value) -> Result<(), Failure> {
        self.write(&json!({ "time_ms": now_ms(), "event": event, "what": what }))
    }

    fn write(&mut self, line: &Value) -> Result<(), Failure> {
        let Some((file, path)) = &mut self.0 else { return Ok(()) };
        writeln!(file, "{line}").map_err(|error| Failure::io("write", path, &error))
    }

    /// Writes out the buffer.
    ///
    /// # Errors
    /// The system's.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let Some((file, path)) = &mut self.0 else { return Ok(()) };
        file.flush().map_err(|error| Failure::io("write", path, &error))
    }
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
