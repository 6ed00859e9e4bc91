//! The value log: rolled segments of self-describing records. It is the truth: every other file can be rebuilt from it.

pub(crate) mod append;
pub(crate) mod codec;
pub(crate) mod read;

use filemap_io::File;

use crate::error::Result;
use crate::format::value::{self, FIXED_BYTES, Kind};
use crate::format::{Flaw, header, location, names, seed};
use crate::log::scan::{Extent, Framing, Scan};
use crate::segments::{Family, Segment, Segments};

/// The segments of the value log.
pub(crate) static VALUES: Family =
    Family { kind: header::Kind::Values, name: names::segment, parse: names::parse_segment, seed, longest: 1 << 30 };

/// The framing of one segment.
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

/// Records whose heads are whole, whatever has become of their payloads.
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

impl Segments {
    /// A scan of a value segment's records between two offsets.
    pub(crate) fn scan<'f>(
        &self,
        segment: &Segment,
        file: &'f dyn File,
        from: u64,
        end: u64,
    ) -> Result<Scan<'f, ValueFraming>> {
        self.scan_framed(segment, file, ValueFraming { seed: segment.seed }, from..end)
    }
}
