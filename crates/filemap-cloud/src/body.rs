//! The body of a page as a stream: a large one is read in ranges of its object, a few chunks at
//! once, so that memory stays bounded and unread parts cost no transfer.
//!
//! Chunks are checked and expanded in the thread of the reader. The segment may be rewritten and
//! deleted meanwhile: the reader then looks the version up again, and continues at the new place,
//! if the table of chunks there is the same.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use filemap::access::keys;
use filemap::{Lookup, Page, Result};

use crate::core::{Core, Found, Via};
use crate::error;
use crate::format::chunks::{self, Table};
use crate::read::Sought;

/// Chunks of one request, after some that were read in order.
const AT_ONCE: usize = 4;

/// The body of one version of a page: see [`CloudStore::body`](crate::CloudStore::body).
///
/// Each chunk of a large body is checked before a byte of it is returned. An error of a read is a
/// [`filemap::Error`] in an [`io::Error`]; the read may be repeated. A body read in order costs a
/// `GET` for each 4 MiB, and holds 5 MiB in memory; a body of up to 4 MiB is read when it is
/// opened.
///
/// ```
/// use std::io::{Read, Seek, SeekFrom};
/// use filemap::access::PutRule;
/// use filemap::{Lookup, Page, PageWrite};
/// use filemap_cloud::{CloudOptions, Mode, open_bucket};
/// let store = open_bucket("mem://body", Mode::Fill, &CloudOptions::new())?;
/// let body = b"a large page ".repeat(500_000);
/// store.put(&Page::new("http://example.com/", 1_700_000_000_000, 200, body), PutRule::IfNew)?;
/// let (page, mut body) = store.body(&Lookup::new("http://example.com/"))?.expect("just put");
/// assert_eq!((page.status, body.len()), (Some(200), 6_500_000));
/// body.seek(SeekFrom::End(-5))?;
/// let mut end = String::new();
/// body.read_to_string(&mut end)?;
/// assert_eq!(end, "page ");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CloudBody {
    core: Arc<Core>,
    bytes: u64,
    at: u64,
    /// The part in memory, and its offset in the body.
    part: Vec<u8>,
    part_at: u64,
    /// `None` if the whole body is in memory.
    chunks: Option<Chunks>,
}

/// A body in chunks, and the chunks read ahead.
struct Chunks {
    key: Vec<u8>,
    /// The version that owns the body, and its row.
    owner: Found,
    table: Table,
    /// Chunks as stored, and the number of the first one.
    ahead: VecDeque<Bytes>,
    next: usize,
    /// The first chunk of the last request, and their number.
    fetched: usize,
    asked: usize,
}

impl fmt::Debug for CloudBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudBody").field("bytes", &self.bytes).field("at", &self.at).finish_non_exhaustive()
    }
}

/// A body as found: whole, or the version and the table of its chunks.
enum Opened {
    Whole(Vec<u8>),
    InChunks(Found, Table),
}

/// A version of a page without its body, and the body as a stream.
pub(crate) fn open(core: &Arc<Core>, lookup: &Lookup<'_>) -> Result<Option<(Page, CloudBody)>> {
    let sought = core.sought(lookup)?;
    let key = sought.key.clone();
    let Some((page, opened)) = core.wait(|core| async move { opened(&core, &sought).await })? else {
        return Ok(None);
    };
    let core = Arc::clone(core);
    let body = match opened {
        Opened::Whole(part) => CloudBody { core, bytes: part.len() as u64, at: 0, part, part_at: 0, chunks: None },
        Opened::InChunks(owner, table) => {
            let bytes = owner.1.body_bytes;
            let chunks = Chunks { key, owner, table, ahead: VecDeque::new(), next: 0, fetched: 0, asked: 0 };
            CloudBody { core, bytes, at: 0, part: Vec::new(), part_at: 0, chunks: Some(chunks) }
        }
    };
    Ok(Some((page, body)))
}

async fn opened(core: &Core, sought: &Sought) -> error::Result<Option<(Page, Opened)>> {
    let (mut found, mut before) = (core.found(sought).await?, None);
    while let Some(at) = found {
        if let Some(opened) = opened_at(core, &sought.key, at).await? {
            return Ok(Some(opened));
        }
        found = core.found_again(sought, at, &mut before).await?;
    }
    Ok(None)
}

/// Opens a version; `None` if its record, or the one with its body, is missing.
async fn opened_at(core: &Core, key: &[u8], (version, row): Found) -> error::Result<Option<(Page, Opened)>> {
    if row.body_bytes > chunks::WHOLE_BYTES {
        let owner = match row.original {
            None => (version, row),
            Some(original) => match core.row(&keys::form(key), original).await? {
                Some(of_original) => (original, of_original),
                None => return Ok(None),
            },
        };
        let Some((of_owner, table)) = front(core, key, owner).await? else { return Ok(None) };
        if let Some(table) = table {
            let page = match row.original {
                None => Some(of_owner),
                Some(_) => core.description(key, version, &row).await?,
            };
            return Ok(page.map(|page| (page, Opened::InChunks(owner, table))));
        }
    }
    let Some(mut page) = core.page(key, version, &row).await? else { return Ok(None) };
    let body = std::mem::take(&mut page.body);
    Ok(Some((page, Opened::Whole(body))))
}

