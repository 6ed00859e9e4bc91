//! The value log: rolled segments of self-describing records. It is the truth: every other file can be rebuilt from it.

pub(crate) mod append;
pub(crate) mod codec;
pub(crate) mod read;
pub(crate) mod segments;

use crate::format::value::{self, FIXED_BYTES, Kind};
use crate::format::{Flaw, location};
use crate::log::scan::{Extent, Framing};

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
