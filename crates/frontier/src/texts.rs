//! The file of URLs: each page's text and depth, in the order of discovery.
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 512 | header, magic `FMFURLS1` |
//! | 512 | | records, one behind the other |
//!
//! A record:
//!
//! | offset | size | meaning |
//! |---|---|---|
//! | 0 | 4 | CRC-32 of the frontier's id, the page's number (4 bytes) and all that follows |
//! | 4 | 2 | n, the text's length: 1 to 65535 |
//! | 6 | 2 | links from a seed |
//! | 8 | n | the text, UTF-8 |
//!
//! Memory has the place of every sixteenth record. What lies behind the length that the last snapshot names is made again from the
//! journal when a frontier is opened, so a sync is needed only before a snapshot; what lies before it never changes.

use std::sync::Arc;

use crc32fast::Hasher;
use filemap_io::{Access, Advice, Dir, File};

use crate::error::{Error, Result};
use crate::failpoint::{Mistake, planted};
use crate::files::{self, HEADER_BYTES, array};
use crate::grow::push;

pub(crate) const NAME: &str = "frontier.urls";
/// The longest URL, in bytes.
pub(crate) const URL_BYTES_MAX: usize = u16::MAX as usize;
const MAGIC: [u8; 8] = *b"FMFURLS1";
const RECORD_HEAD_BYTES: usize = 8;
/// Records of a group, whose first one's place is in memory.
const GROUP: u32 = 16;
/// Records wait in memory for a commit, or for so many bytes of them.
const BUFFER_BYTES: usize = 1 << 20;

/// The open file of URLs.
#[derive(Debug)]
pub(crate) struct Texts {
    file: Arc<dyn File>,
    id: [u8; 16],
    pages: u32,
    /// Where each group begins.
    groups: Vec<u64>,
    written_bytes: u64,
    /// Records behind those that are written.
    buffer: Vec<u8>,
}

impl Texts {
    /// A new file, durable but for its name.
    pub(crate) fn create(dir: &dyn Dir, id: [u8; 16]) -> Result<Texts> {
        let file = dir.open(NAME, Access::Create).map_err(Error::io("create", NAME))?;
        file.write_at(&files::header(MAGIC, &id, 0), 0).map_err(Error::io("write", NAME))?;
        file.sync().map_err(Error::io("sync", NAME))?;
        Ok(Texts { file, id, pages: 0, groups: Vec::new(), written_bytes: HEADER_BYTES as u64, buffer: Vec::new() })
    }

