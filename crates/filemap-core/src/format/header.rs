//! The 64-byte header of every file but the superblock: owner, kind and format versions.

use filemap_io::layout::{Text, Zeros, is_reserved_zero};

use super::{FORMAT_VERSION, Flaw, all_zero};
use crate::record::MAX_SEQUENCE;

filemap_io::layout! {
    /// The header of a file.
    pub(crate) struct Layout {
        0 MAGIC: Text<8> = "magic: `FMVALUE\\0`, `FMKEYS\\0\\0`, `FMINDEX\\0` or `FMDICT\\0\\0`";
        8 CRC: u32 = "CRC-32 of bytes 12..64";
        12 READ_VERSION: u16 = "format version that a reader must know";
        14 WRITE_VERSION: u16 = "format version that a writer must know";
        16 STORE_ID: [u8; 16] = "store id";
        32 ORDINAL: u64 = "segment of values or keys: ordinal, its place in the order of its log; dictionary: its id; 0 in the index";
        40 CREATED_MS: i64 = "time of creation, ms since 1970";
        48 FLOOR: u64 = "value segment: floor, no record in it is an earlier version of a tombstone with a lower sequence; 0 elsewhere";
        56 IS_OUTPUT: u8 = "value segment: 0 = part of the log, 1 = written by compaction; 0 elsewhere";
        57 LEVEL: u8 = "value segment: recompression level, 0: not recompressed; 0 elsewhere";
        58 RESERVED: Zeros<6> = "reserved, zero";
    }
}

pub(crate) const BYTES: usize = Layout::BYTES;
/// Greatest ordinal of a segment: far beyond any log, and safe to increment.
pub(crate) const MAX_ORDINAL: u64 = 1 << 48;

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Values,
    Keys,
    Index,
    Dictionary,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [Kind::Values, Kind::Keys, Kind::Index, Kind::Dictionary];

    fn of_magic(magic: [u8; 8]) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind.magic() == magic)
    }

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
    /// True if compaction wrote the segment: its ordinal then has no meaning in the log's order.
    pub(crate) is_output: bool,
    /// Level at which compaction recompressed the pages; 0 if they are stored as put.
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
        Layout::MAGIC.put(&mut b, Text(*self.kind.magic()));
        Layout::READ_VERSION.put(&mut b, self.read_version);
        Layout::WRITE_VERSION.put(&mut b, self.write_version);
        Layout::STORE_ID.put(&mut b, self.store_id);
        Layout::ORDINAL.put(&mut b, self.ordinal);
        Layout::CREATED_MS.put(&mut b, self.created_ms);
        Layout::FLOOR.put(&mut b, self.floor);
        Layout::IS_OUTPUT.put(&mut b, u8::from(self.is_output));
        Layout::LEVEL.put(&mut b, self.level);
        let crc = crc32fast::hash(&b[Layout::CRC.end()..]);
        Layout::CRC.put(&mut b, crc);
        b
    }

    /// Decodes the first 64 bytes of a file. The caller, which knows the file's name, checks the
    /// versions.
    pub(crate) fn decode(b: &[u8]) -> Result<FileHeader, Flaw> {
        if b.len() < BYTES {
            return Err("shorter than its header");
        }
        let kind = Kind::of_magic(Layout::MAGIC.get(b).0).ok_or("unknown magic")?;
        if crc32fast::hash(&b[Layout::CRC.end()..BYTES]) != Layout::CRC.get(b) {
            return Err("header checksum mismatch");
        }
        let header = FileHeader {
            kind,
            read_version: Layout::READ_VERSION.get(b),
            write_version: Layout::WRITE_VERSION.get(b),
            store_id: Layout::STORE_ID.get(b),
            ordinal: Layout::ORDINAL.get(b),
            created_ms: Layout::CREATED_MS.get(b),
            floor: Layout::FLOOR.get(b),
            is_output: Layout::IS_OUTPUT.get(b) == 1,
            level: Layout::LEVEL.get(b),
        };
        if header.read_version == 0 {
            return Err("format version 0");
        }
        // The meaning of these bytes in a newer format is unknown.
        if header.read_version <= FORMAT_VERSION {
            if Layout::IS_OUTPUT.get(b) > 1 || !is_reserved_zero(Layout::ROWS, b) {
                return Err("reserved header bytes are not zero");
            }
            if header.ordinal > MAX_ORDINAL || header.floor > MAX_SEQUENCE {
                return Err("ordinal or floor is out of range");
            }
        }
        if kind != Kind::Values && !all_zero(&b[Layout::FLOOR.at..Layout::LEVEL.end()]) {
            return Err("floor, origin or level in a file that is not a value segment");
        }
        Ok(header)
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
