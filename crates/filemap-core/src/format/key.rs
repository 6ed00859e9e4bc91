//! A record of the key log: a version of a key, chained to the version before it.
//!
//! An address is {16 bits segment number, 24 bits offset in that segment in units of 16 bytes}. 0
//! means none: every file starts with a header, so no record lies there.

use super::location::Extent;
use super::{Flaw, seeded_crc};
use crate::record::{MAX_KEY_BYTES, MAX_SEQUENCE, Version};

filemap_io::layout! {
    /// The fixed part of a record.
    pub(crate) struct Layout {
        0 CRC: u32 = "CRC-32 of bytes 4 to the end of the key, seeded with store id and record offset";
        4 KEY_BYTES: u32 = "24 bits length of the key; bit 24: the value is a list of chunks; bit 25: the value is a reference; 6 bits zero";
        8 SEQUENCE: u64 = "sequence";
        16 TIME_MS: i64 = "time, ms since 1970";
        24 EXTENT: u64 = "40 bits location of the value record, 24 bits its length in units of 64 bytes";
        32 PREVIOUS: u64 = "40 bits address of the previous record of the chain, 0 for none; 24 bits length of the chain, this record included; 2^24 - 1 stands for all more";
        40 REFERS_TO: u64 = "only in a reference: sequence of the version that holds the body";
        48 HOLDER: u64 = "only in a reference: address of the key record of that version, 0 when it is not known";
        .. "40 or 56", "" = "key; then zeros to a multiple of 16";
    }
}

/// Alignment of records, and the unit of addresses.
pub(crate) const UNIT_BYTES: u64 = 16;
/// Length of the fixed part, without the two fields of a reference.
const FIXED_BYTES: usize = Layout::REFERS_TO.at;
/// Most bytes that `peek` needs.
pub(crate) const PEEK_BYTES: usize = Layout::BYTES;
/// Greatest stored chain length; stands for all greater ones.
pub(crate) const MAX_CHAIN: u32 = (1 << 24) - 1;
const ADDRESS_MASK: u64 = (1 << 40) - 1;
const CHUNKED: u32 = 1 << 24;
const REFERENCE: u32 = 1 << 25;

/// Longest segment of the key log: 24 bits of units.
pub(crate) const MAX_SEGMENT_BYTES: u64 = UNIT_BYTES << 24;
/// Separates ordinals of the key log from those of the value log in checksum seeds.
const SEED: u64 = 1 << 63;

/// Packs a segment number and a byte offset into an address.
pub(crate) fn address(segment: u16, offset: u64) -> u64 {
    (u64::from(segment) << 24) | (offset / UNIT_BYTES)
}

/// Returns the segment number of an address.
pub(crate) fn segment_of(address: u64) -> u16 {
    (address >> 24) as u16
}

/// Returns the byte offset of an address in its segment.
pub(crate) fn offset_of(address: u64) -> u64 {
    (address & ((1 << 24) - 1)) * UNIT_BYTES
}

/// Returns the checksum seed of the key-log segment `ordinal`.
pub(crate) fn seed(store_id: &[u8; 16], ordinal: u64) -> u32 {
    super::seed(store_id, SEED | ordinal)
}

/// A decoded key record, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRecord {
    pub(crate) key_bytes: u32,
    pub(crate) version: Version,
    /// Location and length of the value record.
    pub(crate) extent: Extent,
    /// True if the value is a list of chunks.
    pub(crate) chunked: bool,
    /// Address of the previous record in the chain, 0 for none.
    pub(crate) previous: u64,
    pub(crate) chain: u32,
    /// Sequence of the version that holds the body; 0 if this one holds it.
    pub(crate) refers_to: u64,
    /// Address of that version's record, 0 if none or unknown.
    pub(crate) holder: u64,
}

impl KeyRecord {
    /// Returns the offset of the key in the record.
    pub(crate) fn key_at(&self) -> usize {
        if self.refers_to == 0 { FIXED_BYTES } else { Layout::BYTES }
    }

    /// Returns the length of the whole record, a multiple of 16.
    pub(crate) fn total_bytes(&self) -> u64 {
        (self.key_at() as u64 + u64::from(self.key_bytes)).next_multiple_of(UNIT_BYTES)
    }

