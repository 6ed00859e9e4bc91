//! Checks that the content of an intact record can be decompressed.

use crate::error::Error;
use crate::format::value::{self, Kind};
use crate::logs::values::dictionaries::{Part as RecordPart, Registry};
use crate::logs::values::draft::digest;
use crate::logs::values::read;

/// Reason why a record cannot be decompressed.
#[derive(Debug)]
pub(super) enum Flaw {
    /// The record is damaged.
    Record(&'static str),
    /// The dictionary with this id, which the record of this key needs, is missing or damaged.
    Dictionary(u32, Vec<u8>, Error),
}

impl From<&'static str> for Flaw {
    fn from(what: &'static str) -> Flaw {
        Flaw::Record(what)
    }
}

/// Checks that a record's parts decompress to their recorded lengths, that a page matches its
/// digest, and that a list of chunks adds up.
pub(super) fn expand(dictionaries: &Registry, bytes: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), Flaw> {
    let header = value::peek(bytes)?;
    let part = |part, stored: &[u8], raw_bytes, out: &mut Vec<u8>| -> std::result::Result<(), Flaw> {
        out.clear();
        let expanded = read::expand(dictionaries, &header, part, stored, raw_bytes, out);
        let key = || bytes[header.key_at()..header.meta_at()].to_vec();
        Ok(expanded.map_err(|e| Flaw::Dictionary(header.dictionary, key(), e))??)
    };
    let meta = &bytes[header.meta_at()..header.payload_at()];
    let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
    part(RecordPart::Meta, meta, header.meta_raw_bytes as usize, out)?;
    if matches!(header.kind, Kind::Page | Kind::Chunk) {
        part(RecordPart::Body, payload, header.raw_bytes as usize, out)?;
    }
    match header.kind {
        Kind::Page if digest(out) != header.digest => Err("the body's digest does not match".into()),
        Kind::Chunked => Ok(value::decode_chunks(payload, header.raw_bytes).map(|_| ())?),
        _ => Ok(()),
    }
}
