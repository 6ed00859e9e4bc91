//! Counters of the block device, and dropping the kernel's caches.
//!
//! The device counts what any process does, journal and metadata included: figures are worth
//! something on a quiet machine only.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The kernel counts in these units, whatever the device's sector is.
const SECTOR_BYTES: u64 = 512;

/// The block device under a directory.
#[derive(Debug, Clone)]
pub struct Device {
    stat: PathBuf,
    under: PathBuf,
}

/// Requests completed and bytes moved: since boot, or between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Completed read requests, after merging.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Completed write requests, after merging.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Device {
    /// The device that holds `path`, which exists.
    ///
    /// # Errors
    /// If the file system has no block device of its own with counters (overlay, network, some
    /// btrfs).
    pub fn of(path: &Path) -> io::Result<Device> {
        let dev = fs::metadata(path)?.dev();
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let by_number = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        let stat = if by_number.exists() { Some(by_number) } else { by_mount(&format!("{major}:{minor}"))? };
        let Some(stat) = stat else {
            let what =
                format!("{}: no block device with counters under it; choose a directory on a disk", path.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        };
        Ok(Device { stat, under: path.to_owned() })
    }

    /// The device on which `path`, which need not exist, lies or would be created.
    ///
    /// # Errors
    /// As [`Device::of`], and if there is no directory to create it in.
    pub fn under(path: &Path) -> io::Result<Device> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Device::of(parent).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", parent.display())))
    }

    /// The counters now. Writes that the kernel still holds back are not in them: see
    /// [`Device::settle`].
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn traffic(&self) -> io::Result<Traffic> {
        parse(&fs::read_to_string(&self.stat)?)
            .ok_or_else(|| io::Error::other(format!("{}: not a line of counters", self.stat.display())))
    }

    /// Writes out everything that the file system holds back, so that what comes next is counted
    /// alone.
    ///
    /// # Errors
    /// If the file system cannot be opened or synced.
    pub fn settle(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.under)?)?)
    }
}

impl Traffic {
    /// Traffic since `before`.
    #[must_use]
    pub fn since(self, before: Traffic) -> Traffic {
        Traffic {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

/// A line of /sys/block/*/stat: reads, merged, sectors, ms, writes, merged, sectors, ...
fn parse(line: &str) -> Option<Traffic> {
    let fields: Vec<u64> = line.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    Some(Traffic {
        reads: *fields.first()?,
        read_bytes: fields.get(2)? * SECTOR_BYTES,
        writes: *fields.get(4)?,
        written_bytes: fields.get(6)? * SECTOR_BYTES,
    })
}

/// A file system with a device number of its own (btrfs) names its disk in the table of mounts.
fn by_mount(dev: &str) -> io::Result<Option<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let source = mounts.lines().find(|line| line.split(' ').nth(2) == Some(dev)).and_then(|line| {
        let (_, after) = line.split_once(" - ")?;
        after.split(' ').nth(1)
    });
    let Some(name) = source.and_then(|source| source.strip_prefix("/dev/")) else { return Ok(None) };
    let stat = PathBuf::from(format!("/sys/class/block/{name}/stat"));
    Ok(stat.exists().then_some(stat))
}

/// Empties the kernel's caches of files, directories and inodes. Pages that some process has
/// mapped stay: close the store first.
///
/// # Errors
/// With a clear message if not run by root.
pub fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("dropping the page cache needs root and /proc/sys/vm/drop_caches: {error}"),
        )
    })
}

/// Reads a file from end to end, so that it is in the page cache. Returns its size in bytes.
///
/// # Errors
/// If it cannot be read.
pub fn read_into_cache(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(total),
            read => total += read as u64,
        }
    }
}

/// Bytes of all files in a directory: as long as they say they are, and as the file system
/// allocated for them.
///
/// # Errors
/// If the directory cannot be listed.
pub fn directory_bytes(dir: &Path) -> io::Result<(u64, u64)> {
    let (mut apparent, mut allocated) = (0, 0);
    for entry in fs::read_dir(dir)? {
        let metadata = entry?.metadata()?;
        apparent += metadata.len();
        allocated += metadata.blocks() * SECTOR_BYTES;
    }
    Ok((apparent, allocated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_their_columns() {
        let line = "    9505     4774 11334410    12099     5877    10360  4863688     3226        0     6300\n";
        let traffic = parse(line).unwrap();
        assert_eq!(
            traffic,
            Traffic { reads: 9505, read_bytes: 11_334_410 * 512, writes: 5877, written_bytes: 4_863_688 * 512 }
        );
        assert_eq!(parse("1 2 3"), None);
    }

    #[test]
    fn a_file_to_be_made_lies_on_the_device_of_its_directory() {
        let here = Device::of(Path::new(".")).map(|device| device.stat).ok();
        assert_eq!(Device::under(Path::new("new.dat")).map(|device| device.stat).ok(), here);
        assert!(Device::under(Path::new("/nonexistent/new.dat")).is_err());
    }

    #[test]
    fn a_directory_without_a_device_is_a_clear_error() {
        if let Err(error) = Device::of(Path::new("/proc")) {
            assert!(error.to_string().contains("no block device"), "{error}");
        }
    }
}
