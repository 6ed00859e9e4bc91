//! What differs between the segments of the two logs, and how many there may be.

use crate::format::header::Kind;
use crate::options::Options;

/// What the segments of one log have in common.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) kind: Kind,
    /// The name of the file with a number, and the number of a name.
    pub(crate) name: fn(u16) -> String,
    pub(crate) parse: fn(&str) -> Option<u16>,
    /// The seed of the checksums of a store's segment with an ordinal.
    pub(crate) seed: fn(&[u8; 16], u64) -> u32,
    /// No record begins further into a segment than this, in bytes.
    pub(crate) longest: u64,
}

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Files that are kept open.
    pub(crate) open_files: usize,
    /// Numbers that are used while there are free ones among them: 65,536, but in tests.
    pub(crate) numbers: u32,
}

impl Bounds {
    /// What a store's options say for its values.
    pub(crate) fn of_values(options: &Options) -> Bounds {
        let open_files = options.open_files().saturating_sub(Bounds::of_keys(options).open_files).max(1);
        Bounds { open_files, numbers: 1 << 16 }
    }

    /// And for its keys: segments of the key log are fewer, and read less often. Both together keep to the option.
    pub(crate) fn of_keys(options: &Options) -> Bounds {
        let open_files = (options.open_files() / 8).max(1);
        Bounds { open_files, numbers: options.limits.key_segments }
    }
}
