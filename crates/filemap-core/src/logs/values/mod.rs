//! The value log: rolled segments of self-describing records. It is the truth: every other file
//! can be rebuilt from it.

pub(crate) mod append;
pub(crate) mod cache;
pub(crate) mod codec;
pub(crate) mod dictionaries;
pub(crate) mod draft;
pub(crate) mod read;
pub(crate) mod reader;

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use filemap_io::{Access, Dir, File};

use crate::error::{Error, Result};
use crate::format::location::UNIT_BYTES;
use crate::format::value::{self, FIXED_BYTES, Header, Kind};
use crate::format::{Flaw, header, location, names, seed};
use crate::logs::scan::{Extent, Framing, Scan};
use crate::logs::segments::{Bounds, Family, Segment, Segments};
use crate::options::Options;
use cache::ValueCache;
use dictionaries::Registry;

pub(crate) static VALUES: Family =
    Family { kind: header::Kind::Values, name: names::segment, parse: names::parse_segment, seed, longest: 1 << 30 };

/// Bytes per read of a search for a head.
const PROBE_BYTES: usize = 16 << 10;

/// The framing of a value segment.
pub(crate) struct ValueFraming {
    pub(crate) seed: u32,
}

impl Framing for ValueFraming {
    const UNIT_BYTES: u64 = location::UNIT_BYTES;
    const PEEK_BYTES: usize = FIXED_BYTES + 16;

    fn peek(&self, b: &[u8]) -> std::result::Result<usize, Flaw> {
        value::peek(b).map(|h| h.payload_at())
    }

    fn head(&self, b: &[u8], offset: u64) -> std::result::Result<Extent, Flaw> {
        value::decode_head(b, self.seed, offset).map(|h| match h.kind {
            Kind::Filler => Extent::Filler(h.total_bytes()),
            _ => Extent::Record(h.total_bytes()),
        })
    }

    fn check(&self, b: &[u8]) -> std::result::Result<(), Flaw> {
        value::check_payload(&value::peek(b)?, b)
    }
}

/// The framing of records whose heads are whole, whatever the state of their payloads.
pub(crate) struct HeadFraming(pub(crate) ValueFraming);

impl Framing for HeadFraming {
    const UNIT_BYTES: u64 = location::UNIT_BYTES;
    const PEEK_BYTES: usize = ValueFraming::PEEK_BYTES;

    fn peek(&self, b: &[u8]) -> std::result::Result<usize, Flaw> {
        self.0.peek(b)
    }

    fn head(&self, b: &[u8], offset: u64) -> std::result::Result<Extent, Flaw> {
        self.0.head(b, offset)
    }

    fn check(&self, _: &[u8]) -> std::result::Result<(), Flaw> {
        Ok(())
    }
}

/// The framing of the versions with these sequences; other records are skipped by their heads,
/// their payloads neither read nor verified. `None`: all records.
pub(crate) struct PartFraming {
    all: ValueFraming,
    sequences: Option<Range<u64>>,
}

impl Framing for PartFraming {
    const UNIT_BYTES: u64 = location::UNIT_BYTES;
    const PEEK_BYTES: usize = ValueFraming::PEEK_BYTES;

    fn peek(&self, b: &[u8]) -> std::result::Result<usize, Flaw> {
        self.all.peek(b)
    }

    fn head(&self, b: &[u8], offset: u64) -> std::result::Result<Extent, Flaw> {
        let Some(sequences) = &self.sequences else { return self.all.head(b, offset) };
        value::decode_head(b, self.all.seed, offset).map(|h| match h.kind.is_version() {
            true if sequences.contains(&h.sequence) => Extent::Record(h.total_bytes()),
            _ => Extent::Filler(h.total_bytes()),
        })
    }

    fn check(&self, b: &[u8]) -> std::result::Result<(), Flaw> {
        self.all.check(b)
    }
}

/// The readers' view of the value log.
#[derive(Debug)]
pub(crate) struct ValueLog {
    /// Shared with the appender.
    pub(crate) segments: Arc<Segments>,
    /// The dictionaries that records name.
    pub(crate) dictionaries: Registry,
    /// The value cache, unless the options forbid it.
    pub(crate) cache: Option<ValueCache>,
}

