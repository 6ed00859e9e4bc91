//! Keys of damaged records: found by the key log, which leads to them, or by their own heads if
//! those are intact.

use std::collections::BTreeMap;

use filemap_io::File;

use crate::error::Result;
use crate::format::location::{Location, UNIT_BYTES};
use crate::format::names;
use crate::format::value;
use crate::logs::scan::{Item, Scan};
use crate::logs::segments::Segment;
use crate::logs::values::{HeadFraming, ValueFraming};
use crate::upkeep::check::Check;

/// Greatest number of keys kept.
pub(super) const NAMED_MAX: usize = 1 << 20;

/// Keys of damaged records, by segment and unit.
pub(super) type Whose = BTreeMap<(u16, u32), Vec<u8>>;

/// Returns the keys of records in a gap whose heads are intact.
pub(super) fn of_gap(segment: &Segment, file: &dyn File, offset: u64, bytes: u64) -> Result<Whose> {
    let framing = HeadFraming(ValueFraming { seed: segment.seed });
    let mut scan = Scan::new(file, segment.name(), framing, offset, offset + bytes)?;
    let mut whose = Whose::new();
    while let Some(item) = scan.next()? {
        if let Item::Record { offset, bytes } = item
            && let Ok(header) = value::peek(bytes)
            && let Some(key) = bytes.get(header.key_at()..header.meta_at()).filter(|key| !key.is_empty())
        {
            whose.insert((segment.id, (offset / UNIT_BYTES) as u32), key.to_vec());
        }
    }
    Ok(whose)
}

impl Check<'_, '_> {
    /// Keeps the key of a record that the key log leads to but the scan did not find intact.
    pub(super) fn note_whose(&mut self, key: &[u8], place: Location) {
        if self.whose.len() < NAMED_MAX && self.places.were_scanned(place) && !self.places.has(place) {
            self.whose.entry((place.segment, place.unit)).or_insert_with(|| key.to_vec());
        }
    }

    /// Adds to each damaged place of the value log the keys of the records that begin there.
    pub(super) fn name_problems(&mut self) {
        let whose = std::mem::take(&mut self.whose);
        let segments: BTreeMap<String, u16> = whose.keys().map(|(id, _)| (names::segment(*id), *id)).collect();
        for problem in &mut self.report.problems {
            let Some(&id) = segments.get(&problem.file) else { continue };
            let first = (problem.offset / UNIT_BYTES) as u32;
            let units = problem.bytes.div_ceil(UNIT_BYTES).max(1).min(u64::from(u32::MAX)) as u32;
            let last = first.saturating_add(units - 1);
            problem.keys = whose.range((id, first)..=(id, last)).map(|(_, key)| key.clone()).collect();
        }
    }
}
