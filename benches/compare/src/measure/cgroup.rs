//! An existing memory cgroup, version 1 or 2: sets its limit and moves a process into it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use filemap_benches::drive::Outcome;

/// A group of processes that share a limit on memory, page cache included.
#[derive(Debug)]
pub struct Cgroup {
    dir: PathBuf,
    limit: &'static str,
}

impl Cgroup {
    /// The group of that name.
    ///
    /// # Errors
    /// If no memory controller has it.
    pub fn find(name: &str) -> Outcome<Cgroup> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let found = mount_points(&mounts).into_iter().find_map(|mount| Cgroup::at(&mount.join(name)));
        found.ok_or_else(|| format!("no memory cgroup `{name}`: make it first (mkdir below the controller)").into())
    }

    fn at(dir: &Path) -> Option<Cgroup> {
        let limit = ["memory.max", "memory.limit_in_bytes"].into_iter().find(|file| dir.join(file).exists())?;
        Some(Cgroup { dir: dir.to_owned(), limit })
    }

    /// Limits the group to this number of bytes.
    pub fn limit(&self, bytes: u64) -> Outcome<()> {
        self.write(self.limit, &bytes.to_string())
    }

    /// Takes the limit away.
    pub fn unlimit(&self) -> Outcome<()> {
        self.write(self.limit, if self.limit == "memory.max" { "max" } else { "-1" })
    }

    /// Moves the calling process into the group.
    pub fn enter(&self) -> Outcome<()> {
        self.write("cgroup.procs", &std::process::id().to_string())
    }

    fn write(&self, file: &str, text: &str) -> Outcome<()> {
        let path = self.dir.join(file);
        let told = |error: io::Error| format!("{}: cannot write {text}: {error}", path.display());
        Ok(fs::write(&path, text).map_err(told)?)
    }
}

/// Mount points of the memory controller of version 1 and of the hierarchy of version 2.
fn mount_points(mountinfo: &str) -> Vec<PathBuf> {
    let line = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let kind = after.next()?;
        let options = after.nth(1)?;
        let memory = kind == "cgroup" && options.split(',').any(|option| option == "memory");
        (memory || kind == "cgroup2").then(|| before.split(' ').nth(4).map(PathBuf::from))?
    };
    mountinfo.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_of_both_versions_are_found() {
        let text = "30 25 0:26 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu\n\
                    31 25 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n\
                    32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n\
                    22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
        let expected = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        assert_eq!(mount_points(text), expected);
    }

    #[test]
    fn a_group_that_is_not_there_says_what_to_do() {
        let error = Cgroup::find("no/such/group").unwrap_err().to_string();
        assert!(error.contains("mkdir"), "{error}");
    }

    #[test]
    fn the_limit_goes_into_the_file_of_its_version() {
        for (file, none) in [("memory.max", "max"), ("memory.limit_in_bytes", "-1")] {
            let dir = std::env::temp_dir().join(format!("compare-cgroup-{}-{file}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            assert!(Cgroup::at(&dir).is_none());
            fs::write(dir.join(file), "").unwrap();
            let group = Cgroup::at(&dir).unwrap();
            group.limit(4096).unwrap();
            assert_eq!(fs::read_to_string(dir.join(file)).unwrap(), "4096");
            group.unlimit().unwrap();
            assert_eq!(fs::read_to_string(dir.join(file)).unwrap(), none);
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}
