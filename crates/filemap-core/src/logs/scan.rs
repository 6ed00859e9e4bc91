//! Sequential scan of one log file. Only damaged records are lost: after one, the scan searches
//! for the next whole record, unit by unit.

use filemap_io::{Advice, File};

use crate::error::{Error, Result};
use crate::format::Flaw;

/// The framing of a log: how a scan recognises its records.
pub(crate) trait Framing {
    /// Alignment of records.
    const UNIT_BYTES: u64;
    /// Most bytes that `peek` needs.
    const PEEK_BYTES: usize;

    /// Returns the length of the head of the record at the front of `b`, from its fixed part.
    fn peek(&self, b: &[u8]) -> std::result::Result<usize, Flaw>;

    /// Verifies the head at the front of `b`, read from `offset` of its file, and returns the
    /// length of the whole record. Only a length under a verified checksum may be used for
    /// reading.
    fn head(&self, b: &[u8], offset: u64) -> std::result::Result<Extent, Flaw>;

    /// Verifies the rest of the whole record at the front of `b`, after its head.
    fn check(&self, b: &[u8]) -> std::result::Result<(), Flaw>;
}

/// Length of a record, and whether what follows its head is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A record of this many bytes, to be checked.
    Record(u64),
    /// A filler of this many bytes.
    Filler(u64),
}

/// A result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// A whole record.
    Record {
        offset: u64,
        /// The whole record, padding included.
        bytes: &'a [u8],
    },
    /// A filler.
    Filler {
        /// Number of bytes that it covers.
        bytes: u64,
    },
    /// Bytes that belong to no whole record.
    Gap {
        offset: u64,
        bytes: u64,
        /// The flaw of the first of them.
        what: Flaw,
    },
}

/// Bytes per read.
const BLOCK_BYTES: usize = 1 << 20;
/// Read-ahead distance: keeps the device busy while records are checked.
const AHEAD_BYTES: u64 = 16 << 20;

/// A scan of a range of a file.
pub(crate) struct Scan<'a, F> {
    file: &'a dyn File,
    name: String,
    framing: F,
    /// Bytes of the file from `start` on, in the first `len` bytes.
    buffer: Vec<u8>,
    len: usize,
    start: u64,
    at: u64,
    end: u64,
    /// End of the prefetched range.
    asked: u64,
    /// True if reads bypass the page cache where possible.
    is_once: bool,
}

impl<'a, F: Framing> Scan<'a, F> {
    /// Scans `from..end`; `end` is clipped to the length of the file.
    pub(crate) fn new(file: &'a dyn File, name: String, framing: F, from: u64, end: u64) -> Result<Scan<'a, F>> {
        let len = file.len().map_err(Error::io("measure", &name))?;
        let end = end.min(len);
        let scan = Scan {
            file,
            name,
            framing,
            buffer: Vec::new(),
            len: 0,
            start: from,
            at: from,
            end,
            asked: from,
            is_once: false,
        };
        Ok(scan)
    }

    /// Makes the scan bypass the page cache where possible, so that a pass over a whole log does
    /// not evict pages in use.
    pub(crate) fn once(self) -> Scan<'a, F> {
        Scan { is_once: true, ..self }
    }

