//! Reads value records: the head, the body in one piece, a range of it, or chunk by chunk.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use filemap_io::Advice;

use crate::error::{Error, Result};
use crate::format::location::{Extent, Location, SizeClass, UNIT_BYTES};
use crate::format::value::{self, ChunkEntry, Codec, FIXED_BYTES, Header, Kind};
use crate::logs::segments::{OpenSegment, Segment};
use crate::logs::values::ValueLog;
use crate::logs::values::cache::{Page, PagePlace, SharedBody, ValueCache};
use crate::logs::values::codec;
use crate::logs::values::dictionaries::{Part, Registry};
use crate::record::{Head, Place, Version};

/// First read of a head, in bytes: covers fixed part, key and meta of nearly every page.
const HEAD_GUESS_BYTES: u64 = 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
/// Largest buffer that a thread keeps, in bytes.
const KEEP_BUFFER_BYTES: usize = 4 << 20;

/// Above this length, a read is first clipped to the length of the file.
const TRUSTED_BYTES: u64 = 4 << 20;

/// The wanted part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Head,
    Whole,
    /// Whole, from the value cache if possible; a record read from disk instead may be cached by
    /// [`Raw::keep`].
    Cached,
}

/// A record in the thread's buffer, with verified head and, if wanted, payload; or in the value
/// cache.
pub(crate) struct Raw<'a> {
    pub(crate) header: Header,
    /// From the value cache, only fixed part and key are as in the record.
    pub(crate) bytes: &'a [u8],
    segment: &'a Segment,
    dictionaries: &'a Registry,
    offset: u64,
    cached: Cached<'a>,
}

/// Relation of a record to the value cache.
#[derive(Clone, Copy)]
enum Cached<'a> {
    /// The cache was not asked.
    No,
    /// Cached.
    Yes(&'a Arc<Page>),
    /// Not cached, but may be.
    NotYet(&'a ValueCache, PagePlace),
}

impl Raw<'_> {
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[self.header.key_at()..self.header.meta_at()]
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.header.payload_at()..][..self.header.payload_bytes as usize]
    }

    /// # Errors
    /// `Corrupt` if the record is not a version of its key, though something leads to it as one.
    pub(crate) fn check_version(&self) -> Result<()> {
        if self.header.kind.is_version() { Ok(()) } else { Err(self.flaw("it is not a version of its key")) }
    }

    pub(crate) fn flaw(&self, what: &str) -> Error {
        self.segment.corrupt(self.offset, what)
    }

    pub(crate) fn meta(&self) -> Result<Vec<u8>> {
        if let Cached::Yes(page) = self.cached {
            return Ok(page.meta().to_vec());
        }
        let stored = &self.bytes[self.header.meta_at()..self.header.payload_at()];
        let mut meta = Vec::new();
        let raw_bytes = self.header.meta_raw_bytes as usize;
        expand(self.dictionaries, &self.header, Part::Meta, stored, raw_bytes, &mut meta)?
            .map_err(|_| self.flaw("meta does not decompress to its recorded length"))?;
        Ok(meta)
    }

    /// Appends the body of a page to `out`.
    pub(crate) fn body(&self, out: &mut Vec<u8>) -> Result<()> {
        if let Cached::Yes(page) = self.cached {
            out.extend_from_slice(page.body());
            return Ok(());
        }
        let raw_bytes = self.header.raw_bytes as usize;
        expand(self.dictionaries, &self.header, Part::Body, self.payload(), raw_bytes, out)?
            .map_err(|what| self.flaw(what))
    }

    /// Puts the expanded record into the value cache, if the read missed there.
    pub(crate) fn keep(&self, meta: &[u8], body: &[u8]) {
        if let Cached::NotYet(pages, place) = self.cached
            && pages.takes(body.len())
        {
            pages.keep(place, Page::new(self.header, &self.bytes[..self.header.meta_at()], meta, body));
        }
    }

    /// The sequence that a reference names.
    pub(crate) fn refers_to(&self) -> u64 {
        value::referred_to(self.payload())
    }

    /// The chunks that a chunked record lists.
    pub(crate) fn chunks(&self) -> Result<Vec<ChunkEntry>> {
        value::decode_chunks(self.payload(), self.header.raw_bytes).map_err(|what| self.flaw(what))
    }

    /// The head of this record, without resolving a reference. References and chunked records need
    /// their payload.
    pub(crate) fn head(&self) -> Result<Head> {
        let mut stored_bytes = self.header.total_bytes();
        if self.header.kind == Kind::Chunked {
            stored_bytes += self.chunks()?.iter().map(|c| u64::from(c.units) * UNIT_BYTES).sum::<u64>();
        }
        Ok(Head {
            version: self.version(),
            meta: self.meta()?,
            body_bytes: self.header.raw_bytes,
            stored_bytes,
            digest: self.header.digest,
            unchanged_since: (self.header.kind == Kind::Reference).then(|| self.refers_to()),
            place: Place { segment: self.segment.id, offset: self.offset },
        })
    }

    pub(crate) fn version(&self) -> Version {
        Version { time_ms: self.header.time_ms, sequence: self.header.sequence }
    }
}

