//! Rows of the index: the place of each version's record, and the byte counts of each segment.
//!
//! | key | value |
//! |---|---|
//! | `p`, ordered form of the key, time and sequence, both descending | [`Row`] |
//! | `s`, epoch, number | bytes written and bytes dead of a segment: a merge operator adds them |
//! | `d`, epoch, number | when and by which commit a segment was rewritten; its object is to go |
//! | `u`, epoch, number | the dictionaries that records of a segment name, until its object is gone |
//! | `m`, `next` | the first uncommitted sequence |
//! | `m`, `kept` | the manifest of the files kept with the shard |
//!
//! The ordered form is escaped (NUL becomes NUL 0xff) and ends with NUL NUL, so rows of one key
//! are neighbours, newest first, and keys keep their order. Numbers in keys are big-endian.

use std::collections::BTreeSet;
use std::ops::Range;

use filemap_core::Version;
use filemap_io::{layout, varint};

use super::record::{DictionaryId, Kind, Place, Record};
use super::segment::SegmentId;

/// The first byte of version rows.
pub(crate) const VERSIONS: u8 = b'p';
/// The first byte of segment rows.
pub(crate) const SEGMENTS: u8 = b's';
/// The first byte of rows of rewritten segments whose objects still exist.
pub(crate) const REWRITTEN: u8 = b'd';
/// The first byte of rows of the dictionaries that a segment needs.
pub(crate) const USES: u8 = b'u';
/// The key of the row of the first uncommitted sequence.
pub(crate) const NEXT: &[u8] = b"mnext";
/// The key of the row that names the manifest of kept files.
pub(crate) const KEPT: &[u8] = b"mkept";

/// The longest row key that the index accepts.
pub(crate) const MAX_KEY_BYTES: usize = u16::MAX as usize;
/// Length of time and sequence.
const VERSION_BYTES: usize = 16;

/// The index row of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// Bytes before the payload.
    pub(crate) head_bytes: u64,
    /// Bytes of the whole record.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    pub(crate) digest: u128,
    /// For a reference: the version that owns the body.
    pub(crate) original: Option<Version>,
}

impl Row {
    pub(crate) fn segment(&self) -> SegmentId {
        SegmentId { epoch: self.place.epoch, number: self.place.segment }
    }

    /// The row of a version whose record is at `place` and has `bytes` bytes.
    pub(crate) fn of_record(record: &Record<'_>, place: Place, bytes: u64) -> Row {
        let original = (record.kind == Kind::Reference).then_some(record.other);
        let (kind, head_bytes) = (record.kind, record.head_bytes() as u64);
        Row { kind, place, head_bytes, bytes, body_bytes: record.body_bytes, digest: record.digest, original }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.kind.code()];
        let place = self.place;
        for number in [place.epoch, place.segment, place.offset, self.head_bytes, self.bytes, self.body_bytes] {
            varint::put(&mut out, number);
        }
        layout::push(&mut out, self.digest);
        if let Some(original) = self.original {
            layout::push(&mut out, original.time_ms);
            varint::put(&mut out, original.sequence);
        }
        out
    }

    /// Decodes it; `None` if this program does not know such a row.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Row> {
        let (&code, mut rest) = bytes.split_first()?;
        let kind = Kind::of_code(code).filter(|kind| kind.is_version())?;
        let mut number = || varint::take(&mut rest);
        let place = Place { epoch: number()?, segment: number()?, offset: number()? };
        let (head_bytes, bytes, body_bytes) = (number()?, number()?, number()?);
        let digest = layout::take(&mut rest)?;
        let original = if kind == Kind::Reference {
            let time_ms = layout::take(&mut rest)?;
            Some(Version { time_ms, sequence: varint::take(&mut rest)? })
        } else {
            None
        };
        let is_whole = rest.is_empty() && head_bytes <= bytes && place.offset.checked_add(bytes).is_some();
        is_whole.then_some(Row { kind, place, head_bytes, bytes, body_bytes, digest, original })
    }
}