impl ValueLog {
    /// Finds the segments and dictionaries in a store's directory.
    ///
    /// # Errors
    /// `Io`; `NewerFormat`.
    pub(crate) fn open(dir: Arc<dyn Dir>, store_id: [u8; 16], access: Access, options: &Options) -> Result<ValueLog> {
        let dictionaries = Registry::open(Arc::clone(&dir), store_id, access)?;
        dictionaries.set_memory(options.dictionary_memory_bytes);
        let segments = Segments::open(&VALUES, dir, store_id, access, Bounds::of_values(options))?;
        let cache = match options.value_cache_bytes {
            Some(bytes) => ValueCache::fixed(bytes as u64),
            // Its locks are std's, of which ThreadSanitizer sees only those that were free.
            None if cfg!(filemap_tsan) => None,
            None => ValueCache::automatic(options.max_value_cache_bytes as u64, filemap_io::system::memory),
        };
        Ok(ValueLog { segments: Arc::new(segments), dictionaries, cache })
    }

    /// [`ValueLog::scan`] of the versions with these sequences; `None`: of all records.
    pub(crate) fn scan_part<'f>(
        &self,
        segment: &Segment,
        file: &'f dyn File,
        range: Range<u64>,
        sequences: Option<Range<u64>>,
    ) -> Result<Scan<'f, PartFraming>> {
        let framing = PartFraming { all: ValueFraming { seed: segment.seed }, sequences };
        self.segments.scan_framed(segment, file, framing, range)
    }

    /// Offset and sequence of the first record of a wanted kind, except fillers, with a whole head
    /// in a range of a segment; `None` if there is none. Reads heads, not payloads.
    ///
    /// # Errors
    /// `Io`; `Corrupt` if the segment is missing.
    pub(crate) fn first_head(
        &self,
        segment: &Arc<Segment>,
        range: Range<u64>,
        is_wanted: impl Fn(Kind) -> bool,
    ) -> Result<Option<(u64, u64)>> {
        let mut first = None;
        self.each_head(segment, range, |offset, header| {
            if !is_wanted(header.kind) {
                return ControlFlow::Continue(());
            }
            first = Some((offset, header.sequence));
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// Passes `visit` the offset and header of each record, except fillers, with a whole head in a
    /// range of a segment, until it breaks. Reads heads, not payloads.
    ///
    /// # Errors
    /// `Io`; `Corrupt` if the segment is missing.
    pub(crate) fn each_head(
        &self,
        segment: &Arc<Segment>,
        range: Range<u64>,
        mut visit: impl FnMut(u64, &Header) -> ControlFlow<()>,
    ) -> Result<()> {
        let file = self.segments.file(segment)?;
        let failed = |e| Error::io("read", segment.name())(e);
        let (mut window, mut start, mut at) = (Vec::new(), range.start, range.start.next_multiple_of(UNIT_BYTES));
        let mut hold = |window: &mut Vec<u8>, at: u64, bytes: usize| -> Result<usize> {
            if (at - start) as usize + bytes > window.len() {
                window.resize(bytes.max(PROBE_BYTES), 0);
                let read = file.read_at(window, at).map_err(failed)?;
                window.truncate(read);
                start = at;
            }
            Ok((at - start) as usize)
        };
        while at < range.end {
            let here = hold(&mut window, at, ValueFraming::PEEK_BYTES)?;
            let Ok(header) = value::peek(window.get(here..).unwrap_or_default()) else {
                at += UNIT_BYTES;
                continue;
            };
            let here = hold(&mut window, at, header.payload_at())?;
            let Ok(header) = value::decode_head(window.get(here..).unwrap_or_default(), segment.seed, at) else {
                at += UNIT_BYTES;
                continue;
            };
            if header.kind != Kind::Filler && visit(at, &header).is_break() {
                return Ok(());
            }
            at += header.total_bytes();
        }
        Ok(())
    }

    /// Scans a value segment's records between two offsets.
    pub(crate) fn scan<'f>(
        &self,
        segment: &Segment,
        file: &'f dyn File,
        from: u64,
        end: u64,
    ) -> Result<Scan<'f, ValueFraming>> {
        self.segments.scan_framed(segment, file, ValueFraming { seed: segment.seed }, from..end)
    }
}
