//! Whether what a whole record holds can be expanded, and what it is to a large body.

use crate::dictionaries::{Part as RecordPart, Registry};
use crate::error::Error;
use crate::format::location::Extent;
use crate::format::value::{self, Kind};
use crate::state::digest;
use crate::values::read;

/// What a record is to a large body.
pub(super) enum Part {
    Chunk,
    List(Vec<Extent>),
    Tombstone,
    Other,
}

/// Why a record cannot be expanded.
pub(super) enum Flaw {
    /// It is wrong itself.
    Record(&'static str),
    /// The dictionary of this id is.
    Dictionary(u32, Error),
}

impl From<&'static str> for Flaw {
    fn from(what: &'static str) -> Flaw {
        Flaw::Record(what)
    }
}

/// Checks that a record's parts decompress to their recorded lengths.
pub(super) fn expand(dictionaries: &Registry, bytes: &[u8], out: &mut Vec<u8>) -> std::result::Result<Part, Flaw> {
    let header = value::peek(bytes)?;
    let part = |part, stored: &[u8], raw_bytes, out: &mut Vec<u8>| -> std::result::Result<(), Flaw> {
        out.clear();
        let expanded = read::expand(dictionaries, &header, part, stored, raw_bytes, out);
        Ok(expanded.map_err(|e| Flaw::Dictionary(header.dictionary, e))??)
    };
    let meta = &bytes[header.meta_at()..header.payload_at()];
    let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
    part(RecordPart::Meta, meta, header.meta_raw_bytes as usize, out)?;
    if matches!(header.kind, Kind::Page | Kind::Chunk) {
        part(RecordPart::Body, payload, header.raw_bytes as usize, out)?;
    }
    match header.kind {
        Kind::Page if digest(out) != header.digest => Err("the body's digest does not match".into()),
        Kind::Chunk => Ok(Part::Chunk),
        Kind::Chunked => {
            let list = value::decode_chunks(payload, header.raw_bytes)?;
            Ok(Part::List(list.into_iter().map(|c| Extent { location: c.location, units: c.units }).collect()))
        }
        Kind::Tombstone => Ok(Part::Tombstone),
        Kind::Page | Kind::Reference | Kind::Filler => Ok(Part::Other),
    }
}
