//! Progress of a resumable verification: the file VERIFYING. The findings of a segment are
//! appended once all of it is known to be intact. A segment with any flaw is read again, since it
//! may have been repaired.
//!
//! Decoding is total: for any file it yields segments or ends. The file is never synced; damage in
//! it costs only time.
//!
//! The file is a head ([`UnderWay`]), then a frame per segment: [`FrameLayout`] and numbers in
//! LEB128.

use std::collections::HashMap;
use std::sync::Arc;

use filemap_io::{Access, Dir, File, files, varint};

use crate::error::{Error, Result};

use crate::format::location::{Extent, Location};
use crate::format::names;
use crate::format::verified::{FrameLayout, UNDER_WAY_BYTES, UnderWay};
use crate::record::now_ms;
use crate::upkeep::check::values::{Findings, List};

/// Older findings say little about what the disk holds today.
const LONGEST_PASS_MS: i64 = 30 * 24 * 3600 * 1000;
/// Longest frame; no segment needs a longer one.
const MOST_BYTES: u64 = 256 << 20;
const HEAD_BYTES: usize = FrameLayout::BYTES;

/// The file VERIFYING, open for appending.
#[derive(Debug)]
pub(super) struct Position {
    /// `None` until the first segment is recorded.
    file: Option<Arc<dyn File>>,
    end: u64,
    store_id: [u8; 16],
    pub(super) begun_ms: i64,
}

impl Position {
    /// A pass at its beginning.
    pub(super) fn new(store_id: [u8; 16]) -> Position {
        Position { file: None, end: 0, store_id, begun_ms: now_ms() }
    }

    /// Resumes the pass recorded in the store, with its findings by segment ordinal, or begins a
    /// new one.
    pub(super) fn resume(dir: &dyn Dir, store_id: [u8; 16]) -> (Position, HashMap<u64, Findings>) {
        let mut known = HashMap::new();
        let mut resumed = || -> Option<Position> {
            let file = dir.open(names::VERIFYING, Access::Write).ok()?;
            let head = files::read(&*file, names::VERIFYING, 0, UNDER_WAY_BYTES).ok()?;
            let UnderWay { store_id: found, begun_ms } = UnderWay::decode(&head).ok()?;
            (found == store_id).then_some(())?;
            (0..LONGEST_PASS_MS).contains(&(now_ms() - begun_ms)).then_some(())?;
            let (mut end, len) = (UNDER_WAY_BYTES as u64, file.len().ok()?);
            while let Some((findings, bytes)) = read(&*file, end, len) {
                known.insert(findings.ordinal, findings);
                end += bytes;
            }
            Some(Position { file: Some(file), end, store_id, begun_ms })
        };
        let position = resumed().unwrap_or_else(|| Position::new(store_id));
        (position, known)
    }

    /// Returns true if a pass can be resumed from here.
    pub(super) fn is_kept(&self) -> bool {
        self.file.is_some()
    }

    /// Records the findings of an intact segment.
    pub(super) fn add(&mut self, dir: &dyn Dir, findings: &Findings) -> Result<()> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                files::remove(dir, names::VERIFYING)?;
                let create = Error::io("create", names::VERIFYING);
                let file = dir.open(names::VERIFYING, Access::Create).map_err(create)?;
                let head = UnderWay { store_id: self.store_id, begun_ms: self.begun_ms }.encode();
                files::write(&*file, names::VERIFYING, &head, 0)?;
                self.end = head.len() as u64;
                self.file = Some(Arc::clone(&file));
                file
            }
        };
        let frame = encode(findings);
        files::write(&*file, names::VERIFYING, &frame, self.end)?;
        self.end += frame.len() as u64;
        Ok(())
    }
}

/// Reads the frame at an offset. Returns the findings and the frame's length.
fn read(file: &dyn File, offset: u64, len: u64) -> Option<(Findings, u64)> {
    let mut head = [0; HEAD_BYTES];
    files::read_exact(file, names::VERIFYING, &mut head, offset).ok()?;
    let bytes = HEAD_BYTES as u64 + u64::from(FrameLayout::LENGTH.get(&head));
    (bytes <= MOST_BYTES && offset + bytes <= len).then_some(())?;
    let mut frame = vec![0; bytes as usize];
    files::read_exact(file, names::VERIFYING, &mut frame, offset).ok()?;
    Some((decode(&frame)?, bytes))
}

