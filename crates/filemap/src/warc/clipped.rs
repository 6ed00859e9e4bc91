//! A record that the data ends inside. If it is the last of its file, the part before the cut is
//! kept, marked truncated.
//!
//! Only the end of the file shows that it is the last: after a member that does not decode, others
//! may follow. Of a cut HTTP head only whole lines are kept; without a whole first line, nothing
//! is kept.

use crate::error::Result;
use crate::http::head::MAX_HEAD_BYTES;
use crate::spool::Payload;
use crate::warc::header::RecordHeader;
use crate::warc::problem::{Place, Problem, ProblemKind};
use crate::warc::record::{Item, Record};
use crate::warc::stored;

/// A record that the data ends inside.
pub(crate) struct Clipped {
    pub(crate) header: RecordHeader,
    pub(crate) place: Place,
    pub(crate) block: Payload,
    /// Description of the damage.
    pub(crate) what: String,
    /// Its bytes are searched for members again, because its own member did not decode.
    pub(crate) is_searched: bool,
    /// Problems found since. They are inside its bytes, unless a record follows.
    pub(crate) inside: Inside,
}

/// Maximum number of problems kept.
const MOST_INSIDE: usize = 1024;

/// Problems found after a cut record.
#[derive(Default)]
pub(crate) struct Inside {
    first: Vec<Problem>,
    more: u64,
}

impl Inside {
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.first.len() < MOST_INSIDE { self.first.push(problem) } else { self.more += 1 }
    }

    /// All problems. If there were more than the maximum, the last one says how many more.
    pub(crate) fn problems(mut self) -> impl Iterator<Item = Problem> {
        if let (Some(last), more @ 1..) = (self.first.last_mut(), self.more) {
            last.what.push_str(&format!("; and {more} more places like it"));
        }
        self.first.into_iter()
    }
}

impl Clipped {
    /// The item if more records follow: a damage problem.
    pub(crate) fn lost(self, file: &str) -> Item {
        Item::Problem(Problem::new(file, self.place, ProblemKind::Damage, self.what))
    }

    /// The item if nothing follows: the part before the cut.
    pub(crate) fn at_end(mut self, file: &str) -> Result<Item> {
        drop_cut_line(&mut self.block)?;
        if self.block.len() == 0 {
            return Ok(self.lost(file));
        }
        // The record is no longer the whole page of a dump.
        self.header.fields.0.retain(|field| !field.name.eq_ignore_ascii_case(stored::FIELD.as_bytes()));
        if self.header.fields.get("WARC-Truncated").is_none() {
            self.header.fields.push("WARC-Truncated", "unspecified");
        }
        let what = format!("{}; the part before the cut is kept, marked truncated", self.what);
        let problem = Some(Problem::new(file, self.place, ProblemKind::Damage, what));
        Ok(Item::Record(Record { header: self.header, place: self.place, problem, block: self.block }))
    }
}

/// Drops the last line if the block ends inside the head of an HTTP message.
fn drop_cut_line(block: &mut Payload) -> Result<()> {
    let head = block.prefix(MAX_HEAD_BYTES)?;
    if !ends_in_head(&head) {
        return Ok(());
    }
    if let Payload::Memory(bytes) = block {
        bytes.truncate(memchr::memrchr(b'\n', &head).map_or(0, |end| end + 1));
    }
    Ok(())
}

/// Returns whether these are the first bytes of an HTTP message, up to a cut in its head.
pub(crate) fn ends_in_head(bytes: &[u8]) -> bool {
    let is_http = bytes.starts_with(b"HTTP") || b"HTTP".starts_with(bytes);
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    is_http && !lines.any(|line| line.iter().all(|byte| matches!(byte, b'\r' | b'\n')))
}
