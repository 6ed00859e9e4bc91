//! Corrects wrong lengths of ARC records by the line of the next record.
//!
//! ARC has no digests, and only a line end between two records. The length of a record is right if
//! a line end and another record's line follow, or the data ends; unless a record begins exactly
//! where, by the HTTP headers of the block, its message ends. A record's line inside the block, or
//! across its end, means that the length is too large: the record ends before that line. Otherwise
//! the length is too small, and the record extends to the next line; unless a line end follows and
//! the HTTP headers do not ask for more, because the bytes after it may be garbage. In all cases
//! the record is kept, with a problem.

use std::io::Read;
use std::result::Result as Outcome;

use super::search::{find_record, find_start, kept};
use super::{ArcEnd, MAX_MENDED_BYTES, Reader};
use crate::http::head::{self, MAX_HEAD_BYTES};
use crate::spool::Payload;
use crate::warc::arc;
use crate::warc::clipped::{Clipped, Inside, ends_in_head};
use crate::warc::header::{RecordHeader, record_begins};
use crate::warc::input::ReadFailure;
use crate::warc::problem::{Place, ProblemKind};
use crate::warc::record::{Item, Record};

impl<R: Read> Reader<R> {
    /// Finds the end of the ARC record whose block was read. Consumes its line end if it is here.
    pub(super) fn arc_end(&mut self, block: &mut Payload) -> Outcome<ArcEnd, ReadFailure> {
        if let Some(at) = next_by_headers(block)? {
            return Ok(ArcEnd::Inside(at));
        }
        let next = self.members.peek(arc::LINE_BYTES)?;
        let ends = next.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let rest = &next[ends..];
        if ends > 0 {
            let is_followed = rest.is_empty() || record_begins(rest) || arc::expected(rest).is_some();
            // The bytes after it may be garbage.
            let end = if is_followed { ArcEnd::Here } else { before_garbage(block, next)? };
            if end != ArcEnd::Here {
                return Ok(end);
            }
            self.separates |= is_followed && !rest.is_empty();
            self.members.consume(ends);
            return Ok(ArcEnd::Here);
        }
        let is_line = arc::line(rest).is_some();
        if is_line || rest.is_empty() {
            // Some writers put no line end between records, and some pages end with one.
            let is_known = is_line && arc::has_known_scheme(rest);
            let inside = if is_known || rest.is_empty() { None } else { inside(block, next)? };
            let takes_end = takes_line_end(block)?.unwrap_or(is_line && self.separates && ends_a_line(block)?);
            return Ok(match inside {
                Some(at) => ArcEnd::Inside(at),
                None if takes_end => ArcEnd::ByteBefore,
                None => ArcEnd::Here,
            });
        }
        if record_begins(rest) {
            return Ok(ArcEnd::Here);
        }
        if let Some(at) = inside(block, next)? {
            return Ok(ArcEnd::Inside(at));
        }
        // A compressed member may begin here.
        Ok(if self.members.leave_plain()? { ArcEnd::Here } else { ArcEnd::Behind })
    }

    /// Handles an ARC record whose length is wrong.
    pub(super) fn arc_wrong_length(
        &mut self,
        place: Place,
        header: RecordHeader,
        mut block: Payload,
        end: ArcEnd,
    ) -> Outcome<Item, ReadFailure> {
        let length = block.len();
        let what = match end {
            ArcEnd::Here | ArcEnd::ByteBefore => {
                block.truncate(length.saturating_sub(1));
                let what = format!(
                    "the record's length is {length}, which includes the line end after it; the page is kept without it"
                );
                let problem = Some(self.problem(place, ProblemKind::Damage, what));
                return Ok(Item::Record(Record { header, place, problem, block }));
            }
            ArcEnd::Inside(at) => {
                block = self.up_to(block, at)?;
                format!("the record's length is {length}, but another record begins {at} bytes into its block")
            }
            ArcEnd::Behind => {
                let more = self.up_to_next_record(true)?;
                let what = format!(
                    "the record's length is {length}, but no record ends there: the next begins {} bytes on",
                    more.len()
                );
                block.append(&more)?;
                what
            }
            ArcEnd::Unsure => format!("the record's length is {length}, but no record follows there"),
        };
        // Bytes after an unsure end are reported separately.
        self.told = end != ArcEnd::Unsure;
        if self.told {
            drop_line_end(&mut block)?;
        }
        Ok(Clipped { header, place, block, what, is_searched: false, inside: Inside::default() }.at_end(&self.file)?)
    }

    /// Handles an ARC record that is cut by the end of its member or file.
    pub(super) fn arc_cut(
        &mut self,
        place: Place,
        header: RecordHeader,
        mut block: Payload,
        what: String,
    ) -> Outcome<Item, ReadFailure> {
        if let Some(at) = find_record(&mut block, true)? {
            block = self.up_to(block, at)?;
            drop_line_end(&mut block)?;
        } else if place.inner.is_some() || takes_line_end(&mut block)? == Some(true) {
            // The last byte of a whole member is the line end after the record.
            drop_line_end(&mut block)?;
        }
        self.told = true;
        Ok(Clipped { header, place, block, what, is_searched: false, inside: Inside::default() }.at_end(&self.file)?)
    }

