//! The first line of a file of results: machine, date, commit, command.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The line of kind `machine` for a run in `dir`.
pub fn line(dir: &Path) -> Value {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "kind": "machine",
        "date": utc(since.as_secs()),
        "cpu": field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory_bytes": memory_bytes(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "file_system": file_system(dir).unwrap_or_default(),
        "commit": commit().unwrap_or_default(),
        "command": command(std::env::args().skip(1)),
    })
}

/// Bytes of memory of the machine, 0 if the kernel does not say.
pub fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = field(&text, "MemTotal").and_then(|v| v.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The arguments; of a path only the last name, so that results name no directories of a machine.
fn command(args: impl Iterator<Item = String>) -> String {
    let short = |arg: String| match arg.rsplit_once('/') {
        Some((_, name)) => name.to_owned(),
        None => arg,
    };
    std::iter::once("compare".to_owned()).chain(args.map(short)).collect::<Vec<_>>().join(" ")
}

fn commit() -> Option<String> {
    let git = Command::new("git").args(["rev-parse", "HEAD"]).stderr(Stdio::null()).output().ok()?;
    git.status.success().then(|| String::from_utf8_lossy(&git.stdout).trim().to_owned())
}

/// The type of the file system that a directory is on, by its device in the table of mounts.
fn file_system(dir: &Path) -> Option<String> {
    let dev = fs::metadata(dir).ok()?.dev();
    let dev = format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&dev))?;
    Some(line.split_once(" - ")?.1.split(' ').next()?.to_owned())
}

/// Seconds since 1970 as a date and time of UTC (the calendar by Howard Hinnant,
/// "chrono-compatible low-level date algorithms").
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_291_200), "2026-11-21T20:00:00Z");
    }

    #[test]
    fn the_command_names_no_directories() {
        let args = ["run", "--dir", "/somewhere/private/stores", "--pages", "10"].map(String::from);
        assert_eq!(command(args.into_iter()), "compare run --dir stores --pages 10");
    }
}
