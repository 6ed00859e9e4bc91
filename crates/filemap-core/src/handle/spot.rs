//! Location of a version, from index, key log or memtable; the order of versions.

use crate::error::Result;
use crate::format::key::KeyRecord;
use crate::format::location::Extent;
use crate::index::memtable::Entry;
use crate::logs::values::ValueLog;
use crate::record::Version;

/// A version and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) version: Version,
    pub(crate) extent: Extent,
    pub(crate) refers_to: u64,
    /// True if its record lists the chunks of a large body.
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

/// Returns true if a version can be read, and the one in `all` that holds its body too.
///
/// # Errors
/// `Io`.
pub(crate) fn is_readable(values: &ValueLog, key: &[u8], spot: &Spot, all: &[Spot]) -> Result<bool> {
    let holder = all.iter().filter(|s| spot.refers_to != 0 && s.version.sequence == spot.refers_to);
    for one in holder.chain([spot]) {
        if !values.is_readable(key, one.version, one.extent)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sorts newest first and removes duplicates: an interrupted checkpoint's key records are written
/// again.
pub(crate) fn sort_versions(spots: &mut Vec<Spot>) {
    spots.sort_by_key(|s| std::cmp::Reverse(s.version));
    spots.dedup_by_key(|s| s.version.sequence);
}
