//! The list of begun segments of the value log: one sector of SUPERBLOCK, beside its two copies.
//!
//! A checkpoint's segment table names the segments up to its tail. This list names the later ones,
//! so that a missing one is noticed. A segment is listed once it is durable and before anything is
//! appended to it, and stays listed until its file is about to be removed.
//!
//! The sector lies at byte 8192. It reaches the disk whole or not at all, so one that does not
//! verify is damage.

use filemap_io::layout::{Text, Zeros, is_reserved_zero};

use super::{Flaw, header};

filemap_io::layout! {
    /// The list of begun segments.
    pub(crate) struct Layout {
        0 MAGIC: Text<8> = "magic `FMROLLS\\0`";
        8 CRC: u32 = "CRC-32 of bytes 12..512";
        12 RESERVED: Zeros<4> = "reserved, zero";
        16 STORE_ID: [u8; 16] = "store id";
        32 FIRST: u64 = "ordinal of the first bit";
        40 BITS: [u8; 472] = "bits, the lowest of each byte first: the segment of that ordinal was begun";
    }
}

pub(crate) const BYTES: usize = Layout::BYTES;
/// Byte offset in SUPERBLOCK.
pub(crate) const AT: u64 = 8192;
const MAGIC: &[u8; 8] = b"FMROLLS\0";
const BITS_AT: usize = Layout::BITS.at;
/// Number of ordinals in the list.
const CAPACITY: u64 = 8 * (BYTES - BITS_AT) as u64;

/// A decoded list of begun segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rolls {
    store_id: [u8; 16],
    first: u64,
    bits: [u8; BYTES - BITS_AT],
}

impl Rolls {
    /// An empty list.
    pub(crate) fn none(store_id: [u8; 16]) -> Rolls {
        Rolls { store_id, first: 0, bits: [0; BYTES - BITS_AT] }
    }

    /// A list of `ordinals`.
    #[cfg(test)]
    pub(crate) fn of(store_id: [u8; 16], ordinals: impl Iterator<Item = u64>) -> Rolls {
        let mut rolls = Rolls::none(store_id);
        ordinals.for_each(|ordinal| rolls.add(ordinal));
        rolls
    }

    pub(crate) fn store_id(&self) -> [u8; 16] {
        self.store_id
    }

    /// Adds a segment. Drops segments too far before it to fit: a checkpoint has passed them.
    pub(crate) fn add(&mut self, ordinal: u64) {
        if ordinal < self.first || ordinal >= self.first + CAPACITY {
            // Half of the bits are for later segments.
            let first = ordinal.saturating_sub(CAPACITY / 2);
            let kept: Vec<u64> = self.after(first).filter(|o| *o < first + CAPACITY).collect();
            (self.first, self.bits) = (first, [0; BYTES - BITS_AT]);
            kept.into_iter().for_each(|o| self.set(o, true));
        }
        self.set(ordinal, true);
    }

    pub(crate) fn remove(&mut self, ordinal: u64) {
        if (self.first..self.first + CAPACITY).contains(&ordinal) {
            self.set(ordinal, false);
        }
    }

    fn set(&mut self, ordinal: u64, is_begun: bool) {
        let at = (ordinal - self.first) as usize;
        let bit = 1 << (at % 8);
        if is_begun {
            self.bits[at / 8] |= bit;
        } else {
            self.bits[at / 8] &= !bit;
        }
    }

    pub(crate) fn has(&self, ordinal: u64) -> bool {
        let at = ordinal.checked_sub(self.first).filter(|at| *at < CAPACITY);
        at.is_some_and(|at| self.bits[at as usize / 8] >> (at % 8) & 1 == 1)
    }

    /// Returns true if a segment is neither listed nor dropped: it had not been begun when the
    /// list was written, or was removed.
    pub(crate) fn lacks(&self, ordinal: u64) -> bool {
        ordinal >= self.first && !self.has(ordinal)
    }

    /// Iterates over the listed ordinals that are `least` or greater.
    pub(crate) fn after(&self, least: u64) -> impl Iterator<Item = u64> {
        let all = (self.first.max(least)..self.first + CAPACITY).filter(|o| self.has(*o));
        all.collect::<Vec<_>>().into_iter()
    }

    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut b = [0; BYTES];
        Layout::MAGIC.put(&mut b, Text(*MAGIC));
        Layout::STORE_ID.put(&mut b, self.store_id);
        Layout::FIRST.put(&mut b, self.first);
        Layout::BITS.put(&mut b, self.bits);
        let crc = crc32fast::hash(&b[Layout::CRC.end()..]);
        Layout::CRC.put(&mut b, crc);
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Result<Rolls, Flaw> {
        if b.len() < BYTES {
            return Err("the list of begun segments is cut off");
        }
        if Layout::MAGIC.get(b).0 != *MAGIC || crc32fast::hash(&b[Layout::CRC.end()..BYTES]) != Layout::CRC.get(b) {
            return Err("checksum mismatch in the list of begun segments");
        }
        let first = Layout::FIRST.get(b);
        if !is_reserved_zero(Layout::ROWS, b) || first > header::MAX_ORDINAL {
            return Err("the list of begun segments is out of range");
        }
        Ok(Rolls { store_id: Layout::STORE_ID.get(b), first, bits: Layout::BITS.get(b) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_begun_segments_comes_back_and_any_changed_byte_is_noticed() {
        let mut rolls = Rolls::of([7; 16], [3, 4, 70, 3700].into_iter());
        rolls.remove(4);
        rolls.remove(1 << 40);
        assert_eq!(rolls.after(4).collect::<Vec<_>>(), [70, 3700]);
        let bytes = rolls.encode();
        assert_eq!(Rolls::decode(&bytes), Ok(rolls));
        for at in 0..BYTES {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert!(Rolls::decode(&bad).is_err(), "byte {at}");
        }
        assert!(Rolls::decode(&bytes[..511]).is_err());
    }

    #[test]
    fn segments_that_lie_far_back_make_room_for_new_ones() {
        let mut rolls = Rolls::none([0; 16]);
        (0..10_000).for_each(|ordinal| rolls.add(ordinal));
        let kept: Vec<u64> = rolls.after(0).collect();
        assert_eq!(kept.last(), Some(&9_999));
        assert!(kept.len() as u64 > CAPACITY / 2 - 1 && kept.windows(2).all(|w| w[0] + 1 == w[1]));
        rolls.add(1 << 40);
        assert_eq!(rolls.after(0).collect::<Vec<_>>(), [1 << 40]);
        assert!(rolls.has(1 << 40) && !rolls.has(9_999));
    }
}
