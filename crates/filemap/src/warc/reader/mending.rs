//! WARC records whose `Content-Length` is wrong: kept where their digest proves how long the block
//! is.

use std::io::Read;
use std::result::Result as Outcome;

use memchr::memmem;

use super::search::find_record;
use super::{Form, MAX_BLOCK_BYTES, MAX_MENDED_BYTES, Reader};
use crate::spool::Payload;
use crate::warc::digest;
use crate::warc::header::RecordHeader;
use crate::warc::header::{RECORD_MAGIC, VERSION_LINE_BYTES, record_begins};
use crate::warc::input::ReadFailure;
use crate::warc::problem::{Place, ProblemKind};
use crate::warc::record::{Item, Record};

impl<R: Read> Reader<R> {
    /// No record ends where the Content-Length says. If none begins inside the block, the length
    /// may be too small: the digest can prove that the block goes on to the next record.
    pub(super) fn wrong_length(
        &mut self,
        place: Place,
        header: RecordHeader,
        mut block: Payload,
        is_over: bool,
    ) -> Outcome<Item, ReadFailure> {
        let what = "the record is damaged: no record ends where its Content-Length says";
        let digest = header.text("WARC-Block-Digest").map(str::to_owned);
        let declared = block.len();
        let Some(digest) = digest.filter(|_| declared <= MAX_MENDED_BYTES && !is_over && !self.crossed) else {
            return self.bad_block(place, block, is_over, what.to_owned());
        };
        if find_record(&mut block, self.form == Form::Arc)?.is_some() {
            return self.bad_block(place, block, is_over, what.to_owned());
        }
        let mut whole = self.spool.writer(MAX_BLOCK_BYTES);
        block.chunks(|bytes| whole.push(bytes))?;
        whole.push(&self.up_to_next_record()?)?;
        let mut whole = whole.finish();
        if digest::matches(&mut whole, &digest)? != Some(true) {
            self.told = true;
            return Ok(self.damage(place, what.to_owned()));
        }
        let what =
            format!("Content-Length says {declared}, but by its digest the block has {} bytes; kept", whole.len());
        let problem = Some(self.problem(place, ProblemKind::Damage, what));
        Ok(Item::Record(Record { header, place, problem, block: whole }))
    }

    /// The bytes before the next record of this member, or before its end, without two line ends
    /// at their own.
    fn up_to_next_record(&mut self) -> Outcome<Vec<u8>, ReadFailure> {
        let mut bytes = Vec::new();
        while bytes.len() < MAX_MENDED_BYTES as usize {
            let next = self.members.peek(16)?;
            let found = memmem::find_iter(next, RECORD_MAGIC).find(|&at| record_begins(&next[at..]));
            let step = found.unwrap_or(if next.len() < 16 { next.len() } else { next.len() - VERSION_LINE_BYTES });
            bytes.extend_from_slice(&next[..step]);
            self.members.consume(step);
            if found.is_some() || step == 0 {
                break;
            }
        }
        if bytes.ends_with(b"\r\n\r\n") {
            bytes.truncate(bytes.len() - 4);
        }
        Ok(bytes)
    }
}
