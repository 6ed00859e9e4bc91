//! Disk blocks of a directory, and resident memory of this process by kind.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use filemap_benches::drive::Outcome;

const BLOCK_BYTES: u64 = 512;

/// Bytes that the file system allocated for everything below a directory, directories included.
pub fn disk_bytes(dir: &Path) -> Outcome<u64> {
    let mut total = 0;
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        total += fs::metadata(&dir)?.blocks() * BLOCK_BYTES;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            // An engine may remove a separate file between the two looks.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                left.push(entry.path());
            } else {
                total += metadata.blocks() * BLOCK_BYTES;
            }
        }
    }
    Ok(total)
}

/// Resident memory of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Anonymous: only swap could reclaim it.
    pub anonymous_bytes: u64,
    /// Of mapped files, which the kernel may drop; the program's own code is part of it.
    pub mapped_bytes: u64,
}

impl Memory {
    /// As it is now.
    pub fn now() -> Outcome<Memory> {
        let status = fs::read_to_string("/proc/self/status")?;
        parse(&status).ok_or_else(|| io::Error::other("/proc/self/status has no RssAnon and RssFile").into())
    }

    /// Beyond what there was before.
    pub fn since(self, before: Memory) -> Memory {
        Memory {
            anonymous_bytes: self.anonymous_bytes.saturating_sub(before.anonymous_bytes),
            mapped_bytes: self.mapped_bytes.saturating_sub(before.mapped_bytes),
        }
    }
}

fn parse(status: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().split(' ').next()?.parse::<u64>().ok()? * 1024)
    };
    let mapped_bytes = field("RssFile:")? + field("RssShmem:").unwrap_or(0);
    Some(Memory { anonymous_bytes: field("RssAnon:")?, mapped_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_by_kind() {
        let text = "VmRSS:\t   900 kB\nRssAnon:\t     500 kB\nRssFile:\t     390 kB\nRssShmem:\t      10 kB\n";
        assert_eq!(parse(text), Some(Memory { anonymous_bytes: 500 << 10, mapped_bytes: 400 << 10 }));
        assert_eq!(parse("VmRSS:\t 900 kB\n"), None);
        assert!(Memory::now().unwrap().anonymous_bytes > 0);
    }

    #[test]
    fn directories_within_count() {
        let dir = std::env::temp_dir().join(format!("compare-disk-{}", std::process::id()));
        fs::create_dir_all(dir.join("a/b")).unwrap();
        fs::write(dir.join("a/b/file"), vec![1; 100_000]).unwrap();
        let bytes = disk_bytes(&dir).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert!(bytes < 200_000, "{bytes}");
    }
}
