//! Input that a signal ends: a file or standard input whose reads return "end of input" once the
//! work must stop.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::time::Duration;

use fm_cli::interrupt::asked;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Interval at which a waiting read checks for a signal.
const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A file or standard input; ends when the work must stop, even while a read waits.
pub struct Input(File);

impl Input {
    /// A file, a pipe or a device.
    pub fn file(file: File) -> Input {
        Input(file)
    }

    /// Standard input.
    pub fn stdin() -> io::Result<Input> {
        Ok(Input(File::from(io::stdin().as_fd().try_clone_to_owned()?)))
    }

    /// Returns whether a read would return within this time.
    pub fn is_ready(&self, within: Duration) -> bool {
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
