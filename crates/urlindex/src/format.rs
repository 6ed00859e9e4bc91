//! Bytes of a seen set's files but runs: the fields of each record, declared once. docs/SEEN.md
//! shows the same tables, held equal by a test.
//!
//! Numbers are little-endian, reserved bytes zero.

use filemap_io::header::Kind;
use filemap_io::layout;
use filemap_io::layout::Zeros;

/// File of a Bloom filter.
pub(crate) const BLOOM: Kind = Kind { magic: *b"FMBLOOM1", version: 1, what: "Bloom filter" };
/// File of a growing filter.
pub(crate) const GROWING: Kind = Kind { magic: *b"FMGROWF2", version: 1, what: "growing filter" };
/// List of known false positives.
pub(crate) const KNOWN: Kind = Kind { magic: *b"FMKNOWN1", version: 1, what: "list of known false positives" };
/// Sidecar of a bitmap.
pub(crate) const SIDECAR: Kind = Kind { magic: *b"FMMD5MAP", version: 1, what: "sidecar of a bitmap" };
/// File of a trie.
pub(crate) const TRIE: Kind = Kind { magic: *b"FMTRIE02", version: 1, what: "URL trie" };
/// Manifest of a set on disk.
pub(crate) const DISK: Kind = Kind { magic: *b"FMDSET01", version: 1, what: "set of URLs on disk" };
/// Log of a set on disk.
pub(crate) const LOG: Kind = Kind { magic: *b"FMDLOG01", version: 2, what: "log of a set" };

/// File of a journal of requests.
pub(crate) const REQUESTS: Kind = Kind { magic: *b"FMREQST1", version: 1, what: "journal of requests to a set" };

layout! {
    /// `SET` of kind `bloom`: header.
    pub(crate) struct BloomHeader {
        0 MAGIC: [u8; 8] = "magic `FMBLOOM1`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 LAYOUT: u8 = "0 standard, 1 blocked";
        13 FAMILY: u8 = "hash family: 0 XXH3, 1 BKDR, 2 AP, 3 DJB, both with a DJB that begins at 0; 4 AP, 5 DJB";
        14 PROBES: u16 = "probes";
        16 ID: [u8; 16] = "which filter this is: random";
        32 BITS: u64 = "bits";
        40 SEED: u64 = "seed of the hash";
        48 CAPACITY: u64 = "URLs that it is meant for";
        56 URLS: u64 = "URLs in it at the last sync";
        64 OLD: [u8; 8] = "written as 0, not read: early builds had a number here";
        72 RESERVED: Zeros<436> = "reserved, zero";
        508 CRC: u32 = "CRC-32 of the bytes before";
    }
}

layout! {
    /// `SET` of kind `bloom`: sector i after the header.
    pub(crate) struct BloomSector {
        0 WORDS: [u8; 504] = "words 63 i to 63 i + 62 of the bits; zeros behind the last";
        504 RESERVED: Zeros<4> = "reserved, zero";
        508 CRC: u32 = "CRC-32 of the filter's id, i (8 bytes) and the bytes before";
    }
}

layout! {
    /// `SET` of kind `growing`: header; 64 parts follow.
    pub(crate) struct GrowingHeader {
        0 MAGIC: [u8; 8] = "magic `FMGROWF2`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 RESERVED: Zeros<4> = "reserved, zero";
        16 RATE: f64 = "the rate, a double";
        24 SEED: u64 = "seed of the hash";
        32 OLD: [u8; 8] = "written as 0, not read: early builds had a number here";
        40 CRC: u32 = "CRC-32 of the bytes before";
    }
}

layout! {
    /// `SET` of kind `growing`: header of each part. Words of 8 bytes follow: for each layer, the
    /// oldest first, the bits of its fingerprints, the number of its buckets, and their words (an
    /// empty bucket is a word of 0).
    pub(crate) struct GrowingPart {
        0 WORDS: u64 = "words that follow";
        8 CRC: u32 = "CRC-32 of the part's number (8 bytes), the field before and the words";
    }
}

layout! {
    /// `SET.known`: header. URLs follow, each after its length (2 bytes), and the CRC-32 of all
    /// before.
    pub(crate) struct KnownHeader {
        0 MAGIC: [u8; 8] = "magic `FMKNOWN1`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 RESERVED: Zeros<6> = "reserved, zero";
        16 ID: [u8; 16] = "the filter's id";
        32 URLS: u64 = "URLs";
    }
}

