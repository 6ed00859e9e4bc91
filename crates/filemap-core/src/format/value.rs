//! A record of the value log. Records are self-describing: every other file can be rebuilt from
//! them.
//!
//! The payload of a page or chunk is its body, that of a reference a [`ReferenceLayout`], that of
//! a chunked record a [`ChunkLayout`] per chunk, that of a tombstone of one version a
//! [`RemovedLayout`]. A filler covers bytes that never held a whole record; its payload is
//! arbitrary.

use filemap_io::layout::Zeros;

use super::location::{Location, UNIT_BYTES};
use super::{Flaw, all_zero, seeded_crc};
use crate::record::{MAX_KEY_BYTES, MAX_META_BYTES, MAX_SEQUENCE, MAX_VALUE_BYTES, Version};

filemap_io::layout! {
    /// The fixed part of a record.
    pub(crate) struct Layout {
        0 HEAD_CRC: u32 = "head CRC-32 of bytes 4 to the end of the meta, seeded with store id, segment ordinal and record offset";
        4 PAYLOAD_CRC: u32 = "CRC-32 of the payload, not seeded; 0 for a filler";
        8 KIND: u8 = "kind: 1 page, 2 reference, 3 tombstone, 4 chunk, 5 chunked, 6 filler";
        9 CODEC: u8 = "codec of the payload: 0 raw, 1 zstd, 2 zstd with the dictionary";
        10 META_CODEC: u8 = "codec of the meta: 0 raw, 1 zstd, 2 zstd with the dictionary";
        11 RESERVED: Zeros<1> = "reserved, zero";
        12 DICTIONARY: u32 = "id of the dictionary of payload and meta, 0 if neither needs one";
        16 SEQUENCE: u64 = "sequence";
        24 TIME_MS: i64 = "time, ms since 1970";
        32 BODY_BYTES: u64 = "length of the body, uncompressed; of a chunk, of that chunk";
        40 PAYLOAD_BYTES: u32 = "length of the payload as stored";
        44 META_BYTES: u32 = "length of the meta, uncompressed";
        48 META_STORED_BYTES: u32 = "length of the meta as stored";
        52 KEY_BYTES: u32 = "length of the key";
        56 DIGEST: [u8; 16] = "XXH3-128 of the body; only in a page, a reference and a chunked record";
        .. "56 or 72", "" = "key, meta, payload; then zeros to a multiple of 64";
    }
}

filemap_io::layout! {
    /// The payload of a reference.
    pub(crate) struct ReferenceLayout {
        0 SEQUENCE: u64 = "sequence of the version of the same key that holds the body";
    }
}

filemap_io::layout! {
    /// The payload of a tombstone that removes one version; that of all versions has none.
    pub(crate) struct RemovedLayout {
        0 SEQUENCE: u64 = "sequence of the version of the same key that is removed";
        8 TIME_MS: i64 = "its time, ms since 1970";
        16 DIGEST: [u8; 16] = "XXH3-128 of its body";
        32 PARTED_BELOW: u64 = "references to it with a lower sequence are removed, too: those that stay were put again";
        40 META_HASH: u64 = "XXH3-64 of its meta";
    }
}

filemap_io::layout! {
    /// One entry of a chunked record's payload.
    pub(crate) struct ChunkLayout {
        0 LOCATION: u64 = "location: 24 bits offset in units of 64 bytes, 16 bits segment, 24 bits zero";
        8 RAW_BYTES: u32 = "length, uncompressed";
        12 UNITS: u32 = "length of its record in units of 64 bytes";
    }
}

/// Length of the fixed part, without a digest.
pub(crate) const FIXED_BYTES: usize = Layout::DIGEST.at;
/// Longest body compressed in one piece, in bytes: the most that a reader allocates for one
/// record.
pub(crate) const MAX_PIECE_BYTES: u64 = 64 << 20;
/// Bytes of one entry of a chunked record's payload.
pub(crate) const CHUNK_ENTRY_BYTES: usize = ChunkLayout::BYTES;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Page = 1,
    Reference = 2,
    Tombstone = 3,
    Chunk = 4,
    Chunked = 5,
    Filler = 6,
}

impl Kind {
    pub(crate) const ALL: [Kind; 6] =
        [Kind::Page, Kind::Reference, Kind::Tombstone, Kind::Chunk, Kind::Chunked, Kind::Filler];

    fn of_tag(tag: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| *k as u8 == tag)
    }

    /// Returns true if the record is a readable version of its key.
    pub(crate) fn is_version(self) -> bool {
        matches!(self, Kind::Page | Kind::Reference | Kind::Chunked)
    }
}

