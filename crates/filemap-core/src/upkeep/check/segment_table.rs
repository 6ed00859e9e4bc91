//! Comparison of the segment table with the live bytes found by a verification.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::format::key::UNIT_BYTES as KEY_UNIT;
use crate::format::location::UNIT_BYTES;
use crate::format::names;
use crate::index::segment_table::{SegmentRow, SegmentTable};
use crate::upkeep::check::Check;

impl Check<'_, '_> {
    /// Compares the segment table with the findings.
    pub(super) fn segment_table(&mut self) {
        let told = SegmentTable::clone(&self.reading.segment_table());
        let found = std::mem::take(&mut self.found);
        let there = self.reading.values().segments.all().iter().map(|s| (s.id, s.ordinal)).collect();
        for (name, what) in disagreements(told, found, &there) {
            self.problem(name, 0, what);
        }
    }
}

/// Returns the files for which table and findings differ, and how. `there` has id and ordinal of
/// the existing value segments. Compaction may have removed an empty segment since the scan or
/// since the table was written, so both are filtered by the segments that exist now.
fn disagreements(
    mut told: SegmentTable,
    mut found: SegmentTable,
    there: &HashSet<(u16, u64)>,
) -> Vec<(String, String)> {
    for segment_table in [&mut told, &mut found] {
        segment_table.values.retain(|id, a| a.live_units > 0 || there.contains(&(*id, a.ordinal)));
    }
    let of = |segment_table: &BTreeMap<u16, SegmentRow>, id: u16| {
        segment_table.get(&id).map_or((0, 0), |a| (a.live_units, a.tombstone_units))
    };
    let families = [(&told.values, &found.values, UNIT_BYTES), (&told.keys, &found.keys, KEY_UNIT)];
    let mut all = Vec::new();
    for (nth, (told, found, unit)) in families.into_iter().enumerate() {
        let ids: BTreeSet<u16> = told.keys().chain(found.keys()).copied().collect();
        for id in ids.into_iter().filter(|id| of(told, *id) != of(found, *id)) {
            let ((live, tombstones), (found_live, found_tombstones)) = (of(told, id), of(found, id));
            let what = format!(
                "the segment table says {} bytes are live and {} tombstones, but {} and {} are",
                live * unit,
                tombstones * unit,
                found_live * unit,
                found_tombstones * unit
            );
            all.push((if nth == 0 { names::segment(id) } else { names::keys(id) }, what));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment_table(values: &[(u16, u64, u64)]) -> SegmentTable {
        let mut segment_table = SegmentTable::default();
        for &(id, live_units, tombstone_units) in values {
            segment_table.values.insert(
                id,
                SegmentRow { ordinal: u64::from(id), live_units, tombstone_units, ..SegmentRow::default() },
            );
        }
        segment_table
    }

    #[test]
    fn what_compaction_emptied_and_removed_meanwhile_is_no_disagreement() {
        let told = || segment_table(&[(1, 9, 2)]);
        let found = || segment_table(&[(0, 0, 10), (1, 9, 2)]);
        let both: HashSet<(u16, u64)> = [(0, 0), (1, 1)].into();
        assert_eq!(disagreements(told(), found(), &both).len(), 1);
        assert_eq!(disagreements(told(), found(), &[(1, 1)].into()), []);
        assert_eq!(disagreements(found(), told(), &[(1, 1)].into()), []);
    }

    #[test]
    fn what_lives_is_missed_wherever_it_was() {
        let gone = disagreements(segment_table(&[(1, 9, 0)]), SegmentTable::default(), &HashSet::new());
        assert_eq!(gone.len(), 1);
        assert!(gone[0].1.contains("576 bytes are live and 0 tombstones, but 0 and 0"), "{}", gone[0].1);
        assert_eq!(disagreements(segment_table(&[(1, 9, 0)]), segment_table(&[(1, 8, 0)]), &[(1, 1)].into()).len(), 1);
    }
}