layout! {
    /// `SET.meta`: header. If the bitmap is closed, the CRC-32 of each 8 KiB of it follow.
    pub(crate) struct SidecarHeader {
        0 MAGIC: [u8; 8] = "magic `FMMD5MAP`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 BITS: u8 = "n: an MD5 bitmap of 2^n slots; 0: a hash bitmap";
        13 STATE: u8 = "1 open, 2 closed";
        14 FUNCTIONS: u8 = "hash bitmap: its functions, a bit each: 1 BKDR, 2 AP, 4 DJB, 8 DJB from 0";
        15 RESERVED_1: Zeros<1> = "reserved, zero";
        16 ID: [u8; 16] = "which bitmap this is: random";
        32 ONES: u64 = "bits that are set, if closed";
        40 SLOTS: u64 = "hash bitmap: slots";
        48 FILE_BYTES: u64 = "hash bitmap: bytes of its file";
        56 RESERVED_2: Zeros<4> = "reserved, zero";
        60 CRC: u32 = "CRC-32 of all other bytes of the file";
    }
}

layout! {
    /// `SET` of kind `trie`: header; frames follow.
    pub(crate) struct TrieHeader {
        0 MAGIC: [u8; 8] = "magic `FMTRIE02`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 CRC: u32 = "CRC-32 of the bytes before";
    }
}

layout! {
    /// `SET` of kind `trie`: header of each frame.
    pub(crate) struct TrieFrame {
        0 LEN: u32 = "bytes that follow; 0: the last frame, with the number of URLs (8 bytes)";
        4 CRC: u32 = "CRC-32 of the frame's offset (8 bytes), the field before and the bytes";
    }
}

layout! {
    /// `SET` of kind `disk`, the manifest: header. Its runs follow, the oldest first, and the
    /// CRC-32 of all before.
    pub(crate) struct ManifestHeader {
        0 MAGIC: [u8; 8] = "magic `FMDSET01`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 BITS: u16 = "bits of a fingerprint: 64 or 80";
        14 KEYS: u16 = "what they are of: 0 URLs, 1 digests of bodies";
        16 ID: [u8; 16] = "the set's id: random";
        32 SEED: u64 = "seed of the hash";
        40 MAX_AGE_MS: u64 = "the greatest age in ms, or 0";
        48 NEXT_NUMBER: u64 = "number of the next file";
        56 LOG_NUMBER: u64 = "number of the log";
        64 LOG_GENERATION: u64 = "generation of the log";
        72 URLS: u64 = "URLs in the runs";
        80 TOMBSTONES_EVER: u64 = "URLs ever forgotten";
        88 RUNS: u64 = "runs";
        96 BRANCH: u64 = "random, another one in each snapshot";
    }
}

layout! {
    /// `SET` of kind `disk`, the manifest: a run.
    pub(crate) struct ManifestRun {
        0 NUMBER: u64 = "number of its file";
        8 GENERATION: u64 = "generation";
        16 BLOCKS: u64 = "blocks";
        24 URLS: u64 = "URLs";
        32 TOMBSTONES: u64 = "URLs forgotten";
        40 SQUARES: f64 = "sum of the squares of the number of URLs in each class of hosts, a double";
    }
}

layout! {
    /// `SET.NUMBER.log`: header; sectors follow.
    pub(crate) struct LogHeader {
        0 MAGIC: [u8; 8] = "magic `FMDLOG01`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 BITS: u32 = "bits of a fingerprint";
        16 ID: [u8; 16] = "the set's id";
        32 NUMBER: u64 = "the log's number";
        40 NOTE_0: [u8; 16] = "note of how many sectors are durable at least; 0 in version 1";
        56 NOTE_1: [u8; 16] = "another, written in turn with it: the greater one of those that are whole counts";
        72 RESERVED: Zeros<436> = "reserved, zero";
        508 CRC: u32 = "CRC-32 of the bytes before, with zeros in place of the notes";
    }
}

layout! {
    /// `SET.NUMBER.log`: a note.
    pub(crate) struct LogNote {
        0 SECTORS: u64 = "durable sectors";
        8 CRC: u32 = "CRC-32 of the set's id, the log's number, the note's (0 or 1, a byte) and the field before";
        12 RESERVED: Zeros<4> = "reserved, zero";
    }
}

layout! {
    /// `SET.NUMBER.log`: each sector.
    pub(crate) struct LogSector {
        0 CRC: u32 = "CRC-32 of the set's id, the log's number, the sector's number (8 bytes each) and all that follows";
        4 COUNT: u16 = "n, the number of entries: 0 to 45";
        6 RESERVED_1: Zeros<2> = "reserved, zero";
        8 DURABLE: u64 = "sectors that were durable before this one was written";
        16 ENTRIES: [u8; 495] = "n entries of 11 bytes: a fingerprint, its highest byte first, and 1 if it was forgotten";
        511 RESERVED_2: Zeros<1> = "reserved, zero";
    }
}

