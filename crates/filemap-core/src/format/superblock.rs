//! The superblock: what the store is, and its last checkpoint. Two copies, written in turn, 4096 bytes apart; each is one
//! sector of 512 bytes, which reaches the disk whole or not at all.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic `FILEMAP\0` |
//! | 8 | 4 | CRC-32 of bytes 12..512 |
//! | 12 | 2 | format version that a reader must know |
//! | 14 | 2 | format version that a writer must know |
//! | 16 | 16 | store id |
//! | 32 | 8 | seed of the key hash |
//! | 40 | 4 | segment size in bytes |
//! | 44 | 4 | canonicaliser version |
//! | 48 | 32 | canonicaliser name, NUL-padded |
//! | 80 | 8 | time of creation, ms since 1970 |
//! | 88 | 8 | epoch: 1 at creation, one more with every write of the superblock; copy 0 has even ones, copy 1 odd ones |
//! | 96 | 8 | tail: ordinal of the segment up to which the value log is in the index |
//! | 104 | 8 | tail: byte offset in that segment |
//! | 112 | 8 | next sequence at the tail |
//! | 120 | 8 | key tail: ordinal of the last segment of the key log that the index leads to |
//! | 128 | 8 | length of address.idx in pages |
//! | 136 | 4 | root node page of the directory, 0 for none |
//! | 140 | 1 | directory depth: it has 2^depth entries |
//! | 141 | 3 | reserved, zero |
//! | 144 | 8 | leaf pages in use |
//! | 152 | 8 | keys in the index |
//! | 160 | 8 | versions in the index, as they were put |
//! | 168 | 8 | greatest time of any version in the index |
//! | 176 | 8 | epoch at which something was last dropped that a reader may have seen, by a recovery or a prune; 0 if never |
//! | 184 | 4 | root page of the segment table, 0 for none |
//! | 188 | 4 | number of its words |
//! | 192 | 8 | key tail: byte offset in that segment |
//! | 200 | 4 | highest id of a dictionary up to then, 0 for none: it is not given again, whatever becomes of the file |
//! | 204 | 4 | reserved, zero |
//! | 208 | 8 | generation of the file RULES that is there at least, 0 for none |
//! | 216 | 288 | reserved, zero: a write that ends in the middle of the sector leaves a whole superblock |
//! | 504 | 8 | zero; earlier builds wrote the generation of RULES here, and the greater of the two counts |

use super::{FORMAT_VERSION, Flaw, PAGE_BYTES, all_zero, get_16, get_u16, get_u32, get_u64, header, key, leaf, put};
use crate::options::Canonicalizer;
use crate::record::MAX_SEQUENCE;

pub(crate) const BYTES: usize = 512;
/// Byte offsets of the two copies.
pub(crate) const COPIES: [u64; 2] = [0, PAGE_BYTES as u64];
const MAGIC: &[u8; 8] = b"FILEMAP\0";

/// A place in the order of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tail {
    /// Ordinal of the segment.
    pub(crate) ordinal: u64,
    /// Byte offset in it.
    pub(crate) offset: u64,
}

/// The index as of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRoot {
    pub(crate) pages: u64,
    pub(crate) root: u32,
    pub(crate) depth: u8,
    pub(crate) leaves: u64,
    pub(crate) keys: u64,
    /// Root page of the segment table, 0 for none.
    pub(crate) table: u32,
    /// Words of the table.
    pub(crate) table_words: u32,
}

impl IndexRoot {
    /// That of a new store.
    pub(crate) fn empty() -> IndexRoot {
        IndexRoot { pages: 1, root: 0, depth: leaf::MIN_DEPTH, leaves: 0, keys: 0, table: 0, table_words: 0 }
    }
}

/// A decoded superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) read_version: u16,
    /// As found; what is written is always this program's.
    pub(crate) write_version: u16,
    pub(crate) store_id: [u8; 16],
    pub(crate) hash_seed: u64,
    pub(crate) segment_bytes: u32,
    pub(crate) canonicalizer: Canonicalizer,
    pub(crate) created_ms: i64,
    pub(crate) epoch: u64,
    pub(crate) tail: Tail,
    pub(crate) next_sequence: u64,
    /// What lies further in the key log counts for nothing.
    pub(crate) key_tail: Tail,
    pub(crate) index: IndexRoot,
    pub(crate) versions: u64,
    pub(crate) max_time_ms: i64,
    pub(crate) dropped_epoch: u64,
    pub(crate) last_dictionary: u32,
    pub(crate) rules: u64,
}

