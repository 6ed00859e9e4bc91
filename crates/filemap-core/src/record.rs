//! What goes into a store and what comes out: records, versions, heads and values.

use std::time::{SystemTime, UNIX_EPOCH};

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 65_536;
/// Longest meta, in bytes.
pub const MAX_META_BYTES: usize = 65_536;
/// Greatest sequence of any version.
pub(crate) const MAX_SEQUENCE: u64 = 1 << 56;
/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: u64 = 4 << 30;

/// One record to put: a key, its value, a small opaque meta and a time.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// 1 to [`MAX_KEY_BYTES`] bytes.
    pub key: &'a [u8],
    /// 0 to [`MAX_META_BYTES`] bytes, read by `head` without the body.
    pub meta: &'a [u8],
    /// 0 to [`MAX_VALUE_BYTES`] bytes.
    pub body: &'a [u8],
    /// Milliseconds since 1970. The version with the greatest time is the newest, whenever it was put.
    pub time_ms: i64,
}

impl<'a> Record<'a> {
    /// A record with the time of now and an empty meta.
    pub fn new(key: &'a [u8], body: &'a [u8]) -> Record<'a> {
        Record { key, meta: &[], body, time_ms: now_ms() }
    }

    /// With another time, in ms since 1970.
    pub fn time(mut self, time_ms: i64) -> Record<'a> {
        self.time_ms = time_ms;
        self
    }

    /// With a meta.
    pub fn meta(mut self, meta: &'a [u8]) -> Record<'a> {
        self.meta = meta;
        self
    }
}

/// Milliseconds since 1970, now.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Which version of a key: versions are ordered by time, then by the order in which they were put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Milliseconds since 1970, as put.
    pub time_ms: i64,
    /// Unique in the store and rising with every put.
    pub sequence: u64,
}

/// What `put_if_changed` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The body was new, and was stored.
    Stored(Version),
    /// The newest version has the same body: a small version that refers to it was stored.
    Unchanged(Version),
}

impl Put {
    /// The version that was stored, either way.
    pub fn version(&self) -> Version {
        match *self {
            Put::Stored(v) | Put::Unchanged(v) => v,
        }
    }
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the value segment.
    pub segment: u16,
    /// Byte offset in it.
    pub offset: u64,
}

/// All of a version but its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Time and sequence.
    pub version: Version,
    /// Meta, as put.
    pub meta: Vec<u8>,
    /// Length of the body, uncompressed.
    pub body_bytes: u64,
    /// What the version takes in the value log, header and padding included; chunks of a large value too.
    pub stored_bytes: u64,
    /// XXH3-128 of the body, in the order of bytes that its authors call canonical (big-endian).
    pub digest: [u8; 16],
    /// The sequence of the version that holds the body, when this one only refers to it.
    pub unchanged_since: Option<u64>,
    /// Where the version's record lies.
    pub place: Place,
}

/// A version with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// All but the body.
    pub head: Head,
    /// The body, as put.
    pub body: Vec<u8>,
}
