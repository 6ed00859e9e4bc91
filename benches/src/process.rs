//! Kernel statistics of this process and its threads: anonymous memory, device reads and writes,
//! time on a core and time waiting for one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Anonymous resident memory in bytes.
///
/// # Errors
/// If /proc is not mounted.
pub fn anonymous_bytes() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().split(' ').next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("/proc/self/status has no RssAnon"))
}

/// Peak resident memory in bytes, mapped files and code included.
///
/// # Errors
/// If /proc is not mounted.
pub fn peak_resident_bytes() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("/proc/self/status has no VmHWM"))
}

/// Bytes that this process alone made the device read, through mapped pages too.
///
/// # Errors
/// If the kernel does not count them.
pub fn device_read_bytes() -> io::Result<u64> {
    io_counter("read_bytes: ")
}

/// Bytes of pages that this process alone gave the kernel to write. A page that is changed again
/// before it is written counts once, so this comes close to what reaches the device, the file
/// system's own journal aside.
///
/// # Errors
/// If the kernel does not count them.
pub fn device_written_bytes() -> io::Result<u64> {
    io_counter("write_bytes: ")
}

fn io_counter(name: &str) -> io::Result<u64> {
    let counters = fs::read_to_string("/proc/self/io")?;
    let bytes = counters.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    bytes.ok_or_else(|| io::Error::other(format!("/proc/self/io has no {name}")))
}

/// Watches [`anonymous_bytes`] from a separate thread, ten times a second.
#[derive(Debug)]
pub struct MemoryWatch {
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Starts watching.
    ///
    /// # Errors
    /// If the figure cannot be read.
    pub fn start() -> io::Result<MemoryWatch> {
        let peak = Arc::new(AtomicU64::new(anonymous_bytes()?));
        let stop = Arc::new(AtomicBool::new(false));
        let (peak_too, stop_too) = (Arc::clone(&peak), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stop_too.load(Ordering::Relaxed) {
                peak_too.fetch_max(anonymous_bytes().unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Ok(MemoryWatch { peak, stop, thread: Some(thread) })
    }

    /// The highest figure so far, in bytes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One thread's account of its time. Made and used by the thread that it describes.
#[derive(Debug)]
pub struct ThreadTimes {
    schedstat: File,
}

/// A reading of [`ThreadTimes`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// On a core, in ns.
    pub running_ns: u64,
    /// Ready to run but without a core, in ns.
    pub waiting_ns: u64,
}

impl ThreadTimes {
    /// For the calling thread.
    ///
    /// # Errors
    /// If the kernel keeps no scheduler statistics.
    pub fn of_this_thread() -> io::Result<ThreadTimes> {
        Ok(ThreadTimes { schedstat: File::open("/proc/thread-self/schedstat")? })
    }

    /// The account now. Costs about a microsecond.
    ///
    /// # Errors
    /// If the kernel's file cannot be read.
    pub fn read(&self) -> io::Result<Times> {
        let mut line = [0; 64];
        let len = self.schedstat.read_at(&mut line, 0)?;
        let waiting = std::str::from_utf8(&line[..len]).ok().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        // The file's own figure of running time lags by up to a tick; the clock's does not.
        let running = clock_gettime(ClockId::ThreadCPUTime);
        Ok(Times {
            running_ns: running.tv_sec as u64 * 1_000_000_000 + running.tv_nsec as u64,
            waiting_ns: waiting.ok_or_else(|| io::Error::other("schedstat: not three numbers"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_counted() {
        // Other tests of this process take and free memory meanwhile, so only this block is sure
        // to be there.
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let counted = anonymous_bytes().unwrap();
        assert!(counted >= block.len() as u64, "{counted}");
    }

    #[test]
    fn a_busy_threads_account_grows_and_never_goes_back() {
        let times = ThreadTimes::of_this_thread().unwrap();
        let before = times.read().unwrap();
        // Ends: whatever else the machine does, a thread that spins is given a core now and then.
        let mut after = before;
        while after.running_ns < before.running_ns + 5_000_000 {
            let next = times.read().unwrap();
            assert!(next.running_ns >= after.running_ns && next.waiting_ns >= after.waiting_ns, "{next:?} {after:?}");
            after = next;
        }
    }
}
