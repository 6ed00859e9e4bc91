//! The superblock: the store's identity and its last checkpoint.
//!
//! Two copies, written in turn, lie 4096 bytes apart. Each is one sector of 512 bytes, which
//! reaches the disk atomically.

use filemap_io::layout::{Secret, Text, Zeros, is_reserved_zero};

use super::{FORMAT_VERSION, Flaw, PAGE_BYTES, all_zero, header, key, leaf};
use crate::options::Canonicalizer;
use crate::record::MAX_SEQUENCE;

filemap_io::layout! {
    /// One copy of the superblock.
    pub(crate) struct Layout {
        0 MAGIC: Text<8> = "magic `FILEMAP\\0`";
        8 CRC: u32 = "CRC-32 of bytes 12..512";
        12 READ_VERSION: u16 = "format version that a reader must know";
        14 WRITE_VERSION: u16 = "format version that a writer must know";
        16 STORE_ID: [u8; 16] = "store id";
        32 HASH_SEED: Secret<u64> = "seed of the key hash";
        40 SEGMENT_BYTES: u32 = "segment size in bytes";
        44 CANONICALIZER_VERSION: u32 = "canonicaliser version";
        48 CANONICALIZER: Text<32> = "canonicaliser name, NUL-padded";
        80 CREATED_MS: i64 = "time of creation, ms since 1970";
        88 EPOCH: u64 = "epoch: 1 at creation, one more with every write of the superblock, after a recovery some more; copy 0 has even ones, copy 1 odd ones";
        96 TAIL_ORDINAL: u64 = "tail: ordinal of the segment up to which the value log is in the index";
        104 TAIL_OFFSET: u64 = "tail: byte offset in that segment";
        112 NEXT_SEQUENCE: u64 = "next sequence at the tail";
        120 KEY_TAIL_ORDINAL: u64 = "key tail: ordinal of the last segment of the key log that the index leads to";
        128 INDEX_PAGES: u64 = "length of address.idx in pages";
        136 INDEX_ROOT: u32 = "root node page of the directory, 0 for none";
        140 INDEX_DEPTH: u8 = "directory depth: it has 2^depth entries";
        141 RESERVED_1: Zeros<3> = "reserved, zero";
        144 INDEX_LEAVES: u64 = "leaf pages in use";
        152 INDEX_KEYS: u64 = "keys in the index";
        160 VERSIONS: u64 = "versions in the index, as they were put";
        168 MAX_TIME_MS: i64 = "greatest time of any version in the index";
        176 DROPPED_EPOCH: u64 = "epoch at which something was last dropped that a follower may have seen, by a recovery or a prune; 0 if never";
        184 TABLE: u32 = "root page of the segment table, 0 for none";
        188 TABLE_WORDS: u32 = "number of its words";
        192 KEY_TAIL_OFFSET: u64 = "key tail: byte offset in that segment";
        200 LAST_DICTIONARY: u32 = "highest dictionary id ever used, 0 for none; ids are not reused";
        204 IS_COUNTED: u8 = "1 if the number of counted keys is known, 0 if not";
        205 RESERVED_2: Zeros<3> = "reserved, zero";
        208 RULES: u64 = "generation of the file RULES that is there at least, 0 for none";
        216 COUNTED: u64 = "counted keys in the index, by the program's own rule (of pages: the URLs that have one); 0 if not known";
        224 RUNS: u32 = "root page of the list of runs, 0 for none";
        228 RUNS_WORDS: u32 = "number of its words";
        232 LIFE: u64 = "random number: another one after each recovery that dropped anything, each repair, and in each backup";
        240 REMOVALS_FROM: u64 = "sequence from which on every tombstone is still in the value log";
        248 RESERVED_3: Zeros<256> = "reserved, zero: a write that ends in the middle of the sector leaves a whole superblock";
        504 OLD_RULES: u64 = "zero; earlier builds wrote the generation of RULES here, and the greater of the two counts";
    }
}

pub(crate) const BYTES: usize = Layout::BYTES;
/// Byte offsets of the two copies.
pub(crate) const COPIES: [u64; 2] = [0, PAGE_BYTES as u64];
pub(crate) const MAGIC: &[u8; 8] = b"FILEMAP\0";

/// The flaws of bytes that FileMap may never have written.
pub(crate) const UNKNOWN_MAGIC: Flaw = "unknown magic";
pub(crate) const CUT_OFF: Flaw = "superblock is cut off";