impl Superblock {
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut b = [0; BYTES];
        put(&mut b, 0, MAGIC);
        put(&mut b, 12, &self.read_version.to_le_bytes());
        put(&mut b, 14, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 16, &self.store_id);
        put(&mut b, 32, &self.hash_seed.to_le_bytes());
        put(&mut b, 40, &self.segment_bytes.to_le_bytes());
        put(&mut b, 44, &self.canonicalizer.version.to_le_bytes());
        put(&mut b, 48, self.canonicalizer.name.as_bytes());
        put(&mut b, 80, &self.created_ms.to_le_bytes());
        let words = [
            self.epoch,
            self.tail.ordinal,
            self.tail.offset,
            self.next_sequence,
            self.key_tail.ordinal,
            self.index.pages,
            u64::from(self.index.root) | u64::from(self.index.depth) << 32,
            self.index.leaves,
            self.index.keys,
            self.versions,
            self.max_time_ms.cast_unsigned(),
            self.dropped_epoch,
            u64::from(self.index.table) | u64::from(self.index.table_words) << 32,
            self.key_tail.offset,
            u64::from(self.last_dictionary),
            self.rules,
        ];
        for (i, word) in words.iter().enumerate() {
            put(&mut b, 88 + 8 * i, &word.to_le_bytes());
        }
        let crc = crc32fast::hash(&b[12..]);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Result<Superblock, Flaw> {
        if b.len() < BYTES {
            return Err("superblock is cut off");
        }
        if &b[..8] != MAGIC {
            return Err("unknown magic");
        }
        if crc32fast::hash(&b[12..BYTES]) != get_u32(b, 8) {
            return Err("superblock checksum does not match");
        }
        let read_version = get_u16(b, 12);
        if read_version == 0 {
            return Err("format version 0");
        }
        // What a newer format means by the rest is not known here: its version is what matters.
        if read_version <= FORMAT_VERSION {
            check_ranges(b)?;
        }
        let name = b[48..80].split(|&c| c == 0).next().unwrap_or_default();
        let word = |i: usize| get_u64(b, 88 + 8 * i);
        Ok(Superblock {
            read_version,
            write_version: get_u16(b, 14),
            store_id: get_16(b, 16),
            hash_seed: get_u64(b, 32),
            segment_bytes: get_u32(b, 40),
            canonicalizer: Canonicalizer { name: String::from_utf8_lossy(name).into_owned(), version: get_u32(b, 44) },
            created_ms: get_u64(b, 80).cast_signed(),
            epoch: word(0),
            tail: Tail { ordinal: word(1), offset: word(2) },
            next_sequence: word(3),
            key_tail: Tail { ordinal: word(4), offset: word(13) },
            index: IndexRoot {
                pages: word(5),
                root: get_u32(b, 136),
                depth: b[140],
                leaves: word(7),
                keys: word(8),
                table: get_u32(b, 184),
                table_words: get_u32(b, 188),
            },
            versions: word(9),
            max_time_ms: word(10).cast_signed(),
            dropped_epoch: word(11),
            last_dictionary: get_u32(b, 200),
            // Earlier builds wrote it at the end.
            rules: word(15).max(get_u64(b, 504)),
        })
    }
}

/// Whether the fields of a superblock of this format say what can be.
fn check_ranges(b: &[u8]) -> Result<(), Flaw> {
    if !(all_zero(&b[141..144]) && all_zero(&b[204..208]) && all_zero(&b[216..504])) {
        return Err("reserved superblock bytes are not zero");
    }
    if !(4096..=1 << 30).contains(&get_u32(b, 40)) {
        return Err("segment size is out of range");
    }
    let word = |i: usize| get_u64(b, 88 + 8 * i);
    let offset = word(2);
    if !(header::BYTES as u64..=1 << 30).contains(&offset) || !offset.is_multiple_of(64) {
        return Err("tail is out of range");
    }
    let offset = word(13);
    if !(header::BYTES as u64..=key::MAX_SEGMENT_BYTES).contains(&offset) || !offset.is_multiple_of(key::UNIT_BYTES) {
        return Err("key tail is out of range");
    }
    if word(3) > MAX_SEQUENCE {
        return Err("sequence is out of range");
    }
    // What counts up by one never comes near this, and must not overflow.
    if word(0) > MAX_SEQUENCE || word(1).max(word(4)) > header::MAX_ORDINAL || word(9) > MAX_SEQUENCE {
        return Err("epoch, ordinal or number of versions is out of range");
    }
    if word(5) > u64::from(u32::MAX) || word(7) > word(5) || word(8) > word(7) * leaf::CAPACITY as u64 {
        return Err("size of the index is out of range");
    }
    // Four words for each of 65,536 segments of either log, and for no more dictionaries than that.
    if get_u32(b, 188) > 12 << 16 || (get_u32(b, 184) == 0) != (get_u32(b, 188) == 0) {
        return Err("segment table is out of range");
    }
    let (name, padding) = b[48..80].split_at(b[48..80].iter().position(|&c| c == 0).unwrap_or(0));
    if name.is_empty() || !all_zero(padding) || str::from_utf8(name).is_err() {
        return Err("canonicaliser name is empty, not padded or not text");
    }
    Ok(())
}

