//! Reads a WARC or ARC file record by record, skipping damage.
//!
//! A record is returned if it is *whole*: its header parses, its block has the declared length,
//! the block is followed by the end of a record (two line ends, the next record, or the end of its
//! member), and the checksum of a compressed member with this record alone is right. A block of
//! another length is also whole if its digest proves it; a whole record with a wrong digest is
//! returned with that [`Problem`]. Everything else is a [`Problem`] with the file and offset.
//! Reading then continues at the next place where a record can begin: a `WARC/` line inside the
//! bytes that the bad record claimed, or the next member.
//!
//! Invariants: memory is bounded by the spool; time is linear in the file (rereads are bounded);
//! every byte of the file belongs to a record or to a reported problem.

mod framing;
mod lengths;
mod mending;
mod search;

use std::collections::VecDeque;
use std::io::Read;

use self::search::{find_record, find_start, kept};
use crate::error::{Error, Result};
use crate::spool::{Payload, Spool};
use crate::warc::arc;
use crate::warc::clipped::{Clipped, Inside};
use crate::warc::digest;
use crate::warc::header::{RECORD_MAGIC, RecordHeader, record_begins};
use crate::warc::input::ReadFailure;
use crate::warc::member::{Ended, Members, Opened};
use crate::warc::problem::{Place, Problem, ProblemKind};
use crate::warc::record::{Item, Record};
use crate::warc::step::Broken;

/// The longest header, in bytes.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// The longest block that is kept, in bytes: a longer one cannot be stored.
const MAX_BLOCK_BYTES: u64 = filemap_core::Record::MAX_VALUE_BYTES + (1 << 20);

/// Reads the records of one WARC or ARC file, plain or compressed, from any reader.
///
/// ```
/// # fn main() -> filemap::Result<()> {
/// use filemap::warc::Spool;
/// use filemap::warc::{Item, Reader};
///
/// let file = b"WARC/1.1\r\nWARC-Type: warcinfo\r\nContent-Length: 2\r\n\r\nok\r\n\r\n";
/// let mut reader = Reader::new(&file[..], "file.warc", Spool::default())?;
/// while let Some(Item::Record(record)) = reader.next_item()? {
///     assert_eq!((record.header.record_type(), record.block_bytes()), ("warcinfo", 2));
/// }
/// # Ok(())
/// # }
/// ```
pub struct Reader<R> {
    file: String,
    members: Members<R>,
    spool: Spool,
    /// The bytes up to the next record belong to a reported problem.
    told: bool,
    /// No item has been returned yet.
    is_silent: bool,
    /// The current record began in an earlier member.
    crossed: bool,
    form: Form,
    /// The current record is an ARC record.
    is_arc: bool,
    /// A line end separated two ARC records.
    separates: bool,
    /// The data ended inside this record, and no other has begun since.
    clipped: Option<Clipped>,
    /// The next items to return.
    next: VecDeque<Item>,
}

/// The kind of records in the file, by the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Unknown,
    Warc,
    Arc,
}

/// The longest block whose wrong length is corrected, in bytes.
const MAX_MENDED_BYTES: u64 = 16 << 20;

/// End of an ARC record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArcEnd {
    /// At its declared length.
    Here,
    /// One byte earlier: the length includes the line end after it.
    ByteBefore,
    /// At this offset in the block, where another record begins.
    Inside(u64),
    /// After the block.
    Behind,
    /// Unknown: a line end follows, but no record.
    Unsure,
}

/// Reason why there are no more bytes for a record.
enum Stop {
    /// The member, and perhaps the file, ends.
    Ended,
    /// Another record begins.
    Record,
    Broken(Broken),
}

