//! The header of every file but the superblock: 64 bytes that say whose it is, of what kind and of which format.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic: `FMVALUE\0`, `FMKEYS\0\0`, `FMINDEX\0` or `FMDICT\0\0` |
//! | 8 | 4 | CRC-32 of bytes 12..64 |
//! | 12 | 2 | format version that a reader must know |
//! | 14 | 2 | format version that a writer must know |
//! | 16 | 16 | store id |
//! | 32 | 8 | value segment: ordinal, its place in the order of the log; dictionary: its id; 0 elsewhere |
//! | 40 | 8 | time of creation, ms since 1970 |
//! | 48 | 16 | reserved, zero |

use super::{FORMAT_VERSION, Flaw, all_zero, get_16, get_u16, get_u32, get_u64, put};

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
}

impl FileHeader {
    pub(crate) fn new(kind: Kind, store_id: [u8; 16], ordinal: u64, created_ms: i64) -> FileHeader {
        FileHeader { kind, read_version: FORMAT_VERSION, write_version: FORMAT_VERSION, store_id, ordinal, created_ms }
    }

    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut b = [0; BYTES];
        put(&mut b, 0, self.kind.magic());
        put(&mut b, 12, &self.read_version.to_le_bytes());
        put(&mut b, 14, &self.write_version.to_le_bytes());
        put(&mut b, 16, &self.store_id);
        put(&mut b, 32, &self.ordinal.to_le_bytes());
        put(&mut b, 40, &self.created_ms.to_le_bytes());
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
        if read_version <= FORMAT_VERSION && !all_zero(&b[48..BYTES]) {
            return Err("reserved header bytes are not zero");
        }
        if read_version <= FORMAT_VERSION && get_u64(b, 32) > MAX_ORDINAL {
            return Err("ordinal is out of range");
        }
        Ok(FileHeader {
            kind,
            read_version,
            write_version: get_u16(b, 14),
            store_id: get_16(b, 16),
            ordinal: get_u64(b, 32),
            created_ms: get_u64(b, 40).cast_signed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_any_changed_byte_is_noticed() {
        for kind in Kind::ALL {
            let header = FileHeader::new(kind, [7; 16], 70_000, -5);
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
