//! What was met of the log since a superblock, and which records count for it: recovery and read-only handles ask the same.
//!
//! A power loss keeps any part of what was not synced: a list of chunks may be there without its chunks, a reference without
//! the version that holds its body. Such a record was never written, as far as anybody can tell.
//!
//! So is one whose sequence is not above all before it. Appends give sequences in the order of the log; what breaks it was written
//! by somebody else at this place: a file that once had this number, of which a power loss has left blocks in the new one. Its
//! checksum, which is of the place, does not tell it.

use std::collections::HashSet;

use crate::failpoint::{Fault, planted};
use crate::format::location::Location;
use crate::format::superblock::{Superblock, Tail};
use crate::format::value::{self, Kind};
use crate::index::memtable::Memtable;
use crate::logs::segments::{Segment, Segments};

/// See the module.
#[derive(Debug)]
pub(crate) struct Met {
    /// What lies before was synced.
    tail: Tail,
    /// What has a lower sequence was synced.
    synced_below: u64,
    /// Above the sequences of all records since.
    next_sequence: u64,
    /// Whole chunks since.
    chunks: HashSet<Location>,
}

impl Met {
    /// Nothing yet.
    pub(crate) fn since(superblock: &Superblock) -> Met {
        let next_sequence = superblock.next_sequence;
        Met { tail: superblock.tail, synced_below: next_sequence, next_sequence, chunks: HashSet::new() }
    }

    /// Notes a record that counts.
    pub(crate) fn add(&mut self, segment: &Segment, offset: u64, bytes: &[u8]) {
        let Ok(header) = value::peek(bytes) else { return };
        self.next_sequence = self.next_sequence.max(header.sequence.saturating_add(1));
        if header.kind == Kind::Chunk {
            self.chunks.insert(Location::new(segment.id, offset));
        }
    }

    /// Whether the next record of the log counts: it was written after those that were met, and all that it needs is there. What lies
    /// before the tail was synced, and is not read here; what lies after it must have been met, for it was written first.
    /// `table` has the versions that were met.
    pub(crate) fn is_whole(
        &self,
        bytes: &[u8],
        segments: &Segments,
        table: &Memtable,
        hash: impl Fn(&[u8]) -> u64,
    ) -> bool {
        let Ok(header) = value::peek(bytes) else { return false };
        // The fault stands for all that tells a record which was not written here.
        if header.sequence < self.next_sequence && !planted(Fault::LocationsNotSeeded) {
            return false;
        }
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