/// An intact frame as `inspect` shows it.
pub(crate) struct Frame {
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// The head, laid out as [`FrameLayout`].
    pub(crate) head: [u8; HEAD_BYTES],
    /// Names and values; a list is shown by its length.
    pub(crate) numbers: [(&'static str, u64); 8],
}

/// Returns the frame at an offset of a file of `len` bytes; `None` if it is damaged or cut short.
pub(crate) fn frame(file: &dyn File, offset: u64, len: u64) -> Option<Frame> {
    let (findings, bytes) = read(file, offset, len)?;
    let mut head = [0; HEAD_BYTES];
    files::read_exact(file, names::VERIFYING, &mut head, offset).ok()?;
    let numbers = [
        ("id", u64::from(findings.id)),
        ("ordinal", findings.ordinal),
        ("end", findings.end),
        ("records", findings.records),
        ("tombstone_units", findings.tombstone_units),
        ("starts", findings.starts.len() as u64),
        ("chunks", findings.chunks.len() as u64),
        ("lists", findings.lists.len() as u64),
    ];
    Some(Frame { bytes, head, numbers })
}

fn encode(f: &Findings) -> Vec<u8> {
    let mut out = Writer(vec![0; HEAD_BYTES]);
    [u64::from(f.id), f.ordinal, f.end, f.records, f.tombstone_units].iter().for_each(|n| out.number(*n));
    out.rising(&f.starts);
    out.rising(&f.chunks);
    out.number(f.lists.len() as u64);
    for (unit, list) in &f.lists {
        out.number(u64::from(*unit));
        out.number(list.len() as u64);
        for extent in list {
            out.number(extent.location.pack());
            out.number(u64::from(extent.units));
        }
    }
    let (length, crc) = (out.0.len() - HEAD_BYTES, crc32fast::hash(&out.0[HEAD_BYTES..]));
    FrameLayout::LENGTH.put(&mut out.0, length as u32);
    FrameLayout::CRC.put(&mut out.0, crc);
    out.0
}

/// Decodes a frame; `None` if it is damaged.
fn decode(frame: &[u8]) -> Option<Findings> {
    let (head, body) = frame.split_first_chunk::<HEAD_BYTES>()?;
    let (length, crc) = (FrameLayout::LENGTH.get(head), FrameLayout::CRC.get(head));
    (length as usize == body.len() && crc32fast::hash(body) == crc).then_some(())?;
    let mut input = Reader(body);
    input.findings().filter(|_| input.0.is_empty())
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, n: u64) {
        varint::put(&mut self.0, n);
    }

    fn rising(&mut self, units: &[u32]) {
        self.number(units.len() as u64);
        let mut last = 0;
        for unit in units {
            self.number(u64::from(unit.wrapping_sub(std::mem::replace(&mut last, *unit))));
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        varint::take(&mut self.0)
    }

    /// A number of items, each of at least one byte.
    fn count(&mut self) -> Option<usize> {
        let n = usize::try_from(self.number()?).ok()?;
        (n <= self.0.len()).then_some(n)
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn rising(&mut self) -> Option<Vec<u32>> {
        let (count, mut last) = (self.count()?, 0u32);
        let one = |_| {
            last = last.checked_add(self.small()?)?;
            Some(last)
        };
        (0..count).map(one).collect()
    }

    fn findings(&mut self) -> Option<Findings> {
        Some(Findings {
            id: u16::try_from(self.number()?).ok()?,
            ordinal: self.number()?,
            end: self.number()?,
            records: self.number()?,
            tombstone_units: self.number()?,
            starts: self.rising()?,
            chunks: self.rising()?,
            lists: (0..self.count()?).map(|_| self.list()).collect::<Option<_>>()?,
        })
    }

    fn list(&mut self) -> Option<List> {
        let (unit, count) = (self.small()?, self.count()?);
        let extent = |_| {
            let location = Location::unpack(self.number()?);
            Some(Extent { location, units: self.small()? })
        };
        Some((unit, (0..count).map(extent).collect::<Option<_>>()?))
    }
}

#[cfg(test)]
mod tests {
    use filemap_io::OsDir;

    use super::*;

    fn example(ordinal: u64) -> Findings {
        let extent = Extent { location: Location::new(7, 640), units: 9 };
        Findings {
            id: ordinal as u16,
            ordinal,
            end: 1 << 30,
            records: 5,
            starts: vec![1, 2, 9, 1 << 23],
            chunks: vec![2],
            lists: vec![(9, vec![extent, extent]), (10, vec![])],
            tombstone_units: 4,
        }
    }

    #[test]
    fn findings_come_back_and_any_changed_byte_is_noticed() {
        let bytes = encode(&example(65_539));
        assert_eq!(decode(&bytes), Some(example(65_539)));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert_eq!(decode(&bad), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn a_position_is_resumed_up_to_where_it_is_whole_and_only_in_its_store() {
        let temp = tempfile::tempdir().unwrap();
        let dir = OsDir::open(temp.path()).unwrap();
        let path = temp.path().join(names::VERIFYING);
        let (mut position, known) = Position::resume(&dir, [5; 16]);
        assert!(known.is_empty() && !path.exists());
        (0..3).for_each(|ordinal| position.add(&dir, &example(ordinal)).unwrap());
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (mut resumed, known) = Position::resume(&dir, [5; 16]);
            let expected = cut.saturating_sub(UNDER_WAY_BYTES) / encode(&example(0)).len();
            assert_eq!(known.len(), expected, "cut at {cut}");
            assert!(cut < UNDER_WAY_BYTES || resumed.begun_ms == position.begun_ms);
            // A resumed pass appends after the last intact frame.
            resumed.add(&dir, &example(9)).unwrap();
            let (_, known) = Position::resume(&dir, [5; 16]);
            assert_eq!((known.len(), known.get(&9)), (expected + 1, Some(&example(9))));
            assert!(Position::resume(&dir, [6; 16]).1.is_empty(), "another store's");
        }
        let mut old = Position { begun_ms: now_ms() - LONGEST_PASS_MS - 1, ..Position::new([5; 16]) };
        old.add(&dir, &example(1)).unwrap();
        assert!(Position::resume(&dir, [5; 16]).1.is_empty(), "it is too long ago");
        files::remove(&dir, names::VERIFYING).unwrap();
        files::remove(&dir, names::VERIFYING).unwrap();
        assert!(!path.exists());
    }

    proptest::proptest! {
        #[test]
        fn forged_findings_are_refused_or_taken_and_never_panic(body in proptest::collection::vec(0u8.., 0..200)) {
            let mut frame = (body.len() as u32).to_le_bytes().to_vec();
            frame.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
            frame.extend_from_slice(&body);
            let _ = decode(&frame);
        }
    }
}
