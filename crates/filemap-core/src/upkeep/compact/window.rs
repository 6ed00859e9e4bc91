//! A part of a victim, read before its first record is judged. So records are looked up in the
//! order of the index, and its pages are requested together instead of one by one.

use std::ops::Range;

use crate::error::Result;
use crate::format::location::Location;
use crate::format::value::{self, Kind};
use crate::handle::reading::Reading;
use crate::logs::scan::{Item, Scan};
use crate::logs::values::ValueFraming;
use crate::sync::make_way;

/// Greatest number of bytes and of items in a window, not counting its last item.
const BYTES: usize = 1 << 20;
const ITEMS: usize = 4096;
/// Records looked up in about a tenth of a millisecond.
const SOME: usize = 64;

/// An item of a scan.
pub(super) struct Held {
    pub(super) offset: u64,
    /// Offset of the next item.
    pub(super) end: u64,
    /// A record's place in the window; `None` for a gap or a filler.
    place: Option<Range<usize>>,
    pub(super) is_gap: bool,
    /// A slot of the index led to the record.
    pub(super) is_led_to: bool,
}

/// Consecutive items of a scan.
#[derive(Default)]
pub(super) struct Window {
    bytes: Vec<u8>,
    pub(super) items: Vec<Held>,
}

impl Window {
    /// Replaces the items with the next ones. Returns false at the end.
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
            self.items.push(Held { offset, end: scan.offset(), place, is_gap, is_led_to: false });
        }
        Ok(!self.items.is_empty())
    }

    /// The bytes of an item's record.
    pub(super) fn record(&self, item: &Held) -> Option<&[u8]> {
        item.place.clone().map(|place| &self.bytes[place])
    }

    /// Looks up all records, in the order of the index, so that a page read for one lookup serves
    /// the next. If the index `is_long`, first requests its pages, and then the key records of
    /// entries that their slot does not lead to.
    pub(super) fn look_up(&mut self, reading: &Reading, segment: u16, is_long: bool) {
        let mut keyed: Vec<(u64, usize)> = Vec::with_capacity(self.items.len());
        for (nth, item) in self.items.iter().enumerate() {
            let Some(bytes) = self.record(item) else { continue };
            let Ok(header) = value::peek(bytes) else { continue };
            if !matches!(header.kind, Kind::Tombstone | Kind::Filler) {
                keyed.push((reading.hash(&bytes[header.key_at()..header.meta_at()]), nth));
            }
        }
        keyed.sort_unstable();
        for some in keyed.chunks(SOME).filter(|_| is_long) {
            make_way();
            reading.index().will_look(some.iter().map(|(hash, _)| *hash));
        }
        for some in keyed.chunks(SOME) {
            if reading.check_open().is_err() {
                return;
            }
            make_way();
            for (hash, nth) in some {
                // The judge finds the damage again.
                let Ok(found) = reading.candidates(*hash) else { continue };
                let at = Location::new(segment, self.items[*nth].offset);
                self.items[*nth].is_led_to = found.iter().any(|slot| slot.location == at);
                if is_long && !self.items[*nth].is_led_to {
                    found.iter().for_each(|slot| reading.keys().will_need(slot.key));
                }
            }
        }
    }
}
