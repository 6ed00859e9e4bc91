//! The properties in which the segments of the two logs differ, and the limits of a log.

use crate::format::header::Kind;
use crate::options::Options;

/// Properties common to the segments of one log.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) kind: Kind,
    /// Builds a file name from a segment number; `parse` reverses it.
    pub(crate) name: fn(u16) -> String,
    pub(crate) parse: fn(&str) -> Option<u16>,
    /// Checksum seed of a segment, from store id and ordinal.
    pub(crate) seed: fn(&[u8; 16], u64) -> u32,
    /// Longest segment, in bytes: scans end here.
    pub(crate) longest: u64,
}

/// Limits of one log: open files and segment numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Files kept open.
    pub(crate) open_files: usize,
    /// Segment numbers in use while any is free: 65,536 except in tests.
    pub(crate) numbers: u32,
}

impl Bounds {
    /// Limits of the value log.
    pub(crate) fn of_values(options: &Options) -> Bounds {
        let open_files = options.open_files().saturating_sub(Bounds::of_keys(options).open_files).max(1);
        Bounds { open_files, numbers: 1 << 16 }
    }

    /// Limits of the key log, whose segments are fewer and read less often. Both logs together
    /// keep to the option, but each has at least one file.
    pub(crate) fn of_keys(options: &Options) -> Bounds {
        let open_files = (options.open_files() / 8).max(1);
        Bounds { open_files, numbers: options.limits.key_segments }
    }
}
