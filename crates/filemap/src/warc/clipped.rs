//! A record in which the data ends: kept as far as it is there if it is the last of its file,
//! marked truncated.
//!
//! Whether it is the last is known only at the end of the file: behind a member that does not
//! decode, others may follow. Of the head of an HTTP message only whole lines are kept; where not
//! even its first line is there, nothing is.

use crate::error::Result;
use crate::http::head::MAX_HEAD_BYTES;
use crate::spool::Payload;
use crate::warc::header::RecordHeader;
use crate::warc::problem::{Place, Problem, ProblemKind};
use crate::warc::record::{Item, Record};
use crate::warc::stored;

/// A record whose block is not all there.
pub(crate) struct Clipped {
    pub(crate) header: RecordHeader,
    pub(crate) place: Place,
    pub(crate) block: Payload,
    /// What is wrong.
    pub(crate) what: String,
}

impl Clipped {
    /// What becomes of it when more records follow: it is damage.
    pub(crate) fn lost(self, file: &str) -> Item {
        Item::Problem(problem(file, self.place, self.what))
    }

    /// What becomes of it when nothing follows.
    pub(crate) fn at_end(mut self, file: &str) -> Result<Item> {
        drop_cut_line(&mut self.block)?;
        if self.block.len() == 0 {
            return Ok(self.lost(file));
        }
        // The page that a dump wrote is another than what is there now.
        self.header.fields.0.retain(|field| !field.name.eq_ignore_ascii_case(stored::FIELD.as_bytes()));
        if self.header.fields.get("WARC-Truncated").is_none() {
            self.header.fields.push("WARC-Truncated", "unspecified");
        }
        let what = format!("{}; that is kept, marked truncated", self.what);
        let problem = Some(problem(file, self.place, what));
        Ok(Item::Record(Record { header: self.header, place: self.place, problem, block: self.block }))
    }
}

fn problem(file: &str, place: Place, what: String) -> Problem {
    Problem { file: file.to_owned(), place, kind: ProblemKind::Damage, what }
}

/// Takes the last line off the head of an HTTP message that ends inside it.
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

/// Whether these are the first bytes of an HTTP message, and the blank line behind its head is not
/// among them.
pub(crate) fn ends_in_head(bytes: &[u8]) -> bool {
    let is_http = bytes.starts_with(b"HTTP") || b"HTTP".starts_with(bytes);
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    is_http && !lines.any(|line| line.iter().all(|byte| matches!(byte, b'\r' | b'\n')))
}
