//! What was met of the log since a superblock, and which records count for it: recovery and read-only handles ask the same.
//!
//! A power loss keeps any part of what was not synced: a list of chunks may be there without its chunks, a reference without
//! the version that holds its body. Such a record was never written, as far as anybody can tell.

use std::collections::HashSet;

use crate::buggify::{Fault, planted};
use crate::format::location::Location;
use crate::format::superblock::{Superblock, Tail};
use crate::format::value::{self, Kind};
use crate::recent::Recent;
use crate::segments::{Segment, Segments};

/// See the module.
#[derive(Debug)]
pub(crate) struct Met {
    /// What lies before was synced.
    tail: Tail,
    /// What has a lower sequence was synced.
    synced_below: u64,
    /// Whole chunks since.
    chunks: HashSet<Location>,
}

impl Met {
    /// Nothing yet.
    pub(crate) fn since(superblock: &Superblock) -> Met {
        Met { tail: superblock.tail, synced_below: superblock.next_sequence, chunks: HashSet::new() }
    }

    /// Notes a whole record.
    pub(crate) fn add(&mut self, segment: &Segment, offset: u64, bytes: &[u8]) {
        if value::peek(bytes).is_ok_and(|h| h.kind == Kind::Chunk) {
            self.chunks.insert(Location::new(segment.id, offset));
        }
    }

    /// Whether all that a record needs is there. What lies before the tail was synced, and is not read here; what lies after
    /// it must have been met, for it was written first. `table` has the versions that were met.
    pub(crate) fn is_whole(
        &self,
        bytes: &[u8],
        segments: &Segments,
        table: &Recent,
        hash: impl Fn(&[u8]) -> u64,
    ) -> bool {
        let Ok(header) = value::peek(bytes) else { return false };
        let payload = &bytes[header.payload_at()..][..header.payload_bytes as usize];
        match header.kind {
            Kind::Chunked if planted(Fault::ChunksTrusted) => true,
            Kind::Reference if planted(Fault::ReferencesTrusted) => true,
            Kind::Chunked => {
                let chunks = value::decode_chunks(payload, header.raw_bytes);
                chunks.is_ok_and(|list| list.iter().all(|c| self.has_chunk(c.location, segments)))
            }
            Kind::Reference => {
                let holder = payload.first_chunk().map_or(0, |s| u64::from_le_bytes(*s));
                let key = &bytes[header.key_at()..header.meta_at()];
                let is_met = || table.find(hash(key), key).is_some_and(|f| table.version(&f, holder).is_some());
                holder < self.synced_below || is_met()
            }
            _ => true,
        }
    }

    fn has_chunk(&self, location: Location, segments: &Segments) -> bool {
        // A segment that is missing altogether was not removed by a crash: reading the value will say so.
        let ordinal = segments.get(location.segment).map(|s| s.ordinal);
        let is_synced = |ordinal| Tail { ordinal, offset: location.offset() } < self.tail;
        self.chunks.contains(&location) || ordinal.map_or(true, is_synced)
    }
}