/// A position in the order of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tail {
    /// Ordinal of the segment.
    pub(crate) ordinal: u64,
    /// Byte offset in it.
    pub(crate) offset: u64,
}

/// The index as a superblock names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRoot {
    pub(crate) pages: u64,
    pub(crate) root: u32,
    pub(crate) depth: u8,
    pub(crate) leaves: u64,
    pub(crate) keys: u64,
    /// Keys that [`Options::counted`](crate::Options::counted) counts; `None` if not known.
    pub(crate) counted: Option<u64>,
    /// Root page of the segment table, 0 for none.
    pub(crate) table: u32,
    /// Number of words of the table.
    pub(crate) table_words: u32,
    /// Root page of the list of runs, 0 for none.
    pub(crate) runs: u32,
    /// Number of words of the list.
    pub(crate) runs_words: u32,
}

impl IndexRoot {
    /// The root of a new store.
    pub(crate) fn empty() -> IndexRoot {
        let (depth, counted) = (leaf::MIN_DEPTH, Some(0));
        let (table, runs) = (0, 0);
        IndexRoot { pages: 1, root: 0, depth, leaves: 0, keys: 0, counted, table, table_words: 0, runs, runs_words: 0 }
    }

    fn encode(&self, b: &mut [u8]) {
        Layout::INDEX_PAGES.put(b, self.pages);
        Layout::INDEX_ROOT.put(b, self.root);
        Layout::INDEX_DEPTH.put(b, self.depth);
        Layout::INDEX_LEAVES.put(b, self.leaves);
        Layout::INDEX_KEYS.put(b, self.keys);
        Layout::IS_COUNTED.put(b, u8::from(self.counted.is_some()));
        Layout::COUNTED.put(b, self.counted.unwrap_or(0));
        Layout::TABLE.put(b, self.table);
        Layout::TABLE_WORDS.put(b, self.table_words);
        Layout::RUNS.put(b, self.runs);
        Layout::RUNS_WORDS.put(b, self.runs_words);
    }

    fn decode(b: &[u8]) -> IndexRoot {
        IndexRoot {
            pages: Layout::INDEX_PAGES.get(b),
            root: Layout::INDEX_ROOT.get(b),
            depth: Layout::INDEX_DEPTH.get(b),
            leaves: Layout::INDEX_LEAVES.get(b),
            keys: Layout::INDEX_KEYS.get(b),
            counted: (Layout::IS_COUNTED.get(b) == 1).then(|| Layout::COUNTED.get(b)),
            table: Layout::TABLE.get(b),
            table_words: Layout::TABLE_WORDS.get(b),
            runs: Layout::RUNS.get(b),
            runs_words: Layout::RUNS_WORDS.get(b),
        }
    }
}

/// A decoded superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) read_version: u16,
    /// Format version as read; `encode` always writes this program's.
    pub(crate) write_version: u16,
    pub(crate) store_id: [u8; 16],
    pub(crate) hash_seed: u64,
    pub(crate) segment_bytes: u32,
    pub(crate) canonicalizer: Canonicalizer,
    pub(crate) created_ms: i64,
    pub(crate) epoch: u64,
    pub(crate) tail: Tail,
    pub(crate) next_sequence: u64,
    /// End of the key log; bytes beyond it do not count.
    pub(crate) key_tail: Tail,
    pub(crate) index: IndexRoot,
    pub(crate) versions: u64,
    pub(crate) max_time_ms: i64,
    pub(crate) dropped_epoch: u64,
    pub(crate) last_dictionary: u32,
    pub(crate) rules: u64,
    /// Identifies a history of the store in which nothing durable was ever taken back.
    pub(crate) life: u64,
    /// Compaction has dropped no tombstone with this sequence or a greater one.
    pub(crate) removals_from: u64,
}