    /// Opens the file as a snapshot knows it: so many pages, groups and bytes. What lies behind is cut off.
    pub(crate) fn open(dir: &dyn Dir, id: [u8; 16], pages: u32, groups: Vec<u64>, bytes: u64) -> Result<Texts> {
        let file = dir.open(NAME, Access::Write).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt(NAME, 0, "the file is gone"),
            _ => Error::io("open", NAME)(error),
        })?;
        // What the cache holds and the device does not (after a sync that failed) must not be taken for durable.
        file.sync().map_err(Error::io("sync", NAME))?;
        file.advise(Advice::DropCache, 0, 0);
        if files::read_header(&*file, NAME, MAGIC)? != (id, 0) {
            return Err(Error::corrupt(NAME, 16, "the file belongs to another frontier"));
        }
        let len = file.len().map_err(Error::io("length", NAME))?;
        if len < bytes {
            return Err(Error::corrupt(NAME, len, format!("the file ends {} bytes too early", bytes - len)));
        }
        file.set_len(bytes).map_err(Error::io("set length", NAME))?;
        Ok(Texts { file, id, pages, groups, written_bytes: bytes, buffer: Vec::new() })
    }

    /// Adds the next page. Nothing is written before [`Texts::flush`].
    pub(crate) fn append(&mut self, depth: u16, text: &str) {
        if self.pages.is_multiple_of(GROUP) {
            let start = self.bytes();
            push(&mut self.groups, start);
        }
        let mut head = [0; RECORD_HEAD_BYTES];
        head[4..6].copy_from_slice(&(text.len() as u16).to_le_bytes());
        head[6..8].copy_from_slice(&depth.to_le_bytes());
        let crc = self.checksum(self.pages, &head[4..], text.as_bytes());
        head[..4].copy_from_slice(&crc.to_le_bytes());
        self.buffer.extend_from_slice(&head);
        self.buffer.extend_from_slice(text.as_bytes());
        self.pages += 1;
    }

    /// Writes what waits in memory, if that is much.
    pub(crate) fn flush_if_full(&mut self) -> Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what waits in memory.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.file.write_at(&self.buffer, self.written_bytes).map_err(Error::io("write", NAME))?;
        self.written_bytes = self.bytes();
        self.buffer.clear();
        Ok(())
    }

    /// Makes all records durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.flush()?;
        if planted(Mistake::UrlsNotSynced) {
            return Ok(());
        }
        self.file.sync().map_err(Error::io("sync", NAME))
    }

    /// Bytes of the file, with those that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    pub(crate) fn groups(&self) -> &[u64] {
        &self.groups
    }

    /// A page's depth and text. The page is there.
    pub(crate) fn read(&self, page: u32) -> Result<(u16, String)> {
        let mut found = None;
        self.read_group(page / GROUP, |number, depth, text| {
            if number == page {
                found = Some((depth, text.to_owned()));
            }
        })?;
        found.ok_or_else(|| {
            Error::corrupt(NAME, self.groups[(page / GROUP) as usize], format!("page {page} is not there"))
        })
    }

    /// The texts of a group of sixteen pages: that in which a page lies.
    pub(crate) fn group_of(&self, page: u32) -> Result<Vec<(u32, String)>> {
        let mut group = Vec::new();
        self.read_group(page / GROUP, |number, _, text| group.push((number, text.to_owned())))?;
        Ok(group)
    }

    fn read_group(&self, group: u32, mut each: impl FnMut(u32, u16, &str)) -> Result<()> {
        let start = self.groups[group as usize];
        let end = self.groups.get(group as usize + 1).copied().unwrap_or(self.bytes());
        let longest = u64::from(GROUP) * (RECORD_HEAD_BYTES + URL_BYTES_MAX) as u64;
        let bad = |offset: u64| Error::corrupt(NAME, offset, "a record is not what was written");
        if !(HEADER_BYTES as u64..=self.bytes()).contains(&end) || start > end || end - start > longest {
            return Err(bad(start));
        }
        let mut bytes = vec![0; (end - start) as usize];
        let on_disk = (self.written_bytes.clamp(start, end) - start) as usize;
        files::read_exact(&*self.file, NAME, &mut bytes[..on_disk], start)?;
        if on_disk < bytes.len() {
            let from = (start + on_disk as u64 - self.written_bytes) as usize;
            let waiting = &self.buffer[from..from + bytes.len() - on_disk];
            bytes[on_disk..].copy_from_slice(waiting);
        }
        let first = group * GROUP;
        let mut at = 0;
        for page in first..self.pages.min(first + GROUP) {
            let record = bytes.get(at..).and_then(|rest| self.decode(page, rest));
            let (depth, text) = record.ok_or_else(|| bad(start + at as u64))?;
            each(page, depth, text);
            at += RECORD_HEAD_BYTES + text.len();
        }
        Ok(())
    }

    fn decode<'a>(&self, page: u32, bytes: &'a [u8]) -> Option<(u16, &'a str)> {
        let head = bytes.get(..RECORD_HEAD_BYTES)?;
        let len = usize::from(u16::from_le_bytes(array(head, 4)));
        let text = bytes.get(RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + len)?;
        if u32::from_le_bytes(array(head, 0)) != self.checksum(page, &head[4..], text) {
            return None;
        }
        Some((u16::from_le_bytes(array(head, 6)), std::str::from_utf8(text).ok()?))
    }

    fn checksum(&self, page: u32, head: &[u8], text: &[u8]) -> u32 {
        let mut hasher = Hasher::new();
        hasher.update(&self.id);
        hasher.update(&page.to_le_bytes());
        hasher.update(head);
        hasher.update(text);
        hasher.finalize()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.groups.capacity() * 8 + self.buffer.capacity()) as u64
    }
}
