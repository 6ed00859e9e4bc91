//! Destination of data: standard output or a file, as lines, bytes or JSON Lines.
//!
//! A page's data is written unchanged. Only text for people ([`Output::shown`]) is made safe when
//! the output is a terminal.
//!
//! Invariants: only data goes here, messages go to [`crate::words`]; if the reader closes the
//! pipe, the program ends quietly ([`Failure::PipeClosed`]); `finish` reports a failure of the
//! last buffered write.

use std::fmt::Display;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::flags::Flags;
use crate::outcome::{Failure, Outcome};
use crate::plain::plain;
use crate::{interrupt, sink, words};

/// Size of the buffer, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A sink of data.
pub struct Output {
    sink: BufWriter<Box<dyn Write>>,
    /// The temporary file and the file that it replaces once it is whole.
    whole: Option<(NamedTempFile, PathBuf)>,
    name: String,
    flags: Flags,
    is_terminal: bool,
}

impl Output {
    /// Standard output.
    pub fn stdout(flags: Flags) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { is_terminal, ..Self::to(Box::new(io::stdout()), "standard output".to_owned(), flags) }
    }

    /// A file; `-` is standard output. [`Output::finish`] replaces an existing file; without it
    /// that file stays.
    pub fn file(path: &Path, flags: Flags) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::stdout(flags));
        }
        let failed = |error: io::Error| Failure::io("create", path, &error);
        // A folder above may be a link into a store.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = sink::folder_of(&target);
        sink::refuse_store(folder)?;
        sink::refuse_link(path)?;
        let name = path.display().to_string();
        let there = fs::metadata(&target).ok();
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            // A device or a pipe; for a folder the system's error says so.
            let file = sink::open(&target, OpenOptions::new().write(true)).map_err(failed)?;
            return Ok(Self::to(Box::new(file), name, flags));
        }
        let permissions = there.map_or_else(|| Permissions::from_mode(0o666), |there| there.permissions());
        let made = tempfile::Builder::new().prefix(".fm-").permissions(permissions).tempfile_in(folder);
        let made = made.map_err(failed)?;
        let file = made.as_file().try_clone().map_err(failed)?;
        Ok(Self { whole: Some((made, target)), ..Self::to(Box::new(file), name, flags) })
    }

    /// The file if one is named, else standard output.
    pub fn file_or_stdout(path: Option<&Path>, flags: Flags) -> Result<Self, Failure> {
        path.map_or_else(|| Ok(Self::stdout(flags)), |path| Self::file(path, flags))
    }

    fn to(sink: Box<dyn Write>, name: String, flags: Flags) -> Self {
        Self { sink: BufWriter::with_capacity(BUFFER_BYTES, sink), whole: None, name, flags, is_terminal: false }
    }

    /// Returns whether JSON Lines were asked for.
    pub fn is_json(&self) -> bool {
        self.flags.json
    }

    /// Returns whether the output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.sink.write_all(bytes).map_err(|error| self.failure(&error))
    }

    /// Writes a line.
    pub fn line(&mut self, line: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.bytes(line.as_ref())?;
        self.bytes(b"\n")
    }

    /// Writes text from outside for people: made safe if it goes to a terminal.
    pub fn shown(&mut self, text: &[u8]) -> Result<(), Failure> {
        if self.is_terminal { self.bytes(plain(text).as_bytes()) } else { self.bytes(text) }
    }

    /// Writes a line that ends with text from outside.
    pub fn row(&mut self, before: impl AsRef<[u8]>, shown: &[u8]) -> Result<(), Failure> {
        self.bytes(before.as_ref())?;
        self.shown(shown)?;
        self.bytes(b"\n")
    }

    /// Writes the head of an HTTP message; on a terminal line by line and made safe.
    pub fn http_head(&mut self, head: &[u8]) -> Result<(), Failure> {
        if !self.is_terminal {
            return self.bytes(head);
        }
        let lines = head.split_inclusive(|byte| *byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\r\n").unwrap_or(line)).try_for_each(|line| self.line(plain(line)))
    }

    /// Writes a JSON line.
    pub fn json(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(value.to_string())
    }

    /// Reports a result: as a JSON line, or in words unless `--quiet` was given.
    pub fn report(&mut self, line: &Value, words: impl Display) -> Result<(), Failure> {
        if self.flags.json {
            return self.json(line);
        }
        if self.flags.says() {
            self.flush()?;
            words::say(words);
        }
        Ok(())
    }

    /// Copies a reader in bounded memory, to its end or until interrupted; returns the bytes
    /// copied.
    pub fn copy(&mut self, source: &mut impl io::Read) -> Result<u64, Failure> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut copied = 0;
        loop {
            if interrupt::asked() {
                return Ok(copied);
            }
            let length = match source.read(&mut buffer) {
                Ok(0) => return Ok(copied),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::from(error)),
            };
            self.bytes(&buffer[..length])?;
            copied += length as u64;
        }
    }

    /// Flushes the buffer, so that a message printed next comes after it.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.sink.flush().map_err(|error| self.failure(&error))
    }

    /// Flushes the buffer and puts a complete file in its place.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        let Some((made, target)) = self.whole.take() else { return Ok(()) };
        made.persist(&target).map(drop).map_err(|error| Failure::io("create", &target, &error.error))
    }

    /// As [`Output::finish`], at the end of a verb. A closed pipe hides no damage, no work left
    /// undone and no interruption.
    pub fn end(self, outcome: Outcome) -> Result<Outcome, Failure> {
        match (self.finish(), outcome) {
            (Err(Failure::PipeClosed), Outcome::Damaged | Outcome::Incomplete | Outcome::Interrupted(_)) => Ok(outcome),
            (finished, _) => finished.map(|()| outcome),
        }
    }

    fn failure(&self, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::PipeClosed;
        }
        Failure::Io(format!("cannot write to {}: {error}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Rc<RefCell<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(is_terminal: bool, write: impl FnOnce(&mut Output) -> Result<(), Failure>) -> Vec<u8> {
        let sink = Sink::default();
        let mut out = Output { is_terminal, ..Output::to(Box::new(sink.clone()), "test".to_owned(), Flags::default()) };
        write(&mut out).unwrap();
        out.finish().unwrap();
        sink.0.take()
    }

    #[test]
    fn a_terminal_is_given_no_orders_and_a_pipe_every_byte() {
        let url = b"http://a/\x1b]0;title\x07\xff";
        assert_eq!(written(false, |out| out.shown(url)), url);
        assert_eq!(written(true, |out| out.shown(url)), b"http://a/\\x1b]0;title\\x07\\xff");
        let head = b"HTTP/1.1 200 OK\r\nA: \x1b[2J\rB\r\n\r\n";
        assert_eq!(written(false, |out| out.http_head(head)), head);
        assert_eq!(written(true, |out| out.http_head(head)), b"HTTP/1.1 200 OK\nA: \\x1b[2J\\x0dB\n\n");
    }
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_hides_no_damage() {
        let ended = |outcome| {
            let mut out = Output::to(Box::new(Closed), "test".to_owned(), Flags::default());
            out.line("a page").unwrap();
            out.end(outcome)
        };
        assert!(matches!(ended(Outcome::Done), Err(Failure::PipeClosed)));
        for outcome in [Outcome::Damaged, Outcome::Incomplete, Outcome::Interrupted(2)] {
            assert!(matches!(ended(outcome), Ok(same) if same == outcome));
        }
    }
}
