//! A stretch of a victim, read before its first record is judged: so the pages of the index and the
//! key records that tell what is live are asked for together, and not waited for one by one.

use std::ops::Range;

use crate::error::Result;
use crate::format::location::Location;
use crate::format::value::{self, Kind};
use crate::handle::reading::Reading;
use crate::logs::scan::{Item, Scan};
use crate::logs::values::ValueFraming;

/// Bytes and items of a window, but for its last item.
const BYTES: usize = 1 << 20;
const ITEMS: usize = 4096;

/// An item of a scan.
pub(super) struct Held {
    pub(super) offset: u64,
    /// Where the next item begins.
    pub(super) end: u64,
    /// A record's place in the window; `None` for a gap or a filler.
    place: Option<Range<usize>>,
    pub(super) is_gap: bool,
}

/// Items of a scan that follow each other.
#[derive(Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    pub(super) items: Vec<Held>,
}

impl Window {
    /// Replaces the items by the next ones. Returns false at the end.
    pub(super) fn fill(&mut self, scan: &mut Scan<'_, ValueFraming>) -> Result<bool> {
        self.bytes.clear();
        self.items.clear();
        while self.bytes.len() < BYTES && self.items.len() < ITEMS {
            let offset = scan.offset();
            let (place, is_gap) = match scan.next()? {
                None => break,
                Some(Item::Record { bytes, .. }) => {
                    let from = self.bytes.len();
                    self.bytes.extend_from_slice(bytes);
                    (Some(from..self.bytes.len()), false)
                }
                Some(Item::Gap { .. }) => (None, true),
                Some(Item::Filler { .. }) => (None, false),
            };
            self.items.push(Held { offset, end: scan.offset(), place, is_gap });
        }
        Ok(!self.items.is_empty())
    }

    /// The record of an item.
    pub(super) fn record(&self, item: &Held) -> Option<&[u8]> {
        item.place.clone().map(|place| &self.bytes[place])
    }

    /// Asks for what the judging of records reads: pages of the index, then key records of those
    /// to which their slot does not lead.
    pub(super) fn will_judge(&self, reading: &Reading, segment: u16) {
        let keyed = self.items.iter().filter_map(|item| {
            let bytes = self.record(item)?;
            let header = value::peek(bytes).ok()?;
            if matches!(header.kind, Kind::Tombstone | Kind::Filler) {
                return None;
            }
            let hash = reading.hash(&bytes[header.key_at()..header.meta_at()]);
            Some((hash, Location::new(segment, item.offset)))
        });
        let keyed: Vec<(u64, Location)> = keyed.collect();
        keyed.iter().for_each(|(hash, _)| reading.index().will_look(*hash));
        for (hash, at) in keyed {
            // Damage is met again by who judges.
            let Ok(found) = reading.candidates(hash) else { continue };
            if found.iter().all(|slot| slot.location != at) {
                found.iter().for_each(|slot| reading.keys().will_need(slot.key));
            }
        }
    }
}
