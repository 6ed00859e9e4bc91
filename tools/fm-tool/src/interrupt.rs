//! Ctrl-C and SIGTERM during long work: the first is a request, the second an order.
//!
//! A verb that may take long calls [`listen`] and asks [`asked`] at every place where it can stop: it then closes what it
//! has open, says what was done and how to go on, and ends with [`outcome`], whose exit code is 128 and the number of the
//! signal. A second signal ends the process at once; a store bears that at any moment. Verbs that do not listen end with
//! the first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::lines::Source;
use crate::outcome::Outcome;
use crate::words;

/// What the signal handlers write to.
struct Signals {
    asked: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

static SIGNALS: OnceLock<Signals> = OnceLock::new();

/// How often a reader that waits for input looks up.
const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// From now on a first signal is only noted. Where the system refuses that, it goes on ending the process.
pub fn listen() {
    SIGNALS.get_or_init(|| {
        let signals = Signals { asked: Arc::new(AtomicBool::new(false)), number: Arc::new(AtomicUsize::new(0)) };
        for signal in [SIGINT, SIGTERM] {
            // In this order: a signal that finds the request made already ends the process.
            let code = 128 + signal;
            let _ = signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&signals.asked));
            let number = usize::try_from(signal).unwrap_or(0);
            let _ = signal_hook::flag::register_usize(signal, Arc::clone(&signals.number), number);
            let _ = signal_hook::flag::register(signal, Arc::clone(&signals.asked));
        }
        signals
    });
}

/// Whether the work is to stop.
pub fn asked() -> bool {
    SIGNALS.get().is_some_and(|signals| signals.asked.load(Ordering::Relaxed))
}

/// The flag that a signal sets, for work inside the crates. Begins to listen.
pub fn flag() -> Arc<AtomicBool> {
    listen();
    SIGNALS.get().map_or_else(Arc::default, |signals| Arc::clone(&signals.asked))
}

/// How an interrupted verb ends; says what was done, whether quiet or not.
pub fn outcome(done: impl std::fmt::Display) -> Outcome {
    words::complain(format_args!("interrupted: {done}"));
    let number = SIGNALS.get().map_or(0, |signals| signals.number.load(Ordering::Relaxed));
    Outcome::Interrupted(u8::try_from(number).unwrap_or(0))
}

/// Input that ends when the work is to stop, even while it waits for more.
pub struct Input(File);

impl Input {
    /// Reads a file, or whatever else opens like one.
    pub fn file(file: File) -> Input {
        Input(file)
    }

    /// Reads standard input.
    pub fn stdin() -> io::Result<Input> {
        Ok(Input(File::from(io::stdin().as_fd().try_clone_to_owned()?)))
    }
}

impl Source for Input {
    fn is_ready(&mut self, within: Duration) -> bool {
        let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
        !asked() && matches!(poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&within)), Ok(ready) if ready > 0)
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !asked() {
            let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&LOOK_UP));
            if ready != Ok(0) && ready != Err(rustix::io::Errno::INTR) {
                return self.0.read(out);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn input_is_read_to_its_end_from_files_and_pipes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut bytes = Vec::new();
        Input::file(file).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 100_000]);
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"abc").unwrap();
        drop(writer);
        bytes.clear();
        let pipe = std::os::fd::OwnedFd::from(reader);
        Input::file(File::from(pipe)).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"abc");
    }
}
