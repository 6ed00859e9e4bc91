//! Loop devices, file systems, mounts. Each undoes itself when it is dropped; the next run sweeps
//! what a killed one left.
//!
//! Names carry the process id, and mounts are made in a mount namespace of the process's own
//! ([`enter_private_mounts`]): runs do not see each other, and the mounts of a process that dies
//! go with it.

use std::ffi::CString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mount::{MountFlags, UnmountFlags};

use crate::disk::Disk;
pub use crate::mounts::{Result, run};
use crate::mounts::{find_program, loop_devices};

/// The start of every name that is given out here.
const PREFIX: &str = "filemap-kernel";
/// Set in the process that has its own mounts.
const PRIVATE: &str = "FILEMAP_KERNEL_PRIVATE_MOUNTS";

/// A file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum FileSystem {
    Tmpfs,
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    /// As `mount` knows it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Tmpfs => "tmpfs",
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// The size of a small device for it.
    pub fn device_bytes(self) -> u64 {
        match self {
            FileSystem::Tmpfs => 64 << 20,
            FileSystem::Ext4 => 96 << 20,
            FileSystem::Xfs => 320 << 20,
            FileSystem::Btrfs => 256 << 20,
        }
    }

    /// The program that makes it, and its package in Debian.
    fn maker(self) -> Option<(&'static str, &'static str)> {
        match self {
            FileSystem::Tmpfs => None,
            FileSystem::Ext4 => Some(("mkfs.ext4", "e2fsprogs")),
            FileSystem::Xfs => Some(("mkfs.xfs", "xfsprogs")),
            FileSystem::Btrfs => Some(("mkfs.btrfs", "btrfs-progs")),
        }
    }

    /// Returns whether the kernel has it, as a module perhaps.
    fn is_known(self) -> bool {
        let listed = || {
            let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
            known.lines().any(|line| line.split_whitespace().last() == Some(self.name()))
        };
        listed() || run("modprobe", &[self.name()]).is_ok_and(|_| listed())
    }

    fn make(self, device: &Path) -> Result<()> {
        let device = device.to_str().ok_or("a device name that is not UTF-8")?;
        let ext4 = ["-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", device];
        match self {
            FileSystem::Tmpfs => Ok(()),
            FileSystem::Ext4 => run("mkfs.ext4", &ext4).map(drop),
            FileSystem::Xfs => run("mkfs.xfs", &["-q", "-f", "-K", device]).map(drop),
            FileSystem::Btrfs => run("mkfs.btrfs", &["-q", "-f", "-K", device]).map(drop),
        }
    }
}

/// Returns why these file systems cannot be tried here; `None` if they can.
pub fn missing(systems: &[FileSystem]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root".into());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(e) = std::fs::File::open(device) {
            return Some(format!("{device}: {e}"));
        }
    }
    let makers = systems.iter().filter_map(|s| s.maker());
    let mut programs = makers.chain([("losetup", "mount"), ("unshare", "util-linux")]);
    if let Some((name, package)) = programs.find(|(name, _)| find_program(name).is_none()) {
        return Some(format!("no program {name}; Debian has it in the package {package}"));
    }
    // Root of a container may have all of these, and yet not the right.
    let tries = [run("unshare", &["--mount", "--propagation", "private", "true"]), run("losetup", &["--find"])];
    if let Some(why) = tries.into_iter().find_map(Result::err) {
        return Some(why);
    }
    systems.iter().find(|s| !s.is_known()).map(|s| format!("the kernel has no {}", s.name()))
}

/// Continues in a process with its own mounts: it runs this program with the same arguments
/// again, in a new namespace.
///
/// # Errors
/// When that cannot be done; otherwise this returns only in the new process.
pub fn enter_private_mounts() -> Result<()> {
    if std::env::var_os(PRIVATE).is_some() {
        sweep();
        return Ok(());
    }
    let unshare = find_program("unshare").ok_or("no program unshare")?;
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(unshare);
    command.args(["--mount", "--propagation", "private"]).arg(own).args(std::env::args_os().skip(1));
    Err(format!("unshare: {}", command.env(PRIVATE, "1").exec()))
}

/// Detaches loop devices and removes folders that runs left behind which were killed. Their mounts
/// went with them.
fn sweep() {
    for (device, file) in loop_devices() {
        if is_left_behind(file.rsplit('/').next().unwrap_or_default()) {
            let _ = run("losetup", &["-d", &device]);
        }
    }
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        if entry.path().is_dir() && is_left_behind(&entry.file_name().to_string_lossy()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether a name is one of [`unique_name`], of a process that has ended.
fn is_left_behind(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('-')?.split('-').next());
    pid.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
}

/// A name that nobody else uses now.
pub fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{PREFIX}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A folder for one run.
///
/// # Errors
/// When it cannot be made.
pub fn scratch() -> Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(&unique_name()).tempdir().map_err(|e| format!("a folder for the run: {e}"))
}

