//! A record of key.dat: a version of a key, chained to the version before it.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | CRC-32 of bytes 4 to the end of the key, seeded with store id and record offset |
//! | 4 | 4 | length of the key |
//! | 8 | 8 | sequence |
//! | 16 | 8 | time, ms since 1970 |
//! | 24 | 8 | 40 bits location of the value record, 8 bits its size class, 16 bits zero |
//! | 32 | 8 | 40 bits address of the previous record of the chain in units of 16 bytes, 0 for none; 24 bits length of the chain, this record included |
//! | 40 | 8 | sequence of the version that holds the body, 0 for this one |
//! | 48 | 8 | address of the key record of that version, 0 when there is none or it is not known |
//! | 56 | | key; then zeros to a multiple of 16 |

use super::location::{Location, SizeClass};
use super::{Flaw, get_u32, get_u64, put, seeded_crc};
use crate::record::{MAX_KEY_BYTES, Version};

/// Records start at multiples of this many bytes, and addresses count it.
pub(crate) const UNIT_BYTES: u64 = 16;
/// Length of the fixed part.
pub(crate) const FIXED_BYTES: usize = 56;
/// The chain length is not counted further than this.
pub(crate) const MAX_CHAIN: u32 = (1 << 24) - 1;
const ADDRESS_MASK: u64 = (1 << 40) - 1;

/// A decoded key record, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRecord {
    pub(crate) key_bytes: u32,
    pub(crate) version: Version,
    pub(crate) location: Location,
    pub(crate) size: SizeClass,
    /// Address in units, 0 for none.
    pub(crate) previous: u64,
    pub(crate) chain: u32,
    /// 0 when the version holds its own body.
    pub(crate) refers_to: u64,
    /// Address of that version's record, 0 for none.
    pub(crate) holder: u64,
}

impl KeyRecord {
    /// Length of the whole record, a multiple of 16.
    pub(crate) fn total_bytes(&self) -> u64 {
        (FIXED_BYTES as u64 + u64::from(self.key_bytes)).next_multiple_of(UNIT_BYTES)
    }

    /// Appends the record to `out`, for the byte `offset` of a key log with this seed.
    pub(crate) fn encode(&self, key: &[u8], seed: u32, offset: u64, out: &mut Vec<u8>) {
        debug_assert!(key.len() == self.key_bytes as usize && self.previous <= ADDRESS_MASK);
        let start = out.len();
        out.resize(start + self.total_bytes() as usize, 0);
        let b = &mut out[start..];
        put(b, 4, &self.key_bytes.to_le_bytes());
        put(b, 8, &self.version.sequence.to_le_bytes());
        put(b, 16, &self.version.time_ms.to_le_bytes());
        put(b, 24, &(self.location.pack() | u64::from(self.size.0) << 40).to_le_bytes());
        put(b, 32, &(self.previous | u64::from(self.chain.min(MAX_CHAIN)) << 40).to_le_bytes());
        put(b, 40, &self.refers_to.to_le_bytes());
        put(b, 48, &self.holder.to_le_bytes());
        put(b, FIXED_BYTES, key);
        let crc = seeded_crc(seed, offset, &b[4..FIXED_BYTES + key.len()]);
        put(b, 0, &crc.to_le_bytes());
    }

    /// Decodes the fixed part at the front of `b` without its checksum, so that the caller knows how much to read.
    pub(crate) fn peek(b: &[u8]) -> Result<KeyRecord, Flaw> {
        if b.len() < FIXED_BYTES {
            return Err("key record is cut off");
        }
        let key_bytes = get_u32(b, 4);
        if key_bytes == 0 || key_bytes as usize > MAX_KEY_BYTES {
            return Err("key length is out of range");
        }
        let place = get_u64(b, 24);
        if place >> 48 != 0 || get_u64(b, 48) >> 40 != 0 {
            return Err("reserved bits of a key record are not zero");
        }
        Ok(KeyRecord {
            key_bytes,
            version: Version { time_ms: get_u64(b, 16).cast_signed(), sequence: get_u64(b, 8) },
            location: Location::unpack(place),
            size: SizeClass((place >> 40) as u8),
            previous: get_u64(b, 32) & ADDRESS_MASK,
            chain: (get_u64(b, 32) >> 40) as u32,
            refers_to: get_u64(b, 40),
            holder: get_u64(b, 48),
        })
    }

    /// Decodes and checks the record at the front of `b`, which lies at byte `offset`; gives its key too.
    pub(crate) fn decode(b: &[u8], seed: u32, offset: u64) -> Result<(KeyRecord, &[u8]), Flaw> {
        let record = KeyRecord::peek(b)?;
        let end = FIXED_BYTES + record.key_bytes as usize;
        if b.len() < end {
            return Err("key record is cut off");
        }
        if seeded_crc(seed, offset, &b[4..end]) != get_u32(b, 0) {
            return Err("key record checksum does not match");
        }
        if record.previous * UNIT_BYTES >= offset {
            return Err("key record is chained to a later one");
        }
        Ok((record, &b[FIXED_BYTES..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> KeyRecord {
        KeyRecord {
            key_bytes: 9,
            version: Version { time_ms: -3, sequence: 8 },
            location: Location::new(2, 6400),
            size: SizeClass(77),
            previous: 39,
            chain: 3,
            refers_to: 5,
            holder: 38,
        }
    }

    #[test]
    fn a_key_record_comes_back_and_any_changed_byte_is_noticed() {
        let mut bytes = Vec::new();
        example().encode(b"http://x/", 4, 640, &mut bytes);
        assert_eq!(bytes.len(), 80);
        assert_eq!(KeyRecord::decode(&bytes, 4, 640), Ok((example(), &b"http://x/"[..])));
        for at in 0..FIXED_BYTES + 9 {
            let mut bad = bytes.clone();
            bad[at] ^= 2;
            assert!(KeyRecord::decode(&bad, 4, 640).is_err(), "byte {at}");
        }
        assert!(KeyRecord::decode(&bytes, 4, 656).is_err());
        assert!(KeyRecord::decode(&bytes, 5, 640).is_err());
    }

    #[test]
    fn chains_only_lead_backwards() {
        let mut bytes = Vec::new();
        example().encode(b"http://x/", 4, 624, &mut bytes); // 39 * 16 = 624: itself
        assert!(KeyRecord::decode(&bytes, 4, 624).is_err());
    }

    proptest::proptest! {
        #[test]
        fn decoding_any_bytes_neither_panics_nor_accepts(bytes in proptest::collection::vec(0u8.., 0..200)) {
            proptest::prop_assert!(KeyRecord::decode(&bytes, 3, 1 << 30).is_err());
        }
    }
}
