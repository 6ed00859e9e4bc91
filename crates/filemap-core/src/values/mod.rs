//! The value log: rolled segments of self-describing records. It is the truth: every other file can be rebuilt from it.

pub(crate) mod append;
pub(crate) mod codec;
pub(crate) mod read;
pub(crate) mod segments;

use crate::format::value::{self, FIXED_BYTES};
use crate::format::{Flaw, location};
use crate::log::scan::Framing;

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

    fn head(&self, b: &[u8], offset: u64) -> std::result::Result<u64, Flaw> {
        value::decode_head(b, self.seed, offset).map(|h| h.total_bytes())
    }

    fn check(&self, b: &[u8]) -> std::result::Result<(), Flaw> {
        value::check_payload(&value::peek(b)?, b)
    }
}
