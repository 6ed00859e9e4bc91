//! The decompressed bytes of a WARC file, member by member: gzip members, zstd frames, and plain
//! stretches.
//!
//! The first bytes of a member show its format, so files of any kind may be concatenated. At the
//! end of a member its checksum has been verified or the damage is known. Between members, and
//! after a damaged one, the next is found by its magic number and a trial decode.
//!
//! Invariants: bytes of two members are never returned as one run; after damage, the search starts
//! at the second byte of the damaged member, so that no later member is lost.

use std::io::{self, Read};

use memchr::{memchr3_iter, memmem};

use crate::packing::Packing;
use crate::spool::Payload;
use crate::warc::arc;
use crate::warc::gzip::{self, Gzip};
use crate::warc::header::{RECORD_MAGIC, record_begins};
use crate::warc::input::{Input, ReadFailure};
use crate::warc::problem::Place;
use crate::warc::step::{Broken, Step};
use crate::warc::zstd::{self, Zstd};

/// Number of bytes of a candidate that a trial decodes.
const TRIAL_BYTES: usize = 16 << 10;
/// Number of bytes of a plain stretch read at once.
const STEP_BYTES: usize = 64 << 10;
/// Decompressed bytes that may be read again: this number, plus [`REPLAY_FACTOR`] times those of
/// the file.
const REPLAY_BASE_BYTES: u64 = 64 << 20;
const REPLAY_FACTOR: u64 = 8;

/// Limit on the decompressed bytes of damaged members after whose start, not end, the search
/// continues: this number, plus [`RETRY_FACTOR`] times the bytes of whole members.
const RETRY_BASE_BYTES: u64 = 32 << 20;
const RETRY_FACTOR: u64 = 4;

/// Result of opening a member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    Member,
    /// Bytes that belong to no member.
    Garbage {
        from: u64,
        bytes: u64,
    },
    /// The dictionary frame here is damaged.
    BadDictionary {
        from: u64,
    },
    End,
    /// The whole file is compressed in this format, which is not supported.
    Packed(Packing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    Gzip,
    Zstd,
    Plain,
}

/// End of the current member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Whole,
    Broken(Broken),
}

pub(crate) struct Members<R> {
    input: Input<R>,
    gzip: Gzip,
    zstd: Zstd,
    codec: Option<Codec>,
    /// File offset of the current member.
    start: u64,
    /// Number of decompressed bytes of the current member that were consumed.
    inner: u64,
    ended: Option<Ended>,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes to return again, in reverse order: the next ones are last.
    replay: Vec<Payload>,
    bytes_out: u64,
    replayed_bytes: u64,
    /// Decompressed bytes of whole members, and of damaged ones.
    whole_bytes: u64,
    retried_bytes: u64,
    /// The last whole record was in a compressed member: plain records are then not searched for,
    /// and need proof.
    compressed: bool,
    /// The next member must be searched for.
    lost: bool,
    /// Records may be ARC records.
    arc: bool,
    /// A dictionary was found that is not the file's first frame.
    has_later_dictionary: bool,
}