/// The version that a tombstone of one version removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) version: Version,
    pub(crate) digest: [u8; 16],
    /// Versions that refer to it and have a lower sequence are removed too: references that stay
    /// were put again with a higher one.
    pub(crate) parted_below: u64,
    /// XXH3-64 of the version's meta.
    pub(crate) meta_hash: u64,
}

impl Removed {
    pub(crate) fn encode(&self) -> [u8; RemovedLayout::BYTES] {
        let mut b = [0; RemovedLayout::BYTES];
        RemovedLayout::SEQUENCE.put(&mut b, self.version.sequence);
        RemovedLayout::TIME_MS.put(&mut b, self.version.time_ms);
        RemovedLayout::DIGEST.put(&mut b, self.digest);
        RemovedLayout::PARTED_BELOW.put(&mut b, self.parted_below);
        RemovedLayout::META_HASH.put(&mut b, self.meta_hash);
        b
    }

    /// Returns whether a version of the same key is removed, given its sequence and the sequence
    /// it refers to.
    pub(crate) fn removes(&self, sequence: u64, refers_to: u64) -> bool {
        let removed = self.version.sequence;
        sequence == removed || (refers_to == removed && sequence < self.parted_below)
    }

    /// Decodes the version that a record removes, if it is a tombstone of one version.
    pub(crate) fn of(header: &Header, record: &[u8]) -> Option<Removed> {
        if header.kind != Kind::Tombstone || header.is_entry() {
            return None;
        }
        let b = record.get(header.payload_at()..)?.get(..RemovedLayout::BYTES)?;
        Some(Removed {
            version: Version { time_ms: RemovedLayout::TIME_MS.get(b), sequence: RemovedLayout::SEQUENCE.get(b) },
            digest: RemovedLayout::DIGEST.get(b),
            parted_below: RemovedLayout::PARTED_BELOW.get(b),
            meta_hash: RemovedLayout::META_HASH.get(b),
        })
    }
}

/// Encoding of stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Raw = 0,
    Zstd = 1,
    /// zstd with the dictionary named by the record.
    Dictionary = 2,
}

impl Codec {
    fn of_tag(tag: u8) -> Option<Codec> {
        [Codec::Raw, Codec::Zstd, Codec::Dictionary].into_iter().find(|c| *c as u8 == tag)
    }
}

/// The fixed part of a record, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) codec: Codec,
    pub(crate) meta_codec: Codec,
    pub(crate) dictionary: u32,
    pub(crate) sequence: u64,
    pub(crate) time_ms: i64,
    pub(crate) raw_bytes: u64,
    pub(crate) payload_bytes: u32,
    pub(crate) meta_raw_bytes: u32,
    pub(crate) meta_bytes: u32,
    pub(crate) key_bytes: u32,
    pub(crate) payload_crc: u32,
    /// Zero for kinds without a digest.
    pub(crate) digest: [u8; 16],
}

impl Header {
    /// Returns true if the memtable has an entry for the record: it is a version, or a tombstone
    /// of all versions.
    pub(crate) fn is_entry(&self) -> bool {
        self.kind.is_version() || (self.kind == Kind::Tombstone && self.payload_bytes == 0)
    }

    fn fixed_bytes(&self) -> usize {
        if self.kind.is_version() { Layout::DIGEST.end() } else { FIXED_BYTES }
    }

    /// Returns the offset of the key in the record.
    pub(crate) fn key_at(&self) -> usize {
        self.fixed_bytes()
    }

    /// Returns the offset of the meta.
    pub(crate) fn meta_at(&self) -> usize {
        self.key_at() + self.key_bytes as usize
    }

    /// Returns the offset of the payload, which ends the bytes under the head checksum.
    pub(crate) fn payload_at(&self) -> usize {
        self.meta_at() + self.meta_bytes as usize
    }

    /// Returns the length of the whole record, a multiple of 64.
    pub(crate) fn total_bytes(&self) -> u64 {
        (self.payload_at() as u64 + u64::from(self.payload_bytes)).next_multiple_of(UNIT_BYTES)
    }

    /// A raw header for a key of `key_bytes` bytes, without meta or payload.
    pub(crate) fn plain(kind: Kind, key_bytes: usize) -> Header {
        Header {
            kind,
            codec: Codec::Raw,
            meta_codec: Codec::Raw,
            dictionary: 0,
            sequence: 0,
            time_ms: 0,
            raw_bytes: 0,
            payload_bytes: 0,
            meta_raw_bytes: 0,
            meta_bytes: 0,
            key_bytes: key_bytes as u32,
            payload_crc: 0,
            digest: [0; 16],
        }
    }

