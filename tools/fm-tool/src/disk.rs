//! The file system under a path, by the names that people know it by.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where the file system of a path is mounted, and of what kind it is: `/data (ext4)`. The path itself where the system does not say.
pub fn file_system(path: &Path) -> String {
    named(path).unwrap_or_else(|| path.display().to_string())
}

fn named(path: &Path) -> Option<String> {
    let there = path.ancestors().find_map(|there| fs::metadata(there).ok())?;
    let device = there.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let device = format!("{major}:{minor}");
    // The last of those mounted in one place is seen.
    mounts.lines().rev().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ');
        let is_it = fields.nth(2)? == device;
        let place = fields.nth(1)?.replace("\\040", " ");
        is_it.then(|| format!("{place} ({})", kind.split(' ').next().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_named_by_place_and_kind() {
        assert!(
            file_system(Path::new("/proc/self/absent")).ends_with("(proc)"),
            "{}",
            file_system(Path::new("/proc/self/absent"))
        );
        assert!(!file_system(Path::new("absent")).is_empty());
    }
}