/// A new folder.
///
/// # Errors
/// When it cannot be made.
pub fn folder(path: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// A loop device on a file.
pub struct Loop {
    device: PathBuf,
}

impl Loop {
    /// Attaches a free one.
    ///
    /// # Errors
    /// What `losetup` says.
    pub fn new(file: &Path) -> Result<Loop> {
        let device = run("losetup", &["--find", "--show", &file.to_string_lossy()])?;
        let name = device.trim_start_matches("/dev/").to_owned();
        // A request then holds blocks of one file only, and its failure is that file's.
        let _ = std::fs::write(format!("/sys/block/{name}/queue/nomerges"), "2");
        Ok(Loop { device: PathBuf::from(device) })
    }

    /// Its node.
    pub fn device(&self) -> &Path {
        &self.device
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["-d", &self.device.to_string_lossy()]);
    }
}

/// A mounted file system.
pub struct Mounted {
    path: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    /// Mounts a device (for tmpfs any name) on an existing folder.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(system: FileSystem, device: &Path, path: &Path, options: &str) -> Result<Mounted> {
        let data = CString::new(options).map_err(|e| e.to_string())?;
        rustix::mount::mount(device, path, system.name(), MountFlags::NOATIME, data.as_c_str())
            .map_err(|e| format!("mount of {} on {}: {e}", device.display(), path.display()))?;
        Ok(Mounted { path: path.to_owned(), is_mounted: true })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends it.
    ///
    /// # Errors
    /// What the system says, for instance that a file is still open.
    pub fn unmount(mut self) -> Result<()> {
        self.is_mounted = false;
        let result = rustix::mount::unmount(&self.path, UnmountFlags::empty());
        if result.is_err() {
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        }
        result.map_err(|e| format!("unmount of {}: {e}", self.path.display()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        }
    }
}

/// A new disk with a loop device on it and a place to mount that.
pub struct Machine {
    system: FileSystem,
    // Dropped in this order: the device before its disk, the disk before the folder in which it
    // appears.
    device: Loop,
    disk: Disk,
    mount_point: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Machine {
    /// Puts it together; the disk is all zeros; `program` is this package's.
    ///
    /// # Errors
    /// What a part says.
    pub fn new(program: &Path, system: FileSystem) -> Result<Machine> {
        let scratch = scratch()?;
        let mount_point = folder(scratch.path().join("mounted"))?;
        let fuse = folder(scratch.path().join("disk"))?;
        let disk = Disk::new(program, &fuse, &unique_name(), system.device_bytes())?;
        let device = Loop::new(disk.file())?;
        Ok(Machine { system, device, disk, mount_point, _scratch: scratch })
    }

    /// Makes the file system anew.
    ///
    /// # Errors
    /// What its program says.
    pub fn format(&self) -> Result<()> {
        self.disk.blank()?;
        self.system.make(self.device.device())
    }

    /// The disk.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Mounts it.
    ///
    /// # Errors
    /// What the system says.
    pub fn mount(&self) -> Result<Mounted> {
        Mounted::new(self.system, self.device.device(), &self.mount_point, "")
    }
}

/// A file system of a fixed size, on a separate file or in memory.
pub struct Volume {
    mounted: Option<Mounted>,
    device: Option<Loop>,
    system: FileSystem,
    mount_point: PathBuf,
    _scratch: tempfile::TempDir,
}

impl Volume {
    /// Makes and mounts it.
    ///
    /// # Errors
    /// What a part says.
    pub fn new(system: FileSystem) -> Result<Volume> {
        let scratch = scratch()?;
        let mount_point = folder(scratch.path().join("mounted"))?;
        let bytes = system.device_bytes();
        let (device, mounted) = if system == FileSystem::Tmpfs {
            (None, Mounted::new(system, Path::new("tmpfs"), &mount_point, &format!("size={bytes}"))?)
        } else {
            let file = scratch.path().join(unique_name());
            let made = std::fs::File::create(&file).and_then(|f| f.set_len(bytes));
            made.map_err(|e| format!("{}: {e}", file.display()))?;
            let device = Loop::new(&file)?;
            system.make(device.device())?;
            let mounted = Mounted::new(system, device.device(), &mount_point, "")?;
            (Some(device), mounted)
        };
        Ok(Volume { mounted: Some(mounted), device, system, mount_point, _scratch: scratch })
    }

    /// Its mount point.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Mounts it anew, so that nothing of it is left in the page cache. Memory is what it is.
    ///
    /// # Errors
    /// What the system says.
    pub fn remount(&mut self) -> Result<()> {
        let Some(device) = &self.device else { return Ok(()) };
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount()?;
        }
        self.mounted = Some(Mounted::new(self.system, device.device(), &self.mount_point, "")?);
        Ok(())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Before the device, which is else let go of only later.
        self.mounted = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_of_ours_left_is_swept() {
        let own = unique_name();
        assert!(!is_left_behind(&own), "{own} is in use");
        // Linux gives no process a greater number than 4,194,304.
        assert!(is_left_behind("filemap-kernel-4194305-0.suffix"));
        for other in ["filemap-kernel", "filemap-kernel-", "filemap-kernel-x-0", "disk", "other-1-0"] {
            assert!(!is_left_behind(other), "{other}");
        }
    }
}