    /// The header of a filler of `bytes` bytes. Panics unless that is a multiple of 64, from 64 to
    /// 1 GiB.
    pub(crate) fn filler(bytes: u64) -> Header {
        assert!(bytes >= UNIT_BYTES && bytes.is_multiple_of(UNIT_BYTES) && bytes <= 1 << 30);
        Header { payload_bytes: (bytes - FIXED_BYTES as u64) as u32, ..Header::plain(Kind::Filler, 0) }
    }
}

/// Writes the fixed part of a record to the front of `out` and seals the head (fixed part, key,
/// meta) with its checksum. `out` already has key and meta in place. `seed` is the segment's;
/// `offset` is the record's in it.
pub(crate) fn seal_head(header: &Header, seed: u32, offset: u64, out: &mut [u8]) {
    Layout::PAYLOAD_CRC.put(out, header.payload_crc);
    Layout::KIND.put(out, header.kind as u8);
    Layout::CODEC.put(out, header.codec as u8);
    Layout::META_CODEC.put(out, header.meta_codec as u8);
    Layout::RESERVED.put(out, Zeros);
    Layout::DICTIONARY.put(out, header.dictionary);
    Layout::SEQUENCE.put(out, header.sequence);
    Layout::TIME_MS.put(out, header.time_ms);
    Layout::BODY_BYTES.put(out, header.raw_bytes);
    Layout::PAYLOAD_BYTES.put(out, header.payload_bytes);
    Layout::META_BYTES.put(out, header.meta_raw_bytes);
    Layout::META_STORED_BYTES.put(out, header.meta_bytes);
    Layout::KEY_BYTES.put(out, header.key_bytes);
    if header.kind.is_version() {
        Layout::DIGEST.put(out, header.digest);
    }
    let crc = seeded_crc(seed, offset, &out[Layout::HEAD_CRC.end()..header.payload_at()]);
    Layout::HEAD_CRC.put(out, crc);
}

/// Decodes the fixed part at the front of `b` (at least 56 bytes, 72 for a version) without
/// verifying its checksum. Lengths are checked against their limits, so the caller learns how much
/// to read.
pub(crate) fn peek(b: &[u8]) -> Result<Header, Flaw> {
    if b.len() < FIXED_BYTES {
        return Err("record is cut off");
    }
    let kind = Kind::of_tag(Layout::KIND.get(b)).ok_or("unknown record kind")?;
    let codec = Codec::of_tag(Layout::CODEC.get(b)).ok_or("unknown codec")?;
    let meta_codec = Codec::of_tag(Layout::META_CODEC.get(b)).ok_or("unknown codec of the meta")?;
    if b[Layout::RESERVED.at] != 0 {
        return Err("reserved byte of a record is not zero");
    }
    if kind.is_version() && b.len() < Layout::DIGEST.end() {
        return Err("record is cut off");
    }
    let header = Header {
        kind,
        codec,
        meta_codec,
        dictionary: Layout::DICTIONARY.get(b),
        sequence: Layout::SEQUENCE.get(b),
        time_ms: Layout::TIME_MS.get(b),
        raw_bytes: Layout::BODY_BYTES.get(b),
        payload_bytes: Layout::PAYLOAD_BYTES.get(b),
        meta_raw_bytes: Layout::META_BYTES.get(b),
        meta_bytes: Layout::META_STORED_BYTES.get(b),
        key_bytes: Layout::KEY_BYTES.get(b),
        payload_crc: Layout::PAYLOAD_CRC.get(b),
        digest: if kind.is_version() { Layout::DIGEST.get(b) } else { [0; 16] },
    };
    check_limits(&header)?;
    Ok(header)
}