layout! {
    /// `SET.NUMBER.requests`: header; groups follow, each at a multiple of 8.
    pub(crate) struct RequestsHeader {
        0 MAGIC: [u8; 8] = "magic `FMREQST1`";
        8 READ_VERSION: u16 = "the version that a reader must know";
        10 WRITE_VERSION: u16 = "the version that a writer must know";
        12 KEYS: u8 = "1: its records have keys, which the set may lack; 0: the set has them";
        13 RESERVED_1: Zeros<3> = "reserved, zero";
        16 ID: [u8; 16] = "the journal's id: random";
        32 NUMBER: u64 = "the file's number";
        40 FLOOR_MS: u64 = "ids of times up to this that the journal does not have were forgotten: ms since 1970";
        48 KEYS_OF: u64 = "XXH3 of what the set's keys are: rules of its URLs and, if on disk, bits and seed of fingerprints";
        56 NOTE_0: [u8; 16] = "note of how many bytes of the file are durable at least";
        72 NOTE_1: [u8; 16] = "another, written in turn with it: the greater one of those that are whole counts";
        88 RESERVED_2: Zeros<4> = "reserved, zero";
        92 CRC: u32 = "CRC-32 of the bytes before, with zeros in place of the notes";
    }
}

layout! {
    /// `SET.NUMBER.requests`: a note.
    pub(crate) struct RequestsNote {
        0 BYTES_OF: u64 = "durable bytes";
        8 CRC: u32 = "CRC-32 of the journal's id, the file's number, the note's (0 or 1, a byte) and the field before";
        12 RESERVED: Zeros<4> = "reserved, zero";
    }
}

layout! {
    /// `SET.NUMBER.requests`: header of a group, which one write appends; its records follow.
    pub(crate) struct RequestsGroup {
        0 BYTES_OF: u32 = "bytes of its records";
        4 RECORDS: u32 = "records";
        8 DURABLE: u64 = "bytes of the file that were durable before it was written";
        16 RESERVED: Zeros<4> = "reserved, zero";
        20 CRC: u32 = "CRC-32 of the journal's id, the file's number, the group's place (8 bytes each) and the bytes before";
    }
}

layout! {
    /// `SET.NUMBER.requests`: header of a record. The answers follow, in two bits each, the lowest
    /// first (0 invalid, 1 new, 2 seen, 3 probably seen); then the keys that were new:
    /// fingerprints of 10 bytes, the highest first, or URLs, each after its length (4 bytes).
    pub(crate) struct RequestRecord {
        0 ID: u128 = "the request's id, or 0";
        16 DIGEST: u128 = "XXH3-128 of all that was asked for";
        32 AT_MS: u64 = "when it was answered: ms since 1970";
        40 URLS: u32 = "URLs of the request";
        44 KEY_BYTES: u32 = "bytes of the keys";
        48 KEYS_CRC: u32 = "CRC-32 of the keys";
        52 RESERVED: Zeros<8> = "reserved, zero";
        60 CRC: u32 = "CRC-32 of the journal's id, the file's number, the record's place (8 bytes each), the bytes before and the answers";
    }
}

#[cfg(test)]
mod tests {
    use filemap_io::layout::{Row, markdown};

    fn tables() -> [&'static [Row]; 20] {
        let [run, block, filter, ..] = filemap_runs::layouts();
        [
            super::BloomHeader::ROWS,
            super::BloomSector::ROWS,
            super::GrowingHeader::ROWS,
            super::GrowingPart::ROWS,
            super::KnownHeader::ROWS,
            super::SidecarHeader::ROWS,
            super::TrieHeader::ROWS,
            super::TrieFrame::ROWS,
            super::ManifestHeader::ROWS,
            super::ManifestRun::ROWS,
            super::LogHeader::ROWS,
            super::LogNote::ROWS,
            super::LogSector::ROWS,
            super::RequestsHeader::ROWS,
            super::RequestsNote::ROWS,
            super::RequestsGroup::ROWS,
            super::RequestRecord::ROWS,
            run,
            block,
            filter,
        ]
    }

    #[test]
    fn the_document_has_the_table_of_every_record_and_no_other() {
        let tables = tables();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/SEEN.md");
        let document = std::fs::read_to_string(path).expect("docs/SEEN.md");
        let missing: Vec<String> =
            tables.iter().map(|rows| markdown(rows, &[])).filter(|table| !document.contains(table.as_str())).collect();
        assert!(missing.is_empty(), "docs/SEEN.md lacks:\n{}", missing.join("\n"));
        let found = document.matches("| offset | size | field |").count();
        assert_eq!(found, tables.len());
    }
}
