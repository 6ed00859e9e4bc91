//! Memory that this process may use and how much of it is free, of the machine or of the control
//! groups around the process, whichever is less. Caches choose their size by it.

use std::fs;
use std::path::Path;

/// Memory of the machine, or of the tightest control group that this process is in.
///
/// ```
/// if let Some(memory) = filemap_io::system::memory() {
///     assert!(memory.available_bytes <= memory.total_bytes);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Most bytes that this process and all others under the same limit may use together.
    pub total_bytes: u64,
    /// Bytes of it that are free, or that the kernel frees on demand, as its page cache.
    pub available_bytes: u64,
}

/// Where a version of control groups keeps limits.
struct Groups {
    mount: &'static str,
    /// Files with a limit: beyond it a process is killed, or slowed down.
    limits: &'static [&'static str],
    used: &'static str,
    /// The fields of `memory.stat` that count file pages in memory: used, but freed on demand.
    cached: [&'static str; 2],
}

const VERSION_1: Groups = Groups {
    mount: "sys/fs/cgroup/memory",
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    cached: ["total_inactive_file ", "total_active_file "],
};
const VERSION_2: Groups = Groups {
    mount: "sys/fs/cgroup",
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    cached: ["inactive_file ", "active_file "],
};

/// Memory that this process may use, as of now. Reads a few small files of the kernel, in about
/// a tenth of a millisecond. `None` where the system has no `/proc/meminfo`.
pub fn memory() -> Option<Memory> {
    memory_below(Path::new("/"))
}

fn memory_below(root: &Path) -> Option<Memory> {
    let about = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let bytes = |name: &str| field(&about, name).map(|kib| kib.saturating_mul(1024));
    let total_bytes = bytes("MemTotal:")?;
    let mut memory = Memory { total_bytes, available_bytes: bytes("MemAvailable:")?.min(total_bytes) };
    // Without the file there are no control groups.
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    for (groups, path) in own.lines().filter_map(group) {
        let mount = root.join(groups.mount);
        // The limit of a group holds for those in it. In a container the path may be that of the
        // host, but the mount's own folder is the container's group.
        for inside in Path::new(path.trim_start_matches('/')).ancestors() {
            memory = memory.within(&mount.join(inside), groups);
        }
    }
    Some(memory)
}

/// The version and path of a line of `/proc/self/cgroup`: `number:controllers:path`. `None` for
/// a hierarchy that does not limit memory.
fn group(line: &str) -> Option<(&'static Groups, &str)> {
    let mut parts = line.splitn(3, ':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    if number == "0" && controllers.is_empty() {
        return Some((&VERSION_2, path));
    }
    controllers.split(',').any(|name| name == "memory").then_some((&VERSION_1, path))
}

/// The number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

impl Memory {
    /// The less of this and what a group leaves. A group without a limit changes nothing.
    fn within(self, folder: &Path, groups: &Groups) -> Memory {
        let number = |name: &str| -> Option<u64> { fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok() };
        let limit = groups.limits.iter().filter_map(|&name| number(name)).min();
        let (Some(limit), Some(used)) = (limit, number(groups.used)) else { return self };
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let cached: u64 = groups.cached.iter().filter_map(|name| field(&stat, name)).fold(0, u64::saturating_add);
        let left = limit.saturating_sub(used.saturating_sub(cached));
        Memory { total_bytes: self.total_bytes.min(limit), available_bytes: self.available_bytes.min(left) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the kernel's files.
    fn kernel(files: &[(&str, &str)]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = temp.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        temp
    }

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal:       8388608 kB\nMemFree:  1024 kB\nMemAvailable:   4194304 kB\n");

    #[test]
    fn without_control_groups_it_is_the_memory_of_the_machine() {
        let all = Memory { total_bytes: 8 << 30, available_bytes: 4 << 30 };
        assert_eq!(memory_below(kernel(&[MACHINE]).path()), Some(all));
        let unlimited = [
            MACHINE,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.current", "1\n"),
        ];
        assert_eq!(memory_below(kernel(&unlimited).path()), Some(all));
        assert_eq!(memory_below(kernel(&[]).path()), None);
        assert_eq!(memory_below(kernel(&[("proc/meminfo", "MemTotal: many kB\n")]).path()), None);
    }

    #[test]
    fn the_tightest_group_around_the_process_counts_and_its_page_cache_is_free() {
        let files = [
            MACHINE,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a/memory.current", "1073741824\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 5\nfile 900\ninactive_file 104857600\nactive_file 104857600\n"),
            ("sys/fs/cgroup/a/b/memory.max", "2147483648\n"),
            ("sys/fs/cgroup/a/b/memory.current", "4096\n"),
        ];
        let expected = Memory { total_bytes: 1 << 30, available_bytes: 200 << 20 };
        assert_eq!(memory_below(kernel(&files).path()), Some(expected));
    }

    #[test]
    fn a_group_that_is_slowed_down_has_a_limit_too() {
        let files = |max: &'static str, high: &'static str| {
            [
                MACHINE,
                ("proc/self/cgroup", "0::/a\n"),
                ("sys/fs/cgroup/a/memory.max", max),
                ("sys/fs/cgroup/a/memory.high", high),
                ("sys/fs/cgroup/a/memory.current", "4096\n"),
            ]
        };
        let expected = Memory { total_bytes: 1 << 30, available_bytes: (1 << 30) - 4096 };
        for (max, high) in [("max\n", "1073741824\n"), ("2147483648\n", "1073741824\n"), ("1073741824\n", "max\n")] {
            assert_eq!(memory_below(kernel(&files(max, high)).path()), Some(expected), "{max} {high}");
        }
    }

    #[test]
    fn a_container_of_version_1_has_its_limit_in_the_mount_itself() {
        let files = [
            MACHINE,
            ("proc/self/cgroup", "5:cpu,cpuacct:/docker/7\n4:memory:/docker/7\n0::/docker/7\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000000\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 400000000\n"),
        ];
        let expected = Memory { total_bytes: 512 << 20, available_bytes: 436_870_912 };
        assert_eq!(memory_below(kernel(&files).path()), Some(expected));
    }

    #[test]
    fn the_memory_of_this_machine_is_known() {
        let memory = memory().unwrap();
        assert!(memory.total_bytes > 16 << 20 && memory.available_bytes <= memory.total_bytes, "{memory:?}");
    }
}