    /// Offset of the next item.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    /// Returns the next item, `None` at the end. Memory is bounded by the longest record.
    ///
    /// # Errors
    /// `Io` if the file cannot be read. Damage is an item, not an error.
    pub(crate) fn next(&mut self) -> Result<Option<Item<'_>>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let offset = self.at;
        let what = match self.record(offset)? {
            Ok(Extent::Filler(bytes)) => {
                self.at += bytes;
                return Ok(Some(Item::Filler { bytes }));
            }
            Ok(Extent::Record(total)) => {
                self.at += total;
                let at = (offset - self.start) as usize;
                return Ok(Some(Item::Record { offset, bytes: &self.buffer[at..at + total as usize] }));
            }
            Err(what) => what,
        };
        while self.at < self.end {
            self.at = (self.at / F::UNIT_BYTES + 1) * F::UNIT_BYTES;
            if self.at < self.end && self.record(self.at)?.is_ok() {
                break;
            }
        }
        self.at = self.at.min(self.end);
        Ok(Some(Item::Gap { offset, bytes: self.at - offset, what }))
    }

    /// Verifies the record at `offset` and leaves it in the buffer.
    fn record(&mut self, offset: u64) -> Result<std::result::Result<Extent, Flaw>> {
        self.fill(offset, F::PEEK_BYTES)?;
        let head = match self.framing.peek(self.held(offset, F::PEEK_BYTES)) {
            Ok(head) => head,
            Err(what) => return Ok(Err(what)),
        };
        self.fill(offset, head)?;
        let extent = match self.framing.head(self.held(offset, head), offset) {
            Ok(extent) => extent,
            Err(what) => return Ok(Err(what)),
        };
        let (Extent::Record(total) | Extent::Filler(total)) = extent;
        if offset + total > self.end {
            return Ok(Err("record reaches past the end"));
        }
        if let Extent::Filler(_) = extent {
            return Ok(Ok(extent));
        }
        self.fill(offset, total as usize)?;
        Ok(self.framing.check(self.held(offset, total as usize)).map(|()| extent))
    }

    /// Returns the buffered part of `want` bytes at `offset`.
    fn held(&self, offset: u64, want: usize) -> &[u8] {
        let at = (offset - self.start) as usize;
        &self.buffer[at.min(self.len)..(at + want).min(self.len)]
    }

    /// Fills the buffer with `want` bytes at `offset`, clipped to the range.
    fn fill(&mut self, offset: u64, want: usize) -> Result<()> {
        let have = self.start + self.len as u64;
        let need = (offset + want as u64).min(self.end);
        if offset >= self.start && need <= have {
            return Ok(());
        }
        let skipped = if offset >= self.start && offset < have { (offset - self.start) as usize } else { self.len };
        self.buffer.copy_within(skipped..self.len, 0);
        self.len -= skipped;
        self.start = offset;
        let goal = ((want.max(BLOCK_BYTES) as u64).min(self.end - offset) as usize).max(self.len);
        if self.buffer.len() < goal {
            self.buffer.resize(goal, 0);
        }
        let (from, goal_end) = (offset + self.len as u64, offset + goal as u64);
        let into = &mut self.buffer[self.len..goal];
        let read = if self.is_once {
            self.file.read_once_at(into, from)
        } else {
            let (ahead, until) = (self.asked.max(goal_end), (goal_end + AHEAD_BYTES).min(self.end));
            if until > ahead {
                self.file.advise(Advice::WillNeed, ahead, until - ahead);
                self.asked = until;
            }
            self.file.read_at(into, from)
        };
        self.len += read.map_err(Error::io("read", &self.name))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use filemap_io::{Access, Dir, OsDir};

    /// Records of 8-byte units: {length, tag 0xAA, fill = length}.
    struct Toy;
    impl Framing for Toy {
        const UNIT_BYTES: u64 = 8;
        const PEEK_BYTES: usize = 2;
        fn peek(&self, b: &[u8]) -> std::result::Result<usize, Flaw> {
            if b.len() < 2 || b[1] != 0xaa || b[0] == 0 { Err("no tag") } else { Ok(2) }
        }
        fn head(&self, b: &[u8], _: u64) -> std::result::Result<Extent, Flaw> {
            Ok(Extent::Record(u64::from(b[0]) * 8))
        }
        fn check(&self, b: &[u8]) -> std::result::Result<(), Flaw> {
            if b[2..].iter().all(|&x| x == b[0]) { Ok(()) } else { Err("bad fill") }
        }
    }

    fn toy(units: u8) -> Vec<u8> {
        let mut b = vec![units; usize::from(units) * 8];
        b[1] = 0xaa;
        b
    }

    fn scan(bytes: &[u8]) -> Vec<(u64, u64, bool)> {
        let temp = tempfile::tempdir().unwrap();
        let file = OsDir::open(temp.path()).unwrap().open("f", Access::Create).unwrap();
        file.write_at(bytes, 0).unwrap();
        let mut scan = Scan::new(&*file, "f".into(), Toy, 0, u64::MAX).unwrap();
        let mut items = Vec::new();
        while let Some(item) = scan.next().unwrap() {
            items.push(match item {
                Item::Record { offset, bytes } => (offset, bytes.len() as u64, true),
                Item::Gap { offset, bytes, .. } => (offset, bytes, false),
                Item::Filler { bytes } => panic!("a toy log has no filler of {bytes} bytes"),
            });
        }
        items
    }

    #[test]
    fn a_scan_finds_its_way_past_damage_and_a_torn_tail() {
        let mut log = [toy(3), toy(1), toy(200), toy(2)].concat();
        assert_eq!(scan(&log), vec![(0, 24, true), (24, 8, true), (32, 1600, true), (1632, 16, true)]);
        log[40] ^= 1;
        assert_eq!(scan(&log), vec![(0, 24, true), (24, 8, true), (32, 1600, false), (1632, 16, true)]);
        log.truncate(1640);
        assert_eq!(scan(&log)[2..], [(32, 1608, false)]);
        assert_eq!(scan(&[]), vec![]);
        assert_eq!(scan(&[1, 2, 3]), vec![(0, 3, false)]);
    }

    #[test]
    fn records_across_the_borders_of_blocks_come_whole() {
        let mut log = Vec::new();
        while log.len() < 3 * BLOCK_BYTES {
            log.extend(toy(1 + (log.len() / 8 % 255) as u8));
        }
        let items = scan(&log);
        assert!(items.iter().all(|i| i.2));
        assert_eq!(items.iter().map(|i| i.1).sum::<u64>(), log.len() as u64);
    }
}
