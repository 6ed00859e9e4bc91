//! Locations of the intact records of the value log, for checking references to them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, StorageError};
use crate::format::location::Location;
use crate::format::superblock::Tail;
use crate::handle::reading::Reading;
use crate::sync::{Ranked, lock, rank};
use crate::upkeep::check::starts::Starts;

/// Locations of intact records, by segment.
#[derive(Clone)]
pub(super) struct Places<'a> {
    reading: &'a Reading,
    segments: Arc<HashMap<u16, Starts>>,
    /// End of the scan. Records beyond it were written since.
    pub(super) end: Tail,
    /// First error that left a place undecided.
    failed: Arc<Ranked<{ rank::FAILED }, Option<Error>>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(reading: &'a Reading, end: Tail) -> Places<'a> {
        Places { reading, segments: Arc::default(), end, failed: Arc::default() }
    }

    /// Takes the first error that left a place undecided.
    pub(super) fn failed(&self) -> Option<Error> {
        lock(&self.failed).take()
    }

    /// Adds the records of a segment. Copies everything while a clone exists.
    pub(super) fn add(&mut self, segment: u16, starts: Starts) {
        Arc::make_mut(&mut self.segments).insert(segment, starts);
    }

    /// Returns true if an intact record starts there.
    pub(super) fn has(&self, place: Location) -> bool {
        self.segments.get(&place.segment).is_some_and(|s| s.has(u64::from(place.unit)))
    }

    /// Returns true if the place was scanned, so that a missing record there is damage.
    pub(super) fn were_scanned(&self, place: Location) -> bool {
        let found = self.reading.values().segments.get(place.segment).or_else(|_| {
            // A follower may not have seen new segments yet.
            self.reading.catch_up().and_then(|_| self.reading.values().segments.get(place.segment))
        });
        match found {
            // An output of compaction begun after the scan was not scanned.
            Ok(s) if s.is_output => self.segments.contains_key(&s.id),
            Ok(s) => Tail { ordinal: s.ordinal, offset: place.offset() } < self.end,
            // A missing segment is damage only if the directory could be read.
            Err(e) => {
                let is_known = !matches!(e, Error::Storage(StorageError::Io { .. }));
                if !is_known {
                    lock(&self.failed).get_or_insert(e);
                }
                is_known
            }
        }
    }
}