/// The prefix of the rows of the key with this ordered form.
pub(crate) fn prefix(form: &[u8]) -> Vec<u8> {
    let mut out = escaped(form);
    out.extend_from_slice(&[0, 0]);
    out
}

/// The row of a version.
pub(crate) fn of_version(form: &[u8], version: Version) -> Vec<u8> {
    let mut out = prefix(form);
    out.extend_from_slice(&suffix(version));
    out
}

/// The row range of a key's versions up to a time.
pub(crate) fn until_time(form: &[u8], time_ms: Option<i64>) -> Range<Vec<u8>> {
    let mut from = prefix(form);
    let mut end = from.clone();
    end.push(u8::MAX);
    end.extend_from_slice(&[u8::MAX; VERSION_BYTES]);
    if let Some(time_ms) = time_ms {
        from.extend_from_slice(&suffix(Version { time_ms, sequence: u64::MAX })[..8]);
    }
    from..end
}

/// The row range of the keys whose forms are in a range.
pub(crate) fn of_forms(forms: &Range<Vec<u8>>) -> Range<Vec<u8>> {
    escaped(&forms.start)..escaped(&forms.end)
}

/// The first row after those of a key.
pub(crate) fn behind(form: &[u8]) -> Vec<u8> {
    let mut out = escaped(form);
    out.extend_from_slice(&[0, 1]);
    out
}

/// The ordered form and the version, parsed from a row's key.
pub(crate) fn parse(key: &[u8]) -> Option<(Vec<u8>, Version)> {
    let body = key.strip_prefix(&[VERSIONS])?;
    let (escaped, version) = body.split_at_checked(body.len().checked_sub(VERSION_BYTES)?)?;
    let escaped = escaped.strip_suffix(&[0, 0])?;
    let mut form = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        form.push(byte);
        if byte == 0 && bytes.next() != Some(&u8::MAX) {
            return None;
        }
    }
    let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| !u64::from_be_bytes(*bytes));
    let time_ms = (number(version)? ^ (1 << 63)) as i64;
    Some((form, Version { time_ms, sequence: number(&version[8..])? }))
}

/// The length of the key part in a row's key or in a prefix of it; `None` if it is incomplete.
pub(crate) fn key_bytes(row: &[u8]) -> Option<usize> {
    if row.first() != Some(&VERSIONS) {
        return None;
    }
    let mut at = 1;
    while at + 1 < row.len() {
        match (row[at], row[at + 1]) {
            (0, 0) => return Some(at + 2),
            (0, _) => at += 2,
            _ => at += 1,
        }
    }
    None
}

fn escaped(form: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(form.len() + 3 + VERSION_BYTES);
    out.push(VERSIONS);
    for &byte in form {
        out.push(byte);
        if byte == 0 {
            out.push(u8::MAX);
        }
    }
    out
}

/// Newer versions sort first.
fn suffix(version: Version) -> [u8; VERSION_BYTES] {
    let mut out = [0; VERSION_BYTES];
    out[..8].copy_from_slice(&(!(version.time_ms as u64 ^ (1 << 63))).to_be_bytes());
    out[8..].copy_from_slice(&(!version.sequence).to_be_bytes());
    out
}

/// The row of a segment.
pub(crate) fn of_segment(id: SegmentId) -> Vec<u8> {
    [&[SEGMENTS][..], &id.epoch.to_be_bytes(), &id.number.to_be_bytes()].concat()
}

/// The row of a segment that was rewritten.
pub(crate) fn of_rewritten(id: SegmentId) -> Vec<u8> {
    [&[REWRITTEN][..], &id.epoch.to_be_bytes(), &id.number.to_be_bytes()].concat()
}

/// The row of the dictionaries that a segment needs.
pub(crate) fn of_uses(id: SegmentId) -> Vec<u8> {
    [&[USES][..], &id.epoch.to_be_bytes(), &id.number.to_be_bytes()].concat()
}

