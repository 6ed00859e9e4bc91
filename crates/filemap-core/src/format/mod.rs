//! The on-disk format: one file per record or header, with encode beside decode. Each layout is declared once, by
//! [`layout!`](filemap_io::layout!); docs/FORMAT.md has the same tables, and a test holds the two equal.
//!
//! Invariants: little-endian, fixed width, no padding that is not written; reserved bytes are zero and checked; tag 0
//! is invalid; `decode` is total over any bytes and never allocates by a length that it has not checked.

pub(crate) mod dictionary;
pub(crate) mod header;
pub(crate) mod key;
pub(crate) mod leaf;
pub(crate) mod location;
pub(crate) mod names;
pub(crate) mod node;
pub(crate) mod rolls;
pub(crate) mod rules;
pub(crate) mod superblock;
pub(crate) mod value;
pub(crate) mod verified;

use crate::failpoint::{Fault, planted};

/// The newest format that this program reads and writes.
pub(crate) const FORMAT_VERSION: u16 = 1;

/// Every page of address.idx, and the distance of the superblock's two copies.
#[cfg(not(filemap_loom))]
pub(crate) const PAGE_BYTES: usize = 4096;
/// A page with room for two slots: the model checker looks at every word.
#[cfg(filemap_loom)]
pub(crate) const PAGE_BYTES: usize = 64;

/// Why bytes are not what they should be.
pub(crate) type Flaw = &'static str;

pub(crate) fn all_zero(b: &[u8]) -> bool {
    b.iter().all(|&x| x == 0)
}

/// The seed of a checksum: what a record belongs to and where it lies, so that a whole record of another store,
/// another life of the file or another place does not pass.
pub(crate) fn seed(store_id: &[u8; 16], file: u64) -> u32 {
    let mut h = crc32fast::Hasher::new();
    h.update(store_id);
    h.update(&file.to_le_bytes());
    h.finalize()
}

/// CRC-32 (IEEE) of `bytes`, after a seed and an offset.
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
