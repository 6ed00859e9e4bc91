//! A record in which the data ends: if it is the last of its file, what is there of it is kept,
//! marked truncated.
//!
//! Whether it is the last is known only at the end of the file: after a member that does not
//! decode, others may follow. Of the head of an HTTP message only whole lines are kept; without a
//! whole first line, nothing is.

use crate::error::Result;
use crate::http::head::MAX_HEAD_BYTES;
use crate::spool::Payload;
use crate::warc::header::RecordHeader;
use crate::warc::problem::{Place, Problem, ProblemKind};
use crate::warc::record::{Item, Record};
use crate::warc::stored;

/// A record in which the data ends.
pub(crate) struct Clipped {
    pub(crate) header: RecordHeader,
    pub(crate) place: Place,
    pub(crate) block: Payload,
    /// What is wrong.
    pub(crate) what: String,
    /// Its bytes are searched for members again, since its own did not decode.
    pub(crate) is_searched: bool,
    /// Problems met since: in its own bytes, unless a record follows.
    pub(crate) inside: Inside,
}

/// Most problems that are kept.
const MOST_INSIDE: usize = 1024;

/// Problems met after a cut record.
#[derive(Default)]
pub(crate) struct Inside {
    first: Vec<Problem>,
    more: u64,
}

impl Inside {
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.first.len() < MOST_INSIDE { self.first.push(problem) } else { self.more += 1 }
    }

    /// All of them; of very many, the last one says how many more there are.
    pub(crate) fn problems(mut self) -> impl Iterator<Item = Problem> {
        if let (Some(last), more @ 1..) = (self.first.last_mut(), self.more) {
            last.what.push_str(&format!("; and {more} more places like it"));
        }
        self.first.into_iter()
    }
}

impl Clipped {
    /// The item if more records follow: damage.
    pub(crate) fn lost(self, file: &str) -> Item {
        Item::Problem(Problem::new(file, self.place, ProblemKind::Damage, self.what))
    }

    /// The item if nothing follows.
    pub(crate) fn at_end(mut self, file: &str) -> Result<Item> {
        drop_cut_line(&mut self.block)?;
        if self.block.len() == 0 {
            return Ok(self.lost(file));
        }
        // The record is no longer the whole page that a dump wrote.
        self.header.fields.0.retain(|field| !field.name.eq_ignore_ascii_case(stored::FIELD.as_bytes()));
        if self.header.fields.get("WARC-Truncated").is_none() {
            self.header.fields.push("WARC-Truncated", "unspecified");
        }
        let what = format!("{}; that is kept, marked truncated", self.what);
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

/// Whether these are the first bytes of an HTTP message without the blank line after its head.
pub(crate) fn ends_in_head(bytes: &[u8]) -> bool {
    let is_http = bytes.starts_with(b"HTTP") || b"HTTP".starts_with(bytes);
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    is_http && !lines.any(|line| line.iter().all(|byte| matches!(byte, b'\r' | b'\n')))
}