/// The segment in a row key that begins with `lead`.
pub(crate) fn segment_of(key: &[u8], lead: u8) -> Option<SegmentId> {
    let rest = key.strip_prefix(&[lead]).filter(|rest| rest.len() == 16)?;
    let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    Some(SegmentId { epoch: number(rest)?, number: number(&rest[8..])? })
}

layout! {
    /// The encoded value of a segment's row.
    struct SegmentRow {
        0 WRITTEN: u64 = "bytes of records";
        8 DEAD: u64 = "bytes of records that are dead";
        16 NOTES: u64 = "bytes of tombstones and names; missing in rows from before compaction";
    }
}

layout! {
    /// The encoded value of the row of a rewritten segment.
    struct RewrittenRow {
        0 SINCE_MS: u64 = "time of the rewriting, ms since 1970";
        8 NEXT: u64 = "first unused sequence after it; absent in builds before checkpoints";
    }
}

/// The rewriting of a segment whose object still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) since_ms: u64,
    /// The first unused sequence after its commit: views with a lower one name the segment.
    pub(crate) next: u64,
}

impl Gone {
    pub(crate) fn encode(self) -> [u8; RewrittenRow::BYTES] {
        let mut out = [0; RewrittenRow::BYTES];
        RewrittenRow::SINCE_MS.put(&mut out, self.since_ms);
        RewrittenRow::NEXT.put(&mut out, self.next);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Gone> {
        let next = match bytes.len() {
            RewrittenRow::BYTES => RewrittenRow::NEXT.get(bytes),
            // Unknown: any checkpoint may need the segment.
            len if len == RewrittenRow::NEXT.at => u64::MAX,
            _ => return None,
        };
        Some(Gone { since_ms: RewrittenRow::SINCE_MS.get(bytes), next })
    }
}

/// The dictionaries that records of a segment name: none of them is deleted before the segment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Uses {
    /// Unknown, since a repair could not or did not read it: it may be any.
    Any,
    /// These.
    Named(BTreeSet<DictionaryId>),
}

impl Uses {
    /// Epoch and number of each; a zero for any.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Uses::Named(named) = self else { return vec![0] };
        let mut out = Vec::new();
        for DictionaryId { epoch, number } in named {
            varint::put(&mut out, *epoch);
            varint::put(&mut out, *number);
        }
        out
    }

    /// Decodes it; `None` if the bytes are invalid.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Uses> {
        if bytes == [0] {
            return Some(Uses::Any);
        }
        let mut named = BTreeSet::new();
        while !bytes.is_empty() {
            named.insert(DictionaryId { epoch: varint::take(&mut bytes)?, number: varint::take(&mut bytes)? });
        }
        (!named.is_empty()).then_some(Uses::Named(named))
    }

    /// Returns whether this dictionary may be among them.
    pub(crate) fn may_name(&self, id: DictionaryId) -> bool {
        match self {
            Uses::Any => true,
            Uses::Named(named) => named.contains(&id),
        }
    }
}

/// Byte counts of a segment: all records, dead records, and tombstones and segment names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) written: u64,
    pub(crate) dead: u64,
    /// Bytes of tombstones and segment names: they are freed with the segments that they name.
    pub(crate) notes: u64,
}

impl Bytes {
    /// Bytes that a compaction certainly keeps.
    pub(crate) fn live(self) -> u64 {
        self.written.saturating_sub(self.garbage())
    }

    /// Bytes that a compaction may free.
    pub(crate) fn garbage(self) -> u64 {
        self.dead.saturating_add(self.notes)
    }

