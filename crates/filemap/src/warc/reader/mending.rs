//! WARC records with a wrong `Content-Length`: kept if their digest proves the length of the
//! block.

use std::io::Read;
use std::result::Result as Outcome;

use super::search::find_record;
use super::{Form, MAX_BLOCK_BYTES, MAX_MENDED_BYTES, Reader};
use crate::spool::Payload;
use crate::warc::digest;
use crate::warc::header::RecordHeader;
use crate::warc::input::ReadFailure;
use crate::warc::problem::{Place, ProblemKind};
use crate::warc::record::{Item, Record};

impl<R: Read> Reader<R> {
    /// Handles a record that does not end at its `Content-Length`. If no record begins inside the
    /// block, the length may be too small: the digest can prove that the block extends to the next
    /// record.
    pub(super) fn wrong_length(
        &mut self,
        place: Place,
        header: RecordHeader,
        mut block: Payload,
        is_over: bool,
    ) -> Outcome<Item, ReadFailure> {
        let what = "the record is damaged: no record ends at its Content-Length";
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
        let mut more = self.up_to_next_record(false)?;
        if more.ends_with(b"\r\n\r\n") {
            more.truncate(more.len() - 4);
        }
        whole.push(&more)?;
        let mut whole = whole.finish();
        if digest::matches(&mut whole, &digest)? != Some(true) {
            self.told = true;
            return Ok(self.damage(place, what.to_owned()));
        }
        let what = format!("Content-Length is {declared}, but by its digest the block has {} bytes; kept", whole.len());
        let problem = Some(self.problem(place, ProblemKind::Damage, what));
        Ok(Item::Record(Record { header, place, problem, block: whole }))
    }
}
