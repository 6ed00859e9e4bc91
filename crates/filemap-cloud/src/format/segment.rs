//! A segment: an immutable object with a header, records and a footer.
//!
//! The header's base is the first uncommitted sequence at the time its writer opened the store. Of
//! segments of earlier epochs only records below the base count: so a fenced writer's uncommitted
//! uploads are recognised without an index.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use super::record::{DictionaryId, Place, Record};

filemap_io::layout! {
    /// The header of a segment.
    pub(crate) struct Header {
        0 MAGIC: [u8; 8] = "`FMCLOUD1`";
        8 EPOCH: u64 = "epoch of the writer";
        16 NUMBER: u64 = "number of the segment in the epoch";
        24 BASE: u64 = "first sequence not committed when the writer opened the store";
        32 CHECKSUM: u64 = "XXH3 of the bytes before";
    }
}

filemap_io::layout! {
    /// The footer of a segment.
    pub(crate) struct Footer {
        0 MAGIC: [u8; 8] = "`FMCLOUDE`";
        8 RECORDS: u64 = "number of records";
        16 LOWEST: u64 = "lowest sequence of a record";
        24 HIGHEST: u64 = "highest sequence of a record";
        32 CONTENT: u64 = "XXH3 of all bytes before the footer";
        40 CHECKSUM: u64 = "XXH3 of the footer's bytes before";
    }
}

const MAGIC: [u8; 8] = *b"FMCLOUD1";
const END: [u8; 8] = *b"FMCLOUDE";

/// The identity of a segment: the writer's epoch and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

impl SegmentId {
    /// The name of its object.
    pub(crate) fn name(self) -> String {
        format!("{:08x}-{:08x}", self.epoch, self.number)
    }

    /// Parses an object's name.
    pub(crate) fn of_name(name: &str) -> Option<SegmentId> {
        let (epoch, number) = name.split_once('-')?;
        let hex = |digits: &str| (digits.len() >= 8).then(|| u64::from_str_radix(digits, 16).ok())?;
        let id = SegmentId { epoch: hex(epoch)?, number: hex(number)? };
        (id.name() == name).then_some(id)
    }
}

/// The contents of a segment's header and footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) id: SegmentId,
    pub(crate) base: u64,
    pub(crate) records: u64,
    pub(crate) lowest: u64,
    pub(crate) highest: u64,
}

impl Summary {
    /// Length of a header.
    pub(crate) const HEADER_BYTES: u64 = Header::BYTES as u64;
    /// Length of a header and a footer together.
    pub(crate) const FRAME_BYTES: u64 = (Header::BYTES + Footer::BYTES) as u64;

    /// The base in the header of this segment; `None` if the header is invalid.
    pub(crate) fn base_of(header: &[u8], id: SegmentId) -> Option<u64> {
        check_header(header, id).ok().map(|()| Header::BASE.get(header))
    }
}

/// Checks a header of this segment.
fn check_header(bytes: &[u8], id: SegmentId) -> Result<(), &'static str> {
    if bytes.len() < Header::BYTES || Header::MAGIC.get(bytes) != MAGIC {
        return Err("it is not a segment of this format");
    }
    if xxh3_64(&bytes[..Header::CHECKSUM.at]) != Header::CHECKSUM.get(bytes) {
        return Err("checksum mismatch in its header");
    }
    let found = SegmentId { epoch: Header::EPOCH.get(bytes), number: Header::NUMBER.get(bytes) };
    if found == id { Ok(()) } else { Err("it is a segment with another name") }
}

/// A segment under construction.
pub(crate) struct Builder {
    summary: Summary,
    bytes: Vec<u8>,
    /// Bytes of tombstones and segment names.
    note_bytes: u64,
    /// The dictionaries that its records name.
    dictionaries: BTreeSet<DictionaryId>,
}

