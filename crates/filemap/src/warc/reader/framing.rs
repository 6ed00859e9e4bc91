//! Reads the parts of a record: the lines of its header, its block, its end.

use std::io::Read;
use std::result::Result as Outcome;

use super::{MAX_HEADER_BYTES, Reader, Stop};
use crate::spool::PayloadWriter;
use crate::warc::header::{VERSION_LINE_BYTES, record_begins};
use crate::warc::input::ReadFailure;
use crate::warc::member::Ended;
use crate::warc::problem::Place;
use crate::warc::record::Record;
use crate::warc::step::Broken;

impl<R: Read> Reader<R> {
    /// Returns whether a reader that begins at the record's offset would return the same record.
    pub(crate) fn gives_alone(&self, record: &Record) -> bool {
        let is_first = record.place.inner.is_none_or(|inner| inner == 0);
        let is_sound = record.problem.is_none() && record.header.date_ms().is_some();
        is_first && is_sound && !self.members.has_later_dictionary()
    }

    /// Makes sure that there are bytes to read, in this member or, if the record continues there,
    /// in the next. Otherwise returns the reason.
    pub(super) fn more(&mut self) -> Outcome<Option<Stop>, ReadFailure> {
        loop {
            match self.members.end()? {
                None => return Ok(None),
                Some(Ended::Broken(broken)) => return Ok(Some(Stop::Broken(broken))),
                Some(Ended::Whole) => {}
            }
            if !self.members.goes_on()? {
                return Ok(Some(Stop::Ended));
            }
            self.crossed = true;
        }
    }

    /// The lines up to the blank one, which is also consumed.
    pub(super) fn header_text(&mut self) -> Outcome<(Vec<u8>, Option<Stop>), ReadFailure> {
        let mut text = Vec::new();
        let mut line_start = 0;
        loop {
            if let Some(stop) = self.more()? {
                return Ok((text, Some(stop)));
            }
            let next = self.members.peek(VERSION_LINE_BYTES)?;
            if text.ends_with(b"\n") && record_begins(next) {
                return Ok((text, Some(Stop::Record)));
            }
            let line = memchr::memchr(b'\n', next).map_or(next.len(), |end| end + 1);
            text.extend_from_slice(&next[..line]);
            self.members.consume(line);
            if !text.ends_with(b"\n") && text.len() <= MAX_HEADER_BYTES {
                continue;
            }
            // Some writers end a line with more than one carriage return.
            let is_blank = text[line_start..].iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            if is_blank && line_start > 0 || text.len() > MAX_HEADER_BYTES {
                return Ok((text, None));
            }
            line_start = text.len();
        }
    }

    pub(super) fn read_block(&mut self, length: u64, block: &mut PayloadWriter) -> Outcome<Option<Stop>, ReadFailure> {
        let mut left = length;
        while left > 0 {
            if let Some(stop) = self.more()? {
                return Ok(Some(stop));
            }
            let next = self.members.peek(1)?;
            let take = next.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            block.push(&next[..take])?;
            self.members.consume(take);
            left -= take as u64;
        }
        Ok(None)
    }

    /// Returns whether a WARC record ends here, by two line ends, or by fewer before the next
    /// record or the end. Consumes them.
    pub(super) fn ends_here(&mut self) -> Outcome<bool, ReadFailure> {
        let next = self.members.peek(16)?;
        if next.starts_with(b"\r\n\r\n") {
            self.members.consume(4);
            return Ok(true);
        }
        let ends = next.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let rest = &next[ends..];
        let followed = rest.is_empty() || record_begins(rest);
        if followed {
            self.members.consume(ends);
        }
        Ok(followed || self.members.leave_plain()?)
    }

    /// If the record was the last of its member, reads to the end of the member to verify the
    /// checksum. Returns the damage if the member holds only this record.
    pub(super) fn check_member(&mut self, place: Place) -> Outcome<Option<Broken>, ReadFailure> {
        let Some(Ended::Broken(broken)) = self.members.end()? else { return Ok(None) };
        let alone = place.inner == Some(0) && !self.crossed;
        Ok(Some(broken).filter(|broken| alone && !broken.complete))
    }
}
