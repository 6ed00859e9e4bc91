//! The file VERIFIED: when the store was last read in full, and how that ended. Advice for people, and believed by nothing.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `FMSEEN\0\0` |
//! | 8 | 4 | CRC-32 of bytes 12..64 |
//! | 12 | 4 | reserved, zero |
//! | 16 | 16 | store id |
//! | 32 | 8 | time at which the last full verification ended, ms since 1970 |
//! | 40 | 8 | bytes that it read |
//! | 48 | 8 | damaged places that it found |
//! | 56 | 8 | time at which it began, ms since 1970 |
//!
//! And the head of the file VERIFYING, which says how far a resumable one has come:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `FMCHECK1` |
//! | 8 | 16 | store id |
//! | 24 | 8 | time at which it began, ms since 1970 |
//! | 32 | 4 | CRC-32 of bytes 0..32 |

use super::{Flaw, all_zero, get_16, get_u32, get_u64, put};

pub(crate) const BYTES: usize = 64;
pub(crate) const MAGIC: &[u8; 8] = b"FMSEEN\0\0";
/// Of VERIFYING.
pub(crate) const UNDER_WAY_BYTES: usize = 36;
pub(crate) const UNDER_WAY_MAGIC: &[u8; 8] = b"FMCHECK1";

/// A full verification that came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) store_id: [u8; 16],
    pub(crate) ended_ms: i64,
    pub(crate) bytes: u64,
    pub(crate) problems: u64,
    pub(crate) begun_ms: i64,
}

impl Verified {
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut b = [0; BYTES];
        put(&mut b, 0, MAGIC);
        put(&mut b, 16, &self.store_id);
        put(&mut b, 32, &self.ended_ms.to_le_bytes());
        put(&mut b, 40, &self.bytes.to_le_bytes());
        put(&mut b, 48, &self.problems.to_le_bytes());
        put(&mut b, 56, &self.begun_ms.to_le_bytes());
        let crc = crc32fast::hash(&b[12..]);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Result<Verified, Flaw> {
        if b.len() < BYTES || &b[..8] != MAGIC {
            return Err("unknown magic");
        }
        if crc32fast::hash(&b[12..BYTES]) != get_u32(b, 8) {
            return Err("checksum does not match");
        }
        if !all_zero(&b[12..16]) {
            return Err("reserved bytes are not zero");
        }
        Ok(Verified {
            store_id: get_16(b, 16),
            ended_ms: get_u64(b, 32).cast_signed(),
            bytes: get_u64(b, 40),
            problems: get_u64(b, 48),
            begun_ms: get_u64(b, 56).cast_signed(),
        })
    }
}

/// A full verification that has not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub(crate) store_id: [u8; 16],
    pub(crate) begun_ms: i64,
}

impl UnderWay {
    pub(crate) fn encode(&self) -> [u8; UNDER_WAY_BYTES] {
        let mut b = [0; UNDER_WAY_BYTES];
        put(&mut b, 0, UNDER_WAY_MAGIC);
        put(&mut b, 8, &self.store_id);
        put(&mut b, 24, &self.begun_ms.to_le_bytes());
        let crc = crc32fast::hash(&b[..32]);
        put(&mut b, 32, &crc.to_le_bytes());
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Result<UnderWay, Flaw> {
        if b.len() < UNDER_WAY_BYTES || &b[..8] != UNDER_WAY_MAGIC {
            return Err("unknown magic");
        }
        if crc32fast::hash(&b[..32]) != get_u32(b, 32) {
            return Err("checksum does not match");
        }
        Ok(UnderWay { store_id: get_16(b, 8), begun_ms: get_u64(b, 24).cast_signed() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_any_changed_byte_is_noticed() {
        let note = Verified { store_id: [3; 16], ended_ms: -4, bytes: 5, problems: 6, begun_ms: -9 };
        let bytes = note.encode();
        assert_eq!(Verified::decode(&bytes), Ok(note));
        for at in 0..BYTES {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert!(Verified::decode(&bad).is_err(), "byte {at}");
        }
        assert!(Verified::decode(&bytes[..63]).is_err());
        let under_way = UnderWay { store_id: [4; 16], begun_ms: -7 };
        let bytes = under_way.encode();
        assert_eq!(UnderWay::decode(&bytes), Ok(under_way));
        for at in 0..UNDER_WAY_BYTES {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert!(UnderWay::decode(&bad).is_err(), "byte {at}");
        }
        assert!(UnderWay::decode(&bytes[..35]).is_err());
    }
}