impl Builder {
    pub(crate) fn new(id: SegmentId, base: u64, capacity: usize) -> Builder {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.resize(Header::BYTES, 0);
        Header::MAGIC.put(&mut bytes, MAGIC);
        Header::EPOCH.put(&mut bytes, id.epoch);
        Header::NUMBER.put(&mut bytes, id.number);
        Header::BASE.put(&mut bytes, base);
        let checksum = xxh3_64(&bytes[..Header::CHECKSUM.at]);
        Header::CHECKSUM.put(&mut bytes, checksum);
        let summary = Summary { id, base, records: 0, lowest: u64::MAX, highest: 0 };
        Builder { summary, bytes, note_bytes: 0, dictionaries: BTreeSet::new() }
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.summary.id
    }

    pub(crate) fn note_bytes(&self) -> u64 {
        self.note_bytes
    }

    /// The dictionaries that its records name.
    pub(crate) fn dictionaries(&self) -> &BTreeSet<DictionaryId> {
        &self.dictionaries
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a record. Returns its place and length.
    pub(crate) fn push(&mut self, record: &Record<'_>) -> (Place, usize) {
        let SegmentId { epoch, number } = self.summary.id;
        let place = Place { epoch, segment: number, offset: self.bytes.len() as u64 };
        let length = record.put(place, &mut self.bytes);
        let summary = &mut self.summary;
        summary.records += 1;
        summary.lowest = summary.lowest.min(record.version.sequence);
        summary.highest = summary.highest.max(record.version.sequence);
        self.note_bytes += if record.kind.is_version() { 0 } else { length as u64 };
        self.dictionaries.extend(record.dictionary());
        (place, length)
    }

    /// The bytes of an appended record.
    pub(crate) fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset).ok()?;
        self.bytes.get(from..from.checked_add(usize::try_from(length).ok()?)?)
    }

    /// The whole object.
    pub(crate) fn finish(self) -> Vec<u8> {
        let Builder { summary, mut bytes, .. } = self;
        let begin = bytes.len();
        let content = xxh3_64(&bytes);
        bytes.resize(begin + Footer::BYTES, 0);
        let footer = &mut bytes[begin..];
        Footer::MAGIC.put(footer, END);
        Footer::RECORDS.put(footer, summary.records);
        Footer::LOWEST.put(footer, summary.lowest);
        Footer::HIGHEST.put(footer, summary.highest);
        Footer::CONTENT.put(footer, content);
        let checksum = xxh3_64(&footer[..Footer::CHECKSUM.at]);
        Footer::CHECKSUM.put(footer, checksum);
        bytes
    }
}

/// A whole segment as read, its header and footer checked.
pub(crate) struct Segment<'a> {
    pub(crate) summary: Summary,
    bytes: &'a [u8],
    /// Up to this many bytes at the end may not belong to a record.
    end_bytes: usize,
}

/// The readable part of a segment whose header or footer is damaged.
pub(crate) struct Salvage<'a> {
    pub(crate) segment: Segment<'a>,
    /// As in [`Summary`], if it could be read.
    pub(crate) base: Option<u64>,
    pub(crate) highest: Option<u64>,
}

/// A record of a segment with its place and length.
pub(crate) type Placed<'a> = (Record<'a>, Place, u64);

/// A stretch of a segment that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable<'a> {
    /// Description of the damage, with its position.
    pub(crate) what: String,
    pub(crate) bytes: u64,
    /// The record without its payload, if only the payload is damaged. `None`: records of any kind
    /// may be lost there.
    pub(crate) record: Option<Placed<'a>>,
}

impl<'a> Segment<'a> {
    /// Checks the header and footer of an object that should be this segment.
    pub(crate) fn parse(bytes: &'a [u8], id: SegmentId) -> Result<Segment<'a>, &'static str> {
        if bytes.len() < Header::BYTES + Footer::BYTES {
            return Err("it is shorter than header and footer");
        }
        let (records, footer) = bytes.split_at(bytes.len() - Footer::BYTES);
        check_header(bytes, id)?;
        check_footer(footer)?;
        let summary = Summary {
            id,
            base: Header::BASE.get(bytes),
            records: Footer::RECORDS.get(footer),
            lowest: Footer::LOWEST.get(footer),
            highest: Footer::HIGHEST.get(footer),
        };
        Ok(Segment { summary, bytes: records, end_bytes: 0 })
    }