    /// The first `at` bytes of a block; the others will be read again.
    fn up_to(&mut self, mut block: Payload, at: u64) -> Outcome<Payload, ReadFailure> {
        let mut first = self.spool.writer(u64::MAX);
        let mut left = at;
        block.chunks(|bytes| {
            let take = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= take as u64;
            first.push(&bytes[..take])
        })?;
        if !self.crossed {
            block.skip(at);
            self.members.push_back(block);
        }
        Ok(first.finish())
    }

    /// The bytes before the next record of this member, or before its end. In an ARC file that is
    /// a record of either kind, and an ARC record only at the start of a line.
    pub(super) fn up_to_next_record(&mut self, is_arc: bool) -> Outcome<Vec<u8>, ReadFailure> {
        let mut bytes = Vec::new();
        let ahead = if is_arc { arc::LINE_BYTES } else { 16 };
        while bytes.len() < MAX_MENDED_BYTES as usize {
            let next = self.members.peek(ahead)?;
            let line = memchr::memchr(b'\n', next).map_or(next.len(), |end| end + 1);
            let from = if is_arc && !bytes.ends_with(b"\n") { line } else { 0 };
            let found = find_start(&next[from..], is_arc).map(|at| from + at);
            let unsure = if next.len() < ahead { 0 } else { kept(next, is_arc) };
            let step = found.unwrap_or(next.len() - unsure);
            bytes.extend_from_slice(&next[..step]);
            self.members.consume(step);
            if found.is_some() || step == 0 {
                break;
            }
        }
        Ok(bytes)
    }
}

/// Offset of another record inside a block; its line may continue in the bytes after the block.
fn inside(block: &mut Payload, behind: &[u8]) -> crate::error::Result<Option<u64>> {
    if let Some(at) = find_record(block, true)? {
        return Ok(Some(at));
    }
    let mut last = block.suffix(arc::LINE_BYTES)?;
    let from = memchr::memrchr(b'\n', &last).map_or(0, |end| end + 1);
    last.drain(..from);
    let bytes = last.len() as u64;
    let end = memchr::memchr(b'\n', behind).map_or(behind.len(), |end| end + 1);
    last.extend_from_slice(&behind[..end]);
    let is_line = bytes > 0 && arc::line(&last).is_some_and(|line| line.length.is_some());
    Ok(is_line.then(|| block.len() - bytes))
}

/// End of a record that is followed by a line end and no record.
fn before_garbage(block: &mut Payload, behind: &[u8]) -> crate::error::Result<ArcEnd> {
    if let Some(at) = inside(block, behind)? {
        return Ok(ArcEnd::Inside(at));
    }
    if ends_in_head(&block.prefix(MAX_HEAD_BYTES)?) {
        return Ok(ArcEnd::Behind);
    }
    let bytes = block.len();
    Ok(end_by_headers(block)?.map_or(ArcEnd::Unsure, |end| if end > bytes { ArcEnd::Behind } else { ArcEnd::Here }))
}

fn ends_a_line(block: &mut Payload) -> crate::error::Result<bool> {
    Ok(block.suffix(1)? == b"\n")
}

fn drop_line_end(block: &mut Payload) -> crate::error::Result<()> {
    if ends_a_line(block)? {
        block.truncate(block.len() - 1);
    }
    Ok(())
}

/// Returns whether the last byte of a block is the line end after its record; `None` if its HTTP
/// headers do not show that.
fn takes_line_end(block: &mut Payload) -> crate::error::Result<Option<bool>> {
    if !ends_a_line(block)? {
        return Ok(Some(false));
    }
    let (end, bytes) = (end_by_headers(block)?, block.len());
    Ok(end.filter(|&end| end == bytes || end == bytes - 1).map(|end| end < bytes))
}

/// End of the message in a block, by its HTTP headers.
fn end_by_headers(block: &mut Payload) -> crate::error::Result<Option<u64>> {
    let Some(head) = head::parse(&block.prefix(MAX_HEAD_BYTES)?) else { return Ok(None) };
    let length = head.headers.text("Content-Length").and_then(|text| text.trim().parse::<u64>().ok());
    Ok(length.and_then(|length| length.checked_add(head.bytes as u64)))
}

/// Start of another record in a block, if it is exactly where the message ends by its HTTP
/// headers: a length that is too large by whole records ends where a record does.
fn next_by_headers(block: &mut Payload) -> crate::error::Result<Option<u64>> {
    let end = end_by_headers(block)?.filter(|&end| end < block.len());
    let Some(end) = end else { return Ok(None) };
    let behind = block.piece(end, arc::LINE_BYTES)?;
    let ends = behind.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let is_line = ends > 0 && arc::line(&behind[ends..]).is_some_and(|line| line.length.is_some());
    Ok(is_line.then_some(end + ends as u64))
}