#[cfg(test)]
pub(crate) fn example() -> Superblock {
    Superblock {
        read_version: FORMAT_VERSION,
        write_version: FORMAT_VERSION,
        store_id: [3; 16],
        hash_seed: 0x0123_4567_89ab_cdef,
        segment_bytes: 1 << 30,
        canonicalizer: Canonicalizer { name: "whatwg".into(), version: 2 },
        created_ms: 1_700_000_000_000,
        epoch: 9,
        tail: Tail { ordinal: 4, offset: 640 },
        next_sequence: 77,
        key_tail: Tail { ordinal: 2, offset: 4096 },
        index: IndexRoot { pages: 12, root: 5, depth: 8, leaves: 6, keys: 1000, table: 4, table_words: 9 },
        versions: 1010,
        max_time_ms: -1,
        dropped_epoch: 3,
        last_dictionary: 11,
        rules: 13,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_comes_back_and_any_changed_byte_is_noticed() {
        let bytes = example().encode();
        assert_eq!(Superblock::decode(&bytes).unwrap(), example());
        for at in 0..BYTES {
            let mut bad = bytes;
            bad[at] ^= 0x10;
            assert!(Superblock::decode(&bad).is_err(), "byte {at}");
        }
        assert!(Superblock::decode(&bytes[..511]).is_err());
    }

    #[test]
    fn a_superblock_of_which_half_was_written_is_whole() {
        let before = Superblock { epoch: 7, rules: 12, last_dictionary: 9, versions: 1, ..example() };
        let mut bytes = before.encode();
        bytes[..BYTES / 2].copy_from_slice(&example().encode()[..BYTES / 2]);
        assert_eq!(Superblock::decode(&bytes).unwrap(), example());
    }

    #[test]
    fn the_generation_of_the_rules_is_read_from_its_old_place_too() {
        let mut bytes = Superblock { rules: 0, ..example() }.encode();
        put(&mut bytes, 504, &13u64.to_le_bytes());
        let crc = crc32fast::hash(&bytes[12..]);
        put(&mut bytes, 8, &crc.to_le_bytes());
        assert_eq!(Superblock::decode(&bytes).unwrap(), example());
    }

    #[test]
    fn a_superblock_out_of_range_is_refused_though_its_checksum_is_right() {
        let spoil: [fn(&mut Superblock); 11] = [
            |s| s.epoch = u64::MAX,
            |s| s.tail.ordinal = u64::MAX,
            |s| s.tail.offset = 0, // a filler there would cover the segment's header
            |s| s.key_tail.ordinal = u64::MAX,
            |s| s.key_tail.offset = 0,
            |s| s.key_tail.offset += 8,
            |s| s.versions = u64::MAX,
            |s| s.index.pages = 1 << 33,
            |s| s.index.leaves = s.index.pages + 1,
            |s| s.index.keys = u64::MAX,
            |s| s.canonicalizer.name = String::new(),
        ];
        for (nth, spoil) in spoil.iter().enumerate() {
            let mut superblock = example();
            spoil(&mut superblock);
            assert!(Superblock::decode(&superblock.encode()).is_err(), "{nth}");
        }
        for at in [48, 79] {
            let mut bytes = example().encode();
            bytes[at] = 0xff;
            let crc = crc32fast::hash(&bytes[12..]);
            put(&mut bytes, 8, &crc.to_le_bytes());
            assert!(Superblock::decode(&bytes).is_err(), "byte {at} of the name");
        }
    }
}
