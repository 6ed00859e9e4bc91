//! Entries of fixed width: fingerprints with a tombstone mark, without values.
//!
//! An entry is a `u128`: the fingerprint in the highest bits, then the mark, then zeros. A *value*
//! is an entry shifted so that the mark is its lowest bit; blocks hold values.

mod block;
mod words;

use std::cmp::Ordering;

use filemap_io::Word;
use filemap_io::header::Kind;
use filemap_io::layout::Row;

use crate::format::{BLOCK_BYTES, Format, Found};
use crate::run::Run;

pub use block::{Block, Lookup};

/// Layout of a block, for the documentation.
pub(crate) const ROWS: &[Row] = block::BlockHeader::ROWS;

/// Format of fingerprints of a fixed number of bits.
///
/// ```
/// use filemap_runs::fixed::Fixed;
///
/// let fixed = Fixed::new(80);
/// assert_eq!(fixed.mask().count_ones(), 80);
/// assert_eq!(fixed.mark() & fixed.mask(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    bits: u32,
}

impl Fixed {
    /// Fingerprints of 28 to 100 bits.
    ///
    /// # Panics
    /// If `bits` is outside that range: it is a constant of the owner's format, never read from a
    /// file.
    pub const fn new(bits: u32) -> Fixed {
        assert!(bits >= 28 && bits <= 100, "a fingerprint has 28 to 100 bits");
        Fixed { bits }
    }

    /// Bits of a fingerprint.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Shift from an entry to a value.
    #[inline]
    pub const fn shift(self) -> u32 {
        127 - self.bits
    }

    /// The tombstone mark.
    #[inline]
    pub const fn mark(self) -> u128 {
        1 << self.shift()
    }

    /// Mask of the fingerprint.
    #[inline]
    pub const fn mask(self) -> u128 {
        !(u128::MAX >> self.bits)
    }

    /// The entry of a fingerprint.
    #[inline]
    fn entry(self, fingerprint: u128, is_tombstone: bool) -> u128 {
        fingerprint | if is_tombstone { self.mark() } else { 0 }
    }
}

/// A well-mixed hash of a fingerprint, whose own bits are not well mixed if the first ones stand
/// for a host. The filters in files depend on it, so it must never change.
#[inline]
pub fn mixed(fingerprint: u128) -> u64 {
    // Finaliser of SplitMix64 (Stafford's variant 13) of the bits from the 40th on, with the first
    // 24 bits, those of a host, mixed into the last.
    let z = (fingerprint >> 40) as u64 ^ (fingerprint >> 104) as u64;
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Format for Fixed {
    type Entry = u128;
    type Key<'a> = u128;

    const KIND: Kind = Kind { magic: *b"FMDRUN01", version: 2, what: "run of a set" };
    const ENTRIES_MAX: usize = block::VALUES_MAX;

    fn parameter(&self) -> u32 {
        self.bits
    }

    #[inline]
    fn key(&self, entry: &u128) -> u128 {
        entry & self.mask()
    }

    #[inline]
    fn compare(&self, entry: &u128, key: u128) -> Ordering {
        self.key(entry).cmp(&key)
    }

    #[inline]
    fn is_tombstone(&self, entry: &u128) -> bool {
        entry & self.mark() != 0
    }

    #[inline]
    fn head(&self, key: u128) -> u64 {
        (key >> 64) as u64
    }

    #[inline]
    fn hash(&self, key: u128) -> u64 {
        mixed(key & self.mask())
    }

    fn encode(&self, entries: &[u128], block: &mut [u8]) -> usize {
        debug_assert!(entries.iter().all(|entry| entry & !(self.mask() | self.mark()) == 0), "a bit outside an entry");
        block::encode(entries, self.shift(), block)
    }

    fn decode(&self, block: &[u8], entries: &mut Vec<u128>) -> bool {
        let (Some(block), start, shift) = (Block::of(block), entries.len(), self.shift()) else { return false };
        block.decode(entries);
        let values = &mut entries[start..];
        // Longer values would lose their highest bits.
        let all = values.iter().fold(0, |all, value| all | value);
        values.iter_mut().for_each(|value| *value <<= shift);
        all.leading_zeros() >= shift
    }

    fn find(&self, block: &[u8], key: u128) -> Option<Found<u128>> {
        let (block, value) = (Block::of(block)?, key >> self.shift());
        if value < block.base() {
            return Some(Found::Before);
        }
        Some(block.lookup().find(value).map_or(Found::Absent, |mark| Found::Entry(self.entry(key, mark))))
    }

    fn find_mapped(&self, block: &[Word], key: u128) -> Option<Found<u128>> {
        Some(match words::find(block, key >> self.shift())? {
            Found::Entry(is_tombstone) => Found::Entry(self.entry(key, is_tombstone)),
            Found::Absent => Found::Absent,
            Found::Before => Found::Before,
        })
    }
}

impl Run<Fixed> {
    /// Decodes a block for look-ups in order.
    ///
    /// # Errors
    /// [`filemap_io::StorageError::Corrupt`].
    pub fn block<'a>(&self, bytes: &'a [u8], number: u64) -> Result<Block<'a>, filemap_io::StorageError> {
        self.check(bytes, number)?;
        Block::of(bytes).ok_or_else(|| self.no_block(number))
    }
}

const _: () = assert!(block::BlockHeader::BYTES == BLOCK_BYTES);

#[cfg(test)]
mod tests {
    use super::mixed;

    /// Part of the format: filters in files depend on it.
    #[test]
    fn the_hash_is_that_of_the_files() {
        let of = |fingerprint: u128| mixed(fingerprint << 48);
        assert_eq!([of(0), of(1), of(1 << 79)], [0, 17_882_227_441_062_385_421, 12_608_445_084_362_644_619]);
    }

    #[test]
    fn hashes_of_one_hosts_fingerprints_are_spread() {
        let mut lines = [0; 320];
        let mut rng = fastrand::Rng::with_seed(2);
        for _ in 0..10_000 {
            let hash = mixed(7 << 104 | rng.u128(..) >> 24);
            lines[((u128::from(hash) * 320) >> 64) as usize] += 1;
        }
        assert!(lines.iter().all(|keys| *keys > 0));
    }
}
