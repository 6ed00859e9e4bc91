//! A record of a segment. It is self-contained: an index can be rebuilt from segments alone.
//!
//! | kind | what it is |
//! |---|---|
//! | page | a version with its body |
//! | reference | a version whose body is that of an earlier version of the key |
//! | tombstone | every version of the key with a smaller sequence is removed |
//! | version tombstone | one version of the key is removed |
//! | rewrite | segments that this one replaces: those no longer count |
//!
//! The payload of a tombstone names the segments that hold the versions it removes: when these are
//! deleted, the tombstone may be dropped (see `format::sources`).
//!
//! Invariants: the checksum of a record's head is seeded with its place, so it is valid only where
//! it was written; the head can be checked without the payload. Of a body in chunks the head has
//! the checksum of the table, and the table those of the chunks: see `format::chunks`. Of a body
//! compressed with a dictionary it names that: see `format::dictionary`.

use filemap_core::Version;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::chunks::{self, Table};

filemap_io::layout! {
    /// The fixed-size fields before the key.
    pub(crate) struct Fixed {
        0 CHECKSUM: u64 = "XXH3 of what follows up to the payload, seeded with the place";
        8 PAYLOAD_CHECKSUM: u64 = "XXH3 of the payload; of chunks, of their table";
        16 KIND: u8 = "1 page, 2 reference, 3 tombstone, 4 version tombstone, 5 rewrite";
        17 CODEC: u8 = "of the payload: 0 none, 1 zstd, 2 chunks, 3 zstd with the dictionary";
        18 RESERVED: filemap_io::layout::Zeros<2> = "zero";
        20 KEY_BYTES: u32 = "length of the key";
        24 META_BYTES: u32 = "length of the description";
        28 SPILL_BYTES: u32 = "the part of the description that does not fit the engine's meta";
        32 PAYLOAD_BYTES: u64 = "length of the payload";
        40 BODY_BYTES: u64 = "length of the body";
        48 SEQUENCE: u64 = "sequence: unique in the store, rises with every record";
        56 TIME_MS: i64 = "time of the version";
        64 DIGEST: u128 = "XXH3-128 of the body";
        80 OTHER_TIME_MS: i64 = "of a reference or version tombstone: time of the version meant; codec 3: epoch of the dictionary";
        88 OTHER_SEQUENCE: u64 = "its sequence; codec 3: number of the dictionary";
        .. "96", ".." = "key, description, payload";
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Page,
    Reference,
    Tombstone,
    VersionTombstone,
    Rewrite,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Page, Kind::Reference, Kind::Tombstone, Kind::VersionTombstone, Kind::Rewrite];

    pub(crate) fn code(self) -> u8 {
        self as u8 + 1
    }

    pub(crate) fn of_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns whether the record is itself a version of a page.
    pub(crate) fn is_version(self) -> bool {
        matches!(self, Kind::Page | Kind::Reference)
    }
}

/// The compression of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Zstd,
    /// A table and chunks: a large body.
    Chunks,
    /// A frame that needs the dictionary that the record names.
    Dictionary,
}

impl Codec {
    fn of_code(code: u8) -> Option<Codec> {
        let all = [Codec::None, Codec::Zstd, Codec::Chunks, Codec::Dictionary];
        all.into_iter().find(|codec| *codec as u8 == code)
    }
}

/// The identity of a dictionary: the epoch of the writer that trained it, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DictionaryId {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

/// The place of a record: its segment and its offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) epoch: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

impl Place {
    fn seed(self) -> u64 {
        let mut bytes = [0; 24];
        for (at, part) in [self.epoch, self.segment, self.offset].into_iter().enumerate() {
            bytes[8 * at..8 * at + 8].copy_from_slice(&part.to_le_bytes());
        }
        xxh3_64(&bytes)
    }
}

/// A record to write or just read, with slices of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) codec: Codec,
    pub(crate) version: Version,
    /// For a reference or version tombstone: the version that it names. For a body compressed with
    /// a dictionary: that one's epoch and number.
    pub(crate) other: Version,
    pub(crate) key: &'a [u8],
    pub(crate) meta: &'a [u8],
    pub(crate) spill_bytes: u32,
    /// Empty if only the head was read.
    pub(crate) payload: &'a [u8],
    pub(crate) body_bytes: u64,
    pub(crate) digest: u128,
}