/// The description in the record of a large body, and the table of its chunks.
async fn front(core: &Core, key: &[u8], at: Found) -> error::Result<Option<(Page, Option<Table>)>> {
    match front_via(core, Via::Cache, key, at).await {
        Err(error) if core.may_be_cached(&error) => front_via(core, Via::Bucket, key, at).await,
        front => front,
    }
}

async fn front_via(
    core: &Core,
    via: Via,
    key: &[u8],
    (version, row): Found,
) -> error::Result<Option<(Page, Option<Table>)>> {
    let bytes = row.head_bytes.saturating_add(chunks::table_bytes(row.body_bytes)).min(row.bytes);
    let Some(bytes) = core.bytes(&row, 0..bytes, via).await? else { return Ok(None) };
    core.front(&bytes, key, version, &row).map(Some)
}

impl Chunks {
    /// A part of the body. Requests more parts at once while they are read in order.
    fn part(&mut self, core: &Arc<Core>, nth: usize) -> error::Result<Vec<u8>> {
        if nth != self.next || self.ahead.is_empty() {
            self.asked = if nth == self.next { (2 * self.asked).clamp(1, AT_ONCE) } else { 1 };
            self.fetch(core, nth, Via::Cache)?;
        }
        let (part, has_cache) = (self.unpack(core, nth), core.bucket.cache().is_some());
        if part.is_err() && has_cache {
            // The same chunks as before, so that the cache drops them.
            self.fetch(core, self.fetched, Via::Bucket)?;
            self.ahead.drain(..(nth - self.fetched).min(self.ahead.len()));
            return self.unpack(core, nth);
        }
        part
    }

    /// Unpacks the next of the chunks that were read ahead.
    fn unpack(&mut self, core: &Core, nth: usize) -> error::Result<Vec<u8>> {
        let stored = self.ahead.pop_front().unwrap_or_default();
        self.next = nth + 1;
        self.table.unpack(nth, &stored).map_err(|what| core.damaged_at(&self.key, &self.owner.1, &what))
    }

    /// Reads chunks as stored.
    fn fetch(&mut self, core: &Arc<Core>, nth: usize, via: Via) -> error::Result<()> {
        self.ahead.clear();
        (self.next, self.fetched) = (nth, nth);
        let end = (nth + self.asked).min(self.table.len());
        let range = self.table.range(nth).start..self.table.range(end).start;
        let bytes = loop {
            let (row, head_bytes) = (self.owner.1, self.owner.1.head_bytes);
            let of_record = head_bytes.saturating_add(range.start)..head_bytes.saturating_add(range.end);
            match core.wait(|core| async move { core.bytes(&row, of_record, via).await })? {
                Some(bytes) => break bytes,
                None => self.follow(core)?,
            }
        };
        if bytes.len() as u64 != range.end - range.start {
            return Err(core.damaged_at(&self.key, &self.owner.1, "it ends inside a body"));
        }
        for chunk in nth..end {
            let of_chunk = self.table.range(chunk);
            let (from, to) = ((of_chunk.start - range.start) as usize, (of_chunk.end - range.start) as usize);
            self.ahead.push_back(bytes.slice(from..to));
        }
        Ok(())
    }

    /// Finds the place to which a compaction has moved the record.
    fn follow(&mut self, core: &Arc<Core>) -> error::Result<()> {
        let (key, owner) = (self.key.clone(), self.owner);
        let (now, table) = core.wait(|core| async move {
            core.index.refresh().await?;
            let Some(row) = core.row(&keys::form(&key), owner.0).await? else {
                let what = "the page was removed in the meantime";
                return Err(core.bucket.unavailable("reading a body", 0, &what));
            };
            let now = (owner.0, row);
            match front(&core, &key, now).await? {
                Some((_, table)) => Ok((now, table)),
                None if now == owner => Err(core.gone(&row)),
                // It has moved again: the next request finds out.
                None => Ok((now, None)),
            }
        })?;
        if table.is_some_and(|table| table != self.table) {
            return Err(core.damaged_at(&self.key, &now.1, "its chunks differ from those before a compaction"));
        }
        self.owner = now;
        Ok(())
    }
}

impl CloudBody {
    /// The length of the body.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Reads the part of the body at the current offset.
    fn load(&mut self) -> Result<()> {
        let Some(chunks) = &mut self.chunks else { return Ok(()) };
        let nth = self.at / chunks::PART_BYTES;
        // Frees the old part before the next one is expanded.
        self.part = Vec::new();
        self.part = chunks.part(&self.core, usize::try_from(nth).unwrap_or(usize::MAX))?;
        self.part_at = nth * chunks::PART_BYTES;
        Ok(())
    }
}

impl Read for CloudBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.bytes || buffer.is_empty() {
            return Ok(0);
        }
        if self.at < self.part_at || self.at >= self.part_at + self.part.len() as u64 {
            self.load().map_err(io::Error::other)?;
        }
        let from = (self.at - self.part_at) as usize;
        let length = self.part.len().saturating_sub(from).min(buffer.len());
        buffer[..length].copy_from_slice(&self.part[from..from + length]);
        self.at += length as u64;
        Ok(length)
    }
}

/// Parts in between are not read. An offset beyond the end reads as the end.
impl Seek for CloudBody {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.bytes.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