    /// Reads what it can of an object that does not parse: records contain their places, so they
    /// can be found without header and footer.
    pub(crate) fn salvage(bytes: &'a [u8], id: SegmentId) -> Salvage<'a> {
        let footer = bytes.split_at_checked(bytes.len().saturating_sub(Footer::BYTES));
        let whole = footer.filter(|(_, footer)| footer.len() == Footer::BYTES && check_footer(footer).is_ok());
        let highest = whole.map(|(_, footer)| Footer::HIGHEST.get(footer));
        let (bytes, end_bytes) = match whole {
            Some((records, _)) => (records, 0),
            // The footer is damaged, or the object is cut off.
            None => (bytes, Footer::BYTES),
        };
        let summary = Summary { id, base: 0, records: 0, lowest: 0, highest: u64::MAX };
        Salvage { segment: Segment { summary, bytes, end_bytes }, base: Summary::base_of(bytes, id), highest }
    }

    /// The records with their places and lengths, and the unreadable stretches between them. After
    /// a damaged head it searches for the next record, whose checksum proves its place.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<Placed<'a>, Unreadable<'a>>> + use<'a> {
        let (bytes, id, end_bytes) = (self.bytes, self.summary.id, self.end_bytes);
        let mut at = Header::BYTES;
        std::iter::from_fn(move || {
            if at >= bytes.len() {
                return None;
            }
            let what = match Record::take(&bytes[at..], place(id, at), true) {
                Ok((record, length)) => {
                    let found = (record, place(id, at), length);
                    at += length as usize;
                    return Some(Ok(found));
                }
                Err(what) => format!("{what} (offset {at})"),
            };
            let head = Record::take(&bytes[at..], place(id, at), false).ok();
            let record = head.map(|(record, length)| (record, place(id, at), length));
            let end = match &record {
                Some((_, _, length)) => at.saturating_add(usize::try_from(*length).unwrap_or(usize::MAX)),
                None => next_record(bytes, id, at + 1),
            };
            let (begin, is_end) = (at, end >= bytes.len());
            at = end.min(bytes.len());
            let lost = at - begin;
            let is_frame = is_end && record.is_none() && lost <= end_bytes;
            (!is_frame).then_some(Err(Unreadable { what, bytes: lost as u64, record }))
        })
    }
}

fn place(id: SegmentId, at: usize) -> Place {
    Place { epoch: id.epoch, segment: id.number, offset: at as u64 }
}

/// Offset of the next whole record at or after `from`; the end if there is none.
fn next_record(bytes: &[u8], id: SegmentId, from: usize) -> usize {
    let begins = |at: &usize| {
        let rest = &bytes[*at..];
        Record::may_begin(rest) && Record::take(rest, place(id, *at), true).is_ok()
    };
    (from..bytes.len()).find(begins).unwrap_or(bytes.len())
}

fn check_footer(footer: &[u8]) -> Result<(), &'static str> {
    let is_whole =
        Footer::MAGIC.get(footer) == END && xxh3_64(&footer[..Footer::CHECKSUM.at]) == Footer::CHECKSUM.get(footer);
    if is_whole { Ok(()) } else { Err("checksum mismatch in its footer") }
}

/// Returns whether an object that ends with `tail` is the one that this call wrote: a create-only
/// `PUT` whose answer was lost looks as if somebody else had created the object.
pub(crate) fn has_footer_of(tail: &[u8], written: &[u8]) -> bool {
    written.len() >= Footer::BYTES && tail == &written[written.len() - Footer::BYTES..]
}