impl<R: Read> Reader<R> {
    /// Reads from `source`; `file` is its name in problems.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if no decompressor can be allocated.
    pub fn new(source: R, file: impl Into<String>, spool: Spool) -> Result<Reader<R>> {
        let file = file.into();
        match Members::new(source) {
            Ok(members) => Ok(Reader {
                file,
                members,
                spool,
                told: false,
                is_silent: true,
                crossed: false,
                form: Form::Unknown,
                is_arc: false,
                separates: false,
                clipped: None,
                next: VecDeque::new(),
            }),
            Err(source) => Err(Error::Read { what: file, offset: 0, source }),
        }
    }

    /// Number of bytes taken from the source.
    pub fn bytes_read(&self) -> u64 {
        self.members.bytes_read()
    }

    /// The next record or problem; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if the source fails, [`Error::Spool`] if a large block cannot be set aside,
    /// [`Error::Packed`] if the file is compressed in a format that is not supported. Damage is
    /// not an error.
    pub fn next_item(&mut self) -> Result<Option<Item>> {
        if let Some(item) = self.next.pop_front() {
            return Ok(Some(item));
        }
        let item = loop {
            let item = self.read_item().map_err(|failure| match failure {
                ReadFailure::Spool(error) => error,
                ReadFailure::Source(source) => {
                    Error::Read { what: self.file.clone(), offset: self.members.bytes_read(), source }
                }
            })?;
            match (self.clipped.take(), item) {
                (None, item) => break item,
                (Some(clipped), None) => break Some(clipped.at_end(&self.file)?),
                // The problem is in the cut record's own bytes, which are searched again.
                (Some(mut clipped), Some(Item::Problem(problem))) if clipped.is_searched => {
                    clipped.inside.add(problem);
                    self.clipped = Some(clipped);
                }
                (Some(clipped), item) => {
                    let lost = self.lost(clipped);
                    self.next.extend(item);
                    break Some(lost);
                }
            }
        };
        let was_silent = std::mem::replace(&mut self.is_silent, false);
        // Every writer begins with a record: a file without one was cut off before it.
        Ok(item.or_else(|| was_silent.then(|| self.nothing())))
    }

    /// The problem of a cut record that others follow; problems found in between come next.
    fn lost(&mut self, mut clipped: Clipped) -> Item {
        self.next.extend(std::mem::take(&mut clipped.inside).problems().map(Item::Problem));
        clipped.lost(&self.file)
    }

    /// The problem of a file that ends before its first record.
    fn nothing(&self) -> Item {
        let what = match self.members.bytes_read() {
            0 => "the file is empty",
            _ => "the file is empty after decompression: it has no record",
        };
        self.damage(Place { offset: 0, inner: None }, what.to_owned())
    }

    fn read_item(&mut self) -> std::result::Result<Option<Item>, ReadFailure> {
        loop {
            if !self.members.is_open() {
                match self.open()? {
                    Some(Some(problem)) => return Ok(Some(problem)),
                    Some(None) => {}
                    None => return Ok(None),
                }
                continue;
            }
            self.skip_line_ends()?;
            if let Some(ended) = self.members.end()? {
                let place = self.members.place();
                self.members.close();
                if let Some(problem) = self.member_ended(place, ended) {
                    return Ok(Some(problem));
                }
                continue;
            }
            if self.members.leave_plain()? {
                continue;
            }
            if let Some(begun) = self.begun()? {
                if let Some(clipped) = self.clipped.take() {
                    return Ok(Some(self.lost(clipped)));
                }
                self.told = false;
                // One ARC record makes this an ARC file, which may also have WARC records.
                if self.form != Form::Arc {
                    self.form = begun;
                    self.members.look_for_arc(begun == Form::Arc);
                }
                self.is_arc = begun == Form::Arc;
                let item = if self.is_arc { self.arc_record()? } else { self.record()? };
                if item.is_some() {
                    return Ok(item);
                }
                continue;
            }
            if let Some(problem) = self.skip_garbage()? {
                return Ok(Some(problem));
            }
        }
    }

