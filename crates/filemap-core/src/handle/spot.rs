//! Location of a version, from index, key log or memtable; the order of versions.

use crate::format::key::KeyRecord;
use crate::format::location::Extent;
use crate::index::memtable::Entry;
use crate::record::Version;

/// A version and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) version: Version,
    pub(crate) extent: Extent,
    pub(crate) refers_to: u64,
    /// Its record lists the chunks of a large body.
    pub(crate) chunked: bool,
}

impl From<&KeyRecord> for Spot {
    fn from(r: &KeyRecord) -> Spot {
        Spot { version: r.version, extent: r.extent, refers_to: r.refers_to, chunked: r.chunked }
    }
}

impl From<Entry> for Spot {
    fn from(e: Entry) -> Spot {
        Spot { version: e.version, extent: e.extent, refers_to: e.refers_to, chunked: e.chunked }
    }
}

/// Sorts newest first and removes duplicates: an interrupted checkpoint's key records are written
/// again.
pub(crate) fn sort_versions(spots: &mut Vec<Spot>) {
    spots.sort_by_key(|s| std::cmp::Reverse(s.version));
    spots.dedup_by_key(|s| s.version.sequence);
}