/// Length of a footer.
pub(crate) const FOOTER_BYTES: usize = Footer::BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Kind;

    const ID: SegmentId = SegmentId { epoch: 2, number: 7 };

    #[test]
    fn a_segment_says_what_it_holds_and_every_changed_byte_is_found() {
        let mut builder = Builder::new(ID, 40, 1 << 10);
        let removed = Record::tombstone(b"http://a/", 41, b"");
        let (place, length) = builder.push(&removed);
        assert_eq!(builder.slice(place.offset, length as u64).map(<[u8]>::len), Some(length));
        let mut bytes = builder.finish();
        let segment = Segment::parse(&bytes, ID).expect("whole");
        assert_eq!(segment.summary, Summary { id: ID, base: 40, records: 1, lowest: 41, highest: 41 });
        assert_eq!(segment.records().collect::<Vec<_>>(), [Ok((removed, place, length as u64))]);
        assert!(Segment::parse(&bytes, SegmentId { number: 8, ..ID }).is_err());
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            let is_found = match Segment::parse(&bytes, ID) {
                Err(_) => true,
                Ok(segment) => segment.records().any(|record| record.is_err()),
            };
            assert!(is_found, "changed at {at}");
            bytes[at] ^= 1;
        }
    }

    /// Five tombstones, one of them replaced by a page, with the offset of each.
    fn five() -> (Vec<u8>, Vec<usize>) {
        let mut builder = Builder::new(ID, 40, 1 << 10);
        let mut begins = Vec::new();
        for nth in 0..5 {
            let removed = Record::tombstone(b"http://a/", 41 + nth, b"holders");
            let record = if nth == 2 { Record { kind: Kind::Page, payload: b"body", ..removed } } else { removed };
            begins.push(builder.push(&record).0.offset as usize);
        }
        begins.push(builder.len());
        (builder.finish(), begins)
    }

    fn sequences<'a>(segment: &Segment<'a>) -> (Vec<u64>, Vec<Unreadable<'a>>) {
        let (mut sequences, mut lost) = (Vec::new(), Vec::new());
        for record in segment.records() {
            match record {
                Ok((record, ..)) => sequences.push(record.version.sequence),
                Err(unreadable) => lost.push(unreadable),
            }
        }
        (sequences, lost)
    }

    #[test]
    fn a_damaged_record_is_named_and_all_others_are_read() {
        let (mut bytes, begins) = five();
        for at in begins[0]..begins[5] {
            bytes[at] ^= 1;
            let (found, lost) = sequences(&Segment::parse(&bytes, ID).expect("header and footer"));
            let nth = begins.iter().rposition(|begin| *begin <= at).expect("in a record");
            let left: Vec<u64> = (0..5).filter(|other| *other != nth as u64).map(|other| 41 + other).collect();
            assert_eq!((found, lost.len()), (left, 1), "changed at {at}");
            assert_eq!(lost[0].bytes as usize, begins[nth + 1] - begins[nth], "changed at {at}");
            if let Some((record, place, _)) = &lost[0].record {
                assert_eq!((record.version.sequence, place.offset as usize), (41 + nth as u64, begins[nth]));
            }
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn what_is_left_of_a_segment_that_was_cut_off_is_read() {
        let (mut bytes, begins) = five();
        for end in 0..bytes.len() {
            assert!(Segment::parse(&bytes[..end], ID).is_err());
            let Salvage { segment, base, highest } = Segment::salvage(&bytes[..end], ID);
            let whole = begins[1..].iter().filter(|record_end| **record_end <= end).count();
            assert_eq!(sequences(&segment).0.len(), whole, "cut at {end}");
            assert_eq!((base, highest), ((end >= Header::BYTES).then_some(40), None));
        }
        bytes[9] ^= 1;
        let Salvage { segment, base, highest } = Segment::salvage(&bytes, ID);
        assert_eq!((sequences(&segment).0.len(), base, highest), (5, None, Some(45)));
        assert_eq!(sequences(&segment).1, []);
    }

    #[test]
    fn a_name_is_of_one_segment() {
        assert_eq!(ID.name(), "00000002-00000007");
        assert_eq!(SegmentId::of_name(&ID.name()), Some(ID));
        for wrong in ["", "2-7", "00000002-0000000g", "00000002-00000007-", "+0000002-00000007"] {
            assert_eq!(SegmentId::of_name(wrong), None, "{wrong}");
        }
    }
}