    /// The form of the record that begins here.
    fn begun(&mut self) -> std::result::Result<Option<Form>, ReadFailure> {
        if record_begins(self.members.peek(16)?) {
            return Ok(Some(Form::Warc));
        }
        if self.form == Form::Warc {
            return Ok(None);
        }
        // After skipped bytes, the line was found by a search.
        let is_expected = !self.told || self.members.is_at_start();
        let next = self.members.peek(arc::LINE_BYTES)?;
        let line = if is_expected { arc::expected(next) } else { arc::line(next) };
        Ok(line.is_some().then_some(Form::Arc))
    }

    /// Opens the next member. Returns `None` at the end of the file, `Some(Some(..))` for a
    /// problem.
    fn open(&mut self) -> std::result::Result<Option<Option<Item>>, ReadFailure> {
        let opened = self.members.open()?;
        Ok(match opened {
            Opened::Member => Some(None),
            Opened::End => None,
            Opened::Packed(form) => return Err(Error::Packed { file: self.file.clone(), form }.into()),
            Opened::Garbage { .. } if std::mem::replace(&mut self.told, false) => Some(None),
            Opened::Garbage { from, bytes } => {
                let what = format!("{bytes} bytes here are not a WARC record, and not compressed data; skipped");
                Some(Some(self.damage(Place { offset: from, inner: None }, what)))
            }
            Opened::BadDictionary { from } => {
                let what = "the zstd dictionary is damaged; records that need it are lost".to_owned();
                Some(Some(self.damage(Place { offset: from, inner: None }, what)))
            }
        })
    }

    /// Handles a member that ended between records.
    fn member_ended(&mut self, place: Place, ended: Ended) -> Option<Item> {
        let Ended::Broken(broken) = ended else {
            self.told = false;
            return None;
        };
        let was_told = std::mem::replace(&mut self.told, true);
        let what = if broken.is_cut {
            format!("the file ends {}", broken.what)
        } else {
            format!("{} (before offset {})", broken.what, self.members.offset())
        };
        if was_told { None } else { Some(self.damage(place, what)) }
    }

    fn damage(&self, place: Place, what: String) -> Item {
        Item::Problem(self.problem(place, ProblemKind::Damage, what))
    }

    fn skip_line_ends(&mut self) -> std::result::Result<(), ReadFailure> {
        loop {
            let next = self.members.peek(1)?;
            let ends = next.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if ends == 0 {
                return Ok(());
            }
            self.members.consume(ends);
        }
    }

    /// Skips to where the next record of this member may begin, or to the member's end.
    fn skip_garbage(&mut self) -> std::result::Result<Option<Item>, ReadFailure> {
        let place = self.members.place();
        let mut skipped = 0;
        loop {
            let is_arc = self.form == Form::Arc;
            let ahead = if is_arc { arc::LINE_BYTES } else { 16 };
            let next = self.members.peek(ahead)?;
            if next.is_empty() {
                break;
            }
            let found = find_start(next, is_arc);
            // The last bytes may be the start of a record.
            let step = found.unwrap_or(if next.len() < ahead { next.len() } else { next.len() - kept(next, is_arc) });
            self.members.consume(step);
            skipped += step;
            if found.is_some() {
                break;
            }
        }
        let was_told = std::mem::replace(&mut self.told, true);
        let what = format!("{skipped} bytes here are not a WARC record; skipped");
        Ok(if was_told { None } else { Some(self.damage(place, what)) })
    }

    /// Reads the ARC record that begins here.
    fn arc_record(&mut self) -> std::result::Result<Option<Item>, ReadFailure> {
        let place = self.members.place();
        self.crossed = false;
        let Some(line) = arc::expected(self.members.peek(arc::LINE_BYTES)?) else { return Ok(None) };
        let (header, length, bytes) = (line.header(), line.length, line.bytes);
        self.members.consume(bytes);
        if let Some(length) = length {
            return self.record_of(place, header, length);
        }
        self.told = true;
        Ok(Some(self.damage(place, "the record is damaged: its length is not a number".to_owned())))
    }