fn check_limits(h: &Header) -> Result<(), Flaw> {
    let keyed = h.kind != Kind::Filler;
    if h.key_bytes as usize > MAX_KEY_BYTES || keyed == (h.key_bytes == 0) {
        return Err("key length is out of range");
    }
    if h.meta_raw_bytes as usize > MAX_META_BYTES || h.meta_bytes > h.meta_raw_bytes {
        return Err("meta length is out of range");
    }
    if h.meta_codec == Codec::Raw && h.meta_bytes != h.meta_raw_bytes {
        return Err("raw meta's length differs from the recorded one");
    }
    if (h.dictionary != 0) != (h.codec == Codec::Dictionary || h.meta_codec == Codec::Dictionary) {
        return Err("dictionary id does not fit the codecs");
    }
    if h.sequence > MAX_SEQUENCE {
        return Err("sequence is out of range");
    }
    if h.raw_bytes > MAX_VALUE_BYTES || h.payload_bytes > 1 << 30 {
        return Err("value length is out of range");
    }
    if matches!(h.kind, Kind::Page | Kind::Chunk) && h.raw_bytes > MAX_PIECE_BYTES {
        return Err("page or chunk is too long");
    }
    let ok = match h.kind {
        Kind::Page | Kind::Chunk if h.codec == Codec::Raw => u64::from(h.payload_bytes) == h.raw_bytes,
        Kind::Page | Kind::Chunk => u64::from(h.payload_bytes) < h.raw_bytes,
        Kind::Reference => h.payload_bytes as usize == ReferenceLayout::BYTES,
        Kind::Tombstone => matches!(h.payload_bytes as usize, 0 | RemovedLayout::BYTES) && h.raw_bytes == 0,
        Kind::Chunked => (h.payload_bytes as usize).is_multiple_of(CHUNK_ENTRY_BYTES),
        Kind::Filler => (u64::from(h.payload_bytes) + FIXED_BYTES as u64).is_multiple_of(UNIT_BYTES),
    };
    if ok { Ok(()) } else { Err("payload length does not fit the record's kind") }
}

/// Decodes and verifies the head of the record at the front of `b`, read from `offset` of the
/// segment with this `seed`. `b` must hold the whole head; the payload is not checked.
pub(crate) fn decode_head(b: &[u8], seed: u32, offset: u64) -> Result<Header, Flaw> {
    let header = peek(b)?;
    if b.len() < header.payload_at() {
        return Err("record is cut off");
    }
    if seeded_crc(seed, offset, &b[Layout::HEAD_CRC.end()..header.payload_at()]) != Layout::HEAD_CRC.get(b) {
        return Err("head checksum mismatch");
    }
    Ok(header)
}

/// Verifies payload and padding of the record at the front of `b`, which must hold all of it. A
/// filler always passes.
pub(crate) fn check_payload(header: &Header, b: &[u8]) -> Result<(), Flaw> {
    if header.kind == Kind::Filler {
        return Ok(());
    }
    let end = header.payload_at() + header.payload_bytes as usize;
    if (b.len() as u64) < header.total_bytes() {
        return Err("record is cut off");
    }
    if crc32fast::hash(&b[header.payload_at()..end]) != header.payload_crc {
        return Err("payload checksum mismatch");
    }
    if !all_zero(&b[end..header.total_bytes() as usize]) {
        return Err("padding is not zero");
    }
    Ok(())
}

/// Payload of a reference to the version with this sequence.
pub(crate) fn reference(sequence: u64) -> [u8; ReferenceLayout::BYTES] {
    let mut payload = [0; ReferenceLayout::BYTES];
    ReferenceLayout::SEQUENCE.put(&mut payload, sequence);
    payload
}

/// Sequence that the payload of a reference names; 0 if it is cut off.
pub(crate) fn referred_to(payload: &[u8]) -> u64 {
    if payload.len() < ReferenceLayout::BYTES { 0 } else { ReferenceLayout::SEQUENCE.get(payload) }
}

/// One entry of a chunked record's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkEntry {
    pub(crate) location: Location,
    pub(crate) raw_bytes: u32,
    pub(crate) units: u32,
}

impl ChunkEntry {
    pub(crate) fn encode(&self) -> [u8; CHUNK_ENTRY_BYTES] {
        let mut b = [0; CHUNK_ENTRY_BYTES];
        ChunkLayout::LOCATION.put(&mut b, self.location.pack());
        ChunkLayout::RAW_BYTES.put(&mut b, self.raw_bytes);
        ChunkLayout::UNITS.put(&mut b, self.units);
        b
    }
}

