//! Decides which records after a superblock are complete, for recovery and followers.
//!
//! A power loss keeps any part of what was not synced: a chunk list may survive without its
//! chunks, a reference without the version that holds its body. Such a record counts as never
//! written.
//!
//! So does a record whose sequence is not above all before it. Appends number the log in order, so
//! it was written to another file that had this number before: a power loss left its blocks in the
//! new file. The checksum does not show that, since it is seeded with the place only.

use std::collections::HashSet;

use crate::failpoint::{Fault, planted};
use crate::format::location::Location;
use crate::format::superblock::{Superblock, Tail};
use crate::format::value::{self, Kind};
use crate::index::memtable::Memtable;
use crate::logs::segments::{Segment, Segments};

/// Log state since a superblock.
#[derive(Debug)]
pub(crate) struct Met {
    /// Everything before this position was synced.
    tail: Tail,
    /// Records with a lower sequence were synced.
    synced_below: u64,
    /// Greater than the sequences of all records since.
    next_sequence: u64,
    /// Locations of whole chunks since.
    chunks: HashSet<Location>,
}

impl Met {
    /// Empty state at a superblock.
    pub(crate) fn since(superblock: &Superblock) -> Met {
        let next_sequence = superblock.next_sequence;
        Met { tail: superblock.tail, synced_below: next_sequence, next_sequence, chunks: HashSet::new() }
    }

    /// Adds a record that counts.
    pub(crate) fn add(&mut self, segment: &Segment, offset: u64, bytes: &[u8]) {
        let Ok(header) = value::peek(bytes) else { return };
        self.next_sequence = self.next_sequence.max(header.sequence.saturating_add(1));
        if header.kind == Kind::Chunk {
            self.chunks.insert(Location::new(segment.id, offset));
        }
    }

    /// Returns true if the next record of the log counts: it was written after those added, and
    /// everything that it needs exists. What lies before the tail was synced, and is not read
    /// here; what lies after it must have been added, since it was written first. `table` has the
    /// versions added.
    pub(crate) fn is_whole(
        &self,
        bytes: &[u8],
        segments: &Segments,
        table: &Memtable,
        hash: impl Fn(&[u8]) -> u64,
    ) -> bool {
        let Ok(header) = value::peek(bytes) else { return false };
        // This fault disables all detection of foreign records.
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
                let holder = value::referred_to(payload);
                let key = &bytes[header.key_at()..header.meta_at()];
                // A reference that names the same version was checked here before it was added.
                let is_met = || table.find(hash(key), key).is_some_and(|f| table.has_version(&f, holder));
                holder < self.synced_below || is_met()
            }
            _ => true,
        }
    }

    fn has_chunk(&self, location: Location, segments: &Segments) -> bool {
        // A crash does not remove whole segments: reading the value reports a missing one.
        let ordinal = segments.get(location.segment).map(|s| s.ordinal);
        let is_synced = |ordinal| Tail { ordinal, offset: location.offset() } < self.tail;
        self.chunks.contains(&location) || ordinal.map_or(true, is_synced)
    }
}