    /// Reads the record that begins here; `None` if the data ends inside it.
    fn record(&mut self) -> std::result::Result<Option<Item>, ReadFailure> {
        let place = self.members.place();
        self.crossed = false;
        let (text, stop) = self.header_text()?;
        if let Some(stop) = stop {
            let what = format!("the record is cut inside its header: {}", self.reason(&stop));
            return self.bad_header(place, text, &what).map(Some);
        }
        let header = match RecordHeader::parse(&text) {
            Ok(header) => header,
            Err(why) => return self.bad_header(place, text, &format!("the record is damaged: {why}")).map(Some),
        };
        match header.content_length() {
            Some(length) => self.record_of(place, header, length),
            None => {
                let what = "the record is damaged: its Content-Length is not a number";
                self.bad_header(place, text, what).map(Some)
            }
        }
    }

    /// Reads the block of a record whose header was read; `None` if the data ends inside it.
    fn record_of(
        &mut self,
        place: Place,
        header: RecordHeader,
        length: u64,
    ) -> std::result::Result<Option<Item>, ReadFailure> {
        let mut block = self.spool.writer(MAX_BLOCK_BYTES);
        let stop = self.read_block(length, &mut block)?;
        let (bytes, is_over) = (block.bytes(), block.is_over());
        let mut block = block.finish();
        if let Some(stop) = stop {
            let what = format!("the record is cut: its block has {bytes} of {length} bytes; {}", self.reason(&stop));
            if matches!(stop, Stop::Ended) && self.is_arc && !is_over && !self.members.is_suspect_plain() {
                return self.arc_cut(place, header, block, what).map(Some);
            }
            let is_searched = matches!(stop, Stop::Broken(_));
            let may_be_last = stop.is_end() && !is_over && !self.members.is_suspect_plain();
            if may_be_last && find_record(&mut block, self.form == Form::Arc)?.is_none() {
                self.told = true;
                self.clipped = Some(Clipped { header, place, block, what, is_searched, inside: Inside::default() });
                return Ok(None);
            }
            return self.bad_block(place, block, is_over, what).map(Some);
        }
        if self.is_arc {
            match self.arc_end(&mut block)? {
                ArcEnd::Here => {}
                _ if is_over || self.members.is_suspect_plain() => {
                    let what = "the record is damaged: no record ends at its declared length".to_owned();
                    return self.bad_block(place, block, is_over, what).map(Some);
                }
                end => return self.arc_wrong_length(place, header, block, end).map(Some),
            }
        } else if !self.ends_here()? {
            return self.wrong_length(place, header, block, is_over).map(Some);
        }
        if let Some(broken) = self.check_member(place)? {
            self.told = true;
            let is_cut = broken.is_cut;
            let reason = self.reason(&Stop::Broken(broken));
            if is_cut && !is_over {
                // The whole block may be there, but nothing proves it.
                self.clipped =
                    Some(Clipped { header, place, block, what: reason, is_searched: true, inside: Inside::default() });
                return Ok(None);
            }
            return Ok(Some(self.damage(place, format!("the record is damaged: {reason}"))));
        }
        if is_over {
            let what = format!("the record has {bytes} bytes, more than a store takes; left out");
            return Ok(Some(Item::Problem(self.problem(place, ProblemKind::Unusable, what))));
        }
        self.members.whole_record(place);
        self.checked(place, header, block).map(|record| Some(Item::Record(record)))
    }

    /// Returns a whole record, with a problem if its digest or a line of its header is wrong.
    fn checked(&self, place: Place, header: RecordHeader, block: Payload) -> std::result::Result<Record, ReadFailure> {
        let mut record = Record { header, place, problem: None, block };
        if let Some(digest) = record.header.text("WARC-Block-Digest")
            && digest::matches(&mut record.block, digest)? == Some(false)
        {
            let what = "block digest mismatch (WARC-Block-Digest); the record is kept";
            record.problem = Some(self.problem(place, ProblemKind::Damage, what.to_owned()));
        } else if record.header.has_odd_line {
            let what = "a line of the header is not a field; the record is kept";
            record.problem = Some(self.problem(place, ProblemKind::Damage, what.to_owned()));
        }
        Ok(record)
    }

