//! Chooses the segments that a compaction rewrites, and groups them.
//!
//! Segments with the largest share of dead bytes come first, until the bound holds; tombstones
//! count as dead, because a compaction may drop them. Small segments, which frequent syncs leave,
//! are merged when there are many, so that merging copies each record only a few times.

use std::collections::BTreeMap;

use crate::format::row::Bytes;
use crate::format::segment::SegmentId;

/// A segment is small below 1/`SMALL_PART` of a full one.
pub(crate) const SMALL_PART: u64 = 8;
/// The number of small segments that triggers a merge.
pub(crate) const SMALL_AT_ONCE: usize = 16;
/// The largest group of segments to merge: bounds the names in the new segment.
const MAX_GROUP: usize = 256;

/// The goal of a compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Want {
    /// A bound of total over live bytes.
    Bound(f64),
    /// No dead bytes.
    NoGarbage,
    /// Every segment anew.
    All,
}

/// Groups of segments, each to become one.
pub(crate) fn plan(rows: &BTreeMap<SegmentId, Bytes>, want: Want, segment_bytes: u64) -> Vec<Vec<SegmentId>> {
    let mut chosen = if want == Want::All { rows.keys().copied().collect() } else { over_bound(rows, want) };
    let small = |bytes: &Bytes| bytes.written < segment_bytes / SMALL_PART;
    let smalls: Vec<SegmentId> = rows.iter().filter(|(_, bytes)| small(bytes)).map(|(id, _)| *id).collect();
    let at_once = if matches!(want, Want::NoGarbage | Want::All) { 2 } else { SMALL_AT_ONCE };
    if smalls.len() >= at_once {
        chosen.extend(smalls);
    }
    // In order of names: records put together stay together.
    chosen.sort_unstable();
    chosen.dedup();
    let mut groups: Vec<Vec<SegmentId>> = Vec::new();
    let mut live: u64 = 0;
    for id in chosen {
        let of_segment = rows.get(&id).map_or(0, |bytes| bytes.written - bytes.dead.min(bytes.written));
        match groups
            .last_mut()
            .filter(|group| live.saturating_add(of_segment) <= segment_bytes && group.len() < MAX_GROUP)
        {
            Some(group) => {
                live += of_segment;
                group.push(id);
            }
            None => {
                live = of_segment;
                groups.push(vec![id]);
            }
        }
    }
    groups
}

fn over_bound(rows: &BTreeMap<SegmentId, Bytes>, want: Want) -> Vec<SegmentId> {
    let mut dead: Vec<(SegmentId, Bytes)> =
        rows.iter().filter(|(_, bytes)| bytes.garbage() > 0).map(|(id, bytes)| (*id, *bytes)).collect();
    let share = |bytes: &Bytes| bytes.garbage() as f64 / bytes.written.max(1) as f64;
    dead.sort_by(|(_, one), (_, other)| share(other).total_cmp(&share(one)));
    let mut written = rows.values().fold(0, |sum: u64, bytes| sum.saturating_add(bytes.written));
    let live = rows.values().fold(0, |sum: u64, bytes| sum.saturating_add(bytes.live()));
    let is_over = |written: u64| match want {
        Want::Bound(bound) => written as f64 > bound * live as f64,
        Want::NoGarbage | Want::All => true,
    };
    let mut chosen = Vec::new();
    for (id, bytes) in dead {
        if !is_over(written) {
            break;
        }
        written = written.saturating_sub(bytes.garbage());
        chosen.push(id);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: &[(u64, u64)]) -> BTreeMap<SegmentId, Bytes> {
        let id = |number| SegmentId { epoch: 1, number };
        bytes
            .iter()
            .zip(0..)
            .map(|(&(written, dead), number)| (id(number), Bytes { written, dead, notes: 0 }))
            .collect()
    }

    fn numbers(groups: Vec<Vec<SegmentId>>) -> Vec<Vec<u64>> {
        groups.into_iter().map(|group| group.into_iter().map(|id| id.number).collect()).collect()
    }

    #[test]
    fn the_deadest_go_until_the_bound_holds_and_those_that_fit_become_one() {
        let some = rows(&[(1000, 100), (1000, 900), (1000, 600), (1000, 0), (1000, 1000)]);
        assert_eq!(numbers(plan(&some, Want::Bound(100.0), 1000)), [[0; 0]; 0]);
        assert_eq!(numbers(plan(&some, Want::Bound(1.5), 1000)), [[1, 4]], "2,600 dead of 5,000");
        assert_eq!(numbers(plan(&some, Want::Bound(1.25), 1000)), [[1, 2, 4]]);
        assert_eq!(numbers(plan(&some, Want::NoGarbage, 1000)), [vec![0, 1], vec![2, 4]]);
        assert_eq!(numbers(plan(&some, Want::NoGarbage, 400)), [vec![0], vec![1], vec![2, 4]]);
        assert_eq!(numbers(plan(&some, Want::All, 2000)), [vec![0, 1, 2], vec![3, 4]]);
        assert!(plan(&rows(&[]), Want::NoGarbage, 1000).is_empty());
    }

    #[test]
    fn small_ones_are_merged_when_they_are_many() {
        let many: Vec<(u64, u64)> = (0..17).map(|nth| if nth == 3 { (1000, 0) } else { (100, 0) }).collect();
        let groups = numbers(plan(&rows(&many), Want::Bound(1.25), 1000));
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [10, 6]);
        assert!(groups.iter().flatten().all(|&number| number != 3));
        assert!(plan(&rows(&many[..16]), Want::Bound(1.25), 1000).is_empty());
        assert_eq!(numbers(plan(&rows(&many[..3]), Want::NoGarbage, 1000)), [[0, 1, 2]]);
        assert!(plan(&rows(&many[..1]), Want::NoGarbage, 1000).is_empty());
    }
}
