//! Where whole records of the value log were met, for whoever follows what leads there.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Error;
use crate::format::location::Location;
use crate::format::superblock::Tail;
use crate::handle::reading::Reading;
use crate::sync::{Ranked, lock, rank};
use crate::upkeep::check::starts::Starts;

/// The places of whole records, by segment.
#[derive(Clone)]
pub(super) struct Places<'a> {
    reading: &'a Reading,
    segments: Arc<HashMap<u16, Starts>>,
    /// Where the scan ends: what the index leads to beyond was written since.
    pub(super) end: Tail,
    /// Why something could not be told.
    failed: Arc<Ranked<{ rank::FAILED }, Option<Error>>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(reading: &'a Reading, end: Tail) -> Places<'a> {
        Places { reading, segments: Arc::default(), end, failed: Arc::default() }
    }

    /// Why it could not be told of some place what is there, if so.
    pub(super) fn failed(&self) -> Option<Error> {
        lock(&self.failed).take()
    }

    /// Takes over what was met in one segment. Copies all if a clone is held.
    pub(super) fn add(&mut self, segment: u16, starts: Starts) {
        Arc::make_mut(&mut self.segments).insert(segment, starts);
    }

    /// Whether a whole record starts there.
    pub(super) fn has(&self, place: Location) -> bool {
        self.segments.get(&place.segment).is_some_and(|s| s.has(u64::from(place.unit)))
    }

    /// Whether a place was scanned.
    pub(super) fn were_scanned(&self, place: Location) -> bool {
        let found = self.reading.values().segments.get(place.segment).or_else(|_| {
            // A reader may not have heard of what was written since.
            self.reading.catch_up().and_then(|_| self.reading.values().segments.get(place.segment))
        });
        match found {
            // What compaction has written since was not.
            Ok(s) if s.is_output => self.segments.contains_key(&s.id),
            Ok(s) => Tail { ordinal: s.ordinal, offset: place.offset() } < self.end,
            // Damage is there only if the directory could be looked at.
            Err(e) => {
                let is_known = !matches!(e, Error::Io { .. });
                if !is_known {
                    lock(&self.failed).get_or_insert(e);
                }
                is_known
            }
        }
    }
}
