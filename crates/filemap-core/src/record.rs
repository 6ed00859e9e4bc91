//! Data types of puts and reads: records, versions, heads and values, with their limits.

use std::time::{SystemTime, UNIX_EPOCH};

/// Longest key, in bytes.
pub(crate) const MAX_KEY_BYTES: usize = 65_536;
/// Longest meta, in bytes.
pub(crate) const MAX_META_BYTES: usize = 65_536;
/// Greatest sequence of a version.
pub(crate) const MAX_SEQUENCE: u64 = 1 << 56;
/// Longest value, in bytes.
pub(crate) const MAX_VALUE_BYTES: u64 = 4 << 30;

/// One record to put: a key, its value, a small opaque meta and a time.
///
/// ```
/// use filemap_core::Record;
/// let record = Record::new(b"http://a.example/", b"A page.").meta(b"status 200").time(1_000);
/// assert_eq!(record.time_ms, 1_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// 1 to [`Record::MAX_KEY_BYTES`] bytes.
    pub key: &'a [u8],
    /// 0 to [`Record::MAX_META_BYTES`] bytes, read by `head` without the body.
    pub meta: &'a [u8],
    /// 0 to [`Record::MAX_VALUE_BYTES`] bytes.
    pub body: &'a [u8],
    /// Milliseconds since 1970. The version with the greatest time is the newest, in whatever
    /// order versions were put.
    pub time_ms: i64,
}

impl<'a> Record<'a> {
    /// Longest key, in bytes.
    pub const MAX_KEY_BYTES: usize = MAX_KEY_BYTES;
    /// Longest meta, in bytes.
    pub const MAX_META_BYTES: usize = MAX_META_BYTES;
    /// Longest value, in bytes.
    pub const MAX_VALUE_BYTES: u64 = MAX_VALUE_BYTES;

    /// A record with the current time and an empty meta.
    pub fn new(key: &'a [u8], body: &'a [u8]) -> Record<'a> {
        Record { key, meta: &[], body, time_ms: now_ms() }
    }

    /// Sets the time, in ms since 1970.
    pub fn time(mut self, time_ms: i64) -> Record<'a> {
        self.time_ms = time_ms;
        self
    }

    /// Sets the meta.
    pub fn meta(mut self, meta: &'a [u8]) -> Record<'a> {
        self.meta = meta;
        self
    }
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// Identifies a version of a key. Ordered by time, then by the order of puts.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// let first = store.put(&filemap_core::Record::new(b"k", b"first").time(1))?;
/// let second = store.put(&filemap_core::Record::new(b"k", b"second").time(2))?;
/// assert!(first < second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Milliseconds since 1970, as put.
    pub time_ms: i64,
    /// Unique in the store; rises with every put.
    pub sequence: u64,
}

/// Result of `put_if_changed`.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let again = store.put_if_changed(&filemap_core::Record::new(b"http://a.example/", b"A page."))?;
/// assert!(matches!(again, filemap_core::Put::Unchanged(..)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The body was new and was stored.
    Stored(Version),
    /// The newest version has the same body: only a reference to it was stored.
    Unchanged(Version),
}

impl Put {
    /// The stored version, either way.
    pub fn version(&self) -> Version {
        match *self {
            Put::Stored(v) | Put::Unchanged(v) => v,
        }
    }
}

/// Position of a record in the value log.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let place = store.locate(b"http://a.example/")?.expect("it was put");
/// println!("segment {}, offset {}", place.segment, place.offset);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the value segment.
    pub segment: u16,
    /// Byte offset in it.
    pub offset: u64,
}

/// A version without its body.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let head = store.head(b"http://a.example/")?.expect("it was put");
/// assert_eq!(head.body_bytes, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Time and sequence.
    pub version: Version,
    /// The meta, as put.
    pub meta: Vec<u8>,
    /// Length of the body, uncompressed.
    pub body_bytes: u64,
    /// Bytes in the value log, with header, padding and the chunks of a large value.
    pub stored_bytes: u64,
    /// XXH3-128 of the body in its canonical byte order (big-endian).
    pub digest: [u8; 16],
    /// Sequence of the version that holds the body, if this one is a reference.
    pub unchanged_since: Option<u64>,
    /// Position of the version's record.
    pub place: Place,
}

/// A version with its body.
///
/// ```
/// # let temp = tempfile::tempdir()?;
/// # let store = filemap_core::Store::create(temp.path().join("a"), filemap_core::Options::new())?;
/// # store.put(&filemap_core::Record::new(b"http://a.example/", b"A page.").time(7))?;
/// let value = store.get(b"http://a.example/")?.expect("it was put");
/// assert_eq!((&value.body[..], value.head.version.time_ms), (&b"A page."[..], 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Everything but the body.
    pub head: Head,
    /// The body, as put.
    pub body: Vec<u8>,
}