impl<R: Read> Members<R> {
    pub(crate) fn new(source: R) -> io::Result<Members<R>> {
        Ok(Members {
            input: Input::new(source),
            gzip: Gzip::new(),
            zstd: Zstd::new(Vec::new())?,
            codec: None,
            start: 0,
            inner: 0,
            ended: None,
            buffer: Vec::new(),
            at: 0,
            replay: Vec::new(),
            bytes_out: 0,
            replayed_bytes: 0,
            whole_bytes: 0,
            retried_bytes: 0,
            compressed: false,
            lost: false,
            arc: false,
            has_later_dictionary: false,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.codec.is_some()
    }

    /// Returns whether a dictionary was found that is not the file's first frame.
    pub(crate) fn has_later_dictionary(&self) -> bool {
        self.has_later_dictionary
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.input.bytes_read()
    }

    pub(crate) fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Number of bytes read, decoded or reread: a measure of time.
    #[cfg(test)]
    pub(crate) fn work_bytes(&self) -> u64 {
        self.input.bytes_read() + self.input.rewound_bytes() + self.bytes_out + self.replayed_bytes
    }

    /// Position of the next byte.
    pub(crate) fn place(&self) -> Place {
        match self.codec {
            Some(Codec::Plain) => Place { offset: self.start + self.inner, inner: None },
            _ => Place { offset: self.start, inner: Some(self.inner) },
        }
    }

    /// Opens the member that begins here, or skips and returns what is here instead.
    pub(crate) fn open(&mut self) -> io::Result<Opened> {
        loop {
            let from = self.input.offset();
            let next = self.input.ensure(16)?;
            if next.is_empty() {
                return Ok(Opened::End);
            }
            if from == 0
                && !self.lost
                && let Some(packing) = Packing::of(next)
            {
                return Ok(Opened::Packed(packing));
            }
            if self.lost {
                self.lost = false;
                self.scan()?;
                let bytes = self.input.offset() - from;
                if bytes > 0 {
                    return Ok(Opened::Garbage { from, bytes });
                }
                continue;
            }
            match zstd::begins(next) {
                zstd::Begins::Dictionary => match zstd::read_dictionary(&mut self.input)? {
                    Some(dictionary) => {
                        self.has_later_dictionary |= from > 0;
                        self.zstd = Zstd::new(dictionary)?;
                    }
                    None => {
                        self.lost = true;
                        return Ok(Opened::BadDictionary { from });
                    }
                },
                zstd::Begins::Skippable => match zstd::skippable_bytes(&mut self.input)? {
                    Some(bytes) if leads_on(&self.input.ensure(bytes + 16)?[bytes..]) => self.input.consume(bytes),
                    // Its length may be wrong: search the bytes that it claims.
                    _ => self.lost = true,
                },
                zstd::Begins::Frame => return self.enter(Codec::Zstd),
                zstd::Begins::Nothing if gzip::begins(next) => return self.enter(Codec::Gzip),
                zstd::Begins::Nothing if record_begins(next) => return self.enter(Codec::Plain),
                zstd::Begins::Nothing if self.arc_begins()? => return self.enter(Codec::Plain),
                zstd::Begins::Nothing => self.lost = true,
            }
        }
    }

    /// Returns whether plain ARC records begin here. They do so only at the start of a file.
    fn arc_begins(&mut self) -> io::Result<bool> {
        let is_start = self.input.offset() == 0;
        let next = self.input.ensure(arc::LINE_BYTES)?;
        Ok((is_start || next.starts_with(arc::FILE_MAGIC)) && arc::expected(next).is_some())
    }

    /// Sets whether members may begin with an ARC record too.
    pub(crate) fn look_for_arc(&mut self, arc: bool) {
        self.arc = arc;
    }

    /// Returns whether no byte of the member has been consumed.
    pub(crate) fn is_at_start(&self) -> bool {
        self.inner == 0
    }

    /// Returns whether the member may be false: plain data after compressed records.
    pub(crate) fn is_suspect_plain(&self) -> bool {
        self.codec == Some(Codec::Plain) && self.compressed
    }

    fn enter(&mut self, codec: Codec) -> io::Result<Opened> {
        match codec {
            Codec::Gzip => self.gzip.reset(),
            Codec::Zstd => self.zstd.reset()?,
            Codec::Plain => {}
        }
        self.codec = Some(codec);
        self.start = self.input.offset();
        (self.inner, self.ended) = (0, None);
        Ok(Opened::Member)
    }

    /// Goes to the next place where a member begins and passes a trial decode, or to the end.
    fn scan(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.input.ensure(2 * TRIAL_BYTES)?;
            if bytes.is_empty() {
                return Ok(());
            }
            let at_end = bytes.len() < 2 * TRIAL_BYTES;
            // A candidate needs enough bytes after it for a trial.
            let judged = if at_end { bytes.len() } else { bytes.len() - TRIAL_BYTES };
            let (zstd, plain) = (&self.zstd, !self.compressed);
            let found = candidates(&bytes[..(judged + 16).min(bytes.len())])
                .filter(|&at| at < judged)
                .find(|&at| survives_trial(&bytes[at..(at + TRIAL_BYTES).min(bytes.len())], zstd, plain));
            self.input.consume(found.unwrap_or(judged));
            if found.is_some() {
                return Ok(());
            }
        }
    }

    /// The next bytes of the member: at least `count`, unless it has fewer left.
    pub(crate) fn peek(&mut self, count: usize) -> Result<&[u8], ReadFailure> {
        while self.buffer.len() - self.at < count && self.fill()? {}
        Ok(&self.buffer[self.at..])
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.at += count;
        self.inner += count as u64;
    }

    fn fill(&mut self) -> Result<bool, ReadFailure> {
        // Otherwise a request for more than is left would move the rest to the front each time.
        if self.replay.is_empty() && (self.codec.is_none() || self.ended.is_some()) {
            return Ok(false);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        if let Some(again) = self.replay.pop() {
            self.replay_some(again)?;
            return Ok(true);
        }
        let (Some(codec), None) = (self.codec, &self.ended) else { return Ok(false) };
        let before = self.buffer.len();
        let step = match codec {
            Codec::Gzip => self.gzip.step(&mut self.input, &mut self.buffer)?,
            Codec::Zstd => self.zstd.step(&mut self.input, &mut self.buffer)?,
            Codec::Plain => self.plain_step()?,
        };
        self.bytes_out += (self.buffer.len() - before) as u64;
        self.ended = match step {
            Step::More => None,
            Step::End => Some(Ended::Whole),
            Step::Broken(broken) => Some(Ended::Broken(broken)),
        };
        Ok(self.buffer.len() > before || self.ended.is_none())
    }

    fn replay_some(&mut self, mut again: Payload) -> Result<(), ReadFailure> {
        if let Payload::Memory(bytes) = &again {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        let bytes = again.prefix(STEP_BYTES)?;
        again.skip(bytes.len() as u64);
        if again.len() > 0 {
            self.replay.push(again);
        }
        self.buffer.extend_from_slice(&bytes);
        Ok(())
    }

    fn plain_step(&mut self) -> io::Result<Step> {
        let next = self.input.ensure(1)?;
        let count = next.len().min(STEP_BYTES);
        self.buffer.extend_from_slice(&next[..count]);
        self.input.consume(count);
        Ok(if count == 0 { Step::End } else { Step::More })
    }

    /// Ending of the member if all its bytes are consumed; decodes more to find out.
    pub(crate) fn end(&mut self) -> Result<Option<Ended>, ReadFailure> {
        Ok(if self.peek(1)?.is_empty() { self.ended.clone() } else { None })
    }

    /// At the end of a whole member: opens the next one if it continues the same record. Returns
    /// false if the next one begins with a record, or if there is none.
    pub(crate) fn goes_on(&mut self) -> Result<bool, ReadFailure> {
        let next = self.input.ensure(TRIAL_BYTES)?;
        let next = &next[..next.len().min(TRIAL_BYTES)];
        let (codec, begins_record) = match zstd::begins(next) {
            zstd::Begins::Frame => (Codec::Zstd, self.zstd.starts_with_record(next, self.arc)),
            _ if gzip::begins(next) => (Codec::Gzip, gzip::starts_with_record(next, self.arc)),
            _ => return Ok(false),
        };
        if begins_record || self.codec == Some(Codec::Plain) {
            return Ok(false);
        }
        self.enter(codec)?;
        Ok(true)
    }

    /// Leaves the member, all of whose bytes are consumed. After damage, the search restarts
    /// inside it.
    pub(crate) fn close(&mut self) {
        if let Some(Ended::Broken(_)) = self.ended {
            // A decoder that is misled can run to the end of the file, starting at every member
            // again.
            self.retried_bytes += self.inner;
            if self.retried_bytes <= RETRY_BASE_BYTES + RETRY_FACTOR * self.whole_bytes {
                self.input.rewind(self.start + 1);
            }
            self.lost = true;
        } else {
            self.whole_bytes += self.inner;
        }
        self.codec = None;
        self.ended = None;
    }

    /// Makes `bytes`, the last ones consumed, available again. Returns false if the bound on
    /// repeated work is reached.
    pub(crate) fn push_back(&mut self, bytes: Payload) -> bool {
        // The rest of the buffer may have to be copied.
        let in_memory = matches!(&bytes, Payload::Memory(last) if self.buffer[..self.at].ends_with(last));
        let copied = if in_memory { 0 } else { self.buffer.len() - self.at };
        self.replayed_bytes += bytes.len() + copied as u64;
        if bytes.len() == 0 || self.replayed_bytes > REPLAY_BASE_BYTES + REPLAY_FACTOR * self.bytes_out {
            return false;
        }
        self.inner -= bytes.len();
        if in_memory {
            self.at -= bytes.len() as usize;
            return true;
        }
        if self.at < self.buffer.len() {
            self.replay.push(Payload::Memory(self.buffer.split_off(self.at)));
        }
        self.buffer.clear();
        self.at = 0;
        self.replay.push(bytes);
        true
    }

    /// Notes that a whole record was read: the next is expected in the same format.
    pub(crate) fn whole_record(&mut self, place: Place) {
        self.compressed = place.inner.is_some();
    }

    /// Leaves a suspect plain member, and searches from its second byte. Returns false if the
    /// member is not suspect.
    pub(crate) fn abandon_plain(&mut self) -> bool {
        let suspect = self.is_suspect_plain();
        if suspect {
            self.input.rewind(self.start + 1);
            self.replay.clear();
            self.buffer.clear();
            (self.at, self.codec, self.ended, self.lost) = (0, None, None, true);
        }
        suspect
    }

    /// At the end of a plain record: leaves the plain stretch if a compressed member begins here.
    pub(crate) fn leave_plain(&mut self) -> Result<bool, ReadFailure> {
        if self.codec != Some(Codec::Plain) || !self.replay.is_empty() {
            return Ok(false);
        }
        let next = self.peek(16)?;
        let begins = gzip::begins(next) || zstd::begins(next) != zstd::Begins::Nothing;
        let unread = (self.buffer.len() - self.at) as u64;
        debug_assert_eq!(self.start + self.inner + unread, self.input.offset());
        if begins && self.input.rewind(self.start + self.inner) {
            self.buffer.clear();
            (self.at, self.codec, self.ended) = (0, None, None);
            return Ok(true);
        }
        Ok(false)
    }
}

/// Returns whether a member may begin here, or the file ends.
fn leads_on(bytes: &[u8]) -> bool {
    bytes.is_empty() || zstd::begins(bytes) != zstd::Begins::Nothing || gzip::begins(bytes) || record_begins(bytes)
}

/// Returns whether a member begins here and `bytes` decode; with `plain`, also accepts a plain
/// record.
fn survives_trial(bytes: &[u8], zstd: &Zstd, plain: bool) -> bool {
    match zstd::begins(bytes) {
        zstd::Begins::Frame => zstd.decodes(bytes),
        zstd::Begins::Dictionary => true,
        _ if gzip::begins(bytes) => gzip::inflates(bytes),
        _ => plain && record_begins(bytes),
    }
}

/// Offsets where a member may begin, by the first bytes of the formats.
fn candidates(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let firsts = memchr3_iter(0x1f, 0x28, 0x5d, bytes);
    let compressed =
        firsts.filter(|&at| gzip::begins(&bytes[at..]) || zstd::begins(&bytes[at..]) != zstd::Begins::Nothing);
    let mut plain = memmem::find_iter(bytes, RECORD_MAGIC).peekable();
    let mut compressed = compressed.peekable();
    std::iter::from_fn(move || match (compressed.peek(), plain.peek()) {
        (Some(a), Some(b)) if a < b => compressed.next(),
        (Some(_), None) => compressed.next(),
        _ => plain.next(),
    })
}