impl Superblock {
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut b = [0; BYTES];
        Layout::MAGIC.put(&mut b, Text(*MAGIC));
        Layout::READ_VERSION.put(&mut b, self.read_version);
        Layout::WRITE_VERSION.put(&mut b, FORMAT_VERSION);
        Layout::STORE_ID.put(&mut b, self.store_id);
        Layout::HASH_SEED.put(&mut b, Secret(self.hash_seed));
        Layout::SEGMENT_BYTES.put(&mut b, self.segment_bytes);
        Layout::CANONICALIZER_VERSION.put(&mut b, self.canonicalizer.version);
        let name = self.canonicalizer.name.as_bytes();
        b[Layout::CANONICALIZER.at..][..name.len()].copy_from_slice(name);
        Layout::CREATED_MS.put(&mut b, self.created_ms);
        Layout::EPOCH.put(&mut b, self.epoch);
        Layout::TAIL_ORDINAL.put(&mut b, self.tail.ordinal);
        Layout::TAIL_OFFSET.put(&mut b, self.tail.offset);
        Layout::NEXT_SEQUENCE.put(&mut b, self.next_sequence);
        Layout::KEY_TAIL_ORDINAL.put(&mut b, self.key_tail.ordinal);
        Layout::KEY_TAIL_OFFSET.put(&mut b, self.key_tail.offset);
        self.index.encode(&mut b);
        Layout::VERSIONS.put(&mut b, self.versions);
        Layout::MAX_TIME_MS.put(&mut b, self.max_time_ms);
        Layout::DROPPED_EPOCH.put(&mut b, self.dropped_epoch);
        Layout::LAST_DICTIONARY.put(&mut b, self.last_dictionary);
        Layout::RULES.put(&mut b, self.rules);
        Layout::LIFE.put(&mut b, self.life);
        Layout::REMOVALS_FROM.put(&mut b, self.removals_from);
        let crc = crc32fast::hash(&b[Layout::CRC.end()..]);
        Layout::CRC.put(&mut b, crc);
        b
    }

    pub(crate) fn decode(b: &[u8]) -> Result<Superblock, Flaw> {
        if b.len() < BYTES {
            return Err(CUT_OFF);
        }
        if Layout::MAGIC.get(b).0 != *MAGIC {
            return Err(UNKNOWN_MAGIC);
        }
        if crc32fast::hash(&b[Layout::CRC.end()..BYTES]) != Layout::CRC.get(b) {
            return Err("superblock checksum mismatch");
        }
        let name = Layout::CANONICALIZER.get(b).0;
        let name = name.split(|&c| c == 0).next().unwrap_or_default();
        let superblock = Superblock {
            read_version: Layout::READ_VERSION.get(b),
            write_version: Layout::WRITE_VERSION.get(b),
            store_id: Layout::STORE_ID.get(b),
            hash_seed: Layout::HASH_SEED.get(b).0,
            segment_bytes: Layout::SEGMENT_BYTES.get(b),
            canonicalizer: Canonicalizer {
                name: String::from_utf8_lossy(name).into_owned(),
                version: Layout::CANONICALIZER_VERSION.get(b),
            },
            created_ms: Layout::CREATED_MS.get(b),
            epoch: Layout::EPOCH.get(b),
            tail: Tail { ordinal: Layout::TAIL_ORDINAL.get(b), offset: Layout::TAIL_OFFSET.get(b) },
            next_sequence: Layout::NEXT_SEQUENCE.get(b),
            key_tail: Tail { ordinal: Layout::KEY_TAIL_ORDINAL.get(b), offset: Layout::KEY_TAIL_OFFSET.get(b) },
            index: IndexRoot::decode(b),
            versions: Layout::VERSIONS.get(b),
            max_time_ms: Layout::MAX_TIME_MS.get(b),
            dropped_epoch: Layout::DROPPED_EPOCH.get(b),
            last_dictionary: Layout::LAST_DICTIONARY.get(b),
            rules: Layout::RULES.get(b).max(Layout::OLD_RULES.get(b)),
            life: Layout::LIFE.get(b),
            removals_from: Layout::REMOVALS_FROM.get(b),
        };
        if superblock.read_version == 0 {
            return Err("format version 0");
        }
        // The meaning of the rest in a newer format is unknown; only its version matters.
        if superblock.read_version <= FORMAT_VERSION {
            if !is_reserved_zero(Layout::ROWS, b) {
                return Err("reserved superblock bytes are not zero");
            }
            if Layout::IS_COUNTED.get(b) > 1 || Layout::COUNTED.get(b) != superblock.index.counted.unwrap_or(0) {
                return Err("number of counted keys contradicts its flag");
            }
            superblock.check_ranges()?;
            check_name(&Layout::CANONICALIZER.get(b).0)?;
        }
        Ok(superblock)
    }

    /// Checks the fields of a superblock of this format.
    fn check_ranges(&self) -> Result<(), Flaw> {
        if !(4096..=1 << 30).contains(&self.segment_bytes) {
            return Err("segment size is out of range");
        }
        let offset = self.tail.offset;
        if !(header::BYTES as u64..=1 << 30).contains(&offset) || !offset.is_multiple_of(64) {
            return Err("tail is out of range");
        }
        let offset = self.key_tail.offset;
        let key_bytes = header::BYTES as u64..=key::MAX_SEGMENT_BYTES;
        if !key_bytes.contains(&offset) || !offset.is_multiple_of(key::UNIT_BYTES) {
            return Err("key tail is out of range");
        }
        if !(1..=MAX_SEQUENCE).contains(&self.next_sequence) {
            return Err("sequence is out of range");
        }
        // Counters never come near these limits, and incrementing them cannot overflow.
        let ordinal = self.tail.ordinal.max(self.key_tail.ordinal);
        if self.epoch.max(self.versions) > MAX_SEQUENCE || ordinal > header::MAX_ORDINAL {
            return Err("epoch, ordinal or number of versions is out of range");
        }
        let index = &self.index;
        // In this order, so that `leaves` is small enough to be multiplied.
        let has_room = index.pages <= u64::from(u32::MAX)
            && index.leaves <= index.pages
            && index.keys <= index.pages * leaf::CAPACITY as u64;
        if !has_room || index.counted.is_some_and(|n| n > index.keys) {
            return Err("size of the index is out of range");
        }
        // Four words an entry: 65,536 segments of either log, as many dictionaries, and the
        // ordered runs.
        if index.table_words > 13 << 16 || (index.table == 0) != (index.table_words == 0) {
            return Err("segment table is out of range");
        }
        if u64::from(index.runs_words) > index.pages * 4 || (index.runs == 0) != (index.runs_words == 0) {
            return Err("list of runs is out of range");
        }
        Ok(())
    }
}

