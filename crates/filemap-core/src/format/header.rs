//! The header of every file but the superblock: 64 bytes that say whose it is, of what kind and of which format.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic: `FMVALUE\0`, `FMKEYS\0\0`, `FMINDEX\0` or `FMDICT\0\0` |
//! | 8 | 4 | CRC-32 of bytes 12..64 |
//! | 12 | 2 | format version that a reader must know |
//! | 14 | 2 | format version that a writer must know |
//! | 16 | 16 | store id |
//! | 32 | 8 | segment of values or keys: ordinal, its place in the order of its log; dictionary: its id; 0 in the index |
//! | 40 | 8 | time of creation, ms since 1970 |
//! | 48 | 8 | value segment: floor, no record in it is an earlier version of a removal with a lower sequence; 0 elsewhere |
//! | 56 | 1 | value segment: 0 = part of the log, 1 = written by compaction; 0 elsewhere |
//! | 57 | 1 | value segment: level at which compaction compressed its pages anew, 0 = as they came; 0 elsewhere |
//! | 58 | 6 | reserved, zero |

use super::{FORMAT_VERSION, Flaw, all_zero, get_16, get_u16, get_u32, get_u64, put};
use crate::record::MAX_SEQUENCE;

pub(crate) const BYTES: usize = 64;
/// Greatest ordinal of a segment: no log comes near it, and counting on from it must not overflow.
pub(crate) const MAX_ORDINAL: u64 = 1 << 48;

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Values,
    Keys,
    Index,
    Dictionary,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Values, Kind::Keys, Kind::Index, Kind::Dictionary];

    pub(crate) fn magic(self) -> &'static [u8; 8] {
        match self {
            Kind::Values => b"FMVALUE\0",
            Kind::Keys => b"FMKEYS\0\0",
            Kind::Index => b"FMINDEX\0",
            Kind::Dictionary => b"FMDICT\0\0",
        }
    }
}

/// A decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) kind: Kind,
    pub(crate) read_version: u16,
    pub(crate) write_version: u16,
    pub(crate) store_id: [u8; 16],
    pub(crate) ordinal: u64,
    pub(crate) created_ms: i64,
    pub(crate) floor: u64,
    /// Whether compaction has written it: it is no part of the log's order.
    pub(crate) is_output: bool,
    /// Level at which compaction compressed its pages anew, 0 for as they came.
    pub(crate) level: u8,
}

impl FileHeader {
    pub(crate) fn new(kind: Kind, store_id: [u8; 16], ordinal: u64, created_ms: i64) -> FileHeader {
        FileHeader {
            kind,
            read_version: FORMAT_VERSION,
            write_version: FORMAT_VERSION,
            store_id,
            ordinal,
            created_ms,
            floor: 0,
            is_output: false,
            level: 0,
        }
    }

    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut b = [0; BYTES];
        put(&mut b, 0, self.kind.magic());
        put(&mut b, 12, &self.read_version.to_le_bytes());
        put(&mut b, 14, &self.write_version.to_le_bytes());
        put(&mut b, 16, &self.store_id);
        put(&mut b, 32, &self.ordinal.to_le_bytes());
        put(&mut b, 40, &self.created_ms.to_le_bytes());
        put(&mut b, 48, &self.floor.to_le_bytes());
        b[56] = u8::from(self.is_output);
        b[57] = self.level;
        let crc = crc32fast::hash(&b[12..]);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    /// Decodes the first 64 bytes of a file. The versions are not judged here: the caller knows the file's name.
    pub(crate) fn decode(b: &[u8]) -> Result<FileHeader, Flaw> {
        if b.len() < BYTES {
            return Err("shorter than its header");
        }
        let kind = Kind::ALL.into_iter().find(|k| b[..8] == k.magic()[..]).ok_or("unknown magic")?;
        if crc32fast::hash(&b[12..BYTES]) != get_u32(b, 8) {
            return Err("header checksum does not match");
        }
        let read_version = get_u16(b, 12);
        if read_version == 0 {
            return Err("format version 0");
        }
        if read_version <= FORMAT_VERSION && (b[56] > 1 || !all_zero(&b[58..BYTES])) {
            return Err("reserved header bytes are not zero");
        }
        if read_version <= FORMAT_VERSION && (get_u64(b, 32) > MAX_ORDINAL || get_u64(b, 48) > MAX_SEQUENCE) {
            return Err("ordinal or floor is out of range");
        }
        if kind != Kind::Values && !all_zero(&b[48..58]) {
            return Err("only value segments have a floor and an origin");
        }
        Ok(FileHeader {
            kind,
            read_version,
            write_version: get_u16(b, 14),
            store_id: get_16(b, 16),
            ordinal: get_u64(b, 32),
            created_ms: get_u64(b, 40).cast_signed(),
            floor: get_u64(b, 48),
            is_output: b[56] == 1,
            level: b[57],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_any_changed_byte_is_noticed() {
        for kind in Kind::ALL {
            let mut header = FileHeader::new(kind, [7; 16], 70_000, -5);
            if kind == Kind::Values {
                (header.floor, header.is_output, header.level) = (99, true, 9);
            }
            let bytes = header.encode();
            assert_eq!(FileHeader::decode(&bytes), Ok(header));
            for at in 0..BYTES {
                let mut bad = bytes;
                bad[at] ^= 1;
                assert!(FileHeader::decode(&bad).is_err(), "byte {at}");
            }
            assert!(FileHeader::decode(&bytes[..63]).is_err());
        }
    }
}