/// The placeholder for no version.
pub(crate) const NONE: Version = Version { time_ms: 0, sequence: 0 };

impl<'a> Record<'a> {
    /// The length of the shortest record.
    pub(crate) const LEAST_BYTES: u64 = Fixed::BYTES as u64;

    /// A tombstone of a key; `holders` names the segments with the versions that it removes.
    pub(crate) fn tombstone(key: &'a [u8], sequence: u64, holders: &'a [u8]) -> Record<'a> {
        let version = Version { time_ms: 0, sequence };
        let (kind, codec, other, payload) = (Kind::Tombstone, Codec::None, NONE, holders);
        Record { kind, codec, version, other, key, meta: b"", spill_bytes: 0, payload, body_bytes: 0, digest: 0 }
    }

    /// A tombstone of one version.
    pub(crate) fn version_tombstone(key: &'a [u8], sequence: u64, removed: Version, holders: &'a [u8]) -> Record<'a> {
        Record { kind: Kind::VersionTombstone, other: removed, ..Record::tombstone(key, sequence, holders) }
    }

    /// A record that names the segments replaced by its own segment.
    pub(crate) fn rewrite(sequence: u64, sources: &'a [u8]) -> Record<'a> {
        Record { kind: Kind::Rewrite, ..Record::tombstone(b"", sequence, sources) }
    }

    /// The dictionary that its payload needs.
    pub(crate) fn dictionary(&self) -> Option<DictionaryId> {
        let Version { time_ms, sequence } = self.other;
        let needs = self.kind == Kind::Page && self.codec == Codec::Dictionary;
        needs.then_some(DictionaryId { epoch: time_ms as u64, number: sequence })
    }

    /// The same, naming this dictionary.
    pub(crate) fn naming(self, dictionary: DictionaryId) -> Record<'a> {
        let DictionaryId { epoch, number } = dictionary;
        Record { other: Version { time_ms: epoch as i64, sequence: number }, ..self }
    }

    /// Bytes before the payload.
    pub(crate) fn head_bytes(&self) -> usize {
        Fixed::BYTES + self.key.len() + self.meta.len()
    }

    /// Bytes of the whole record.
    pub(crate) fn bytes(&self) -> usize {
        self.head_bytes() + self.payload.len()
    }

    /// The part of the payload whose checksum is in the head.
    fn checked(&self) -> &'a [u8] {
        if self.codec == Codec::Chunks { chunks::table_of(self.payload, self.body_bytes) } else { self.payload }
    }

    /// Appends it to a segment, at this place. Returns its length.
    pub(crate) fn put(&self, place: Place, out: &mut Vec<u8>) -> usize {
        let begin = out.len();
        out.resize(begin + Fixed::BYTES, 0);
        let fixed = &mut out[begin..];
        Fixed::PAYLOAD_CHECKSUM.put(fixed, xxh3_64(self.checked()));
        Fixed::KIND.put(fixed, self.kind.code());
        Fixed::CODEC.put(fixed, self.codec as u8);
        Fixed::KEY_BYTES.put(fixed, self.key.len() as u32);
        Fixed::META_BYTES.put(fixed, self.meta.len() as u32);
        Fixed::SPILL_BYTES.put(fixed, self.spill_bytes);
        Fixed::PAYLOAD_BYTES.put(fixed, self.payload.len() as u64);
        Fixed::BODY_BYTES.put(fixed, self.body_bytes);
        Fixed::SEQUENCE.put(fixed, self.version.sequence);
        Fixed::TIME_MS.put(fixed, self.version.time_ms);
        Fixed::DIGEST.put(fixed, self.digest);
        Fixed::OTHER_TIME_MS.put(fixed, self.other.time_ms);
        Fixed::OTHER_SEQUENCE.put(fixed, self.other.sequence);
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.meta);
        let checksum = xxh3_64_with_seed(&out[begin + 8..], place.seed());
        Fixed::CHECKSUM.put(&mut out[begin..], checksum);
        out.extend_from_slice(self.payload);
        out.len() - begin
    }

    /// Returns whether a record can begin here: a quick test without the checksum.
    pub(crate) fn may_begin(bytes: &[u8]) -> bool {
        let Some(fixed) = bytes.get(..Fixed::BYTES) else { return false };
        let is_known = Kind::of_code(Fixed::KIND.get(fixed)).is_some();
        is_known && Codec::of_code(Fixed::CODEC.get(fixed)).is_some() && fixed[18..20] == [0, 0]
    }

    /// Reads the head of the record at the front of `bytes`, which are at `place`, and on request
    /// the payload. Returns it with the record's whole length.
    pub(crate) fn take(bytes: &'a [u8], place: Place, with_payload: bool) -> Result<(Record<'a>, u64), &'static str> {
        let fixed = bytes.get(..Fixed::BYTES).ok_or("it ends inside a record")?;
        let (key_bytes, meta_bytes) = (Fixed::KEY_BYTES.get(fixed) as usize, Fixed::META_BYTES.get(fixed) as usize);
        let head_bytes = Fixed::BYTES.saturating_add(key_bytes).saturating_add(meta_bytes);
        let head = bytes.get(..head_bytes).ok_or("it ends inside a record")?;
        if xxh3_64_with_seed(&head[8..], place.seed()) != Fixed::CHECKSUM.get(fixed) {
            return Err("checksum mismatch in a record's head");
        }
        let kind = Kind::of_code(Fixed::KIND.get(fixed)).ok_or("a record of a kind unknown to this program")?;
        let codec = Codec::of_code(Fixed::CODEC.get(fixed)).ok_or("a codec unknown to this program")?;
        if codec == Codec::Dictionary && kind != Kind::Page {
            return Err("a dictionary of a record without a body");
        }
        let payload_bytes = Fixed::PAYLOAD_BYTES.get(fixed);
        let payload: &[u8] = if with_payload {
            let end = usize::try_from(payload_bytes).ok().and_then(|payload| payload.checked_add(head_bytes));
            end.and_then(|end| bytes.get(head_bytes..end)).ok_or("it ends inside a record")?
        } else {
            b""
        };
        let spill_bytes = Fixed::SPILL_BYTES.get(fixed);
        if spill_bytes as usize > meta_bytes {
            return Err("a description that is shorter than one of its parts");
        }
        let record = Record {
            kind,
            codec,
            version: Version { time_ms: Fixed::TIME_MS.get(fixed), sequence: Fixed::SEQUENCE.get(fixed) },
            other: Version { time_ms: Fixed::OTHER_TIME_MS.get(fixed), sequence: Fixed::OTHER_SEQUENCE.get(fixed) },
            key: &head[Fixed::BYTES..Fixed::BYTES + key_bytes],
            meta: &head[Fixed::BYTES + key_bytes..],
            spill_bytes,
            payload,
            body_bytes: Fixed::BODY_BYTES.get(fixed),
            digest: Fixed::DIGEST.get(fixed),
        };
        if with_payload && !record.has_payload(Fixed::PAYLOAD_CHECKSUM.get(fixed)) {
            return Err("checksum mismatch in a body");
        }
        Ok((record, (head_bytes as u64).saturating_add(payload_bytes)))
    }

    /// Returns whether its payload is the one of this checksum.
    fn has_payload(&self, checksum: u64) -> bool {
        let are_whole = || self.codec != Codec::Chunks || chunks::is_whole(self.payload, self.body_bytes);
        xxh3_64(self.checked()) == checksum && are_whole()
    }

    /// Reads the head of the record at the front of `bytes`, as [`Record::take`], and the table of
    /// its chunks; `None` if its body is not in chunks.
    pub(crate) fn take_table(bytes: &'a [u8], place: Place) -> Result<(Record<'a>, Option<Table>), &'static str> {
        let (record, length) = Record::take(bytes, place, false)?;
        if record.codec != Codec::Chunks {
            return Ok((record, None));
        }
        let head_bytes = record.head_bytes();
        let payload = bytes.get(head_bytes..).unwrap_or_default();
        let table = chunks::table_of(payload, record.body_bytes);
        if xxh3_64(table) != Fixed::PAYLOAD_CHECKSUM.get(bytes) {
            return Err("checksum mismatch in the table of a body");
        }
        let ends = |table: &Table| (head_bytes as u64).saturating_add(table.payload_bytes()) == length;
        let table = Table::decode(table, record.body_bytes).filter(ends);
        Ok((record, Some(table.ok_or("the table of a body does not decode")?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { epoch: 3, segment: 5, offset: 48 };

    fn record() -> Record<'static> {
        Record {
            kind: Kind::Page,
            codec: Codec::Zstd,
            version: Version { time_ms: -7, sequence: 9 },
            other: NONE,
            key: b"http://a/\0\0v",
            meta: b"described",
            spill_bytes: 2,
            payload: b"payload",
            body_bytes: 70,
            digest: 1 << 100,
        }
    }

    #[test]
    fn a_record_comes_back_and_its_head_alone_too() {
        let mut bytes = Vec::new();
        let length = record().put(PLACE, &mut bytes);
        assert_eq!(length, bytes.len());
        assert_eq!(Record::take(&bytes, PLACE, true), Ok((record(), length as u64)));
        let head = &bytes[..record().head_bytes()];
        assert_eq!(Record::take(head, PLACE, false), Ok((Record { payload: b"", ..record() }, length as u64)));
    }

    #[test]
    fn a_record_names_the_dictionary_that_it_needs_in_its_head() {
        let id = DictionaryId { epoch: 1 << 40, number: 7 };
        let named = Record { codec: Codec::Dictionary, ..record() }.naming(id);
        let mut bytes = Vec::new();
        named.put(PLACE, &mut bytes);
        let (head, _) = Record::take(&bytes[..named.head_bytes()], PLACE, false).expect("whole");
        assert_eq!((head.dictionary(), record().naming(id).dictionary()), (Some(id), None));
        let reference = Record { kind: Kind::Reference, ..named };
        bytes.clear();
        reference.put(PLACE, &mut bytes);
        assert!(Record::take(&bytes, PLACE, false).is_err());
    }

    #[test]
    fn a_body_in_chunks_is_checked_by_its_table_and_the_table_alone() {
        let body = b"a large page ".repeat(100_000);
        let payload = chunks::pack(&body);
        let record = Record { codec: Codec::Chunks, payload: &payload, body_bytes: body.len() as u64, ..record() };
        let mut bytes = Vec::new();
        let length = record.put(PLACE, &mut bytes);
        assert_eq!(Record::take(&bytes, PLACE, true), Ok((record, length as u64)));
        let front = record.head_bytes() + chunks::table_bytes(record.body_bytes) as usize;
        let table = chunks::Table::decode(&payload, record.body_bytes);
        assert_eq!(Record::take_table(&bytes[..front], PLACE), Ok((Record { payload: b"", ..record }, table)));
        assert!(Record::take_table(&bytes[..front - 1], PLACE).is_err(), "cut off in the table");
        let plain = Record { codec: Codec::None, ..record };
        let mut other = Vec::new();
        plain.put(PLACE, &mut other);
        assert_eq!(Record::take_table(&other, PLACE).map(|(_, table)| table), Ok(None));
        for at in [record.head_bytes(), front - 1, front, length - 1] {
            bytes[at] ^= 1;
            assert!(Record::take(&bytes, PLACE, true).is_err(), "changed at {at}");
            assert_eq!(Record::take_table(&bytes, PLACE).is_err(), at < front, "changed at {at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn every_changed_byte_every_cut_and_another_place_are_found() {
        let mut bytes = Vec::new();
        record().put(PLACE, &mut bytes);
        assert!(Record::take(&bytes, Place { offset: 49, ..PLACE }, true).is_err());
        for at in 0..bytes.len() {
            assert!(Record::take(&bytes[..at], PLACE, true).is_err(), "cut at {at}");
            bytes[at] ^= 1;
            assert!(Record::take(&bytes, PLACE, true).is_err(), "changed at {at}");
            bytes[at] ^= 1;
        }
    }
}