    fn problem(&self, place: Place, kind: ProblemKind, what: String) -> Problem {
        Problem { file: self.file.clone(), place, kind, what }
    }

    fn reason(&self, stop: &Stop) -> String {
        match stop {
            Stop::Ended => "the data ends there".to_owned(),
            Stop::Record => "another record begins there".to_owned(),
            Stop::Broken(broken) if broken.is_cut => format!("the file ends {}", broken.what),
            Stop::Broken(broken) => format!("{} (before offset {})", broken.what, self.members.offset()),
        }
    }

    /// Reports an invalid header and continues after its first word.
    fn bad_header(&mut self, place: Place, text: Vec<u8>, what: &str) -> std::result::Result<Item, ReadFailure> {
        self.told = true;
        if !self.members.abandon_plain() && !self.crossed {
            let mut again = Payload::Memory(text);
            again.skip(RECORD_MAGIC.len() as u64);
            self.members.push_back(again);
        }
        Ok(self.damage(place, what.to_owned()))
    }

    /// Reports an invalid block and continues at the first record that begins inside it.
    fn bad_block(
        &mut self,
        place: Place,
        mut block: Payload,
        is_over: bool,
        what: String,
    ) -> std::result::Result<Item, ReadFailure> {
        self.told = true;
        if !self.members.abandon_plain()
            && !self.crossed
            && !is_over
            && let Some(at) = find_record(&mut block, self.form == Form::Arc)?
        {
            block.skip(at);
            self.members.push_back(block);
        }
        Ok(self.damage(place, what))
    }
}

impl Stop {
    /// Returns whether the data ends there.
    fn is_end(&self) -> bool {
        match self {
            Stop::Ended => true,
            Stop::Record => false,
            Stop::Broken(broken) => broken.is_cut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(bytes).expect("memory");
        out.finish().expect("memory")
    }

    /// Reads a file without a whole record, and returns how much work that was.
    fn work_bytes(file: &[u8]) -> u64 {
        let mut reader = Reader::new(file, "hostile.warc", Spool::default()).expect("a reader");
        let mut problems = 0;
        while let Some(item) = reader.next_item().expect("memory") {
            assert!(matches!(item, Item::Problem(_)), "{item:?}");
            problems += 1;
        }
        assert!(problems > 0);
        reader.members.work_bytes()
    }

    #[test]
    fn hostile_repetition_does_not_take_quadratic_work() {
        let many_starts = gz(&b"WARC/1.0\r\n".repeat(5000));
        for (unit, times) in [
            (&b"WARC/1.0\r\nContent-Length: 99999999999\r\n\r\n"[..], 30_000),
            (b"WARC/1.0\r\nContent-Length: 9999\r\n\r\n", 30_000),
            (b"WARC/1.0\r\nA: b\r\n", 50_000),
            (&many_starts[..many_starts.len() - 9], 500),
            (b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x10\x27\xef\xd8", 50_000),
            (b"\x5c\x2a\x4d\x18\0\xff\0\0", 50_000),
        ] {
            let [once, twice] = [1, 2].map(|n| work_bytes(&unit.repeat(n * times)));
            assert!(twice <= 2 * once + (1 << 16), "{twice} after {once}: {:?}", unit[..10].escape_ascii());
        }
    }

    #[test]
    fn record_heads_inside_record_heads_are_looked_at_within_a_bound() {
        let heads = b"WARC/1.0\r\nContent-Length: 99999999\r\n\r\n".repeat(20_000);
        let small = gz(&heads);
        assert!(small.len() < 15 << 10);
        for file in [&heads, &small] {
            let work = work_bytes(file);
            assert!(work < 200 << 20, "{work} bytes of work for {} bytes", heads.len());
        }
    }
}
