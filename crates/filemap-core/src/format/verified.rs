//! The file VERIFIED: time and result of the last full verification, for information only; the
//! engine does not rely on it.
//!
//! Also the head and the frames of the file VERIFYING, the progress of a resumable verification.

use filemap_io::layout::{Text, Zeros, is_reserved_zero};

use super::Flaw;

filemap_io::layout! {
    /// The file VERIFIED.
    pub(crate) struct Layout {
        0 MAGIC: Text<8> = "magic `FMSEEN\\0\\0`";
        8 CRC: u32 = "CRC-32 of bytes 12..64";
        12 RESERVED: Zeros<4> = "reserved, zero";
        16 STORE_ID: [u8; 16] = "store id";
        32 ENDED_MS: i64 = "time at which the last full verification ended, ms since 1970";
        40 READ_BYTES: u64 = "bytes that it read";
        48 PROBLEMS: u64 = "damaged places that it found";
        56 BEGUN_MS: i64 = "time at which it began, ms since 1970";
    }
}

filemap_io::layout! {
    /// The head of the file VERIFYING.
    pub(crate) struct UnderWayLayout {
        0 MAGIC: Text<8> = "magic `FMCHECK1`";
        8 STORE_ID: [u8; 16] = "store id";
        24 BEGUN_MS: i64 = "time at which it began, ms since 1970";
        32 CRC: u32 = "CRC-32 of bytes 0..32";
    }
}

filemap_io::layout! {
    /// The findings of a segment in the file VERIFYING.
    pub(crate) struct FrameLayout {
        0 LENGTH: u32 = "length of the numbers in bytes";
        4 CRC: u32 = "CRC-32 of the numbers";
        .. "8", "" = "numbers of the findings, LEB128";
    }
}

pub(crate) const BYTES: usize = Layout::BYTES;
pub(crate) const MAGIC: &[u8; 8] = b"FMSEEN\0\0";
/// Bytes of the head of VERIFYING.
pub(crate) const UNDER_WAY_BYTES: usize = UnderWayLayout::BYTES;
pub(crate) const UNDER_WAY_MAGIC: &[u8; 8] = b"FMCHECK1";

/// A completed full verification.
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
        Layout::MAGIC.put(&mut b, Text(*MAGIC));
        Layout::STORE_ID.put(&mut b, self.store_id);
        Layout::ENDED_MS.put(&mut b, self.ended_ms);
        Layout::READ_BYTES.put(&mut b, self.bytes);
        Layout::PROBLEMS.put(&mut b, self.problems);
        Layout::BEGUN_MS.put(&mut b, self.begun_ms);
        let crc = crc32fast::hash(&b[Layout::CRC.end()..]);
        Layout::CRC.put(&mut b, crc);
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Result<Verified, Flaw> {
        if b.len() < BYTES || Layout::MAGIC.get(b).0 != *MAGIC {
            return Err("unknown magic");
        }
        if crc32fast::hash(&b[Layout::CRC.end()..BYTES]) != Layout::CRC.get(b) {
            return Err("checksum mismatch");
        }
        if !is_reserved_zero(Layout::ROWS, b) {
            return Err("reserved bytes are not zero");
        }
        Ok(Verified {
            store_id: Layout::STORE_ID.get(b),
            ended_ms: Layout::ENDED_MS.get(b),
            bytes: Layout::READ_BYTES.get(b),
            problems: Layout::PROBLEMS.get(b),
            begun_ms: Layout::BEGUN_MS.get(b),
        })
    }
}

/// A full verification in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub(crate) store_id: [u8; 16],
    pub(crate) begun_ms: i64,
}

impl UnderWay {
    pub(crate) fn encode(&self) -> [u8; UNDER_WAY_BYTES] {
        let mut b = [0; UNDER_WAY_BYTES];
        UnderWayLayout::MAGIC.put(&mut b, Text(*UNDER_WAY_MAGIC));
        UnderWayLayout::STORE_ID.put(&mut b, self.store_id);
        UnderWayLayout::BEGUN_MS.put(&mut b, self.begun_ms);
        let crc = crc32fast::hash(&b[..UnderWayLayout::CRC.at]);
        UnderWayLayout::CRC.put(&mut b, crc);
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Result<UnderWay, Flaw> {
        if b.len() < UNDER_WAY_BYTES || UnderWayLayout::MAGIC.get(b).0 != *UNDER_WAY_MAGIC {
            return Err("unknown magic");
        }
        if crc32fast::hash(&b[..UnderWayLayout::CRC.at]) != UnderWayLayout::CRC.get(b) {
            return Err("checksum mismatch");
        }
        Ok(UnderWay { store_id: UnderWayLayout::STORE_ID.get(b), begun_ms: UnderWayLayout::BEGUN_MS.get(b) })
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