fn check_name(name: &[u8; 32]) -> Result<(), Flaw> {
    let (name, padding) = name.split_at(name.iter().position(|&c| c == 0).unwrap_or(0));
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
        index: IndexRoot {
            pages: 12,
            root: 5,
            depth: 8,
            leaves: 6,
            keys: 1000,
            counted: Some(990),
            table: 4,
            table_words: 9,
            runs: 3,
            runs_words: 8,
        },
        versions: 1010,
        max_time_ms: -1,
        dropped_epoch: 3,
        last_dictionary: 11,
        rules: 13,
        life: 0xfeed,
        removals_from: 21,
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
    fn the_generation_of_the_rules_is_read_from_its_old_place_and_written_to_its_new_one() {
        let mut bytes = Superblock { rules: 0, ..example() }.encode();
        Layout::OLD_RULES.put(&mut bytes, 13);
        let crc = crc32fast::hash(&bytes[12..]);
        Layout::CRC.put(&mut bytes, crc);
        let superblock = Superblock::decode(&bytes).unwrap();
        assert_eq!((&superblock, superblock.encode()), (&example(), example().encode()));
    }

    #[test]
    fn a_superblock_out_of_range_is_refused_though_its_checksum_is_right() {
        let spoil: [fn(&mut Superblock); 14] = [
            |s| s.next_sequence = 0,
            |s| s.epoch = u64::MAX,
            |s| s.tail.ordinal = u64::MAX,
            |s| s.tail.offset = 0, // a filler there would cover the segment's header
            |s| s.key_tail.ordinal = u64::MAX,
            |s| s.key_tail.offset = 0,
            |s| s.key_tail.offset += 8,
            |s| s.versions = u64::MAX,
            |s| s.index.pages = 1 << 33,
            |s| (s.index.pages, s.index.leaves) = (u64::MAX, u64::MAX),
            |s| s.index.leaves = s.index.pages + 1,
            |s| s.index.keys = u64::MAX,
            |s| s.index.counted = Some(s.index.keys + 1),
            |s| s.canonicalizer.name = String::new(),
        ];
        for (nth, spoil) in spoil.iter().enumerate() {
            let mut superblock = example();
            spoil(&mut superblock);
            assert!(Superblock::decode(&superblock.encode()).is_err(), "{nth}");
        }
        // In the name of the canonicaliser, and the flag of the counted keys.
        for (at, byte) in [(48, 0xff), (79, 0xff), (Layout::IS_COUNTED.at, 2), (Layout::IS_COUNTED.at, 0)] {
            let mut bytes = example().encode();
            bytes[at] = byte;
            let crc = crc32fast::hash(&bytes[12..]);
            Layout::CRC.put(&mut bytes, crc);
            assert!(Superblock::decode(&bytes).is_err(), "byte {at}");
        }
    }
}