    /// Appends the record to `out`, to be written at byte `offset` of a segment with this `seed`.
    pub(crate) fn encode(&self, key: &[u8], seed: u32, offset: u64, out: &mut Vec<u8>) {
        debug_assert!(key.len() == self.key_bytes as usize && self.previous <= ADDRESS_MASK);
        let start = out.len();
        out.resize(start + self.total_bytes() as usize, 0);
        let b = &mut out[start..];
        let chunked = if self.chunked { CHUNKED } else { 0 };
        let reference = if self.refers_to == 0 { 0 } else { REFERENCE };
        Layout::KEY_BYTES.put(b, self.key_bytes | chunked | reference);
        Layout::SEQUENCE.put(b, self.version.sequence);
        Layout::TIME_MS.put(b, self.version.time_ms);
        Layout::EXTENT.put(b, self.extent.pack());
        Layout::PREVIOUS.put(b, self.previous | u64::from(self.chain.min(MAX_CHAIN)) << 40);
        if self.refers_to != 0 {
            Layout::REFERS_TO.put(b, self.refers_to);
            Layout::HOLDER.put(b, self.holder);
        }
        b[self.key_at()..][..key.len()].copy_from_slice(key);
        let crc = seeded_crc(seed, offset, &b[Layout::CRC.end()..self.key_at() + key.len()]);
        Layout::CRC.put(b, crc);
    }

    /// Decodes the fixed part at the front of `b` without verifying its checksum: the caller
    /// learns the length to read.
    pub(crate) fn peek(b: &[u8]) -> Result<KeyRecord, Flaw> {
        if b.len() < FIXED_BYTES {
            return Err("key record is cut off");
        }
        let word = Layout::KEY_BYTES.get(b);
        let (key_bytes, is_reference) = (word & (CHUNKED - 1), word & REFERENCE != 0);
        if key_bytes == 0 || key_bytes as usize > MAX_KEY_BYTES {
            return Err("key length is out of range");
        }
        if word >> 26 != 0 {
            return Err("reserved bits of a key record are not zero");
        }
        if is_reference && b.len() < PEEK_BYTES {
            return Err("key record is cut off");
        }
        let (refers_to, holder) = if is_reference { (Layout::REFERS_TO.get(b), Layout::HOLDER.get(b)) } else { (0, 0) };
        if is_reference && !(1..=MAX_SEQUENCE).contains(&refers_to) || holder > ADDRESS_MASK {
            return Err("the reference of a key record is out of range");
        }
        Ok(KeyRecord {
            key_bytes,
            version: Version { time_ms: Layout::TIME_MS.get(b), sequence: Layout::SEQUENCE.get(b) },
            extent: Extent::unpack(Layout::EXTENT.get(b)),
            chunked: word & CHUNKED != 0,
            previous: Layout::PREVIOUS.get(b) & ADDRESS_MASK,
            chain: (Layout::PREVIOUS.get(b) >> 40) as u32,
            refers_to,
            holder,
        })
    }

    /// Decodes and verifies the record at the front of `b`, read from byte `offset`. Returns it
    /// with its key.
    pub(crate) fn decode(b: &[u8], seed: u32, offset: u64) -> Result<(KeyRecord, &[u8]), Flaw> {
        let record = KeyRecord::peek(b)?;
        let end = record.key_at() + record.key_bytes as usize;
        if b.len() < end {
            return Err("key record is cut off");
        }
        if seeded_crc(seed, offset, &b[Layout::CRC.end()..end]) != Layout::CRC.get(b) {
            return Err("key record checksum mismatch");
        }
        Ok((record, &b[record.key_at()..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::location::Location;
    use super::*;

    fn example(refers_to: u64) -> KeyRecord {
        KeyRecord {
            key_bytes: 9,
            version: Version { time_ms: -3, sequence: 8 },
            extent: Extent { location: Location::new(2, 6400), units: (1 << 24) - 1 },
            chunked: refers_to == 0,
            previous: 39,
            chain: 3,
            refers_to,
            holder: if refers_to == 0 { 0 } else { 38 },
        }
    }

    #[test]
    fn a_key_record_comes_back_and_any_changed_byte_is_noticed() {
        for (refers_to, len) in [(0, 64), (5, 80)] {
            let mut bytes = Vec::new();
            example(refers_to).encode(b"http://x/", 4, 640, &mut bytes);
            assert_eq!(bytes.len(), len);
            assert_eq!(KeyRecord::decode(&bytes, 4, 640), Ok((example(refers_to), &b"http://x/"[..])));
            for at in 0..example(refers_to).key_at() + 9 {
                let mut bad = bytes.clone();
                bad[at] ^= 2;
                assert!(KeyRecord::decode(&bad, 4, 640).is_err(), "byte {at}");
            }
            assert!(KeyRecord::decode(&bytes, 4, 656).is_err());
            assert!(KeyRecord::decode(&bytes, 5, 640).is_err());
        }
    }

    proptest::proptest! {
        #[test]
        fn decoding_any_bytes_neither_panics_nor_accepts(bytes in proptest::collection::vec(0u8.., 0..200)) {
            proptest::prop_assert!(KeyRecord::decode(&bytes, 3, 1 << 30).is_err());
        }
    }
}