/// Expands a part of a record, with its dictionary if needed. The inner error is a flaw of the
/// record itself.
///
/// # Errors
/// `Corrupt` if the dictionary is missing or damaged; `NewerFormat`; `Io`.
pub(crate) fn expand(
    dictionaries: &Registry,
    header: &Header,
    part: Part,
    stored: &[u8],
    raw_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<std::result::Result<(), &'static str>> {
    let codec = part.of((header.codec, header.meta_codec));
    if codec != Codec::Dictionary {
        return Ok(codec::expand(codec, stored, raw_bytes, None, out));
    }
    let digest = dictionaries.expander(header.dictionary, part)?;
    Ok(codec::expand(codec, stored, raw_bytes, Some(&digest.form), out))
}

impl ValueLog {
    /// Reads the record at a location into the thread's buffer and passes it to `f`. `size` is the
    /// slot's bound on its length: one read suffices for a whole record, and for the head of
    /// nearly all.
    ///
    /// # Errors
    /// `Corrupt` if no whole record lies there; `Io`; those of `f`.
    pub(crate) fn with_record<T>(
        &self,
        location: Location,
        size: SizeClass,
        want: Want,
        f: impl FnOnce(&Raw<'_>) -> Result<T>,
    ) -> Result<T> {
        let segment = self.segments.get(location.segment)?;
        let offset = location.offset();
        let mut cached = Cached::No;
        if want == Want::Cached
            && let Some(pages) = &self.cache
        {
            let place = pages.place(segment.ordinal, offset);
            if let Some(page) = pages.get(&place) {
                let (segment, cached) = (&segment, Cached::Yes(&page));
                let (header, bytes, dictionaries) = (page.header, page.bytes(), &self.dictionaries);
                return f(&Raw { header, bytes, segment, dictionaries, offset, cached });
            }
            cached = Cached::NotYet(pages, place);
        }
        let file = self.segments.file(&segment)?;
        read_record(&self.dictionaries, &(segment, file), offset, size, want, |raw| f(&Raw { cached, ..*raw }))
    }

    /// Moves cached pages to the places to which compaction copied their records unchanged.
    pub(crate) fn follow(&self, moves: &[(Location, Location)]) {
        let Some(pages) = &self.cache else { return };
        for (from, to) in moves {
            if let (Ok(old), Ok(new)) = (self.segments.get(from.segment), self.segments.get(to.segment)) {
                pages.follow(&pages.place(old.ordinal, from.offset()), (new.ordinal, to.offset()));
            }
        }
    }

    /// Gives memory of an automatic value cache back, if it is short.
    pub(crate) fn tend(&self) {
        if let Some(pages) = &self.cache {
            pages.tend(Instant::now());
        }
    }

    /// Prefetches a record without waiting, unless it is cached.
    pub(crate) fn will_need(&self, location: Location, size: SizeClass) {
        let Ok(segment) = self.segments.get(location.segment) else { return };
        let is_cached = |pages: &ValueCache| pages.contains(&pages.place(segment.ordinal, location.offset()));
        if self.cache.as_ref().is_some_and(is_cached) {
            return;
        }
        if let Ok(file) = self.segments.file(&segment) {
            file.advise(Advice::WillNeed, location.offset(), size.bytes());
        }
    }

    /// Returns a segment with its file: reads through them survive the segment's removal.
    pub(crate) fn hold(&self, id: u16) -> Result<OpenSegment> {
        let segment = self.segments.get(id)?;
        let file = self.segments.file(&segment)?;
        Ok((segment, file))
    }

    /// Returns true if the record of a key's version can be read, with all its chunks. Reads and
    /// expands them.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn is_readable(&self, key: &[u8], version: Version, extent: Extent) -> Result<bool> {
        let mut body = Vec::new();
        let chunks = self.with_record(extent.location, extent.size(), Want::Whole, |raw| {
            if raw.key() != key || raw.version() != version {
                return Err(raw.flaw("it is not the record that the index names"));
            }
            raw.check_version()?;
            match raw.header.kind {
                Kind::Chunked => raw.chunks(),
                Kind::Page => raw.body(&mut body).map(|()| Vec::new()),
                _ => Ok(Vec::new()),
            }
        });
        let read = chunks.and_then(|chunks| {
            chunks.iter().try_for_each(|chunk| {
                body.clear();
                self.chunk(key, chunk, &mut body)
            })
        });
        match read {
            Ok(()) => Ok(true),
            Err(e) if e.is_corrupt() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Appends one chunk of a key's chunked body to `out`.
    pub(crate) fn chunk(&self, key: &[u8], chunk: &ChunkEntry, out: &mut Vec<u8>) -> Result<()> {
        read_chunk(&self.dictionaries, &self.hold(chunk.location.segment)?, key, chunk, out)
    }
}

/// Appends one chunk of a key's chunked body, which lies in an open segment, to `out`.
pub(super) fn read_chunk(
    dictionaries: &Registry,
    held: &OpenSegment,
    key: &[u8],
    chunk: &ChunkEntry,
    out: &mut Vec<u8>,
) -> Result<()> {
    let size = SizeClass::of(u64::from(chunk.units) * UNIT_BYTES);
    read_record(dictionaries, held, chunk.location.offset(), size, Want::Whole, |raw| {
        let is_piece = raw.header.kind == Kind::Chunk && raw.key() == key;
        if !is_piece || raw.header.raw_bytes != u64::from(chunk.raw_bytes) {
            return Err(raw.flaw("it is not the chunk that its list names"));
        }
        raw.body(out)
    })
}

/// Reads the record at an offset of an open segment into the thread's buffer and passes it to `f`.
fn read_record<T>(
    dictionaries: &Registry,
    (segment, file): &OpenSegment,
    offset: u64,
    size: SizeClass,
    want: Want,
    f: impl FnOnce(&Raw<'_>) -> Result<T>,
) -> Result<T> {
    // The buffer never shrinks in length, so reads do not zero it again.
    let mut buffer = BUFFER.take();
    let read = |buffer: &mut Vec<u8>, len: u64| -> Result<usize> {
        let len = len as usize;
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        file.read_at(&mut buffer[..len], offset).map_err(|e| Error::io("read", segment.name())(e))
    };
    let result = (|| {
        let mut bound = size.bytes().min(1 << 30);
        if bound > TRUSTED_BYTES {
            // A forged size must not make the buffer larger than the file.
            let len = file.len().map_err(|e| Error::io("measure", segment.name())(e))?;
            bound = bound.min(len.saturating_sub(offset));
        }
        let first = if want == Want::Head { bound.min(HEAD_GUESS_BYTES) } else { bound };
        let mut there = read(&mut buffer, first)?;
        let flaw = |what: &str| segment.corrupt(offset, what);
        let header = value::peek(&buffer[..there]).map_err(flaw)?;
        let needs_payload = want != Want::Head || matches!(header.kind, Kind::Reference | Kind::Chunked);
        if header.total_bytes() > bound {
            return Err(flaw("it is longer than the index says"));
        }
        let need = if needs_payload { header.total_bytes() } else { header.payload_at() as u64 };
        if need > first {
            there = read(&mut buffer, need)?;
        }
        let bytes = &buffer[..there];
        value::decode_head(bytes, segment.seed, offset).map_err(flaw)?;
        if needs_payload {
            value::check_payload(&header, bytes).map_err(flaw)?;
        }
        f(&Raw { header, bytes, segment, dictionaries, offset, cached: Cached::No })
    })();
    if buffer.capacity() <= KEEP_BUFFER_BYTES {
        BUFFER.set(buffer);
    }
    result
}

/// A body that can be read in pieces.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(SharedBody),
    /// The key that each chunk must have, and the chunks with their offsets in the body.
    Chunks(Vec<u8>, Vec<(u64, ChunkEntry)>),
}

impl Body {
    /// The body of a page or chunked record. A page's body is the value cache's, or takes over the
    /// memory of `spare`.
    pub(crate) fn of(raw: &Raw<'_>, spare: &mut Vec<u8>) -> Result<Body> {
        if !matches!(raw.header.kind, Kind::Page | Kind::Chunked) {
            return Err(raw.flaw("it is not a record that holds a body"));
        }
        if raw.header.kind == Kind::Chunked {
            let mut at = 0;
            let mut chunks = Vec::new();
            for chunk in raw.chunks()? {
                chunks.push((at, chunk));
                at += u64::from(chunk.raw_bytes);
            }
            return Ok(Body::Chunks(raw.key().to_vec(), chunks));
        }
        if let Cached::Yes(page) = raw.cached {
            return Ok(Body::Whole(SharedBody::of(page)));
        }
        spare.clear();
        raw.body(spare)?;
        Ok(Body::Whole(std::mem::take(spare).into()))
    }

    /// The whole body. Chunks are collected in `spare`, which is cleared.
    pub(crate) fn whole(self, values: &ValueLog, mut spare: Vec<u8>) -> Result<SharedBody> {
        match self {
            Body::Whole(body) => Ok(body),
            chunks => {
                spare.clear();
                chunks.range(values, 0..u64::MAX, &mut spare)?;
                Ok(spare.into())
            }
        }
    }

    /// Appends a range of the body, clipped to its length, to `out`. Reads only the chunks in the
    /// range.
    pub(crate) fn range(&self, values: &ValueLog, range: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let clip = |len: usize| (range.start.min(len as u64) as usize)..(range.end.min(len as u64) as usize);
        match self {
            Body::Whole(body) => {
                let r = clip(body.len());
                out.extend_from_slice(body.get(r).unwrap_or_default());
            }
            Body::Chunks(key, chunks) => {
                let mut piece = Vec::new();
                for (at, chunk) in chunks {
                    let end = at + u64::from(chunk.raw_bytes);
                    if end <= range.start || *at >= range.end {
                        continue;
                    }
                    if *at >= range.start && end <= range.end {
                        values.chunk(key, chunk, out)?;
                        continue;
                    }
                    piece.clear();
                    values.chunk(key, chunk, &mut piece)?;
                    let from = range.start.saturating_sub(*at) as usize;
                    let to = (range.end - at).min(piece.len() as u64) as usize;
                    out.extend_from_slice(&piece[from..to]);
                }
            }
        }
        Ok(())
    }
}

const _: () = assert!(HEAD_GUESS_BYTES as usize > FIXED_BYTES + 16);
