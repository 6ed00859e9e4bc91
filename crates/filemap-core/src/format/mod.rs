//! The on-disk format: one file per record or header, encode beside decode. Each layout is
//! declared once, with [`layout!`](filemap_io::layout!) or as `Bits`; docs/FORMAT.md has the same
//! tables, and a test keeps both equal.
//!
//! May be called from every folder but `sync`. It names only plain data (`record`, `options`) and
//! the failpoints.
//!
//! Invariants:
//! - little-endian, fixed width, all padding written;
//! - reserved bytes are zero, and checked;
//! - tag 0 is invalid;
//! - `decode` is total over any bytes and never allocates by an unchecked length.

pub(crate) mod bits;
pub(crate) mod bloom;
pub(crate) mod dictionary;
pub(crate) mod header;
pub(crate) mod key;
pub(crate) mod key_runs;
pub(crate) mod leaf;
pub(crate) mod location;
pub(crate) mod names;
pub(crate) mod node;
pub(crate) mod rolls;
pub(crate) mod row;
pub(crate) mod rules;
pub(crate) mod run;
pub(crate) mod superblock;
pub(crate) mod value;
pub(crate) mod verified;

use crate::failpoint::{Fault, planted};

/// Newest format version that this program reads and writes.
pub(crate) const FORMAT_VERSION: u16 = 1;

/// Bytes of a page of address.idx; also the distance between the superblock's two copies.
#[cfg(not(filemap_loom))]
pub(crate) const PAGE_BYTES: usize = 4096;
/// A page with room for two slots: the model checker explores every word.
#[cfg(filemap_loom)]
pub(crate) const PAGE_BYTES: usize = 64;

/// Reason why bytes do not decode.
pub(crate) type Flaw = &'static str;

pub(crate) fn all_zero(b: &[u8]) -> bool {
    b.iter().all(|&x| x == 0)
}

/// Checksum seed of a file. With the offset it makes a whole record fail if it comes from another
/// store, another life of the file or another place.
pub(crate) fn seed(store_id: &[u8; 16], file: u64) -> u32 {
    let mut h = crc32fast::Hasher::new();
    h.update(store_id);
    h.update(&file.to_le_bytes());
    h.finalize()
}

/// CRC-32 (IEEE) of `bytes`, seeded with `seed` and `offset`.
pub(crate) fn seeded_crc(seed: u32, offset: u64, bytes: &[u8]) -> u32 {
    if planted(Fault::LocationsNotSeeded) {
        return crc32fast::hash(bytes);
    }
    let mut h = crc32fast::Hasher::new_with_initial(seed);
    h.update(&offset.to_le_bytes());
    h.update(bytes);
    h.finalize()
}

#[cfg(test)]
mod spec;