    pub(crate) fn encode(self) -> [u8; SegmentRow::BYTES] {
        let mut out = [0; SegmentRow::BYTES];
        SegmentRow::WRITTEN.put(&mut out, self.written);
        SegmentRow::DEAD.put(&mut out, self.dead);
        SegmentRow::NOTES.put(&mut out, self.notes);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Bytes> {
        // Versions without compaction wrote only two numbers.
        let notes = match bytes.len() {
            SegmentRow::BYTES => SegmentRow::NOTES.get(bytes),
            len if len == SegmentRow::NOTES.at => 0,
            _ => return None,
        };
        Some(Bytes { written: SegmentRow::WRITTEN.get(bytes), dead: SegmentRow::DEAD.get(bytes), notes })
    }

    pub(crate) fn plus(self, other: Bytes) -> Bytes {
        Bytes {
            written: self.written.saturating_add(other.written),
            dead: self.dead.saturating_add(other.dead),
            notes: self.notes.saturating_add(other.notes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_key_are_neighbours_newest_first_and_keys_keep_their_order() {
        let forms: [&[u8]; 6] = [b"a", b"a\0", b"a\0\0b", b"a\0\x01", b"a\x01", b"b"];
        let times = [i64::MAX, 7, 0, -1, i64::MIN];
        let mut rows = Vec::new();
        for form in forms {
            for time_ms in times {
                for sequence in [u64::MAX, 2, 0] {
                    let version = Version { time_ms, sequence };
                    rows.push(of_version(form, version));
                    assert_eq!(parse(&of_version(form, version)), Some((form.to_vec(), version)));
                    assert_eq!(key_bytes(&of_version(form, version)), Some(prefix(form).len()));
                    let up_to = |time_ms| until_time(form, time_ms).contains(&of_version(form, version));
                    assert!(up_to(None) && up_to(Some(time_ms)));
                    assert_eq!(up_to(Some(0)), time_ms <= 0);
                }
            }
            assert_eq!(key_bytes(&prefix(form)), Some(prefix(form).len()));
            assert_eq!(key_bytes(&prefix(form)[..prefix(form).len() - 1]), None);
            assert!(rows.iter().all(|row| *row < behind(form)));
        }
        assert!(rows.is_sorted());
    }

    #[test]
    fn a_row_comes_back_and_no_part_of_it_is_one() {
        let place = Place { epoch: 1, segment: 300, offset: 1 << 33 };
        let row = Row {
            kind: Kind::Page,
            place,
            head_bytes: 100,
            bytes: 9000,
            body_bytes: 30,
            digest: 1 << 99,
            original: None,
        };
        let original = Some(Version { time_ms: -3, sequence: 500 });
        for row in [row, Row { kind: Kind::Reference, original, ..row }] {
            let bytes = row.encode();
            assert_eq!(Row::decode(&bytes), Some(row));
            for at in 0..bytes.len() {
                assert_eq!(Row::decode(&bytes[..at]), None);
            }
        }
        let id = SegmentId { epoch: 1, number: 2 };
        assert_eq!((segment_of(&of_segment(id), SEGMENTS), segment_of(b"s", SEGMENTS)), (Some(id), None));
        assert_eq!(
            (segment_of(&of_rewritten(id), REWRITTEN), segment_of(&of_rewritten(id), SEGMENTS)),
            (Some(id), None)
        );
        let bytes = Bytes { written: 7, dead: 1 << 40, notes: 0 };
        assert_eq!((Bytes::decode(&bytes.encode()), Bytes::decode(b"")), (Some(bytes), None));
        let ids = [(1, 2), (1, 300), (1 << 40, 1)].map(|(epoch, number)| DictionaryId { epoch, number });
        let uses = Uses::Named(ids.into());
        assert_eq!((Uses::decode(&uses.encode()), Uses::decode(&[1])), (Some(uses.clone()), None));
        assert_eq!((Uses::decode(&Uses::Any.encode()), Uses::decode(b"")), (Some(Uses::Any), None));
        assert!(uses.may_name(ids[1]) && !uses.may_name(DictionaryId { epoch: 1, number: 3 }));
        assert_eq!(segment_of(&of_uses(id), USES), Some(id));
        let gone = Gone { since_ms: 1 << 41, next: 9 };
        assert_eq!((Gone::decode(&gone.encode()), Gone::decode(b"")), (Some(gone), None));
        assert_eq!(Gone::decode(&gone.encode()[..8]), Some(Gone { next: u64::MAX, ..gone }));
        assert_eq!((Bytes::decode(&bytes.encode()[..16]), Bytes::decode(&bytes.encode()[..17])), (Some(bytes), None));
    }
}
