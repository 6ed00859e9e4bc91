//! Programs of the system, loop devices, and taking down what is mounted on a disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::UnmountFlags;

/// Words for what failed.
pub type Result<T> = std::result::Result<T, String>;

pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|p| p.is_file())
}

/// Runs a program to its end; what it printed.
///
/// # Errors
/// What it said when it failed.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let path = find_program(program).ok_or_else(|| format!("no program {program}"))?;
    let output = Command::new(path).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Unmounts what is mounted beside a disk's folder, and detaches the loop device of its file. In
/// the order of things nothing is: only a process that was killed leaves it to its disk.
pub(crate) fn take_down(disk_folder: &Path, file_name: &str) {
    let Some(scratch) = disk_folder.parent() else { return };
    // Processes that use it are ending as well.
    for tries_left in (0..100).rev() {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let paths = mounts.lines().filter_map(|l| l.split(' ').nth(1)).map(Path::new);
        let left: Vec<&Path> = paths.filter(|p| p.starts_with(scratch) && *p != disk_folder).collect();
        if left.is_empty() {
            break;
        }
        let flags = if tries_left == 0 { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        let unmounted = left.iter().filter(|p| rustix::mount::unmount(**p, flags).is_ok()).count();
        if unmounted < left.len() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    for (device, file) in loop_devices() {
        if file.rsplit('/').next() == Some(file_name) {
            let _ = run("losetup", &["-d", &device]);
        }
    }
}

/// Attached loop devices and their files.
pub(crate) fn loop_devices() -> Vec<(String, String)> {
    let Ok(blocks) = std::fs::read_dir("/sys/block") else { return Vec::new() };
    let names = blocks.filter_map(|b| b.ok()?.file_name().into_string().ok());
    let file = |name: &String| std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok();
    names.filter_map(|n| file(&n).map(|f| (format!("/dev/{n}"), f.trim().to_owned()))).collect()
}