/// Decodes the payload of a chunked record with a body of `raw_bytes`.
pub(crate) fn decode_chunks(payload: &[u8], raw_bytes: u64) -> Result<Vec<ChunkEntry>, Flaw> {
    let chunks: Vec<ChunkEntry> = payload
        .chunks_exact(CHUNK_ENTRY_BYTES)
        .map(|e| ChunkEntry {
            location: Location::unpack(ChunkLayout::LOCATION.get(e)),
            raw_bytes: ChunkLayout::RAW_BYTES.get(e),
            units: ChunkLayout::UNITS.get(e),
        })
        .collect();
    let sum: u64 = chunks.iter().map(|c| u64::from(c.raw_bytes)).sum();
    let whole = payload.len().is_multiple_of(CHUNK_ENTRY_BYTES) && sum == raw_bytes;
    let sane = chunks.iter().all(|c| c.raw_bytes > 0 && c.units > 0 && u64::from(c.units) * UNIT_BYTES <= 1 << 30);
    if whole && sane { Ok(chunks) } else { Err("the chunks' lengths do not add up to the body's") }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn page(key: &[u8], meta: &[u8], payload: &[u8]) -> (Header, Vec<u8>) {
        let header = Header {
            kind: Kind::Page,
            codec: Codec::Raw,
            meta_codec: Codec::Raw,
            dictionary: 0,
            sequence: 42,
            time_ms: -7,
            raw_bytes: payload.len() as u64,
            payload_bytes: payload.len() as u32,
            meta_raw_bytes: meta.len() as u32,
            meta_bytes: meta.len() as u32,
            key_bytes: key.len() as u32,
            payload_crc: crc32fast::hash(payload),
            digest: [9; 16],
        };
        let mut b = vec![0; header.total_bytes() as usize];
        b[header.key_at()..][..key.len()].copy_from_slice(key);
        b[header.meta_at()..][..meta.len()].copy_from_slice(meta);
        b[header.payload_at()..][..payload.len()].copy_from_slice(payload);
        seal_head(&header, 11, 640, &mut b);
        (header, b)
    }

    #[test]
    fn a_record_comes_back_and_any_changed_byte_is_noticed() {
        let (header, bytes) = page(b"http://x/", b"meta", b"payload");
        assert_eq!(decode_head(&bytes, 11, 640), Ok(header));
        assert_eq!(check_payload(&header, &bytes), Ok(()));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                let whole = decode_head(&bad, 11, 640).and_then(|h| check_payload(&h, &bad));
                assert!(whole.is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn a_record_of_another_place_or_segment_is_not_taken() {
        let (_, bytes) = page(b"k", b"", b"v");
        assert!(decode_head(&bytes, 11, 704).is_err());
        assert!(decode_head(&bytes, 12, 640).is_err());
    }

    #[test]
    fn the_shortest_filler_is_one_unit() {
        let filler = Header::filler(UNIT_BYTES);
        let mut b = [0xff; UNIT_BYTES as usize];
        seal_head(&filler, 1, 64, &mut b);
        assert_eq!(decode_head(&b, 1, 64), Ok(filler));
        assert_eq!(filler.total_bytes(), UNIT_BYTES);
        assert_eq!(check_payload(&filler, &b), Ok(()));
    }

    #[test]
    fn what_a_tombstone_of_one_version_removes_comes_back() {
        let version = Version { time_ms: -7, sequence: 41 };
        let removed = Removed { version, digest: [3; 16], parted_below: 42, meta_hash: 43 };
        let payload_bytes = RemovedLayout::BYTES as u32;
        let header = Header { payload_bytes, ..Header::plain(Kind::Tombstone, 1) };
        let record = [&[0; FIXED_BYTES][..], b"k", &removed.encode()].concat();
        assert_eq!(Removed::of(&header, &record), Some(removed));
        assert_eq!(Removed::of(&header, &record[..record.len() - 1]), None);
        assert_eq!(Removed::of(&Header::plain(Kind::Tombstone, 1), &record), None);
        assert!(!header.is_entry() && Header::plain(Kind::Tombstone, 1).is_entry());
    }

    #[test]
    fn lists_of_chunks_must_add_up() {
        let entry = ChunkEntry { location: Location::new(1, 128), raw_bytes: 10, units: 2 };
        assert_eq!(decode_chunks(&entry.encode(), 10), Ok(vec![entry]));
        assert!(decode_chunks(&entry.encode(), 11).is_err());
        assert!(decode_chunks(&entry.encode()[..15], 10).is_err());
        assert_eq!(decode_chunks(&[], 0), Ok(vec![]));
    }

    proptest::proptest! {
        #[test]
        fn decoding_any_bytes_neither_panics_nor_accepts(bytes in proptest::collection::vec(0u8.., 0..300)) {
            if let Ok(h) = peek(&bytes) {
                proptest::prop_assert!(h.total_bytes() <= (1 << 30) + (1 << 18));
            }
            proptest::prop_assert!(decode_head(&bytes, 3, 64).is_err());
            let _ = decode_chunks(&bytes, 5);
        }
    }
}
