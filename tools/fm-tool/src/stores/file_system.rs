//! File system of a path: mount point and kind.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Mount point and kind of a path's file system: `/data (ext4)`. The path itself if the system
/// does not say.
pub fn of(path: &Path) -> String {
    named(path).unwrap_or_else(|| path.display().to_string())
}

fn named(path: &Path) -> Option<String> {
    let there = path.ancestors().find_map(|there| fs::metadata(there).ok())?;
    let device = there.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let device = format!("{major}:{minor}");
    // If several file systems are mounted at one point, the last is visible.
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
        assert!(of(Path::new("/proc/self/absent")).ends_with("(proc)"), "{}", of(Path::new("/proc/self/absent")));
        assert!(!of(Path::new("absent")).is_empty());
    }
}
