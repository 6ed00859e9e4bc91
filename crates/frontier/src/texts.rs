//! The file of URLs: each page's text and depth, in the order of discovery.
//!
//! Memory holds the offset of every sixteenth record. An opening rebuilds records past the length
//! in the last snapshot from the journal, so only a snapshot needs a sync; records before that
//! length never change.

use std::sync::Arc;

use filemap_io::files::read_exact;
use filemap_io::header::crc32;
use filemap_io::{Dir, File};

use crate::error::{Error, Result};
use crate::failpoint::{Failpoint, planted};
use crate::files::{self, URLS};
use crate::format::{self, HEADER_BYTES, UrlHeader};
use crate::grow::push;

/// The longest URL, in bytes.
pub(crate) const URL_BYTES_MAX: usize = u16::MAX as usize;
const RECORD_HEAD_BYTES: usize = UrlHeader::BYTES;
/// Records per group; the offset of each group is in memory.
pub(crate) const GROUP: u32 = 16;
/// Buffered bytes of records at which the buffer is written before a commit.
const BUFFER_BYTES: usize = 1 << 20;

/// The open file of URLs.
#[derive(Debug)]
pub(crate) struct Texts {
    file: Arc<dyn File>,
    id: [u8; 16],
    pages: u32,
    /// Offset of each group.
    groups: Vec<u64>,
    written_bytes: u64,
    /// Records not written yet.
    buffer: Vec<u8>,
}

impl Texts {
    /// Creates the file; its contents are durable, its name is not yet.
    pub(crate) fn create(dir: &dyn Dir, id: [u8; 16]) -> Result<Texts> {
        let file = files::create(dir, URLS, format::URLS, id, 0)?;
        Ok(Texts { file, id, pages: 0, groups: Vec::new(), written_bytes: HEADER_BYTES as u64, buffer: Vec::new() })
    }

    /// Opens the file as a snapshot describes it, and cuts off what follows.
    pub(crate) fn open(dir: &dyn Dir, id: [u8; 16], pages: u32, groups: Vec<u64>, bytes: u64) -> Result<Texts> {
        let file = files::open(dir, URLS, format::URLS, id, 0)?;
        files::cut(&*file, URLS, bytes)?;
        Ok(Texts { file, id, pages, groups, written_bytes: bytes, buffer: Vec::new() })
    }

    /// Appends the next page's record to the buffer.
    pub(crate) fn append(&mut self, depth: u16, text: &str) {
        if self.pages.is_multiple_of(GROUP) {
            let start = self.bytes();
            push(&mut self.groups, start);
        }
        let mut head = [0; RECORD_HEAD_BYTES];
        UrlHeader::LEN.put(&mut head, text.len() as u16);
        UrlHeader::DEPTH.put(&mut head, depth);
        let crc = self.checksum(self.pages, &head[UrlHeader::CRC.end()..], text.as_bytes());
        UrlHeader::CRC.put(&mut head, crc);
        self.buffer.extend_from_slice(&head);
        self.buffer.extend_from_slice(text.as_bytes());
        self.pages += 1;
    }

    /// Writes the buffer if it is full.
    pub(crate) fn flush_if_full(&mut self) -> Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the buffer.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.file.write_at(&self.buffer, self.written_bytes).map_err(Error::io("write", URLS))?;
        self.written_bytes = self.bytes();
        self.buffer.clear();
        Ok(())
    }

    /// Makes all records durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.flush()?;
        if planted(Failpoint::UrlsNotSynced) {
            return Ok(());
        }
        self.file.sync().map_err(Error::io("sync", URLS))
    }

    /// Bytes of the file, buffer included.
    pub(crate) fn bytes(&self) -> u64 {
        self.written_bytes + self.buffer.len() as u64
    }

    pub(crate) fn groups(&self) -> &[u64] {
        &self.groups
    }

    /// Depth and text of a known page.
    pub(crate) fn read(&self, page: u32) -> Result<(u16, String)> {
        let mut found = None;
        self.read_group(page / GROUP, |number, depth, text| {
            if number == page {
                found = Some((depth, text.to_owned()));
            }
        })?;
        found.ok_or_else(|| {
            Error::corrupt(URLS, self.groups[(page / GROUP) as usize], format!("page {page} is missing"))
        })
    }

    /// The texts of the group of sixteen pages that a page is in.
    pub(crate) fn group_of(&self, page: u32) -> Result<Vec<(u32, String)>> {
        let mut group = Vec::new();
        self.read_group(page / GROUP, |number, _, text| group.push((number, text.to_owned())))?;
        Ok(group)
    }

    fn read_group(&self, group: u32, mut each: impl FnMut(u32, u16, &str)) -> Result<()> {
        let start = self.groups[group as usize];
        let end = self.groups.get(group as usize + 1).copied().unwrap_or(self.bytes());
        let longest = u64::from(GROUP) * (RECORD_HEAD_BYTES + URL_BYTES_MAX) as u64;
        let bad = |offset: u64| Error::corrupt(URLS, offset, "damaged record of a URL");
        if !(HEADER_BYTES as u64..=self.bytes()).contains(&end) || start > end || end - start > longest {
            return Err(bad(start));
        }
        let mut bytes = vec![0; (end - start) as usize];
        let on_disk = (self.written_bytes.clamp(start, end) - start) as usize;
        read_exact(&*self.file, URLS, &mut bytes[..on_disk], start)?;
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
        let len = usize::from(UrlHeader::LEN.get(head));
        let text = bytes.get(RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + len)?;
        if UrlHeader::CRC.get(head) != self.checksum(page, &head[UrlHeader::CRC.end()..], text) {
            return None;
        }
        Some((UrlHeader::DEPTH.get(head), std::str::from_utf8(text).ok()?))
    }

    fn checksum(&self, page: u32, head: &[u8], text: &[u8]) -> u32 {
        crc32(&[&self.id, &page.to_le_bytes(), head, text])
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.groups.capacity() * 8 + self.buffer.capacity()) as u64
    }
}
